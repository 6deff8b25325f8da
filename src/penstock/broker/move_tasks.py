"""Move tasks: messages of a dead-letter queue go back to where they came from, or to another queue.

Leaving one queue and joining the other is one commit, so that nothing is lost or doubled in a crash; for a queue of
another shard, a message joins the outbox instead. A task survives a restart. It moves no more messages than the
source had when it began, so that it ends whatever arrives later; which ones is the order of the queue: a later
message goes only where an earlier one was removed, or has to wait (in flight, in a group, of a noisy tenant).
"""

from __future__ import annotations

import logging
import uuid
from enum import StrEnum
from functools import partial

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.delivery import Destination, QueueDelivery
from penstock.broker.handover import Departed, last_departures
from penstock.broker.history import MOVED
from penstock.broker.live_queue import LiveQueue
from penstock.broker.other_shards import SourcesQuestion
from penstock.broker.parts import Part
from penstock.broker.questions import OtherShards
from penstock.broker.shard import Shard
from penstock.broker.task_records import TaskRecords
from penstock.errors import (
    ContentDamaged,
    KeyDisabled,
    KeyMissing,
    KeyUnavailable,
    MoveTaskMissing,
    MoveTaskNotRunning,
    MoveTaskRunning,
    NotOwned,
    PenstockError,
    QueueMissing,
    SourceNotDeadLetterQueue,
    StoreClosed,
    StoreError,
)
from penstock.limits import SECOND
from penstock.names import Arn, QueueName, shard_of
from penstock.promise import run_detached
from penstock.queues.messages import Entry, decode_content
from penstock.store.changes import RecordKind
from penstock.store.moving import MovedRecords, Relocation, StoredRecord, by_queue

log = logging.getLogger("penstock.broker")


class MoveStatus(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class MoveFailure(StrEnum):
    """Why a task failed. Each service has its own words for it."""

    DESTINATION_MISSING = "destination missing"
    SOURCE_UNKNOWN = "source unknown"  # a message does not say which queue it came from
    NOT_PERMITTED = "not permitted"
    KEY_DISABLED = "key disabled"
    KEY_MISSING = "key missing"
    INTERNAL = "internal error"


_ACTIVE = (MoveStatus.RUNNING, MoveStatus.CANCELLING)
_CHUNK_MAX = 100
_CHUNKS_PER_SECOND = 10
_ARRIVAL_PAUSE_MS = 100
_REMEMBERED_PER_QUEUE = 10
_NOTICED_BY_TASK = {kind.__name__ for kind in (QueueMissing, KeyUnavailable, KeyDisabled, KeyMissing)}
"""The refusals that a task ends by itself for, when it looks for the queue the next time."""


class MoveTaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: QueueName
    destination: QueueName | None
    rate: int | None
    status: MoveStatus
    started_ms: int
    to_move: int
    moved: int = 0
    failure: str | None = None  # a MoveFailure, or the words of an earlier version
    only_to: frozenset[QueueName] | None = None
    """Which queues its messages may go back to; None: any. Dead letters of other queues end the task. A list that is
    not empty was written by version 0.2: it is the scope of the task."""
    moves_max: int | None = None
    """How many messages the source had when the task began; None if it began before there was such a bound."""
    departures: dict[int, int] = {}
    """The position in the outbox of its last message for each other shard. The task is complete when these have
    arrived."""
    outbox_position: int = 0
    """The position of its last message for whichever shard: written up to release 0.2."""

    @property
    def queue(self) -> QueueName:
        return self.source

    @property
    def is_active(self) -> bool:
        return self.status in _ACTIVE


class MoveTargets(msgspec.Struct, frozen=True):
    """Which queues the messages of a running task may go back to."""

    queue: QueueName  # the source of the task
    only_to: frozenset[QueueName]


def _moved(to: Relocation, record: StoredRecord) -> MovedRecords:
    """A task goes with its queue, and moves again what had left it and never arrived."""
    task, back = MOVE_TASKS.decode(record.data), to.returning(record.key)
    if back or task.departures:
        task = msgspec.structs.replace(task, moved=task.moved - back, departures={})
        record = record._replace(data=MOVE_TASKS.encode(task))
    return [(shard_of(task.source, to.shards), record)]


MOVE_TASKS = RecordKind("move_task", MoveTaskRecord, _moved)
MOVE_TARGETS: RecordKind[MoveTargets] = RecordKind(
    "move_task_targets", MoveTargets, by_queue(lambda record: MOVE_TARGETS.decode(record.data).queue)
)


class MoveFailed(Exception):
    """The task cannot continue."""

    def __init__(self, reason: MoveFailure) -> None:
        super().__init__(reason)
        self.reason = reason


def _key_failure(error: KeyUnavailable) -> MoveFailed:
    return MoveFailed(MoveFailure.KEY_DISABLED if isinstance(error, KeyDisabled) else MoveFailure.KEY_MISSING)


class MoveTasks(Part):
    def __init__(
        self, shard: Shard, catalogue: Catalogue, delivery: QueueDelivery, others: OtherShards
    ) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._delivery = delivery
        self._others = others
        delivery.on_returned(self._returned)
        self._tasks = TaskRecords(shard, MOVE_TASKS, MOVE_TARGETS, _REMEMBERED_PER_QUEUE)
        self._stopped = False

    def start(self) -> None:
        """Continue the tasks that a restart interrupted."""
        for task in list(self._tasks):
            if task.is_active:
                self.run(task.id)

    def stop(self) -> None:
        self._stopped = True

    @property
    def running_tasks(self) -> int:
        """How many tasks run."""
        return self._tasks.active

    def of(self, source: LiveQueue) -> list[MoveTaskRecord]:
        """The tasks of a queue, latest first."""
        return self._tasks.of(source.name)

    async def begin(
        self,
        source: LiveQueue,
        destination: QueueName | None,
        rate: int | None,
        only_to: frozenset[QueueName] | None = None,
    ) -> MoveTaskRecord:
        """Start a task, durably. Raises SourceNotDeadLetterQueue, MoveTaskRunning, QuotaReached or Unreachable."""
        if not await self._others.ask(SourcesQuestion(source.name, names_max=1)):
            raise SourceNotDeadLetterQueue
        await source.memory.load()
        source.check_present()
        if any(task.is_active for task in self.of(source)):
            raise MoveTaskRunning
        task = MoveTaskRecord(
            id=str(uuid.uuid4()),
            source=source.name,
            destination=destination,
            rate=rate,
            status=MoveStatus.RUNNING,
            started_ms=self._shard.clock.wall_ms(),
            to_move=source.rules.backlog.total - source.rules.backlog.in_flight,
            only_to=None if only_to is None else frozenset(),
            moves_max=source.rules.backlog.total,
        )
        self._tasks.add(task, None if only_to is None else MoveTargets(source.name, only_to), source)
        await self._shard.settled()
        # On the next turn of the loop: the answer to this request comes first.
        self._shard.runtime.soon(lambda: self.run(task.id))
        return task

    async def cancel(self, source: LiveQueue, task_id: str) -> MoveTaskRecord:
        """Raises MoveTaskMissing or MoveTaskNotRunning."""
        task = self._tasks.get(task_id)
        if task is None or task.source != source.name:
            raise MoveTaskMissing
        if task.status is not MoveStatus.RUNNING:
            raise MoveTaskNotRunning
        task = msgspec.structs.replace(task, status=MoveStatus.CANCELLING)
        self._tasks.save(task, source)
        await self._shard.settled()
        return task

    def queue_deleted(self, queue: LiveQueue) -> None:
        self._tasks.remove_all(queue.name)

    def _returned(self, task_id: str, reason: str) -> None:
        """The queue of another shard did not take a message that the task moved there: it is in its queue again.
        ``reason``: the name of the error."""
        task = self._tasks.get(task_id)
        if task is None:
            return
        self._tasks.put(msgspec.structs.replace(task, moved=task.moved - 1))
        source = self._catalogue.get(task.source)
        if task.status is MoveStatus.RUNNING and source is not None and reason not in _NOTICED_BY_TASK:
            # The message would be moved and refused again, for ever.
            log.error("move task %s failed, because a queue refused a message: %s", task_id, reason)
            self._fail(task, source, MoveFailure.INTERNAL)

    def run(self, task_id: str) -> None:
        run_detached(self._run(task_id))

    async def _run(self, task_id: str) -> None:
        while not self._stopped and (task := self._tasks.get(task_id)) is not None:
            source = self._catalogue.get(task.source)
            if source is None:
                return
            try:
                if task.status is MoveStatus.CANCELLING:
                    self._tasks.save(msgspec.structs.replace(task, status=MoveStatus.CANCELLED), source)
                if task.status is not MoveStatus.RUNNING:
                    await self._shard.settled()  # if that is refused, the task is not over
                    return
                await self._step(task, source)
            except (NotOwned, StoreClosed):
                return  # the next owner of the shard continues it
            except MoveFailed as failed:
                self._fail(task, source, failed.reason)
            except StoreError as error:
                log.warning("move task %s failed, trying again in a second: %s", task_id, error)
                await self._shard.pause(SECOND)
            except Exception:
                log.exception("move task %s failed", task_id)
                # What was decided before is in the open commit, and may not be all: memory is loaded again after it.
                source.refused()
                self._fail(task, source, MoveFailure.INTERNAL)

    def _fail(self, task: MoveTaskRecord, source: LiveQueue, reason: MoveFailure) -> None:
        task = self._tasks.get(task.id) or task
        self._tasks.save(msgspec.structs.replace(task, status=MoveStatus.FAILED, failure=reason), source)

    async def _step(self, task: MoveTaskRecord, source: LiveQueue) -> None:
        """Move one chunk, or see that there is nothing left."""
        if self._shard.refuses is not None:
            # A move needs space, and a refused commit would fail other requests too.
            await self._shard.pause(SECOND)
            return
        if not await self._delivery.has_room(task.departures):
            return
        await source.memory.load()
        chunk = min(_CHUNK_MAX, max(1, (task.rate or self._shard.limits.move_rate_max) // _CHUNKS_PER_SECOND))
        if task.moves_max is not None:
            chunk = min(chunk, task.moves_max - task.moved)
        now_ms = self._shard.clock.now_ms()
        withdrawn = source.rules.withdraw(chunk, now_ms, self._shard.changes)
        source.decided(now_ms)
        if not withdrawn:
            if chunk and source.rules.backlog.reading:
                await self._shard.pause(1)
            elif self._delivery.is_pending(task.departures, task.outbox_position):
                await self._shard.pause(_ARRIVAL_PAUSE_MS)
            elif (current := self._tasks.get(task.id)) is not None and current.status is MoveStatus.RUNNING:
                self._tasks.save(msgspec.structs.replace(current, status=MoveStatus.COMPLETED), source)
            return
        try:
            moved = await self._move(task, source, withdrawn)
        except StoreError:
            self._give_back(source, withdrawn)
            raise
        if task.rate:
            await self._shard.pause(max(1, moved * SECOND // task.rate))

    async def _move(self, task: MoveTaskRecord, source: LiveQueue, withdrawn: list[Entry]) -> int:
        shard = self._shard
        missing = [entry.seq for entry in withdrawn if entry.content is None]
        try:
            source.check_key()
            contents = await shard.read(partial(shard.store.contents, missing)) if missing else {}
            destinations = await self._destinations(task, withdrawn)
        except KeyUnavailable as error:
            self._give_back(source, withdrawn)
            raise _key_failure(error) from None
        now_ms, departed = shard.clock.now_ms(), list[Departed]()
        failure: MoveFailed | None = None
        for i, entry in enumerate(withdrawn):
            content = entry.content or contents.get(entry.seq)
            try:
                name = self._destination_name(task, entry)
                _check(destinations[name])
            except MoveFailed as error:
                failure = error
                self._give_back(source, withdrawn[i:])
                break
            if content is None or not _is_readable(entry, content):
                continue  # it stays, hidden for as long as any that was withdrawn, and the task goes on without it
            # Memory of the source may have been thrown away meanwhile: then it no longer knows the message.
            if not source.rules.let_go(entry, now_ms, shard.changes):
                continue
            departed.append(self._delivery.redrive(entry, content, source, name, task.id, now_ms))
            shard.open_commit.noted.append((entry.seq, MOVED, f"to {name.name}"))
        current = self._tasks.get(task.id)
        if current is not None:
            departures = last_departures(current.departures, departed)
            moved = current.moved + len(departed)
            self._tasks.save(msgspec.structs.replace(current, moved=moved, departures=departures), source)
        await shard.settled()
        if failure is not None:
            raise failure
        return len(departed)

    def _give_back(self, source: LiveQueue, withdrawn: list[Entry]) -> None:
        if source.memory.loaded:
            now_ms = self._shard.clock.now_ms()
            source.rules.give_back(withdrawn, now_ms, self._shard.changes)
            source.decided(now_ms)

    async def _destinations(
        self, task: MoveTaskRecord, withdrawn: list[Entry]
    ) -> dict[QueueName, Destination | PenstockError]:
        """The queues that these messages go to, or why one cannot take them. Raises StoreError: then they do not go
        yet."""
        names: dict[QueueName, None] = {}
        for entry in withdrawn:
            try:
                names[self._destination_name(task, entry)] = None
            except MoveFailed:
                break  # the task ends with it
        return await self._delivery.find_all(names)

    def _destination_name(self, task: MoveTaskRecord, entry: Entry) -> QueueName:
        if task.destination is not None:
            return task.destination
        # SQS: without a destination, messages go back to the queue that they came from.
        arn = Arn.parse(entry.source or "")
        if arn is None:
            raise MoveFailed(MoveFailure.SOURCE_UNKNOWN)
        scope = self._tasks.scope(task.id)
        only_to = task.only_to if scope is None else scope.only_to
        if only_to is not None and arn.queue not in only_to:
            raise MoveFailed(MoveFailure.NOT_PERMITTED)
        return arn.queue


def _is_readable(entry: Entry, content: bytes) -> bool:
    """Whether the content of a message is whole. A damaged one cannot be moved."""
    try:
        decode_content(content)
    except ContentDamaged:
        log.error("message %d is not moved: its content is damaged, it cannot be decoded", entry.seq)
        return False
    return True


def _check(destination: Destination | PenstockError) -> None:
    """Raises MoveFailed if the queue cannot take messages."""
    if isinstance(destination, KeyUnavailable):
        raise _key_failure(destination)
    if isinstance(destination, PenstockError) or (
        destination.queue is not None and destination.queue.deleted
    ):
        raise MoveFailed(MoveFailure.DESTINATION_MISSING)
