"""Accounts share the evaluation of alarms: one with many or expensive alarms delays only its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from monitoring.alarms import put_alarm, set_state, state, summaries
from monitoring.world import REGION, MonitoringWorld
from penstock.limits import MINUTE, SECOND
from penstock.metrics.alarms import AlarmRule
from penstock.metrics.series import MetricKey
from penstock.monitoring.actions import ALARM_ACTIONS
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import (
    Alarm,
    AlarmConfig,
    AlarmQuery,
    AlarmStatus,
    HistoryItem,
    MetricStat,
    alarms_home,
)
from penstock.monitoring.due_alarms import WORK_PER_TURN, DueAlarms, work_of
from penstock.monitoring.metric_store import metrics_home
from penstock.names import Space
from penstock.promise import Promise

BUSY, QUIET = "111111111111", "222222222222"
STATUS = AlarmStatus(state="OK", reason="", updated_ms=0, changed_ms=0)


def alarm(account: str, name: str, *, hours: int = 1, metrics: int = 1) -> Alarm:
    rule = AlarmRule(period_s=3600, periods=hours, comparison="GreaterThanThreshold", threshold=1)
    stat = MetricStat(MetricKey("App", "Errors", ()), 3600, "Sum")
    queries = tuple(AlarmQuery(id=f"m{number}", stat=stat) for number in range(metrics))
    config = AlarmConfig(name=name, rule=rule, queries=queries)
    return Alarm(space=Space(account, REGION), config=config, configured_ms=0, status=STATUS)


def taken_names(due: DueAlarms) -> list[str]:
    return [each.name for each in due.take()]


def test_accounts_take_turns_whatever_their_alarms_take() -> None:
    due = DueAlarms()
    heavy = [alarm(BUSY, f"heavy{number}", hours=160, metrics=10) for number in range(50)]
    light = [alarm(QUIET, f"light{number}") for number in range(100)]
    due.add(heavy)
    due.add(light)
    order: list[str] = []
    while names := taken_names(due):
        order += names
    assert sorted(order) == sorted(each.name for each in [*heavy, *light]), "each was taken once"
    work = work_of(light[0].config) * len(light)
    assert work > WORK_PER_TURN, "the light ones need several turns"
    before = [name for name in order[: order.index("light99")] if name.startswith("heavy")]
    # The busy account did at most as much as the quiet one, and what one turn allows.
    assert len(before) * work_of(heavy[0].config) <= work + 2 * WORK_PER_TURN


def test_an_alarm_that_waits_keeps_its_place_and_waits_once() -> None:
    due = DueAlarms()
    due.add(alarm(BUSY, name, hours=60) for name in ("a", "b"))
    assert taken_names(due) == ["a"]
    due.add(alarm(BUSY, name, hours=60) for name in ("a", "b"))
    assert (taken_names(due), taken_names(due), taken_names(due)) == (["b"], ["a"], [])
    due.add([alarm(BUSY, "a"), alarm(QUIET, "b")])
    due.drop(BUSY)
    assert (taken_names(due), taken_names(due)) == (["b"], [])


class SlowWorld(MonitoringWorld):
    """Some steps of the loop take ten seconds."""

    def pass_slowly(self, ms: int, steps_per_tick: int) -> None:
        until_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < until_ms:
            self.runtime.fire()
            for _ in range(steps_per_tick):
                self.runtime.step()
            self.clock.advance(10 * SECOND)


def put_math_alarms(cw: Any, count: int) -> None:
    metric = {"Namespace": "App", "MetricName": "Errors"}
    for number in range(count):
        cw.put_metric_alarm(
            AlarmName=f"busy{number:03d}", EvaluationPeriods=24, Threshold=0,
            ComparisonOperator="GreaterThanThreshold",
            Metrics=[
                {"Id": "e", "Expression": "FILL(m, 0) + 1"},
                {"Id": "m", "MetricStat": {"Metric": metric, "Period": 3600, "Stat": "Sum"}, "ReturnData": False},
            ],
        )  # fmt: skip


def test_an_account_that_cannot_be_finished_in_time_does_not_delay_another() -> None:
    with SlowWorld() as world:
        world.after_look()
        busy, quiet = world.client(account=BUSY), world.client(account=QUIET)
        put_math_alarms(busy, 200)
        put_alarm(quiet, "q", Threshold=0)
        values = [
            {"MetricName": "Errors", "Value": number % 2, "Timestamp": world.now + timedelta(minutes=number)}
            for number in range(6)
        ]
        quiet.put_metric_data(Namespace="App", MetricData=values)
        # A minute is long enough for a part of what the busy account wants.
        world.pass_slowly(6 * MINUTE + 20 * SECOND, steps_per_tick=60)
        here = world.monitoring.of_alarms(Space(QUIET, REGION))
        busy_changes = [item for _, item in here.history.of(Space(BUSY, REGION)) if item.kind == "state"]
        assert len(busy_changes) == 200, "each of its alarms has its turn"
        took_ms = busy_changes[-1].at_ms - busy_changes[0].at_ms
        assert took_ms > MINUTE, "but the busy account is late"
        changes = [item for _, item in here.history.of(Space(QUIET, REGION)) if item.kind == "state"]
        states = [item.after.state for item in changes if item.after is not None]
        assert states == ["OK", "ALARM", "OK", "ALARM", "OK", "ALARM"]
        minutes = [item.at_ms // MINUTE for item in changes]
        assert minutes == list(range(minutes[0], minutes[0] + 6)), "in the minute in which it was due"


def test_a_shard_that_does_not_answer_delays_only_alarms_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has two or three of these alarms: those about the shard stand before, beside and after others."""
    with MonitoringWorld(3) as world:
        world.after_look()
        home = alarms_home(Space(BUSY, REGION)).shard(3)
        gone = (home + 1) % 3
        accounts = [f"{number:012d}" for number in range(1000, 1100)]
        same = next(each for each in accounts if alarms_home(Space(each, REGION)).shard(3) == home)
        states: dict[str, list[tuple[str, bool]]] = {}
        for account in (BUSY, same):
            cw = world.client(account=account)
            for number in range(12):
                name = f"a{number:02d}"
                about = Space(account, REGION)
                namespaces = [f"App{each}{name}" for each in range(100)]
                is_gone = number in (0, 1, 5, 8)
                namespace = next(
                    each for each in namespaces if (metrics_home(about, each).shard(3) == gone) == is_gone
                )
                data = [{"MetricName": "Errors", "Value": 5}]
                cw.put_metric_data(Namespace=namespace, MetricData=data)
                put_alarm(
                    cw, name, Namespace=namespace, Period=3600, EvaluationPeriods=24, DatapointsToAlarm=1
                )
                states.setdefault(account, []).append((name, is_gone))
        asked: list[Any] = []
        ask = world.broker.ask

        def counted(question: Any, shards: Any = None) -> Any:
            asked.append(question)
            return ask(question, shards)

        monkeypatch.setattr(world.broker, "ask", counted)
        world.broker.drop_shard(gone)
        world.minutes()
        for account, alarms in states.items():
            cw = world.client(account=account)
            found = {name: state(cw, name) for name, _ in alarms}
            assert found == {name: "INSUFFICIENT_DATA" if is_gone else "ALARM" for name, is_gone in alarms}, (
                account
            )
        assert len(asked) < 20, "it is not asked for each alarm about it"
        world.stores[gone].close()
        world.open_shard(gone)
        world.minutes(2)
        assert state(world.client(account=BUSY), "a00") == "ALARM"


def test_the_loop_has_its_turn_between_alarms(world: MonitoringWorld) -> None:
    cw = world.client(account=BUSY)
    put_math_alarms(cw, 150)
    history = world.monitoring.of_alarms(Space(BUSY, REGION)).history
    world.clock.advance(MINUTE)
    world.runtime.fire()
    changes = [0]
    while world.runtime.step():
        changes.append(sum(item.kind == "state" for _, item in history.of(Space(BUSY, REGION))))
    assert changes[-1] == 150
    assert max(later - earlier for earlier, later in pairwise(changes)) == 1


HOOK = "https://hooks.example.com/alarms"


@pytest.fixture
def hooks() -> Iterator[MonitoringWorld]:
    """The web hooks of the busy account do not answer."""
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        world.after_look()
        world.hanging[BUSY] = Promise()
        yield world


def set_alarms(cw: Any, count: int, name: str) -> None:
    for number in range(count):
        put_alarm(cw, f"{name}{number}", AlarmActions=[f"{HOOK}/{name}"])
        set_state(cw, f"{name}{number}", "ALARM")


def test_web_hooks_that_do_not_answer_do_not_delay_those_of_another_account(hooks: MonitoringWorld) -> None:
    set_alarms(hooks.client(account=BUSY), 20, "busy")
    assert hooks.posted == []
    set_alarms(hooks.client(account=QUIET), 1, "quiet")
    assert [url for url, _ in hooks.posted] == [f"{HOOK}/quiet"]
    hooks.hanging.pop(BUSY).resolve(None)
    hooks.advance(SECOND)
    assert len(hooks.posted) == 21, "all are carried out in the end"


def test_an_account_with_more_actions_than_its_share_gets_no_further_ones(
    hooks: MonitoringWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ALARM_ACTIONS, "waiting_max", 10)
    busy, quiet = hooks.client(account=BUSY), hooks.client(account=QUIET)
    set_alarms(busy, 11, "busy")
    (refused,) = summaries(busy, "busy10", HistoryItemType="Action")
    assert refused.startswith("Failed to execute action")
    set_alarms(quiet, 1, "quiet")
    (done,) = summaries(quiet, "quiet0", HistoryItemType="Action")
    assert done.startswith("Successfully executed action")


def test_items_of_the_account_that_holds_most_are_forgotten_first() -> None:
    with MonitoringWorld() as world:
        here = world.monitoring.of_alarms(Space(QUIET, REGION))
        history = AlarmHistory(here.shard, bytes_max=50_000)
        quiet, busy = Space(QUIET, REGION), Space(BUSY, REGION)
        first_ms = world.clock.wall_ms()

        def add(space: Space, number: int, text: str = "") -> None:
            status = msgspec.structs.replace(STATUS, reason=text)
            name, at_ms = f"a{number % 7}", first_ms + number
            history.add(HistoryItem(space=space, alarm=name, at_ms=at_ms, kind="state", after=status))

        for number in range(10):
            add(quiet, number)
        for number in range(10, 300):
            add(busy, number, "r" * 1000)
        assert len(list(history.of(quiet))) == 10
        assert max(item.at_ms for _, item in history.of(busy)) == first_ms + 299, (
            "its oldest items are forgotten"
        )
        for number in range(300, 400):
            add(quiet, number)
        held = [sum(item.cost for _, item in history.of(space)) for space in (quiet, busy)]
        assert sum(held) <= 50_000
        assert min(held) > 20_000, "both want more than their share"
