"""Durations that are counted by how long they were."""

from __future__ import annotations

from bisect import bisect_left

SECONDS_LIMITS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0,
)  # fmt: skip
"""Upper bounds: from a fast commit to a long poll."""


class Histogram:
    """Counts by upper bounds, the last one for what is beyond all of them. One thread at a time may write to it."""

    __slots__ = ("counts", "limits", "sum")

    def __init__(self, limits: tuple[float, ...] = SECONDS_LIMITS) -> None:
        self.limits = limits
        self.counts = [0] * (len(limits) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.limits, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Adds the counts of a histogram with the same limits."""
        self.counts = [mine + others for mine, others in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        return sum(self.counts)
