"""A real Celery worker: what it runs, when and how often."""

from __future__ import annotations

import itertools
import os
import signal
import time
from typing import Any


def test_every_task_runs_once(yard: Any) -> None:
    names = {f"once-{n}" for n in range(20)}
    for name in names:
        yard.tasks.note.delay(name)
    yard.wait(lambda: yard.names("once-") == names)
    yard.wait(yard.is_idle)
    assert len(yard.lines("once-")) == len(names)


def test_a_task_is_retried_after_its_pause(yard: Any) -> None:
    yard.tasks.fail_twice.delay("retry")
    yard.wait(lambda: len(yard.lines("retry")) == 3)
    lines = yard.lines("retry")
    assert [line["retries"] for line in lines] == [0, 1, 2]
    assert all(after["at"] - before["at"] >= 0.9 for before, after in itertools.pairwise(lines))


def test_a_countdown_is_kept(yard: Any) -> None:
    asked = time.time()
    yard.tasks.note.apply_async(("countdown",), countdown=2)
    yard.tasks.note.delay("now")
    yard.wait(lambda: yard.names("countdown"))
    assert yard.lines("countdown")[0]["at"] - asked >= 1.9
    assert yard.lines("now")[0]["at"] < yard.lines("countdown")[0]["at"]


def test_the_task_of_a_killed_worker_goes_to_another(yard: Any) -> None:
    """Late acknowledgement: the message comes back when its visibility time-out has passed."""
    yard.tasks.take_long.delay("long", 3)
    yard.wait(lambda: yard.names("long"))
    victim = yard.workers[-1]
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(10)
    yard.start_worker()
    yard.wait(lambda: "long done" in yard.names("long"))
    starts = [line for line in yard.lines("long") if line["name"] == "long"]
    assert len(starts) == 2
    assert starts[0]["worker"] != starts[1]["worker"]


def test_a_worker_that_is_told_to_stop_stops(yard: Any) -> None:
    worker = yard.workers[-1]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
