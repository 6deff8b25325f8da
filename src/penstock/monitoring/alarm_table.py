"""The alarms of one shard: which there are, in which state, and what follows from a change of a state.

A change of a state is one commit with everything that follows from it: its item of the history, the composite alarms
that it changes, and the actions that have to be carried out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from penstock.broker.shard import Shard
from penstock.errors import AlarmMissing, QuotaReached
from penstock.limits import SECOND
from penstock.metrics.alarms import AlarmState
from penstock.metrics.composite import CompositeRule, parse_rule
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import (
    ALARMS,
    Alarm,
    AlarmConfig,
    AlarmStatus,
    ConfigChange,
    HistoryItem,
    Suppression,
    alarm_named,
    alarms_home,
)
from penstock.names import Space

_UNCHECKED = "Unchecked: Initial alarm creation"

AlarmName = tuple[Space, str]

Act = Callable[[Alarm, AlarmStatus], None]
"""(alarm, its status before): carry its actions out, as part of the open commit."""


class AlarmTable:
    def __init__(self, shard: Shard, history: AlarmHistory, act: Act, alarms_max: int) -> None:
        """``alarms_max``: of an account in a region."""
        self._shard = shard
        self._history = history
        self._act = act
        self._alarms_max = alarms_max
        self._records = shard.table(ALARMS, self._undone)
        self._by_space: dict[Space, dict[str, Alarm]] = {}
        self._rules: dict[AlarmName, CompositeRule] = {}
        # By the name of an alarm: those that look at it, and those whose actions it suppresses.
        self._parents: defaultdict[AlarmName, set[str]] = defaultdict(set)
        self._suppressed: defaultdict[AlarmName, set[str]] = defaultdict(set)
        self._waiting: set[AlarmName] = set()  # their actions were put off
        self.on_first: Callable[[], None] = lambda: None  # called when the shard gets an alarm
        for _, alarm in self._records:
            self._enter(alarm)

    def __iter__(self) -> Iterator[Alarm]:
        return iter([alarm for alarms in self._by_space.values() for alarm in alarms.values()])

    def __len__(self) -> int:
        return len(self._records)

    def by_space(self) -> Iterator[list[Alarm]]:
        """Alarms may be changed meanwhile."""
        for space in list(self._by_space):
            yield list(self._by_space.get(space, {}).values())

    def of(self, space: Space) -> list[Alarm]:
        """In order of their names."""
        alarms = self._by_space.get(space, {})
        return [alarms[name] for name in sorted(alarms)]

    def get(self, space: Space, name: str) -> Alarm | None:
        return self._by_space.get(space, {}).get(name)

    def find(self, space: Space, name: str) -> Alarm:
        """Raises AlarmMissing."""
        alarm = self.get(space, name)
        if alarm is None:
            raise AlarmMissing(name)
        return alarm

    def children(self, alarm: Alarm) -> list[str]:
        """The names of the alarms that a composite alarm looks at."""
        rule = self._rules.get((alarm.space, alarm.name))
        return [] if rule is None else _named(alarm.space, rule.children)

    def parents(self, space: Space, name: str) -> list[Alarm]:
        """The composite alarms that look at an alarm."""
        return [self.find(space, parent) for parent in sorted(self._parents.get((space, name), ()))]

    # -- changes, in the open commit -------------------------------------------------------------------------

    def put(self, space: Space, config: AlarmConfig, tags: dict[str, str]) -> None:
        """Create an alarm with these tags, or configure one again, which keeps its state and tags. Raises
        QuotaReached."""
        wall_ms = self._shard.clock.wall_ms()
        present = self.get(space, config.name)
        change: ConfigChange = "Create" if present is None else "Update"
        if present is None:
            if len(self._by_space.get(space, ())) >= self._alarms_max:
                raise QuotaReached("alarms in a region", self._alarms_max)
            status = AlarmStatus(
                state="INSUFFICIENT_DATA", reason=_UNCHECKED, updated_ms=wall_ms, changed_ms=wall_ms
            )
            alarm = Alarm(space=space, config=config, configured_ms=wall_ms, status=status, tags=tags)
        else:
            alarm = msgspec.structs.replace(present, config=config, configured_ms=wall_ms)
        self._save(alarm)
        self._note_config(alarm, change, wall_ms)
        if alarm.config.is_composite:
            done = "created" if present is None else "updated"
            reason = f"{alarm.arn} was {done} and its alarm rule evaluates to"
            if self._judge_composite(alarm, reason, wall_ms):
                self._spread(alarm, wall_ms)
        self.on_first()

    def remove(self, alarm: Alarm) -> None:
        self._note_config(alarm, "Delete", self._shard.clock.wall_ms())
        self._records.remove(_key(alarm))
        self._leave(alarm)

    def tag(self, alarm: Alarm, tags: dict[str, str]) -> None:
        self._save(msgspec.structs.replace(alarm, tags=tags))

    def enable_actions(self, alarm: Alarm, enabled: bool) -> None:
        config = msgspec.structs.replace(alarm.config, actions_enabled=enabled)
        wall_ms = self._shard.clock.wall_ms()
        changed = msgspec.structs.replace(alarm, config=config, configured_ms=wall_ms)
        self._save(changed)
        self._note_config(changed, "Update", wall_ms)

    def set_state(self, alarm: Alarm, state: AlarmState, reason: str, reason_data: str | None) -> None:
        """With everything that follows from it."""
        wall_ms = self._shard.clock.wall_ms()
        if self._set_state(alarm, state, reason, reason_data, wall_ms):
            self._spread(alarm, wall_ms)

    def _set_state(
        self, alarm: Alarm, state: AlarmState, reason: str, reason_data: str | None, wall_ms: int
    ) -> bool:
        """Whether it is another one. Then :meth:`_spread`."""
        before = alarm.status
        status = AlarmStatus(
            state=state,
            reason=reason,
            reason_data=reason_data,
            updated_ms=wall_ms,
            changed_ms=before.changed_ms if state == before.state else wall_ms,
        )
        alarm = msgspec.structs.replace(alarm, status=status)
        if state == before.state:
            self._save(alarm)
            return False
        self._history.add(
            HistoryItem(
                space=alarm.space,
                alarm=alarm.name,
                is_composite=alarm.config.is_composite,
                at_ms=wall_ms,
                kind="state",
                before=before,
                after=status,
            )
        )
        self._save(alarm)
        return True

    def _spread(self, first: Alarm, wall_ms: int) -> None:
        """What follows from the change of an alarm, which is given as it was before. First all states, each alarm
        once and after those that it looks at; then the actions, since another alarm of these may suppress them."""
        space = first.space
        at = time.strftime("%A %d %B, %Y %H:%M:%S UTC", time.gmtime(wall_ms / SECOND))
        changed = {first.name: first.status}  # the status before
        for name in self._above(space, first.name):
            alarm = self.find(space, name)
            causes = [child for child in self.children(alarm) if child in changed]
            if causes:
                cause = self.find(space, causes[-1])
                reason = f"{cause.arn} transitioned to {cause.status.state} at {at}"
                if self._judge_composite(alarm, reason, wall_ms):
                    changed[name] = alarm.status
        for name, before in changed.items():
            self._begin_actions(self.find(space, name), before, wall_ms)
        for name in changed:
            self._suppressor_changed(self.find(space, name), wall_ms)
        self.end_waits(wall_ms)

    def _above(self, space: Space, name: str) -> list[str]:
        """The alarms that look at an alarm, at those, and so on: each after all that it looks at. Of alarms that look
        at each other in a circle, one has to be the first."""
        finished: list[str] = []
        seen = {name}
        path = [(name, iter(sorted(self._parents.get((space, name), ()))))]
        while path:
            each, parents = path[-1]
            parent = next((parent for parent in parents if parent not in seen), None)
            if parent is None:
                finished.append(each)
                path.pop()
            else:
                seen.add(parent)
                path.append((parent, iter(sorted(self._parents.get((space, parent), ())))))
        return finished[-2::-1]  # without the alarm itself, which is finished last

    def _save(self, alarm: Alarm) -> None:
        self._records.put(_key(alarm), alarm)
        self._enter(alarm)

    def _note_config(self, alarm: Alarm, change: ConfigChange, wall_ms: int) -> None:
        self._history.add(
            HistoryItem(
                space=alarm.space,
                alarm=alarm.name,
                is_composite=alarm.config.is_composite,
                at_ms=wall_ms,
                kind="configuration",
                change=change,
                config=alarm.config,
            )
        )

    # -- composite alarms ------------------------------------------------------------------------------------

    def _judge_composite(self, alarm: Alarm, reason: str, wall_ms: int) -> bool:
        """Whether its state has changed. Then :meth:`_spread`."""
        holds = self._rules[alarm.space, alarm.name].holds(lambda child: self._state_of(alarm.space, child))
        state: AlarmState = "ALARM" if holds else "OK"
        if state == alarm.status.state:
            return False
        if reason.endswith("evaluates to"):
            reason = f"{reason} {state}"
        data = {"triggeringAlarms": self.triggering(alarm)}
        return self._set_state(alarm, state, reason, msgspec.json.encode(data).decode(), wall_ms)

    def triggering(self, alarm: Alarm) -> list[dict[str, Any]]:
        """The alarms in ALARM that a composite alarm looks at."""
        found = (self.get(alarm.space, name) for name in self.children(alarm))
        return [
            {
                "arn": child.arn,
                "state": {"value": child.status.state, "timestamp": child.status.changed_ms / SECOND},
            }
            for child in found
            if child is not None and child.status.state == "ALARM"
        ]

    def _state_of(self, space: Space, name_or_arn: str) -> AlarmState | None:
        name = alarm_named(space, name_or_arn)
        found = None if name is None else self.get(space, name)
        return None if found is None else found.status.state

    # -- actions that another alarm suppresses ---------------------------------------------------------------

    def _begin_actions(self, alarm: Alarm, before: AlarmStatus, wall_ms: int) -> None:
        """Carry the actions out, or put them off."""
        was_suppressed = alarm.suppressed is not None
        why = self._suppression(alarm, wall_ms)
        if not was_suppressed and why is None:
            self._act(alarm, before)
            return
        if alarm.config.suppressor is not None and was_suppressed and alarm.status.state != "ALARM":
            why = None  # no notification of it was sent: it is over
        elif why is None:
            self._act(msgspec.structs.replace(alarm, suppressed=None, before=None), before)
        self._save(msgspec.structs.replace(alarm, suppressed=why, before=None if why is None else before))

    def _suppression(self, alarm: Alarm, wall_ms: int) -> Suppression | None:
        """Why the actions of an alarm that has just changed wait; None: they do not."""
        suppressor = alarm.config.suppressor
        if suppressor is None:
            return None
        if self._state_of(alarm.space, suppressor.alarm) == "ALARM":
            return Suppression("Alarm", "the suppressor alarm is in ALARM", None)
        if alarm.status.state == "ALARM" and suppressor.wait_s:
            until_ms = wall_ms + suppressor.wait_s * SECOND
            return Suppression("WaitPeriod", "waiting for the suppressor alarm", until_ms)
        return None

    def _suppressor_changed(self, suppressor: Alarm, wall_ms: int) -> None:
        for name in sorted(self._suppressed.get((suppressor.space, suppressor.name), ())):
            alarm = self.find(suppressor.space, name)
            given, waiting = alarm.config.suppressor, alarm.suppressed
            if given is None or waiting is None:
                continue
            if suppressor.status.state == "ALARM":
                waiting = Suppression("Alarm", "the suppressor alarm is in ALARM", None)
            elif waiting.by == "Alarm":
                until_ms = wall_ms + given.extension_s * SECOND
                waiting = Suppression("ExtensionPeriod", "the suppressor alarm has left ALARM", until_ms)
            self._save(msgspec.structs.replace(alarm, suppressed=waiting))

    def end_waits(self, wall_ms: int) -> None:
        """Carry out actions that were put off until now."""
        for space, name in sorted(self._waiting, key=lambda each: each[1]):
            alarm = self.find(space, name)
            waiting, before = alarm.suppressed, alarm.before
            if waiting is not None and waiting.until_ms is not None and waiting.until_ms <= wall_ms:
                alarm = msgspec.structs.replace(alarm, suppressed=None, before=None)
                self._save(alarm)
                if before is not None:
                    self._act(alarm, before)

    # -- memory ----------------------------------------------------------------------------------------------

    def _enter(self, alarm: Alarm) -> None:
        name = alarm.space, alarm.name
        present = self.get(*name)
        if present is None or present.config != alarm.config:
            if present is not None:
                self._leave(present)
            config = alarm.config
            if config.composite_rule is not None:
                self._rules[name] = parse_rule(config.composite_rule)
            for child in self.children(alarm):
                self._parents[alarm.space, child].add(alarm.name)
            if config.suppressor is not None:
                for suppressor in _named(alarm.space, (config.suppressor.alarm,)):
                    self._suppressed[alarm.space, suppressor].add(alarm.name)
        self._by_space.setdefault(alarm.space, {})[alarm.name] = alarm
        (self._waiting.discard if alarm.suppressed is None else self._waiting.add)(name)

    def _leave(self, alarm: Alarm) -> None:
        name = alarm.space, alarm.name
        for child in self.children(alarm):
            _discard(self._parents, (alarm.space, child), alarm.name)
        if alarm.config.suppressor is not None:
            for suppressor in _named(alarm.space, (alarm.config.suppressor.alarm,)):
                _discard(self._suppressed, (alarm.space, suppressor), alarm.name)
        self._rules.pop(name, None)
        self._waiting.discard(name)
        del self._by_space[alarm.space][alarm.name]
        if not self._by_space[alarm.space]:
            del self._by_space[alarm.space]

    def _undone(self, key: str, alarm: Alarm | None) -> None:
        """A refused commit had changed this alarm: it is again what it was."""
        if alarm is not None:
            self._enter(alarm)
        else:
            for each in list(self):
                if _key(each) == key:
                    self._leave(each)


def _named(space: Space, names_or_arns: Iterable[str]) -> list[str]:
    """The names of alarms of this space."""
    named = (alarm_named(space, each) for each in names_or_arns)
    return [name for name in named if name is not None]


def _discard(index: dict[AlarmName, set[str]], key: AlarmName, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _key(alarm: Alarm) -> str:
    return alarms_home(alarm.space).key(alarm.name)
