"""The supervisor with processes that follow a script."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from penstock.server.processes.messages import Ready
from penstock.server.processes.server_process import Control
from penstock.server.processes.supervised import Heartbeat
from penstock.server.processes.supervisor import CrashLimits, Supervisor
from penstock.server.settings.config import Config
from support.server_processes import alive, children_of
from support.waiting import until

PROCESS = (sys.executable, str(Path(__file__).parent / "scripted_process.py"))


def test_the_server_is_announced_when_each_process_has_learned_that_all_are_ready(tmp_path: Path) -> None:
    """A process answers 503 until then, because other processes are starting."""
    announced: list[int] = []

    def on_ready(processes: list[Ready]) -> None:
        announced.append(len(processes))
        signal.raise_signal(signal.SIGTERM)

    async def test(go: int) -> None:
        config = Config(memory=True, processes=2, shards=2)
        supervisor = Supervisor(config, tmp_path, [[[]], [[]]], on_ready, command=PROCESS)
        running = asyncio.create_task(supervisor.run())
        await asyncio.to_thread(until, (tmp_path / "learned-1").exists, "process 1 knows that both are ready")
        assert announced == []
        os.write(go, b"!")
        await running
        assert announced == [2]

    os.mkfifo(tmp_path / "go")
    with open(tmp_path / "go", "r+b", buffering=0) as go:
        asyncio.run(test(go.fileno()))


def test_a_process_is_lost_after_ten_looks_in_a_row_without_a_report() -> None:
    heartbeat = Heartbeat()
    assert not any(heartbeat.is_lost(10) for _ in range(1000)), "while it loads, it does not report"
    for _ in range(3):
        heartbeat.heard()
        assert not any(heartbeat.is_lost(10) for _ in range(10))
    assert heartbeat.is_lost(10)
    heartbeat.heard()
    assert not heartbeat.is_lost(10)


def test_a_process_that_was_stopped_by_a_signal_is_killed_and_restarted(tmp_path: Path) -> None:
    """It keeps its connections and its place, and answers nothing: only its silence tells."""

    async def test() -> None:
        ready, before = asyncio.Event(), set(children_of(os.getpid()))
        supervisor = Supervisor(
            Config(memory=True, processes=2, shards=2), tmp_path, [[[]], [[]]], lambda processes: ready.set(),
            # On a busy machine a process may be late, and be killed for it. That must not stop the server.
            crashes=CrashLimits(silence_max=6, look_every_s=0.5, deaths_max=1000),
        )  # fmt: skip
        running = asyncio.create_task(supervisor.run())
        await ready.wait()
        processes = set(children_of(os.getpid())) - before
        stopped = min(processes)
        os.kill(stopped, signal.SIGSTOP)

        def is_replaced() -> bool:
            return not alive(stopped) and bool(set(children_of(os.getpid())) - before - processes)

        try:
            await asyncio.to_thread(until, is_replaced, "another process is in the place of the stopped one")
        finally:
            with suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGKILL)
        signal.raise_signal(signal.SIGTERM)
        await running

    asyncio.run(test())


def test_a_process_does_not_wait_for_a_supervisor_that_is_stopped() -> None:
    ours, its = socket.socketpair()
    with ours:
        control = Control(its.detach())
        for _ in range(10_000):
            control.report_alive("accepted")
