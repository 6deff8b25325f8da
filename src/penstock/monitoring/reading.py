"""Reads metrics, whichever shard has them: those that clients sent, and those of queues.

A metric of a namespace lives in one shard, the metrics of a queue in the shard of the queue. A process is asked once
for everything that it owns, and computes the statistics itself: only numbers travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock.broker.other_shards import OwnedShards, ShardQuestion
from penstock.metrics.series import MetricKey, Point, Series
from penstock.metrics.statistics import statistic
from penstock.monitoring.custom_metrics import CustomMetrics, metrics_home
from penstock.names import QueueName, Space, shard_of
from penstock.turns import Steps, in_pieces

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

_KEYS_PER_TURN = 1000
_BUCKETS_PER_STEP = 20

QUEUE_NAMESPACE, QUEUE_DIMENSION = "AWS/SQS", "QueueName"


class StatQuery(msgspec.Struct, frozen=True, array_like=True):
    """Statistics of a metric over periods that begin at ``start_s`` and every ``period_s`` after it."""

    space: Space
    metric: MetricKey
    start_s: int
    end_s: int
    period_s: int
    statistics: tuple[str, ...]
    unit: str | None = None  # only values of this unit; None: of every unit, each by itself

    def shard(self, shards: int) -> int:
        queue = self.queue
        if queue is not None:
            return shard_of(queue, shards)
        return metrics_home(self.space, self.metric.namespace).shard(shards)

    def units_of(self, units: Iterable[str]) -> list[str]:
        """Those that are asked for, in order."""
        return sorted(units) if self.unit is None else [unit for unit in units if unit == self.unit]

    @property
    def queue(self) -> QueueName | None:
        """The queue, if it is about a metric of one."""
        return queue_of(self.space, self.metric)


class UnitPoints(msgspec.Struct, frozen=True, array_like=True):
    """The values of a metric in one unit."""

    unit: str
    times: list[int]  # in order
    columns: list[list[float | None]]  # one for each statistic; None: it cannot be computed

    def values(self, column: int = 0) -> dict[int, float]:
        pairs = zip(self.times, self.columns[column], strict=True)
        return {at_s: value for at_s, value in pairs if value is not None}


class PointsQuestion(msgspec.Struct, frozen=True, array_like=True):
    shards: list[int]
    queries: list[tuple[int, StatQuery]]  # each with its number


class ListedMetric(msgspec.Struct, frozen=True, array_like=True, order=True):
    metric: MetricKey
    newest_s: int


class KeysQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The first metrics of a space in order of their keys, beyond ``after``."""

    shards: list[int]
    space: Space
    namespace: str | None
    name: str | None
    dimensions: list[tuple[str, str | None]]  # that a metric must have, with the value if one is given
    since_s: int  # with values since then
    after: MetricKey | None
    metrics_max: int

    @property
    def _prefix(self) -> tuple[str, ...]:
        """How the keys of all wanted metrics begin."""
        if self.namespace is None:
            return ()
        return (self.namespace,) if self.name is None else (self.namespace, self.name)

    @property
    def begins_beyond(self) -> tuple[Any, ...]:
        """All wanted metrics are beyond this, in order of their keys."""
        return max(self._prefix, tuple(self.after or ()))

    def is_within(self, key: MetricKey) -> bool:
        """False if neither this key is wanted nor one beyond it. Of keys beyond where the question begins."""
        prefix = self._prefix
        return key[: len(prefix)] == prefix

    def wants(self, key: MetricKey, newest_s: int) -> bool:
        return (
            newest_s >= self.since_s
            and self.namespace in (None, key.namespace)
            and self.name in (None, key.name)
            and all(
                any(name == found and value in (None, given) for found, given in key.dimensions)
                for name, value in self.dimensions
            )
            and (self.after is None or key > self.after)
        )


class QueueMetricSource(Protocol):
    """The metrics of the queues of one shard."""

    async def read(self, queries: Sequence[StatQuery]) -> list[tuple[str, list[Point]]]:
        """The unit and the buckets of each query: none if there is no such queue or metric."""

    async def listed(self, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics that queues have, in order."""


class MetricReader:
    """Reads metrics of all shards."""

    def __init__(
        self,
        broker: Broker,
        custom: Callable[[Partition], CustomMetrics],
        queues: Callable[[Partition], QueueMetricSource],
    ) -> None:
        self._broker = broker
        self._custom = custom
        self._queues = queues
        self._points = ShardQuestion(
            "metric-points", PointsQuestion, dict[int, list[UnitPoints]], self._answer_points
        )
        self._keys = ShardQuestion("metric-keys", KeysQuestion, list[ListedMetric], self._answer_keys)
        broker.questions += [self._points, self._keys]

    async def read(self, queries: Sequence[StatQuery]) -> list[list[UnitPoints]]:
        """The values of each query, by unit, in order of the units. Raises Unreachable."""
        shards = self._broker.shards
        numbered = [(query.shard(shards), number, query) for number, query in enumerate(queries)]

        def about(asked: list[int]) -> PointsQuestion:
            return PointsQuestion(
                asked, [(number, query) for shard, number, query in numbered if shard in asked]
            )

        found: dict[int, list[UnitPoints]] = {}
        for answer in await self._broker.ask(
            self._points, sorted({shard for shard, _, _ in numbered}), about
        ):
            found |= answer
        return [found.get(number, []) for number in range(len(queries))]

    async def keys(self, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics in order. Raises Unreachable."""
        shards = self._broker.shards
        asked = list(range(shards))
        if question.namespace not in (None, QUEUE_NAMESPACE):
            asked = [metrics_home(question.space, question.namespace or "").shard(shards)]
        answers = await self._broker.ask(
            self._keys, asked, lambda group: msgspec.structs.replace(question, shards=group)
        )
        return _first([each for answer in answers for each in answer], question.metrics_max)

    async def _answer_points(
        self, owned: OwnedShards, question: PointsQuestion
    ) -> dict[int, list[UnitPoints]]:
        found: dict[int, list[UnitPoints]] = {}
        for shard in question.shards:
            partition = self._broker.partition(shard)
            here = [each for each in question.queries if each[1].shard(self._broker.shards) == shard]
            of_queues = [each for each in here if each[1].queue is not None]
            if of_queues:
                answers = await self._queues(partition).read([query for _, query in of_queues])
                for (number, query), (unit, points) in zip(of_queues, answers, strict=True):
                    steps = _unit_points(query, {unit: points})
                    found[number] = await self._broker.turns.run(steps, query.space.account)
            for number, query in here:
                if query.queue is None:
                    metric = self._custom(partition).get(query.space, query.metric)
                    if metric is not None:
                        steps = _read(query, metric.series)
                        found[number] = await self._broker.turns.run(steps, query.space.account)
        return found

    async def _answer_keys(self, owned: OwnedShards, question: KeysQuestion) -> list[ListedMetric]:
        found: list[ListedMetric] = []
        for shard in question.shards:
            partition = self._broker.partition(shard)
            found += await self._listed(partition, question)
            if question.namespace in (None, QUEUE_NAMESPACE):
                found += await self._queues(partition).listed(question)
        return _first(found, question.metrics_max)

    async def _listed(self, partition: Partition, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics that clients sent to this shard. The loop has its turn if many have to be looked at."""
        found: list[ListedMetric] = []
        after = question.begins_beyond
        while metrics := self._custom(partition).beyond(question.space, after, _KEYS_PER_TURN):
            for metric in metrics:
                if not question.is_within(metric.key) or len(found) >= question.metrics_max:
                    return found
                newest_s = metric.newest_s
                if question.wants(metric.key, newest_s):
                    found.append(ListedMetric(metric.key, newest_s))
            after = metrics[-1].key
            await partition.shard.turn()
        return found


def queue_of(space: Space, metric: MetricKey) -> QueueName | None:
    """The queue that a metric is about."""
    if metric.namespace != QUEUE_NAMESPACE or [name for name, _ in metric.dimensions] != [QUEUE_DIMENSION]:
        return None
    return QueueName(space.account, space.region, metric.dimensions[0][1])


def _read(query: StatQuery, series: Mapping[str, Series]) -> Steps[list[UnitPoints]]:
    """``series``: by unit."""
    by_unit: dict[str, list[Point]] = {}
    for unit in query.units_of(series):
        by_unit[unit] = yield from series[unit].read(query.start_s, query.end_s, query.period_s)
    return (yield from _unit_points(query, by_unit))


def _unit_points(query: StatQuery, by_unit: Mapping[str, list[Point]]) -> Steps[list[UnitPoints]]:
    """The units with values, in order."""
    computing = [statistic(name) for name in query.statistics]
    found: list[UnitPoints] = []
    for unit in query.units_of(by_unit):
        points = by_unit[unit]
        columns: list[list[float | None]] = [[] for _ in computing]
        for piece in in_pieces(points, max(1, _BUCKETS_PER_STEP // len(computing))):
            for column, compute in zip(columns, computing, strict=True):
                column += [compute(bucket) for _, bucket in piece]
            yield
        if points:
            found.append(UnitPoints(unit, [at_s for at_s, _ in points], columns))
    return found


def _first(found: list[ListedMetric], metrics_max: int) -> list[ListedMetric]:
    return sorted(found)[:metrics_max]
