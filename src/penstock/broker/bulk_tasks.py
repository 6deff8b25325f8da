"""Bulk tasks: all messages of a queue that match a filter are deleted, moved, copied, released or reset.

A task goes through the queue in order of position, a chunk at a time, up to the position that was the last when it
began: it ends whatever arrives meanwhile. Each chunk is one commit, which also carries the progress of the task, so
that after a restart it goes on where it was and does nothing twice. A message that cannot be changed stays as it is,
and is counted with the reason.
"""

from __future__ import annotations

import logging
import uuid
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.editing import Editing
from penstock.broker.inspection import Inspection, MessagePage
from penstock.broker.live_queue import LiveQueue, Outcomes
from penstock.broker.operations import Operation
from penstock.broker.outbox import Outbox
from penstock.broker.shard import Shard
from penstock.errors import (
    FilterInvalid,
    FilterTooSlow,
    KeyUnavailable,
    MessageInFlight,
    MessageNotAvailable,
    NotOwned,
    PenstockError,
    QueueMissing,
    StoreError,
    TaskInvalid,
    TaskMissing,
    TaskNotRunning,
    TaskRunning,
)
from penstock.limits import SECOND
from penstock.names import QueueName, Requester
from penstock.promise import run_detached
from penstock.queues.filters import MessageFilter
from penstock.store.changes import RecordKind

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
    filter: MessageFilter
    to: QueueName | None
    rate: int | None  # messages a second
    by: Requester | None  # who began it, for the histories of the messages
    status: TaskStatus
    started_ms: int
    total: int  # how many messages the queue held when it began
    upto: int  # messages behind this position came later
    after: str | None = None  # where it goes on
    looked_through: bool = False  # all were looked at; some may still be on their way to another shard
    looked_at: int = 0
    matched: int = 0
    done: int = 0
    cannot: dict[str, int] = {}  # reason -> messages
    ended_ms: int | None = None
    failure: str | None = None
    outbox_position: int = 0
    """Its messages for other shards have this position or one before. The task is complete when they arrived."""


BULK_TASKS = RecordKind("bulk_task", BulkTaskRecord)


class DryRun(NamedTuple):
    """What a task would do."""

    matched: int
    can: int
    cannot: dict[str, int]
    looked_at: int
    complete: bool  # False: there are more messages than were looked at


class BulkTasks:
    def __init__(
        self,
        shard: Shard,
        catalogue: Catalogue,
        outbox: Outbox | None,
        inspection: Inspection,
        editing: Editing,
    ) -> None:
        """``outbox``: for queues of other shards; None: there are none."""
        self._shard = shard
        self._catalogue = catalogue
        self._outbox = outbox
        self._inspection = inspection
        self._editing = editing
        self._tasks = shard.table(BULK_TASKS)
        self._stopped = False

    def start(self) -> None:
        """Go on with the tasks that a restart interrupted."""
        for _, task in self._tasks:
            if task.status is TaskStatus.RUNNING:
                run_detached(self._run(task.id))

    def stop(self) -> None:
        self._stopped = True

    # -- what is asked for -----------------------------------------------------------------------------------

    def all(self) -> list[BulkTaskRecord]:
        """Those of all queues of the shard."""
        return [task for _, task in self._tasks]

    @property
    def running(self) -> int:
        """How many tasks."""
        return sum(task.status is TaskStatus.RUNNING for _, task in self._tasks)

    def of(self, queue: LiveQueue) -> list[BulkTaskRecord]:
        """Those of a queue, latest first."""
        tasks = [task for _, task in self._tasks if task.queue == queue.name]
        return sorted(reversed(tasks), key=lambda task: -task.started_ms)

    def get(self, queue: LiveQueue, task_id: str) -> BulkTaskRecord:
        """Raises TaskMissing."""
        task = self._tasks.get(task_id)
        if task is None or task.queue != queue.name:
            raise TaskMissing
        return task

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
        """Start a task. ``to``: for a move or a copy. Raises FilterInvalid, TaskInvalid or TaskRunning."""
        shard = self._shard
        _check(queue, operation, to, filter, rate)
        await queue.memory.load()
        self._forget_earlier(queue)
        task = BulkTaskRecord(
            id=str(uuid.uuid4()),
            queue=queue.name,
            operation=operation,
            filter=filter,
            to=to,
            rate=rate,
            by=by,
            status=TaskStatus.RUNNING,
            started_ms=shard.clock.wall_ms(),
            total=queue.rules.backlog.total,
            upto=shard.next_position(),
        )
        self._save(task, queue)
        await shard.settled()
        # On the next turn of the loop: the answer to this request comes first.
        shard.runtime.soon(lambda: run_detached(self._run(task.id)))
        return task

    async def cancel(self, queue: LiveQueue, task_id: str) -> BulkTaskRecord:
        """The chunk under way is still finished. Raises TaskMissing or TaskNotRunning."""
        task = self.get(queue, task_id)
        if task.status is not TaskStatus.RUNNING:
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
        for task in self.of(queue):
            self._tasks.remove(task.id)

    def returned(self, task_id: str) -> None:
        """A message that the task sent to another shard is not there, because its target is gone."""
        task = self._tasks.get(task_id)
        if task is not None:
            cannot = _counted(task.cannot, [QueueMissing()])
            self._tasks.put(task_id, msgspec.structs.replace(task, done=task.done - 1, cannot=cannot))

    def _forget_earlier(self, queue: LiveQueue) -> None:
        earlier = self.of(queue)
        running = [task for task in earlier if task.status is TaskStatus.RUNNING]
        if len(running) >= _RUNNING_PER_QUEUE:
            raise TaskRunning
        ended = [task for task in earlier if task.status is not TaskStatus.RUNNING]
        for task in ended[_REMEMBERED_PER_QUEUE - len(running) - 1 :]:
            self._tasks.remove(task.id)

    # -- a task at work --------------------------------------------------------------------------------------

    async def _run(self, task_id: str) -> None:
        while not self._stopped and (task := self._tasks.get(task_id)) is not None:
            queue = self._catalogue.get(task.queue)
            if queue is None:
                return
            try:
                if task.status is not TaskStatus.RUNNING:
                    await self._shard.settled()  # if that is refused, the task is not over
                    return
                await self._step(task, queue)
            except (NotOwned, QueueMissing):
                return  # the next owner of the shard goes on with it, or it was deleted with its queue
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
            if self._outbox is not None and self._outbox.is_pending(task.outbox_position):
                await shard.pause(_ARRIVAL_PAUSE_MS)
            else:
                self._end(task, queue, TaskStatus.COMPLETED)
            return
        begun_ms = shard.clock.now_ms()
        chunk = _CHUNK_MAX if task.rate is None else min(_CHUNK_MAX, max(1, task.rate // _CHUNKS_PER_SECOND))
        page = await self._inspection.list(
            queue,
            task.filter,
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
            progress([])
            await shard.settled()
        worked_ms = shard.clock.now_ms() - begun_ms
        # Requests come first: without a rate it pauses for as long as it works.
        pause_ms = worked_ms if task.rate is None else len(seqs) * SECOND // task.rate - worked_ms
        await shard.pause(max(1, pause_ms))

    def _progress(self, task_id: str, queue: LiveQueue, page: MessagePage, outcomes: Outcomes) -> None:
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
            outbox_position=self._shard.next_number(),  # behind all that were given to messages of this chunk
        )
        self._save(moved, queue)

    def _end(
        self, task: BulkTaskRecord, queue: LiveQueue, status: TaskStatus, failure: str | None = None
    ) -> BulkTaskRecord:
        task = self._tasks.get(task.id) or task
        if task.status is TaskStatus.RUNNING:
            ended_ms = self._shard.clock.wall_ms()
            task = msgspec.structs.replace(task, status=status, failure=failure, ended_ms=ended_ms)
            self._save(task, queue)
        return task

    def _save(self, task: BulkTaskRecord, queue: LiveQueue) -> None:
        self._tasks.put(task.id, task)
        self._shard.touch(queue)


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
    """With the messages among these that could not be changed, by reason."""
    counted = dict(cannot)
    for error in outcomes:
        if error is not None:
            reason = next((text for kind, text in _REASONS.items() if isinstance(error, kind)), str(error))
            if reason not in counted and len(counted) >= _REASONS_MAX:
                reason = "other reasons"
            counted[reason] = counted.get(reason, 0) + 1
    return counted
