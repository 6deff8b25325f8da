"""DescribeAlarms, DescribeAlarmsForMetric, DescribeAlarmHistory: alarms in CloudWatch's words."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.limits import SECOND
from penstock.metrics.alarms import iso_milliseconds
from penstock.metrics.statistics import SIMPLE
from penstock.monitoring.alarm_records import Alarm, AlarmConfig, AlarmStatus, HistoryItem, alarm_arn
from penstock.services.cloudwatch.faults import invalid_combination, not_supported
from penstock.services.cloudwatch.limits import (
    RECORDS_MAX,
)
from penstock.services.cloudwatch.queries import shown_query
from penstock.services.cloudwatch.resources import CloudWatch
from penstock.services.cloudwatch.structs import (
    SCAN_ORDERS,
    AlarmHistoryItem,
    CompositeAlarm,
    DescribeAlarmHistoryRequest,
    DescribeAlarmHistoryResult,
    DescribeAlarmsForMetricRequest,
    DescribeAlarmsForMetricResult,
    DescribeAlarmsRequest,
    DescribeAlarmsResult,
    MetricAlarm,
)
from penstock.services.cloudwatch.validation import (
    CONSTRAINTS,
    metric_key,
    read_token,
    shown_dimensions,
    write_token,
)
from penstock.wire.service import Call

_OTHER_FILTERS = ("AlarmNames", "AlarmNamePrefix", "AlarmTypes", "StateValue", "ActionPrefix")


async def describe_alarms(cw: CloudWatch, request: DescribeAlarmsRequest, call: Call) -> DescribeAlarmsResult:
    _check_describe(request)
    alarms = [alarm for alarm in _chosen(request, call) if _is_wanted(alarm, request)]
    asked = [call.space, msgspec.structs.replace(request, NextToken=None, MaxRecords=None)]
    after = read_token(request.NextToken, asked)
    if after is not None:
        alarms = [alarm for alarm in alarms if alarm.name > after]
    page = alarms[: request.MaxRecords or RECORDS_MAX]
    await call.resource.home.shard.settled()
    return DescribeAlarmsResult(
        MetricAlarms=[metric_alarm(alarm) for alarm in page if not alarm.config.is_composite],
        CompositeAlarms=[composite_alarm(alarm) for alarm in page if alarm.config.is_composite],
        NextToken=write_token(asked, page[-1].name) if len(page) < len(alarms) else None,
    )


def _check_describe(request: DescribeAlarmsRequest) -> None:
    """Raises Fault."""
    CONSTRAINTS.check(request)
    if request.AlarmNames and request.AlarmNamePrefix is not None:
        raise invalid_combination("AlarmNamePrefix and AlarmNames cannot both be specified")
    relatives = [request.ChildrenOfAlarmName, request.ParentsOfAlarmName]
    if any(relatives) and (all(relatives) or any(getattr(request, member) for member in _OTHER_FILTERS)):
        raise invalid_combination(
            "ChildrenOfAlarmName and ParentsOfAlarmName cannot be specified with other filters"
        )


def _chosen(request: DescribeAlarmsRequest, call: Call) -> list[Alarm]:
    """The alarms that the request asks for, in order of their names."""
    alarms, space = call.resource.home.alarms, call.space
    if request.ChildrenOfAlarmName is not None:
        children = alarms.children(alarms.find(space, request.ChildrenOfAlarmName))
        return [alarm for name in sorted(children) if (alarm := alarms.get(space, name)) is not None]
    if request.ParentsOfAlarmName is not None:
        parents: list[Alarm] = alarms.parents(space, request.ParentsOfAlarmName)
        return parents
    types = request.AlarmTypes or ["MetricAlarm"]  # CloudWatch: composite alarms are shown only if asked for
    found = alarms.of(space)
    if request.AlarmNames:
        named = (alarms.get(space, name) for name in sorted(set(request.AlarmNames)))
        found = [alarm for alarm in named if alarm is not None]
    return [alarm for alarm in found if _type(alarm.config.is_composite) in types]


def _is_wanted(alarm: Alarm, request: DescribeAlarmsRequest) -> bool:
    prefix = request.ActionPrefix
    config = alarm.config
    actions = (*config.ok_actions, *config.alarm_actions, *config.insufficient_actions)
    return (
        alarm.name.startswith(request.AlarmNamePrefix or "")
        and request.StateValue in (None, alarm.status.state)
        and (prefix is None or any(action.startswith(prefix) for action in actions))
    )


async def describe_alarms_for_metric(
    cw: CloudWatch, request: DescribeAlarmsForMetricRequest, call: Call
) -> DescribeAlarmsForMetricResult:
    CONSTRAINTS.check(request)
    metric = metric_key(request.Namespace or "", request.MetricName or "", request.Dimensions)
    statistic = request.Statistic or request.ExtendedStatistic
    found = []
    for alarm in call.resource.home.alarms.of(call.space):
        stat = alarm.config.stat
        if (
            stat is not None
            and stat.metric == metric
            and statistic in (None, stat.statistic)
            and request.Period in (None, stat.period_s)
            and request.Unit in (None, stat.unit)
        ):
            found.append(metric_alarm(alarm))
    await call.resource.home.shard.settled()
    return DescribeAlarmsForMetricResult(MetricAlarms=found)


def _common(alarm: Alarm) -> dict[str, Any]:
    config, status = alarm.config, alarm.status
    return {
        "AlarmName": config.name,
        "AlarmArn": alarm.arn,
        "AlarmDescription": config.description,
        "AlarmConfigurationUpdatedTimestamp": alarm.configured_ms / SECOND,
        "ActionsEnabled": config.actions_enabled,
        "OKActions": list(config.ok_actions),
        "AlarmActions": list(config.alarm_actions),
        "InsufficientDataActions": list(config.insufficient_actions),
        "StateValue": status.state,
        "StateReason": status.reason,
        "StateReasonData": status.reason_data,
        "StateUpdatedTimestamp": status.updated_ms / SECOND,
        "StateTransitionedTimestamp": status.changed_ms / SECOND,
    }


def metric_alarm(alarm: Alarm) -> MetricAlarm:
    """CloudWatch: defaults are not filled in."""
    config = alarm.config
    rule, stat = config.rule, config.stat
    assert rule is not None
    plain: dict[str, Any] = {}
    if stat is not None:
        kind = "Statistic" if stat.statistic in SIMPLE else "ExtendedStatistic"
        plain = {
            "MetricName": stat.metric.name,
            "Namespace": stat.metric.namespace,
            kind: stat.statistic,
            "Period": stat.period_s,
            "Unit": stat.unit,
        }
    return MetricAlarm(
        **_common(alarm),
        **plain,
        Dimensions=[] if stat is None else shown_dimensions(stat.metric),
        EvaluationPeriods=rule.periods,
        DatapointsToAlarm=rule.to_alarm,
        Threshold=rule.threshold,
        ComparisonOperator=rule.comparison,
        TreatMissingData=rule.missing,
        EvaluateLowSampleCountPercentile=config.low_samples,
        Metrics=[shown_query(query) for query in config.queries] or None,
    )


def composite_alarm(alarm: Alarm) -> CompositeAlarm:
    config, waiting = alarm.config, alarm.suppressed
    suppressor = config.suppressor
    suppression: dict[str, Any] = {}
    if suppressor is not None:
        suppression = {
            "ActionsSuppressor": suppressor.alarm,
            "ActionsSuppressorWaitPeriod": suppressor.wait_s,
            "ActionsSuppressorExtensionPeriod": suppressor.extension_s,
        }
    if waiting is not None:
        suppression |= {"ActionsSuppressedBy": waiting.by, "ActionsSuppressedReason": waiting.reason}
    return CompositeAlarm(**_common(alarm), **suppression, AlarmRule=config.composite_rule or "")


# -- history -------------------------------------------------------------------------------------------------


async def describe_alarm_history(
    cw: CloudWatch, request: DescribeAlarmHistoryRequest, call: Call
) -> DescribeAlarmHistoryResult:
    if request.AlarmContributorId is not None:
        raise not_supported("AlarmContributorId")
    CONSTRAINTS.check(request)
    ascending = request.ScanBy == SCAN_ORDERS[1]
    asked = [call.space, msgspec.structs.replace(request, NextToken=None, MaxRecords=None)]
    after = read_token(request.NextToken, asked)
    found = [
        each for each in call.resource.home.history.of(call.space, request.AlarmName) if _in(each[1], request)
    ]
    found.sort(key=lambda each: each[0], reverse=not ascending)
    if after is not None:
        found = [each for each in found if (each[0] > after if ascending else each[0] < after)]
    page = found[: request.MaxRecords or RECORDS_MAX]
    await call.resource.home.shard.settled()
    return DescribeAlarmHistoryResult(
        AlarmHistoryItems=[_history_item(item) for _, item in page],
        NextToken=write_token(asked, page[-1][0]) if len(page) < len(found) else None,
    )


def _in(item: HistoryItem, request: DescribeAlarmHistoryRequest) -> bool:
    at_s = item.at_ms / SECOND
    return (
        (request.StartDate is None or at_s >= request.StartDate)
        and (request.EndDate is None or at_s <= request.EndDate)
        and (not request.AlarmTypes or _type(item.is_composite) in request.AlarmTypes)
        and request.HistoryItemType in (None, _item_type(item))
    )


def _type(is_composite: bool) -> str:
    return "CompositeAlarm" if is_composite else "MetricAlarm"


def _item_type(item: HistoryItem) -> str:
    return {"configuration": "ConfigurationUpdate", "state": "StateUpdate", "action": "Action"}[item.kind]


def _history_item(item: HistoryItem) -> AlarmHistoryItem:
    summary, data = _worded(item)
    return AlarmHistoryItem(
        AlarmName=item.alarm,
        AlarmType=_type(item.is_composite),
        Timestamp=item.at_ms / SECOND,
        HistoryItemType=_item_type(item),
        HistorySummary=summary,
        HistoryData=msgspec.json.encode({"version": "1.0", **data}).decode(),
    )


def _worded(item: HistoryItem) -> tuple[str, dict[str, Any]]:
    """The summary of an item, and its data."""
    if item.kind == "state":
        assert item.before is not None and item.after is not None
        states = {"oldState": _state(item.before), "newState": _state(item.after)}
        return f"Alarm updated from {item.before.state} to {item.after.state}", states
    if item.kind == "configuration":
        assert item.change is not None and item.config is not None
        done = {"Create": "created", "Update": "updated", "Delete": "deleted"}[item.change]
        return f'Alarm "{item.alarm}" {done}', {
            "type": item.change,
            f"{done}Alarm": _config(item, item.config),
        }
    after = item.after
    assert after is not None
    data = {
        "actionState": "Succeeded" if item.error is None else "Failed",
        "stateUpdateTimestamp": after.changed_ms,
        "notificationResource": item.action,
    }
    if item.error is None:
        return f"Successfully executed action {item.action}", data
    return f'Failed to execute action {item.action}. Received error: "{item.error}"', {
        **data,
        "error": item.error,
    }


def _state(status: AlarmStatus) -> dict[str, Any]:
    shown: dict[str, Any] = {"stateValue": status.state, "stateReason": status.reason}
    if status.reason_data is not None:
        shown["stateReasonData"] = msgspec.json.decode(status.reason_data)
    return shown


def _config(item: HistoryItem, config: AlarmConfig) -> dict[str, Any]:
    """The configuration as DescribeAlarms shows it, with names in CloudWatch's other spelling."""
    status = AlarmStatus(state="INSUFFICIENT_DATA", reason="", updated_ms=item.at_ms, changed_ms=item.at_ms)
    alarm = Alarm(space=item.space, config=config, configured_ms=item.at_ms, status=status)
    shown = msgspec.to_builtins(composite_alarm(alarm) if config.is_composite else metric_alarm(alarm))
    for member in ("StateValue", "StateReason", "StateUpdatedTimestamp", "StateTransitionedTimestamp"):
        del shown[member]
    shown["AlarmConfigurationUpdatedTimestamp"] = iso_milliseconds(item.at_ms)
    shown["AlarmArn"] = alarm_arn(item.space, item.alarm)
    return {name[0].lower() + name[1:]: value for name, value in shown.items()}
