"""Messages that an operator sends to another queue, one at a time, in the open commit of their shard.

To the dead-letter queue of its queue a message goes as if it had been received too often. To any other queue it goes
as a move task moves it, but keeps its id. A copy is a new message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.encryption import KeyGuard
from penstock.broker.history import SENT
from penstock.broker.live_queue import LiveQueue
from penstock.broker.outbox import Move, Outbox
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.errors import NotPossible, PenstockError, QueueMissing, Unreachable
from penstock.names import QueueName
from penstock.queues.messages import (
    Content,
    Entry,
    Outgoing,
    decode_content,
    encode_content,
    entry_of,
    position_of,
)
from penstock.queues.redrive import moved_message
from penstock.queues.settings import QueueSettings
from penstock.store.changes import EntryRow


class Destination(NamedTuple):
    name: QueueName
    settings: QueueSettings
    queue: LiveQueue | None  # None: it belongs to another shard

    def check(self, row: EntryRow, content: bytes) -> None:
        """Raises NotPossible if the queue does not take this message."""
        if self.settings.fifo and row.group is None:
            raise NotPossible("a FIFO queue only takes messages with a group: give the message a group first")
        most = self.settings.message_bytes_max
        # What is stored is never smaller than what was sent.
        if len(content) > most and decode_content(content).bytes_sent > most:
            raise NotPossible(f"the message is larger than the {most} bytes that the queue accepts")


class Transfers:
    def __init__(
        self, shard: Shard, catalogue: Catalogue, outbox: Outbox | None, keys: KeyGuard, quotas: Quotas
    ) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._outbox = outbox
        self._keys = keys
        self._quotas = quotas

    async def find(self, name: QueueName) -> Destination:
        """A queue that can take messages. Raises QueueMissing, KeyUnavailable or Unreachable."""
        if self._outbox is None or self._outbox.other_shard(name) is None:
            queue = self._catalogue.find(name)
            queue.check_key()
            return Destination(name, queue.settings, queue)
        record = await self._outbox.remote.find(name)
        if record is None:
            raise QueueMissing
        if record.settings.encryption_key is not None:
            self._keys.check(name.space, record.settings.encryption_key)
        return Destination(name, record.settings, None)

    async def find_all(self, names: Iterable[QueueName]) -> dict[QueueName, Destination | PenstockError]:
        """Each of these queues, or why it takes no messages. Raises Unreachable: then it cannot be known."""
        found: dict[QueueName, Destination | PenstockError] = {}
        for name in names:
            try:
                found[name] = await self.find(name)
            except Unreachable:
                raise
            except PenstockError as error:
                found[name] = error
        return found

    # ``task``: the bulk task that wants it. It is notified if another shard refuses the message.

    def dead_letter(
        self, row: EntryRow, leaving: LiveQueue, to: Destination, task: str | None, now_ms: int
    ) -> None:
        if to.queue is None:
            assert self._outbox is not None
            self._outbox.add(entry_of(row), leaving, to.name, task, Move.DEAD_LETTER)
        else:
            self._catalogue.dead_letter(entry_of(row), leaving, to.name, now_ms)

    def move(
        self,
        row: EntryRow,
        content: bytes,
        leaving: LiveQueue,
        to: Destination,
        task: str | None,
        now_ms: int,
    ) -> None:
        entry = entry_of(row)
        if to.queue is None:
            assert self._outbox is not None
            self._outbox.add(entry, leaving, to.name, task, Move.MOVE)
            return
        shard, number = self._shard, self._shard.next_number()
        moved = moved_message(entry, content, number, None, to.settings, now_ms, shard.clock.wall_ms())
        content = moved.content or content
        moved = msgspec.structs.replace(moved, seq=row.seq, size=row.size, version=row.version + 1)
        self._catalogue.deliver(to.name, moved, leaving)
        # The content is written again: under the key of the queue that it is in now.
        shard.changes.replace(row._replace(queue=to.queue.id), content, moved.version)
        moved.size = len(content)

    def check_quota(self, to: Destination, content: bytes) -> None:
        """Raises QuotaReached if the account cannot have one more message."""
        if self._quotas.bounds_messages:
            self._quotas.check(to.name.account, 1, len(content))

    def copy(
        self,
        row: EntryRow,
        content: bytes,
        source: LiveQueue,
        to: Destination,
        task: str | None,
        now_ms: int,
    ) -> None:
        shard, number = self._shard, self._shard.next_number()
        id = source.rules.message_id(number)
        copy = moved_message(entry_of(row), content, number, id, to.settings, now_ms, shard.clock.wall_ms())
        if to.queue is not None:
            self._catalogue.deliver(to.name, copy, None)
            shard.open_commit.noted.append((number, SENT, f"as a copy of a message of {source.name.name}"))
        else:
            assert self._outbox is not None
            self._outbox.add_copy(copy, source.name, to.name, task)

    def send_elsewhere(self, message: Outgoing, source: QueueName, to: QueueName) -> None:
        """A new message for a queue of another shard, which gives it its id. ``source``: where it is from."""
        assert self._outbox is not None
        clock, number = self._shard.clock, self._shard.next_number()
        content = Content("", message.body, message.sender, clock.wall_ms(), dedup_id=message.dedup_id)
        entry = Entry(
            number, position_of(number), message.group, clock.now_ms(), content=encode_content(content)
        )  # fmt: skip
        self._outbox.add_copy(entry, source, to)
