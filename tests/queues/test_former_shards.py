"""What clients know of a message is still true after it was migrated to another store."""

from __future__ import annotations

import pytest

from penstock.errors import HandleInvalid
from penstock.limits import Limits
from penstock.queues.deduplication import SendDigests
from penstock.queues.former_shards import FormerShard, FormerShards
from penstock.queues.messages import Sent
from penstock.queues.receipts import ALL_HASHED, MessageIds, Receipt, ReceiptSigner
from queues.harness import SECRET, Queues

OLD, OLDER = b"o" * 32, b"p" * 32
FORMER = FormerShards([
    FormerShard(first=1, end=100, raised_by=0, shard=3, secret=OLD),
    FormerShard(first=100, end=150, raised_by=99, shard=4, secret=OLDER, ids_from=20),
])  # fmt: skip


def test_handles_of_former_shards_are_read_in_the_numbers_of_today() -> None:
    signer = ReceiptSigner(SECRET, 0, FORMER.read)
    own = Receipt(160, 170, 1, 5)
    assert signer.read(signer.handle(own), 160) == own
    kept = Receipt(7, 8, 2, 5)
    assert signer.read(ReceiptSigner(OLD, 3).handle(kept), 7) == kept
    raised = ReceiptSigner(OLDER, 4).handle(Receipt(7, 8, 2, 5))
    assert signer.read(raised, 106) == Receipt(106, 107, 2, 5)
    with pytest.raises(HandleInvalid):
        signer.read(raised, 7)


@pytest.mark.parametrize(
    ("secret", "shard", "seq"),
    [(OLD, 4, 8), (b"x" * 32, 3, 8), (OLD, 3, 100)],
    ids=["of another shard", "forged", "given out after the migration"],
)
def test_other_handles_are_invalid(secret: bytes, shard: int, seq: int) -> None:
    with pytest.raises(HandleInvalid):
        FORMER.read(ReceiptSigner(secret, shard).handle(Receipt(7, seq, 1, 5)), 7)


def test_a_duplicate_is_answered_as_the_first_send_was() -> None:
    assert FORMER.first_send(8) == Sent(MessageIds(OLD, first=ALL_HASHED)(8), 8)
    assert FORMER.first_send(107) == Sent(MessageIds(OLDER, first=ALL_HASHED)(8), 8)
    assert FORMER.first_send(130) == Sent(MessageIds(OLDER)(31), 31)
    assert FORMER.first_send(150) is None


def test_the_number_of_a_migrated_message_is_the_one_of_today() -> None:
    assert FORMER.number_of(MessageIds(OLDER)(31)) == 130
    assert FORMER.number_of(MessageIds(OLDER)(51)) is None  # given out after the migration
    assert FORMER.number_of(MessageIds(OLD)(8)) is None  # that shard has never given out such an id


def test_a_queue_keeps_the_digests_of_its_shard() -> None:
    digests = FORMER.send_digests(107)
    assert digests is not None
    assert digests("id", None) == SendDigests(OLDER)("id", None)
    assert FORMER.send_digests(150) is None
    assert FormerShards([FormerShard(1, 9, 0, 0, OLD)], keyed_by_shard=False).send_digests(5) is None


def test_a_migrated_queue_knows_the_sends_from_before() -> None:
    queues = Queues(Limits())
    queues.create("a.fifo")
    first = queues.send("a.fifo", "one", group="g")
    queues.migrate(b"another secret")
    assert queues.send("a.fifo", "one", group="g") == first
    second = queues.send("a.fifo", "two", group="g")
    assert second.id == MessageIds(b"another secret")(second.sequence or 0)
    assert queues.send("a.fifo", "two", group="g") == second
    assert queues.drain("a.fifo") == ["one", "two"]
