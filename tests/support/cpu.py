"""How much CPU time something takes, against a short calculation that runs beside it.

Time is that of the thread: other processes of the machine do not count, and slow machines are slow at both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache


def cost(work: Callable[[], object], attempts: int = 3) -> float:
    """The CPU time of the work in units of about a millisecond: the least of some attempts."""
    return _least_s(work, attempts) / unit_s()


@cache
def unit_s() -> float:
    """The CPU time of a short calculation: about a millisecond."""
    return _least_s(_calculation, 5)


def _calculation() -> None:
    total = 0
    for number in range(20_000):
        total += number * number


def _least_s(work: Callable[[], object], attempts: int) -> float:
    least = float("inf")
    for _ in range(attempts):
        began_s = time.thread_time()
        work()
        least = min(least, time.thread_time() - began_s)
    return least
