"""Composite alarms of any shape against a simple model: states, one item of the history and one action per change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monitoring.alarms import arn
from monitoring.world import SPACE, MonitoringWorld
from penstock.metrics.alarms import AlarmRule, AlarmState
from penstock.metrics.series import MetricKey
from penstock.monitoring.alarm_records import AlarmConfig, MetricStat, Suppressor
from support.generated import examples

HOOK = "https://hooks.example.com/alarms"
HOOKS: dict[str, Any] = {"ok_actions": (HOOK,), "alarm_actions": (HOOK,), "insufficient_actions": (HOOK,)}
RULE = AlarmRule(period_s=60, periods=1, comparison="GreaterThanThreshold", threshold=1, missing="ignore")
STAT = MetricStat(MetricKey("App", "Errors", ()), 60, "Sum")
STATES: tuple[AlarmState, ...] = ("OK", "ALARM", "INSUFFICIENT_DATA")

States = dict[str, str]
Rule = tuple[str, Callable[[States], bool]]
"""Its text, and what it means."""


def _leaf(state: str, child: str) -> Rule:
    return f"{state}({child})", lambda states: states[child] == state


def _not(of: Rule) -> Rule:
    return f"NOT ({of[0]})", lambda states: not of[1](states)


def _both(left: Rule, right: Rule) -> Rule:
    return f"({left[0]}) AND ({right[0]})", lambda states: left[1](states) and right[1](states)


def _either(left: Rule, right: Rule) -> Rule:
    return f"({left[0]}) OR ({right[0]})", lambda states: left[1](states) or right[1](states)


def rules(children: list[str]) -> st.SearchStrategy[Rule]:
    leaves = st.builds(_leaf, st.sampled_from(STATES), st.sampled_from(children))
    return st.recursive(
        leaves,
        lambda of: st.one_of(st.builds(_not, of), st.builds(_both, of, of), st.builds(_either, of, of)),
        max_leaves=5,
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, Rule]]]:
    """The names of metric alarms; composite alarms, each after those that it looks at. Names are in any order."""
    metrics, composites = draw(st.integers(1, 2)), draw(st.integers(2, 8))
    names = draw(st.permutations([f"n{number}" for number in range(metrics + composites)]))
    return names[:metrics], [
        (names[number], draw(rules(names[:number]))) for number in range(metrics, metrics + composites)
    ]


class Heard:
    """What the history and a web hook heard of changes, since the last look."""

    def __init__(self, world: MonitoringWorld) -> None:
        self.world = world
        self.here = world.monitoring.of_alarms(SPACE)
        self._keys: set[str] = set()

    def posted(self) -> list[tuple[str, str]]:
        self.world.run()
        bodies = [json.loads(body) for _, body in self.world.posted]
        self.world.posted.clear()
        return sorted((body["AlarmName"], body["NewStateValue"]) for body in bodies)

    def changes(self) -> list[tuple[str, str]]:
        items = [each for each in self.here.history.of(SPACE) if each[0] not in self._keys]
        self._keys |= {key for key, _ in items}
        changes: list[tuple[str, str]] = sorted(
            (item.alarm, item.after.state) for _, item in items if item.kind == "state" and item.after
        )
        assert self.posted() == changes
        return changes


def set_state(heard: Heard, name: str, state: AlarmState) -> None:
    heard.here.alarms.set_state(heard.here.alarms.find(SPACE, name), state, "set by a test", None)
    heard.here.alarms.follow(SPACE)


def put(heard: Heard, name: str, **config: Any) -> None:
    heard.here.alarms.put(SPACE, AlarmConfig(name=name, **HOOKS, **config), {})
    heard.here.alarms.follow(SPACE)


@settings(max_examples=examples(100), deadline=None)
@given(graphs(), st.data())
def test_one_change_settles_everything_above_it(
    graph: tuple[list[str], list[tuple[str, Rule]]], data: st.DataObject
) -> None:
    metrics, composites = graph
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        heard = Heard(world)
        model: States = {}
        for name in metrics:
            put(heard, name, rule=RULE, stat=STAT)
            model[name] = "INSUFFICIENT_DATA"
        for name, (text, holds) in composites:
            put(heard, name, composite_rule=text)
            model[name] = "ALARM" if holds(model) else "OK"
        heard.changes()
        for _ in range(6):
            name, state = data.draw(st.sampled_from(metrics)), data.draw(st.sampled_from(STATES))
            before, model[name] = dict(model), state
            for composite, (_, holds) in composites:
                model[composite] = "ALARM" if holds(model) else "OK"
            set_state(heard, name, state)
            assert {alarm.name: alarm.status.state for alarm in heard.here.alarms.of(SPACE)} == model
            expected = sorted((each, model[each]) for each in model if model[each] != before[each])
            assert heard.changes() == expected


def test_an_alarm_over_another_and_a_parent_of_it() -> None:
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        heard = Heard(world)
        put(heard, "x", rule=RULE, stat=STAT)
        put(heard, "b", composite_rule="ALARM(x)")
        put(heard, "a", composite_rule="ALARM(x) AND NOT ALARM(b)")  # before b by its name
        heard.changes()
        set_state(heard, "x", "ALARM")
        assert heard.changes() == [("b", "ALARM"), ("x", "ALARM")], "a stays OK all the time"


def test_a_suppressor_that_changes_with_the_alarm_suppresses_it() -> None:
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        heard = Heard(world)
        put(heard, "x", rule=RULE, stat=STAT)
        put(heard, "suppressor", composite_rule="ALARM(x)")
        put(heard, "a", composite_rule="ALARM(x)", suppressor=Suppressor(arn("suppressor"), 0, 0))
        heard.changes()
        set_state(heard, "x", "ALARM")
        assert heard.posted() == [("suppressor", "ALARM"), ("x", "ALARM")]
        set_state(heard, "x", "OK")
        assert heard.posted() == [("suppressor", "OK"), ("x", "OK")], "it was over before anybody heard of it"
