"""The labels of the results of GetMetricData, and the dynamic parts that they may have: ``${MAX}``, ``${LABEL}``."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from penstock.clock import iso_time
from penstock.metrics.functions import TimeSeries
from penstock.monitoring.alarm_records import MetricStat
from penstock.services.cloudwatch.faults import validation_error
from penstock.turns import Steps

_DYNAMIC = re.compile(r"\$\{([A-Z_]+)(?:\('([^']{1,300})'\))?\}")
_TIMEZONE = re.compile(r"([+-])([0-9]{2})([0-9]{2})")
_LENGTH_MAX = 2048

_VALUES: dict[str, Callable[[Sequence[float]], float]] = {
    "MAX": max,
    "MIN": min,
    "SUM": math.fsum,
    "AVG": lambda values: math.fsum(values) / len(values),
    "FIRST": lambda values: values[0],
    "LAST": lambda values: values[-1],
    "DATAPOINT_COUNT": lambda values: float(len(values)),
}
_TIMES = frozenset(("MAX_TIME", "MIN_TIME", "FIRST_TIME", "LAST_TIME"))


def default_labels(stats: Sequence[MetricStat]) -> list[str]:
    """CloudWatch: the name of the metric, and if several share it, the statistic or the period that differs."""
    statistics, periods = defaultdict[str, set[str]](set), defaultdict[str, set[int]](set)
    for stat in stats:
        statistics[stat.metric.name].add(stat.statistic)
        periods[stat.metric.name].add(stat.period_s)
    labels = []
    for stat in stats:
        name = stat.metric.name
        parts = [name]
        if len(statistics[name]) > 1:
            parts.append(stat.statistic)
        if len(periods[name]) > 1:
            parts.append(str(stat.period_s))
        labels.append(" ".join(parts))
    return labels


def timezone_offset_s(text: str | None) -> int:
    """Parses a time zone such as ``+0130``. Raises Fault."""
    if text is None:
        return 0
    found = _TIMEZONE.fullmatch(text)
    if found is None:
        raise validation_error("The parameter LabelOptions.Timezone must have the form +0130 or -0800.")
    return (1 if found[1] == "+" else -1) * (int(found[2]) * 3600 + int(found[3]) * 60)


def label_of(
    given: str | None, series: TimeSeries, stat: MetricStat | None, offset_s: int, *, is_one_of_many: bool
) -> Steps[str]:
    """``given``: the label of the query; ``series.label``: that of the metric or the part of a list."""
    if given is None:
        return series.label
    if "${" not in given:
        return f"{given} {series.label}" if is_one_of_many else given

    parts: dict[str, str] = {}  # a label may have the same one a hundred times
    for found in _DYNAMIC.finditer(given):
        if found[0] not in parts:
            parts[found[0]] = _part(found[1], found[2], series, stat, offset_s) or found[0]
            yield
    return _DYNAMIC.sub(lambda found: parts[found[0]], given)[:_LENGTH_MAX]


def _part(
    name: str, argument: str | None, series: TimeSeries, stat: MetricStat | None, offset_s: int
) -> str | None:
    """A part of a label; None if there is no such part."""
    if name == "LABEL":
        return series.label
    if name == "PROP":
        return _property(argument or "", stat)
    values = series.values
    if name in _VALUES:
        return f"{_VALUES[name](values):.6g}" if values else "--"
    if name in _TIMES:
        if not values:
            return "--"
        wanted = _VALUES[name.removesuffix("_TIME")](values)
        at_s = series.times[-1 if name == "LAST_TIME" else values.index(wanted)]
        return iso_time(at_s + offset_s)[:-1].replace("T", " ")
    return None


def _property(name: str, stat: MetricStat | None) -> str | None:
    if stat is None:
        return ""
    known = {
        "Namespace": stat.metric.namespace,
        "MetricName": stat.metric.name,
        "Stat": stat.statistic,
        "Period": str(stat.period_s),
        **{f"Dim.{dimension}": value for dimension, value in stat.metric.dimensions},
    }
    return known.get(name, "")
