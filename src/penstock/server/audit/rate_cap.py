"""Limits what is written about requests that changed nothing: enough to see a flood, not enough to fill the disk.

In each minute the first events of a caller are written; the rest are counted, and the counts are written when the
minute ends. Callers with and without a verified signature have separate caps, so that requests without a key cannot
hide what a user tried. Outcomes are counted separately, so that credentials given out cannot be hidden among refused
requests.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

WINDOW_MS = 60_000
EVENTS_MAX = 20  # written for one caller and outcome in a window
CALLERS_MAX = 1000  # counted by name; the others share one count
UNVERIFIED_EVENTS_MAX = 120  # written for all callers without a verified signature in a window
UNVERIFIED_NAMED_MAX = 20  # of these callers, reported by name
OTHERS = "others"

Outcome = Literal["denied", "unchanged", "credentials"]


class Suppressed(NamedTuple):
    caller: str
    outcome: Outcome
    events: int


class RateCap:
    def __init__(self, *, total_max: int | None = None, named_max: int | None = None) -> None:
        """``total_max``: events written for all callers together. ``named_max``: counts reported by name."""
        self._total_max = total_max
        self._named_max = named_max
        self._reset()

    def _reset(self) -> None:
        self._started_ms: int | None = None
        self._written = 0
        self._callers: set[str] = set()
        self._seen: Counter[tuple[str, Outcome]] = Counter()
        self._suppressed: Counter[tuple[str, Outcome]] = Counter()

    def admit(self, caller: str, outcome: Outcome, now_ms: int) -> bool:
        """Whether this event is written. If not, it is counted."""
        if self._started_ms is None:
            self._started_ms = now_ms
        if caller not in self._callers:
            if len(self._callers) < CALLERS_MAX:
                self._callers.add(caller)
            else:
                caller = OTHERS
        self._seen[caller, outcome] += 1
        within_total = self._total_max is None or self._written < self._total_max
        if within_total and self._seen[caller, outcome] <= EVENTS_MAX:
            self._written += 1
            return True
        self._suppressed[caller, outcome] += 1
        return False

    def is_over(self, now_ms: int) -> bool:
        """Whether a window has ended. A wall clock that was set back ends it too."""
        return self._started_ms is not None and not 0 <= now_ms - self._started_ms < WINDOW_MS

    def end_window(self) -> list[Suppressed]:
        """What was not written, the largest counts first."""
        counts = sorted(
            (Suppressed(*key, count) for key, count in self._suppressed.items()),
            key=lambda each: (each.caller == OTHERS, -each.events, each),
        )
        self._reset()
        named = counts[: self._named_max]
        rest: Counter[Outcome] = Counter()
        for each in counts[len(named) :]:
            rest[each.outcome] += each.events
        return named + [Suppressed(OTHERS, outcome, count) for outcome, count in rest.items()]
