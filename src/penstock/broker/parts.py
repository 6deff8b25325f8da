"""The parts of a partition: what lives with a shard, whichever package it belongs to.

All of them are started, stopped and asked in the same way, by the methods of :class:`Part`. Several parts are one
part again (:class:`PartList`): a partition has such a list, and so has a service of which several things live with a
shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from penstock.broker.internal_queues import JobQueues
    from penstock.broker.live_queue import LiveQueue

P = TypeVar("P")


class Part:
    """Something that lives with a shard, such as move tasks, metrics or the alarms of a service, and does work on it
    that no request asks for. Its constructor reads its records; nothing else begins before :meth:`start`."""

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        """The internal queues whose jobs it does, which operators see."""
        return ()

    @property
    def running_tasks(self) -> int:
        """How many tasks that a request began are not over, which operators see."""
        return 0

    def start(self) -> None:
        """Begin the work, and resume what a restart interrupted."""

    def stop(self) -> None:
        """Decide nothing new: the server stops, or the shard is given back."""

    async def prepare_flush(self) -> None:
        """Do what takes long of :meth:`flush`, in turns. This is called before it, after :meth:`stop`."""

    def flush(self) -> None:
        """Add to the open commit what was put off. This is called after :meth:`stop`, before the last commit."""

    def forget(self) -> None:
        """Take what this shard has out of what all shards of the process share. This is called last: another process
        owns the shard."""

    def queue_deleted(self, queue: LiveQueue) -> None:
        """The open commit deletes this queue."""

    def queue_purged(self, queue: LiveQueue) -> None:
        """The open commit voids all messages of this queue."""

    def clear(self, account: str) -> None:
        """Delete what clients of an account have made, with the open commit. It is for tests."""


class PartList(Part):
    """Several parts, in the order in which they start."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)

    def append(self, part: Part) -> None:
        """Add a part, before the list is started."""
        self._parts.append(part)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def find(self, kind: type[P]) -> P:
        """The part of this kind, which may be one of several that are one part."""
        for part in self._all():
            if isinstance(part, kind):
                return part
        raise LookupError(f"the partition has no part {kind.__name__}")

    def _all(self) -> Iterator[Part]:
        for part in self._parts:
            yield part
            if isinstance(part, PartList):
                yield from part._all()

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return [queues for part in self._parts for queues in part.job_queues]

    @property
    def running_tasks(self) -> int:
        return sum(part.running_tasks for part in self._parts)

    def start(self) -> None:
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        for part in self._parts:
            part.stop()

    async def prepare_flush(self) -> None:
        for part in self._parts:
            await part.prepare_flush()

    def flush(self) -> None:
        for part in self._parts:
            part.flush()

    def forget(self) -> None:
        for part in self._parts:
            part.forget()

    def queue_deleted(self, queue: LiveQueue) -> None:
        for part in self._parts:
            part.queue_deleted(queue)

    def queue_purged(self, queue: LiveQueue) -> None:
        for part in self._parts:
            part.queue_purged(queue)

    def clear(self, account: str) -> None:
        for part in self._parts:
            part.clear(account)
