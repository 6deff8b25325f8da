"""What has to be true of every framework. ``send`` sends a task that takes this many seconds, and leaves lines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from clients.adapters.documented import write_example

VISIBILITY_S = 3  # of the queue
Send = Callable[[str, float], Any]


def every_task_runs_once(run: Any, send: Send) -> None:
    """Also one that takes longer than the visibility timeout."""
    run.start_worker()
    send("slow", 2.5 * VISIBILITY_S)
    for number in range(20):
        send(f"quick-{number}", 0)
    run.wait(lambda: run.lines("slow done") and all(run.lines(f"quick-{n} done") for n in range(20)))
    run.wait(lambda: run.messages(run.queue) == 0)
    assert len(run.lines("slow")) == 1
    assert all(len(run.lines(f"quick-{n}")) == 1 for n in range(20))
    assert run.messages(f"{run.queue}-dead-letters") == 0


def a_killed_worker_loses_nothing(run: Any, send: Send) -> None:
    worker = run.start_worker()
    for number in range(5):
        send(f"task-{number}", 1)
    run.wait(lambda: any(run.lines(f"task-{n}") for n in range(5)))
    run.kill(worker)
    done_before = [n for n in range(5) if run.lines(f"task-{n} done")]
    assert len(done_before) < 5
    run.start_worker()
    run.wait(lambda: all(run.lines(f"task-{n} done") for n in range(5)))
    run.wait(lambda: run.messages(run.queue) == 0)


def a_stop_finishes_what_was_begun_and_gives_back_the_rest(run: Any, send: Send) -> None:
    """A worker that has one task at a time."""
    worker = run.start_worker()
    for number in range(4):
        send(f"task-{number}", 1.5)
    run.wait(lambda: any(run.lines(f"task-{n}") for n in range(4)))
    worker.terminate()
    assert worker.wait(60) in (0, -15)
    begun = [n for n in range(4) if run.lines(f"task-{n}")]
    assert begun == [n for n in range(4) if run.lines(f"task-{n} done")]
    assert 0 < len(begun) < 4
    assert run.messages(run.queue) == 4 - len(begun)
    run.start_worker()
    run.wait(lambda: all(run.lines(f"task-{n} done") for n in range(4)))
    run.wait(lambda: run.messages(run.queue) == 0)
    assert all(len(run.lines(f"task-{n}")) == 1 for n in range(4))


def the_documented_example_runs(run: Any, adapter: str, worker: list[str], queue: str) -> None:
    """It sends two tasks, the second one for later."""
    folder = run.runs.parent
    example = write_example(adapter, folder)
    subprocess.run([sys.executable, example.name], cwd=folder, check=True, timeout=60)
    assert run.messages(queue) == 2
    process = run.start_worker(worker, folder)
    run.wait(lambda: "receipt for order 17" in run.worker_output())
    run.wait(lambda: run.messages(queue) == 1)
    process.terminate()
    process.wait(60)
    assert "receipt for order 18" not in run.worker_output()
