"""The stored tasks of a shard, move tasks and bulk tasks alike: how many an account may have, what is kept of each.

The record of a task is written with every step and stays for a while after the end, so that it has to be small. What
says which messages a task is about, its scope, may be long: it is a record of its own, stored once and forgotten when
the task ends. An account has a limited number of tasks in each shard; of those that ended, the oldest are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.errors import QuotaReached
from penstock.names import QueueName
from penstock.store.changes import RecordKind


class TaskRecord(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def queue(self) -> QueueName: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def is_active(self) -> bool: ...


T = TypeVar("T", bound=TaskRecord)
S = TypeVar("S")


class TaskRecords(Generic[T, S]):
    def __init__(self, shard: Shard, kind: RecordKind[T], scopes: RecordKind[S], per_queue: int) -> None:
        """``per_queue``: how many tasks of one queue there are, with those that ended."""
        self._shard = shard
        self._per_queue = per_queue
        self._tasks = shard.table(kind, self._undone)
        self._scopes = shard.table(scopes)
        # By account. It may hold ids of tasks whose commit was refused.
        self._ids: dict[str, dict[str, None]] = {}
        for _, task in self._tasks:
            self._note(task)

    def __iter__(self) -> Iterator[T]:
        return (task for _, task in self._tasks)

    @property
    def active(self) -> int:
        """How many tasks run or wait."""
        return sum(task.is_active for task in self)

    def get(self, task_id: str) -> T | None:
        return self._tasks.get(task_id)

    def scope(self, task_id: str) -> S | None:
        """Returns the scope of a task; None if the task has no scope or has ended."""
        return self._scopes.get(task_id)

    def of_account(self, account: str) -> list[T]:
        """The tasks of an account, the latest first."""
        tasks = [task for id in self._ids.get(account, ()) if (task := self._tasks.get(id)) is not None]
        return sorted(reversed(tasks), key=lambda task: -task.started_ms)

    def of(self, queue: QueueName) -> list[T]:
        """The tasks of a queue, the latest first."""
        return [task for task in self.of_account(queue.account) if task.queue == queue]

    # In the open commit.

    def add(self, task: T, scope: S | None, queue: LiveQueue) -> None:
        """Make room for a task and store it. Raises QuotaReached."""
        limits, tasks = self._shard.limits, self.of_account(queue.name.account)
        if sum(each.is_active for each in tasks) >= limits.tasks_active_max:
            raise QuotaReached("running tasks in one shard", limits.tasks_active_max)
        self._forget_ended(self.of(queue.name), self._per_queue - 1)
        self._forget_ended(self.of_account(queue.name.account), limits.tasks_max - 1)
        if scope is not None:
            self._scopes.put(task.id, scope)
        self.save(task, queue)

    def save(self, task: T, queue: LiveQueue) -> None:
        self.put(task)
        self._shard.touch(queue)
        if not task.is_active and self._scopes.get(task.id) is not None:
            self._scopes.remove(task.id)

    def put(self, task: T, *, can_wait: bool = False) -> None:
        """Change a task without a change of its queue."""
        self._tasks.put(task.id, task, can_wait=can_wait)
        self._note(task)

    def remove_all(self, queue: QueueName) -> None:
        for task in self.of(queue):
            self._remove(task)

    def _forget_ended(self, tasks: list[T], tasks_max: int) -> None:
        """``tasks``: latest first."""
        ended = [task for task in tasks if not task.is_active]
        for task in ended[max(0, tasks_max - (len(tasks) - len(ended))) :]:
            self._remove(task)

    def _remove(self, task: T) -> None:
        self._tasks.remove(task.id)
        if self._scopes.get(task.id) is not None:
            self._scopes.remove(task.id)
        ids = self._ids[task.queue.account]
        del ids[task.id]
        if not ids:
            del self._ids[task.queue.account]

    def _note(self, task: T) -> None:
        self._ids.setdefault(task.queue.account, {})[task.id] = None

    def _undone(self, task_id: str, task: T | None) -> None:
        if task is not None:
            self._note(task)
