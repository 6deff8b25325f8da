"""How busy a queue is: totals that only grow, and how much of them fell into the last minute.

No timer keeps them: the first count of each period of five seconds puts down what the totals were before it. So an
idle queue costs nothing, and a busy one a comparison for each request.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from penstock.limits import MINUTE, SECOND

_PERIOD_MS = 5 * SECOND


class Rates(NamedTuple):
    """Per second."""

    sent: float
    received: float
    deleted: float
    empty: float


class QueueRates:
    """Of one live queue since it was loaded. Before counting, :meth:`turn` if ``period_ends_ms`` has come."""

    __slots__ = ("_before", "deleted", "empty", "period_ends_ms", "received", "sent")

    def __init__(self) -> None:
        self.sent = 0  # messages
        self.received = 0
        self.deleted = 0
        self.empty = 0  # receives without a message
        self.period_ends_ms = 0
        # When a period with counts began, and the totals before it.
        self._before: deque[tuple[int, int, int, int, int]] = deque(maxlen=MINUTE // _PERIOD_MS + 1)

    def turn(self, now_ms: int) -> None:
        """Begin the period of this time."""
        began_ms = now_ms - now_ms % _PERIOD_MS
        self._before.append((began_ms, self.sent, self.received, self.deleted, self.empty))
        self.period_ends_ms = began_ms + _PERIOD_MS

    def per_second(self, now_ms: int) -> Rates:
        """Over the periods of the last minute, the present one included."""
        since_ms = now_ms - MINUTE
        since_ms += -since_ms % _PERIOD_MS
        seconds = max(now_ms - since_ms, _PERIOD_MS) / SECOND
        for began_ms, *totals in self._before:
            if began_ms >= since_ms:
                present = (self.sent, self.received, self.deleted, self.empty)
                return Rates(*((now - before) / seconds for now, before in zip(present, totals, strict=True)))
        return Rates(0.0, 0.0, 0.0, 0.0)
