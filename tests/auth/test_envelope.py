"""Sealed contents: they open to what they were, for the message they are of, and nothing else opens at all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.encryption import envelope
from penstock.auth.encryption.envelope import Cipher, NoKeys, is_sealed
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.clock import ManualClock
from penstock.errors import DecryptionFailed, KeyDisabled, KeyMissing, KeyUnavailable
from penstock.limits import MINUTE, SECOND
from penstock.names import KeyUse, Space

HERE = Space("111122223333", "eu-west-1")
MANAGED = KeyUse(HERE, None, 5 * MINUTE)
ORDERS = KeyUse(HERE, "alias/orders", MINUTE)
HEAD = 82


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ring = Keyring(None, RootKey(bytes(range(32))), self.clock)
        self.orders = self.ring.create(HERE, "alias/orders")
        self.cipher = Cipher(self.ring, self.clock)

    def seal(self, content: bytes = b"content", seq: int = 7, use: KeyUse = MANAGED) -> bytes:
        (sealed,) = self.cipher.seal([(use, seq, content)])
        return sealed


@pytest.fixture
def bench() -> Bench:
    return Bench()


@given(st.lists(st.tuples(st.sampled_from([MANAGED, ORDERS]), st.integers(0, 2**63 - 1), st.binary())))
def test_decryption_restores_the_content(contents: list[tuple[KeyUse, int, bytes]]) -> None:
    cipher = Bench().cipher
    sealed = cipher.seal(contents)
    assert len(set(sealed)) == len(contents)
    for (_, seq, content), each in zip(contents, sealed, strict=True):
        assert is_sealed(each)
        assert content not in each or len(content) < 4
        assert cipher.open(seq, each) == content


@given(st.data())
def test_a_changed_byte_anywhere_is_refused(data: st.DataObject) -> None:
    bench = Bench()
    sealed = bytearray(bench.seal())
    # The very first byte says that there is a seal at all; plain text is refused where it is decoded.
    sealed[data.draw(st.integers(1, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((DecryptionFailed, KeyMissing)):
        bench.cipher.open(7, bytes(sealed))


def test_a_part_of_it_is_refused(bench: Bench) -> None:
    sealed = bench.seal()
    for length in range(1, len(sealed)):
        with pytest.raises((DecryptionFailed, KeyMissing)):
            bench.cipher.open(7, sealed[:length])


def test_a_content_decrypts_for_its_own_message_only(bench: Bench) -> None:
    one, other, foreign = bench.seal(seq=1), bench.seal(seq=2), bench.seal(seq=1, use=ORDERS)
    mixed = foreign[:HEAD] + one[HEAD:], one[:HEAD] + foreign[HEAD:]
    for seq, sealed in ((1, other), (2, one), (1, mixed[0]), (1, mixed[1])):
        with pytest.raises(DecryptionFailed):
            bench.cipher.open(seq, sealed)


def test_plain_contents_are_returned(bench: Bench) -> None:
    for value in ([], ["id", "body", "sender", 1], {"a": 1}, None, True, -1, 2**63, 1.5, "text", b"bytes"):
        plain = msgspec.msgpack.encode(value)
        assert not is_sealed(plain)
        assert bench.cipher.open(7, plain) is plain
        assert NoKeys.open(7, plain) is plain


def test_another_keyring_decrypts_nothing(bench: Bench) -> None:
    sealed = bench.seal()
    for stranger in (Bench().cipher, NoKeys()):
        with pytest.raises(KeyMissing) as caught:
            stranger.open(7, sealed)
        assert caught.value.key == f"key/{bench.ring.keys.managed.id}"


def test_older_versions_still_decrypt(bench: Bench) -> None:
    old = bench.seal(use=ORDERS)
    bench.ring.rotate(HERE, "alias/orders")
    new = bench.seal(use=ORDERS)
    assert (old[2:18], old[18:22]) == (new[2:18], b"\0\0\0\1")
    assert new[18:22] == b"\0\0\0\2", "at once, whatever the reuse period says"
    assert bench.cipher.open(7, old) == bench.cipher.open(7, new) == b"content"
    assert bench.cipher.is_outdated(ORDERS, old[: Cipher.head_bytes])
    assert not bench.cipher.is_outdated(ORDERS, new[: Cipher.head_bytes])


def test_what_is_not_under_the_key_of_the_queue_needs_reencryption(bench: Bench) -> None:
    for head in (bench.seal(use=MANAGED), b"\x94plain", b""):
        assert bench.cipher.is_outdated(ORDERS, head[: Cipher.head_bytes])
    bench.ring.set_enabled(HERE, "alias/orders", False)
    assert not bench.cipher.is_outdated(ORDERS, b"\x94plain"), "not under a key that is disabled"


def test_a_disabled_key_decrypts_nothing_until_it_is_enabled(bench: Bench) -> None:
    sealed = bench.seal(use=ORDERS)
    bench.cipher.open(7, sealed)
    bench.ring.set_enabled(HERE, "alias/orders", False)
    with pytest.raises(KeyDisabled) as caught:
        bench.cipher.open(7, sealed)
    assert caught.value.key == bench.orders.arn
    bench.ring.set_enabled(HERE, "alias/orders", True)
    assert bench.cipher.open(7, sealed) == b"content"


def test_encryption_never_fails(bench: Bench) -> None:
    bench.ring.set_enabled(HERE, "alias/orders", False)
    disabled = bench.seal(use=ORDERS)
    missing = bench.seal(use=KeyUse(HERE, "alias/nobody", MINUTE))
    assert bench.cipher.open(7, missing) == b"content"
    bench.ring.set_enabled(HERE, "alias/orders", True)
    assert bench.cipher.open(7, disabled) == b"content"


def test_a_data_key_is_used_as_long_as_its_queue_allows(bench: Bench) -> None:
    slow = KeyUse(HERE, "alias/orders", 10 * MINUTE)
    first = bench.seal(use=ORDERS)[:HEAD]
    bench.clock.advance(MINUTE - 1)
    assert bench.seal(use=ORDERS)[:HEAD] == first
    bench.clock.advance(1)
    assert bench.seal(use=slow)[:HEAD] == first
    second = bench.seal(use=ORDERS)[:HEAD]
    assert second != first
    assert bench.seal(use=slow)[:HEAD] == second
    assert bench.seal(use=MANAGED)[:HEAD] not in (first, second)


def test_a_data_key_encrypts_a_limited_number_of_messages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "_SEALS_PER_DATA_KEY", 3)
    heads = [bench.seal()[:HEAD] for _ in range(7)]
    assert [heads.count(head) for head in dict.fromkeys(heads)] == [3, 3, 1]


def test_nonces_are_never_used_twice(bench: Bench) -> None:
    sealed = bench.cipher.seal([(MANAGED, seq, b"same") for seq in range(1000)])
    assert len({each[HEAD : HEAD + 12] for each in sealed}) == 1000
    assert len({each[:HEAD] for each in sealed}) == 1


def test_check_reports_missing_and_disabled_keys(bench: Bench) -> None:
    for name in ("alias/orders", bench.orders.id, bench.orders.arn, "alias/aws/sqs"):
        bench.cipher.check(HERE, name)
    with pytest.raises(KeyMissing):
        bench.cipher.check(HERE, "alias/nobody")
    bench.ring.set_enabled(HERE, "alias/orders", False)
    with pytest.raises(KeyDisabled):
        bench.cipher.check(HERE, "alias/orders")


def test_without_a_root_key_there_are_no_keys_and_no_encryption() -> None:
    with pytest.raises(KeyUnavailable) as caught:
        NoKeys().check(HERE, "alias/aws/sqs")
    assert caught.value.key == "arn:aws:kms:eu-west-1:111122223333:alias/aws/sqs"
    assert NoKeys().seal([(MANAGED, 1, b"content")]) == [b"content"]
    assert not NoKeys().is_outdated(MANAGED, b"")


def test_the_age_of_a_data_key_ignores_the_wall_clock(bench: Bench) -> None:
    first = bench.seal()[:HEAD]
    bench.clock.wall_offset_ms = 365 * 24 * 3600 * SECOND
    assert bench.seal()[:HEAD] == first, "a wall clock that is set does not matter"
