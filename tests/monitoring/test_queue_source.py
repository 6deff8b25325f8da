"""Metrics of real queues through the CloudWatch API: lists, values, metric math, KEDA's and Grafana's requests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from monitoring.world import SPACE, MonitoringWorld
from penstock.errors import Unreachable
from penstock.limits import DAY, HOUR, MINUTE, SECOND
from penstock.metrics.series import MetricKey
from penstock.monitoring.queue_source import QueueNamespace
from penstock.monitoring.reading import KeysQuestion, StatQuery
from penstock.promise import start


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def world(request: pytest.FixtureRequest) -> Iterator[MonitoringWorld]:
    with MonitoringWorld(request.param) as made:
        made.after_look()
        yield made


def use(world: MonitoringWorld, name: str, messages: int = 1) -> str:
    sqs = world.client("sqs")
    fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    url = str(sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"])
    for number in range(messages):
        more = {"MessageGroupId": "g", "MessageDeduplicationId": str(number)} if fifo else {}
        sqs.send_message(QueueUrl=url, MessageBody="hello", **more)
    return url


def listed(cw: Any, **asked: Any) -> list[tuple[str, str]]:
    pages = cw.get_paginator("list_metrics").paginate(**asked)
    return [
        (metric["MetricName"], metric["Dimensions"][0]["Value"])
        for page in pages
        for metric in page["Metrics"]
        if metric["Namespace"] == "AWS/SQS"
    ]


def sums(world: MonitoringWorld, cw: Any, queue: str, metric: str, stat: str = "Sum") -> list[float]:
    found = cw.get_metric_data(
        MetricDataQueries=[
            {
                "Id": "m",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/SQS", "MetricName": metric,
                        "Dimensions": [{"Name": "QueueName", "Value": queue}],
                    },
                    "Period": 60, "Stat": stat,
                },
            }
        ],
        StartTime=world.now - timedelta(minutes=10), EndTime=world.now + timedelta(minutes=1),
        ScanBy="TimestampAscending",
    )  # fmt: skip
    return list(found["MetricDataResults"][0]["Values"])


def test_the_first_message_of_a_queue(world: MonitoringWorld, cw: Any) -> None:
    """The values were recorded against AWS: one send of five bytes, an empty receive, a receive, a delete."""
    sqs = world.client("sqs")
    url = use(world, "q", messages=0)
    sqs.receive_message(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sums(world, cw, "q", "NumberOfMessagesSent") == [1.0]
    assert sums(world, cw, "q", "NumberOfMessagesSent", "SampleCount") == [1.0]
    assert sums(world, cw, "q", "SentMessageSize") == [5.0]
    assert sums(world, cw, "q", "NumberOfEmptyReceives") == [1.0]
    assert sums(world, cw, "q", "NumberOfMessagesReceived") == [1.0]
    assert sums(world, cw, "q", "NumberOfMessagesDeleted") == [1.0]
    world.minutes(2)
    assert sums(world, cw, "q", "NumberOfMessagesSent") == [1.0, 0.0, 0.0]
    assert sums(world, cw, "q", "ApproximateNumberOfMessagesNotVisible") == [], "nothing is in flight"
    assert sums(world, cw, "q", "NumberOfGroups") == sums(world, cw, "none", "NumberOfMessagesSent") == []
    world.restart()
    assert sums(world, cw, "q", "NumberOfMessagesSent")[0] == 1.0


@pytest.mark.slow
def test_metrics_of_queues_are_listed(world: MonitoringWorld, cw: Any) -> None:
    use(world, "idle", messages=0)
    for name in ("a", "b.fifo"):
        use(world, name)
    world.minutes()
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "m", "Value": 1}])
    found = listed(cw)
    assert found == sorted(found)
    assert {queue for _, queue in found} >= {"a", "b.fifo"}
    assert ("ApproximateNumberOfGroupsWithInflightMessages", "b.fifo") in found
    assert ("ApproximateNumberOfGroupsWithInflightMessages", "a") not in found
    assert ("ApproximateNumberOfNoisyGroups", "a") not in found
    one = listed(cw, MetricName="NumberOfMessagesSent", Dimensions=[{"Name": "QueueName", "Value": "a"}])
    assert one == [("NumberOfMessagesSent", "a")]
    assert listed(cw, Namespace="App") == []
    assert [each["Namespace"] for each in cw.list_metrics()["Metrics"]].count("App") == 1
    everything = listed(cw, Namespace="AWS/SQS")
    world.client("sqs").purge_queue(QueueUrl="a")
    world.client("sqs").purge_queue(QueueUrl="b.fifo")
    world.advance(4 * 60 * MINUTE)
    assert listed(cw, RecentlyActive="PT3H") == []
    assert len(listed(cw)) == len(everything)
    world.advance(15 * DAY)
    assert listed(cw) == []


@pytest.mark.slow
def test_pages_of_metrics_of_many_queues(world: MonitoringWorld, cw: Any) -> None:
    for number in range(120):
        use(world, f"q{number:03d}")
    first = cw.list_metrics()
    assert len(first["Metrics"]) == 500 and first["NextToken"]
    found = listed(cw)
    assert len(found) == len(set(found)) >= 120 * 9
    assert found == sorted(found)
    sent = listed(cw, MetricName="NumberOfMessagesSent")
    assert sent == [("NumberOfMessagesSent", f"q{number:03d}") for number in range(120)]


def test_a_list_of_metrics_pauses_between_queues_that_do_not_have_them() -> None:
    with MonitoringWorld() as world:
        for number in range(250):
            use(world, f"q{number:03d}", messages=0)
        (namespace,) = [each for each in world.namespaces if isinstance(each, QueueNamespace)]
        partition = world.broker.partition(0)

        def steps(name: str, *dimensions: str) -> tuple[int, int]:
            """How many steps are made, and how many metrics are found."""
            wanted: list[tuple[str, str | None]] = [(each, None) for each in dimensions]
            question = KeysQuestion(SPACE, None, name, wanted, 0, None, 1000)
            listing, count = namespace._listed(partition, question), 0
            while True:
                try:
                    next(listing)
                except StopIteration as stop:
                    return count, len(stop.value)
                count += 1

        assert steps("ApproximateNumberOfNoisyGroups") == (3, 0)
        assert steps("NumberOfMessagesSent") == (3, 250)
        assert steps("NumberOfMessagesSent", "QueueName") == (3, 250)
        assert steps("NumberOfMessagesSent", "QueueName", "Host") == (0, 0)


def test_hours_of_queues_are_full_hours_whenever_a_read_begins() -> None:
    """Queues have no buckets of five minutes, to which the start of older values is rounded."""
    with MonitoringWorld() as world:
        cw, sqs = world.client(), world.client("sqs")
        world.advance(HOUR - world.clock.wall_ms() % HOUR)
        hour = world.now
        for count in (1, 2):
            for _ in range(count):
                use(world, "q")
                put_latency(cw)
            world.advance(HOUR)
        sqs.purge_queue(QueueUrl="q")
        world.advance(2 * HOUR)
        world.clock.advance(30 * DAY)
        sent = {
            "Id": "sent",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SQS", "MetricName": "NumberOfMessagesSent",
                    "Dimensions": [{"Name": "QueueName", "Value": "q"}],
                },
                "Period": 3600, "Stat": "Sum",
            },
        }  # fmt: skip
        latency = {
            "Id": "latency",
            "MetricStat": {
                "Metric": {"Namespace": "App", "MetricName": "Latency"}, "Period": 3600, "Stat": "SampleCount",
            },
        }  # fmt: skip
        times = {"StartTime": hour + timedelta(minutes=30), "EndTime": hour + timedelta(hours=2)}

        def counts(*queries: dict[str, Any]) -> list[list[tuple[datetime, float]]]:
            found = cw.get_metric_data(MetricDataQueries=queries, ScanBy="TimestampAscending", **times)
            return [
                list(zip(each["Timestamps"], each["Values"], strict=True))
                for each in found["MetricDataResults"]
            ]

        hours = [(hour, 1.0), (hour + timedelta(hours=1), 2.0)]
        assert counts(sent) == [hours]
        hidden = {**latency, "ReturnData": False}
        shown = counts(hidden, sent, {"Id": "sum", "Expression": "sent + latency"})
        assert shown[1] == [(at, 2 * value) for at, value in hours], "their times are the same"
        use(world, "q")  # so that it is listed
        search = "SUM(SEARCH('{\"AWS/SQS\",\"QueueName\"} NumberOfMessagesSent', 'Sum', 3600)) + latency"
        assert counts(hidden, {"Id": "sum", "Expression": search}) == [shown[1]]
        statistics = cw.get_metric_statistics(
            Namespace="AWS/SQS", MetricName="NumberOfMessagesSent", Statistics=["Sum"], Period=3600,
            Dimensions=[{"Name": "QueueName", "Value": "q"}], **times,
        )["Datapoints"]  # fmt: skip
        assert sorted((each["Timestamp"], each["Sum"]) for each in statistics) == hours
        half = hour + timedelta(minutes=30)
        assert counts(latency) == [[(half, 2.0)]], "others have buckets of five minutes"


def put_latency(cw: Any) -> None:
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Latency", "Value": 1}])


def test_what_grafana_asks_for_all_queues(world: MonitoringWorld, cw: Any) -> None:
    for name, messages in (("a", 1), ("b", 3)):
        use(world, name, messages)
    world.minutes()
    search = (
        'REMOVE_EMPTY(SEARCH(\'{"AWS/SQS","QueueName"} MetricName="NumberOfMessagesSent"\', \'Sum\', 60))'
    )
    found = cw.get_metric_data(
        MetricDataQueries=[{"Id": "queryA", "Expression": search}],
        StartTime=world.now - timedelta(minutes=5), EndTime=world.now,
    )["MetricDataResults"]  # fmt: skip
    assert [(each["Label"], sum(each["Values"])) for each in found] == [("a", 1.0), ("b", 3.0)]
    values = [
        each["Value"]
        for each in cw.list_metrics(Namespace="AWS/SQS", MetricName="SentMessageSize")["Metrics"][0][
            "Dimensions"
        ]
    ]
    assert values == ["a"]


def test_backlog_per_worker(world: MonitoringWorld, cw: Any) -> None:
    use(world, "orders", 10)
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Workers", "Value": 4}])
    world.minutes()

    def metric(id: str, namespace: str, name: str, **dimensions: str) -> dict[str, Any]:
        named = [{"Name": key, "Value": value} for key, value in dimensions.items()]
        of = {"Namespace": namespace, "MetricName": name, "Dimensions": named}
        return {"Id": id, "MetricStat": {"Metric": of, "Period": 60, "Stat": "Maximum"}, "ReturnData": False}

    (found,) = cw.get_metric_data(
        MetricDataQueries=[
            metric("visible", "AWS/SQS", "ApproximateNumberOfMessagesVisible", QueueName="orders"),
            metric("workers", "App", "Workers"),
            {"Id": "backlog", "Expression": "FILL(visible, 0) / workers", "Label": "backlog per worker"},
        ],
        StartTime=world.now - timedelta(minutes=1), EndTime=world.now,
    )["MetricDataResults"]  # fmt: skip
    assert (found["Label"], found["Values"]) == ("backlog per worker", [2.5])


@pytest.mark.parametrize("way", ["given back", "lost", "its lease ends"])
def test_values_are_whole_or_an_error_while_a_shard_goes(way: str) -> None:
    """It goes after each number of steps, while metrics of queues of three shards are read."""
    outcomes: list[str] = []
    while "before" not in outcomes:
        with MonitoringWorld(3) as world:
            names = [world.name("q", shard) for shard in range(3)]
            for name in names:
                use(world, name)
            world.after_look()
            now_s = world.clock.wall_ms() // SECOND
            metrics = [MetricKey("AWS/SQS", "NumberOfMessagesSent", (("QueueName", name),)) for name in names]
            queries = [StatQuery(SPACE, each, now_s - 3600, now_s, 3600, ("Sum",)) for each in metrics]
            reading = start(world.monitoring.reader.read(queries))
            for _ in outcomes:
                world.runtime.step()
            if reading.done:
                outcomes.append("before")
            if way == "given back":
                world.close_shard(1)
            elif way == "lost":
                world.broker.drop_shard(1)
            else:
                world.broker.partition(1).shard.may_have_new_owner = lambda: True
            world.run()
            if reading.failed:
                outcomes.append("refused")
                with pytest.raises(Unreachable):
                    reading.result()
            else:
                outcomes.append("whole")
                sums = [sum(units[0].values().values()) if units else 0 for units in reading.result()]
                assert sums == [1, 1, 1]
    assert "refused" in outcomes
