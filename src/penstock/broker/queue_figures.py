"""What a queue has at one moment, in numbers. Each is defined here once, for the admin API, the console, metrics,
alarms and Prometheus.

Numbers cost different amounts: those in memory are free, the age of the oldest message may take a read of the store,
and what noisy groups have takes a walk over the messages in memory. So a caller says what it wants of which queue.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.number_times import NUMBER_NOTES, NumberTimes
from penstock.broker.queue_metrics import Rates, Totals
from penstock.broker.shard import Shard
from penstock.errors import PenstockError, QueueMissing
from penstock.limits import MINUTE, SECOND
from penstock.metrics.queue_rows import Look
from penstock.names import QueueName
from penstock.queues.fairness import NoisyTenants
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Counts, Entry, sequence_of
from penstock.store.changes import EntryRow
from penstock.store.port import Selection, Store, Usage
from penstock.turns import Turns

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

_PAGE_ROWS = 100
_QUEUES_PER_TURN = 200
_WALKED_MAX = 200
_NOTES_KEY = "numbers"
_NOTES_STORED_MS = 10 * MINUTE


class Levels(NamedTuple):
    """How many messages a queue has."""

    visible: int
    in_flight: int
    delayed: int
    groups: int | None  # with messages in flight; None: not a FIFO queue


class QueueFigures(NamedTuple):
    """The figures of one queue. A value is None if it was not asked for, does not exist, or is not known at
    present."""

    queue: LiveQueue
    now_ms: int
    levels: Levels | None = None
    oldest_ms: int | None = None  # when the oldest message came, see FigureReader.oldest
    noisy: NoisyTenants | None = None

    @property
    def name(self) -> QueueName:
        return self.queue.name

    @property
    def age_ms(self) -> int | None:
        """The age of the oldest message."""
        return None if self.oldest_ms is None else max(0, self.now_ms - self.oldest_ms)

    @property
    def is_active(self) -> bool:
        """Whether it holds messages, or was used since this process has it."""
        return self.queue.holds_messages or self.queue.metrics.used_ms > 0

    @property
    def noisy_groups(self) -> int | None:
        """How many tenants are noisy; None if no message has a group, and on FIFO queues."""
        rules = self.queue.rules
        return None if isinstance(rules, FifoQueue) else rules.noisy_groups(self.now_ms)

    @property
    def long_polls(self) -> int:
        """How many receives wait for messages."""
        return len(self.queue.waiting.long_polls)

    @property
    def totals(self) -> Totals:
        """What was counted since this process has the queue."""
        return self.queue.metrics.totals

    @property
    def size_counts(self) -> list[int]:
        """How many messages of each size were sent, by SIZE_LIMITS."""
        return self.queue.metrics.all_size_counts()

    @property
    def rates(self) -> Rates:
        return self.queue.metrics.per_second(self.now_ms)


class OldestMessage(NamedTuple):
    """A message that no other of its queue is older than, of those that count."""

    seq: int
    came_ms: int  # when it came into the queue, by the broker's clock


class FigureReader:
    """Looks at the queues of one shard."""

    def __init__(self, shard: Shard, turns: Turns) -> None:
        self._shard = shard
        self._turns = turns
        self._notes = shard.table(NUMBER_NOTES)
        self._numbers = NumberTimes(self._notes.get(_NOTES_KEY))
        self._notes_stored_ms = 0
        self.note_numbers()

    def note_numbers(self, *, after_idle: bool = False) -> None:
        """Notes when numbers are given out, from which the ages of dead letters follow: once a minute, and every
        second while queues are used. ``after_idle``: no queue was used in the second before."""
        now_ms = self._shard.clock.now_ms()
        if after_idle:
            self._numbers.note_idle(now_ms - SECOND)
        self._numbers.note(self._shard.numbers_to, now_ms)

    def store_numbers(self, *, now: bool = False) -> None:
        """Stores the notes with the open commit, if that was not done lately."""
        now_ms = self._shard.clock.now_ms()
        if now or now_ms >= self._notes_stored_ms + _NOTES_STORED_MS:
            self._notes_stored_ms = now_ms
            self._notes.put(_NOTES_KEY, self._numbers.stored)

    async def figures(self, wanted: Mapping[LiveQueue, Set[Look]]) -> dict[LiveQueue, QueueFigures]:
        """Finds out of each queue what is wanted. Counts that memory does not have are asked of the store."""
        oldest_ms = await self.oldest([queue for queue, looks in wanted.items() if "oldest" in looks])
        found: dict[LiveQueue, QueueFigures] = {}
        for queue, looks in wanted.items():
            levels = await self._exact_levels(queue) if "levels" in looks else None
            now_ms = self._shard.clock.now_ms()
            noisy = await self._noisy_tenants(queue, now_ms) if "noisy" in looks else None
            found[queue] = QueueFigures(queue, now_ms, levels, oldest_ms.get(queue), noisy)
        return found

    async def _exact_levels(self, queue: LiveQueue) -> Levels | None:
        levels = levels_of(queue, self._shard.clock.now_ms())
        if levels is None and queue.memory.loaded:
            try:
                levels = _counted_levels(queue, await queue.counts())
            except PenstockError:
                return None  # it is deleted, or the store cannot be read
        return levels

    async def levels(self, queue: LiveQueue, usage: Mapping[int, Usage]) -> Levels | None:
        """Returns how many messages a queue has, without loading it: of one that is not in memory yet after a start,
        all messages count as visible.

        ``usage``: what the queues hold that are not in memory."""
        if queue.memory.loaded or self._shard.may_have_new_owner():
            return await self._exact_levels(queue)
        stored = _stored_counts(queue, usage)
        return Levels(stored.visible, stored.in_flight, stored.delayed, 0 if queue.settings.fifo else None)

    async def counts(
        self, queues: Iterable[LiveQueue], usage: Mapping[int, Usage], *, loads: bool = True
    ) -> dict[int, Counts]:
        """Returns how many messages queues have, by queue id, exactly. A queue without messages need not be loaded
        into memory for it; without ``loads`` none is, and :meth:`levels` says what counts then."""
        found: dict[int, Counts] = {}
        for queue in queues:
            try:
                stored = _stored_counts(queue, usage)
                is_exact = queue.memory.loaded or (stored.visible and loads)
                found[queue.id] = await queue.counts() if is_exact else stored
            except QueueMissing:
                continue
        return found

    async def _noisy_tenants(self, queue: LiveQueue, now_ms: int) -> NoisyTenants | None:
        rules = queue.rules
        groups = None if isinstance(rules, FifoQueue) else rules.noisy_groups(now_ms)
        if isinstance(rules, FifoQueue) or groups is None:
            return None
        if not groups:
            return NoisyTenants()
        return await self._turns.run(rules.noisy_tenants(now_ms, partial(self._arrived_ms, queue)))

    # -- the age of the oldest message -----------------------------------------------------------------------

    async def oldest(self, queues: Sequence[LiveQueue]) -> dict[LiveQueue, int]:
        """When the oldest message of each queue came into it, by the broker's clock. Queues without messages are
        left out.

        SQS: a message that is set aside does not count, and a dead letter came when it was moved."""
        found: dict[LiveQueue, int] = {}
        unknown: list[LiveQueue] = []
        for queue in queues:
            if not is_walked(queue):
                unknown.append(queue)
            elif (came_ms := self.oldest_in_memory(queue)) is not None:
                found[queue] = came_ms
        stored = await self.oldest_stored(unknown)
        return found | {queue: message.came_ms for queue, message in stored.items()}

    async def oldest_stored(self, queues: Sequence[LiveQueue]) -> dict[LiveQueue, OldestMessage]:
        """Returns the oldest message of each queue that has any, as the store has it and memory knows better."""
        found: dict[LiveQueue, OldestMessage] = {}
        unknown = list(queues)
        rows_max = 1
        while unknown and rows_max <= _PAGE_ROWS:
            now_ms = self._shard.clock.now_ms()
            which = [_kept(queue, now_ms) for queue in unknown]
            rows = await self._shard.read(partial(_first_rows, self._shard.store, which, rows_max))
            for queue in unknown:
                row = self._first_that_counts(queue, rows[queue.id])
                if row is not None:
                    found[queue] = OldestMessage(row.seq, self._arrived_ms(queue, row))
            # A message that is set aside hides those behind it from the first look.
            unknown = [queue for queue in unknown if queue not in found and len(rows[queue.id]) == rows_max]
            rows_max *= _PAGE_ROWS
        return found

    def is_oldest(self, queue: LiveQueue, message: OldestMessage) -> bool:
        """Whether memory knows that the message which was the oldest one still is, because it is in the queue."""
        rules = queue.rules
        entry = rules.backlog.index.get(message.seq)
        return (
            entry is not None
            and not rules.is_set_aside(entry)
            and entry.enqueued_ms > rules.backlog.expiry_cutoff_ms(self._shard.clock.now_ms())
        )

    def _first_that_counts(self, queue: LiveQueue, rows: list[EntryRow]) -> EntryRow | None:
        """Returns the oldest of these messages that is in the queue and not set aside."""
        rules, loaded = queue.rules, queue.memory.loaded
        for row in rows:
            entry = rules.backlog.index.get(row.seq)
            if loaded and entry is None and rules.backlog.knows(row.seq):
                continue  # it is gone, which the store did not know yet
            if not rules.is_set_aside(row if entry is None else entry):
                return row
        return None

    def oldest_in_memory(self, queue: LiveQueue) -> int | None:
        """When the oldest message came into a queue of which :func:`is_walked` is true."""
        rules = queue.rules
        expired_ms = rules.backlog.expiry_cutoff_ms(self._shard.clock.now_ms())
        oldest: Entry | None = None
        for entry in rules.backlog.index.values():
            if (
                (oldest is None or entry.position < oldest.position)
                and entry.enqueued_ms > expired_ms
                and not rules.is_set_aside(entry)
            ):
                oldest = entry
        return None if oldest is None else self._arrived_ms(queue, oldest)

    def _arrived_ms(self, queue: LiveQueue, message: Entry | EntryRow) -> int:
        if message.source is None or queue.settings.fifo:
            return message.enqueued_ms
        # SQS: a dead letter is as old as its time in the dead-letter queue.
        given_ms = self._numbers.given_ms(sequence_of(message.position), self._shard.clock.now_ms())
        return max(message.enqueued_ms, given_ms)


async def all_figures(partition: Partition) -> AsyncGenerator[list[QueueFigures], None]:
    """What is known of all queues of clients in a shard, and their ages; some queues in each turn of the loop. No
    queue is loaded into memory for it."""
    shard, queues = partition.shard, [queue for queue in partition.catalogue if not queue.record.internal]
    usage: Mapping[int, Usage] = {}
    if not all(queue.memory.loaded for queue in queues):
        usage = await shard.read(shard.store.usage)
    for start in range(0, len(queues), _QUEUES_PER_TURN):
        part = queues[start : start + _QUEUES_PER_TURN]
        oldest_ms = await partition.figures.oldest(part)
        levels = {queue: await partition.figures.levels(queue, usage) for queue in part}
        now_ms = shard.clock.now_ms()
        for queue in part:
            queue.metrics.pass_time(now_ms)
        yield [
            QueueFigures(queue, now_ms, levels[queue], oldest_ms.get(queue))
            for queue in part
            if not queue.deleted
        ]
        await partition.turn()


def levels_of(queue: LiveQueue, now_ms: int) -> Levels | None:
    """None if memory is not loaded, or the store would have to be asked."""
    rules, shard = queue.rules, queue.shard
    if not queue.memory.loaded or shard.may_have_new_owner():
        return None
    if rules.next_deadline_ms() <= now_ms:
        rules.advance(now_ms, shard.changes)
        queue.decided(now_ms)
    if isinstance(rules, FifoQueue) and rules.settings.delay_ms and rules.backlog.total:
        # Its messages have to be walked over, which is possible if those younger than the delay are in memory.
        counts = rules.counts(now_ms) if is_walked(queue) else None
        return None if counts is None else _counted_levels(queue, counts)
    if isinstance(rules, FifoQueue):
        return _counted_levels(queue, rules.counts_with(0, now_ms))
    return _counted_levels(queue, rules.counts(now_ms))


def _stored_counts(queue: LiveQueue, usage: Mapping[int, Usage]) -> Counts:
    """What counts of a queue that is not in memory: all messages are visible."""
    used = usage.get(queue.id)
    return Counts(visible=0 if used is None else used.messages)


def _counted_levels(queue: LiveQueue, counts: Counts) -> Levels:
    rules = queue.rules
    groups = rules.groups_in_flight if isinstance(rules, FifoQueue) else None
    return Levels(counts.visible, counts.in_flight, counts.delayed, groups)


def is_walked(queue: LiveQueue) -> bool:
    """Whether all messages of a queue are in memory, and so few that walking over them is faster than a read."""
    backlog = queue.rules.backlog
    return queue.memory.loaded and len(backlog.index) == backlog.total <= _WALKED_MAX


def _kept(queue: LiveQueue, now_ms: int) -> Selection:
    """The messages of a queue that are not past their retention."""
    first_ms = queue.rules.backlog.expiry_cutoff_ms(now_ms) + 1
    return Selection(queue.id, queue.record.purged_to, enqueued_ms_min=first_ms)


def _first_rows(store: Store, which: Iterable[Selection], rows_max: int) -> dict[int, list[EntryRow]]:
    """Runs in the reading thread."""
    return {selection.queue: store.select(selection, rows_max=rows_max) for selection in which}
