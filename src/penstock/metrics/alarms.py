"""Decides which state a metric alarm is in, and why. Nothing else is read: points, rule and the state before give the
state.

CloudWatch: an alarm looks at more periods than it needs, so that points that are late or missing do not matter as
long as there are enough. Only if there are fewer than the rule counts is it decided what missing ones stand for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from penstock.clock import iso_time
from penstock.limits import SECOND

AlarmState = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Missing = Literal["missing", "ignore", "breaching", "notBreaching"]
Comparison = Literal[
    "GreaterThanOrEqualToThreshold",
    "GreaterThanThreshold",
    "LessThanThreshold",
    "LessThanOrEqualToThreshold",
]

PERIODS_BEYOND = 2
"""How many more periods are read than the rule counts."""

_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
_FEW_SAMPLES = 10.0


class AlarmPoint(NamedTuple):
    """The value of one period."""

    at_s: int  # when the period begins
    value: float
    samples: float | None = None  # how many values it is made of; None: it was computed


class AlarmRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the alarm is to be in the state ALARM."""

    period_s: int
    periods: int
    to_alarm: int | None = None  # how many points of those periods must breach; None: all
    comparison: Comparison
    threshold: float
    missing: Missing | None = None  # as it was given; None is "missing"
    # The percentile that is compared, if points with too few samples for it are ignored.
    ignore_few_samples_of: float | None = None

    @property
    def range_s(self) -> int:
        return self.period_s * (self.periods + PERIODS_BEYOND)

    def breaches(self, value: float) -> bool:
        return _COMPARISONS[self.comparison][0](value, self.threshold)


class Judgement(NamedTuple):
    """``reason`` and what it rests on are of interest only if the state differs from the one before."""

    state: AlarmState
    reason: str
    evaluated: list[AlarmPoint]  # newest first
    missing_at_s: list[int]  # periods without a value that were decided about, newest first


def judge(rule: AlarmRule, points: Sequence[AlarmPoint], before: AlarmState, end_s: int) -> Judgement:
    """``points``: of periods within ``rule.range_s`` before ``end_s``, in order of time."""
    needed, to_alarm, missing = rule.periods, rule.to_alarm or rule.periods, rule.missing or "missing"
    latest = list(points[-needed:])[::-1]
    if rule.ignore_few_samples_of is not None and _has_few_samples(latest, rule.ignore_few_samples_of):
        return Judgement(before, "", latest, [])
    breaching = [point for point in latest if rule.breaches(point.value)]
    filled = needed - len(latest)
    if filled == 0:
        state: AlarmState = "ALARM" if len(breaching) >= to_alarm else "OK"
        return Judgement(state, _crossed(rule, state, latest, breaching), latest, [])
    state = _state_with_missing(rule, latest, len(breaching), before, end_s)
    missing_at_s = _missing_periods(rule, latest, end_s)[:filled]
    if not latest and missing in ("missing", "ignore"):
        reason = f"Insufficient Data: {_counted(needed, 'datapoint')} {_was(needed)} unknown."
    elif missing in ("breaching", "notBreaching"):
        reason = _filled_reason(rule, state, latest, breaching, filled)
    else:
        reason = _crossed(rule, state, latest, breaching)
    return Judgement(state, reason, latest, missing_at_s)


def _state_with_missing(
    rule: AlarmRule, latest: list[AlarmPoint], breaching: int, before: AlarmState, end_s: int
) -> AlarmState:
    """Returns the state if there are fewer points than periods that count."""
    to_alarm, filled = rule.to_alarm or rule.periods, rule.periods - len(latest)
    missing = rule.missing or "missing"
    if missing == "breaching":
        return "ALARM" if breaching + filled >= to_alarm else "OK"
    if missing == "notBreaching" or breaching >= to_alarm:
        return "ALARM" if breaching >= to_alarm else "OK"
    if not latest:
        return "INSUFFICIENT_DATA" if missing == "missing" else before
    if breaching < len(latest):
        return "OK"
    # CloudWatch: the last known points breach, and nothing has come since for as long as the rule counts.
    oldest = latest[-1]
    is_stale = end_s - oldest.at_s >= to_alarm * rule.period_s
    return "ALARM" if missing == "missing" and is_stale else before


def _has_few_samples(points: list[AlarmPoint], percentile: float) -> bool:
    """CloudWatch: a percentile of so few values says nothing."""
    share = percentile / 100
    rest = 1 - share if share >= 0.5 else share
    enough = _FEW_SAMPLES / rest if rest > 0 else _FEW_SAMPLES
    return any(point.samples is not None and point.samples < enough for point in points)


def _missing_periods(rule: AlarmRule, latest: list[AlarmPoint], end_s: int) -> list[int]:
    """When periods without a value begin, newest first."""
    present = {point.at_s for point in latest}
    periods = range(end_s - rule.period_s, end_s - rule.range_s - 1, -rule.period_s)
    return [at_s for at_s in periods if at_s not in present]


# -- reasons -------------------------------------------------------------------------------------------------


def _crossed(
    rule: AlarmRule, state: AlarmState, latest: list[AlarmPoint], breaching: list[AlarmPoint]
) -> str:
    is_alarm = state == "ALARM"
    shown = breaching if is_alarm else [point for point in latest if point not in breaching] or latest
    listed = ", ".join(_shown_point(point) for point in shown)
    relation = (
        f"{'' if is_alarm else 'not '}{_COMPARISONS[rule.comparison][1]} the threshold ({rule.threshold})"
    )
    if rule.to_alarm is None:
        return f"Threshold Crossed: {_counted(len(shown), 'datapoint')} [{listed}] {_was(len(shown))} {relation}."
    least = rule.to_alarm if is_alarm else rule.periods - rule.to_alarm + 1
    change = "OK -> ALARM" if is_alarm else "ALARM -> OK"
    return (
        f"Threshold Crossed: {len(shown)} out of the last {len(latest)} datapoints [{listed}] {_was(len(shown))} "
        f"{relation} (minimum {_counted(least, 'datapoint')} for {change} transition)."
    )


def _filled_reason(
    rule: AlarmRule, state: AlarmState, latest: list[AlarmPoint], breaching: list[AlarmPoint], filled: int
) -> str:
    treated = "Breaching" if rule.missing == "breaching" else "NonBreaching"
    rest = f"{_counted(filled, 'missing datapoint')} {_was(filled)} treated as [{treated}]."
    if latest:
        return f"{_crossed(rule, state, latest, breaching).rstrip('.')} and {rest}"
    return f"Threshold Crossed: no datapoints were received for {_counted(filled, 'period')} and {rest}"


def _shown_point(point: AlarmPoint) -> str:
    at = iso_time(point.at_s)
    return f"{float(point.value)} ({at[8:10]}/{at[5:7]}/{at[2:4]} {at[11:19]})"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def reason_data(
    rule: AlarmRule, judgement: Judgement, wall_ms: int, statistic: str | None, unit: str | None
) -> dict[str, Any]:
    """What a judgement rests on, for programs."""
    oldest_first = judgement.evaluated[::-1]
    evaluated: list[dict[str, Any]] = []
    for point in judgement.evaluated:
        shown: dict[str, Any] = {"timestamp": iso_milliseconds(point.at_s * SECOND)}
        if point.samples is not None:
            shown["sampleCount"] = point.samples
        evaluated.append(shown | {"value": point.value})
    evaluated += [{"timestamp": iso_milliseconds(at_s * SECOND)} for at_s in judgement.missing_at_s]
    start = {"startDate": iso_milliseconds(oldest_first[0].at_s * SECOND)} if oldest_first else {}
    return {
        "version": "1.0",
        "queryDate": iso_milliseconds(wall_ms),
        **start,
        **({} if unit is None else {"unit": unit}),
        **({} if statistic is None else {"statistic": statistic}),
        "period": rule.period_s,
        "recentDatapoints": [point.value for point in oldest_first],
        "threshold": rule.threshold,
        "evaluatedDatapoints": evaluated,
    }


def iso_milliseconds(wall_ms: int) -> str:
    """2019-10-02T17:04:40.985+0000"""
    return f"{iso_time(wall_ms // SECOND)[:-1]}.{wall_ms % SECOND:03d}+0000"
