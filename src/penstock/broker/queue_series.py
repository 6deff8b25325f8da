"""The metrics of queues of one shard or of all, as others ask for them. A series travels as points of one metric."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from penstock.metrics.queue_rows import QUEUE_METRICS
from penstock.metrics.series import Point
from penstock.names import QueueName, Space

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class SeriesQuery(msgspec.Struct, frozen=True, array_like=True):
    """Which metrics (:data:`penstock.metrics.queue_rows.QUEUE_METRICS`) of which queues, by name.

    A period is a multiple of a minute, or it divides one."""

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
        """Those of ``only``, in order."""
        if self.only is None:
            return None
        space = self.space
        return [QueueName(space.account, space.region, name) for name in sorted(self.only)]


class SeriesQuestion(msgspec.Struct, frozen=True, array_like=True):
    shards: list[int]
    query: SeriesQuery


class QueueSeries(msgspec.Struct, frozen=True, array_like=True):
    """``points``: for each metric that was asked for."""

    name: str
    fifo: bool
    points: list[list[Point]]


async def series_of(partition: Partition, query: SeriesQuery) -> list[QueueSeries]:
    """Returns the series of the first queues of a shard, in order of name; they are empty if no metrics are kept."""
    catalogue, metering = partition.catalogue, partition.metering
    names = query.named
    if names is None:
        names = catalogue.names(query.space, query.prefix, query.after, query.queues_max)
    queues = (catalogue.get(name) for name in names)
    found = [queue for queue in queues if queue is not None][: query.queues_max]
    metrics = [QUEUE_METRICS[metric] for metric in query.metrics]
    points = (
        {}
        if metering is None
        else await metering.points(found, metrics, query.start_s, query.end_s, query.period_s)
    )
    nothing: list[list[Point]] = [[] for _ in metrics]
    return [QueueSeries(queue.name.name, queue.settings.fifo, points.get(queue, nothing)) for queue in found]


def first_series(found: Iterable[list[QueueSeries]], query: SeriesQuery) -> list[QueueSeries]:
    """Merges lists in order of name that have no queue in common."""
    return list(islice(merge(*found, key=lambda each: each.name), query.queues_max))
