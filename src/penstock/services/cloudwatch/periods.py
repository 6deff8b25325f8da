"""Times, periods and statistics of the actions that read metrics."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.metrics.series import MINUTE_S, Level, kept_bucket_s
from penstock.metrics.statistics import statistic
from penstock.services.cloudwatch.faults import invalid_value, validation_error
from penstock.services.cloudwatch.limits import SHORT_PERIODS_S

_STATISTIC_LENGTH_MAX = 64


def check_period(period_s: int, parameter: str) -> None:
    """Raises Fault."""
    if period_s not in SHORT_PERIODS_S and (period_s < 1 or period_s % MINUTE_S):
        short = ", ".join(map(str, SHORT_PERIODS_S))
        raise invalid_value(f"The parameter {parameter} must be {short} or a multiple of {MINUTE_S}.")


def rounded_start(start_s: float, period_s: int, now_s: float, levels: Iterable[Level]) -> int:
    """CloudWatch: a start is rounded to the buckets that are kept of its time. ``levels``: those of what is read."""
    unit_s = period_s if period_s < MINUTE_S else kept_bucket_s(now_s - start_s, levels)
    return int(start_s // unit_s) * unit_s


def check_statistic(name: str, parameter: str) -> None:
    """Raises Fault."""
    try:
        if len(name) > _STATISTIC_LENGTH_MAX:
            raise ValueError
        statistic(name)
    except ValueError:
        shown = name[:_STATISTIC_LENGTH_MAX]
        raise invalid_value(f"The value {shown} for parameter {parameter} is not supported.") from None


def check_times(start_s: float, end_s: float) -> None:
    """Checks the times of GetMetricData. Raises Fault."""
    if start_s == end_s:
        raise validation_error("The parameter StartTime must not equal parameter EndTime.")
    if start_s > end_s:
        raise validation_error("The parameter EndTime must be greater than StartTime.")
