"""How much of a flood of refused requests is written: enough to see it, not enough to fill the disk.

In each window of a minute every caller has its first refusals written, up to a total for all callers; the rest
are counted, and at the window's end the counts are written instead.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_MS = 60_000
PER_CALLER_MAX = 20
IN_ALL_MAX = 120
CALLERS_MAX = 1000
TOLD_MAX = 20
OTHERS = "others"


class Suppressed(NamedTuple):
    caller: str
    requests: int


class Refusals:
    """Bounded: more callers than it can tell apart share one count."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._begun_ms: int | None = None
        self._written = 0
        self._seen: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def take(self, caller: str, now_ms: int) -> bool:
        """Whether this refusal is written."""
        if self._begun_ms is None:
            self._begun_ms = now_ms
        if caller not in self._seen and len(self._seen) >= CALLERS_MAX:
            caller = OTHERS
        seen = self._seen[caller] = self._seen.get(caller, 0) + 1
        if seen <= PER_CALLER_MAX and self._written < IN_ALL_MAX:
            self._written += 1
            return True
        self._suppressed[caller] = self._suppressed.get(caller, 0) + 1
        return False

    def is_over(self, now_ms: int) -> bool:
        """Whether there is a window, and its time is up. A wall clock that was set back ends it too."""
        return self._begun_ms is not None and not 0 <= now_ms - self._begun_ms < WINDOW_MS

    def end(self) -> list[Suppressed]:
        """End the window: what was not written in it, the worst first."""
        worst = sorted(self._suppressed.items(), key=lambda each: (each[0] == OTHERS, -each[1], each[0]))
        told = [Suppressed(caller, count) for caller, count in worst[:TOLD_MAX]]
        rest = sum(count for _, count in worst[TOLD_MAX:])
        self._begin()
        return [*told, Suppressed(OTHERS, rest)] if rest else told
