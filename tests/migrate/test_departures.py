"""Messages that were on their way between shards when the servers stopped: neither lost nor doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.broker.bulk_tasks import BULK_TASKS, BulkTaskRecord, TaskStatus
from penstock.broker.catalogue import QUEUES
from penstock.broker.handover import Cause, QueueTarget, Taken
from penstock.broker.inbox import INBOXES
from penstock.broker.move_tasks import MOVE_TASKS, MoveStatus, MoveTaskRecord
from penstock.broker.operations import Operation
from penstock.broker.outbox import LOG_KIND, OUTBOX, Departure, encode_departure
from penstock.errors import StoreRefused
from penstock.migrate.stores.migration import Migration
from penstock.migrate.stores.opened import opened
from penstock.names import QueueName, shard_of
from penstock.queues.filters import MessageFilter
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.changes import POSITION_GAP, Changes, EntryRow, LogRow
from penstock.store.port import LAST, Mark, Selection, Store
from support.generated_stores import NOW_MS, MemorySite
from support.rows import every_row

SOURCE, TARGET = (
    next(
        name
        for name in (QueueName("1" * 12, "eu-west-1", f"q{i}") for i in range(100))
        if shard_of(name, 2) == shard
    )
    for shard in range(2)
)


@contextmanager
def quiet(step: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def queue(id: int, name: QueueName, purged_to: int = 0) -> QueueRecord:
    return QueueRecord(
        id=id, name=name, settings=QueueSettings(), tags={}, created_ms=1, modified_ms=1, purged_to=purged_to
    )


def row(seq: int, queue: int) -> EntryRow:
    return EntryRow(seq, queue, seq * POSITION_GAP, None, NOW_MS, 0, 4, 0, NOW_MS, None, b"\x90%d" % seq, 3)


def site(taken: Taken | None, *, source_exists: bool = True, purged_to: int = 0) -> MemorySite:
    """Messages 10, 11 and 12 have left the source, at positions 20, 21 and 22; 13 has not."""
    site = MemorySite(2)
    for store in site.stores:
        store.open()
    leaving, arriving = Changes(1, 0), Changes(1, 0)
    if source_exists:
        leaving.records[QUEUES.name, "1"] = QUEUES.encode(queue(1, SOURCE, purged_to))
        leaving.add_row(row(13, 1))
    for i, seq in enumerate((10, 11, 12)):
        leaving.add_row(row(seq, OUTBOX))
        cause, task = (Cause.REDRIVE, "task") if seq == 11 else (Cause.DEAD_LETTER, None)
        departure = Departure(seq, cause, (QueueTarget(TARGET),), SOURCE.name, 1, SOURCE, task)
        leaving.logs.append(LogRow(LOG_KIND, "1", 20 + i, encode_departure(departure)))
    move = MoveTaskRecord(
        id="task", source=SOURCE, destination=TARGET, rate=None, status=MoveStatus.RUNNING, started_ms=1, to_move=9,
        moved=5,
    )  # fmt: skip
    leaving.records[MOVE_TASKS.name, "task"] = MOVE_TASKS.encode(move)
    site.stores[0].append(leaving, Mark(30, NOW_MS, NOW_MS))
    arriving.records[QUEUES.name, "1"] = QUEUES.encode(queue(1, TARGET))
    if taken is not None:
        arriving.records[INBOXES.name, "0"] = INBOXES.encode(taken)
        for seq in (2, 3, 4)[: taken.position - 19]:
            if seq + 18 not in taken.refused:
                arriving.add_row(row(seq, 1))
    site.stores[1].append(arriving, Mark(30, NOW_MS, NOW_MS))
    return site


def held(stores: list[Store], name: QueueName) -> list[bytes]:
    """The contents of a queue, in order."""
    store = stores[shard_of(name, len(stores))]
    for data in store.records(QUEUES.name).values():
        record = QUEUES.decode(data)
        if record.name == name:
            rows = store.select(Selection(record.id), rows_max=LAST)
            return [store.contents([each.seq])[each.seq] for each in rows]
    return []


@every_row("shards", [1, 2, 3])
@every_row(
    ("taken", "back", "moved"),
    [
        (None, [10, 11, 12, 13], 4),
        (Taken(20), [11, 12, 13], 4),
        (Taken(22), [13], 5),
        (Taken(22, (22,)), [12, 13], 5),
        (Taken(22, store="a store that this one has replaced"), [10, 11, 12, 13], 4),
    ],
)
def test_what_has_not_arrived_goes_back(
    taken: Taken | None, back: list[int], moved: int, shards: int
) -> None:
    source, target = site(taken), MemorySite(shards)
    arrived = held(list(source.stores), TARGET)
    with opened(source) as sources, opened(target) as targets:
        migration = Migration(sources, shards, lambda: None)
        migration.run(targets, quiet)
    assert migration.left_out == 0
    assert held(list(target.stores), SOURCE) == [b"\x90%d" % seq for seq in back]
    assert held(list(target.stores), TARGET) == arrived
    (task,) = [data for store in target.stores for data in store.records(MOVE_TASKS.name).values()]
    assert MOVE_TASKS.decode(task).moved == moved
    assert not any(store.records(INBOXES.name) for store in target.stores)


def test_a_delayed_message_goes_back_with_its_delay() -> None:
    source, target, due_ms = site(None), MemorySite(3), NOW_MS + 60_000
    more = Changes(2, 1)
    more.add_row(row(14, OUTBOX))
    departure = Departure(14, Cause.MOVE, (QueueTarget(TARGET),), SOURCE.name, 1, SOURCE, due_ms=due_ms)
    more.logs.append(LogRow(LOG_KIND, "1", 23, encode_departure(departure)))
    source.stores[0].append(more, Mark(30, NOW_MS, NOW_MS))
    with opened(source) as sources, opened(target) as targets:
        Migration(sources, 3, lambda: None).run(targets, quiet)
    store = target.stores[shard_of(SOURCE, 3)]
    records = map(QUEUES.decode, store.records(QUEUES.name).values())
    (queue_id,) = [record.id for record in records if record.name == SOURCE]
    found = store.select(Selection(queue_id), rows_max=LAST)
    assert [each.due_ms for each in found] == [0, 0, 0, 0, due_ms]


def test_an_entry_that_cannot_be_read_is_refused() -> None:
    source = site(None)
    damaged = Changes(2, 1)
    damaged.logs.append(LogRow(LOG_KIND, "1", 23, b"\x03of a later version"))
    source.stores[0].append(damaged, Mark(30, NOW_MS, NOW_MS))
    with opened(source) as sources, pytest.raises(StoreRefused, match=r"shard 0.* shard 1.* cannot be read"):
        Migration(sources, 1, lambda: None)


def test_a_bulk_task_looks_again_at_what_goes_back() -> None:
    source, target = site(None), MemorySite(1)
    task = BulkTaskRecord(
        id="task", queue=SOURCE, operation=Operation.MOVE, filter=MessageFilter(), to=TARGET, rate=None, by=None,
        status=TaskStatus.RUNNING, started_ms=1, total=9, upto=LAST, after="somewhere", looked_through=True, done=5,
    )  # fmt: skip
    changes = Changes(2, 1)
    changes.records[MOVE_TASKS.name, "task"] = None
    changes.records[BULK_TASKS.name, "task"] = BULK_TASKS.encode(task)
    source.stores[0].append(changes, Mark(30, NOW_MS, NOW_MS))
    with opened(source) as sources, opened(target) as targets:
        Migration(sources, 1, lambda: None).run(targets, quiet)
    found = BULK_TASKS.decode(target.stores[0].records(BULK_TASKS.name)["task"])
    assert (found.done, found.after, found.looked_through) == (4, None, False)


def test_where_there_is_no_queue_to_go_back_to() -> None:
    source, target = site(None, source_exists=False), MemorySite(1)
    with opened(source) as sources, opened(target) as targets:
        migration = Migration(sources, 1, lambda: None)
        migration.run(targets, quiet)
    assert held(list(target.stores), SOURCE) == []
    assert migration.left_out == 3


def test_purged_meanwhile() -> None:
    source, target = site(None, purged_to=11 * POSITION_GAP), MemorySite(1)
    with opened(source) as sources, opened(target) as targets:
        Migration(sources, 1, lambda: None).run(targets, quiet)
    assert held(list(target.stores), SOURCE) == [b"\x9012", b"\x9013"]
