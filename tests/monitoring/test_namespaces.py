"""Namespaces of services: registered with how their metrics are read, beside those of clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from monitoring.world import MonitoringWorld
from penstock.metrics.buckets import Bucket
from penstock.metrics.series import LEVELS, MetricKey, Point
from penstock.monitoring.reading import KeysQuestion, ListedMetric, StatQuery

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class LengthsNamespace:
    """A service with one metric for each topic: the length of its name. Topics live in the shards of their length."""

    name = "Example/Lengths"
    levels = LEVELS
    topics = ("a", "bb", "ccc")

    def shard(self, query: StatQuery, shards: int) -> int | None:
        return len(query.metric.dimensions[0][1]) % shards if query.metric.dimensions else None

    async def read(self, partition: Partition, queries: Sequence[StatQuery]) -> list[tuple[str, list[Point]]]:
        lengths = [len(query.metric.dimensions[0][1]) for query in queries]
        assert all(length % 3 == partition.shard.index for length in lengths)
        return [
            ("Count", [(query.start_s, Bucket.of(float(length)))])
            for query, length in zip(queries, lengths, strict=True)
        ]

    async def listed(self, partition: Partition, question: KeysQuestion) -> list[ListedMetric]:
        keys = [MetricKey(self.name, "Length", (("Topic", topic),)) for topic in self.topics]
        here = [key for key in keys if len(key.dimensions[0][1]) % 3 == partition.shard.index]
        return [ListedMetric(key, question.since_s) for key in here if question.wants(key, question.since_s)]


@pytest.fixture
def world() -> Iterator[MonitoringWorld]:
    with MonitoringWorld(3, namespaces=(LengthsNamespace(),)) as made:
        yield made


def test_a_service_brings_a_namespace(world: MonitoringWorld, cw: Any) -> None:
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Own", "Value": 5}])
    world.client("sqs").create_queue(QueueName="orders")
    queries = [
        {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": namespace,
                    "MetricName": name,
                    "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                },
                "Period": 60,
                "Stat": "Maximum",
            },
        }
        for number, (namespace, name, dimensions) in enumerate([
            ("Example/Lengths", "Length", {"Topic": "a"}),
            ("Example/Lengths", "Length", {"Topic": "ccc"}),
            ("App", "Own", {}),
            ("AWS/SQS", "ApproximateNumberOfMessagesVisible", {"QueueName": "orders"}),
            ("Example/Lengths", "Length", {}),
        ])
    ]  # fmt: skip
    now_s = world.now.timestamp()
    found = cw.get_metric_data(MetricDataQueries=queries, StartTime=now_s - 60, EndTime=now_s + 60)
    assert [result["Values"] for result in found["MetricDataResults"]] == [[1], [3], [5], [0], []]


def test_its_metrics_are_listed_with_all_others(world: MonitoringWorld, cw: Any) -> None:
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Own", "Value": 5}])
    topics = [
        metric["Dimensions"][0]["Value"] for metric in cw.list_metrics(Namespace="Example/Lengths")["Metrics"]
    ]
    assert topics == ["a", "bb", "ccc"]
    assert {metric["Namespace"] for metric in cw.list_metrics()["Metrics"]} == {"App", "Example/Lengths"}


@pytest.mark.usefixtures("world")
def test_clients_cannot_write_into_it(cw: Any) -> None:
    for namespace in ("Example/Lengths", "AWS/SQS", "AWS/Other"):
        with pytest.raises(ClientError) as refused:
            cw.put_metric_data(Namespace=namespace, MetricData=[{"MetricName": "Length", "Value": 5}])
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    cw.put_metric_data(Namespace="Example/Lengths2", MetricData=[{"MetricName": "Length", "Value": 5}])
