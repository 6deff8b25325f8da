"""Where commits run: on the loop while the disk is quick, in the thread that writes when it is not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.runtime import CommitPlacement, LoopRuntime, StoreThread
from penstock.clock import SystemClock
from penstock.promise import Promise

T = TypeVar("T")
QUICK_S, SLOW_S = 0.0003, 0.01


class Seconds:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_quick_disk_keeps_commits_on_the_loop_and_one_slow_commit_changes_nothing() -> None:
    placement = CommitPlacement(Seconds())
    for _ in range(200):
        for waited in [QUICK_S] * 40 + [SLOW_S]:
            assert placement.on_loop()
            placement.waited(waited)


@given(st.floats(0.003, 10.0))
def test_a_slow_disk_stalls_the_loop_ever_more_rarely(waited: float) -> None:
    clock = Seconds()
    placement = CommitPlacement(clock)
    stalls = 0
    for _ in range(600 * 10):
        clock.now += 0.1
        if placement.on_loop():
            placement.waited(waited)
            stalls += 1
    assert stalls < 30, "of six thousand commits in ten minutes"


def test_a_disk_that_recovers_is_used_from_the_loop_again() -> None:
    clock = Seconds()
    placement = CommitPlacement(clock)
    while placement.on_loop():
        placement.waited(SLOW_S)
    clock.now += 1.0
    for _ in range(100):
        assert placement.on_loop()
        placement.waited(QUICK_S)


def on_a_loop(test: Callable[[LoopRuntime], Promise[T]]) -> T:
    async def run() -> T:
        loop = asyncio.get_running_loop()
        reader = StoreThread("penstock-reader", loop)
        runtime = LoopRuntime(loop, SystemClock(), reader)
        try:
            outcome, done = test(runtime), asyncio.Event()
            outcome.on_done(lambda _: done.set())
            async with asyncio.timeout(10):
                await done.wait()
            return outcome.result()
        finally:
            runtime.close()
            reader.close()

    return asyncio.run(run())


def committed(runtime: LoopRuntime, function: Callable[[], T], *, short: bool) -> Promise[T]:
    promise: Promise[T] = Promise()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is not None:
            promise.fail(error)
        else:
            promise.resolve(value)  # type: ignore[arg-type]

    runtime.commit(function, done, short=short)
    return promise


def test_a_short_commit_runs_at_once_and_a_long_one_in_the_thread() -> None:
    here = threading.current_thread
    assert on_a_loop(lambda runtime: committed(runtime, here, short=True)) is threading.main_thread()
    assert on_a_loop(lambda runtime: committed(runtime, here, short=False)).name == "penstock-writer"
    assert on_a_loop(lambda runtime: runtime.write(here)).name == "penstock-writer"
    assert on_a_loop(lambda runtime: runtime.read(here)).name == "penstock-reader"


def test_a_short_commit_does_not_overtake_a_long_one() -> None:
    order: list[str] = []

    def long() -> None:
        time.sleep(0.05)
        order.append("long")

    def long_then_short(runtime: LoopRuntime) -> Promise[None]:
        runtime.write(long)
        return committed(runtime, lambda: order.append("short"), short=True)

    on_a_loop(long_then_short)
    assert order == ["long", "short"]


@pytest.mark.parametrize("short", [True, False])
def test_the_error_of_a_commit_is_reported(short: bool) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        on_a_loop(lambda runtime: committed(runtime, fail, short=short))
