"""Time that a test controls, for all shards of a server: one clock, and one runtime on an event loop.

The runtime is the simulated one, and the loop makes its steps: as they come while time runs, and all that are due at
once when time is advanced. Jobs of the store run on the loop, too, so that this is for the store in memory only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from penstock.broker.runtime import Done, Timer
from penstock.clock import real_s
from penstock.promise import Promise
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime

T = TypeVar("T")

ADVANCE_MAX = timedelta(days=31)
"""The longest advance. Nothing in a broker lasts for longer than the retention of messages, two weeks."""

_STEPS_PER_TURN = 500  # some milliseconds: other events of the loop have their turn, too
# A tenth of a second, about. An advance as tests make them has fewer, so that no request comes between them.
_STEPS_UNINTERRUPTED = 10_000


class ControlledTime:
    """Everything is called on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Time runs along with the real time until it is frozen."""
        self.clock = ManualClock(_real_ms(), runs=True)
        self._loop = loop
        self._stays_frozen = False
        self._simulated = SimulatedRuntime(self.clock)
        self._scheduled = False  # the loop will make steps
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # of the clock
        self._closed = False
        self._advancing: Promise[None] | None = None  # done when an advance is

    # -- the runtime of each shard -------------------------------------------------------------------------------

    def of_shard(self, index: int) -> tuple[ManualClock, ControlledTime]:
        return self.clock, self

    def commit(self, function: Callable[[], T], done: Done[T], *, short: bool) -> None:
        self._simulated.commit(function, done, short=short)
        self._schedule()

    def write(self, function: Callable[[], T]) -> Promise[T]:
        self._schedule()
        return self._simulated.write(function)

    def read(self, function: Callable[[], T]) -> Promise[T]:
        self._schedule()
        return self._simulated.read(function)

    def soon(self, callback: Callable[[], None]) -> None:
        self._simulated.soon(callback)
        self._schedule()

    def at(self, now_ms: int, callback: Callable[[], None]) -> Timer:
        timer = self._simulated.at(now_ms, callback)
        self._set_timer()
        return timer

    def close(self) -> None:
        """Closes the runtime of one shard, when nothing is left to be done."""

    # -- what a test does ------------------------------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        return not self.clock.runs

    @property
    def shown_ms(self) -> int:
        return self.clock.wall_ms()

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of the real time; negative if it stood still for longer than it was advanced."""
        return self.clock.wall_ms() - _real_ms()

    async def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let time pass. When this returns, everything has happened that was due by then, in its order. The loop has
        its turn now and then if that is very much.

        Raises ValueError."""
        ms = _span_ms(days=days, hours=hours, minutes=minutes, seconds=seconds)
        while self._advancing is not None:
            await self._advancing
        self._advancing = done = Promise[None]()
        try:
            await self._turn()  # the caller may run within a step of the runtime
            for number, _ in enumerate(self._simulated.advancing(ms), start=1):
                if number >= _STEPS_UNINTERRUPTED and number % _STEPS_PER_TURN == 0:
                    await self._turn()
            self._simulated.run_until_idle()
        finally:
            self._advancing = None
            self._schedule()  # what is left if a step failed
            self._clock_changed()
            done.resolve(None)

    def _turn(self) -> Promise[None]:
        """Returns a promise that is resolved when the events at hand are done."""
        turn: Promise[None] = Promise()
        self._loop.call_soon(turn.resolve, None)
        return turn

    def freeze(self, *, for_good: bool = False) -> None:
        """Time stands still until it is advanced. ``for_good``: also after a reset."""
        self._stays_frozen = self._stays_frozen or for_good
        self.clock.stop()
        self._clock_changed()

    def run(self) -> None:
        """Time runs along with the real time, from what the clock shows."""
        self.clock.run()
        self._clock_changed()

    def reset(self) -> None:
        """Show the real time again, and run unless it is frozen for good. Nothing that has happened is undone, and
        what was due in ten seconds still is."""
        self.clock.show(_real_ms())
        if self._stays_frozen:
            self.freeze()
        else:
            self.run()

    def stop(self) -> None:
        """The server has stopped: nothing happens any more. This may be called in any thread."""
        self._closed = True

    # -- the loop --------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._make_steps)

    def _make_steps(self) -> None:
        self._scheduled = False
        idle = False
        try:
            self._simulated.fire()
            idle = not all(self._simulated.step() for _ in range(_STEPS_PER_TURN))
        finally:  # also if a step failed: the others are made
            if idle:
                self._set_timer()
            else:
                self._schedule()

    def _clock_changed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer for the next moment at which something is due, if time runs."""
        due_ms = self._simulated.next_timer_ms() if self.clock.runs else None
        if self._timer is not None:
            if due_ms == self._timer_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            self._timer_ms = due_ms
            wait_ms = max(0, due_ms - self.clock.now_ms())
            # A millisecond more, because a timer that fires early would find nothing due.
            self._timer = self._loop.call_later((wait_ms + 1) / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._closed:
            self._schedule()


def _span_ms(**parts: float) -> int:
    """The sum of days, hours, minutes and seconds. Raises ValueError."""
    expected = f"expected a time from 0 seconds to {ADVANCE_MAX.days} days"
    for unit, number in parts.items():
        # Also refuses what is not a number: it is in no range.
        if not 0 <= number <= ADVANCE_MAX / timedelta(**{unit: 1}):
            raise ValueError(f"invalid value {number:g} for {unit}: {expected}")
    span = timedelta(**parts)
    if span > ADVANCE_MAX:
        raise ValueError(f"invalid time {span}: {expected}")
    return span // timedelta(milliseconds=1)


def _real_ms() -> int:
    return int(real_s() * 1000)
