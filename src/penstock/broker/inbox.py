"""Messages from other shards: added once each, in the order of the shard that they come from.

For every other shard a record says up to which position its messages were taken. It is raised by the commit that adds
them, so that a message that is handed over again is known, whatever happened to the answer. It names the store that
the other shard has then: one in memory is gone with its process, and the next one begins with the same positions. A
queue that does not exist, or does not take a message, refuses it. The record says so until the other shard hands over
what comes after it, which shows that it has heard of the refusal.
"""

from __future__ import annotations

import msgspec

from penstock.broker.delivery import QueueDelivery
from penstock.broker.handover import HandedMessage, Handover, Taken, TargetRefusal
from penstock.broker.shard import SETTLED, Shard
from penstock.errors import StoreError
from penstock.promise import Promise
from penstock.store.changes import RecordKind
from penstock.store.moving import left_out

INBOXES = RecordKind("inbox", Taken, left_out)
_NOTHING = Taken(0)


class Inbox:
    """Takes the messages that other shards hand over to a shard."""

    def __init__(self, shard: Shard, delivery: QueueDelivery) -> None:
        self._shard = shard
        self._delivery = delivery
        self._taken = shard.table(INBOXES)  # by the shard that the messages come from
        self._raised: dict[str, Promise[None]] = {}  # the commit that raised a record last

    async def take(self, handover: Handover) -> Taken:
        """Add what was not taken before. Raises NotOwned or StoreError: then it may be tried again."""
        shard, key = self._shard, str(handover.source)
        await self._delivery.prepare_arrival(self._new(key, handover))
        shard.check_not_ended()
        shard.check_owned()
        taken = self._taken_of(key, handover)
        new = self._new(key, handover)
        if new:
            shard.check_sends()
            first = handover.messages[0].position
            refusals = [each for each in taken.all_refusals if each.position >= first]
            quotas = self._delivery.quota_room()
            for message in new:
                refused = self._delivery.arrive(message, quotas)
                refusals += [TargetRefusal(message.position, place, reason) for place, reason in refused]
            taken = Taken(new[-1].position, refusals=tuple(refusals), store=handover.store)
            self._taken.put(key, taken)
            self._raised[key] = shard.settled()
        await self._durable(key)
        # The source forgets its messages when it has the answer, and may sync that before this shard is synced.
        await shard.synced()
        return msgspec.structs.replace(taken, refusals=taken.all_refusals)

    async def _durable(self, key: str) -> None:
        """Wait for the commit that raised a record last. Later commits say nothing about it: if the store refuses
        data of that commit, they may be written all the same. Raises StoreError."""
        raised = self._raised.get(key, SETTLED)
        try:
            await raised
        except StoreError:
            if self._raised.get(key) is raised:
                del self._raised[key]  # the record is again as an earlier commit left it, which is durable
            raise

    def _taken_of(self, key: str, handover: Handover) -> Taken:
        """What was taken of the store that the source has now."""
        taken = self._taken.get(key)
        return taken if taken is not None and taken.is_about(handover.store) else _NOTHING

    def _new(self, key: str, handover: Handover) -> list[HandedMessage]:
        taken = self._taken_of(key, handover)
        return [message for message in handover.messages if message.position > taken.position]
