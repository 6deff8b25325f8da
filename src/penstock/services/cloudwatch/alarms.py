"""PutMetricAlarm, PutCompositeAlarm, SetAlarmState, DeleteAlarms, EnableAlarmActions, DisableAlarmActions."""

from __future__ import annotations

from typing import cast, get_args

import msgspec

from penstock.auth.authorize import Resource, authorize_send
from penstock.broker.other_shards import DefinitionQuestion
from penstock.errors import AlarmMissing
from penstock.metrics.alarms import AlarmState
from penstock.metrics.composite import parse_rule
from penstock.monitoring.actions import webhook_url
from penstock.monitoring.alarm_records import AlarmConfig, alarm_named
from penstock.monitoring.monitoring import ShardMonitoring
from penstock.names import Arn, QueueName, Space
from penstock.services.cloudwatch.alarm_config import composite_alarm_config, metric_alarm_config
from penstock.services.cloudwatch.faults import cloudwatch_fault, validation_error
from penstock.services.cloudwatch.resources import CloudWatch, authorize_alarms
from penstock.services.cloudwatch.structs import (
    DeleteAlarmsRequest,
    DisableAlarmActionsRequest,
    EnableAlarmActionsRequest,
    NamesAlarms,
    PutCompositeAlarmRequest,
    PutMetricAlarmRequest,
    SetAlarmStateRequest,
)
from penstock.services.cloudwatch.validation import CONSTRAINTS
from penstock.wire.service import Call


async def put_metric_alarm(cw: CloudWatch, request: PutMetricAlarmRequest, call: Call) -> None:
    account = call.space.account
    config = await cw.broker.turns.run(metric_alarm_config(request, account), account)
    await _put(cw, config, call)


async def put_composite_alarm(cw: CloudWatch, request: PutCompositeAlarmRequest, call: Call) -> None:
    config = composite_alarm_config(request)
    _check_children(config, call)
    await _put(cw, config, call)


async def _put(cw: CloudWatch, config: AlarmConfig, call: Call) -> None:
    await _check_actions(cw, config, call)
    home, space = call.resource.home, call.space
    present = home.alarms.get(space, config.name)
    if present is not None and present.config.is_composite != config.is_composite:
        kind = "composite" if present.config.is_composite else "metric"
        raise validation_error(f"The name {config.name} is that of a {kind} alarm.")
    home.shard.check_not_ended()
    home.shard.check_owned()
    home.alarms.put(space, config, dict(call.resource.request_tags))
    await _settle(home, space)


def _check_children(config: AlarmConfig, call: Call) -> None:
    """Raises Fault."""
    alarms, space = call.resource.home.alarms, call.space
    named = list(parse_rule(config.composite_rule or "").children)
    if config.suppressor is not None:
        named.append(config.suppressor.alarm)
    names = {each: alarm_named(space, each) for each in named}
    if config.name in names.values():
        raise validation_error("A composite alarm cannot depend on itself.")
    missing = [each for each, name in names.items() if name is None or alarms.get(space, name) is None]
    if missing:
        listed = ", ".join(missing)
        raise validation_error(
            f"Could not save the composite alarm as alarms [{listed}] in the alarm rule do not exist"
        )


async def _check_actions(cw: CloudWatch, config: AlarmConfig, call: Call) -> None:
    """Who lets an alarm send to a queue needs the permission to send to it. Raises Fault or AccessDenied."""
    for action in {*config.ok_actions, *config.alarm_actions, *config.insufficient_actions}:
        queue, url = QueueName.of_arn(action), webhook_url(action)
        if queue is not None:
            await _check_queue(cw, queue, call)
        elif url is not None:
            if not cw.allows_webhook(url):
                raise validation_error(
                    f"The server does not allow alarms to call {action}: its operator has to add the URL to the "
                    "setting alarm_webhooks."
                )
        elif Arn.parse(action) is None and not action.startswith("arn:"):
            raise validation_error(f"Invalid arn syntax: {action}")


async def _check_queue(cw: CloudWatch, queue: QueueName, call: Call) -> None:
    if queue.account != call.space.account:
        raise validation_error("An alarm can only send to queues of its own account.")
    if call.principal is not None:
        target = Resource(queue.arn, queue.account)
        record = await cw.broker.ask(DefinitionQuestion(queue))
        if record is not None:  # it need not exist yet
            target.tags, target.policy = record.tags, record.settings.policy
        authorize_send(call, target)


async def set_alarm_state(cw: CloudWatch, request: SetAlarmStateRequest, call: Call) -> None:
    CONSTRAINTS.check(request)
    if request.StateReasonData is not None:
        try:
            msgspec.json.decode(request.StateReasonData)
        except (ValueError, RecursionError):
            raise cloudwatch_fault("InvalidFormatFault", "StateReasonData is not valid JSON") from None
    home = call.resource.home
    alarm = home.alarms.find(call.space, request.AlarmName or "")
    state = cast("AlarmState", request.StateValue)
    assert state in get_args(AlarmState)
    home.alarms.set_state(alarm, state, request.StateReason or "", request.StateReasonData)
    await _settle(home, call.space)


async def _settle(home: ShardMonitoring, space: Space) -> None:
    """Wait until the change is durable and what follows from it is decided."""
    settled = home.shard.settled()
    await home.alarms.follow(space)
    await settled


async def delete_alarms(cw: CloudWatch, request: DeleteAlarmsRequest, call: Call) -> None:
    names = _authorized_names(cw, request, call)
    home, space = call.resource.home, call.space
    found = [alarm for name in names if (alarm := home.alarms.get(space, name)) is not None]
    if sum(alarm.config.is_composite for alarm in found) > 1:
        raise validation_error("At most one composite alarm can be deleted at a time.")
    deleted = set(names)
    needed = [alarm.name for alarm in found if home.alarms.has_other_parents(space, alarm.name, deleted)]
    if needed:
        them = "it" if len(needed) == 1 else "them"
        raise validation_error(
            f"Cannot delete {','.join(needed)} as there are composite alarm(s) depending on {them}."
        )
    for alarm in found:
        home.alarms.remove(alarm)
    await home.shard.settled()
    if len(found) < len(names):
        raise AlarmMissing


async def enable_alarm_actions(cw: CloudWatch, request: EnableAlarmActionsRequest, call: Call) -> None:
    await _enable(cw, request, call, enabled=True)


async def disable_alarm_actions(cw: CloudWatch, request: DisableAlarmActionsRequest, call: Call) -> None:
    await _enable(cw, request, call, enabled=False)


async def _enable(cw: CloudWatch, request: NamesAlarms, call: Call, *, enabled: bool) -> None:
    home = call.resource.home
    for name in _authorized_names(cw, request, call):
        alarm = home.alarms.get(call.space, name)
        if alarm is not None and alarm.config.actions_enabled != enabled:
            home.alarms.enable_actions(alarm, enabled)
    await home.shard.settled()


def _authorized_names(cw: CloudWatch, request: NamesAlarms, call: Call) -> list[str]:
    """Each once. Raises AccessDenied: then nothing is done for any."""
    names = list(dict.fromkeys(request.AlarmNames or ()))
    authorize_alarms(cw, names[1:], call)
    return names
