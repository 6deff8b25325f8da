"""The Dramatiq broker with the workers of Dramatiq."""

from __future__ import annotations

import importlib
import json
import time
from typing import Any

import pytest

from clients.adapters import scenarios
from support.texts import says

WORKER = ["-m", "dramatiq", "dramatiq_tasks", "--processes", "1", "--threads", "1"]
QUEUE = "app-default"


@pytest.fixture
def tasks(framework_run: Any) -> Any:
    """Sets up a broker for the account of this test."""
    import dramatiq_tasks

    return importlib.reload(dramatiq_tasks)


def test_every_task_runs_once(framework_run: Any, tasks: Any) -> None:
    scenarios.every_task_runs_once(framework_run, tasks.work.send)


def test_a_killed_worker_loses_nothing(framework_run: Any, tasks: Any) -> None:
    scenarios.a_killed_worker_loses_nothing(framework_run, tasks.work.send)


def test_a_stop_finishes_what_was_begun(framework_run: Any, tasks: Any) -> None:
    scenarios.a_stop_finishes_what_was_begun_and_gives_back_the_rest(framework_run, tasks.work.send)


def test_a_delay_is_kept(framework_run: Any, tasks: Any) -> None:
    framework_run.start_worker()
    asked = time.time()
    tasks.work.send_with_options(args=("later", 0), delay=2000)
    framework_run.wait(lambda: framework_run.lines("later done"))
    assert framework_run.lines("later")[0]["at"] - asked >= 1.9


def test_a_task_that_fails_after_its_retries_is_a_dead_letter(framework_run: Any, tasks: Any) -> None:
    framework_run.start_worker()
    tasks.fail.send("failing")
    framework_run.wait(lambda: framework_run.messages("app-default-dead-letters") == 1)
    assert len(framework_run.lines("failing")) == 3
    (dead,) = framework_run.client.receive_message("app-default-dead-letters")
    assert json.loads(dead.body)["actor_name"] == "fail"
    framework_run.wait(lambda: framework_run.messages(QUEUE) == 0)


def test_what_is_not_a_message_of_dramatiq_is_a_dead_letter(framework_run: Any, tasks: Any) -> None:
    framework_run.client.send_message(QUEUE, "hello")
    framework_run.start_worker()
    framework_run.wait(lambda: framework_run.messages("app-default-dead-letters") == 1)
    tasks.work.send("after", 0)
    framework_run.wait(lambda: framework_run.lines("after done"))


def test_what_ends_after_its_consumer_was_closed_runs_once(framework_run: Any, tasks: Any) -> None:
    """Dramatiq replaces a consumer that fails, while actors work on its messages."""
    import dramatiq

    tasks.work.send("late", 0)
    broker = dramatiq.get_broker()
    consumer = broker.consume("default", timeout=10_000)
    message = next(consumer)
    consumer.close()
    assert framework_run.messages(QUEUE) == 1, "it was given back"
    consumer.ack(message)
    assert framework_run.messages(QUEUE) == 0


def test_a_failure_after_its_consumer_was_closed_is_logged(
    framework_run: Any, tasks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    import dramatiq

    tasks.work.send("late", 0)
    consumer = dramatiq.get_broker().consume("default", timeout=10_000)
    message = next(consumer)
    consumer.close()
    consumer.nack(message)
    says(caplog.text, "work failed", "runs again")


def test_the_documented_example(framework_run: Any) -> None:
    worker = ["-m", "dramatiq", "tasks", "--processes", "1"]
    scenarios.the_documented_example_runs(framework_run, "dramatiq", worker, "shop-default")


def test_missing_queues_are_created_with_a_dead_letter_queue(framework_run: Any, tasks: Any) -> None:
    import dramatiq

    from penstock.client.adapters.dramatiq import DramatiqBroker

    broker = DramatiqBroker(queue_prefix="new-")

    @dramatiq.actor(broker=broker, queue_name="mail")
    def send_mail() -> None: ...

    send_mail.send()
    assert framework_run.messages("new-mail") == 1
    policy = json.loads(framework_run.client.get_queue_attributes("new-mail")["RedrivePolicy"])
    assert policy["deadLetterTargetArn"].endswith(":new-mail-dead-letters")
    broker.flush_all()
    assert framework_run.messages("new-mail") == 0
    broker.close()
