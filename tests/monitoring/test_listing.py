"""ListMetrics page by page: each metric is looked at once, and a token outlives the metrics around it."""

from __future__ import annotations

from typing import Any

import pytest

from monitoring.world import SPACE, MonitoringWorld
from penstock.limits import DAY
from penstock.metrics.series import MetricKey
from penstock.monitoring.measured import ServiceNamespace
from penstock.monitoring.reading import KeysQuestion, ShardMetrics


def put(cw: Any, *names: str, namespace: str = "App", **more: Any) -> None:
    for at in range(0, len(names), 1000):
        data = [{"MetricName": name, "Value": 1, **more} for name in names[at : at + 1000]]
        cw.put_metric_data(Namespace=namespace, MetricData=data)


def names(page: dict[str, Any]) -> list[str]:
    return [metric["MetricName"] for metric in page["Metrics"]]


def all_names(cw: Any, **asked: Any) -> list[str]:
    return [name for page in cw.get_paginator("list_metrics").paginate(**asked) for name in names(page)]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[MetricKey]:
    """The metrics that questions were compared with."""
    found: list[MetricKey] = []
    wants = KeysQuestion.wants

    def counted(question: KeysQuestion, key: MetricKey, newest_s: int) -> bool:
        found.append(key)
        return wants(question, key, newest_s)

    monkeypatch.setattr(KeysQuestion, "wants", counted)
    return found


def test_paging_looks_at_each_metric_about_once(cw: Any, looked_at: list[MetricKey]) -> None:
    wanted = [f"m{number:05d}" for number in range(6000)]
    put(cw, *reversed(wanted))
    assert all_names(cw) == wanted
    pages = 12
    assert len(looked_at) <= len(wanted) + 2 * pages
    looked_at.clear()
    assert all_names(cw, MetricName="m04321") == ["m04321"], "a filter that few metrics pass"
    assert len(looked_at) == len(wanted)


def test_a_namespace_and_a_name_are_found_without_a_search(cw: Any, looked_at: list[MetricKey]) -> None:
    put(cw, *(f"m{number:05d}" for number in range(3000)))
    put(cw, "first", "m00500", "m00500", namespace="Apple")
    put(cw, "m00500", namespace="Apple", Dimensions=[{"Name": "d", "Value": "v"}])
    put(cw, "last", namespace="Zoo")
    assert all_names(cw, Namespace="App", MetricName="m00500") == ["m00500"]
    assert all_names(cw, Namespace="Apple") == ["first", "m00500", "m00500"]
    assert all_names(cw, Namespace="Apple", MetricName="m00500") == ["m00500", "m00500"]
    assert all_names(cw, Namespace="Apples") == []
    assert len(looked_at) < 20


def test_a_token_outlives_metrics_that_come_and_go(world: MonitoringWorld, cw: Any) -> None:
    old = [f"m{number:04d}" for number in range(0, 1200, 2)]
    put(cw, *old)
    first = cw.list_metrics()
    assert names(first) == old[:500]
    world.clock.advance(15 * DAY)  # all of them are gone from the list, also the one that the token names
    put(cw, "a", old[499] + "x", *old[550:])
    second = cw.list_metrics(NextToken=first["NextToken"])
    assert names(second) == [old[499] + "x", *old[550:]]
    assert "NextToken" not in second
    world.crash()
    assert names(cw.list_metrics(NextToken=first["NextToken"])) == names(second)


@pytest.mark.parametrize("shards", [1, 3])
def test_new_metrics_join_a_list_that_was_asked_for(shards: int) -> None:
    with MonitoringWorld(shards) as world:
        cw = world.client()
        for name in ("b", "d", "a", "c"):
            for namespace in ("One", "Two"):
                put(cw, name, namespace=namespace)
            shown = [(each["Namespace"], each["MetricName"]) for each in cw.list_metrics()["Metrics"]]
            assert shown == sorted(shown) and ("Two", name) in shown
        world.clock.advance(456 * DAY)
        put(cw, "e")
        world.do(world.monitoring.of_metrics(SPACE, "One").metrics.store())
        assert names(cw.list_metrics()) == ["e"]
        put(cw, "b", namespace="One")
        assert names(cw.list_metrics()) == ["e", "b"]


@pytest.mark.parametrize("shards", [1, 3])
def test_pages_of_any_length_have_the_metrics_of_clients_queues_and_services(shards: int) -> None:
    topics = ServiceNamespace("Amazing/Topics", {"Published": "Count", "Zipped": "Count"})
    with MonitoringWorld(shards, namespaces=(topics,)) as world:
        cw, sqs = world.client(), world.client("sqs")
        for namespace in ("ACME", "Zoo"):
            put(cw, "Latency", "Number", "A", "~", namespace=namespace)
        for name in ("a", "b"):
            sqs.send_message(QueueUrl=sqs.create_queue(QueueName=name)["QueueUrl"], MessageBody="hello")
        for index in range(shards):
            measured = world.broker.partition(index).part(ShardMetrics).measured
            measured.add(SPACE, topics, "Published", (("TopicName", str(index)),))
            measured.add(SPACE, topics, "Zipped")
        everything = keys(world, 1000)
        assert {key.namespace for key in everything} == {"ACME", "Amazing/Topics", "AWS/SQS", "Zoo"}
        assert len(everything) > 20 and everything == sorted(set(everything))
        for length in (1, 3, 4, 5):
            assert keys(world, length) == everything


def keys(world: MonitoringWorld, metrics_max: int) -> list[MetricKey]:
    """All metrics, by pages of this length."""
    found: list[MetricKey] = []
    while True:
        after = found[-1] if found else None
        question = KeysQuestion(SPACE, None, None, [], 0, after, metrics_max)
        page = world.do(world.monitoring.reader.keys(question))
        found += [listed.metric for listed in page]
        if len(page) < metrics_max:
            return found


def test_the_first_list_after_a_start_pauses_between_metrics(cw: Any, world: MonitoringWorld) -> None:
    """It unpacks a chunk of each."""
    put(cw, *(f"m{number}" for number in range(30)))
    world.advance(11 * 60_000)
    world.crash()
    question = KeysQuestion(SPACE, None, None, [], 0, None, 100)
    steps = question._listed(world.monitoring.of_metrics(SPACE, "App").metrics)
    assert sum(1 for _ in steps) == 30
