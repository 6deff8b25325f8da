"""Queues at a glance: exact counts, the age of the oldest message, bytes, dead-letter wiring; sorted and paged. Sums
over all queues, whatever the page. And what each shard says of itself and of its bulk tasks.

Each owner answers with the first queues of its shards in the wanted order, so that a page of any size is made from as
many short lists as there are owners. Only what the order needs is found for every queue; everything else for the
queues of the page. Ten thousand queues are counted in pieces, between which other requests are served.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from heapq import merge, nsmallest
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import msgspec

from penstock.broker.bulk_tasks import BulkTaskRecord
from penstock.broker.questions import ShardQuestion
from penstock.broker.queue_figures import QueueFigures
from penstock.broker.queue_metrics import Rates
from penstock.errors import QueueMissing, StoreError
from penstock.names import QueueName, Space, shard_of
from penstock.queues.messages import Counts
from penstock.store.port import LAST, Usage

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

SortKey = Literal["name", "visible", "in_flight", "delayed", "age", "sent_rate", "bytes"]

_QUEUES_PER_TURN = 100
_NOTHING = Usage(0, 0)
_NO_AGE = -1e18  # sorts before every age


class PageEnd(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last queue of a page: what it was sorted by, and its name."""

    value: float
    name: str


class QueueQuery(msgspec.Struct, frozen=True, array_like=True):
    """Which queues of a space, and in which order."""

    space: Space
    rows_max: int
    prefix: str = ""
    contains: str = ""
    fifo: bool | None = None  # None: both kinds
    only: frozenset[str] | None = None  # these names; None: all
    sort: SortKey = "name"
    descending: bool = False
    after: PageEnd | None = None


class TaskPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a task stands among those of its space, the latest first."""

    started_ms: int
    id: str

    @classmethod
    def of(cls, task: BulkTaskRecord) -> TaskPlace:
        return cls(task.started_ms, task.id)

    @property
    def order(self) -> tuple[int, str]:
        return (-self.started_ms, self.id)


class ShardStatus(msgspec.Struct, frozen=True, array_like=True):
    index: int
    is_open: bool = False  # its owner answers, and its store can be read
    queues: int = 0
    messages: int = 0
    bytes: int = 0  # of contents
    commits: int = 0  # since the shard was made
    running_tasks: int = 0
    used_bytes: int | None = None  # of the disk
    free_bytes: int | None = None
    refuses: str | None = None  # why it takes no messages at present
    owner: str = ""  # where other processes reach the owner


class QueueSummary(msgspec.Struct, frozen=True, array_like=True):
    name: QueueName
    fifo: bool
    counts: Counts
    bytes: int  # of contents, as stored
    oldest_age_ms: int | None  # as FigureReader.oldest defines it
    rates: Rates
    waiting_receives: int
    dead_letter_queue: str | None
    receives_max: int | None
    created_ms: int
    modified_ms: int
    sort_value: float = 0.0

    @property
    def end(self) -> PageEnd:
        return PageEnd(self.sort_value, self.name.name)


class QueueTotals(msgspec.Struct, frozen=True, array_like=True):
    queues: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    dead_letters: int = 0  # in any state, in dead-letter queues
    bytes: int = 0
    sent_rate: float = 0.0
    received_rate: float = 0.0
    deleted_rate: float = 0.0


class SummariesQuestion(ShardQuestion[list[QueueSummary]], frozen=True):
    """The first queues in the order of a query."""

    kind: ClassVar[str] = "summaries"
    query: QueueQuery

    async def answer(self, partition: Partition) -> list[QueueSummary]:
        shard = partition.shard
        await shard.settled()
        usage: Mapping[int, Usage] = await shard.read(shard.store.usage)
        return await _summaries(partition, await _first(partition, usage, self.query), usage)

    def merge(self, answers: list[list[QueueSummary]]) -> list[QueueSummary]:
        in_order = merge(
            *answers, key=lambda each: (each.sort_value, each.name.name), reverse=self.query.descending
        )
        return list(islice(in_order, self.query.rows_max))


class TotalsQuestion(ShardQuestion[QueueTotals], frozen=True):
    """Sums over all queues that the query wants; its order and its page do not matter.

    No queue is loaded for it: of one that is not in memory yet after a start, all messages count as visible."""

    kind: ClassVar[str] = "totals"
    query: QueueQuery
    targets: frozenset[str]  # the names of the dead-letter queues

    async def answer(self, partition: Partition) -> QueueTotals:
        shard, query = partition.shard, self.query
        await shard.settled()
        usage: Mapping[int, Usage] = await shard.read(shard.store.usage)
        found: list[QueueTotals] = []
        async for queues in _in_turns(partition, query.space, query.prefix):
            queues = [queue for queue in queues if _is_wanted(queue, query)]
            counts = await partition.figures.counts(queues, usage, loads=False)
            now_ms = shard.clock.now_ms()
            found.append(
                _sum(
                    _one_queue(
                        queue, counts[queue.id], usage.get(queue.id, _NOTHING).bytes, self.targets, now_ms
                    )
                    for queue in queues
                    if queue.id in counts
                )
            )
        return _sum(found)

    def merge(self, answers: list[QueueTotals]) -> QueueTotals:
        return _sum(answers)


class TargetsQuestion(ShardQuestion[set[str]], frozen=True):
    """The names that the queues of a space have as their dead-letter queue."""

    kind: ClassVar[str] = "targets"
    space: Space

    async def answer(self, partition: Partition) -> set[str]:
        found: set[str] = set()
        async for queues in _in_turns(partition, self.space):
            redrives = [queue.settings.redrive for queue in queues]
            found.update(redrive.target.name for redrive in redrives if redrive is not None)
        return found

    def merge(self, answers: list[set[str]]) -> set[str]:
        return set[str]().union(*answers)


class TasksQuestion(ShardQuestion[list[BulkTaskRecord]], frozen=True):
    """The first bulk tasks of a space, or of one of its queues, behind a place; the latest first."""

    kind: ClassVar[str] = "tasks"
    space: Space
    queue: str | None = None
    tasks_max: int = LAST
    after: TaskPlace | None = None

    def shards(self, count: int) -> Iterable[int]:
        if self.queue is None:
            return range(count)
        return [shard_of(QueueName(self.space.account, self.space.region, self.queue), count)]

    async def answer(self, partition: Partition) -> list[BulkTaskRecord]:
        found = [
            task
            for task in partition.bulk_tasks.of_account(self.space.account)
            if task.queue.space == self.space
            and self.queue in (None, task.queue.name)
            and (self.after is None or TaskPlace.of(task).order > self.after.order)
        ]
        await partition.shard.settled()
        return nsmallest(self.tasks_max, found, key=lambda task: TaskPlace.of(task).order)

    def merge(self, answers: list[list[BulkTaskRecord]]) -> list[BulkTaskRecord]:
        return list(islice(merge(*answers, key=lambda task: TaskPlace.of(task).order), self.tasks_max))


class StatusQuestion(ShardQuestion[list[ShardStatus]], frozen=True):
    """How every shard is, in order: for a person who wants to know what is wrong now."""

    kind: ClassVar[str] = "statuses"
    is_partial: ClassVar[bool] = True

    async def answer(self, partition: Partition) -> list[ShardStatus]:
        shard = partition.shard
        try:
            usage = (await shard.read(shard.store.usage)).values()
            engine = await shard.read(shard.store.status)
        except StoreError as error:
            return [ShardStatus(shard.index, refuses=shard.refuses or str(error))]
        status = ShardStatus(
            shard.index,
            True,
            len(partition.catalogue),
            sum(each.messages for each in usage),
            sum(each.bytes for each in usage),
            shard.changes.durable,
            partition.parts.running_tasks,
            engine.used_bytes,
            engine.free_bytes,
            shard.refuses,
        )
        return [status]

    def merge(self, answers: list[list[ShardStatus]]) -> list[ShardStatus]:
        return list(merge(*answers, key=lambda status: status.index))

    def absent(self, shard: int) -> list[ShardStatus]:
        return [ShardStatus(shard)]

    def signed(self, answer: list[ShardStatus], owner: str) -> list[ShardStatus]:
        return [msgspec.structs.replace(each, owner=owner) if each.is_open else each for each in answer]


async def summary_of(partition: Partition, queue: LiveQueue) -> QueueSummary:
    """Raises QueueMissing."""
    shard = partition.shard
    await shard.settled()
    usage = await shard.read(partial(shard.store.usage, queue.id))
    for summary in await _summaries(partition, [_Ranked(0.0, queue)], usage):
        return summary
    raise QueueMissing


class _Ranked(NamedTuple):
    """A queue and what it is sorted by."""

    value: float
    queue: LiveQueue

    @property
    def key(self) -> tuple[float, str]:
        return self.value, self.queue.name.name


async def _in_turns(
    partition: Partition, space: Space, prefix: str = "", after: str = ""
) -> AsyncGenerator[list[LiveQueue], None]:
    """The queues of a space in order of name, some in each turn of the loop."""
    catalogue = partition.catalogue
    while names := catalogue.names(space, prefix, after, _QUEUES_PER_TURN):
        await partition.turn()
        found = (catalogue.get(name) for name in names)
        yield [queue for queue in found if queue is not None]
        after = names[-1].name


async def _first(partition: Partition, usage: Mapping[int, Usage], query: QueueQuery) -> list[_Ranked]:
    """The first queues in the order of the query, beyond the page before."""
    end, descending = query.after, query.descending
    by_name = query.sort == "name" and not descending
    first: list[_Ranked] = []
    start = end.name if by_name and end is not None else ""
    async with aclosing(_in_turns(partition, query.space, query.prefix, start)) as turns:
        async for queues in turns:
            queues = [queue for queue in queues if _is_wanted(queue, query)]
            values = await _values(partition, queues, usage, query.sort)
            ranked = [_Ranked(values[queue.id], queue) for queue in queues if queue.id in values]
            if end is not None:
                last = end.value, end.name
                ranked = [each for each in ranked if (each.key < last if descending else each.key > last)]
            first = sorted(first + ranked, key=lambda each: each.key, reverse=descending)[: query.rows_max]
            if by_name and len(first) == query.rows_max:
                break
    return first


def _is_wanted(queue: LiveQueue, query: QueueQuery) -> bool:
    name = queue.name.name
    return (
        query.contains in name
        and query.fifo in (None, queue.settings.fifo)
        and (query.only is None or name in query.only)
    )


async def _values(
    partition: Partition, queues: list[LiveQueue], usage: Mapping[int, Usage], sort: SortKey
) -> dict[int, float]:
    """What each queue is sorted by, without those that were deleted since then."""
    now_ms = partition.shard.clock.now_ms()
    match sort:
        case "name":
            return {queue.id: 0.0 for queue in queues}
        case "bytes":
            return {queue.id: float(usage.get(queue.id, _NOTHING).bytes) for queue in queues}
        case "sent_rate":
            return {queue.id: queue.metrics.per_second(now_ms).sent for queue in queues}
        case "age":
            # The time of the oldest message, not its age, which is another one when the next page is asked for.
            oldest = await _oldest(partition, queues, usage)
            return {queue.id: -float(oldest.get(queue, -_NO_AGE)) for queue in queues}
        case "visible" | "in_flight" | "delayed":
            counts = await partition.figures.counts(queues, usage)
            return {id: float(getattr(count, sort)) for id, count in counts.items()}


async def _summaries(
    partition: Partition, ranked: list[_Ranked], usage: Mapping[int, Usage]
) -> list[QueueSummary]:
    shard = partition.shard
    found: list[QueueSummary] = []
    for start in range(0, len(ranked), _QUEUES_PER_TURN):
        part = ranked[start : start + _QUEUES_PER_TURN]
        queues = [each.queue for each in part]
        counts = await partition.figures.counts(queues, usage)
        oldest = await _oldest(partition, queues, usage)
        now_ms = shard.clock.now_ms()
        for value, queue in part:
            if queue.id in counts:
                used = usage.get(queue.id, _NOTHING)
                figures = QueueFigures(queue, now_ms, oldest_ms=oldest.get(queue))
                found.append(_summary(figures, counts[queue.id], used.bytes, value))
        await partition.turn()
    return found


def _summary(figures: QueueFigures, counts: Counts, size: int, sort_value: float) -> QueueSummary:
    queue = figures.queue
    redrive = queue.settings.redrive
    return QueueSummary(
        queue.name,
        queue.settings.fifo,
        counts,
        size,
        None if counts == Counts() else figures.age_ms,
        figures.rates,
        figures.long_polls,
        None if redrive is None else redrive.target.name,
        None if redrive is None else redrive.receives_max,
        queue.created_ms,
        queue.modified_ms,
        sort_value,
    )


def _sum(found: Iterable[QueueTotals]) -> QueueTotals:
    columns = zip(*(msgspec.structs.astuple(each) for each in found), strict=True)
    return QueueTotals(*(sum(column) for column in columns))


def _one_queue(
    queue: LiveQueue, counts: Counts, size: int, targets: frozenset[str], now_ms: int
) -> QueueTotals:
    sent, received, deleted, _ = queue.metrics.per_second(now_ms)
    messages = counts.visible + counts.in_flight + counts.delayed
    dead_letters = messages if queue.name.name in targets else 0
    return QueueTotals(
        1, counts.visible, counts.in_flight, counts.delayed, dead_letters, size, sent, received, deleted
    )


async def _oldest(
    partition: Partition, queues: Iterable[LiveQueue], usage: Mapping[int, Usage]
) -> dict[LiveQueue, int]:
    """Returns when the oldest message of each queue came, for queues that are not empty."""
    not_empty = [queue for queue in queues if usage.get(queue.id, _NOTHING).messages]
    return await partition.figures.oldest(not_empty)
