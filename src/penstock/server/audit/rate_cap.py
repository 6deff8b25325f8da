"""How much is written of requests that got nothing done: enough to see a flood, not enough to fill the disk.

In each window of a minute every caller has its first ones written, up to a total for all callers; the rest are
counted, and at the window's end the counts are written instead.

Rule 1: strangers and principals do not share a bound: nobody without a key can hide what somebody with one tried.
Rule 2: principals are always named, up to a thousand; of strangers, who come from any address, the worst are.
Rule 3: credentials that were given out have a bound of their own, which only those who got some can use up: they
cannot be hidden among requests that were refused, the caller's or a stranger's.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

WINDOW_MS = 60_000
CALLERS_MAX = 1000
OTHERS = "others"


class Bound(NamedTuple):
    """Of what is written in a window."""

    per_caller: int
    in_all: int
    counts: int = 2 * CALLERS_MAX  # a caller has two: of what was denied, and of what was not


STRANGERS = Bound(per_caller=20, in_all=120, counts=20)
PRINCIPALS = Bound(per_caller=20, in_all=300)
SESSIONS = Bound(per_caller=60, in_all=300)


class Suppressed(NamedTuple):
    caller: str
    denied: bool
    requests: int


class Flood:
    """Bounded: more callers than it can tell apart share one count."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._begin()

    def _begin(self) -> None:
        self._begun_ms: int | None = None
        self._written = 0
        self._seen: Counter[str] = Counter()
        self._suppressed: Counter[tuple[str, bool]] = Counter()

    def take(self, caller: str, now_ms: int, *, denied: bool) -> bool:
        """Whether this request is written."""
        if self._begun_ms is None:
            self._begun_ms = now_ms
        if caller not in self._seen and len(self._seen) >= CALLERS_MAX:
            caller = OTHERS
        self._seen[caller] += 1
        if self._seen[caller] <= self._bound.per_caller and self._written < self._bound.in_all:
            self._written += 1
            return True
        self._suppressed[caller, denied] += 1
        return False

    def is_over(self, now_ms: int) -> bool:
        """Whether there is a window, and its time is up. A wall clock that was set back ends it too."""
        return self._begun_ms is not None and not 0 <= now_ms - self._begun_ms < WINDOW_MS

    def end(self) -> list[Suppressed]:
        """End the window: what was not written in it, the worst first."""
        worst = sorted(
            (Suppressed(*who, requests) for who, requests in self._suppressed.items()),
            key=lambda each: (each.caller == OTHERS, -each.requests, each),
        )
        rest: Counter[bool] = Counter()
        for each in worst[self._bound.counts :]:
            rest[each.denied] += each.requests
        self._begin()
        return worst[: self._bound.counts] + [
            Suppressed(OTHERS, denied, count) for denied, count in rest.items()
        ]
