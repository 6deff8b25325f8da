"""Times, periods and statistics of the actions that read metrics."""

from __future__ import annotations

from penstock.metrics.series import DAY_S, FIVE_MINUTES_S, HOUR_S, MINUTE_S
from penstock.metrics.statistics import statistic
from penstock.services.cloudwatch.faults import invalid_value, validation_error
from penstock.services.cloudwatch.limits import SHORT_PERIODS_S

_STATISTIC_LENGTH_MAX = 64

# CloudWatch: what is kept of older values, and so to what a start is rounded.
_ROUNDED = ((15 * DAY_S, MINUTE_S), (63 * DAY_S, FIVE_MINUTES_S))


def check_period(period_s: int, parameter: str) -> None:
    """Raises Fault."""
    if period_s not in SHORT_PERIODS_S and (period_s < 1 or period_s % MINUTE_S):
        short = ", ".join(map(str, SHORT_PERIODS_S))
        raise invalid_value(f"The parameter {parameter} must be {short} or a multiple of {MINUTE_S}.")


def rounded_start(start_s: float, period_s: int, now_s: float) -> int:
    if period_s < MINUTE_S:
        unit_s = period_s
    else:
        unit_s = next((unit for age_s, unit in _ROUNDED if now_s - start_s < age_s), HOUR_S)
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
