"""Receipt handles: their alphabet, the older form, and that none can be made up."""

from __future__ import annotations

import string
from base64 import urlsafe_b64encode
from hashlib import blake2b
from struct import pack

import pytest

from penstock.errors import HandleInvalid
from penstock.queues.receipts import Receipt, ReceiptSigner

SECRET = b"s" * 32
RECEIPTS = [Receipt(7, seq, seq % 5 + 1, 1_700_000_000_000 + seq * 977) for seq in range(1, 200)]


def handle_of_version_1(receipt: Receipt) -> str:
    fields = b"\x01\x01\x01" + pack(
        ">QQIQ", receipt.queue, receipt.seq, receipt.receives, receipt.received_ms
    )
    tag = blake2b(fields, key=SECRET, digest_size=17, person=b"receipt").digest()
    return urlsafe_b64encode(fields + tag).decode()


@pytest.mark.parametrize("make", [ReceiptSigner(SECRET).handle, handle_of_version_1])
def test_a_handle_gives_its_receipt_back(make: object) -> None:
    for receipt in RECEIPTS:
        assert ReceiptSigner(SECRET).read(make(receipt), queue=7) == receipt  # type: ignore[operator]


def test_handles_use_the_alphabet_of_amazon() -> None:
    """Amazon's extended client cuts a handle at its last dash."""
    handles = [ReceiptSigner(SECRET).handle(receipt) for receipt in RECEIPTS]
    assert set("".join(handles)) <= set(string.ascii_letters + string.digits + "+/=")
    assert all(handle.startswith("AQEB") for handle in handles)


@pytest.mark.parametrize("make", [ReceiptSigner(SECRET).handle, handle_of_version_1])
def test_every_character_counts(make: object) -> None:
    handle: str = make(RECEIPTS[0])  # type: ignore[operator]
    for i, character in enumerate(handle):
        other = "A" if character != "A" else "B"
        with pytest.raises(HandleInvalid):
            ReceiptSigner(SECRET).read(handle[:i] + other + handle[i + 1 :], queue=7)


@pytest.mark.parametrize("handle", ["", "AQEB", "-" * 64, "=" * 68, "é" * 68, "A" * 68, "A" * 64])
def test_what_is_no_handle(handle: str) -> None:
    with pytest.raises(HandleInvalid):
        ReceiptSigner(SECRET).read(handle, queue=7)


def test_handles_of_another_queue_shard_or_secret() -> None:
    handle = ReceiptSigner(SECRET).handle(RECEIPTS[0])
    for signer, queue in (
        (ReceiptSigner(SECRET), 8),
        (ReceiptSigner(SECRET, shard=1), 7),
        (ReceiptSigner(b"t" * 32), 7),
    ):
        with pytest.raises(HandleInvalid):
            signer.read(handle, queue)
