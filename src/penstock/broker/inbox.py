"""Messages from other shards: added once each, in the order of the shard that they come from.

For every other shard a record says up to which position its messages were taken. It is raised by the commit that adds
them, so that a message that is handed over again is known, whatever happened to the answer. A message whose queue
does not exist is taken note of and refused; the note stays until the other shard has gone on, which shows that it
has the message back.
"""

from __future__ import annotations

from penstock.broker.catalogue import Catalogue
from penstock.broker.failures import Failures
from penstock.broker.history import DEAD_LETTERED, MOVED, EventKind
from penstock.broker.other_shards import HandedMessage, Handover, Taken
from penstock.broker.shard import Shard
from penstock.errors import QueueMissing
from penstock.queues.messages import Entry, position_of
from penstock.queues.redrive import dead_letter, moved_message
from penstock.store.changes import RecordKind
from penstock.store.moving import left_out

INBOXES = RecordKind("inbox", Taken, left_out)
_NOTHING = Taken(0)


class Inbox:
    def __init__(self, shard: Shard, catalogue: Catalogue, failures: Failures) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._failures = failures
        self._taken = shard.table(INBOXES)  # by the shard that the messages come from

    async def take(self, handover: Handover) -> Taken:
        """Add what was not taken before. Raises NotOwned or StoreError: then it may be tried again."""
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        key = str(handover.source)
        taken = self._taken.get(key) or _NOTHING
        new = [message for message in handover.messages if message.position > taken.position]
        if new:
            shard.check_sends()
            first = handover.messages[0].position
            refused = [position for position in taken.refused if position >= first]
            refused += [message.position for message in new if not self._add(message)]
            taken = Taken(new[-1].position, tuple(refused))
            self._taken.put(key, taken)
        await shard.settled()
        return taken

    def _add(self, message: HandedMessage) -> bool:
        """False if its queue does not exist."""
        shard = self._shard
        try:
            queue = self._catalogue.find(message.target)
        except QueueMissing:
            return False
        now_ms, number = shard.clock.now_ms(), shard.next_number()
        entry = Entry(
            number, position_of(number), message.group, now_ms - message.age_ms, 0, message.receives,
            first_received_ms=message.first_received_ms, content=message.content, version=message.version,
        )  # fmt: skip
        if message.is_dead_letter:
            entry = dead_letter(entry, number, message.source.arn, queue.settings, now_ms)
        else:
            id = None if message.keeps_id else queue.rules.message_id(number)
            wall_ms = shard.clock.wall_ms()
            entry = moved_message(entry, message.content, number, id, queue.settings, now_ms, wall_ms)
            entry.version = message.version
        self._catalogue.deliver(message.target, entry, None)
        if message.failures:
            self._failures.add(queue.id, number, message.failures)
        event: EventKind = DEAD_LETTERED if message.is_dead_letter else MOVED
        shard.open_commit.noted.append((number, event, f"from {message.source.name}"))
        return True
