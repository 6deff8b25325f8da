"""The FastStream broker with an application of FastStream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients.adapters import scenarios

WORKER = ["-m", "faststream", "run", "faststream_tasks:app"]
QUEUE = "tasks"


@pytest.fixture
def publish(framework_run: Any) -> Iterator[Callable[..., Any]]:
    """``publish({"name": "x"}, "tasks")`` in another process than the one that subscribes."""
    from penstock.client.adapters.faststream import FastStreamBroker

    with asyncio.Runner() as runner:
        broker = FastStreamBroker()
        runner.run(broker.start())
        yield lambda *given, **more: runner.run(broker.publish(*given, **more))
        runner.run(broker.stop())


@pytest.fixture
def send(publish: Callable[..., Any]) -> scenarios.Send:
    return lambda name, seconds: publish({"name": name, "seconds": seconds}, "tasks")


def test_every_task_runs_once(
    framework_run: Any, send: scenarios.Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCURRENCY", "10")
    scenarios.every_task_runs_once(framework_run, send)


def test_a_killed_worker_loses_nothing(framework_run: Any, send: scenarios.Send) -> None:
    scenarios.a_killed_worker_loses_nothing(framework_run, send)


def test_a_stop_finishes_what_was_begun(framework_run: Any, send: scenarios.Send) -> None:
    scenarios.a_stop_finishes_what_was_begun_and_gives_back_the_rest(framework_run, send)


def test_a_message_that_fails_is_retried_as_the_settings_say(
    framework_run: Any, publish: Callable[..., Any]
) -> None:
    framework_run.start_worker()
    publish({"name": "failing"}, "failing")
    framework_run.wait(lambda: framework_run.messages("failing-dead-letters") == 1)
    lines = framework_run.lines("failing")
    assert len(lines) == 3
    assert lines[2]["at"] - lines[0]["at"] >= 1.9


def test_a_message_that_is_rejected_is_a_dead_letter(framework_run: Any, publish: Callable[..., Any]) -> None:
    framework_run.start_worker()
    publish({"name": "rejected"}, "rejecting")
    publish({"nothing": "that fits"}, "rejecting")
    framework_run.wait(lambda: framework_run.messages("rejecting-dead-letters") == 2)
    assert len(framework_run.lines("rejected")) == 1
    dead = framework_run.client.admin("GET", "/queues/rejecting-dead-letters/messages")
    assert "ValueError: always" in json.dumps(dead)


def test_what_a_handler_returns_is_published(framework_run: Any, publish: Callable[..., Any]) -> None:
    framework_run.start_worker()
    publish({"name": "ping"}, "asking", correlation_id="c-1", reply_to="replies")
    for queue in ("answers", "replies"):
        framework_run.wait(lambda queue=queue: has_message(framework_run, queue))
        (message,) = framework_run.client.receive_message(queue, message_attribute_names=["All"])
        assert json.loads(message.body) == {"answer": "ping"}
        assert message.text_attributes["correlation_id"] == "c-1"
        assert message.text_attributes["content-type"] == "application/json"


def has_message(run: Any, queue: str) -> bool:
    from penstock.client import QueueDoesNotExist

    try:
        return bool(run.messages(queue) == 1)
    except QueueDoesNotExist:
        return False


def test_a_delay_is_kept(framework_run: Any, publish: Callable[..., Any]) -> None:
    framework_run.start_worker()
    asked = time.time()
    publish({"name": "later"}, "tasks", delay=2)
    framework_run.wait(lambda: framework_run.lines("later done"))
    assert framework_run.lines("later")[0]["at"] - asked >= 1.9


def test_a_fifo_queue(framework_run: Any, publish: Callable[..., Any]) -> None:
    for _ in range(2):
        publish("x", "steps.fifo", group="g", deduplication_id="once")
    assert framework_run.messages("steps.fifo") == 1


def test_the_documented_example(framework_run: Any) -> None:
    worker = ["-m", "faststream", "run", "tasks:app"]
    scenarios.the_documented_example_runs(framework_run, "faststream", worker, "orders")


def test_the_schema_names_queues(framework_run: Any) -> None:
    import faststream_tasks
    from faststream.specification.asyncapi import AsyncAPI

    shown = AsyncAPI(faststream_tasks.broker).to_specification().to_json()
    assert {"tasks", "answers"} <= {channel["address"] for channel in json.loads(shown)["channels"].values()}


def test_ping(framework_run: Any) -> None:
    from penstock.client.adapters.faststream import FastStreamBroker

    async def main() -> None:
        reached = FastStreamBroker()
        assert await reached.ping(30)
        await reached.stop()
        missed = FastStreamBroker(endpoint_url="http://127.0.0.1:9")
        assert not await missed.ping(5)
        await missed.stop()

    asyncio.run(main())
