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
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from penstock.broker.queue_metrics import Rates
from penstock.errors import QueueMissing
from penstock.names import QueueName, Space
from penstock.queues.messages import Counts
from penstock.store.port import Order, Selection, Store, Usage

if TYPE_CHECKING:
    from penstock.broker.bulk_tasks import BulkTaskRecord
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


class SummariesQuestion(msgspec.Struct, frozen=True, array_like=True):
    shards: list[int]
    query: QueueQuery


class TotalsQuestion(msgspec.Struct, frozen=True, array_like=True):
    """Sums over all queues that the query wants; its order and its page do not matter."""

    shards: list[int]
    query: QueueQuery
    targets: frozenset[str]  # the names of the dead-letter queues


class TargetsQuestion(msgspec.Struct, frozen=True, array_like=True):
    """Which names do the queues of a space have as their dead-letter queue?"""

    shards: list[int]
    space: Space


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


class TasksQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The bulk tasks of a space, or of one of its queues: the latest ones behind a place."""

    shards: list[int]
    space: Space
    queue: str | None
    tasks_max: int = 1000  # if a process of an earlier version asks
    after: TaskPlace | None = None


class StatusQuestion(msgspec.Struct, frozen=True, array_like=True):
    """How are these shards? Those that the process does not own are left out of its answer."""

    shards: list[int]


class ShardStatus(msgspec.Struct, frozen=True, array_like=True):
    index: int
    is_open: bool = False  # its owner answers
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
    oldest_age_ms: int | None  # of a message in any state
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


def first_summaries(found: Iterable[list[QueueSummary]], query: QueueQuery) -> list[QueueSummary]:
    """Merges lists in the order of the query that have no queue in common."""
    in_order = merge(*found, key=lambda each: (each.sort_value, each.name.name), reverse=query.descending)
    return list(islice(in_order, query.rows_max))


def sum_totals(found: Iterable[QueueTotals]) -> QueueTotals:
    columns = zip(*(msgspec.structs.astuple(each) for each in found), strict=True)
    return QueueTotals(*(sum(column) for column in columns))


async def summaries_of(partition: Partition, query: QueueQuery) -> list[QueueSummary]:
    """The first queues of one shard."""
    shard = partition.shard
    await shard.settled()
    usage: Mapping[int, Usage] = await shard.read(shard.store.usage)
    return await _summaries(partition, await _first(partition, usage, query), usage)


async def totals_of(partition: Partition, query: QueueQuery, targets: frozenset[str]) -> QueueTotals:
    """Sums over the queues of one shard.

    No queue is loaded for it: of one that is not in memory yet after a start, all messages count as visible."""
    shard = partition.shard
    await shard.settled()
    usage: Mapping[int, Usage] = await shard.read(shard.store.usage)
    found: list[QueueTotals] = []
    async for queues in _in_turns(partition, query.space, query.prefix):
        queues = [queue for queue in queues if _is_wanted(queue, query)]
        counts = await _counts(queues, usage, loads=False)
        now_ms = shard.clock.now_ms()
        found.append(
            sum_totals(
                _one_queue(queue, counts[queue.id], usage.get(queue.id, _NOTHING).bytes, targets, now_ms)
                for queue in queues
                if queue.id in counts
            )
        )
    return sum_totals(found)


async def summary_of(partition: Partition, queue: LiveQueue) -> QueueSummary:
    """Raises QueueMissing."""
    shard = partition.shard
    await shard.settled()
    usage = await shard.read(partial(shard.store.usage, queue.id))
    for summary in await _summaries(partition, [_Ranked(0.0, queue)], usage):
        return summary
    raise QueueMissing


async def targets_of(partition: Partition, space: Space) -> set[str]:
    """The names that queues of this shard have as their dead-letter queue."""
    found: set[str] = set()
    async for queues in _in_turns(partition, space):
        redrives = [queue.settings.redrive for queue in queues]
        found.update(redrive.target.name for redrive in redrives if redrive is not None)
    return found


def first_tasks(found: Iterable[list[BulkTaskRecord]], tasks_max: int) -> list[BulkTaskRecord]:
    """Merges lists that have the latest task first and no task in common."""
    return list(islice(merge(*found, key=lambda task: TaskPlace.of(task).order), tasks_max))


def tasks_of(partition: Partition, question: TasksQuestion) -> list[BulkTaskRecord]:
    """The first tasks of one shard."""
    found = [
        task
        for task in partition.bulk_tasks.of_account(question.space.account)
        if task.queue.space == question.space
        and question.queue in (None, task.queue.name)
        and (question.after is None or TaskPlace.of(task).order > question.after.order)
    ]
    return nsmallest(question.tasks_max, found, key=lambda task: TaskPlace.of(task).order)


async def status_of(partition: Partition) -> ShardStatus:
    shard = partition.shard
    usage = (await shard.read(shard.store.usage)).values()
    engine = await shard.read(shard.store.status)
    return ShardStatus(
        shard.index,
        True,
        len(partition.catalogue),
        sum(each.messages for each in usage),
        sum(each.bytes for each in usage),
        shard.changes.durable,
        partition.moves.running + partition.bulk_tasks.running,
        engine.used_bytes,
        engine.free_bytes,
        shard.refuses,
    )


def all_statuses(found: Iterable[ShardStatus], shards: int) -> list[ShardStatus]:
    by_index = {status.index: status for status in found}
    return [by_index.get(index) or ShardStatus(index) for index in range(shards)]


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
        found = (catalogue.get(name) for name in names)
        yield [queue for queue in found if queue is not None]
        after = names[-1].name
        await partition.shard.turn()


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
    """What each queue is sorted by, without those that were deleted meanwhile."""
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
            return {q.id: -float(oldest[q.id]) if q.id in oldest else _NO_AGE for q in queues}
        case "visible" | "in_flight" | "delayed":
            counts = await _counts(queues, usage)
            return {id: float(getattr(count, sort)) for id, count in counts.items()}


async def _summaries(
    partition: Partition, ranked: list[_Ranked], usage: Mapping[int, Usage]
) -> list[QueueSummary]:
    shard = partition.shard
    found: list[QueueSummary] = []
    for start in range(0, len(ranked), _QUEUES_PER_TURN):
        part = ranked[start : start + _QUEUES_PER_TURN]
        queues = [each.queue for each in part]
        oldest = await _oldest(partition, queues, usage)
        counts = await _counts(queues, usage)
        now_ms = shard.clock.now_ms()
        for value, queue in part:
            if queue.id in counts:
                held = usage.get(queue.id, _NOTHING)
                oldest_ms = oldest.get(queue.id)
                found.append(_summary(queue, counts[queue.id], held.bytes, oldest_ms, now_ms, value))
        await shard.turn()
    return found


def _summary(
    queue: LiveQueue, counts: Counts, size: int, oldest_ms: int | None, now_ms: int, sort_value: float
) -> QueueSummary:
    age_ms = None if oldest_ms is None or counts == Counts() else max(0, now_ms - oldest_ms)
    redrive = queue.settings.redrive
    return QueueSummary(
        queue.name,
        queue.settings.fifo,
        counts,
        size,
        age_ms,
        queue.metrics.per_second(now_ms),
        len(queue.waiting.long_polls) + len(queue.waiting.short_polls),
        None if redrive is None else redrive.target.name,
        None if redrive is None else redrive.receives_max,
        queue.created_ms,
        queue.modified_ms,
        sort_value,
    )


def _one_queue(
    queue: LiveQueue, counts: Counts, size: int, targets: frozenset[str], now_ms: int
) -> QueueTotals:
    sent, received, deleted, _ = queue.metrics.per_second(now_ms)
    messages = counts.visible + counts.in_flight + counts.delayed
    dead_letters = messages if queue.name.name in targets else 0
    return QueueTotals(
        1, counts.visible, counts.in_flight, counts.delayed, dead_letters, size, sent, received, deleted
    )


async def _counts(
    queues: Iterable[LiveQueue], usage: Mapping[int, Usage], *, loads: bool = True
) -> dict[int, Counts]:
    """Returns them by queue id. A queue that holds nothing need not be loaded into memory for it; without ``loads``
    none is, and what the store holds of it counts as visible."""
    found: dict[int, Counts] = {}
    for queue in queues:
        try:
            held = usage.get(queue.id, _NOTHING).messages
            is_exact = queue.memory.loaded or (held and loads)
            found[queue.id] = await queue.counts() if is_exact else Counts(visible=held)
        except QueueMissing:
            continue
    return found


async def _oldest(
    partition: Partition, queues: Iterable[LiveQueue], usage: Mapping[int, Usage]
) -> dict[int, int]:
    """When the oldest message of each queue was enqueued that holds any, by queue id."""
    shard = partition.shard
    now_ms = shard.clock.now_ms()
    which = [
        Selection(
            queue.id,
            queue.record.purged_to,
            enqueued_ms_min=queue.rules.backlog.expiry_cutoff_ms(now_ms) + 1,
        )
        for queue in queues
        if usage.get(queue.id, _NOTHING).messages
    ]
    return await shard.read(partial(_read_oldest, shard.store, which)) if which else {}


def _read_oldest(store: Store, which: list[Selection]) -> dict[int, int]:
    """In the thread that reads."""
    found = {}
    for selection in which:
        rows = store.select(selection, Order.AGE, rows_max=1)
        if rows:
            found[selection.queue] = rows[0].enqueued_ms
    return found
