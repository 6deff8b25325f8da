"""The metrics of queues as a namespace, read from what the broker keeps of each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from penstock.limits import SECOND
from penstock.metrics.queue_rows import PUBLISHED_METRICS, QueueMetric, applies_to
from penstock.metrics.series import FIVE_MINUTES_S, LEVELS, MetricKey, Point
from penstock.monitoring.reading import KeysQuestion, ListedMetric, StatQuery
from penstock.names import QueueName, shard_of
from penstock.queues.fifo import FifoQueue

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

_DIMENSION = "QueueName"
_NAMES_PER_TURN = 100


class QueueNamespace:
    def __init__(self, name: str) -> None:
        """``name``: as clients know the namespace."""
        self.name = name
        self.levels = [level for level in LEVELS if level.bucket_s != FIVE_MINUTES_S]

    def shard(self, query: StatQuery, shards: int) -> int | None:
        """The shard of the queue that the query names."""
        queue = self._queue(query)
        return None if queue is None else shard_of(queue, shards)

    def _queue(self, query: StatQuery) -> QueueName | None:
        """The queue that a query is about."""
        dimensions, space = query.metric.dimensions, query.space
        if [name for name, _ in dimensions] != [_DIMENSION]:
            return None
        return QueueName(space.account, space.region, dimensions[0][1])

    async def read(self, partition: Partition, queries: Sequence[StatQuery]) -> list[tuple[str, list[Point]]]:
        """The unit and the buckets of each query: none if there is no such queue or metric."""
        metering, catalogue = partition.metering, partition.catalogue
        found: list[tuple[str, list[Point]]] = [("None", [])] * len(queries)
        if metering is None:
            return found
        # Queries about the same time are answered together: looking at a queue may take a read of the store.
        together: defaultdict[tuple[int, int, int], list[tuple[int, LiveQueue, QueueMetric]]] = defaultdict(
            list
        )
        for number, query in enumerate(queries):
            name = self._queue(query)
            assert name is not None
            queue, metric = catalogue.get(name), PUBLISHED_METRICS.get(query.metric.name)
            if queue is not None and metric is not None and applies_to(metric, fifo=queue.settings.fifo):
                together[query.start_s, query.end_s, query.period_s].append((number, queue, metric))
        for times, asked in together.items():
            points = await metering.points([(queue, metric) for _, queue, metric in asked], *times)
            for (number, _, metric), values in zip(asked, points, strict=True):
                found[number] = metric.unit, _shown(metric, values)
        return found

    async def listed(self, partition: Partition, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics in order: by metric, then by queue."""
        last = question.after
        if partition.metering is None or (last is not None and last.namespace > self.name):
            return []
        first = last.name if last is not None and last.namespace == self.name else ""
        found: list[ListedMetric] = []
        for name in sorted(PUBLISHED_METRICS):
            if question.name in (None, name) and name >= first:
                wanted = question.metrics_max - len(found)
                found += islice(self._of_metric(partition, PUBLISHED_METRICS[name], question), wanted)
                await partition.turn()
            if len(found) >= question.metrics_max:
                break
        return found

    def _of_metric(
        self, partition: Partition, metric: QueueMetric, question: KeysQuestion
    ) -> Iterator[ListedMetric]:
        for queue in self._queues(partition, metric, question):
            if not _has(queue, metric):
                continue
            key = MetricKey(self.name, metric.published_as, ((_DIMENSION, queue.name.name),))
            newest_s = _newest_s(queue)
            if question.wants(key, newest_s):
                yield ListedMetric(key, newest_s)

    def _queues(
        self, partition: Partition, metric: QueueMetric, question: KeysQuestion
    ) -> Iterator[LiveQueue]:
        """Yields the queues in order of name, from the one behind the last page on."""
        catalogue, space = partition.catalogue, question.space
        values = [value for name, value in question.dimensions if name == _DIMENSION and value is not None]
        if values:
            named = catalogue.get(QueueName(space.account, space.region, values[0]))
            if named is not None:
                yield named
            return
        after, last = "", question.after
        if last is not None and last.name == metric.published_as and last.namespace == self.name:
            after = last.dimensions[0][1] if last.dimensions else ""
        while names := catalogue.names(space, "", after, _NAMES_PER_TURN):
            for name in names:
                queue = catalogue.get(name)
                if queue is not None:
                    yield queue
            after = names[-1].name


def _newest_s(queue: LiveQueue) -> int:
    """When it last had a value, about: while it holds messages it has one every minute."""
    clock = queue.shard.clock
    if queue.memory.loaded and queue.rules.backlog.total > 0:
        return clock.wall_ms() // SECOND
    ago_ms = clock.now_ms() - queue.metrics.used_ms
    return max(0, clock.wall_ms() - ago_ms) // SECOND if queue.metrics.used_ms else 0


def _shown(metric: QueueMetric, points: list[Point]) -> list[Point]:
    """CloudWatch: some metrics have no values while there is nothing to count."""
    return [point for point in points if point[1].max > 0] if metric.hides_zero else points


def _has(queue: LiveQueue, metric: QueueMetric) -> bool:
    if not applies_to(metric, fifo=queue.settings.fifo):
        return False
    if not metric.name.startswith(("noisy", "quiet")):
        return True
    rules = queue.rules
    return queue.memory.loaded and not isinstance(rules, FifoQueue) and rules.has_tenants
