"""Which queues there are, and which names rest after a delete."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from penstock.broker.live_queue import LiveQueue
from penstock.errors import QueueDeletedRecently, QueueMissing
from penstock.names import QueueName, Space
from penstock.queues.queue import Tools
from penstock.store.changes import QueueRecord


class Catalogue:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._queues: dict[QueueName, LiveQueue] = {}
        self._names: dict[Space, list[str]] = {}  # sorted
        self.resting: dict[QueueName, int] = {}  # deleted names, and when they may be used again

    def __iter__(self) -> Iterator[LiveQueue]:
        return iter(list(self._queues.values()))

    def find(self, name: QueueName) -> LiveQueue:
        queue = self._queues.get(name)
        if queue is None:
            raise QueueMissing
        return queue

    def get(self, name: QueueName) -> LiveQueue | None:
        return self._queues.get(name)

    def names(self, space: Space, prefix: str) -> list[QueueName]:
        names = self._names.get(space, [])
        found = []
        for name in names[bisect_left(names, prefix) :]:
            if not name.startswith(prefix):
                break
            found.append(QueueName(space.account, space.region, name))
        return found

    def count(self, account: str) -> int:
        """How many queues an account has, in all regions."""
        return sum(len(names) for space, names in self._names.items() if space.account == account)

    def sources_of(self, target: QueueName) -> list[QueueName]:
        return sorted(
            queue.name
            for queue in self._queues.values()
            if queue.settings.redrive is not None and queue.settings.redrive.target == target
        )

    def check_rested(self, name: QueueName, now_ms: int) -> None:
        if self.resting.get(name, 0) > now_ms:
            raise QueueDeletedRecently

    def add(self, record: QueueRecord) -> LiveQueue:
        queue = LiveQueue(record, self._tools)
        self._queues[record.name] = queue
        insort(self._names.setdefault(record.name.space, []), record.name.name)
        return queue

    def remove(self, queue: LiveQueue) -> None:
        queue.dropped = True
        del self._queues[queue.name]
        names = self._names[queue.name.space]
        names.remove(queue.name.name)
        if not names:
            del self._names[queue.name.space]

    def restore(self, records: Iterable[QueueRecord], resting: dict[QueueName, int]) -> list[LiveQueue]:
        """Make this catalogue say what the store says; the queues that are gone are given back."""
        known = {queue.id: queue for queue in self._queues.values()}
        self._queues.clear()
        self._names.clear()
        self.resting = resting
        for record in records:
            queue = known.pop(record.id, None)
            if queue is None:
                self.add(record)
                continue
            queue.record = record
            queue.rules.settings, queue.rules.backlog.purged_to = record.settings, record.purged_to
            queue.rules.backlog.retention_ms = record.settings.retention_ms
            self._queues[record.name] = queue
            insort(self._names.setdefault(record.name.space, []), record.name.name)
        for queue in known.values():
            queue.dropped = True
        return list(known.values())
