"""The queries of GetMetricData and of alarms of metric math: what each needs, checked and in words of the domain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import ExpressionInvalid
from penstock.metrics.expressions import Part, in_order, parse_expression
from penstock.monitoring.alarm_records import AlarmQuery, MetricStat
from penstock.services.cloudwatch.faults import invalid_value, not_supported, validation_error
from penstock.services.cloudwatch.limits import (
    NAME_LENGTH_MAX,
)
from penstock.services.cloudwatch.periods import check_period, check_statistic
from penstock.services.cloudwatch.structs import MetricDataQuery, NamedMetric, StatOfMetric
from penstock.services.cloudwatch.validation import metric_key, shown_dimensions
from penstock.turns import Steps

_ID = re.compile(rf"[a-z][a-zA-Z0-9_]{{0,{NAME_LENGTH_MAX - 1}}}")
_SQL = re.compile(r"\s*SELECT\s", re.IGNORECASE)


def read_queries(parameter: str, given: Sequence[MetricDataQuery], account: str) -> Steps[list[AlarmQuery]]:
    """``given``: checked against the constraints of the model. ``parameter``: how texts name them. Raises Fault."""
    queries: dict[str, AlarmQuery] = {}
    for number, each in enumerate(given, 1):
        read = _query(f"{parameter}.member.{number}", each, account)
        if read.id in queries:
            raise validation_error(f"The values for parameter id in {parameter} are not unique: {read.id}.")
        queries[read.id] = read
        yield
    return list(queries.values())


def _query(name: str, query: MetricDataQuery, account: str) -> AlarmQuery:
    id, stat = query.Id or "", query.MetricStat
    if not _ID.fullmatch(id):
        raise validation_error(
            f"The value {id} for parameter {name}.Id is not matching the expected pattern ^[a-z][a-zA-Z0-9_]*$."
        )
    if (stat is None) == (query.Expression is None):
        if stat is None:
            raise validation_error(f"The parameter {name}.MetricStat is required.\n")
        raise validation_error(
            f"The parameters {name}.MetricStat and {name}.Expression are mutually exclusive and you have specified "
            "both."
        )
    if query.AccountId not in (None, account):
        raise invalid_value(f"The parameter {name}.AccountId must be the account of the caller.")
    if query.Period is not None:
        check_period(query.Period, f"{name}.Period")
    return AlarmQuery(
        id=id,
        stat=None if stat is None else _stat(f"{name}.MetricStat", stat),
        expression=query.Expression,
        label=query.Label,
        period_s=query.Period,
        returns=query.ReturnData,
        account=query.AccountId,
    )


def _stat(name: str, stat: StatOfMetric) -> MetricStat:
    metric = stat.Metric
    assert metric is not None and stat.Period is not None and stat.Stat is not None, "checked before"
    for member, value in (("Namespace", metric.Namespace), ("MetricName", metric.MetricName)):
        if value is None:
            raise validation_error(f"The parameter {name}.Metric.{member} is required.\n")
    check_period(stat.Period, f"{name}.Period")
    check_statistic(stat.Stat, f"{name}.Stat")
    key = metric_key(metric.Namespace or "", metric.MetricName or "", metric.Dimensions)
    return MetricStat(key, stat.Period, stat.Stat, stat.Unit)


def parsed_expressions(queries: Sequence[AlarmQuery]) -> Steps[dict[str, Part]]:
    """The expressions by id, each behind those that it refers to. Raises Fault."""
    parsed: dict[str, Part] = {}
    for query in queries:
        if query.expression is not None:
            if _SQL.match(query.expression):
                raise not_supported(f"Metrics Insights (SELECT ...), which expression '{query.id}' uses,")
            try:
                parsed[query.id] = parse_expression(query.expression)
            except ExpressionInvalid as error:
                raise validation_error(f"Error in expression '{query.id}': {error}.") from None
            yield
    metrics = frozenset(query.id for query in queries if query.stat is not None)
    return {id: parsed[id] for id in (yield from in_order(parsed, metrics))}


def shown_query(query: AlarmQuery) -> MetricDataQuery:
    stat = query.stat
    shown = None
    if stat is not None:
        metric = NamedMetric(
            Namespace=stat.metric.namespace,
            MetricName=stat.metric.name,
            Dimensions=shown_dimensions(stat.metric),
        )
        shown = StatOfMetric(Metric=metric, Period=stat.period_s, Stat=stat.statistic, Unit=stat.unit)
    return MetricDataQuery(
        Id=query.id,
        MetricStat=shown,
        Expression=query.expression,
        Label=query.label,
        ReturnData=query.returns,
        Period=query.period_s,
        AccountId=query.account,
    )
