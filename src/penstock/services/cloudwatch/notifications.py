"""What an alarm tells a queue or a web hook: the message that CloudWatch publishes to a topic. And whether it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.auth.authorize import Resource, may_send
from penstock.limits import SECOND
from penstock.metrics.alarms import iso_milliseconds
from penstock.metrics.statistics import SIMPLE
from penstock.monitoring.alarm_records import Alarm, AlarmStatus
from penstock.services.cloudwatch.queries import shown_query

if TYPE_CHECKING:
    from penstock.names import QueueName
    from penstock.queues.settings import QueueSettings

SERVICE_NAME = "cloudwatch.amazonaws.com"
SUBJECT_MAX = 100
_STATISTICS = {
    "SampleCount": "SAMPLE_COUNT",
    **{name: name.upper() for name in SIMPLE if name != "SampleCount"},
}
_REGIONS = {
    "us-east-1": "US East (N. Virginia)",
    "us-east-2": "US East (Ohio)",
    "us-west-1": "US West (N. California)",
    "us-west-2": "US West (Oregon)",
    "ca-central-1": "Canada (Central)",
    "eu-central-1": "EU (Frankfurt)",
    "eu-west-1": "EU (Ireland)",
    "eu-west-2": "EU (London)",
    "eu-west-3": "EU (Paris)",
    "eu-north-1": "EU (Stockholm)",
    "ap-northeast-1": "Asia Pacific (Tokyo)",
    "ap-northeast-2": "Asia Pacific (Seoul)",
    "ap-south-1": "Asia Pacific (Mumbai)",
    "ap-southeast-1": "Asia Pacific (Singapore)",
    "ap-southeast-2": "Asia Pacific (Sydney)",
    "sa-east-1": "South America (Sao Paulo)",
}


class CloudWatchTexts:
    """``is_secured``: policies of queues are enforced."""

    sender = SERVICE_NAME

    def __init__(self, *, is_secured: bool) -> None:
        self._is_secured = is_secured

    def notification(self, alarm: Alarm, before: AlarmStatus) -> str:
        config, status = alarm.config, alarm.status
        shown: dict[str, Any] = {
            "AlarmName": config.name,
            "AlarmDescription": config.description,
            "AWSAccountId": alarm.space.account,
            "AlarmConfigurationUpdatedTimestamp": iso_milliseconds(alarm.configured_ms),
            "NewStateValue": status.state,
            "NewStateReason": status.reason,
            "StateChangeTime": iso_milliseconds(status.changed_ms),
            "Region": _REGIONS.get(alarm.space.region, alarm.space.region),
            "AlarmArn": alarm.arn,
            "OldStateValue": before.state,
            "OKActions": list(config.ok_actions),
            "AlarmActions": list(config.alarm_actions),
            "InsufficientDataActions": list(config.insufficient_actions),
        }
        shown |= _composite(alarm) if config.is_composite else {"Trigger": _trigger(alarm)}
        return msgspec.json.encode(shown).decode()

    def subject(self, alarm: Alarm) -> str:
        # CloudWatch: ALARM: "backlog" in US East (N. Virginia). SNS: a subject has at most 100 characters.
        region = _REGIONS.get(alarm.space.region, alarm.space.region)
        subject = f'{alarm.status.state}: "{alarm.config.name}" in {region}'
        return subject if len(subject) <= SUBJECT_MAX else f"{subject[: SUBJECT_MAX - 3]}..."

    def refusal(self, alarm: Alarm, queue: QueueName, settings: QueueSettings) -> str | None:
        """Who created the alarm was allowed to send to the queue. A policy that denies it to the service, or to
        everyone, or for this alarm, still counts."""
        if not self._is_secured or settings.policy is None:
            return None
        target = Resource(queue.arn, queue.account, settings.policy)
        if may_send(SERVICE_NAME, target, alarm.arn, alarm.space.account, needs_allow=False):
            return None
        return "the policy of the queue denies it"


def _composite(alarm: Alarm) -> dict[str, Any]:
    return {"AlarmRule": alarm.config.composite_rule, "TriggeringChildren": _children(alarm.status)}


class _ChildState(msgspec.Struct):
    value: str
    timestamp: float  # in seconds


class _Child(msgspec.Struct):
    arn: str
    state: _ChildState


class _CompositeData(msgspec.Struct, rename="camel"):
    triggering_alarms: list[msgspec.Raw] = []


def _children(status: AlarmStatus) -> list[dict[str, Any]]:
    """The alarms that have changed the state of a composite alarm. A client that sets the state writes whatever JSON
    it likes: what does not name an alarm and its state is left out."""
    children: list[dict[str, Any]] = []
    try:
        triggering = _read_composite_data(status.reason_data or "{}").triggering_alarms
    except (msgspec.DecodeError, RecursionError):
        return children
    for each in triggering:
        try:
            child = _read_child(each)
            at = iso_milliseconds(int(child.state.timestamp * SECOND))
        except (ValueError, RecursionError, OverflowError, OSError):  # a time that no date has
            continue
        children.append({"Arn": child.arn, "State": {"Value": child.state.value, "Timestamp": at}})
    return children


_read_composite_data = msgspec.json.Decoder(_CompositeData).decode
_read_child = msgspec.json.Decoder(_Child).decode


def _trigger(alarm: Alarm) -> dict[str, Any]:
    config, rule = alarm.config, alarm.config.rule
    assert rule is not None
    stat = config.stat
    metric: dict[str, Any] = {
        "Metrics": [msgspec.to_builtins(shown_query(query)) for query in config.queries]
    }
    if stat is not None:
        is_simple = stat.statistic in _STATISTICS
        kind = "Statistic" if is_simple else "ExtendedStatistic"
        metric = {
            "MetricName": stat.metric.name,
            "Namespace": stat.metric.namespace,
            "StatisticType": kind,
            kind: _STATISTICS.get(stat.statistic, stat.statistic),
            "Unit": stat.unit,
            "Dimensions": [{"value": value, "name": name} for name, value in stat.metric.dimensions],
        }
    return {
        **metric,
        "Period": rule.period_s,
        "EvaluationPeriods": rule.periods,
        **({} if rule.to_alarm is None else {"DatapointsToAlarm": rule.to_alarm}),
        "ComparisonOperator": rule.comparison,
        "Threshold": rule.threshold,
        "TreatMissingData": rule.missing or "missing",
        "EvaluateLowSampleCountPercentile": config.low_samples or "",
    }
