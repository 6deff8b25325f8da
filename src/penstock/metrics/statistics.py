"""Statistics of a bucket by their names in CloudWatch: ``Average``, ``p99.9``, ``TM(10%:90%)``, ``PR(:300)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.metrics.buckets import Bucket

Statistic = Callable[[Bucket], float | None]
"""Computes a statistic of a bucket; None if that needs the distribution of its values, which is not known."""

SIMPLE: dict[str, Statistic] = {
    "SampleCount": lambda bucket: bucket.count,
    "Sum": lambda bucket: bucket.sum,
    "Average": lambda bucket: bucket.sum / bucket.count if bucket.count else None,
    "Minimum": lambda bucket: bucket.min,
    "Maximum": lambda bucket: bucket.max,
}

_PERCENTILE = re.compile(r"(p|tm|tc|ts|wm)([0-9]{1,3}(?:\.[0-9]{0,10})?)")
_RANGE = re.compile(r"(TM|TC|TS|WM|PR)\(([0-9.eE+]*)(%?):([0-9.eE+]*)(%?)\)")


class Range(NamedTuple):
    """Values beyond ``low``, up to ``high``: in percent of the values, or as values."""

    low: float | None
    high: float | None
    in_percent: bool


def statistic(name: str) -> Statistic:
    """Raises ValueError if there is no statistic of this name."""
    simple = SIMPLE.get(name)
    if simple is not None:
        return simple
    if name == "IQM":
        return _extended("TM", Range(25, 75, in_percent=True))
    if match := _PERCENTILE.fullmatch(name):
        kind, percent = match[1], float(match[2])
        if percent > 100:
            raise ValueError(f"invalid percentage {match[2]}: expected a number from 0 to 100")
        if kind == "p":
            return lambda bucket: percentile(bucket, percent)
        return _extended(kind.upper(), Range(None, percent, in_percent=True))
    if match := _RANGE.fullmatch(name):
        return _extended(match[1], _range(*match.groups()))
    raise ValueError(f"invalid statistic {name!r}")


def _range(kind: str, low: str, low_percent: str, high: str, high_percent: str) -> Range:
    bounds = Range(
        float(low) if low else None, float(high) if high else None, bool(low_percent or high_percent)
    )
    mixed = bool(low and high) and low_percent != high_percent
    if bounds[:2] == (None, None) or mixed or (kind == "PR" and bounds.in_percent):
        raise ValueError(f"invalid range of {kind}: expected two values, or two percentages except for PR")
    if bounds.low is not None and bounds.high is not None and bounds.low >= bounds.high:
        raise ValueError(f"invalid range of {kind}: the lower bound must be less than the upper one")
    if bounds.in_percent and max(bounds.low or 0, bounds.high or 0) > 100:
        raise ValueError(f"invalid range of {kind}: expected percentages from 0 to 100")
    return bounds


def percentile(bucket: Bucket, percent: float) -> float | None:
    """The smallest value that this many percent of all values do not exceed."""
    if not bucket.has_distribution or not bucket.count:
        return None
    if percent <= 0 or percent >= 100:  # these are known exactly
        return bucket.min if percent <= 0 else bucket.max
    wanted = bucket.count * percent / 100
    seen = 0.0
    value = bucket.max
    for value, count in bucket.distribution():
        seen += count
        if seen >= wanted:
            return value
    return value


class _Part(NamedTuple):
    """The values of a range, and how many are below and above it."""

    inside: float
    sum: float
    below: float
    above: float
    lowest: float
    highest: float


def _part(bucket: Bucket, bounds: Range) -> _Part:
    """A value that a percentage divides counts with the share of it that is inside."""
    count = total = below = above = seen = 0.0
    lowest, highest = bucket.max, bucket.min
    low_rank = bucket.count * (bounds.low or 0) / 100
    high_rank = bucket.count * (100 if bounds.high is None else bounds.high) / 100
    for value, times in bucket.distribution():
        if bounds.in_percent:
            under = min(max(low_rank - seen, 0), times)
            inside = max(min(seen + times, high_rank) - max(seen, low_rank), 0)
        else:
            under = times if bounds.low is not None and value <= bounds.low else 0
            inside = times if not under and (bounds.high is None or value <= bounds.high) else 0
        seen += times
        below += under
        above += times - under - inside
        if inside:
            count += inside
            total += inside * value
            lowest, highest = min(lowest, value), max(highest, value)
    return _Part(count, total, below, above, lowest, highest)


def _winsorized(part: _Part) -> float | None:
    """The mean, with values outside of the range taken for the nearest one inside."""
    count = part.inside + part.below + part.above
    if not part.inside:
        return None
    return (part.sum + part.below * part.lowest + part.above * part.highest) / count


_OF_PART: dict[str, Callable[[_Part, Bucket], float | None]] = {
    "TM": lambda part, bucket: part.sum / part.inside if part.inside else None,
    "WM": lambda part, bucket: _winsorized(part),
    "TC": lambda part, bucket: part.inside,
    "TS": lambda part, bucket: part.sum,
    "PR": lambda part, bucket: 100 * part.inside / bucket.count if bucket.count else None,
}


def _extended(kind: str, bounds: Range) -> Statistic:
    of_part = _OF_PART[kind]
    return lambda bucket: of_part(_part(bucket, bounds), bucket) if bucket.has_distribution else None
