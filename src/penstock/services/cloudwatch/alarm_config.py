"""Makes the configuration of an alarm from the requests PutMetricAlarm and PutCompositeAlarm. Checks only what it
says itself; what it refers to is checked by the handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from penstock.errors import ExpressionInvalid
from penstock.metrics.alarms import AlarmRule, Comparison, Missing
from penstock.metrics.composite import parse_rule
from penstock.metrics.expressions import CallPart, parts_of
from penstock.metrics.functions import Environment, TimeSeries, compute
from penstock.metrics.series import HOUR_S, MINUTE_S
from penstock.monitoring.alarm_records import AlarmConfig, AlarmQuery, MetricStat, Suppressor
from penstock.monitoring.limits import ALARM_STEPS_MAX
from penstock.services.cloudwatch.faults import (
    cloudwatch_fault,
    invalid_combination,
    not_supported,
    validation_error,
)
from penstock.services.cloudwatch.limits import (
    ALARM_LONG_RANGE_S_MAX,
    ALARM_METRICS_MAX,
    ALARM_RANGE_S_MAX,
    ALARM_SHORT_PERIODS_S,
    NAME_LENGTH_MAX,
)
from penstock.services.cloudwatch.periods import check_statistic
from penstock.services.cloudwatch.queries import parsed_expressions, read_queries
from penstock.services.cloudwatch.structs import BANDS, PutCompositeAlarmRequest, PutMetricAlarmRequest
from penstock.services.cloudwatch.validation import CONSTRAINTS, metric_key
from penstock.turns import Steps

_LOW_SAMPLES = ("evaluate", "ignore")
_NOT_SUPPORTED = (
    "ThresholdMetricId", "EvaluationWindow", "WarmUpConfiguration", "EvaluationCriteria", "EvaluationInterval",
    "ActionConfiguration",
)  # fmt: skip
_PLAIN = ("MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Dimensions", "Period", "Unit")


def metric_alarm_config(request: PutMetricAlarmRequest, account: str) -> Steps[AlarmConfig]:
    """Raises Fault."""
    for member in _NOT_SUPPORTED:
        if getattr(request, member) is not None:
            raise not_supported(member)
    yield from _check_metric_alarm(request)
    assert request.EvaluationPeriods is not None and request.Threshold is not None
    if request.DatapointsToAlarm is not None and request.DatapointsToAlarm > request.EvaluationPeriods:
        raise validation_error("DatapointsToAlarm must be less than or equal to EvaluationPeriods")
    _check_option("TreatMissingData", request.TreatMissingData, get_args(Missing))
    _check_option("EvaluateLowSampleCountPercentile", request.EvaluateLowSampleCountPercentile, _LOW_SAMPLES)
    stat, queries = yield from _metrics(request, account)
    period_s = stat.period_s if stat is not None else _one_period(queries)
    _check_range(period_s, request.EvaluationPeriods)
    rule = AlarmRule(
        period_s=period_s,
        periods=request.EvaluationPeriods,
        to_alarm=request.DatapointsToAlarm,
        comparison=cast("Comparison", request.ComparisonOperator),
        threshold=request.Threshold,
        missing=cast("Missing | None", request.TreatMissingData),
        ignore_few_samples_of=_ignored_percentile(request),
    )
    return AlarmConfig(
        name=request.AlarmName or "",
        description=request.AlarmDescription,
        actions_enabled=request.ActionsEnabled is not False,
        ok_actions=tuple(request.OKActions or ()),
        alarm_actions=tuple(request.AlarmActions or ()),
        insufficient_actions=tuple(request.InsufficientDataActions or ()),
        rule=rule,
        stat=stat,
        queries=tuple(queries),
        low_samples=request.EvaluateLowSampleCountPercentile,
    )


def _check_metric_alarm(request: PutMetricAlarmRequest) -> Steps[None]:
    yield from CONSTRAINTS.steps(request)
    if request.ComparisonOperator in BANDS:
        raise not_supported(f"ComparisonOperator {request.ComparisonOperator}")
    if request.Threshold is None:
        raise cloudwatch_fault("MissingRequiredParameterException", "The parameter Threshold is required.")
    if not abs(request.Threshold) < float("inf"):
        raise validation_error("The parameter Threshold must be a number.")


def _check_option(parameter: str, value: str | None, options: Sequence[str]) -> None:
    if value is not None and value not in options:
        *others, last = options
        raise validation_error(
            f"Option {value[:NAME_LENGTH_MAX]} is not supported. Supported options for parameter {parameter} are "
            f"{', '.join(others)} and {last}."
        )


def _metrics(
    request: PutMetricAlarmRequest, account: str
) -> Steps[tuple[MetricStat | None, list[AlarmQuery]]]:
    if request.Metrics:
        for member in _PLAIN:
            if getattr(request, member):
                raise invalid_combination(f"The parameters Metrics and {member} cannot both be specified.")
        return None, (yield from _queries(request, account))
    for member in ("MetricName", "Namespace", "Period"):
        if getattr(request, member) is None:
            raise validation_error(f"{member} must be specified, or Metrics instead.")
    statistic = request.Statistic or request.ExtendedStatistic
    if statistic is None or (request.Statistic and request.ExtendedStatistic):
        raise invalid_combination("Exactly one of Statistic and ExtendedStatistic must be specified.")
    if request.ExtendedStatistic is not None:
        check_statistic(statistic, "ExtendedStatistic")
    assert request.Period is not None
    metric = metric_key(request.Namespace or "", request.MetricName or "", request.Dimensions)
    return MetricStat(metric, request.Period, statistic, request.Unit), []


def _queries(request: PutMetricAlarmRequest, account: str) -> Steps[list[AlarmQuery]]:
    queries = yield from read_queries("Metrics", request.Metrics or [], account)
    if sum(query.stat is not None for query in queries) > ALARM_METRICS_MAX:
        raise validation_error(f"An alarm can have at most {ALARM_METRICS_MAX} metrics.")
    if sum(query.returns is not False for query in queries) != 1:
        raise validation_error("Exactly one element of the metrics list should return data.")
    expressions = yield from parsed_expressions(queries)
    for part in expressions.values():
        if any(isinstance(each, CallPart) and each.function == "SEARCH" for each in parts_of(part)):
            raise validation_error("SEARCH is not supported in alarms.")
        yield
    # Computed once with some value of each metric: what cannot be computed at all is refused now.
    period_s = _one_period(queries)
    metrics = {
        query.id: TimeSeries.of({0: 1.0}, period_s, query.id) for query in queries if query.stat is not None
    }
    given = Environment(0, period_s, period_s, metrics, list(metrics.items()))
    for id, part in expressions.items():
        try:
            value = yield from compute(part, given)
            if isinstance(value, float | str):
                raise ExpressionInvalid("the result is not a time series")
        except ExpressionInvalid as error:
            raise validation_error(f"Error in expression '{id}': {error}.") from None
        given.values[id] = value
    if given.spent * (request.EvaluationPeriods or 1) > ALARM_STEPS_MAX:
        raise validation_error(
            "The expressions of the alarm compute too much: use fewer evaluation periods or simpler expressions."
        )
    (result,) = [given.values[query.id] for query in queries if query.returns is not False]
    if isinstance(result, list) and len(result) != 1:
        raise validation_error("The expression that returns data must give one time series.")
    return queries


def _one_period(queries: Sequence[AlarmQuery]) -> int:
    periods = {query.stat.period_s for query in queries if query.stat is not None}
    periods |= {query.period_s for query in queries if query.period_s is not None}
    if len(periods) != 1:
        raise validation_error("All metrics and expressions of an alarm must have the same Period.")
    return periods.pop()


def _check_range(period_s: int, periods: int) -> None:
    if period_s not in ALARM_SHORT_PERIODS_S and period_s % MINUTE_S:
        short = ", ".join(map(str, ALARM_SHORT_PERIODS_S))
        raise validation_error(f"Period must be {short} or a multiple of {MINUTE_S}")
    most, named = (
        (ALARM_LONG_RANGE_S_MAX, "seven days") if period_s >= HOUR_S else (ALARM_RANGE_S_MAX, "a day")
    )
    if period_s * periods > most:
        raise validation_error(
            f"Metrics cannot be checked across more than {named} (EvaluationPeriods * Period must be <= {most})."
        )


def _ignored_percentile(request: PutMetricAlarmRequest) -> float | None:
    statistic = request.ExtendedStatistic or ""
    if request.EvaluateLowSampleCountPercentile != "ignore" or not statistic.startswith("p"):
        return None
    return float(statistic[1:])


def composite_alarm_config(request: PutCompositeAlarmRequest) -> AlarmConfig:
    """Raises Fault or RuleInvalid."""
    if request.ActionConfiguration is not None:
        raise not_supported("ActionConfiguration")
    CONSTRAINTS.check(request)
    wait_s, extension_s = request.ActionsSuppressorWaitPeriod, request.ActionsSuppressorExtensionPeriod
    suppressor = None
    if request.ActionsSuppressor is not None:
        if wait_s is None or extension_s is None:
            raise validation_error(
                "ActionsSuppressorWaitPeriod and ActionsSuppressorExtensionPeriod are required with "
                "ActionsSuppressor"
            )
        suppressor = Suppressor(request.ActionsSuppressor, wait_s, extension_s)
    elif wait_s is not None or extension_s is not None:
        raise validation_error("ActionsSuppressor is required with its wait and extension periods")
    parse_rule(request.AlarmRule or "")
    return AlarmConfig(
        name=request.AlarmName or "",
        description=request.AlarmDescription,
        actions_enabled=request.ActionsEnabled is not False,
        ok_actions=tuple(request.OKActions or ()),
        alarm_actions=tuple(request.AlarmActions or ()),
        insufficient_actions=tuple(request.InsufficientDataActions or ()),
        composite_rule=request.AlarmRule,
        suppressor=suppressor,
    )
