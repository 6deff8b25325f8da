"""The backend for tasks of Django, with ``penstock worker``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from clients.adapters import scenarios

WORKER = ["-m", "penstock", "worker", "django_project.worker:app"]
QUEUE = "app-default"


@pytest.fixture
def tasks(framework_run: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets up a backend for the account of this test."""
    import django
    from django.conf import settings

    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "django_project.settings")
    if not settings.configured:
        django.setup()
    from django_project import tasks

    backends = backends_of(tasks)
    assert backends["default"]
    yield tasks
    del backends["default"]


def backends_of(tasks: Any) -> Any:
    import importlib

    return importlib.import_module(type(tasks.work).__module__.rpartition(".")[0]).task_backends


def test_every_task_runs_once(framework_run: Any, tasks: Any) -> None:
    scenarios.every_task_runs_once(framework_run, tasks.work.enqueue)


def test_a_killed_worker_loses_nothing(framework_run: Any, tasks: Any) -> None:
    scenarios.a_killed_worker_loses_nothing(framework_run, tasks.work.enqueue)


def test_a_stop_finishes_what_was_begun(framework_run: Any, tasks: Any) -> None:
    scenarios.a_stop_finishes_what_was_begun_and_gives_back_the_rest(framework_run, tasks.work.enqueue)


def test_a_task_is_retried_and_knows_its_attempt(framework_run: Any, tasks: Any) -> None:
    framework_run.start_worker()
    result = tasks.fail_twice.enqueue("retried")
    assert result.status == "READY"
    framework_run.wait(lambda: framework_run.lines("retried attempt 3"))
    assert framework_run.lines("retried attempt 1")
    framework_run.wait(lambda: framework_run.messages(QUEUE) == 0)


def test_a_task_runs_after_its_time(framework_run: Any, tasks: Any) -> None:
    from django.utils import timezone

    framework_run.start_worker()
    due = timezone.now() + timedelta(seconds=2)
    tasks.work.using(run_after=due).enqueue("later", 0)
    framework_run.wait(lambda: framework_run.lines("later done"))
    assert framework_run.lines("later")[0]["at"] >= due.timestamp()


def test_an_async_task_of_another_queue(framework_run: Any, tasks: Any) -> None:
    tasks.work_async.enqueue("async")
    assert framework_run.messages("app-urgent") == 1
    framework_run.start_worker()
    framework_run.wait(lambda: framework_run.lines("async"))


def test_what_is_not_a_task_is_a_dead_letter(framework_run: Any, tasks: Any) -> None:
    call = {"id": "x", "task": "os.getcwd", "args": [], "kwargs": {}, "enqueued_at": "2026-01-01T00:00:00Z"}
    framework_run.client.send_message(QUEUE, json.dumps(call))
    framework_run.client.send_message(QUEUE, "hello")
    framework_run.start_worker()
    framework_run.wait(lambda: framework_run.messages("app-default-dead-letters") == 2)


def test_arguments_that_json_cannot_hold_are_refused(framework_run: Any, tasks: Any) -> None:
    with pytest.raises(TypeError):
        tasks.work.enqueue(object(), 0)
    assert framework_run.messages(QUEUE) == 0
