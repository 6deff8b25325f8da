"""What the broker needs of the world around it: two threads for the store, and timers.

Everything of the broker itself runs on one loop and decides without waiting. :class:`LoopRuntime` is the real one;
tests give another, which does the same under a clock they turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from penstock.broker.pace import Pace
from penstock.clock import Clock
from penstock.errors import StoreBroken
from penstock.promise import Promise

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Runtime(Protocol):
    def write(self, job: Callable[[], T], *, short: bool = False) -> Promise[T]:
        """Run a blocking job in the thread that writes, after those given before. A short one may be done by the
        time this returns, if nothing is before it and short ones have been quick."""

    def read(self, job: Callable[[], T]) -> Promise[T]:
        """Run a blocking job in the thread that reads."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back when the events at hand are done."""

    def at(self, now_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back when the broker's clock (``now_ms``, not the wall clock) shows this time."""


class WatchedRuntime:
    """A runtime that tells of a store which can no longer be trusted, whoever was the first to read from it."""

    def __init__(self, runtime: Runtime, on_broken: Callable[[StoreBroken], None]) -> None:
        self._runtime = runtime
        self._on_broken = on_broken
        self.write = runtime.write
        self.soon = runtime.soon
        self.at = runtime.at

    def read(self, job: Callable[[], T]) -> Promise[T]:
        later = self._runtime.read(job)
        later.on_done(self._look)
        return later

    def _look(self, later: Promise[Any]) -> None:
        try:
            later.result()
        except StoreBroken as error:
            self._on_broken(error)
        except BaseException:
            return  # whoever reads is told


class _Thread:
    """Runs jobs one after the other. An executor would make a future, with its locks, for each."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.pending = 0  # jobs whose outcome the loop does not know yet

    def give(self, job: Callable[[], None]) -> None:
        self.pending += 1
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """Ends when the jobs given before are done."""
        self._jobs.put(None)
        self._thread.join()


class LoopRuntime:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        # A slow fsync holds the writer only; the loop and the reader go on.
        self._writer = _Thread("penstock-writer")
        self._reader = _Thread("penstock-reader")
        self._pace = Pace()

    def write(self, job: Callable[[], T], *, short: bool = False) -> Promise[T]:
        if short and not self._writer.pending and self._pace.allows_here():
            return self._run_here(job)
        return self._run(self._writer, job)

    def read(self, job: Callable[[], T]) -> Promise[T]:
        return self._run(self._reader, job)

    def _run(self, thread: _Thread, job: Callable[[], T]) -> Promise[T]:
        later: Promise[T] = Promise()
        post = self._loop.call_soon_threadsafe

        def work() -> None:
            try:
                value = job()
            except BaseException as error:
                post(finish, later.fail, error)
            else:
                post(finish, later.resolve, value)

        def finish(tell: Callable[[Any], None], outcome: Any) -> None:
            thread.pending -= 1
            tell(outcome)

        thread.give(work)
        return later

    def _run_here(self, job: Callable[[], T]) -> Promise[T]:
        later: Promise[T] = Promise()
        waits_from = time.perf_counter() - time.thread_time()
        try:
            later.resolve(job())
        except BaseException as error:
            later.fail(error)
        self._pace.waited(time.perf_counter() - time.thread_time() - waits_from)
        return later

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def at(self, now_ms: int, callback: Callable[[], None]) -> Timer:
        wait_ms = max(0, now_ms - self._clock.now_ms())
        # A millisecond more: a timer that fires early would find nothing due and be set again.
        return self._loop.call_later((wait_ms + 1) / 1000, callback)

    def close(self) -> None:
        self._writer.close()
        self._reader.close()
