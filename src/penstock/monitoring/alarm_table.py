"""The alarms of one shard: which there are, in which state, and what follows from a change of a state.

A change of a state is one commit with its item of the history. What follows from it, the states of composite alarms
and actions, may be much, and is decided in turns (:meth:`AlarmTable.follow`), in further commits. What is still to
be decided can be seen from the records: a composite alarm is judged again if an alarm that it looks at has changed
since, and an alarm whose actions are not decided yet says so (``Alarm.undecided``). So a start continues where a
crash has ended it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import msgspec

from penstock.broker.parts import Part
from penstock.broker.shard import Shard
from penstock.errors import AlarmMissing, QuotaReached
from penstock.limits import SECOND
from penstock.metrics.alarms import AlarmState
from penstock.metrics.composite import CompositeRule, parse_rule
from penstock.monitoring.actions import AlarmActions
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
from penstock.monitoring.limits import MonitoringLimits
from penstock.names import Home, Space
from penstock.promise import Promise, run_detached
from penstock.turns import Steps, Turns

log = logging.getLogger("penstock.monitoring")

_UNCHECKED = "Unchecked: Initial alarm creation"

AlarmName = tuple[Space, str]


class _Changed(msgspec.Struct):
    """Alarms of a space whose changes have not been followed yet."""

    names: dict[str, None] = {}
    done: Promise[None] = msgspec.field(default_factory=Promise)


class AlarmTable(Part):
    def __init__(
        self,
        shard: Shard,
        history: AlarmHistory,
        actions: AlarmActions,
        limits: MonitoringLimits,
        turns: Turns,
        on_alarm: Callable[[], None],
    ) -> None:
        """``on_alarm`` is called whenever an alarm was created or configured."""
        self._shard = shard
        self._history = history
        self._actions = actions
        self._limits = limits
        self._records = shard.table(ALARMS, self._undone)
        self._by_space: dict[Space, dict[str, Alarm]] = {}
        self._costs: dict[AlarmName, int] = {}
        self._bytes: Counter[str] = Counter()  # of each account
        self._rules: dict[AlarmName, CompositeRule] = {}
        # By the name of an alarm: those that look at it, and those whose actions it suppresses.
        self._parents: defaultdict[AlarmName, set[str]] = defaultdict(set)
        self._suppressed: defaultdict[AlarmName, set[str]] = defaultdict(set)
        self._turns = turns
        self._waiting: defaultdict[Space, set[str]] = defaultdict(set)  # their actions were put off
        self._undecided: defaultdict[Space, set[str]] = defaultdict(set)  # whether they act is to be decided
        self._changed: dict[Space, _Changed] = {}
        self._following: set[Space] = set()
        self._stopped = False
        self._on_alarm = on_alarm
        for _, alarm in self._records:
            self._enter(alarm)

    def __iter__(self) -> Iterator[Alarm]:
        return iter([alarm for alarms in self._by_space.values() for alarm in alarms.values()])

    def __len__(self) -> int:
        return len(self._records)

    def by_space(self) -> Iterator[list[Alarm]]:
        """Alarms may be changed while this waits."""
        for space in list(self._by_space):
            yield list(self._by_space.get(space, {}).values())

    def of(self, space: Space) -> list[Alarm]:
        """Returns the alarms of a space in order of their names."""
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

    def has_other_parents(self, space: Space, name: str, names: Set[str]) -> bool:
        """Whether composite alarms besides those of these names look at an alarm."""
        return not self._parents.get((space, name), set()) <= names

    # -- changes, in the open commit -------------------------------------------------------------------------

    def put(self, space: Space, config: AlarmConfig, tags: dict[str, str]) -> None:
        """Create an alarm with these tags, or configure one again, which keeps its state and tags. Raises
        QuotaReached. Then :meth:`follow`."""
        wall_ms = self._shard.clock.wall_ms()
        present = self.get(space, config.name)
        change: ConfigChange = "Create" if present is None else "Update"
        if present is None:
            if len(self._by_space.get(space, ())) >= self._limits.alarms_max:
                raise QuotaReached("alarms in a region", self._limits.alarms_max)
            status = AlarmStatus(
                state="INSUFFICIENT_DATA", reason=_UNCHECKED, updated_ms=wall_ms, changed_ms=wall_ms
            )
            alarm = Alarm(space=space, config=config, configured_ms=wall_ms, status=status, tags=tags)
        else:
            alarm = msgspec.structs.replace(present, config=config, configured_ms=wall_ms)
        self._check_bytes(alarm)
        self._save(alarm)
        self._note_config(alarm, change, wall_ms)
        if alarm.config.is_composite:
            done = "created" if present is None else "updated"
            reason = f"{alarm.arn} was {done} and its alarm rule evaluates to"
            self._judge_composite(alarm, reason)
        self._on_alarm()

    def _check_bytes(self, alarm: Alarm) -> None:
        """Raises QuotaReached. An alarm may always become smaller."""
        more = alarm.cost - self._costs.get((alarm.space, alarm.name), 0)
        if more > 0 and self._bytes[alarm.space.account] + more > self._limits.alarm_bytes_max:
            raise QuotaReached("bytes of alarms in one shard", self._limits.alarm_bytes_max)

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
        """Change the state of an alarm. The caller calls :meth:`follow` then."""
        wall_ms = self._shard.clock.wall_ms()
        if alarm.undecided and state != alarm.status.state:  # two changes, and each may have actions
            alarm = self._decide_actions(alarm, wall_ms)
        before = alarm.status
        status = AlarmStatus(
            state=state,
            reason=reason,
            reason_data=reason_data,
            updated_ms=wall_ms,
            changed_ms=before.changed_ms if state == before.state else wall_ms,
        )
        if state == before.state:
            self._save(msgspec.structs.replace(alarm, status=status))
            return
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
        self._save(msgspec.structs.replace(alarm, status=status, before=before, undecided=True))
        self._note_changed(alarm.space, [alarm.name])

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

    # -- what follows from changes ---------------------------------------------------------------------------

    def _note_changed(self, space: Space, names: Iterable[str]) -> None:
        self._changed.setdefault(space, _Changed()).names.update(dict.fromkeys(names))

    def follow(self, space: Space) -> Promise[None]:
        """Decide in turns what follows from the changes so far, and carry out actions. The promise is resolved when
        it is decided."""
        changed = self._changed.get(space)
        if changed is None:
            done: Promise[None] = Promise()
            done.resolve(None)
            return done
        if space not in self._following:
            run_detached(self._follow(space))
        return changed.done

    async def _follow(self, space: Space) -> None:
        self._following.add(space)
        while (changed := self._changed.pop(space, None)) is not None:
            try:
                await self._run(self._spread(space, changed.names), space)
            except Exception:
                log.exception("composite alarms of account %s could not be judged", space.account)
            changed.done.resolve(None)
        self._following.discard(space)

    def follow_all(self) -> None:
        """Continue with what a refused commit has left."""
        for space in list(self._changed):
            self.follow(space)

    def start(self) -> None:
        if len(self):
            run_detached(self._decide_outdated())

    async def _decide_outdated(self) -> None:
        """Find what was not decided when the shard was closed, and decide it."""
        for space in list(self._by_space):
            await self._run(self._note_outdated(space), space)
            self.follow(space)

    def stop(self) -> None:
        self._stopped = True

    async def _run(self, steps: Steps[None], space: Space) -> None:
        await self._turns.run(self._while_open(steps), space.account)

    def _while_open(self, steps: Steps[None]) -> Steps[None]:
        """Nothing is decided after a stop: the next owner of the shard continues."""
        for _ in steps:
            yield
            if self._stopped or self._shard.released or self._shard.ended is not None:
                return

    def _note_outdated(self, space: Space) -> Steps[None]:
        if space in self._undecided:
            self._note_changed(space, ())
        for alarm in list(self._by_space.get(space, {}).values()):
            since_ms = alarm.status.updated_ms
            found = (self.get(space, name) for name in self.children(alarm))
            changed = [child.name for child in found if child and child.status.changed_ms >= since_ms]
            if changed:
                self._note_changed(space, changed)
            yield

    def _spread(self, space: Space, changed: dict[str, None]) -> Steps[None]:
        """Decide all states first, each alarm once and after those that it looks at; then carry out the actions,
        since another alarm of these may suppress them. Alarms may be changed at each pause: those changes are
        followed afterwards."""
        above = yield from self._above(space, changed)
        known = set(above)
        for name in above:
            alarm = self.get(space, name)
            causes = [] if alarm is None else [child for child in self.children(alarm) if child in changed]
            cause = self.get(space, causes[-1]) if causes else None
            if alarm is None or cause is None:
                continue
            if self._judge_composite(alarm, _transition(cause)):
                self._changed[space].names.pop(name)  # it is followed here
                changed[name] = None
                if self.has_other_parents(space, name, known):  # they are new
                    self._note_changed(space, [name])
            yield
        for name in sorted(self._undecided.get(space, ())):
            yield from self._follow_undecided(space, name)
        yield from self._end_waits(space)

    def _above(self, space: Space, names: Iterable[str]) -> Steps[list[str]]:
        """The alarms that look at these alarms, at those, and so on: each after all that it looks at. If alarms
        look at each other in a circle, one of them comes first."""
        finished: list[str] = []
        seen: set[str] = set()
        for first in list(names):
            if first in seen:
                continue
            seen.add(first)
            path = [(first, iter(sorted(self._parents.get((space, first), ()))))]
            while path:
                name, parents = path[-1]
                parent = next((parent for parent in parents if parent not in seen), None)
                if parent is None:
                    finished.append(name)
                    path.pop()
                else:
                    seen.add(parent)
                    path.append((parent, iter(sorted(self._parents.get((space, parent), ())))))
                yield
        finished.reverse()
        return finished

    def _judge_composite(self, alarm: Alarm, reason: str) -> bool:
        """Whether its state has changed."""
        space, rule = alarm.space, self._rules[alarm.space, alarm.name]
        states = {child: self._state_of(space, child) for child in rule.children}
        state: AlarmState = "ALARM" if rule.holds(states.get) else "OK"
        if state == alarm.status.state:
            return False
        if reason.endswith("evaluates to"):
            reason = f"{reason} {state}"
        data = {"triggeringAlarms": self.triggering(alarm)}
        self.set_state(alarm, state, reason, msgspec.json.encode(data).decode())
        return True

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

    def _follow_undecided(self, space: Space, name: str) -> Steps[None]:
        """Follow the alarms whose actions it suppresses first: until it is decided itself, a start does all this
        again."""
        changed = self.get(space, name)
        if changed is None or not changed.undecided:
            return
        for suppressed in sorted(self._suppressed.get((space, name), ())):
            self._suppressor_changed(suppressed, changed)
            yield
        alarm = self.get(space, name)
        if alarm is not None and alarm.undecided and alarm.status is changed.status:
            self._decide_actions(alarm, self._shard.clock.wall_ms())
        yield

    def _decide_actions(self, alarm: Alarm, wall_ms: int) -> Alarm:
        """Carry the actions of a change out, or put them off. Returns the alarm after it."""
        before, why = alarm.before, self._suppression(alarm, wall_ms)
        assert before is not None
        if alarm.suppressed is not None and alarm.config.suppressor and alarm.status.state != "ALARM":
            why = None  # no notification of it was sent: it is over
        elif why is None:
            self._actions.add(
                msgspec.structs.replace(alarm, suppressed=None, before=None, undecided=False), before
            )
        decided = msgspec.structs.replace(
            alarm, suppressed=why, before=None if why is None else before, undecided=False
        )
        self._save(decided)
        return decided

    def _suppression(self, alarm: Alarm, wall_ms: int) -> Suppression | None:
        """Why the actions of an alarm that has just changed wait; None if they do not."""
        suppressor = alarm.config.suppressor
        if suppressor is None:
            return None
        if self._state_of(alarm.space, suppressor.alarm) == "ALARM":
            return Suppression("Alarm", "the suppressor alarm is in ALARM", None)
        if alarm.status.state == "ALARM" and suppressor.wait_s:
            until_ms = wall_ms + suppressor.wait_s * SECOND
            return Suppression("WaitPeriod", "waiting for the suppressor alarm", until_ms)
        return None

    def _suppressor_changed(self, name: str, suppressor: Alarm) -> None:
        alarm = self.get(suppressor.space, name)
        if alarm is None or alarm.config.suppressor is None or alarm.suppressed is None:
            return
        waiting = alarm.suppressed
        if suppressor.status.state == "ALARM":
            waiting = Suppression("Alarm", "the suppressor alarm is in ALARM", None)
        elif waiting.by == "Alarm":
            until_ms = self._shard.clock.wall_ms() + alarm.config.suppressor.extension_s * SECOND
            waiting = Suppression("ExtensionPeriod", "the suppressor alarm has left ALARM", until_ms)
        if waiting != alarm.suppressed:
            self._save(msgspec.structs.replace(alarm, suppressed=waiting))

    async def end_all_waits(self) -> None:
        for space in list(self._waiting):
            await self._run(self._end_waits(space), space)

    def _end_waits(self, space: Space) -> Steps[None]:
        """Carry out actions that were put off until now."""
        for name in sorted(self._waiting.get(space, ())):
            alarm = self.get(space, name)
            waiting = None if alarm is None else alarm.suppressed
            if alarm is None or alarm.undecided or waiting is None or waiting.until_ms is None:
                continue
            if waiting.until_ms <= self._shard.clock.wall_ms():
                before = alarm.before
                alarm = msgspec.structs.replace(alarm, suppressed=None, before=None)
                self._save(alarm)
                if before is not None:
                    self._actions.add(alarm, before)
            yield

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
        if present is None or present.config is not alarm.config or present.tags is not alarm.tags:
            self._set_cost(alarm, alarm.cost)
        self._by_space.setdefault(alarm.space, {})[alarm.name] = alarm
        _keep(self._waiting, alarm, alarm.suppressed is not None)
        _keep(self._undecided, alarm, alarm.undecided)

    def _set_cost(self, alarm: Alarm, cost: int) -> None:
        name, account = (alarm.space, alarm.name), alarm.space.account
        self._bytes[account] += cost - self._costs.pop(name, 0)
        if cost:
            self._costs[name] = cost
        if not self._bytes[account]:
            del self._bytes[account]

    def _leave(self, alarm: Alarm) -> None:
        name = alarm.space, alarm.name
        self._set_cost(alarm, 0)
        for child in self.children(alarm):
            _discard(self._parents, (alarm.space, child), alarm.name)
        if alarm.config.suppressor is not None:
            for suppressor in _named(alarm.space, (alarm.config.suppressor.alarm,)):
                _discard(self._suppressed, (alarm.space, suppressor), alarm.name)
        self._rules.pop(name, None)
        _keep(self._waiting, alarm, False)
        _keep(self._undecided, alarm, False)
        del self._by_space[alarm.space][alarm.name]
        if not self._by_space[alarm.space]:
            del self._by_space[alarm.space]

    def _undone(self, key: str, alarm: Alarm | None) -> None:
        """A refused commit had changed this alarm: it is again what it was. Both it and those that look at it are
        judged again, later: the store may refuse more."""
        if alarm is not None:
            self._enter(alarm)
            self._note_changed(alarm.space, [*self.children(alarm), alarm.name])
        else:
            name = Home.rest_of_key(key)
            for alarms in list(self._by_space.values()):
                if (alarm := alarms.get(name)) is not None and _key(alarm) == key:
                    self._leave(alarm)


def _named(space: Space, names_or_arns: Iterable[str]) -> list[str]:
    """The names of alarms of this space."""
    named = (alarm_named(space, each) for each in names_or_arns)
    return [name for name in named if name is not None]


def _transition(cause: Alarm) -> str:
    at = time.strftime("%A %d %B, %Y %H:%M:%S UTC", time.gmtime(cause.status.changed_ms / SECOND))
    return f"{cause.arn} transitioned to {cause.status.state} at {at}"


def _keep(index: defaultdict[Space, set[str]], alarm: Alarm, kept: bool) -> None:
    if kept:
        index[alarm.space].add(alarm.name)
    elif alarm.space in index:
        index[alarm.space].discard(alarm.name)
        if not index[alarm.space]:
            del index[alarm.space]


def _discard(index: dict[AlarmName, set[str]], key: AlarmName, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _key(alarm: Alarm) -> str:
    return alarms_home(alarm.space).key(alarm.name)
