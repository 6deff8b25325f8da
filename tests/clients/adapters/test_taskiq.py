"""The taskiq broker with the workers of taskiq."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clients.adapters import scenarios

WORKER = ["-m", "taskiq", "worker", "taskiq_tasks:broker", "--workers", "1", "--max-async-tasks", "1"]
QUEUE = "tasks"


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def tasks(framework_run: Any, loop: asyncio.Runner) -> Iterator[Any]:
    import taskiq_tasks

    module = importlib.reload(taskiq_tasks)
    loop.run(module.broker.startup())
    yield module
    loop.run(module.broker.shutdown())


@pytest.fixture
def send(tasks: Any, loop: asyncio.Runner) -> scenarios.Send:
    return lambda name, seconds: loop.run(tasks.work.kiq(name, seconds))


def test_every_task_runs_once(framework_run: Any, send: scenarios.Send) -> None:
    scenarios.every_task_runs_once(framework_run, send)


def test_a_killed_worker_loses_nothing(framework_run: Any, send: scenarios.Send) -> None:
    scenarios.a_killed_worker_loses_nothing(framework_run, send)


def test_a_stop_finishes_what_was_begun(framework_run: Any, send: scenarios.Send) -> None:
    scenarios.a_stop_finishes_what_was_begun_and_gives_back_the_rest(framework_run, send)


def test_the_label_delay_is_kept(framework_run: Any, tasks: Any, loop: asyncio.Runner) -> None:
    framework_run.start_worker()
    asked = time.time()
    loop.run(tasks.work.kicker().with_labels(delay=2).kiq("later", 0))
    framework_run.wait(lambda: framework_run.lines("later done"))
    assert framework_run.lines("later")[0]["at"] - asked >= 1.9


def test_the_label_queue_names_another_queue(framework_run: Any, tasks: Any, loop: asyncio.Runner) -> None:
    loop.run(tasks.work.kicker().with_labels(queue="urgent").kiq("x", 0))
    assert framework_run.messages("urgent") == 1
    assert framework_run.messages("tasks") == 0


def test_the_documented_example(framework_run: Any) -> None:
    worker = ["-m", "taskiq", "worker", "tasks:broker", "--workers", "1"]
    scenarios.the_documented_example_runs(framework_run, "taskiq", worker, "tasks")


def test_a_broker_that_is_not_started_says_so(framework_run: Any) -> None:
    from penstock.client.adapters.taskiq import TaskiqBroker

    broker = TaskiqBroker()
    task = broker.register_task(lambda: None, "nothing")
    with pytest.raises(Exception) as caught:
        asyncio.run(task.kiq())
    assert "await broker.startup()" in str(caught.value.__cause__ or caught.value)
