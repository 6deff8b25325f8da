"""The namespace in which clients of CloudWatch read the metrics of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.metrics.series import Point
from penstock.monitoring.reading import KeysQuestion, ListedMetric, StatQuery

from .metrics import DIMENSION, NAMESPACE
from .topics import ShardTopics, TopicName

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class TopicNamespace:
    name = NAMESPACE

    def shard(self, query: StatQuery, shards: int) -> int | None:
        """That of the topic."""
        dimensions = query.metric.dimensions
        if [name for name, _ in dimensions] != [DIMENSION]:
            return None
        return TopicName(query.space, dimensions[0][1]).home.shard(shards)

    async def read(self, partition: Partition, queries: Sequence[StatQuery]) -> list[tuple[str, list[Point]]]:
        metrics = partition.part(ShardTopics).metrics
        return [("Count", await metrics.points(query)) for query in queries]

    async def listed(self, partition: Partition, question: KeysQuestion) -> list[ListedMetric]:
        return partition.part(ShardTopics).metrics.listed(question)
