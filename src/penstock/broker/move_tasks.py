"""Messages that change queues: dead letters on their way out, and move tasks on their way back.

Rule 1: a dead letter keeps its id, body, attributes, count and send time; it notes where it came from. On a standard
        queue its retention goes on from the first send, on FIFO it begins anew.
Rule 2: a moved message is a new one: new id, new enqueue time, count zero, so that it cannot bounce straight back.
Rule 3: leaving one queue and joining the other is one commit: nothing is lost or doubled, whenever the power goes.
Rule 4: a task survives a restart and goes on.
Rule 5: a task that was begun for somebody sends only where he may: he was asked about the queues that were sources
        at the start, and dead letters of any other end it.
Rule 6: a task moves no more messages than the source held when it began, so that it ends whatever arrives meanwhile.
        Which ones is the queue's order: a later message goes only where an earlier one was taken away, or has to
        wait behind others (in flight, in a group, of a noisy tenant).
"""

from __future__ import annotations

import logging
import uuid
from functools import partial

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.key_guard import KeyGuard, check_key
from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.broker.upkeep import Upkeep
from penstock.errors import (
    KeyDisabled,
    KeyUnavailable,
    MoveTaskMissing,
    MoveTaskNotRunning,
    MoveTaskRunning,
    QueueMissing,
    SourceNotDeadLetterQueue,
    StoreError,
)
from penstock.limits import SECOND
from penstock.names import Arn, QueueName
from penstock.promise import Promise, run_detached
from penstock.queues.messages import Entry
from penstock.queues.redrive import dead_letter, moved_message
from penstock.store.changes import RecordKind

log = logging.getLogger("penstock.broker")

RUNNING, COMPLETED, CANCELLING, CANCELLED, FAILED = (
    "RUNNING",
    "COMPLETED",
    "CANCELLING",
    "CANCELLED",
    "FAILED",
)
_CHUNK_MAX = 100
_CHUNKS_PER_SECOND = 10
_REMEMBERED_PER_QUEUE = 10


class MoveTaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: QueueName
    destination: QueueName | None
    rate: int | None
    status: str
    started_ms: int
    to_move: int
    moved: int = 0
    failure: str | None = None
    only_to: frozenset[QueueName] | None = None
    """Where messages may go back to; None: wherever they came from."""
    moves_max: int | None = None
    """How many messages the source held when it began; None: it began before there was such a bound."""


MOVE_TASKS = RecordKind("move_task", MoveTaskRecord)


class MoveFailed(Exception):
    """The task cannot go on; the text is the failure reason it reports."""


def _key_failure(error: KeyUnavailable) -> MoveFailed:
    return MoveFailed("KMS.DisabledException" if isinstance(error, KeyDisabled) else "KMS.NotFoundException")


class MoveTasks:
    def __init__(
        self,
        shard: Shard,
        catalogue: Catalogue,
        keeper: Upkeep,
        keys: KeyGuard,
    ) -> None:
        self._shard = shard
        self._store = shard.store
        self._runtime = shard.runtime
        self._clock = shard.clock
        self._limits = shard.limits
        self._catalogue = catalogue
        self._keeper = keeper
        self._keys = keys
        self._tasks = shard.table(MOVE_TASKS)
        self._stopped = False

    def start(self) -> None:
        for _, task in self._tasks:
            if task.status in (RUNNING, CANCELLING):
                run_detached(self._run(task.id))

    def stop(self) -> None:
        self._stopped = True

    # -- dead letters ----------------------------------------------------------------------------------------

    def bury(self, entry: Entry, source: LiveQueue, target: LiveQueue, now_ms: int) -> None:
        """A message that was received too often goes to the dead-letter queue. ``source`` has let go of it."""
        number = self._shard.next_number()
        letter = dead_letter(entry, number, source.name.arn, source.settings, now_ms)
        self._shard.changes.move(source.id, target.id, letter)
        self._shard.joining(target).append(letter)

    # -- tasks -----------------------------------------------------------------------------------------------

    def of(self, source: LiveQueue) -> list[MoveTaskRecord]:
        """Latest first."""
        tasks = [task for _, task in self._tasks if task.source == source.name]
        return sorted(reversed(tasks), key=lambda task: -task.started_ms)

    def begin(
        self,
        source: LiveQueue,
        destination: LiveQueue | None,
        rate: int | None,
        only_to: frozenset[QueueName] | None,
    ) -> MoveTaskRecord:
        if not self._catalogue.sources_of(source.name):
            raise SourceNotDeadLetterQueue
        earlier = self.of(source)
        if any(task.status in (RUNNING, CANCELLING) for task in earlier):
            raise MoveTaskRunning
        for forgotten in earlier[_REMEMBERED_PER_QUEUE - 1 :]:
            self._tasks.remove(forgotten.id)
        task = MoveTaskRecord(
            id=str(uuid.uuid4()),
            source=source.name,
            destination=None if destination is None else destination.name,
            rate=rate,
            status=RUNNING,
            started_ms=self._clock.wall_ms(),
            to_move=source.rules.backlog.total - source.rules.backlog.in_flight,
            only_to=only_to,
            moves_max=source.rules.backlog.total,
        )
        self._save(task, source)
        run_detached(self._run(task.id))
        return task

    def cancel(self, source: LiveQueue, task_id: str) -> MoveTaskRecord:
        task = self._tasks.get(task_id)
        if task is None or task.source != source.name:
            raise MoveTaskMissing
        if task.status != RUNNING:
            raise MoveTaskNotRunning
        task = msgspec.structs.replace(task, status=CANCELLING)
        self._save(task, source)
        return task

    def source_gone(self, queue: LiveQueue) -> None:
        for task in self.of(queue):
            self._tasks.remove(task.id)

    def _save(self, task: MoveTaskRecord, source: LiveQueue) -> None:
        self._tasks.put(task.id, task)
        self._shard.touch(source)

    async def _run(self, task_id: str) -> None:
        await self._shard.settled()  # begin only what will be remembered
        while not self._stopped and (task := self._tasks.get(task_id)) is not None:
            source = self._catalogue.get(task.source)
            if source is None:
                return
            try:
                if task.status == CANCELLING:
                    self._save(msgspec.structs.replace(task, status=CANCELLED), source)
                if task.status != RUNNING:
                    await self._shard.settled()  # if that is refused, the task is not over
                    return
                await self._step(task, source)
            except MoveFailed as failure:
                task = self._tasks.get(task_id) or task
                self._save(msgspec.structs.replace(task, status=FAILED, failure=str(failure)), source)
            except StoreError as error:
                log.warning("move task %s tries again in a second: %s", task_id, error)
                await self._pause(SECOND)
            except Exception:
                log.exception("move task %s failed", task_id)
                task = self._tasks.get(task_id) or task
                self._save(msgspec.structs.replace(task, status=FAILED, failure="InternalError"), source)

    async def _step(self, task: MoveTaskRecord, source: LiveQueue) -> None:
        """Move one chunk, or see that there is nothing left."""
        if self._shard.refuses is not None:
            # A move needs space. Another refused commit would only take others down with it.
            await self._pause(SECOND)
            return
        await self._keeper.loaded(source)
        chunk = min(_CHUNK_MAX, max(1, (task.rate or self._limits.move_rate_max) // _CHUNKS_PER_SECOND))
        if task.moves_max is not None:
            chunk = min(chunk, task.moves_max - task.moved)
        held = source.rules.withdraw(chunk, self._clock.now_ms(), self._shard.changes)
        if self._shard.changes:
            self._shard.touch(source)
        self._keeper.page(source)
        if not held:
            if chunk and source.rules.backlog.reading:
                await self._pause(1)
            elif (current := self._tasks.get(task.id)) is not None and current.status == RUNNING:
                self._save(msgspec.structs.replace(current, status=COMPLETED), source)
            return
        try:
            moved = await self._move(task, source, held)
        except StoreError:
            if source.loaded:
                self._give_back(source, held)
            raise
        if task.rate:
            await self._pause(max(1, moved * SECOND // task.rate))

    async def _move(self, task: MoveTaskRecord, source: LiveQueue, held: list[Entry]) -> int:
        missing = [entry.seq for entry in held if entry.content is None]
        try:
            check_key(self._keys, source)
            contents = await self._shard.read(partial(self._store.contents, missing)) if missing else {}
        except KeyUnavailable as error:
            if source.loaded:
                self._give_back(source, held)
            raise _key_failure(error) from None
        now_ms, moved = self._clock.now_ms(), 0
        failure: MoveFailed | None = None
        for i, entry in enumerate(held):
            content = entry.content or contents.get(entry.seq)
            try:
                destination = self._destination(task, entry)
            except MoveFailed as error:
                failure = error
                self._give_back(source, held[i:])
                break
            # Memory of the source may have been thrown away meanwhile: then it no longer knows the message.
            if content is not None and source.rules.let_go(entry, now_ms, self._shard.changes):
                self._rejoin(entry, content, destination, now_ms)
                moved += 1
        current = self._tasks.get(task.id)
        if current is not None:
            self._save(msgspec.structs.replace(current, moved=current.moved + moved), source)
        await self._shard.settled()
        if failure is not None:
            raise failure
        return moved

    def _give_back(self, source: LiveQueue, held: list[Entry]) -> None:
        source.rules.give_back(held, self._clock.now_ms(), self._shard.changes)
        self._keeper.changed(source)

    def _destination(self, task: MoveTaskRecord, entry: Entry) -> LiveQueue:
        name = task.destination
        if name is None:
            arn = Arn.parse(entry.source or "")
            if arn is None:
                raise MoveFailed("CouldNotDetermineMessageSource")
            name = arn.queue
            if task.only_to is not None and name not in task.only_to:
                raise MoveFailed("AccessDenied")
        try:
            destination = self._catalogue.find(name)
            check_key(self._keys, destination)
        except QueueMissing:
            raise MoveFailed("AWS.SimpleQueueService.NonExistentQueue") from None
        except KeyUnavailable as error:
            raise _key_failure(error) from None
        return destination

    def _rejoin(self, entry: Entry, content: bytes, destination: LiveQueue, now_ms: int) -> None:
        number = self._shard.next_number()
        moved = moved_message(
            entry, content, number, destination.rules.message_id(number), destination.settings, now_ms,
            self._clock.wall_ms(),
        )  # fmt: skip
        self._shard.changes.add(destination.id, moved)
        self._shard.joining(destination).append(moved)

    def _pause(self, ms: int) -> Promise[None]:
        later: Promise[None] = Promise()
        self._runtime.at(self._clock.now_ms() + ms, lambda: later.resolve(None))
        return later
