"""Time as a value that is passed in.

Two readings, because they answer two questions. ``now_ms`` decides: visibility, delay, retention, windows. It
moves with a monotonic clock, so a wall clock that is set forward or back releases and expires nothing.
``wall_ms`` is shown: SentTimestamp, CreatedTimestamp. Both are milliseconds since 1970; they start equal and
differ only by how much the wall clock was set since, and that difference survives a restart (:class:`SystemClock`).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def wall_ms(self) -> int: ...


real_s = time.time
"""The time of the machine in seconds since 1970, whatever clock the broker runs by: for what has to agree with other
machines, such as signatures, certificates and the Date of a response."""


def real_utc() -> datetime:
    """Returns the time of :func:`real_s` as a date and time in UTC."""
    return datetime.fromtimestamp(real_s(), UTC)


# On Linux the monotonic clock stands still while the machine is suspended; rows of nodes expire all the same.
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_s() -> float:
    """Seconds of a monotonic clock that also counts while the machine is suspended."""
    return time.clock_gettime(_BOOT_CLOCK)


_ROUNDING_MS = 1000


def wall_offset(clock: Clock) -> int:
    """Milliseconds to add to a time by ``now_ms`` to show it. A small difference is rounding and drift: with it, the
    same time would be shown differently at every look."""
    offset_ms = clock.wall_ms() - clock.now_ms()
    return offset_ms if abs(offset_ms) >= _ROUNDING_MS else 0


def iso_time(epoch_s: float) -> str:
    """2026-01-31T12:00:00Z"""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch_s))


class SystemClock:
    """The machine's clocks. ``resume`` continues from the last readings that the store has."""

    def __init__(self) -> None:
        self._base_ms = self.wall_ms() - time.monotonic_ns() // 1_000_000

    def now_ms(self) -> int:
        return self._base_ms + time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def resume(self, last_now_ms: int, last_wall_ms: int) -> None:
        # If the wall clock went back while the server was down, no time has passed.
        down_ms = max(0, self.wall_ms() - last_wall_ms)
        self._base_ms = last_now_ms + down_ms - time.monotonic_ns() // 1_000_000
