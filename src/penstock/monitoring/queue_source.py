"""The metrics of queues as a namespace, read from what the broker keeps of each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.limits import SECOND
from penstock.metrics.queue_rows import PUBLISHED_METRICS, QueueMetric, applies_to
from penstock.metrics.series import FIVE_MINUTES_S, LEVELS, MetricKey, Point
from penstock.monitoring.reading import KeysQuestion, ListedMetric, ShardMetrics, StatQuery
from penstock.names import QueueName, shard_of
from penstock.queues.fifo import FifoQueue
from penstock.turns import Steps

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

_DIMENSION = "QueueName"
_NAMES_PER_STEP = 100


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
        steps = self._listed(partition, question)
        return await partition.part(ShardMetrics).turns.run(steps, question.space.account)

    def _listed(self, partition: Partition, question: KeysQuestion) -> Steps[list[ListedMetric]]:
        last = question.after
        if partition.metering is None or (last is not None and last.namespace > self.name):
            return []
        if any(name != _DIMENSION for name, _ in question.dimensions):
            return []
        first = last.name if last is not None and last.namespace == self.name else ""
        found: list[ListedMetric] = []
        for name, metric in sorted(PUBLISHED_METRICS.items()):
            if question.name in (None, name) and name >= first:
                for queues in self._queues(partition, metric, question):
                    found += self._of_metric(metric, queues, question)
                    if len(found) >= question.metrics_max:
                        return found[: question.metrics_max]
                    yield
        return found

    def _of_metric(
        self, metric: QueueMetric, queues: Iterable[LiveQueue], question: KeysQuestion
    ) -> Iterator[ListedMetric]:
        for queue in queues:
            if _has(queue, metric):
                key = MetricKey(self.name, metric.published_as, ((_DIMENSION, queue.name.name),))
                newest_s = _newest_s(queue)
                if question.wants(key, newest_s):
                    yield ListedMetric(key, newest_s)

    def _queues(
        self, partition: Partition, metric: QueueMetric, question: KeysQuestion
    ) -> Iterator[list[LiveQueue]]:
        """Yields the queues in order of name, some at a time, from the one behind the last page on."""
        catalogue, space = partition.catalogue, question.space
        values = [value for _, value in question.dimensions if value is not None]
        if values:
            named = catalogue.get(QueueName(space.account, space.region, values[0]))
            if named is not None:
                yield [named]
            return
        after, last = "", question.after
        if last is not None and last.name == metric.published_as and last.namespace == self.name:
            after = last.dimensions[0][1] if last.dimensions else ""
        while names := catalogue.names(space, "", after, _NAMES_PER_STEP):
            yield [queue for name in names if (queue := catalogue.get(name)) is not None]
            after = names[-1].name


def _newest_s(queue: LiveQueue) -> int:
    """When it last had a value, about: while it holds messages it has one every minute."""
    clock = queue.shard.clock
    if queue.holds_messages:
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
