"""A server, workers of a framework as processes, and what their tasks have done."""

from __future__ import annotations

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

from clients.adapters.scenarios import VISIBILITY_S
from penstock.client import SyncClient

HERE = Path(__file__).parent
SOON_S = 90  # it takes seconds; a busy machine may be slow


class FrameworkRun:
    """``python``: arguments of Python that start a worker."""

    def __init__(self, folder: Path, python: list[str], queue: str) -> None:
        self.runs = folder / "runs.jsonl"
        self.runs.touch()
        self.queue = queue
        self.client = SyncClient()
        self.workers: list[subprocess.Popen[bytes]] = []
        self._python = python
        self._log_file = folder / "worker.log"
        self._log = self._log_file.open("wb")
        dead = self.client.create_queue(f"{queue}-dead-letters")
        arn = self.client.get_queue_attributes(dead)["QueueArn"]
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 10}
        self.client.create_queue(queue, {"VisibilityTimeout": VISIBILITY_S, "RedrivePolicy": policy})

    def start_worker(self, python: list[str] | None = None, folder: Path = HERE) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            [sys.executable, *(python or self._python)], cwd=folder, stdout=self._log, stderr=self._log,
            env={**os.environ, "RUNS": str(self.runs), "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def lines(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.runs.read_text().splitlines()]
        return [line for line in lines if line["name"] == name]

    def messages(self, queue: str) -> int:
        """That are visible, delayed or in flight."""
        shown = self.client.get_queue_attributes(queue)
        return sum(int(value) for name, value in shown.items() if name.startswith("ApproximateNumberOf"))

    def worker_output(self) -> str:
        return self._log_file.read_text(errors="replace")

    def wait(self, done: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_S
        while not done():
            if time.monotonic() > deadline:
                said = self.worker_output()[-4000:]
                pytest.fail(f"not in {SOON_S} s; runs: {self.runs.read_text()}; the workers say: {said}")
            time.sleep(0.05)

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(10)

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                self.kill(worker)
        self._log.close()
        self.client.close()


@pytest.fixture
def framework_run(
    reach: dict[str, str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FrameworkRun]:
    """The module of the test says how a worker is started, and which queue it has: WORKER, QUEUE."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", reach["endpoint_url"])
    monkeypatch.setenv("AWS_REGION", reach["region_name"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", reach["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", reach["aws_secret_access_key"])
    monkeypatch.syspath_prepend(str(HERE))
    run = FrameworkRun(tmp_path, request.module.WORKER, request.module.QUEUE)
    yield run
    run.close()
