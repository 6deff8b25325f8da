"""Composite alarms: they follow the alarms of their rule, and may be kept from acting."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from monitoring.alarms import arn, described, put_alarm, set_state, state, summaries
from monitoring.world import SPACE, MonitoringWorld
from penstock.errors import StoreError
from penstock.limits import SECOND
from penstock.promise import Promise
from penstock.turns import Steps, Turns

HOOK = "https://hooks.example.com/alarms"


def put_composite(cw: Any, name: str, rule: str, **more: Any) -> None:
    cw.put_composite_alarm(AlarmName=name, AlarmRule=rule, **more)


@pytest.fixture
def children(cw: Any) -> None:
    for name in ("a", "b"):
        put_alarm(cw, name)


@pytest.mark.usefixtures("children")
def test_a_composite_alarm_follows_its_children(world: MonitoringWorld, cw: Any) -> None:
    put_composite(cw, "both", f'ALARM(a) AND ALARM("{arn("b")}")', AlarmDescription="all is lost")
    found = described(cw, "both")
    assert (found["StateValue"], found["AlarmDescription"]) == ("OK", "all is lost")
    assert found["StateReason"] == f"{arn('both')} was created and its alarm rule evaluates to OK"
    set_state(cw, "a", "ALARM")
    assert state(cw, "both") == "OK"
    set_state(cw, "b", "ALARM")
    found = described(cw, "both")
    assert found["StateValue"] == "ALARM"
    assert re.fullmatch(
        rf"{arn('b')} transitioned to ALARM at \w+ \d\d \w+, \d{{4}} \d\d:\d\d:\d\d UTC", found["StateReason"]
    )
    triggering = json.loads(found["StateReasonData"])["triggeringAlarms"]
    assert [each["arn"] for each in triggering] == [arn("a"), arn("b")]
    assert {each["state"]["value"] for each in triggering} == {"ALARM"}
    set_state(cw, "a", "OK")
    assert state(cw, "both") == "OK"
    world.crash()
    set_state(cw, "a", "ALARM")
    assert state(cw, "both") == "ALARM"


@pytest.mark.usefixtures("children")
def test_a_second_child_in_alarm_changes_nothing(cw: Any) -> None:
    put_composite(cw, "any", "ALARM(a) OR ALARM(b)")
    set_state(cw, "a", "ALARM")
    before = described(cw, "any")
    set_state(cw, "b", "ALARM")
    assert described(cw, "any") == before


@pytest.mark.usefixtures("children")
def test_composites_of_composites_change_at_once(cw: Any) -> None:
    put_composite(cw, "c1", "ALARM(a)")
    put_composite(cw, "c2", "NOT ALARM(c1)")
    put_composite(cw, "c3", "ALARM(c2) OR ALARM(b)")
    assert [state(cw, name) for name in ("c1", "c2", "c3")] == ["OK", "ALARM", "ALARM"]
    set_state(cw, "a", "ALARM")
    assert [state(cw, name) for name in ("c1", "c2", "c3")] == ["ALARM", "OK", "OK"]
    shown = cw.describe_alarms(AlarmTypes=["CompositeAlarm"])
    assert [alarm["AlarmName"] for alarm in shown["CompositeAlarms"]] == ["c1", "c2", "c3"]
    assert shown["MetricAlarms"] == []
    of_a = cw.describe_alarms(ParentsOfAlarmName="a")["CompositeAlarms"]
    assert [alarm["AlarmName"] for alarm in of_a] == ["c1"]
    of_c3 = cw.describe_alarms(ChildrenOfAlarmName="c3")
    assert [alarm["AlarmName"] for alarm in of_c3["CompositeAlarms"]] == ["c2"]
    assert [alarm["AlarmName"] for alarm in of_c3["MetricAlarms"]] == ["b"]


def test_a_chain_of_composites_may_be_long(cw: Any) -> None:
    put_alarm(cw, "c0")
    for number in range(1, 600):
        put_composite(cw, f"c{number}", f"ALARM(c{number - 1})")
    set_state(cw, "c0", "ALARM")
    assert (state(cw, "c1"), state(cw, "c599")) == ("ALARM", "ALARM")


def test_both_parents_change_before_what_looks_at_both(cw: Any) -> None:
    put_alarm(cw, "a")
    for name in ("left", "right"):
        put_composite(cw, name, "ALARM(a)")
    put_composite(cw, "one", "(ALARM(left) AND NOT ALARM(right)) OR (ALARM(right) AND NOT ALARM(left))")
    set_state(cw, "a", "ALARM")
    assert state(cw, "one") == "OK"


@pytest.mark.usefixtures("children")
def test_a_circle_ends(cw: Any) -> None:
    put_composite(cw, "c1", "ALARM(a)")
    put_composite(cw, "c2", "NOT ALARM(c1)")
    put_composite(cw, "c1", "ALARM(a) AND NOT ALARM(c2)")
    for value in ("ALARM", "OK", "ALARM"):
        set_state(cw, "a", value)
        assert state(cw, "c1") in ("ALARM", "OK")


def refused(call: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.usefixtures("children")
def test_what_a_rule_names_must_exist(cw: Any) -> None:
    text = "Could not save the composite alarm as alarms [x, y] in the alarm rule do not exist"
    assert refused(lambda: put_composite(cw, "c", "ALARM(a) OR ALARM(x) OR OK(y)")) == (
        "ValidationError",
        text,
    )
    other = arn("a").replace("eu-west-1", "us-east-1")
    assert "do not exist" in refused(lambda: put_composite(cw, "c", f"ALARM({other})"))[1]
    assert refused(lambda: put_composite(cw, "c", "ALARM(c)"))[0] == "ValidationError"
    code, message = refused(lambda: put_composite(cw, "c", "ALARM(a) AND"))
    assert (code, message) == (
        "ValidationError", "Error parsing the alarm rule: the rule ends where a condition is expected.",
    )  # fmt: skip
    assert "that of a metric alarm" in refused(lambda: put_composite(cw, "a", "TRUE"))[1]
    put_composite(cw, "c", "TRUE")
    assert "that of a composite alarm" in refused(lambda: put_alarm(cw, "c"))[1]


@pytest.mark.usefixtures("children")
def test_a_child_cannot_be_deleted(cw: Any) -> None:
    put_composite(cw, "c", "ALARM(a) AND ALARM(b)")
    assert refused(lambda: cw.delete_alarms(AlarmNames=["a"])) == (
        "ValidationError", "Cannot delete a as there are composite alarm(s) depending on it.",
    )  # fmt: skip
    assert refused(lambda: cw.delete_alarms(AlarmNames=["a", "b"])) == (
        "ValidationError", "Cannot delete a,b as there are composite alarm(s) depending on them.",
    )  # fmt: skip
    cw.delete_alarms(AlarmNames=["a", "b", "c"])
    assert cw.describe_alarms(AlarmTypes=["CompositeAlarm", "MetricAlarm"])["MetricAlarms"] == []


@pytest.mark.usefixtures("children")
def test_two_composite_alarms_are_deleted_one_after_the_other(cw: Any) -> None:
    put_composite(cw, "c1", "TRUE")
    put_composite(cw, "c2", "TRUE")
    assert refused(lambda: cw.delete_alarms(AlarmNames=["c1", "c2"]))[0] == "ValidationError"
    cw.delete_alarms(AlarmNames=["c1"])
    cw.delete_alarms(AlarmNames=["c2"])


class Suppressed:
    """A composite alarm ``c`` of ``a`` that ``s`` suppresses, with a queue that hears of its changes."""

    def __init__(self, world: MonitoringWorld, wait_s: int, extension_s: int) -> None:
        self.world = world
        self.cw = world.client()
        self.sqs = world.client("sqs")
        self.url = self.sqs.create_queue(QueueName="q")["QueueUrl"]
        put_alarm(self.cw, "a", ActionsEnabled=False, TreatMissingData="ignore")
        put_alarm(self.cw, "s", ActionsEnabled=False, TreatMissingData="ignore")
        put_composite(
            self.cw, "c", "ALARM(a)", ActionsSuppressor="s", ActionsSuppressorWaitPeriod=wait_s,
            ActionsSuppressorExtensionPeriod=extension_s, AlarmActions=[arn("q", "sqs")], OKActions=[arn("q", "sqs")],
        )  # fmt: skip
        self.heard()

    def heard(self) -> list[str]:
        """The states that the queue heard of since the last call."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                found.append(json.loads(message["Body"])["NewStateValue"])
        return found

    def by(self) -> str | None:
        return described(self.cw, "c").get("ActionsSuppressedBy")


def test_actions_wait_for_a_suppressor_that_does_not_come(world: MonitoringWorld) -> None:
    c = Suppressed(world, wait_s=60, extension_s=30)
    set_state(c.cw, "a", "ALARM")
    assert (c.by(), c.heard()) == ("WaitPeriod", [])
    world.advance(80 * SECOND)
    assert (c.by(), c.heard()) == (None, ["ALARM"])
    set_state(c.cw, "a", "OK")
    assert c.heard() == ["OK"]


def test_actions_are_suppressed_and_run_after_the_extension_period(world: MonitoringWorld) -> None:
    c = Suppressed(world, wait_s=60, extension_s=30)
    set_state(c.cw, "a", "ALARM")
    set_state(c.cw, "s", "ALARM")
    assert c.by() == "Alarm"
    world.advance(600 * SECOND)
    assert c.heard() == []
    world.crash()
    set_state(c.cw, "s", "OK")
    assert c.by() == "ExtensionPeriod"
    world.advance(50 * SECOND)
    assert (c.by(), c.heard()) == (None, ["ALARM"])


def test_an_alarm_that_is_over_before_anybody_heard_of_it(world: MonitoringWorld) -> None:
    c = Suppressed(world, wait_s=60, extension_s=30)
    set_state(c.cw, "a", "ALARM")
    set_state(c.cw, "a", "OK")
    world.advance(600 * SECOND)
    assert (c.by(), c.heard()) == (None, [])


def test_a_suppressor_in_alarm_suppresses_at_once(world: MonitoringWorld) -> None:
    c = Suppressed(world, wait_s=0, extension_s=0)
    set_state(c.cw, "s", "ALARM")
    set_state(c.cw, "a", "ALARM")
    assert (c.by(), c.heard()) == ("Alarm", [])
    set_state(c.cw, "s", "OK")
    assert (c.by(), c.heard()) == (None, ["ALARM"])
    assert summaries(c.cw, "c", HistoryItemType="Action")[-1].startswith("Successfully executed action")


def test_a_suppressor_needs_its_periods(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, "s")
    assert "are required" in refused(lambda: put_composite(cw, "c", "TRUE", ActionsSuppressor="s"))[1]
    assert "is required" in refused(lambda: put_composite(cw, "c", "TRUE", ActionsSuppressorWaitPeriod=1))[1]
    periods = {"ActionsSuppressorWaitPeriod": 1, "ActionsSuppressorExtensionPeriod": 1}
    assert (
        "do not exist" in refused(lambda: put_composite(cw, "c", "TRUE", ActionsSuppressor="x", **periods))[1]
    )


class CrashingTurns(Turns):
    """Counts the pauses of work, and never continues after this many."""

    def __init__(self, pauses_max: float = float("inf")) -> None:
        super().__init__()
        self.pauses = 0
        self._pauses_max = pauses_max
        self._never: Promise[Any] = Promise()

    async def run(self, steps: Steps[Any], of: str = "") -> Any:
        while self.pauses < self._pauses_max:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value
            self.pauses += 1
        return await self._never


def wide(cw: Any, count: int) -> None:
    """Many composite alarms above one alarm, and one above them all."""
    put_alarm(cw, "x", TreatMissingData="ignore")
    for number in range(count):
        put_composite(cw, f"c{number}", "ALARM(x)", AlarmActions=[HOOK])
    every = " AND ".join(f"ALARM(c{number})" for number in range(count))
    put_composite(cw, "top", every, AlarmActions=[HOOK])


def test_composites_above_an_alarm_are_judged_in_turns() -> None:
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        cw = world.client()
        wide(cw, 30)
        turns = CrashingTurns()
        world.monitoring.of_alarms(SPACE).alarms._turns = turns
        set_state(cw, "x", "ALARM")
        assert turns.pauses >= 30
        assert state(cw, "top") == "ALARM"


def test_a_crash_between_the_turns_loses_no_change_and_no_action() -> None:
    for pauses_max in range(0, 50, 3):
        with MonitoringWorld(webhooks=(HOOK,)) as world:
            cw = world.client()
            wide(cw, 4)
            world.posted.clear()
            world.advance(SECOND)
            alarms = world.monitoring.of_alarms(SPACE).alarms
            alarms._turns = CrashingTurns(pauses_max)
            alarms.set_state(alarms.find(SPACE, "x"), "ALARM", "set by a test", None)
            alarms.follow(SPACE)
            world.run()
            world.crash()
            names = ["c0", "c1", "c2", "c3", "top"]
            assert [state(world.client(), name) for name in names] == ["ALARM"] * 5, pauses_max
            assert sorted(json.loads(body)["AlarmName"] for _, body in world.posted) == names, pauses_max


def test_changes_of_a_refused_commit_are_judged_again() -> None:
    with MonitoringWorld(webhooks=(HOOK,)) as world:
        cw = world.client()
        wide(cw, 4)
        alarms = world.monitoring.of_alarms(SPACE).alarms
        world.advance(SECOND)
        alarms.set_state(alarms.find(SPACE, "x"), "ALARM", "set by a test", None)
        world.run()
        world.stores[0].refusals.append(StoreError("refused by the test"))
        alarms.follow(SPACE)
        world.run()
        assert state(cw, "top") == "OK"
        world.minutes(1)
        assert state(cw, "top") == "ALARM"
        assert sorted(json.loads(body)["AlarmName"] for _, body in world.posted) == [
            "c0",
            "c1",
            "c2",
            "c3",
            "top",
        ]


def test_a_composite_alarm_that_was_set_by_hand_stays_so_after_a_start(
    world: MonitoringWorld, cw: Any
) -> None:
    put_alarm(cw, "x", TreatMissingData="ignore")
    put_composite(cw, "c", "ALARM(x)")
    world.advance(SECOND)
    set_state(cw, "c", "ALARM")
    world.crash()
    assert state(world.client(), "c") == "ALARM"
