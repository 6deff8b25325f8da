"""GetQueueMetrics and ListQueueMetrics: what queues did over time, for charts."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from penstock.broker.queue_series import QueueSeries, SeriesQuery
from penstock.limits import SECOND
from penstock.metrics.queue_rows import QUEUE_METRICS, QueueMetric, applies_to
from penstock.metrics.series import DAY_S, FIVE_MINUTES_S, HOUR_S, MINUTE_S, Point
from penstock.metrics.statistics import statistic
from penstock.names import Space
from penstock.services.admin.faults import admin_fault, invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import limit_of
from penstock.services.admin.structs import (
    AllMetricsRequest,
    AllMetricsResult,
    MetricSeries,
    MetricsRequest,
    QueueMetricsRequest,
    QueueMetricsResult,
    SeriesOfQueue,
)
from penstock.turns import Steps, in_pieces
from penstock.wire.service import Call

_QUEUES_DEFAULT, QUEUES_MAX = 50, 200
_STATISTICS_MAX = 5
_PERIODS_MAX = 11_000  # three hours of seconds
_POINTS_MAX = 500_000  # of all queues of an answer
_DEFAULT = ",".join(QUEUE_METRICS)
_ALL_DEFAULT = "sent,received,deleted,visible"
_TIME_MAX_S = 2**40
_TIME = "seconds since 1970, seconds before now as a negative number, or a time such as 2026-01-31T12:00:00Z"
_PERIOD = "1, 2, 3, 5, 10, 15, 20 or 30 seconds, or minutes as a multiple of 60, up to a day"


class SeriesAsked(NamedTuple):
    """A valid request for series."""

    metrics: list[QueueMetric]
    statistics: list[str]  # none: for each metric the one that is usual
    start_s: int
    end_s: int
    period_s: int

    def query(self, space: Space, queues_max: int, **which: object) -> SeriesQuery:
        names = [metric.name for metric in self.metrics]
        return SeriesQuery(space, names, self.start_s, self.end_s, self.period_s, queues_max, **which)  # type: ignore[arg-type]


async def get_queue_metrics(admin: Admin, request: QueueMetricsRequest, call: Call) -> QueueMetricsResult:
    """What a queue did over time: metrics by seconds, minutes or longer periods."""
    name = call.resource.queue.name
    asked = _asked(admin, request, _DEFAULT, queues=1)
    found = await admin.broker.ask(asked.query(name.space, 1, only=frozenset([name.name])))
    return QueueMetricsResult(
        queue=name.name,
        start=asked.start_s,
        end=asked.end_s,
        period_s=asked.period_s,
        series=await admin.broker.turns.run(_shown(asked, found[0]), name.account) if found else [],
    )


async def list_queue_metrics(admin: Admin, request: AllMetricsRequest, call: Call) -> AllMetricsResult:
    """What all queues did over time, in order of name and in pages."""
    limit = limit_of(request.limit, _QUEUES_DEFAULT, QUEUES_MAX)
    asked = _asked(admin, request, _ALL_DEFAULT, limit)
    # One more than a page, to see whether there is another one.
    which = asked.query(call.space, limit + 1, prefix=request.prefix or "", after=request.after or "")
    found = await admin.broker.ask(which)
    queues: list[SeriesOfQueue] = []
    for each in found[:limit]:
        series = await admin.broker.turns.run(_shown(asked, each), call.space.account)
        kind = "fifo" if each.fifo else "standard"
        queues.append(SeriesOfQueue(queue=each.name, kind=kind, series=series))
    return AllMetricsResult(
        start=asked.start_s,
        end=asked.end_s,
        period_s=asked.period_s,
        queues=queues,
        next=queues[-1].queue if len(found) > limit else None,
    )


def check_keeps_metrics(admin: Admin) -> None:
    """Raises Fault."""
    if not admin.broker.keeps_metrics:
        text = "Not possible: this server keeps no metrics. Set metrics_size to have them."
        raise admin_fault("NotPossible", text)


def _asked(admin: Admin, request: MetricsRequest, default: str, queues: int) -> SeriesAsked:
    """Raises Fault."""
    check_keeps_metrics(admin)
    metrics = [_metric(name) for name in (request.metrics or default).split(",")]
    statistics = request.statistics.split(",") if request.statistics else []
    for name in statistics:
        _check_statistic(name)
    now_s = admin.broker.wall_ms() // SECOND
    end_s = _time_s(request.end, "end", now_s, now_s + 1)  # with the second that is under way
    start_s = _time_s(request.start, "start", now_s, end_s - HOUR_S)
    if start_s >= end_s:
        raise invalid("start", "a time before end")
    period_s = _period_s(request.period_s, end_s - start_s)
    start_s -= start_s % period_s
    periods = (end_s - start_s) // period_s
    if len(statistics) > _STATISTICS_MAX:
        raise invalid("statistics", f"up to {_STATISTICS_MAX} names")
    if periods > _PERIODS_MAX or periods * len(metrics) * (len(statistics) or 1) * queues > _POINTS_MAX:
        raise invalid(
            "period_s", f"a longer one: up to {_PERIODS_MAX} periods, and {_POINTS_MAX} values in all"
        )
    return SeriesAsked(metrics, statistics, start_s, end_s, period_s)


def _metric(name: str) -> QueueMetric:
    metric = QUEUE_METRICS.get(name)
    if metric is None:
        raise invalid("metrics", f"some of {', '.join(QUEUE_METRICS)}, with commas between them")
    return metric


def _check_statistic(name: str) -> None:
    try:
        statistic(name)
    except ValueError:
        raise invalid(
            "statistics", "names such as Sum, Average, Minimum, Maximum, SampleCount or p99"
        ) from None


def _time_s(text: str | None, parameter: str, now_s: int, default_s: int) -> int:
    if text is None:
        return default_s
    try:
        found_s = int(text)
        if found_s < 0:
            found_s += now_s
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise invalid(parameter, _TIME) from None
        if at.tzinfo is None:
            raise invalid(parameter, _TIME) from None
        found_s = int(at.timestamp())
    if not 0 <= found_s < _TIME_MAX_S:
        raise invalid(parameter, _TIME)
    return found_s


def _period_s(asked_s: int | None, range_s: int) -> int:
    """Returns the period that was asked for, or one that makes a chart of some hundred points."""
    if asked_s is None:
        if range_s <= 6 * HOUR_S:
            return MINUTE_S
        return FIVE_MINUTES_S if range_s <= 3 * DAY_S else HOUR_S
    in_minutes = asked_s > 0 and asked_s % MINUTE_S == 0 and asked_s <= DAY_S
    if not in_minutes and asked_s not in (1, 2, 3, 5, 10, 15, 20, 30):
        raise invalid("period_s", _PERIOD)
    return asked_s


def _shown(asked: SeriesAsked, found: QueueSeries) -> Steps[list[MetricSeries]]:
    """The series that are shown, without metrics that a queue of its kind cannot have."""
    shown: list[MetricSeries] = []
    for metric, points in zip(asked.metrics, found.points, strict=True):
        if applies_to(metric, fifo=found.fifo):
            for name in asked.statistics or [metric.statistic]:
                shown.append((yield from _series(metric, name, points)))
    return shown


def _series(metric: QueueMetric, name: str, points: list[Point]) -> Steps[MetricSeries]:
    compute = statistic(name)
    shown = MetricSeries(metric=metric.name, statistic=name, unit=metric.unit, times=[], values=[])
    for piece in in_pieces(points):
        for at_s, bucket in piece:
            value = compute(bucket)
            if value is not None:
                shown.times.append(at_s)
                shown.values.append(round(value, 6))
        yield
    return shown
