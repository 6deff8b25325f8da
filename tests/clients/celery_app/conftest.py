"""A server, a proxy in front of it that can fail on demand, and Celery workers that reach the server through it.

The server keeps its data on disk, so that messages survive its restart.
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

import boto3
import pytest

from clients.celery_app.proxy import Proxy
from support.process import ServerProcess

HERE = Path(__file__).parent
SOON_S = 60  # it takes a second or two; a busy machine may be slow


class CeleryRun:
    """Everything that runs in this suite: the server, the proxy in front of it, and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs.jsonl"
        self.runs.touch()
        self.server = self._start_server()
        self.proxy = Proxy(self.server.port)
        self.workers: list[subprocess.Popen[bytes]] = []
        # Producer and worker both import the tasks, and these settings with them.
        os.environ.update(BROKER=f"sqs://any:any@127.0.0.1:{self.proxy.port}", RUNS=str(self.runs))
        self.tasks: Any = importlib.import_module("tasks")
        self.log = (folder / "worker.log").open("wb")

    def _start_server(self) -> ServerProcess:
        return ServerProcess("--data", str(self.folder / "data"))

    def start_worker(self, application: str = "tasks", folder: Path = HERE) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", application, "worker", "-c", "1", "--without-gossip",
                   "--without-mingle", "--without-heartbeat", "-l", "info"]  # fmt: skip
        worker = subprocess.Popen(
            command, cwd=folder, stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, "C_FORCE_ROOT": "true"},
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        self.workers.remove(worker)
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait(10)

    def kill_server(self) -> None:
        self.server.kill()

    def restart_server(self) -> None:
        self.server = self._start_server()
        self.proxy.upstream_port = self.server.port

    def client(self) -> Any:
        return boto3.client(
            "sqs", endpoint_url=self.server.url, region_name="us-east-1",
            aws_access_key_id="any", aws_secret_access_key="any",
        )  # fmt: skip

    def is_idle(self) -> bool:
        """Nothing waits, and every received message has been deleted."""
        sqs = self.client()
        url = sqs.get_queue_url(QueueName="celery")["QueueUrl"]
        shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return all(
            shown[f"ApproximateNumberOfMessages{kind}"] == "0" for kind in ("", "NotVisible", "Delayed")
        )

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
        for worker in list(self.workers):
            self.kill_worker(worker)
        self.log.close()
        self.proxy.close()
        self.server.kill()


@pytest.fixture(scope="session")
def celery_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CeleryRun]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        made = CeleryRun(tmp_path_factory.mktemp("celery"))
        made.start_worker()
        yield made
        made.close()
