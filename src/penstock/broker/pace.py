"""Where a short job of the store runs: on the loop while such jobs are quick, else in the thread that writes.

On a quick disk a commit takes less than what it costs to hand it over: two threads that want the interpreter wake
each other for every statement, and that was a third of a send. On a slow disk the loop must not wait. Which of the
two it is can only be seen by doing it: when commits had to wait for long the thread has its turn, for longer each
time. What a commit computes is no reason: that has to be done in either place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLOW_S = 0.002  # of waiting, on average: one slow commit among quick ones changes nothing
_WEIGHT = 1 / 8  # of the latest in that average
_PAUSE_MIN_S, _PAUSE_MAX_S = 1.0, 64.0


class Pace:
    __slots__ = ("_average_s", "_now", "_pause_s", "_thread_until")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._average_s = 0.0
        self._pause_s = _PAUSE_MIN_S
        self._thread_until = 0.0

    def allows_here(self) -> bool:
        return self._now() >= self._thread_until

    def waited(self, seconds: float) -> None:
        """A job ran on the loop, and all of it stood still for so long."""
        self._average_s += (seconds - self._average_s) * _WEIGHT
        if self._average_s > _SLOW_S:
            self._average_s = _SLOW_S  # when it is tried again, one more that is slow will do
            self._thread_until = self._now() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        elif self._average_s < _SLOW_S / 2:
            self._pause_s = _PAUSE_MIN_S
