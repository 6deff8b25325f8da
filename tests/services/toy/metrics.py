"""The metrics of the topics of one shard, in the memory of the process that owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.shard import Shard
from penstock.limits import SECOND
from penstock.metrics.buckets import Bucket
from penstock.metrics.series import MetricKey, Point, Series
from penstock.monitoring.reading import KeysQuestion, ListedMetric, StatQuery
from penstock.names import Space
from penstock.turns import Turns

if TYPE_CHECKING:
    from .topics import TopicName

NAMESPACE = "Example/Toy"
PUBLISHED = "Published"
DELIVERED = (
    "Delivered"  # also when it leaves for a queue of another shard: if that refuses it, it has failed, too
)
FAILED = "Failed"
DIMENSION = "TopicName"


class TopicMetrics:
    """The metrics of the topics of one shard."""

    def __init__(self, shard: Shard, turns: Turns) -> None:
        self._clock = shard.clock
        self._turns = turns
        self._series: dict[tuple[Space, MetricKey], Series] = {}

    def add(self, topic: TopicName, metric: str, number: int = 1) -> None:
        if number:
            key = MetricKey(NAMESPACE, metric, ((DIMENSION, topic.name),))
            series = self._series.setdefault((topic.space, key), Series())
            series.add(Bucket.of(1.0, number), self._clock.wall_ms() / SECOND)

    async def points(self, query: StatQuery) -> list[Point]:
        series = self._series.get((query.space, query.metric))
        if series is None:
            return []
        steps = series.read(query.start_s, query.end_s, query.period_s)
        return await self._turns.run(steps, query.space.account)

    def listed(self, question: KeysQuestion) -> list[ListedMetric]:
        found = (
            ListedMetric(key, series.newest_s)
            for (space, key), series in self._series.items()
            if space == question.space and question.wants(key, series.newest_s)
        )
        return sorted(found)[: question.metrics_max]
