"""The processes that generate the load, separate from the servers and from the process that reports.

A job is divided over as many processes as the machine can spare, so that the generator is not the bottleneck; how
busy the busiest of them was is one of the figures.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from threading import BrokenBarrierError
from types import TracebackType
from typing import Any

import uvloop

from bench import load, poll_cases, topic_load
from bench.jobs import Done, Job, merged
from bench.load_client import Wrong

GRACE_S = 30.0  # for what was begun within the limit, and for what comes before the clock starts

_JOBS: dict[str, Callable[[Job, Callable[[], None]], Awaitable[Done]]] = {
    "send": load.send, "drain": load.drain, "life": load.life,
    "wake": poll_cases.wake, "polls": poll_cases.polls, "queues": load.create_queues,
    "publish": topic_load.publish,
}  # fmt: skip
_SHARED = {"send", "drain", "life"}

_barrier: Any = None  # in a generator process: where all of them wait for each other


def _enter(barrier: Any) -> None:
    global _barrier
    _barrier = barrier
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run(job: Job, together: bool) -> Done:
    def ready() -> None:
        if together:
            _barrier.wait(GRACE_S)

    async def within_limit() -> Done:
        async with asyncio.timeout(job.limit_s + GRACE_S):
            return await _JOBS[job.kind](job, ready)

    try:
        return uvloop.run(within_limit())
    except TimeoutError:
        raise Wrong(f"no answer within {job.limit_s + GRACE_S:.0f} s") from None
    except OSError as error:
        raise Wrong(str(error) or type(error).__name__) from None


class Generator:
    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes or max(1, min(4, (os.cpu_count() or 1) - 1))
        self._pool = self._open()

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, job: Job) -> Done:
        """Raises Wrong if an answer was wrong, or did not come."""
        shares = _shares(job, self.processes) if job.kind in _SHARED else [job]
        together = len(shares) > 1
        futures: list[Future[Done]] = [self._pool.submit(_run, share, together) for share in shares]
        try:
            return merged([future.result(job.limit_s + 2 * GRACE_S) for future in futures])
        except (Late, BrokenProcessPool, BrokenBarrierError) as error:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._open()
            raise Wrong(f"the generator was left without an answer ({type(error).__name__})") from None

    def _open(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(
            self.processes,
            mp_context=context,
            initializer=_enter,
            initargs=(context.Barrier(self.processes),),
        )


def _shares(job: Job, processes: int) -> list[Job]:
    """Equal shares. Too few connections or messages stay whole, and so does a life on a single queue: consumers
    of two processes would take each other's messages, and neither could tell when it is done."""
    whole = job.kind == "life" and len(job.queues) < processes
    if whole or job.connections < 2 * processes or job.count < processes * job.batch:
        return [job]
    connections, count = job.connections // processes, job.count // processes // job.batch * job.batch
    queues = [(queue,) for queue in job.queues] if job.kind == "life" else [job.queues] * processes
    return [
        replace(
            job,
            connections=connections,
            count=count,
            first=job.first + i * count,
            queues=queues[i],
            rate=job.rate / processes,
        )
        for i in range(processes)
    ]
