"""Reads metrics, whichever shard has them: those that clients sent, those of queues, and those of services.

A metric of a namespace lives in one shard, the metrics of a queue in the shard of the queue. A process is asked once
for everything that it owns, and computes the statistics itself: only numbers travel. What services measure may be in
several shards. Then buckets travel, and those of one metric add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.errors import StoreError
from penstock.metrics.series import LEVELS, Level, MetricKey, Point, merged_points
from penstock.metrics.statistics import statistic
from penstock.monitoring.measured import MeasuredMetrics, ServiceNamespace
from penstock.monitoring.metric_store import MetricStore, StoredMetric, metrics_home
from penstock.names import Space
from penstock.promise import start
from penstock.turns import Steps, Turns, in_pieces

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

_KEYS_PER_PAGE = 1000
_BUCKETS_PER_STEP = 20


class StatQuery(msgspec.Struct, frozen=True, array_like=True):
    """Statistics of a metric over periods that begin at ``start_s`` and every ``period_s`` after it."""

    space: Space
    metric: MetricKey
    start_s: int
    end_s: int
    period_s: int
    statistics: tuple[str, ...]
    unit: str | None = None  # only values of this unit; None: of every unit, each by itself

    def units_of(self, units: Iterable[str]) -> list[str]:
        """Returns the units that are asked for, in order."""
        return sorted(units) if self.unit is None else [unit for unit in units if unit == self.unit]


class UnitPoints(msgspec.Struct, frozen=True, array_like=True):
    """The values of a metric in one unit."""

    unit: str
    times: list[int]  # in order
    columns: list[list[float | None]]  # one for each statistic; None: it cannot be computed

    def values(self, column: int = 0) -> dict[int, float]:
        pairs = zip(self.times, self.columns[column], strict=True)
        return {at_s: value for at_s, value in pairs if value is not None}


class PointsQuestion(ShardQuestion[dict[int, list[UnitPoints]]], frozen=True):
    """The values of each query, by its number: by unit, in order of the units."""

    kind: ClassVar[str] = "metric-points"
    queries: list[tuple[int, int, StatQuery]]  # each with its shard and its number

    def shards(self, count: int) -> Iterable[int]:
        return sorted({shard for shard, _, _ in self.queries})

    async def answer(self, partition: Partition) -> dict[int, list[UnitPoints]]:
        kept, index = partition.part(ShardMetrics), partition.shard.index
        here = [(number, query) for shard, number, query in self.queries if shard == index]
        found: dict[int, list[UnitPoints]] = {}
        of_services: dict[MetricNamespace, list[tuple[int, StatQuery]]] = {}
        for number, query in here:
            namespace = kept.namespace_of(query)
            if namespace is not None:
                of_services.setdefault(namespace, []).append((number, query))
            elif (metric := kept.metrics.get(query.space, query.metric)) is not None:
                steps = _statistics(query, metric)
                found[number] = await kept.turns.run(steps, query.space.account)
        for namespace, asked in of_services.items():
            answers = await namespace.read(partition, [query for _, query in asked])
            for (number, query), (unit, points) in zip(asked, answers, strict=True):
                steps = _unit_points(query, {unit: points})
                found[number] = await kept.turns.run(steps, query.space.account)
        return found

    def merge(self, answers: list[dict[int, list[UnitPoints]]]) -> dict[int, list[UnitPoints]]:
        return {number: points for answer in answers for number, points in answer.items()}


class BucketsQuestion(ShardQuestion[dict[int, dict[str, list[Point]]]], frozen=True):
    """The buckets of each query about what services measure, by its number and the unit. Those of several shards may
    be of the same time."""

    kind: ClassVar[str] = "metric-buckets"
    queries: list[tuple[int, StatQuery]]

    async def answer(self, partition: Partition) -> dict[int, dict[str, list[Point]]]:
        kept = partition.part(ShardMetrics)
        found: dict[int, dict[str, list[Point]]] = {}
        for number, query in self.queries:
            metric = kept.measured.store.get(query.space, query.metric)
            if metric is not None:
                found[number] = await kept.turns.run(_buckets(query, metric), query.space.account)
        return found

    def merge(self, answers: list[dict[int, dict[str, list[Point]]]]) -> dict[int, dict[str, list[Point]]]:
        merged: dict[int, dict[str, list[Point]]] = {}
        for answer in answers:
            for number, by_unit in answer.items():
                present = merged.setdefault(number, {})
                for unit, points in by_unit.items():
                    present.setdefault(unit, []).extend(points)
        return merged


class ListedMetric(msgspec.Struct, frozen=True, array_like=True, order=True):
    metric: MetricKey
    newest_s: int


class KeysQuestion(ShardQuestion[list[ListedMetric]], frozen=True):
    """The first metrics of a space in order of their keys, beyond ``after``."""

    kind: ClassVar[str] = "metric-keys"
    space: Space
    namespace: str | None
    name: str | None
    dimensions: list[tuple[str, str | None]]  # that a metric must have, with the value if one is given
    since_s: int  # with values since then
    after: MetricKey | None
    metrics_max: int

    async def answer(self, partition: Partition) -> list[ListedMetric]:
        kept = partition.part(ShardMetrics)
        found: list[ListedMetric] = []
        for store in (kept.metrics, kept.measured.store):
            found += await kept.turns.run(self._listed(store), self.space.account)
        for name, namespace in kept.namespaces.items():
            if self.namespace in (None, name):
                found += await namespace.listed(partition, self)
        return self.merge([found])

    def merge(self, answers: list[list[ListedMetric]]) -> list[ListedMetric]:
        newest_s: dict[MetricKey, int] = {}  # several shards may have measured the same metric
        for each in chain.from_iterable(answers):
            newest_s[each.metric] = max(each.newest_s, newest_s.get(each.metric, 0))
        return [ListedMetric(metric, newest_s[metric]) for metric in sorted(newest_s)[: self.metrics_max]]

    def _listed(self, store: MetricStore) -> Steps[list[ListedMetric]]:
        """The first metrics of a store of this shard. After a start, the newest chunk of each is unpacked."""
        found: list[ListedMetric] = []
        after = self.begins_beyond
        while metrics := store.beyond(self.space, after, _KEYS_PER_PAGE):
            for metric in metrics:
                if not self.is_within(metric.key) or len(found) >= self.metrics_max:
                    return found
                newest_s = metric.newest_s
                if self.wants(metric.key, newest_s):
                    found.append(ListedMetric(metric.key, newest_s))
                yield
            after = metrics[-1].key
        return found

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
        """Whether this key, or one beyond it, is wanted. It may be asked about keys beyond ``begins_beyond`` only."""
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


class MetricNamespace(Protocol):
    """The metrics of one namespace, which a service keeps itself. Most services name a
    :class:`penstock.monitoring.measured.ServiceNamespace` instead."""

    @property
    def name(self) -> str: ...

    @property
    def levels(self) -> Sequence[Level]:
        """Which buckets it keeps, and how long; the shortest first."""

    def shard(self, query: StatQuery, shards: int) -> int | None:
        """The shard that has the metric of this query; None if it is not one of the service's, but of clients."""

    async def read(self, partition: Partition, queries: Sequence[StatQuery]) -> list[tuple[str, list[Point]]]:
        """The unit and the buckets of each query about this shard: none if there is no such metric."""

    async def listed(self, partition: Partition, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics of this shard, in order."""


Namespaces = Mapping[str, MetricNamespace | ServiceNamespace]
"""The namespaces of services, by name. All others are of clients."""


class ShardMetrics(Part):
    """The metrics of one shard: those that clients sent, and those of services."""

    def __init__(
        self, metrics: MetricStore, measured: MeasuredMetrics, namespaces: Namespaces, turns: Turns
    ) -> None:
        self.metrics = metrics
        self.measured = measured
        self.namespaces = {
            name: each for name, each in namespaces.items() if not isinstance(each, ServiceNamespace)
        }
        self.turns = turns

    def namespace_of(self, query: StatQuery) -> MetricNamespace | None:
        """Returns the namespace of a service that keeps the metric itself; None if clients sent the metric."""
        namespace = self.namespaces.get(query.metric.namespace)
        return None if namespace is None or namespace.shard(query, 1) is None else namespace


class MetricReader:
    """Reads metrics of all shards."""

    def __init__(self, broker: Broker, namespaces: Namespaces) -> None:
        self._broker = broker
        self._namespaces = namespaces

    async def read(self, queries: Sequence[StatQuery]) -> list[list[UnitPoints]]:
        """The values of each query, by unit, in order of the units. Raises Unreachable."""
        measured = [
            (number, query)
            for number, query in enumerate(queries)
            if self._is_measured(query.metric.namespace)
        ]
        others = set(range(len(queries))).difference(number for number, _ in measured)
        numbered = [(self._shard_of(queries[number]), number, queries[number]) for number in sorted(others)]
        found = await self._broker.ask(PointsQuestion(numbered)) if numbered else {}
        if measured:
            buckets = await self._broker.ask(BucketsQuestion(measured))
            for number, query in measured:
                steps = _merged_statistics(query, buckets.get(number, {}))
                found[number] = await self._broker.turns.run(steps, query.space.account)
        return [found.get(number, []) for number in range(len(queries))]

    def levels(self, namespaces: Iterable[str]) -> list[Level]:
        """Returns the levels that the metrics of all these namespaces have."""
        levels = list(LEVELS)
        for name in namespaces:
            namespace = self._namespaces.get(name)
            if namespace is not None and not isinstance(namespace, ServiceNamespace):
                levels = [level for level in levels if level in namespace.levels]
        return levels

    def shards_of(self, query: StatQuery) -> Iterable[int]:
        """The shards that a query is about."""
        is_measured = self._is_measured(query.metric.namespace)
        return range(self._broker.shards) if is_measured else [self._shard_of(query)]

    async def silent(self, shards: Iterable[int]) -> dict[int, StoreError]:
        """Returns which of these shards do not answer, each with the error."""
        # A question without queries is a ping: its answer says only that the shard answers.
        asked = {shard: start(self._broker.ask(PointsQuestion([]), [shard])) for shard in shards}
        found: dict[int, StoreError] = {}
        for shard, answer in asked.items():
            try:
                await answer
            except StoreError as error:
                found[shard] = error
        return found

    def _is_measured(self, namespace: str) -> bool:
        return isinstance(self._namespaces.get(namespace), ServiceNamespace)

    async def keys(self, question: KeysQuestion) -> list[ListedMetric]:
        """The first metrics in order. Raises Unreachable."""
        namespace = question.namespace
        if namespace is None or namespace in self._namespaces:
            return await self._broker.ask(question)
        return await self._broker.ask(
            question, [metrics_home(question.space, namespace).shard(self._broker.shards)]
        )

    def _shard_of(self, query: StatQuery) -> int:
        namespace, shards = self._namespaces.get(query.metric.namespace), self._broker.shards
        assert not isinstance(namespace, ServiceNamespace), "its metrics may be in every shard"
        found = None if namespace is None else namespace.shard(query, shards)
        return metrics_home(query.space, query.metric.namespace).shard(shards) if found is None else found


def _buckets(query: StatQuery, metric: StoredMetric) -> Steps[dict[str, list[Point]]]:
    by_unit: dict[str, list[Point]] = {}
    for unit in query.units_of(metric.units):
        by_unit[unit] = yield from metric.read(unit, query.start_s, query.end_s, query.period_s)
    return by_unit


def _statistics(query: StatQuery, metric: StoredMetric) -> Steps[list[UnitPoints]]:
    by_unit = yield from _buckets(query, metric)
    return (yield from _unit_points(query, by_unit))


def _merged_statistics(query: StatQuery, by_unit: Mapping[str, list[Point]]) -> Steps[list[UnitPoints]]:
    """``by_unit``: the buckets of several shards."""
    merged: dict[str, list[Point]] = {}
    for unit, points in by_unit.items():
        merged[unit] = yield from merged_points(points, query.start_s, query.end_s, query.period_s)
    return (yield from _unit_points(query, merged))


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
