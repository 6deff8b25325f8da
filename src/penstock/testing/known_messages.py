"""What became of every message of a broker, for the assertions of tests: also of those that are gone.

The broker forgets a message when it is deleted. The classes here follow its commits and events from outside, and cost
it nothing where they are not used.
"""

from __future__ import annotations

from collections import Counter, deque

from penstock.broker.history import MOVED, RECEIVED, RELEASED, SENT, Noted
from penstock.broker.partition import Partition
from penstock.broker.parts import Part
from penstock.broker.shard import Commit
from penstock.store.changes import EntryRow, EntryUpdate

MESSAGES_MAX = 100_000
BYTES_MAX = 100 * 1024 * 1024


class KnownMessage:
    """A message in one queue, from its arrival until it left."""

    __slots__ = ("content", "ended", "group", "position", "received", "sent", "seq")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.position = 0
        self.group: str | None = None
        self.content = b""  # encoded
        self.sent = False  # by a client; else it came from another queue
        self.received = 0  # times, in this queue
        self.ended: str | None = None  # "deleted", "expired", "purged" or "moved"; None: it is there


class KnownMessages(Part):
    """The messages of one shard, as an extension of it."""

    def __init__(self, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._queues: dict[int, dict[int, KnownMessage]] = {}  # by seq, in the order of arrival
        self._in_order: deque[tuple[int, int]] = deque()  # queue and seq of all messages
        self._queue_of: dict[int, int] = {}  # messages that are there -> the queue that they are in
        self._forgotten: Counter[int] = Counter()  # how many, by queue

    def follow(self, partition: Partition) -> KnownMessages:
        """The shard was opened, and is empty."""
        self._queues.clear()
        self._in_order.clear()
        self._queue_of.clear()
        self._forgotten.clear()
        self._bytes = 0
        partition.shard.watch(self.committed)
        return self

    def of_queue(self, queue: int) -> list[KnownMessage]:
        """Returns the messages of a queue, oldest first."""
        return [message for message in self._queues.get(queue, {}).values() if message.content]

    def forgotten(self, queue: int) -> int:
        """How many of the oldest messages there was no room for."""
        return self._forgotten[queue]

    # -- what happens --------------------------------------------------------------------------------------------

    def noted(self, noted: Noted) -> None:
        """An event of a message. A receive may be noted before the commit that the message arrives with. What no
        request asked for has no queue here, and is noted in its commit."""
        _, seq, _, event, requester, _, queue = noted
        if not queue:
            return
        if event == SENT:
            self._message(queue, seq).sent = True
        elif event == RECEIVED:
            self._message(queue, seq).received += 1
        elif event == RELEASED and requester is None:  # the client did not get it
            self._message(queue, seq).received -= 1

    def committed(self, commit: Commit) -> None:
        changes = commit.changes
        for row in changes.added:
            self._arrive(row, row.content or b"", row.group)
        for update in changes.updated.values():
            self._update(update)
        for seq, replaced in changes.replaced.items():
            message = self._message(replaced.queue, seq)
            message.group = replaced.group
            self._set_content(message, replaced.content or message.content)
        for seq, event, _ in commit.noted:
            if event == SENT and seq in self._queue_of:  # a copy
                self._message(self._queue_of[seq], seq).sent = True
        moved = {seq for seq, event, _ in commit.noted if event == MOVED}
        for seq in changes.removed:
            if (there := self._queue_of.get(seq)) is not None:
                why = "expired" if seq in changes.expired else "moved" if seq in moved else "deleted"
                self._end(self._message(there, seq), why)
        for queue, purge in changes.purged.items():
            for message in self._queues.get(queue, {}).values():
                if message.ended is None and message.position <= purge.position:
                    self._end(message, "purged")
        for queue in changes.dropped:
            self._forget_queue(queue)
        self._make_room()

    def _arrive(self, row: EntryRow | EntryUpdate, content: bytes, group: str | None) -> None:
        message = self._message(row.queue, row.seq)
        message.position, message.group, message.ended = row.position, group, None
        self._set_content(message, content)
        self._queue_of[row.seq] = row.queue

    def _update(self, update: EntryUpdate) -> None:
        """Note that a message was received, hidden or shown; or moved from another queue, as dead letters are."""
        there = self._queue_of.get(update.seq)
        if there is None:
            return
        before = self._message(there, update.seq)
        if there == update.queue:
            before.position = update.position
        else:
            self._end(before, "moved")
            self._arrive(update, before.content, before.group)

    def _end(self, message: KnownMessage, why: str) -> None:
        message.ended = why
        self._queue_of.pop(message.seq, None)

    # -- one message -----------------------------------------------------------------------------------------------

    def _message(self, queue: int, seq: int) -> KnownMessage:
        messages = self._queues.setdefault(queue, {})
        message = messages.get(seq)
        if message is None:
            message = messages[seq] = KnownMessage(seq)
            self._in_order.append((queue, seq))
        return message

    def _set_content(self, message: KnownMessage, content: bytes) -> None:
        self._bytes += len(content) - len(message.content)
        message.content = content

    def _forget_queue(self, queue: int) -> None:
        for message in self._queues.pop(queue, {}).values():
            self._bytes -= len(message.content)
            if self._queue_of.get(message.seq) == queue:
                del self._queue_of[message.seq]
        self._forgotten.pop(queue, None)
        self._in_order = deque(each for each in self._in_order if each[0] != queue)

    def _make_room(self) -> None:
        while len(self._in_order) > self._messages_max or self._bytes > self._bytes_max:
            queue, seq = self._in_order.popleft()
            message = self._queues[queue].pop(seq)
            self._bytes -= len(message.content)
            self._forgotten[queue] += 1
