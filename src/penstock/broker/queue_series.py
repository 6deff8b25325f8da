"""The metrics of queues of one shard or of all, as others ask for them. A series travels as points of one metric."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import msgspec

from penstock.broker.questions import ShardQuestion
from penstock.metrics.queue_rows import QUEUE_METRICS
from penstock.metrics.series import Point
from penstock.names import QueueName, Space, shard_of

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class QueueSeries(msgspec.Struct, frozen=True, array_like=True):
    """``points``: for each metric that was asked for."""

    name: str
    fifo: bool
    points: list[list[Point]]


class SeriesQuery(ShardQuestion[list[QueueSeries]], frozen=True):
    """Which metrics (:data:`penstock.metrics.queue_rows.QUEUE_METRICS`) of which queues, in order of name.

    A period is a multiple of a minute, or it divides one."""

    kind: ClassVar[str] = "series"
    space: Space
    metrics: list[str]
    start_s: int
    end_s: int
    period_s: int
    queues_max: int
    prefix: str = ""
    after: str = ""  # only names beyond this one
    only: frozenset[str] | None = None  # these names, whatever the prefix; None: all

    @property
    def named(self) -> list[QueueName] | None:
        """The queues of ``only``, in order."""
        if self.only is None:
            return None
        space = self.space
        return [QueueName(space.account, space.region, name) for name in sorted(self.only)]

    def shards(self, count: int) -> Iterable[int]:
        named = self.named
        return range(count) if named is None else sorted({shard_of(name, count) for name in named})

    async def answer(self, partition: Partition) -> list[QueueSeries]:
        """The series of the first queues of a shard. They have no points where no metrics are kept."""
        catalogue, metering = partition.catalogue, partition.metering
        names = self.named
        if names is None:
            names = catalogue.names(self.space, self.prefix, self.after, self.queues_max)
        queues = (catalogue.get(name) for name in names)
        found = [queue for queue in queues if queue is not None][: self.queues_max]
        asked = [(queue, QUEUE_METRICS[metric]) for queue in found for metric in self.metrics]
        if metering is None:
            points: list[list[Point]] = [[] for _ in asked]
        else:
            points = await metering.points(asked, self.start_s, self.end_s, self.period_s)
        each = len(self.metrics)
        return [
            QueueSeries(queue.name.name, queue.settings.fifo, points[number * each : (number + 1) * each])
            for number, queue in enumerate(found)
        ]

    def merge(self, answers: list[list[QueueSeries]]) -> list[QueueSeries]:
        return list(islice(merge(*answers, key=lambda each: each.name), self.queues_max))
