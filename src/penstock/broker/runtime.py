"""What the broker needs of the world around it: two threads for the store, and timers.

Everything of the broker itself runs on one loop and decides without waiting. :class:`LoopRuntime` is the real one;
tests give another, which does the same under a clock they turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter, thread_time
from typing import Any, Protocol, TypeVar

from penstock.backoff import backoff
from penstock.clock import Clock
from penstock.errors import StoreClosed
from penstock.metrics.histogram import Histogram
from penstock.promise import Promise

T = TypeVar("T")

Done = Callable[[T | None, BaseException | None], None]
"""(value, None) or (None, error)."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Runtime(Protocol):
    def commit(self, function: Callable[[], T], done: Done[T], *, short: bool) -> None:
        """Run a blocking function in the thread that writes, after those before, then call ``done`` on the loop.

        A short one may be done by the time this returns, if nothing is before it and short ones have been quick."""

    def write(self, function: Callable[[], T]) -> Promise[T]:
        """Run a blocking function in the thread that writes, after those given before."""

    def read(self, function: Callable[[], T]) -> Promise[T]:
        """Run a blocking function in the thread that reads."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back when the events at hand are done."""

    def at(self, now_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back when the broker's clock (``now_ms``, not the wall clock) shows this time."""


class CommitPlacement:
    """Decides where a short commit runs: on the loop while such commits are quick, else in the thread that writes.

    On a quick disk a commit takes less than it costs to hand it over: two threads that want the interpreter wake each
    other for every statement, and that was a third of a send. On a slow disk the loop must not wait. Which of the two
    it is can only be seen by doing it: when commits had to wait for long they go to the thread, for longer each time.
    What a commit computes does not matter here: that has to be done in either place.
    """

    SLOW_S = 0.002  # of waiting, on average: one slow commit among quick ones changes nothing
    WEIGHT = 1 / 8  # of the latest in that average
    PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 64.0

    __slots__ = ("_average_s", "_now", "_slow", "_thread_until")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._average_s = 0.0
        self._slow = 0  # times in a row
        self._thread_until = 0.0

    def on_loop(self) -> bool:
        return not self._thread_until or self._now() >= self._thread_until

    def waited(self, seconds: float) -> None:
        """Records how long a commit on the loop stopped it, without the time in which the commit computed."""
        average_s = self._average_s + (seconds - self._average_s) * self.WEIGHT
        if average_s > self.SLOW_S:
            average_s = self.SLOW_S  # when it is tried again, one more that is slow will do
            self._slow += 1
            self._thread_until = self._now() + backoff(self._slow, self.PAUSE_MIN_S, self.PAUSE_MAX_S)
        elif average_s < self.SLOW_S / 2:
            self._slow = 0
        self._average_s = average_s


class StoreThread:
    """A thread that calls the store, one function after the other. An executor would make a future for each."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.pending = 0  # functions whose outcome the loop does not know yet
        self._closed = False
        self._post = loop.call_soon_threadsafe
        self._functions: SimpleQueue[tuple[Callable[[], Any], Done[Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def give(self, function: Callable[[], T], done: Done[T]) -> None:
        self.pending += 1
        if self._closed:
            self._post(self._finish, done, None, StoreClosed("the store is closed"))
        else:
            self._functions.put((function, done))

    def _run(self) -> None:
        while (given := self._functions.get()) is not None:
            function, done = given
            try:
                value = function()
            except BaseException as error:
                self._post(self._finish, done, None, error)
            else:
                self._post(self._finish, done, value, None)

    def _finish(self, done: Done[Any], value: Any, error: BaseException | None) -> None:
        self.pending -= 1
        done(value, error)

    def close(self) -> None:
        """Returns when the functions given before have returned; later ones fail with StoreClosed."""
        self._closed = True
        self._functions.put(None)
        self._thread.join()


class LoopRuntime:
    """Runs one shard. A slow fsync blocks only its writer, not the loop, the reader or other shards."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        reader: StoreThread,
        *,
        commits_on_loop: bool = True,
        commit_times: Histogram | None = None,
    ) -> None:
        """``reader`` may serve several shards, and is not closed with this one. ``commits_on_loop``: a quick commit
        may run there, which one over a network never does. ``commit_times``: of all shards."""
        self._loop = loop
        self._clock = clock
        self._writer = StoreThread("penstock-writer", loop)
        self._reader = reader
        self._placement = CommitPlacement() if commits_on_loop else None
        self._commit_times = commit_times or Histogram()
        self.soon: Callable[[Callable[[], None]], Any] = loop.call_soon

    def commit(self, function: Callable[[], T], done: Done[T], *, short: bool) -> None:
        placement, began_s = self._placement, perf_counter()
        if placement is None or not short or self._writer.pending or not placement.on_loop():
            self._writer.give(function, partial(self._written, began_s, done))
            return
        idle_from = began_s - thread_time()
        value, failure = None, None
        try:
            value = function()
        except BaseException as error:
            failure = error
        ended_s = perf_counter()
        placement.waited(ended_s - thread_time() - idle_from)
        self._commit_times.observe(ended_s - began_s)
        done(value, failure)

    def _written(self, began_s: float, done: Done[T], value: T | None, error: BaseException | None) -> None:
        self._commit_times.observe(perf_counter() - began_s)
        done(value, error)

    def write(self, function: Callable[[], T]) -> Promise[T]:
        return _promised(self._writer, function)

    def read(self, function: Callable[[], T]) -> Promise[T]:
        return _promised(self._reader, function)

    def at(self, now_ms: int, callback: Callable[[], None]) -> Timer:
        wait_ms = max(0, now_ms - self._clock.now_ms())
        # A millisecond more: a timer that fires early would find nothing due and be set again.
        return self._loop.call_later((wait_ms + 1) / 1000, callback)

    def close(self) -> None:
        self._writer.close()


def _promised(thread: StoreThread, function: Callable[[], T]) -> Promise[T]:
    promise: Promise[T] = Promise()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is not None:
            promise.fail(error)
        else:
            promise.resolve(value)  # type: ignore[arg-type]

    thread.give(function, done)
    return promise
