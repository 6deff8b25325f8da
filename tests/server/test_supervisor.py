"""The supervisor with workers that follow a script."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from e2e.waiting import until
from penstock.server.settings.config import Config
from penstock.server.workers.messages import Ready
from penstock.server.workers.supervisor import Supervisor

WORKER = (sys.executable, str(Path(__file__).parent / "scripted_worker.py"))


def test_the_server_is_announced_when_each_worker_has_learned_that_all_are_ready(tmp_path: Path) -> None:
    """Until then a worker answers 503 because other workers are starting."""
    announced: list[int] = []

    def on_ready(workers: list[Ready]) -> None:
        announced.append(len(workers))
        signal.raise_signal(signal.SIGTERM)

    async def test(go: int) -> None:
        config = Config(memory=True, workers=2, shards=2)
        supervisor = Supervisor(config, tmp_path, [[[]], [[]]], on_ready, command=WORKER)
        running = asyncio.create_task(supervisor.run())
        await asyncio.to_thread(until, (tmp_path / "learned-1").exists, "worker 1 knows that both are ready")
        assert announced == []
        os.write(go, b"!")
        await running
        assert announced == [2]

    os.mkfifo(tmp_path / "go")
    with open(tmp_path / "go", "r+b", buffering=0) as go:
        asyncio.run(test(go.fileno()))
