"""Stores filled at random with everything a store can hold, and a dump of what clients can see of it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Any

import msgspec

from penstock.broker.bulk_tasks import BULK_TASKS, TASK_FILTERS, BulkTaskRecord, TaskFilter, TaskStatus
from penstock.broker.catalogue import COOLDOWNS, QUEUES, Cooldown
from penstock.broker.failures import FAILURES, FailureReport, MessageFailures
from penstock.broker.metric_log import (
    HOURS_LOG,
    METRICS_LOG,
    METRICS_STATE,
    MetricsState,
    RecentEntry,
    read_gathered,
    read_log,
)
from penstock.broker.move_tasks import MOVE_TARGETS, MOVE_TASKS, MoveStatus, MoveTargets, MoveTaskRecord
from penstock.broker.number_times import NUMBER_NOTES, NumberNotes
from penstock.broker.operations import Operation
from penstock.errors import StoreError, StoreUnknown
from penstock.metrics.buckets import Bucket
from penstock.metrics.chunks import TimedRow
from penstock.metrics.queue_hours import HOUR_CHUNKS, HourRow, hours_of
from penstock.metrics.queue_rows import QUEUE_CHUNKS, QueueRow, TimedQueueRow
from penstock.names import QueueName, shard_of
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Attribute, Content, encode_content
from penstock.queues.receipts import MESSAGE_ID_FORMS, OWN_IDS, MessageIdForm, MessageIds
from penstock.queues.settings import QueueRecord, QueueSettings, Redrive
from penstock.store.changes import POSITION_GAP, Changes, DedupRow, EntryRow, LogRow
from penstock.store.memory import MemoryStore
from penstock.store.port import LAST, Mark, Selection, ShardState, Store
from penstock.turns import finished

ACCOUNT = "111122223333"
NOW_MS = 1_700_000_000_000


class Interruption:
    """Lets this many appends pass; the next one fails, after it was made or not, and so do all others."""

    def __init__(self, appends: int, *, made: bool) -> None:
        self._left = appends
        self._made = made
        self.happened = False

    def append(self, append: Callable[[], Set[int]]) -> Set[int]:
        self._left -= 1
        if self._left >= 0:
            return append()
        if self._made and not self.happened:
            append()
        self.happened = True
        raise StoreUnknown("the connection is lost") if self._made else StoreError("the connection is lost")


class InterruptedStore(MemoryStore):
    interruption: Interruption | None = None

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        append = partial(super().append, changes, mark)
        return append() if self.interruption is None else self.interruption.append(append)


class MemorySite:
    guarantees = "nothing survives"
    is_local = True

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.stores = [InterruptedStore() for _ in range(shards)]

    def interrupt(self, interruption: Interruption | None) -> None:
        for store in self.stores:
            store.interruption = interruption

    def open(self) -> None: ...

    def shard(self, index: int) -> Store:
        return self.stores[index]

    def close(self) -> None: ...


class ShardFiller:
    """One shard with some queues, in commits as a broker makes them."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        state: ShardState = store.open()
        self._id_of = MessageIds(state.secret)
        self._commit = state.end.number
        self._number = state.mark.next_number

    def fill(self, names: Sequence[QueueName], messages: int) -> None:
        queues = [self._create(name) for name in names]
        doomed = self._create(QueueName(ACCOUNT, "eu-west-1", f"doomed-{self._number}"))
        changes = self._changes()
        changes.records[MESSAGE_ID_FORMS.name, OWN_IDS] = MESSAGE_ID_FORMS.encode(MessageIdForm(1))
        for queue in (*queues, doomed):
            for _ in range(self._chance.randrange(messages)):
                self._add(changes, queue)
        self._append(changes)
        changes = self._changes()
        changes.drop(doomed.id)
        changes.records[QUEUES.name, str(doomed.id)] = None
        key = f"{ACCOUNT}/eu-west-1/{doomed.name.name}"
        changes.records[COOLDOWNS.name, key] = COOLDOWNS.encode(Cooldown(NOW_MS + 60_000))
        task = self._task(queues[0].name)
        changes.records[MOVE_TASKS.name, task.id] = MOVE_TASKS.encode(task)
        targets = MoveTargets(queues[0].name, frozenset(queue.name for queue in queues))
        changes.records[MOVE_TARGETS.name, task.id] = MOVE_TARGETS.encode(targets)
        bulk = self._bulk_task(queues[0].name)
        changes.records[BULK_TASKS.name, bulk.id] = BULK_TASKS.encode(bulk)
        whole = TaskFilter(queues[0].name, MessageFilter(body=200 * "x"))
        changes.records[TASK_FILTERS.name, bulk.id] = TASK_FILTERS.encode(whole)
        self._purge(changes, queues[0])
        self._add_metrics(changes, queues)
        self._append(changes)
        for queue in queues[1:]:
            self._append(self._edited(queue))

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    def _changes(self) -> Changes:
        return Changes(self._commit + 1, self._commit)

    def _append(self, changes: Changes) -> None:
        self._store.append(changes, Mark(self._number, NOW_MS, NOW_MS + 7))
        self._commit = changes.number

    def _create(self, name: QueueName) -> QueueRecord:
        target = QueueName(ACCOUNT, "eu-west-1", "dead")
        record = QueueRecord(
            id=self._next(), name=name, tags={"team": name.name}, created_ms=self._chance.randrange(NOW_MS),
            modified_ms=NOW_MS, purged_to=0, settings=QueueSettings(
                fifo=name.name.endswith(".fifo"), delay_ms=self._chance.choice([0, 5000]),
                redrive=self._chance.choice([None, Redrive(target, 3)]),
            ),
        )  # fmt: skip
        changes = self._changes()
        changes.records[QUEUES.name, str(record.id)] = QUEUES.encode(record)
        self._append(changes)
        return record

    def _task(self, source: QueueName) -> MoveTaskRecord:
        return MoveTaskRecord(
            id=f"{source.region}-{source.name}-{self._next()}", source=source, destination=None, rate=5,
            status=MoveStatus.RUNNING, started_ms=NOW_MS, to_move=7, moved=2,
        )  # fmt: skip

    def _bulk_task(self, queue: QueueName) -> BulkTaskRecord:
        return BulkTaskRecord(
            id=queue.region + queue.name, queue=queue, operation=Operation.DELETE, filter=MessageFilter(body="x"),
            to=None, rate=None, by=None, status=TaskStatus.COMPLETED, started_ms=NOW_MS, total=7, upto=5, done=3,
        )  # fmt: skip

    def _purge(self, changes: Changes, queue: QueueRecord) -> None:
        number = self._next()
        changes.purge(queue.id, number * POSITION_GAP, number)
        purged = QueueRecord(**{**_fields(queue), "purged_to": number * POSITION_GAP, "purged_ms": NOW_MS})
        changes.records[QUEUES.name, str(queue.id)] = QUEUES.encode(purged)
        for _ in range(5):
            self._add(changes, queue)

    def _edited(self, queue: QueueRecord) -> Changes:
        """Remove one message, replace another, and report a failure of the third."""
        changes = self._changes()
        rows = self._store.select(Selection(queue.id), rows_max=LAST)[:3]
        for row in rows[:1]:
            changes.remove(queue.id, row)
        for row in rows[1:2]:
            changes.replace(row, self._content(row.seq), 2)
        for row in rows[2:]:
            failures = MessageFailures(queue.id, (FailureReport(f"failure of {queue.name.name}"),))
            changes.records[FAILURES.name, str(row.seq)] = FAILURES.encode(failures)
        return changes

    def _add_metrics(self, changes: Changes, queues: Sequence[QueueRecord]) -> None:
        """Some in chunks, and some only among the recent entries."""
        minute_s, position = NOW_MS // 60_000 * 60, NOW_MS - 10_000
        rows = [(queue.id, minute_s, QueueRow(sent=self._chance.randrange(9))) for queue in queues]
        for number in range(self._chance.randrange(3)):
            for queue in queues:
                packed = QUEUE_CHUNKS.pack(
                    [TimedRow(minute_s - 600 + 60 * number, 1, QueueRow(received=number))]
                )
                changes.logs.append(LogRow(METRICS_LOG, str(queue.id), position + number, packed))
                hour = TimedRow(minute_s // 3600 * 3600, 1, {1: Bucket.of(1.0, number + 1)})
                packed = HOUR_CHUNKS.pack([hour])
                changes.logs.append(LogRow(HOURS_LOG, str(queue.id), position + number, packed))
        entries = (
            RecentEntry(minute_s, rows),
            RecentEntry(minute_s + 60, [], [queue.id for queue in queues]),
        )
        for number, entry in enumerate(entries):
            packed = zlib.compress(msgspec.msgpack.encode(entry))
            changes.logs.append(LogRow(METRICS_LOG, "recent", position + 10 + number, packed))
        state = MetricsState(position + 11, {position // 14_400_000: 1000})
        changes.records[METRICS_STATE.name, "state"] = METRICS_STATE.encode(state)
        changes.records[NUMBER_NOTES.name, "numbers"] = NUMBER_NOTES.encode(NumberNotes([(1, NOW_MS - 5)]))

    def _add(self, changes: Changes, queue: QueueRecord) -> None:
        chance, seq = self._chance, self._next()
        content = self._content(seq)
        receives = chance.choice([0, 0, 1, 7])
        group = chance.choice(["a", "b", "ü"]) if queue.settings.fifo else chance.choice([None, "tenant"])
        changes.add_row(EntryRow(
            seq, queue.id, seq * POSITION_GAP + chance.randrange(3), group, NOW_MS - chance.randrange(10**6),
            chance.choice([0, NOW_MS + 30_000]), receives, chance.choice([0, 2]), NOW_MS if receives else 0,
            chance.choice([None, f"arn:aws:sqs:eu-west-1:{ACCOUNT}:somewhere"]), content, len(content),
            chance.choice([1, 3]),
        ))  # fmt: skip
        if queue.settings.fifo:
            until_ms = NOW_MS + chance.choice([-5, 1000, 300_000])
            changes.dedup.append(DedupRow(queue.id, seq, chance.randbytes(16), until_ms))

    def _content(self, seq: int) -> bytes:
        body = "x" * self._chance.choice([1, 100, 5000]) + chr(0x1F600)
        attributes = {"kind": Attribute("Binary", self._chance.randbytes(5))}
        return encode_content(Content(self._id_of(seq), body, "AIDAS", NOW_MS, attributes, None, f"d{seq}"))


def _fields(record: QueueRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def names(count: int) -> list[QueueName]:
    return [
        QueueName(ACCOUNT, region, f"queue-{i}{ending}")
        for i in range(count)
        for region in ("eu-west-1", "us-east-1")
        for ending in ("", ".fifo")
    ]


def fill(stores: Sequence[Store], seed: int, queues: int = 4, messages: int = 30) -> None:
    chance = random.Random(seed)
    for index, store in enumerate(stores):
        own = [name for name in names(queues) if shard_of(name, len(stores)) == index]
        if own:
            ShardFiller(store, chance).fill(own, messages)


Dump = dict[str, Any]


def dump(stores: Sequence[Store]) -> Dump:
    """Everything that does not depend on how many shards there are, read queue by queue."""
    found: Dump = {"cooldowns": {}, "tasks": {}, "queues": {}}
    for index, store in enumerate(stores):
        state = store.open()
        found["cooldowns"] |= state.records.get(COOLDOWNS.name, {})
        found["tasks"] |= state.records.get(MOVE_TASKS.name, {})
        found["tasks"] |= state.records.get(BULK_TASKS.name, {})
        for data in state.records.get(QUEUES.name, {}).values():
            record = QUEUES.decode(data)
            assert shard_of(record.name, len(stores)) == index
            assert record.id < state.mark.next_number
            found["queues"][record.name] = {
                "definition": {**_fields(record), "id": None},
                "usage": state.usage.get(record.id),
                **_held(store, record, state),
            }
    return found


def _held(store: Store, record: QueueRecord, state: ShardState) -> Dump:
    rows = store.select(Selection(record.id, after=record.purged_to), rows_max=LAST)
    assert all(row.seq < state.mark.next_number for row in rows)
    assert all(row.position < state.mark.next_number * POSITION_GAP for row in rows)
    contents = {row.seq: store.contents([row.seq])[row.seq] for row in rows}
    sends = store.dedup(record.id, NOW_MS)
    reported = state.records.get(FAILURES.name, {})
    failures = [FAILURES.decode(reported[key]) for row in rows if (key := str(row.seq)) in reported]
    assert all(each.queue == record.id for each in failures)
    return {
        "failures": [each.reports for each in failures],
        "rows": [row._replace(seq=0, queue=0, content=contents[row.seq]) for row in rows],
        "sends": [(send.digest, send.until_ms) for send in sends],
        "metrics": _metrics(store, record.id),
        "hours": _hours(store, record.id),
    }


def _metrics(store: Store, queue: int) -> list[TimedQueueRow]:
    stored = [row for chunk in read_log(store, queue, -1) for row in QUEUE_CHUNKS.unpack(chunk.data)]
    gathered = read_gathered(store).rows.get(queue)
    return stored + ([] if gathered is None else gathered.timed)


def _hours(store: Store, queue: int) -> list[TimedRow[HourRow]]:
    stored = read_log(store, queue, -1, kind=HOURS_LOG)
    found = [row for chunk in stored for row in HOUR_CHUNKS.unpack(chunk.data)]
    gathered = read_gathered(store).rows.get(queue)
    return found + ([] if gathered is None else finished(hours_of(gathered.timed, gathered.end_s)))
