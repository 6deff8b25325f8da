"""A real Celery worker on the broker: what runs, when, how often, and what it survives.

The worker reaches the server through a proxy that can misbehave. The server keeps its data on disk, so that a
restart can be told from a loss.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.process import ServerProcess
from proxy import Proxy

HERE = Path(__file__).parent
SOON_S = 60  # it takes a second or two; a busy machine may be slow


class Yard:
    """Everything that runs in this suite: the server, the proxy before it, and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs.jsonl"
        self.runs.touch()
        self.server = self._start_server()
        self.proxy = Proxy(self.server.port)
        self.workers: list[subprocess.Popen[bytes]] = []
        # One task's line tells the environment from which both producer and worker take their settings.
        self.environment = {"BROKER": f"sqs://any:any@127.0.0.1:{self.proxy.port}", "RUNS": str(self.runs)}
        os.environ.update(self.environment)
        self.tasks: Any = importlib.import_module("tasks")
        self.log = (folder / "worker.log").open("wb")

    def _start_server(self) -> ServerProcess:
        return ServerProcess("--data", str(self.folder / "data"))

    def start_worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "1", "--without-gossip",
                   "--without-mingle", "--without-heartbeat", "-l", "info"]  # fmt: skip
        worker = subprocess.Popen(
            command, cwd=HERE, stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, "C_FORCE_ROOT": "true"},
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def kill_server(self) -> None:
        self.server.kill()

    def restart_server(self) -> None:
        self.server = self._start_server()
        self.proxy.upstream_port = self.server.port

    def lines(self, prefix: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.runs.read_text().splitlines()]
        return [line for line in lines if line["name"].startswith(prefix)]

    def names(self, prefix: str) -> set[str]:
        return {line["name"] for line in self.lines(prefix)}

    def wait(self, done: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_S
        while not done():
            if time.monotonic() > deadline:
                tail = (self.folder / "worker.log").read_text(errors="replace")[-4000:]
                pytest.fail(f"not in {SOON_S} s; runs: {self.runs.read_text()}; the worker says: {tail}")
            time.sleep(0.05)

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(10)
        self.log.close()
        self.proxy.close()
        self.server.kill()


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        made = Yard(tmp_path_factory.mktemp("celery"))
        made.start_worker()
        yield made
        made.close()


def test_every_task_runs_once(yard: Yard) -> None:
    names = {f"once-{n}" for n in range(20)}
    for name in names:
        yard.tasks.note.delay(name)
    yard.wait(lambda: yard.names("once-") == names)
    time.sleep(0.5)
    assert len(yard.lines("once-")) == len(names)


def test_a_task_is_retried_after_its_pause(yard: Yard) -> None:
    yard.tasks.fail_twice.delay("retry")
    yard.wait(lambda: len(yard.lines("retry")) == 3)
    lines = yard.lines("retry")
    assert [line["retries"] for line in lines] == [0, 1, 2]
    assert all(after["at"] - before["at"] >= 0.9 for before, after in zip(lines, lines[1:], strict=False))


def test_a_countdown_is_kept(yard: Yard) -> None:
    asked = time.time()
    yard.tasks.note.apply_async(("countdown",), countdown=2)
    yard.tasks.note.delay("now")
    yard.wait(lambda: yard.names("countdown"))
    assert yard.lines("countdown")[0]["at"] - asked >= 1.9
    assert yard.lines("now")[0]["at"] < yard.lines("countdown")[0]["at"]


def test_the_worker_goes_on_after_503(yard: Yard) -> None:
    trouble(yard, "refuse")


def test_the_worker_goes_on_after_reset_connections(yard: Yard) -> None:
    trouble(yard, "cut")


def trouble(yard: Yard, mode: str) -> None:
    yard.tasks.note.delay(f"{mode}-before")
    yard.wait(lambda: yard.names(f"{mode}-before"))
    troubled = yard.proxy.troubled
    yard.proxy.behave(mode)
    yard.wait(lambda: yard.proxy.troubled >= troubled + 3)
    yard.proxy.behave("pass")
    yard.tasks.note.delay(f"{mode}-after")
    yard.wait(lambda: yard.names(f"{mode}-after"))
    assert yard.workers[0].poll() is None


def test_the_worker_goes_on_after_a_restart_of_the_broker(yard: Yard) -> None:
    yard.tasks.note.apply_async(("restart-before",), countdown=4)
    yard.kill_server()
    time.sleep(1)  # polls fail meanwhile
    yard.restart_server()
    yard.tasks.note.delay("restart-after")
    yard.wait(lambda: yard.names("restart-") == {"restart-before", "restart-after"})
    assert yard.workers[0].poll() is None


def test_the_task_of_a_killed_worker_goes_to_another(yard: Yard) -> None:
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


def test_a_worker_that_is_told_to_stop_stops(yard: Yard) -> None:
    worker = yard.workers[-1]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
