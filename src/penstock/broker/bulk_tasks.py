"""Bulk tasks: all messages of a queue that match a filter are deleted, moved, copied, released or reset.

A task goes through the queue in order of position, a chunk at a time, up to the position that was the last when it
began: it ends whatever arrives later. Each chunk is one commit, which also carries the progress of the task, so
that after a restart it resumes where it was and does nothing twice. A message that cannot be changed stays as it is,
and is counted with the reason. A long filter is stored once, beside the record of the task, which shows a part of it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.delivery import QueueDelivery
from penstock.broker.editing import Editing
from penstock.broker.handover import Departed, last_departures
from penstock.broker.inspection import Inspection, MessagePage
from penstock.broker.live_queue import LiveQueue, Outcomes
from penstock.broker.operations import Operation
from penstock.broker.parts import Part
from penstock.broker.shard import Shard
from penstock.broker.task_records import TaskRecords
from penstock.errors import (
    ContentDamaged,
    FilterInvalid,
    FilterTooSlow,
    KeyUnavailable,
    MessageInFlight,
    MessageNotAvailable,
    NotOwned,
    PenstockError,
    QueueMissing,
    StoreClosed,
    StoreError,
    TaskInvalid,
    TaskMissing,
    TaskNotRunning,
    TaskRunning,
)
from penstock.limits import SECOND
from penstock.names import QueueName, Requester, shard_of
from penstock.promise import run_detached
from penstock.queues.filters import MessageFilter
from penstock.store.changes import RecordKind
from penstock.store.moving import MovedRecords, Relocation, StoredRecord, by_queue

log = logging.getLogger("penstock.broker")

_CHUNK_MAX = 200
_CHUNK_BYTES = 2 * 1024 * 1024  # or one message: contents of a chunk are in memory
_CHUNKS_PER_SECOND = 10
_ARRIVAL_PAUSE_MS = 100
_RUNNING_PER_QUEUE = 5
_REMEMBERED_PER_QUEUE = 20
_REASONS_MAX = 20
_DRY_RUN_LOOKED_MAX = 20_000
_DRY_RUN_MS_MAX = 5 * SECOND
_WITH_TARGET = (Operation.MOVE, Operation.COPY)

TARGET_MISSING = "the target queue does not exist"
_REASONS: dict[type[PenstockError], str] = {
    MessageInFlight: "in flight",
    MessageNotAvailable: "gone meanwhile",
    QueueMissing: TARGET_MISSING,
    KeyUnavailable: "an encryption key cannot be used",
    ContentDamaged: "damaged",
}


class TaskStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class BulkTaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    queue: QueueName
    operation: Operation
    filter: MessageFilter  # as it is shown
    to: QueueName | None
    rate: int | None  # messages a second
    by: Requester | None  # who began it, for the histories of the messages
    status: TaskStatus
    started_ms: int
    total: int  # how many messages the queue had when it began
    upto: int  # messages behind this position came later
    after: str | None = None  # where it continues
    looked_through: bool = False  # all were looked at; some may still be on their way to another shard
    looked_at: int = 0
    matched: int = 0
    done: int = 0
    cannot: dict[str, int] = {}  # reason -> messages
    ended_ms: int | None = None
    failure: str | None = None
    departures: dict[int, int] = {}
    """The position in the outbox of its last message for each other shard. The task is complete when these have
    arrived."""
    outbox_position: int = 0
    """No message of it, for whichever shard, has a position behind this one: written up to release 0.2."""
    filter_cut: bool = False
    """``filter`` is a part of the filter only. The whole of it is the scope of the task, until it ends."""

    @property
    def is_active(self) -> bool:
        return self.status is TaskStatus.RUNNING


class TaskFilter(msgspec.Struct, frozen=True):
    """The whole filter of a running task."""

    queue: QueueName
    filter: MessageFilter


def _moved(to: Relocation, record: StoredRecord) -> MovedRecords:
    """A task goes with its queue, and moves again what had left it and never arrived."""
    task, back = BULK_TASKS.decode(record.data), to.returning(record.key)
    if back or task.departures:
        task = msgspec.structs.replace(task, done=task.done - back, departures={})
        if back and task.operation is not Operation.COPY:  # it has to look at them again
            task = msgspec.structs.replace(task, after=None, looked_through=False)
        record = record._replace(data=BULK_TASKS.encode(task))
    return [(shard_of(task.queue, to.shards), record)]


BULK_TASKS = RecordKind("bulk_task", BulkTaskRecord, _moved)
TASK_FILTERS: RecordKind[TaskFilter] = RecordKind(
    "bulk_task_filter", TaskFilter, by_queue(lambda record: TASK_FILTERS.decode(record.data).queue)
)


class DryRun(NamedTuple):
    """What a task would do."""

    matched: int
    can: int
    cannot: dict[str, int]
    looked_at: int
    complete: bool  # False: there are more messages than were looked at


class BulkTasks(Part):
    def __init__(
        self,
        shard: Shard,
        catalogue: Catalogue,
        delivery: QueueDelivery,
        inspection: Inspection,
        editing: Editing,
    ) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._delivery = delivery
        delivery.on_returned(self._returned)
        self._inspection = inspection
        self._editing = editing
        self._tasks = TaskRecords(shard, BULK_TASKS, TASK_FILTERS, _REMEMBERED_PER_QUEUE)
        self._stopped = False

    def start(self) -> None:
        """Continue the tasks that a restart interrupted."""
        for task in list(self._tasks):
            if task.is_active:
                run_detached(self._run(task.id))
            elif (shown := _with_cut_filter(task)) is not task:  # an earlier version stored all of it
                self._tasks.put(shown, can_wait=True)

    def stop(self) -> None:
        self._stopped = True

    # -- what is asked for -----------------------------------------------------------------------------------

    @property
    def running_tasks(self) -> int:
        """How many tasks run."""
        return self._tasks.active

    def of_account(self, account: str) -> list[BulkTaskRecord]:
        """Returns the tasks of all queues of an account in this shard, latest first."""
        return self._tasks.of_account(account)

    def of(self, queue: LiveQueue) -> list[BulkTaskRecord]:
        """Returns the tasks of a queue, latest first."""
        return self._tasks.of(queue.name)

    def get(self, queue: LiveQueue, task_id: str) -> BulkTaskRecord:
        """Raises TaskMissing."""
        task = self._tasks.get(task_id)
        if task is None or task.queue != queue.name:
            raise TaskMissing
        return task

    def filter_of(self, task: BulkTaskRecord) -> MessageFilter:
        """The whole filter of a task that runs; of one that has ended, what is kept of it."""
        scope = self._tasks.scope(task.id) if task.filter_cut else None
        return task.filter if scope is None else scope.filter

    async def begin(
        self,
        queue: LiveQueue,
        operation: Operation,
        to: QueueName | None,
        filter: MessageFilter,
        rate: int | None = None,
        *,
        by: Requester | None = None,
    ) -> BulkTaskRecord:
        """Start a task. ``to``: for a move or a copy. Raises FilterInvalid, TaskInvalid, TaskRunning or
        QuotaReached."""
        shard = self._shard
        _check(queue, operation, to, filter, rate)
        await queue.memory.load()
        if sum(task.is_active for task in self.of(queue)) >= _RUNNING_PER_QUEUE:
            raise TaskRunning
        shown = filter.cut()
        task = BulkTaskRecord(
            id=str(uuid.uuid4()),
            queue=queue.name,
            operation=operation,
            filter=shown,
            filter_cut=shown != filter,
            to=to,
            rate=rate,
            by=by,
            status=TaskStatus.RUNNING,
            started_ms=shard.clock.wall_ms(),
            total=queue.rules.backlog.total,
            upto=shard.next_position(),
        )
        self._tasks.add(task, TaskFilter(queue.name, filter) if task.filter_cut else None, queue)
        await shard.settled()
        # On the next turn of the loop: the answer to this request comes first.
        shard.runtime.soon(lambda: run_detached(self._run(task.id)))
        return task

    async def cancel(self, queue: LiveQueue, task_id: str) -> BulkTaskRecord:
        """The chunk under way is still finished. Raises TaskMissing or TaskNotRunning."""
        task = self.get(queue, task_id)
        if not task.is_active:
            raise TaskNotRunning
        task = self._end(task, queue, TaskStatus.CANCELLED)
        await self._shard.settled()
        return task

    async def dry_run(
        self, queue: LiveQueue, operation: Operation, to: QueueName | None, filter: MessageFilter
    ) -> DryRun:
        """What a task would do now. Changes nothing. Raises FilterInvalid, FilterTooSlow or TaskInvalid."""
        _check(queue, operation, to, filter, None)
        until_ms = self._shard.clock.now_ms() + _DRY_RUN_MS_MAX
        matched = can = looked_at = 0
        cannot: dict[str, int] = {}
        after = None
        while True:
            page = await self._inspection.list(
                queue, filter, after=after, limit=_CHUNK_MAX, size_max=_CHUNK_BYTES, with_content=False
            )
            seqs = [view.row.seq for view in page.messages]
            outcomes = await self._editing.apply(queue, seqs, operation, to, dry_run=True) if seqs else []
            matched += len(seqs)
            can += outcomes.count(None)
            cannot = _counted(cannot, outcomes)
            looked_at, after = looked_at + page.looked_at, page.next
            if after is None or looked_at >= _DRY_RUN_LOOKED_MAX or self._shard.clock.now_ms() >= until_ms:
                return DryRun(matched, can, cannot, looked_at, after is None)

    def queue_deleted(self, queue: LiveQueue) -> None:
        self._tasks.remove_all(queue.name)

    def _returned(self, task_id: str, reason: str) -> None:
        """The queue of another shard did not take a message that the task sent there. ``reason``: the name of the
        error."""
        task = self._tasks.get(task_id)
        if task is not None:
            known = (text for kind, text in _REASONS.items() if kind.__name__ == reason)
            cannot = _added(task.cannot, next(known, "the target queue failed to take it"))
            self._tasks.put(msgspec.structs.replace(task, done=task.done - 1, cannot=cannot))

    # -- a task at work --------------------------------------------------------------------------------------

    async def _run(self, task_id: str) -> None:
        while not self._stopped and (task := self._tasks.get(task_id)) is not None:
            queue = self._catalogue.get(task.queue)
            if queue is None:
                return
            try:
                if not task.is_active:
                    await self._shard.settled()  # if that is refused, the task is not over
                    return
                await self._step(task, queue)
            except (NotOwned, QueueMissing, StoreClosed):
                return  # the next owner of the shard continues it, or it was deleted with its queue
            except (FilterTooSlow, FilterInvalid) as error:
                self._end(task, queue, TaskStatus.FAILED, str(error))
            except (StoreError, KeyUnavailable) as error:
                log.warning("bulk task %s failed, trying again in a second: %s", task_id, error)
                await self._shard.pause(SECOND)
            except Exception:
                log.exception("bulk task %s failed", task_id)
                self._end(task, queue, TaskStatus.FAILED, "internal error")

    async def _step(self, task: BulkTaskRecord, queue: LiveQueue) -> None:
        """Look for the next chunk and change it, or see that there is nothing left."""
        shard = self._shard
        if shard.refuses is not None:
            # Most operations need space, and a refused commit would fail other requests too.
            await shard.pause(SECOND)
            return
        if task.looked_through:
            if self._delivery.is_pending(task.departures, task.outbox_position):
                await shard.pause(_ARRIVAL_PAUSE_MS)
            else:
                self._end(task, queue, TaskStatus.COMPLETED)
            return
        if not await self._delivery.has_room(task.departures):
            return
        whole = not task.filter_cut or self._tasks.scope(task.id) is not None
        assert whole, "the filter of a running task is stored"
        begun_ms = shard.clock.now_ms()
        chunk = _CHUNK_MAX if task.rate is None else min(_CHUNK_MAX, max(1, task.rate // _CHUNKS_PER_SECOND))
        page = await self._inspection.list(
            queue,
            self.filter_of(task),
            after=task.after,
            limit=chunk,
            size_max=_CHUNK_BYTES,
            upto=task.upto,
            with_content=False,
        )
        seqs = [view.row.seq for view in page.messages]
        progress = partial(self._progress, task.id, queue, page)
        if seqs:
            await self._editing.apply(
                queue, seqs, task.operation, task.to, by=task.by, task=task.id, in_commit=progress
            )
        else:
            progress([], [])
            await shard.settled()
        worked_ms = shard.clock.now_ms() - begun_ms
        # Requests come first: without a rate it pauses for as long as it works.
        pause_ms = worked_ms if task.rate is None else len(seqs) * SECOND // task.rate - worked_ms
        await shard.pause(max(1, pause_ms))

    def _progress(
        self,
        task_id: str,
        queue: LiveQueue,
        page: MessagePage,
        outcomes: Outcomes,
        departed: Sequence[Departed],
    ) -> None:
        """The open commit changes a chunk, and says so."""
        task = self._tasks.get(task_id)
        if task is None:
            return
        moved = msgspec.structs.replace(
            task,
            after=page.next,
            looked_through=page.next is None,
            looked_at=task.looked_at + page.looked_at,
            matched=task.matched + len(outcomes),
            done=task.done + outcomes.count(None),
            cannot=_counted(task.cannot, outcomes),
            departures=last_departures(task.departures, departed),
        )
        self._tasks.save(moved, queue)

    def _end(
        self, task: BulkTaskRecord, queue: LiveQueue, status: TaskStatus, failure: str | None = None
    ) -> BulkTaskRecord:
        task = self._tasks.get(task.id) or task
        if task.is_active:
            ended_ms = self._shard.clock.wall_ms()
            task = msgspec.structs.replace(task, status=status, failure=failure, ended_ms=ended_ms)
            task = _with_cut_filter(task)
            self._tasks.save(task, queue)
        return task


def _with_cut_filter(task: BulkTaskRecord) -> BulkTaskRecord:
    shown = task.filter.cut()
    return task if shown == task.filter else msgspec.structs.replace(task, filter=shown, filter_cut=True)


def _check(
    queue: LiveQueue, operation: Operation, to: QueueName | None, filter: MessageFilter, rate: int | None
) -> None:
    filter.check()
    if operation in _WITH_TARGET:
        if to is None:
            raise TaskInvalid(f"to: write the name of the queue to {operation} messages to")
        if to == queue.name:
            raise TaskInvalid("to: write the name of another queue")
    elif to is not None:
        raise TaskInvalid(f"to: leave it out, because {operation} has no target of its own")
    if rate is not None and rate < 1:
        raise TaskInvalid("rate: write how many messages a second, 1 or more")


def _counted(cannot: dict[str, int], outcomes: Outcomes) -> dict[str, int]:
    """Adds the messages among these that could not be changed, by reason."""
    counted = cannot
    for error in outcomes:
        if error is not None:
            reason = next((text for kind, text in _REASONS.items() if isinstance(error, kind)), str(error))
            counted = _added(counted, reason)
    return counted


def _added(cannot: dict[str, int], reason: str) -> dict[str, int]:
    """Adds one more message that could not be changed."""
    if reason not in cannot and len(cannot) >= _REASONS_MAX:
        reason = "other reasons"
    return {**cannot, reason: cannot.get(reason, 0) + 1}
