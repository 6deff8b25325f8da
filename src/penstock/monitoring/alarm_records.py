"""What is stored of alarms: their configuration, their state, what happened to them, what they still have to do."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.metrics.alarms import AlarmRule, AlarmState
from penstock.metrics.series import MetricKey
from penstock.names import Home, Space, partition_of, without_partition
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home


class MetricStat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statistic of a metric over periods."""

    metric: MetricKey
    period_s: int
    statistic: str
    unit: str | None = None  # None: whichever there is


class AlarmQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the metrics and expressions that an alarm of metric math is made of."""

    id: str
    stat: MetricStat | None = None
    expression: str | None = None
    label: str | None = None
    period_s: int | None = None  # of an expression
    returns: bool | None = None  # as it was given
    account: str | None = None


class Suppressor(msgspec.Struct, frozen=True):
    """An alarm that keeps a composite alarm from acting while it is in ALARM itself."""

    alarm: str  # name or ARN, as it was given
    wait_s: int  # for it, before the actions run
    extension_s: int  # after it, before they run


class AlarmConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings that the owner gave: a rule over a metric or over queries, or the rule of a composite alarm."""

    name: str
    description: str | None = None
    actions_enabled: bool = True
    ok_actions: tuple[str, ...] = ()
    alarm_actions: tuple[str, ...] = ()
    insufficient_actions: tuple[str, ...] = ()
    rule: AlarmRule | None = None
    stat: MetricStat | None = None
    queries: tuple[AlarmQuery, ...] = ()
    low_samples: str | None = None  # what to do with a percentile of few samples: "evaluate" or "ignore"
    composite_rule: str | None = None
    suppressor: Suppressor | None = None

    @property
    def is_composite(self) -> bool:
        return self.composite_rule is not None

    def actions(self, state: AlarmState) -> tuple[str, ...]:
        match state:
            case "OK":
                return self.ok_actions
            case "ALARM":
                return self.alarm_actions
            case "INSUFFICIENT_DATA":
                return self.insufficient_actions


class AlarmStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: AlarmState
    reason: str
    reason_data: str | None = None  # JSON
    updated_ms: int  # of the wall clock
    changed_ms: int  # when the state became another one


class Suppression(msgspec.Struct, frozen=True):
    """The actions of a composite alarm wait."""

    by: Literal["WaitPeriod", "ExtensionPeriod", "Alarm"]
    reason: str
    until_ms: int | None  # of the wall clock; None: until the suppressor leaves ALARM


class Alarm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    space: Space
    config: AlarmConfig
    configured_ms: int
    status: AlarmStatus
    tags: dict[str, str] = {}
    suppressed: Suppression | None = None
    before: AlarmStatus | None = None  # of an alarm that is suppressed or undecided: for its actions
    undecided: bool = False  # its state has changed; whether its actions are suppressed is not decided yet

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def arn(self) -> str:
        return alarm_arn(self.space, self.config.name)

    @property
    def cost(self) -> int:
        """An estimate of the memory in bytes, without the status. The rule of a composite alarm is kept parsed,
        too."""
        rule = self.config.composite_rule or ""
        return len(_encode(self.config)) + len(_encode(self.tags)) + _PARSED_RULE_FACTOR * len(rule)


HistoryKind = Literal["state", "configuration", "action"]
ConfigChange = Literal["Create", "Update", "Delete"]


class HistoryItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to an alarm; which members there are depends on the kind."""

    space: Space
    alarm: str
    is_composite: bool = False
    at_ms: int
    kind: HistoryKind
    before: AlarmStatus | None = None
    after: AlarmStatus | None = None
    change: ConfigChange | None = None
    config: AlarmConfig | None = None
    action: str | None = None
    error: str | None = None  # why the action failed

    @property
    def cost(self) -> int:
        """An estimate of the memory in bytes."""
        return _ITEM_BYTES + len(_encode(self))


class PendingAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action that is still to be carried out, because the state of an alarm has changed."""

    alarm: Alarm  # as it was then
    before: AlarmStatus
    action: str
    tries: int = 0  # of release 0.2, which tried again without a job


_ITEM_BYTES = 1000
_PARSED_RULE_FACTOR = 4
_encode = msgspec.msgpack.Encoder().encode

ALARMS = RecordKind("alarm", Alarm, by_home)
HISTORY = RecordKind("alarm-history", HistoryItem, by_home)
PENDING = RecordKind("alarm-action", PendingAction, by_home)


def alarms_home(space: Space) -> Home:
    """All alarms of an account in a region live in one shard: composite alarms look at others."""
    return Home.of("alarms", space.account, space.region)


def alarm_arn(space: Space, name: str) -> str:
    return f"arn:{partition_of(space.region)}:cloudwatch:{space.region}:{space.account}:alarm:{name}"


def alarm_named(space: Space, name_or_arn: str) -> str | None:
    """The name of an alarm of this space; None for the ARN of another."""
    if not name_or_arn.startswith("arn:"):
        return name_or_arn
    named, prefix = without_partition(name_or_arn), without_partition(alarm_arn(space, ""))
    return named.removeprefix(prefix) if named.startswith(prefix) else None
