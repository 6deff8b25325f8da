"""Time that a test controls, on a real event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.promise import Promise, outcome, start
from penstock.testing.controlled_time import ControlledTime
from penstock.testing.runtime import SimulatedRuntime


def on_loop(test: Callable[[ControlledTime], Coroutine[Any, Any, None]], *, frozen: bool) -> None:
    async def run() -> None:
        time = ControlledTime(asyncio.get_running_loop())
        if frozen:
            time.freeze(for_good=True)
        await test(time)

    asyncio.run(run())


async def advanced(time: ControlledTime, **by: float) -> None:
    await outcome(start(time.advance(**by)))


def due_in(time: ControlledTime, ms: int) -> int:
    return time.clock.now_ms() + ms


@pytest.mark.parametrize("frozen", [False, True])
def test_all_that_is_due_has_happened_when_time_was_advanced(frozen: bool) -> None:
    async def test(time: ControlledTime) -> None:
        seen: list[str] = []
        later: list[int] = []

        def chain() -> None:
            """It leads to work in a thread, and that to another timer within the same advance."""
            seen.append("second")
            time.write(lambda: seen.append("written")).on_done(wait)

        def wait(_: Promise[None]) -> None:
            time.at(due_in(time, 10_000), lambda: later.append(time.clock.now_ms()))

        begin_ms = time.clock.now_ms()
        time.at(due_in(time, 40_000), chain)
        time.at(due_in(time, 20_000), lambda: seen.append("first"))
        time.at(due_in(time, 70_000), lambda: seen.append("too early"))
        await advanced(time, minutes=1)
        assert seen == ["first", "second", "written"]
        assert later and 50_000 <= later[0] - begin_ms < 55_000
        assert 60_000 <= time.clock.now_ms() - begin_ms < 65_000

    on_loop(test, frozen=frozen)


def test_time_that_runs_comes_to_a_timer_by_itself() -> None:
    async def test(time: ControlledTime) -> None:
        fired = asyncio.Event()
        time.at(due_in(time, 30), fired.set)
        await asyncio.wait_for(fired.wait(), 20)

    on_loop(test, frozen=False)


def test_a_timer_comes_sooner_after_time_was_advanced_almost_to_it() -> None:
    async def test(time: ControlledTime) -> None:
        fired = asyncio.Event()
        time.at(due_in(time, 60_000), fired.set)
        await asyncio.sleep(0)
        await advanced(time, seconds=59.95)
        assert not fired.is_set()
        await asyncio.wait_for(fired.wait(), 20)

    on_loop(test, frozen=False)


def test_time_stands_still_when_it_is_frozen_and_goes_on_from_there() -> None:
    async def test(time: ControlledTime) -> None:
        fired = asyncio.Event()
        time.freeze()
        begin_ms = time.clock.now_ms()
        time.at(due_in(time, 5), fired.set)
        await asyncio.sleep(0.05)  # of the real time, which is what is not to count
        assert time.is_frozen and time.clock.now_ms() == begin_ms and not fired.is_set()
        time.run()
        assert time.clock.now_ms() - begin_ms < 20_000
        await asyncio.wait_for(fired.wait(), 20)

    on_loop(test, frozen=False)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_reset_shows_the_real_time_and_undoes_nothing(frozen: bool) -> None:
    async def test(time: ControlledTime) -> None:
        await advanced(time, hours=1)
        assert time.ahead_ms > 3_500_000
        decided_ms = time.clock.now_ms()
        if frozen:
            time.run()
        else:
            time.freeze()
        time.reset()
        assert abs(time.ahead_ms) < 20_000
        assert time.clock.now_ms() >= decided_ms
        assert time.is_frozen is frozen

    on_loop(test, frozen=frozen)


@pytest.mark.parametrize(
    "by",
    [
        {"days": -1},
        {"days": 32},
        {"seconds": 1e300},
        {"hours": math.nan},
        {"minutes": math.inf},
        {"days": 2, "hours": -1},
        {"days": 20, "hours": 300},
    ],
    ids=str,
)
def test_time_does_not_run_back_and_no_advance_takes_forever(by: dict[str, float]) -> None:
    async def test(time: ControlledTime) -> None:
        begin_ms = time.clock.now_ms()
        with pytest.raises(ValueError, match=r"^invalid .*31 days"):
            await advanced(time, **by)
        assert time.clock.now_ms() == begin_ms

    on_loop(test, frozen=True)


def test_an_advance_with_much_to_do_leaves_turns_for_others() -> None:
    async def test(time: ControlledTime) -> None:
        loop, fired, turns = asyncio.get_running_loop(), 0, 0

        def every_second() -> None:
            nonlocal fired
            fired += 1
            time.at(due_in(time, 1000), every_second)

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        every_second()
        turn()
        begin_ms = time.clock.now_ms()
        await advanced(time, days=1)
        assert (fired, time.clock.now_ms() - begin_ms) == (86_401, 86_400_000)
        assert turns > 100

    on_loop(test, frozen=True)


def test_advances_at_the_same_time_are_made_one_after_the_other() -> None:
    async def test(time: ControlledTime) -> None:
        times = [start(time.advance(minutes=1)) for _ in range(3)]
        begin_ms = time.clock.now_ms()
        for each in times:
            await outcome(each)
        assert time.clock.now_ms() - begin_ms == 180_000

    on_loop(test, frozen=True)


def test_a_request_advances_time_outside_of_the_step_in_which_it_runs() -> None:
    async def test(time: ControlledTime) -> None:
        seen: list[str] = []

        async def request() -> None:
            await time.read(lambda: None)  # from here on it runs within a step
            await time.advance(minutes=1)
            seen.append("advanced")

        done = start(request())
        time.soon(lambda: seen.append("step"))
        await outcome(done)
        assert seen == ["step", "advanced"]

    on_loop(test, frozen=True)


def test_work_goes_on_after_a_step_that_failed() -> None:
    async def test(time: ControlledTime) -> None:
        failures: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        done = asyncio.Event()
        time.soon(lambda: [][0])
        time.soon(done.set)
        await asyncio.wait_for(done.wait(), 20)
        assert isinstance(failures[0]["exception"], IndexError)

    on_loop(test, frozen=True)


def test_much_work_leaves_turns_for_others() -> None:
    async def test(time: ControlledTime) -> None:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            if steps < 5000:
                time.soon(step)

        time.soon(step)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < steps < 5000
        for _ in range(100):
            await asyncio.sleep(0)
        assert steps == 5000

    on_loop(test, frozen=True)


def test_cancelled_timers_do_not_pile_up_while_time_stands_still() -> None:
    async def test(time: ControlledTime) -> None:
        kept = [time.at(due_in(time, 1000), lambda: None) for _ in range(10)]
        for _ in range(20_000):
            time.at(due_in(time, 1000), lambda: None).cancel()
        runtime: SimulatedRuntime = time._simulated
        assert len(kept) <= len(runtime._timers) < 3000
        await advanced(time, minutes=1)
        assert runtime.fired == len(kept)

    on_loop(test, frozen=True)
