"""Short forms for tests of alarms."""

from __future__ import annotations

from typing import Any

HOME = "000000000000"


def arn(name: str, service: str = "cloudwatch") -> str:
    resource = f"alarm:{name}" if service == "cloudwatch" else name
    return f"arn:aws:{service}:eu-west-1:{HOME}:{resource}"


def put_alarm(cw: Any, name: str = "a", **changed: Any) -> None:
    """More than one error within a minute, unless something else is asked for."""
    members = {
        "AlarmName": name, "Namespace": "App", "MetricName": "Errors", "Statistic": "Sum", "Period": 60,
        "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold",
        **changed,
    }  # fmt: skip
    cw.put_metric_alarm(**{key: value for key, value in members.items() if value is not None})


def put_errors(cw: Any, value: float, **more: Any) -> None:
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Errors", "Value": value, **more}])


def described(cw: Any, name: str = "a") -> dict[str, Any]:
    found = cw.describe_alarms(AlarmNames=[name], AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    (alarm,) = found["MetricAlarms"] + found["CompositeAlarms"]
    return dict(alarm)


def state(cw: Any, name: str = "a") -> str:
    return str(described(cw, name)["StateValue"])


def set_state(cw: Any, name: str, value: str) -> None:
    cw.set_alarm_state(AlarmName=name, StateValue=value, StateReason="set by a test")


def summaries(cw: Any, name: str = "a", **more: Any) -> list[str]:
    """Oldest first."""
    items = cw.describe_alarm_history(AlarmName=name, ScanBy="TimestampAscending", **more)[
        "AlarmHistoryItems"
    ]
    return [item["HistorySummary"] for item in items]
