"""Shards of another store that messages of this shard were migrated from.

A migrated message keeps what its clients know of it, though its number and the secret of its shard may be others
now: receipt handles stay valid, and a duplicate of a send from before is answered as the first send was. So a shard
remembers, for each range of its numbers that came from elsewhere, the secret of that shard and by how much the
numbers were raised. Ranges never overlap; numbers beyond all of them are the shard's own.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.errors import HandleInvalid
from penstock.queues.deduplication import SendDigests
from penstock.queues.messages import Sent
from penstock.queues.receipts import ALL_HASHED, MessageIds, Receipt, ReceiptSigner
from penstock.store.changes import RecordKind
from penstock.store.moving import left_out


class FormerShard(msgspec.Struct, frozen=True):
    first: int  # of the numbers that came from it, as they are now
    end: int
    raised_by: int
    shard: int  # its index in the other store
    secret: bytes
    # The first of its numbers, as they were there, whose id is the encrypted number.
    ids_from: int = ALL_HASHED

    def raised(self, by: int) -> FormerShard:
        """The former shard as another store remembers it that takes these numbers over, raised once more."""
        return msgspec.structs.replace(
            self, first=self.first + by, end=self.end + by, raised_by=self.raised_by + by
        )

    @property
    def message_ids(self) -> MessageIds:
        return MessageIds(self.secret, self.ids_from)


FORMER_SHARDS = RecordKind("former_shard", FormerShard, left_out)


class FormerShards:
    def __init__(self, shards: Iterable[FormerShard] = (), *, keyed_by_shard: bool = True) -> None:
        """``keyed_by_shard``: digests of sends are keyed by the secret of the shard, and not by a root key."""
        self._shards = list(shards)
        self._keyed_by_shard = keyed_by_shard

    def read(self, handle: str, queue: int) -> Receipt:
        """The receipt in a handle that a former shard gave out, in the numbers of today. Raises HandleInvalid."""
        for shard in self._shards:
            try:
                receipt = ReceiptSigner(shard.secret, shard.shard).read(handle, queue - shard.raised_by)
            except HandleInvalid:
                continue
            seq = receipt.seq + shard.raised_by
            if shard.first <= seq < shard.end:  # else it was given out after the migration
                return Receipt(queue, seq, receipt.receives, receipt.received_ms)
        raise HandleInvalid

    def first_send(self, number: int) -> Sent | None:
        """Returns what the response to the send with this number said, if it was sent to a former shard."""
        shard = self._of(number)
        if shard is None:
            return None
        first = number - shard.raised_by
        return Sent(shard.message_ids(first), first)

    def number_of(self, id: str) -> int | None:
        """The number, as it is today, of the message to which a former shard gave this id; None if it is unknown."""
        for shard in self._shards:
            number = shard.message_ids.number_of(id)
            if number is not None and shard.first <= number + shard.raised_by < shard.end:
                return number + shard.raised_by
        return None

    def send_digests(self, queue: int) -> SendDigests | None:
        """Returns the digests under which a queue that was created in a former shard remembers its sends, then and
        now."""
        shard = self._of(queue) if self._keyed_by_shard else None
        return None if shard is None else SendDigests(shard.secret)

    def _of(self, number: int) -> FormerShard | None:
        return next((shard for shard in self._shards if shard.first <= number < shard.end), None)


NO_FORMER_SHARDS = FormerShards()
