"""A bucket: what is kept of all values of a metric within a period.

Count, sum, minimum and maximum are exact and can be merged. Percentiles need more than these four: a sketch counts
values, few different ones as they are, many by their logarithm, so that a value read from it is wrong by at most one
percent. A bucket whose values are all the same needs none, and most buckets are such.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

VALUE_MAX = 2.0**360
"""Values beyond this, and the smallest ones other than zero, are not accepted in metrics."""

_BASE = 1.02
_LOG_BASE = math.log(_BASE)
_ZERO_KEY = 0
_OFFSET = math.ceil(math.log(VALUE_MAX) / _LOG_BASE) + 1  # keys of all positive values are positive
_KEYS_MAX = 1024  # from one to half a billion times as much

_EXACT_MAX = 32  # different values that are kept as they are

Sketch = dict[int | float, float]
"""How many values there are, by value while there are few different ones: floats. Else all keys are integers: 0 for
zero, else the rounded logarithm."""


def sketch_key(value: float) -> int:
    return round(math.log(value) / _LOG_BASE) + _OFFSET if value > 1 / VALUE_MAX else _ZERO_KEY


def sketched_value(key: float) -> float:
    return math.exp((key - _OFFSET) * _LOG_BASE) if key else 0.0


class Bucket(msgspec.Struct, array_like=True):
    """``sketch`` is None if all values are the same; or if their distribution is not known, or some are negative."""

    count: float
    sum: float
    min: float
    max: float
    sketch: Sketch | None = None

    @classmethod
    def of(cls, value: float, count: float = 1.0) -> Bucket:
        """Makes a bucket of ``count`` equal values."""
        return cls(count, value * count, value, value)

    @classmethod
    def of_all(cls, values: Iterable[tuple[float, float]]) -> Bucket:
        """Values, each with how often it occurs; at least one."""
        pairs = list(values)
        low, high = min(pairs)[0], max(pairs)[0]
        count = total = 0.0
        sketch: Sketch | None = None if low == high or low < 0 else {}
        for value, times in pairs:
            count += times
            total += value * times
            if sketch is not None:
                value = float(value)
                sketch[value] = sketch.get(value, 0) + times
        return cls(count, total, low, high, None if sketch is None else _bounded(sketch))

    @property
    def is_constant(self) -> bool:
        return self.min == self.max

    @property
    def has_distribution(self) -> bool:
        """Whether percentiles can be computed."""
        return self.min >= 0 and (self.sketch is not None or self.is_constant)

    def copy(self) -> Bucket:
        sketch = None if self.sketch is None else dict(self.sketch)
        return Bucket(self.count, self.sum, self.min, self.max, sketch)

    def merge(self, other: Bucket) -> None:
        sketch: Sketch | None = None
        if self.has_distribution and other.has_distribution and not self._is_same(other):
            sketch = self.sketch if self.sketch is not None else _sketch_of(self)
            others = other.sketch or _sketch_of(other)
            if _is_exact(sketch) != _is_exact(others):
                sketch, others = _rounded(sketch), _rounded(others)
            for key, count in others.items():
                sketch[key] = sketch.get(key, 0) + count
            sketch = _bounded(sketch)
        self.sketch = sketch
        self.count += other.count
        self.sum += other.sum
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)

    def _is_same(self, other: Bucket) -> bool:
        """Whether all values of both buckets are equal."""
        return self.is_constant and other.is_constant and self.min == other.min

    def distribution(self) -> Iterator[tuple[float, float]]:
        """Values in ascending order, each with how often it occurs. Call this only if ``has_distribution``."""
        if self.sketch is None:
            yield self.min, self.count
            return
        is_exact = _is_exact(self.sketch)
        for key in sorted(self.sketch):
            value = key if is_exact else min(max(sketched_value(key), self.min), self.max)
            yield value, self.sketch[key]


def _sketch_of(bucket: Bucket) -> Sketch:
    return {float(bucket.min): bucket.count}


def _is_exact(sketch: Sketch) -> bool:
    return type(next(iter(sketch), 0)) is float


def _rounded(sketch: Sketch) -> Sketch:
    """Counts values by their rounded logarithm instead of exactly."""
    if not _is_exact(sketch):
        return sketch
    rounded: Sketch = {}
    for value, count in sketch.items():
        key = sketch_key(value)
        rounded[key] = rounded.get(key, 0) + count
    return rounded


def _bounded(sketch: Sketch) -> Sketch:
    """Bounds the size of a sketch by merging its smallest values: in a distribution as wide as this, only the large
    ones matter."""
    if len(sketch) <= _EXACT_MAX:
        return sketch
    sketch = _rounded(sketch)
    if len(sketch) <= _KEYS_MAX:
        return sketch
    keys = sorted(sketch)
    kept = keys[-_KEYS_MAX:]
    shortened = {key: sketch[key] for key in kept}
    shortened[kept[0]] += sum(sketch[key] for key in keys[:-_KEYS_MAX])
    return shortened
