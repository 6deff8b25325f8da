"""Fan-out through topics: kombu's exchanges, and a task that every worker of Celery runs."""

from __future__ import annotations

import importlib
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue

SOON_S = 30


@pytest.fixture
def sns(celery_run: Any) -> Any:
    return boto3.client(
        "sns", endpoint_url=celery_run.server.url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )  # fmt: skip


@pytest.fixture
def connection(celery_run: Any) -> Iterator[Connection]:
    options = {
        "region": "us-east-1", "is_secure": False, "supports_fanout": True, "wait_time_seconds": 1,
        "polling_interval": 0.1,
    }  # fmt: skip
    url = f"sqs://any:any@127.0.0.1:{celery_run.server.port}"
    with Connection(url, transport_options=options) as made:
        yield made


def topic_of(sns: Any, exchange: str) -> str | None:
    topics = [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]
    return next((topic for topic in topics if topic.endswith(f":{exchange}")), None)


def endpoints(sns: Any, exchange: str) -> list[str]:
    """The names of the queues that are subscribed to the topic of an exchange."""
    if (topic := topic_of(sns, exchange)) is None:
        return []
    listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    return sorted(each["Endpoint"].rpartition(":")[2] for each in listed)


def drain(connection: Connection, got: list[Any], count: int) -> None:
    deadline = time.monotonic() + SOON_S
    while len(got) < count and time.monotonic() < deadline:
        try:
            connection.drain_events(timeout=1)
        except TimeoutError:
            continue
    assert len(got) >= count, got


@pytest.mark.parametrize("name", ["events", "events.fifo"])
def test_every_queue_of_an_exchange_gets_a_copy(connection: Connection, sns: Any, name: str) -> None:
    suffix = ".fifo" if name.endswith(".fifo") else ""
    exchange = Exchange(name, type="fanout")
    queues = [Queue(f"{name.removesuffix('.fifo')}-{n}{suffix}", exchange) for n in range(2)]
    channel = connection.channel()
    got = list[tuple[str, Any]]()

    def take(body: Any, message: Any) -> None:
        got.append((message.delivery_info["routing_key"], body))
        message.ack()

    with Consumer(channel, queues, callbacks=[take]):
        publisher = Producer(channel, exchange)
        for place in range(3):
            publisher.publish({"größe": place})
        drain(connection, got, 6)
    assert sorted(body["größe"] for _, body in got) == [0, 0, 1, 1, 2, 2]
    assert endpoints(sns, name) == sorted(queue.name for queue in queues)


def test_the_queue_lets_its_topic_send(connection: Connection, sns: Any, celery_run: Any) -> None:
    """kombu writes the policy that Amazon wants, with the ARN of the topic."""
    channel = connection.channel()
    with Consumer(channel, [Queue("allowed", Exchange("allowing", type="fanout"))]):
        sqs = celery_run.client()
        url = sqs.get_queue_url(QueueName="allowed")["QueueUrl"]
        policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
        (statement,) = json.loads(policy)["Statement"]
    topic = topic_of(sns, "allowing")
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": topic}}


def test_subscriptions_of_deleted_queues_are_removed(
    connection: Connection, sns: Any, celery_run: Any
) -> None:
    """kombu makes the topic again at every start, and looks for subscriptions whose queue is gone."""
    exchange = Exchange("cleaned", type="fanout")
    with Consumer(connection.channel(), [Queue("cleaned-0", exchange), Queue("cleaned-1", exchange)]):
        pass
    assert endpoints(sns, "cleaned") == ["cleaned-0", "cleaned-1"]
    sqs = celery_run.client()
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="cleaned-0")["QueueUrl"])
    Queue("cleaned-1", exchange)(connection.clone().channel()).declare()
    assert endpoints(sns, "cleaned") == ["cleaned-1"]
    tags = sns.list_tags_for_resource(ResourceArn=topic_of(sns, "cleaned"))["Tags"]
    assert {"Key": "ManagedBy", "Value": "Celery/Kombu"} in tags


def test_every_worker_runs_a_broadcast(celery_run: Any, sns: Any) -> None:
    workers = [celery_run.start_worker("broadcasts") for _ in range(2)]
    celery_run.wait(lambda: len(endpoints(sns, "news")) == 2)
    broadcasts = importlib.import_module("broadcasts")
    for place in range(3):
        # A sender declares the exchange itself: Celery does not, and kombu would drop the message.
        broadcasts.read.apply_async((f"news-{place}",), declare=[Exchange("news", type="fanout")])
    celery_run.wait(lambda: len(celery_run.lines("news-")) >= 6)
    lines = {(line["name"], line["worker"]) for line in celery_run.lines("news-")}
    assert lines == {(f"news-{place}", worker.pid) for place in range(3) for worker in workers}
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SOON_S) == 0
        celery_run.workers.remove(worker)
