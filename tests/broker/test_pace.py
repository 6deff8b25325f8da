"""Where commits run: on the loop while the disk is quick, in the thread that writes when it is not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.pace import Pace
from penstock.broker.runtime import LoopRuntime
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
    pace = Pace(Seconds())
    for _ in range(200):
        for waited in [QUICK_S] * 40 + [SLOW_S]:
            assert pace.allows_here()
            pace.waited(waited)


@given(st.floats(0.003, 10.0))
def test_a_slow_disk_stalls_the_loop_ever_more_rarely(waited: float) -> None:
    clock = Seconds()
    pace = Pace(clock)
    stalls = 0
    for _ in range(600 * 10):
        clock.now += 0.1
        if pace.allows_here():
            pace.waited(waited)
            stalls += 1
    assert stalls < 30, "of six thousand commits in ten minutes"


def test_a_disk_that_recovers_is_used_from_the_loop_again() -> None:
    clock = Seconds()
    pace = Pace(clock)
    while pace.allows_here():
        pace.waited(SLOW_S)
    clock.now += 1.0
    for _ in range(100):
        assert pace.allows_here()
        pace.waited(QUICK_S)


def on_a_loop(test: Callable[[LoopRuntime], Promise[T]]) -> T:
    async def run() -> T:
        runtime = LoopRuntime(asyncio.get_running_loop(), SystemClock())
        try:
            outcome, done = test(runtime), asyncio.Event()
            outcome.on_done(lambda _: done.set())
            async with asyncio.timeout(10):
                await done.wait()
            return outcome.result()
        finally:
            runtime.close()

    return asyncio.run(run())


def test_a_short_job_runs_at_once_and_a_long_one_in_the_thread() -> None:
    here = threading.current_thread
    assert on_a_loop(lambda runtime: runtime.write(here, short=True)) is threading.main_thread()
    assert on_a_loop(lambda runtime: runtime.write(here)).name == "penstock-writer"


def test_a_short_job_does_not_overtake_a_long_one() -> None:
    order: list[str] = []

    def jobs(runtime: LoopRuntime) -> Promise[None]:
        runtime.write(lambda: (time.sleep(0.05), order.append("long")))
        return runtime.write(lambda: order.append("short"), short=True)

    on_a_loop(jobs)
    assert order == ["long", "short"]


def test_a_short_job_that_fails_tells_whoever_waits() -> None:
    def fail() -> None:
        raise ValueError("no")

    try:
        on_a_loop(lambda runtime: runtime.write(fail, short=True))
    except ValueError as error:
        assert str(error) == "no"
    else:
        raise AssertionError("nobody was told")
