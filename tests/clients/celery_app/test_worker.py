"""A real Celery worker: what it runs, when and how often."""

from __future__ import annotations

import itertools
import os
import signal
import time
from typing import Any


def test_every_task_runs_once(celery_run: Any) -> None:
    names = {f"once-{n}" for n in range(20)}
    for name in names:
        celery_run.tasks.note.delay(name)
    celery_run.wait(lambda: celery_run.names("once-") == names)
    celery_run.wait(celery_run.is_idle)
    assert len(celery_run.lines("once-")) == len(names)


def test_a_task_is_retried_after_its_pause(celery_run: Any) -> None:
    celery_run.tasks.fail_twice.delay("retry")
    celery_run.wait(lambda: len(celery_run.lines("retry")) == 3)
    lines = celery_run.lines("retry")
    assert [line["retries"] for line in lines] == [0, 1, 2]
    assert all(after["at"] - before["at"] >= 0.9 for before, after in itertools.pairwise(lines))


def test_a_task_runs_after_its_countdown(celery_run: Any) -> None:
    asked = time.time()
    celery_run.tasks.note.apply_async(("countdown",), countdown=2)
    celery_run.tasks.note.delay("now")
    celery_run.wait(lambda: celery_run.names("countdown"))
    assert celery_run.lines("countdown")[0]["at"] - asked >= 1.9
    assert celery_run.lines("now")[0]["at"] < celery_run.lines("countdown")[0]["at"]


def test_the_task_of_a_killed_worker_goes_to_another(celery_run: Any) -> None:
    """Late acknowledgement: the message comes back when its visibility time-out has passed."""
    celery_run.tasks.take_long.delay("long", 3)
    celery_run.wait(lambda: celery_run.names("long"))
    victim = celery_run.workers[-1]
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(10)
    celery_run.start_worker()
    celery_run.wait(lambda: "long done" in celery_run.names("long"))
    starts = [line for line in celery_run.lines("long") if line["name"] == "long"]
    assert len(starts) == 2
    assert starts[0]["worker"] != starts[1]["worker"]


def test_a_worker_stops_on_sigterm(celery_run: Any) -> None:
    worker = celery_run.workers[-1]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
