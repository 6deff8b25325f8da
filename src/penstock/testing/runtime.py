"""A runtime without threads or waiting: all that the real one does, in steps, under a clock that tests control.

The loop runs its callbacks in the order in which they were given. The two threads of the store run their functions in
order too: running a function and reporting its outcome to the loop are two steps, and much can happen between them.
Between the three any order is possible: by default the loop goes first, then reads, then writes; ``choose`` can
pick any other. Functions of a thread that is paused wait, and so does everything that waits for them. A short commit
may be done at once if the thread that writes is idle; by default it is not.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.broker.runtime import Done
from penstock.promise import Promise
from penstock.testing.clock import ManualClock

T = TypeVar("T")
Step = Callable[[], None]

_TIMERS_MIN = 1000
_STEPS_MAX = 200_000  # until the broker has come to rest


class SimulatedThread:
    """Runs one function after the other. ``paused``: it does not begin with the next."""

    def __init__(self, loop: deque[Step]) -> None:
        self.paused = False
        self._loop = loop
        self._functions: deque[Callable[[], Step]] = deque()
        self._outcome: Step | None = None

    def give(self, function: Callable[[], T]) -> Promise[T]:
        later: Promise[T] = Promise()

        def work() -> Step:
            try:
                value = function()
            except Exception as error:
                failure = error
                return lambda: later.fail(failure)
            return lambda: later.resolve(value)

        self._functions.append(work)
        return later

    def do_at_once(self) -> None:
        """Do what was given last, if nothing is before it."""
        if self._outcome is None and len(self._functions) == 1 and not self.paused:
            self._functions.popleft()()()

    @property
    def able(self) -> bool:
        return self._outcome is not None or (bool(self._functions) and not self.paused)

    def step(self) -> None:
        if self._outcome is None:
            self._outcome = self._functions.popleft()()
        else:
            self._loop.append(self._outcome)
            self._outcome = None


def _outcome_of(settled: Promise[T]) -> tuple[T | None, BaseException | None]:
    try:
        return settled.result(), None
    except BaseException as error:
        return None, error


class SimulatedTimer:
    def __init__(self, due_ms: int, callback: Step) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SimulatedRuntime:
    def __init__(self, clock: ManualClock, choose: Callable[[int], int] = lambda choices: 0) -> None:
        self.clock = clock
        self._choose = choose
        self._loop: deque[Step] = deque()
        self.reader = SimulatedThread(self._loop)
        self.writer = SimulatedThread(self._loop)
        self._timers: list[tuple[int, int, SimulatedTimer]] = []
        self._timers_set = 0
        self._timers_max = _TIMERS_MIN  # with more of them, the cancelled ones are removed
        self.fired = 0

    def commit(self, function: Callable[[], T], done: Done[T], *, short: bool) -> None:
        outcome = self.writer.give(function)
        outcome.on_done(lambda settled: done(*_outcome_of(settled)))
        if short and self._choose(2):
            self.writer.do_at_once()

    def write(self, function: Callable[[], T]) -> Promise[T]:
        return self.writer.give(function)

    def read(self, function: Callable[[], T]) -> Promise[T]:
        return self.reader.give(function)

    def soon(self, callback: Step) -> None:
        self._loop.append(callback)

    def at(self, now_ms: int, callback: Step) -> SimulatedTimer:
        timer = SimulatedTimer(now_ms, callback)
        if len(self._timers) > self._timers_max:
            self._remove_cancelled()
        self._timers_set += 1
        heapq.heappush(self._timers, (now_ms, self._timers_set, timer))
        return timer

    def _remove_cancelled(self) -> None:
        """While time stands still, timers of receives that were answered would never come to their turn."""
        self._timers = [each for each in self._timers if not each[2].cancelled]
        heapq.heapify(self._timers)
        self._timers_max = max(_TIMERS_MIN, 2 * len(self._timers))

    # -- what a test does ------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one thing. Returns False if there is nothing that may be done."""
        able = [self._step_loop] if self._loop else []
        able += [thread.step for thread in (self.reader, self.writer) if thread.able]
        if not able:
            return False
        able[self._choose(len(able)) if len(able) > 1 else 0]()
        return True

    def _step_loop(self) -> None:
        self._loop.popleft()()

    def run_until_idle(self) -> None:
        for _ in self._until_idle():
            pass

    def _until_idle(self) -> Iterator[None]:
        """A step for each value."""
        self.fire()
        for _ in range(_STEPS_MAX):
            if not self.step():
                return
            yield
        raise AssertionError("the broker never comes to rest")

    def advance(self, ms: int) -> None:
        """Let time pass, from one timer to the next, with everything done in between."""
        for _ in self.advancing(ms):
            pass

    def advancing(self, ms: int) -> Iterator[None]:
        """The same in steps: time has passed when there are no more values."""
        yield from self._until_idle()
        while (due_ms := self.next_timer_ms()) is not None:
            wait_ms = max(0, due_ms - self.clock.now_ms())
            if wait_ms > ms:
                break
            self.clock.advance(wait_ms)
            ms -= wait_ms
            yield from self._until_idle()
        self.clock.advance(ms)

    def next_timer_ms(self) -> int | None:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def fire(self) -> None:
        """The loop calls back the timers that are due."""
        while (due_ms := self.next_timer_ms()) is not None and due_ms <= self.clock.now_ms():
            timer = heapq.heappop(self._timers)[2]
            self.fired += 1
            # Cancelled between its time and its turn: as on a real loop, it does not run.
            self._loop.append(lambda timer=timer: None if timer.cancelled else timer.callback())  # type: ignore[misc]
