"""What a live queue counts: totals that only grow, and how much of them fell into the last minute.

No timer is necessary: the first request of a second puts down what was counted before it. So an idle queue costs
nothing, and a busy one a comparison for each request. If metrics are kept, the counts of each second go to a meter
(:mod:`penstock.broker.queue_meter`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import NamedTuple, Protocol

from penstock.limits import MINUTE, SECOND

_PERIOD_MS = 5 * SECOND
SIZE_LIMITS = tuple(4**power for power in range(3, 11))
"""Upper bounds of a histogram of sizes: 64 bytes to 1 MiB."""


class Rates(NamedTuple):
    """The rates of a queue, per second."""

    sent: float
    received: float
    deleted: float
    empty: float


class Totals(NamedTuple):
    sent: int = 0
    received: int = 0
    deleted: int = 0
    empty: int = 0
    duplicates: int = 0
    sent_bytes: int = 0
    processed: int = 0
    processing_ms: int = 0


class CountMeter(Protocol):
    def pass_time(self, now_ms: int, totals: Totals, sizes: dict[int, int]) -> None:
        """Note that everything counted so far was counted before this time.

        ``sizes``: of the messages sent since the last call, and how many of each."""

    def used(self) -> None:
        """A request uses the queue, for the first time in this second."""


class QueueMetrics:
    """Counts what one live queue does. Call :meth:`use` before counting, which calls :meth:`turn` if
    ``second_ends_ms`` has come.

    Where the live queue counts messages, it compares by itself: that would be one more call on the path of each of
    them."""

    __slots__ = (
        "_before",
        "_meter",
        "_passed_ms",
        "_period_ends_ms",
        "_sent_bytes",
        "_size_counts",
        "deleted",
        "duplicates",
        "empty",
        "processed",
        "processing_ms",
        "received",
        "second_ends_ms",
        "sent",
        "sizes",
        "used_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sent = 0  # messages
        self.received = 0
        self.deleted = 0
        self.empty = 0  # receives without a message
        self.duplicates = 0  # sends to a FIFO queue that were such
        self.processed = 0  # messages that were deleted after a receive
        self.processing_ms = 0  # for how long they were held, in all
        self.sizes: dict[int, int] = {}  # of messages that were sent in this second, and how many of each
        self._size_counts = [0] * (len(SIZE_LIMITS) + 1)  # of those sent before, by limits
        self._sent_bytes = 0  # of those sent before
        self.second_ends_ms = 0
        self.used_ms = 0  # by a request
        self._passed_ms = 0  # what was counted before this time was put down
        self._period_ends_ms = 0
        self._meter: CountMeter | None = None
        # When a period with counts began, and the totals before it.
        self._before: deque[tuple[int, int, int, int, int]] = deque(maxlen=MINUTE // _PERIOD_MS + 1)

    def measure_with(self, meter: CountMeter) -> None:
        """Tell this meter what is counted."""
        self._meter = meter

    def use(self, now_ms: int) -> None:
        """A request uses the queue at this time."""
        if now_ms >= self.second_ends_ms:
            self.turn(now_ms)

    def turn(self, now_ms: int) -> None:
        """A request begins the second of this time."""
        self.pass_time(now_ms)
        self.second_ends_ms = now_ms - now_ms % SECOND + SECOND
        self.used_ms = now_ms
        if now_ms >= self._period_ends_ms:
            began_ms = now_ms - now_ms % _PERIOD_MS
            self._before.append((began_ms, self.sent, self.received, self.deleted, self.empty))
            self._period_ends_ms = began_ms + _PERIOD_MS
        if self._meter is not None:
            self._meter.used()

    def pass_time(self, now_ms: int) -> None:
        """The seconds before this time have ended."""
        if now_ms < self._passed_ms + SECOND:
            return
        self._passed_ms = now_ms - now_ms % SECOND
        sizes, self.sizes = self.sizes, {}
        for size, count in sizes.items():
            self._size_counts[bisect_left(SIZE_LIMITS, size)] += count
            self._sent_bytes += size * count
        if self._meter is not None:
            self._meter.pass_time(now_ms, self.totals, sizes)

    @property
    def totals(self) -> Totals:
        sent_bytes = self._sent_bytes + sum(size * count for size, count in self.sizes.items())
        return Totals(
            self.sent, self.received, self.deleted, self.empty, self.duplicates, sent_bytes, self.processed,
            self.processing_ms,
        )  # fmt: skip

    def all_size_counts(self) -> list[int]:
        """Counts all sent messages by the size limits."""
        counts = list(self._size_counts)
        for size, count in self.sizes.items():
            counts[bisect_left(SIZE_LIMITS, size)] += count
        return counts

    def per_second(self, now_ms: int) -> Rates:
        """Returns the rates over the periods of the last minute, the present one included."""
        since_ms = now_ms - MINUTE
        since_ms += -since_ms % _PERIOD_MS
        seconds = max(now_ms - since_ms, _PERIOD_MS) / SECOND
        for began_ms, *totals in self._before:
            if began_ms >= since_ms:
                present = (self.sent, self.received, self.deleted, self.empty)
                return Rates(*((now - before) / seconds for now, before in zip(present, totals, strict=True)))
        return Rates(0.0, 0.0, 0.0, 0.0)
