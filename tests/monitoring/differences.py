"""What CloudWatch does and this server refuses: the rows of docs/compatibility.md, which a test sends."""

from __future__ import annotations

from typing import Any, NamedTuple


class Refused(NamedTuple):
    what: str
    action: str
    members: dict[str, Any]
    code: str  # as SDKs show it
    text: str  # of the answer


_TIMES = {"StartTime": 1_700_000_000, "EndTime": 1_700_000_060}
_SQL = 'SELECT AVG(Errors) FROM "App"'
_METRIC = {"Metric": {"Namespace": "App", "MetricName": "Errors"}, "Period": 60, "Stat": "Sum"}
_ALARM: dict[str, Any] = {
    "AlarmName": "a", "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold",
}  # fmt: skip
_PLAIN = {**_ALARM, "Namespace": "App", "MetricName": "Errors", "Statistic": "Sum", "Period": 60}
_BAND = "ANOMALY_DETECTION_BAND(m, 2)"
_NO_SQL = "Metrics Insights (SELECT ...), which expression 'q' uses, is not supported by this server."
_OPERATOR = "LessThanLowerOrGreaterThanUpperThreshold"


def _member(name: str, value: Any) -> Refused:
    text = f"{name} is not supported by this server."
    return Refused(
        f"PutMetricAlarm with `{name}`", "PutMetricAlarm", {**_PLAIN, name: value}, "ValidationError", text
    )


def _no_action(name: str, what: str, **members: Any) -> Refused:
    text = f"The action {name} of monitoring is not supported by this server."
    return Refused(f"{name} and other actions of {what}", name, members, "InvalidAction", text)


REFUSED = [
    Refused(
        "GetMetricData with a query of Metrics Insights (`SELECT …`)", "GetMetricData",
        {"MetricDataQueries": [{"Id": "q", "Expression": _SQL, "Period": 60}], **_TIMES}, "ValidationError", _NO_SQL,
    ),
    Refused(
        "PutMetricAlarm with a query of Metrics Insights", "PutMetricAlarm",
        {**_ALARM, "Metrics": [{"Id": "q", "Expression": _SQL, "Period": 60}]}, "ValidationError", _NO_SQL,
    ),
    Refused(
        "GetMetricData with a band of anomaly detection", "GetMetricData",
        {"MetricDataQueries": [{"Id": "m", "MetricStat": _METRIC}, {"Id": "b", "Expression": _BAND}], **_TIMES},
        "ValidationError", "Error in expression 'b': the function ANOMALY_DETECTION_BAND is not supported.",
    ),
    Refused(
        "PutMetricAlarm on a band of anomaly detection", "PutMetricAlarm",
        {**_PLAIN, "ComparisonOperator": _OPERATOR}, "ValidationError",
        f"ComparisonOperator {_OPERATOR} is not supported by this server.",
    ),
    _member("ThresholdMetricId", "b"),
    _member("EvaluationCriteria", {"PromQLCriteria": {"Query": "up"}}),
    _no_action("PutAnomalyDetector", "anomaly detectors"),
    _no_action("PutMetricStream", "metric streams"),
    _no_action("PutInsightRule", "insight rules"),
    _no_action("GetMetricWidgetImage", "images", MetricWidget="{}"),
]  # fmt: skip

NO_SERVICE = "no service of this server takes it"
ACCEPTED = [
    (
        "an alarm with an action that is a function, a scaling policy or an instance",
        f"accepted and shown. When the action is due, it fails: the history has an item `Action` with the reason "
        f'"{NO_SERVICE}"',
    ),
    (
        "an alarm with an action that is a queue, or a web hook that the server allows; CloudWatch refuses both",
        "accepted and [carried out](cloudwatch.md#what-an-alarm-does)",
    ),
    (
        "PutMetricData with `EntityMetricData`",
        "accepted: the data are kept, the entities are not",
    ),
]
