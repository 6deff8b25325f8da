"""GetMetricStatistics."""

from __future__ import annotations

import math

from penstock.limits import SECOND
from penstock.monitoring.reading import StatQuery, UnitPoints
from penstock.services.cloudwatch.faults import invalid_combination, invalid_value
from penstock.services.cloudwatch.limits import DATAPOINTS_MAX
from penstock.services.cloudwatch.periods import check_period, check_statistic, rounded_start
from penstock.services.cloudwatch.resources import CloudWatch
from penstock.services.cloudwatch.structs import (
    Datapoint,
    GetMetricStatisticsRequest,
    GetMetricStatisticsResult,
)
from penstock.services.cloudwatch.validation import CONSTRAINTS, metric_key
from penstock.wire.service import Call


async def get_metric_statistics(
    cw: CloudWatch, request: GetMetricStatisticsRequest, call: Call
) -> GetMetricStatisticsResult:
    _check(request)
    assert request.StartTime is not None and request.EndTime is not None and request.Period is not None
    simple, extended = request.Statistics or [], request.ExtendedStatistics or []
    levels = cw.monitoring.reader.levels([request.Namespace or ""])
    start_s = rounded_start(request.StartTime, request.Period, cw.monitoring.wall_ms() / SECOND, levels)
    end_s = math.ceil(request.EndTime)
    # CloudWatch: the times count as they were before they are rounded.
    points = int((request.EndTime - request.StartTime) / request.Period)
    if points > DATAPOINTS_MAX:
        raise invalid_combination(
            f"You have requested up to {points} datapoints, which exceeds the limit of {DATAPOINTS_MAX}. You may "
            "reduce the datapoints requested by increasing Period, or decreasing the time range."
        )
    metric = metric_key(request.Namespace or "", request.MetricName or "", request.Dimensions)
    statistics = (*simple, *extended)
    query = StatQuery(call.space, metric, start_s, end_s, request.Period, statistics, request.Unit)
    (units,) = await cw.monitoring.reader.read([query])
    datapoints = [point for unit in units for point in _datapoints(unit, simple, extended)]
    return GetMetricStatisticsResult(Label=metric.name, Datapoints=datapoints)


def _check(request: GetMetricStatisticsRequest) -> None:
    """Raises Fault."""
    CONSTRAINTS.check(request)
    assert request.StartTime is not None and request.EndTime is not None and request.Period is not None
    if request.StartTime >= request.EndTime:
        raise invalid_value("The parameter StartTime must be less than the parameter EndTime.")
    check_period(request.Period, "Period")
    if not request.Statistics and not request.ExtendedStatistics:
        raise invalid_combination("Must specify either Statistics or ExtendedStatistics")
    for name in request.ExtendedStatistics or ():
        check_statistic(name, "ExtendedStatistics")


def _datapoints(found: UnitPoints, simple: list[str], extended: list[str]) -> list[Datapoint]:
    datapoints = []
    for number, at_s in enumerate(found.times):
        values = [column[number] for column in found.columns]
        by_name = dict(zip(simple, values[: len(simple)], strict=True))
        others = dict(zip(extended, values[len(simple) :], strict=True))
        datapoints.append(
            Datapoint(
                Timestamp=float(at_s),
                Unit=found.unit,
                ExtendedStatistics={n: value for n, value in others.items() if value is not None} or None,
                **by_name,
            )
        )
    return datapoints
