"""What the handlers of CloudWatch need, and what a request acts on: metrics, an alarm, a dashboard.

Metrics have no ARN: policies allow actions on them for ``*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.auth.authorize import Resource, authorize
from penstock.monitoring.alarm_records import alarm_arn
from penstock.monitoring.dashboards import dashboard_arn
from penstock.names import partition_of
from penstock.services.cloudwatch.structs import NamesAlarms
from penstock.services.cloudwatch.validation import CONSTRAINTS, given_tags
from penstock.wire.service import Action, Call

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.monitoring.monitoring import Monitoring, ShardMonitoring

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class CloudWatch(msgspec.Struct, frozen=True):
    """What the handlers need."""

    monitoring: Monitoring
    broker: Broker
    actions: Mapping[str, Action]  # the rows, for handlers that need further permissions
    allows_webhook: Callable[[str], bool] = lambda url: False  # whether alarms may call this URL
    partition: str | None = None  # of ARNs without a region; None: that of the request, on an open server

    def partition_of(self, call: Call) -> str:
        """The partition in ARNs of dashboards, which belong to an account in all its regions."""
        return self.partition or partition_of(call.space.region)


class CloudWatchResource(Resource):
    home: ShardMonitoring | None = None  # where it lives


def all_metrics(cw: CloudWatch, request: Any, call: Call) -> CloudWatchResource:
    return CloudWatchResource("*", call.space.account)


def any_alarm(cw: CloudWatch, request: Any, call: Call) -> CloudWatchResource:
    """Finds the resource of actions that list alarms. Raises NotOwned."""
    home = cw.monitoring.of_alarms(call.space)
    return CloudWatchResource(alarm_arn(call.space, "*"), call.space.account, home=home)


def named_alarm(cw: CloudWatch, request: Any, call: Call) -> CloudWatchResource:
    """Raises Fault or NotOwned. Only a possible name and valid tags are shown to the policies."""
    CONSTRAINTS.check(request, "AlarmName")
    tags = given_tags(request) if hasattr(request, "Tags") else _NOTHING
    return alarm_resource(cw, request.AlarmName, call, tags)


def alarm_resource(
    cw: CloudWatch, name: str, call: Call, request_tags: Mapping[str, str] = _NOTHING
) -> CloudWatchResource:
    home = cw.monitoring.of_alarms(call.space)
    alarm = home.alarms.get(call.space, name)
    tags = _NOTHING if alarm is None else alarm.tags
    arn = alarm_arn(call.space, name)
    return CloudWatchResource(
        arn, call.space.account, None, tags, request_tags, tuple(request_tags), home=home
    )


def named_alarms(cw: CloudWatch, request: NamesAlarms, call: Call) -> CloudWatchResource:
    """The first of several alarms; the handler asks for the others with :func:`authorize_alarms`."""
    CONSTRAINTS.check(request)
    names = request.AlarmNames or []
    return alarm_resource(cw, names[0], call) if names else any_alarm(cw, request, call)


def authorize_alarms(cw: CloudWatch, names: Iterable[str], call: Call) -> None:
    """Raises AccessDenied."""
    for name in names:
        authorize(call, cw.actions[call.action], alarm_resource(cw, name, call))


def all_dashboards(cw: CloudWatch, request: Any, call: Call) -> CloudWatchResource:
    home = cw.monitoring.of_dashboards(call.space.account)
    return CloudWatchResource("*", call.space.account, home=home)


def dashboard_resource(
    cw: CloudWatch, name: str, call: Call, request_tags: Mapping[str, str] = _NOTHING
) -> CloudWatchResource:
    """Raises NotOwned."""
    account = call.space.account
    home = cw.monitoring.of_dashboards(account)
    dashboard = home.dashboards.get(account, name)
    tags = _NOTHING if dashboard is None else dashboard.tags
    arn = dashboard_arn(cw.partition_of(call), account, name)
    return CloudWatchResource(arn, account, None, tags, request_tags, tuple(request_tags), home=home)
