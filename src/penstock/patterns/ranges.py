"""Ranges of numbers, and which of them have a number: a segment tree.

The ends of all ranges cut the numbers into points and gaps between points. A range covers a run of these, which is a
few subtrees of a binary tree above them. So what has a number is found on the way from its leaf to the root.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

from penstock.patterns.terms import Number, NumberRange

T = TypeVar("T")

_RECENT_MAX = 32


class RangeTree(Generic[T]):
    """Things with their ranges. What was added lately is compared one by one, so that the tree is seldom built."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[T, NumberRange], None] = {}  # all, in the order in which they were added
        self._recent: dict[tuple[T, NumberRange], None] = {}  # those that are not in the tree
        self._points: list[Number] = []
        self._nodes: dict[int, dict[T, None]] = {}
        self._leaves = 1  # their number; the leaf at position p is node leaves + p

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, thing: T, numbers: NumberRange) -> None:
        self._ranges[thing, numbers] = self._recent[thing, numbers] = None
        if len(self._recent) > max(_RECENT_MAX, len(self._ranges) // 8):
            self._build()

    def remove(self, thing: T, numbers: NumberRange) -> None:
        del self._ranges[thing, numbers]
        if (thing, numbers) in self._recent:
            del self._recent[thing, numbers]
            return
        for node in self._cover(numbers):
            self._nodes[node].pop(thing, None)
            if not self._nodes[node]:
                del self._nodes[node]

    def having(self, number: Number) -> Iterator[T]:
        """Yields what has the number in its range, maybe several times."""
        node = self._leaves + self._position(number)
        while node:
            yield from self._nodes.get(node, ())
            node //= 2
        for thing, numbers in self._recent:
            if numbers.has(number):
                yield thing

    def _build(self) -> None:
        ends = {end for _, numbers in self._ranges for end in (numbers.bottom, numbers.top)}
        self._points = sorted(end for end in ends if end is not None)
        self._leaves = 2 * len(self._points) + 1
        self._nodes = {}
        self._recent = {}
        for thing, numbers in self._ranges:
            for node in self._cover(numbers):
                self._nodes.setdefault(node, {})[thing] = None

    def _position(self, number: Number) -> int:
        """Returns an odd position for a point, an even one for the gap before it."""
        at = bisect_left(self._points, number)
        return 2 * at + (at < len(self._points) and self._points[at] == number)

    def _cover(self, numbers: NumberRange) -> Iterator[int]:
        """Yields the nodes that together cover a range whose ends are points."""
        low, high = 0, self._leaves  # beyond the last one
        if numbers.bottom is not None:
            low = self._position(numbers.bottom) + (not numbers.includes_bottom)
        if numbers.top is not None:
            high = self._position(numbers.top) + numbers.includes_top
        low += self._leaves
        high += self._leaves
        while low < high:
            if low % 2:
                yield low
                low += 1
            if high % 2:
                high -= 1
                yield high
            low //= 2
            high //= 2
