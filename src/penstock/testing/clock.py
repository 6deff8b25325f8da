"""A clock that a test controls."""

from __future__ import annotations

import time


class ManualClock:
    """Shows a later time when it is advanced; in between it stands still, or runs along with the real time."""

    def __init__(self, now_ms: int = 1_700_000_000_000, *, runs: bool = False) -> None:
        self.ms = now_ms  # while it runs: what it showed at the real time since which it runs
        self.wall_offset_ms = 0
        self._runs_since_ms = _monotonic_ms() if runs else None

    def now_ms(self) -> int:
        since_ms = self._runs_since_ms
        return self.ms if since_ms is None else self.ms + _monotonic_ms() - since_ms

    def wall_ms(self) -> int:
        return self.now_ms() + self.wall_offset_ms

    def advance(self, ms: int) -> None:
        assert ms >= 0, "time does not run back"
        self.ms += ms

    @property
    def runs(self) -> bool:
        return self._runs_since_ms is not None

    def stop(self) -> None:
        """Stand still."""
        self.ms, self._runs_since_ms = self.now_ms(), None

    def run(self) -> None:
        """Run along with the real time."""
        self.ms, self._runs_since_ms = self.now_ms(), _monotonic_ms()

    def show(self, wall_ms: int) -> None:
        """Set the wall clock, which decides nothing: what was due later still is."""
        self.wall_offset_ms = wall_ms - self.now_ms()

    def resume(self, last_now_ms: int, last_wall_ms: int) -> None:
        self.advance(max(0, last_now_ms - self.now_ms()))


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
