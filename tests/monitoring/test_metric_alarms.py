"""Metric alarms at work: created, evaluated, changed, restarted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from monitoring.alarms import arn, described, put_alarm, put_errors, set_state, state, summaries
from monitoring.world import SPACE, MonitoringWorld
from penstock.limits import DAY, MINUTE, SECOND
from penstock.metrics.alarms import judge
from penstock.monitoring.alarm_history import ITEMS_PER_ALARM
from penstock.monitoring.limits import MonitoringLimits


def test_a_new_alarm_as_it_is_described(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    at = world.now
    assert described(cw) == {
        "AlarmName": "a", "AlarmArn": arn("a"), "AlarmConfigurationUpdatedTimestamp": at, "ActionsEnabled": True,
        "OKActions": [], "AlarmActions": [], "InsufficientDataActions": [], "StateValue": "INSUFFICIENT_DATA",
        "StateReason": "Unchecked: Initial alarm creation", "StateUpdatedTimestamp": at,
        "StateTransitionedTimestamp": at, "MetricName": "Errors", "Namespace": "App", "Statistic": "Sum",
        "Dimensions": [], "Period": 60, "EvaluationPeriods": 1, "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }  # fmt: skip


def test_everything_that_was_given_is_described(world: MonitoringWorld, cw: Any) -> None:
    given: dict[str, Any] = {
        "AlarmDescription": "many errors", "ActionsEnabled": False, "OKActions": [arn("t", "sns")],
        "AlarmActions": [arn("q", "sqs")], "InsufficientDataActions": ["arn:aws:automate:eu-west-1:ec2:stop"],
        "Statistic": None, "ExtendedStatistic": "p99.5", "Dimensions": [{"Name": "Host", "Value": "a"}],
        "Unit": "Count", "EvaluationPeriods": 3, "DatapointsToAlarm": 2, "TreatMissingData": "breaching",
        "EvaluateLowSampleCountPercentile": "ignore",
    }  # fmt: skip
    put_alarm(cw, **given)
    found = described(cw)
    assert {key: value for key, value in given.items() if value is not None}.items() <= found.items()
    assert "Statistic" not in found


def test_an_alarm_that_cannot_be_judged_keeps_no_other_from_it(
    world: MonitoringWorld, cw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_alarm(cw, AlarmName="broken", Threshold=99.0)
    put_alarm(cw, AlarmName="sound")

    def judge_or_fail(rule: Any, *given: Any) -> Any:
        if rule.threshold == 99.0:
            raise ZeroDivisionError
        return judge(rule, *given)

    monkeypatch.setattr("penstock.monitoring.evaluation.judge", judge_or_fail)
    put_errors(cw, 3)
    world.minutes()
    assert [state(cw, "broken"), state(cw, "sound")] == ["INSUFFICIENT_DATA", "ALARM"]


def test_the_state_follows_the_metric(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    put_errors(cw, 3)
    world.minutes()
    found = described(cw)
    assert found["StateValue"] == "ALARM"
    assert found["StateReason"].startswith("Threshold Crossed: 1 datapoint [3.0 (")
    data = json.loads(found["StateReasonData"])
    assert {
        "version": "1.0",
        "statistic": "Sum",
        "period": 60,
        "recentDatapoints": [3.0],
        "threshold": 1.0,
    }.items() <= (data.items())
    assert "unit" not in data
    assert data["evaluatedDatapoints"][0]["sampleCount"] == 1.0
    assert found["StateUpdatedTimestamp"] > found["AlarmConfigurationUpdatedTimestamp"]
    world.minutes(each=lambda: put_errors(cw, 1))
    assert state(cw) == "OK"
    world.minutes(4)
    assert state(cw) == "INSUFFICIENT_DATA"
    assert described(cw)["StateReason"] == "Insufficient Data: 1 datapoint was unknown."
    assert summaries(cw, HistoryItemType="StateUpdate") == [
        "Alarm updated from INSUFFICIENT_DATA to ALARM",
        "Alarm updated from ALARM to OK",
        "Alarm updated from OK to INSUFFICIENT_DATA",
    ]


def test_short_periods_are_looked_at_every_ten_seconds(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, Period=10)
    world.advance(4 * SECOND)
    put_errors(cw, 5, StorageResolution=1)
    world.advance(15 * SECOND)
    assert state(cw) == "ALARM"


def test_a_look_that_comes_late_is_about_the_full_minute(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    world.after_look()
    put_errors(cw, 5)
    world.clock.advance(MINUTE + 10 * SECOND)  # the process stood still
    world.advance(SECOND)
    assert state(cw) == "ALARM"


def test_data_from_before_the_alarm_count(world: MonitoringWorld, cw: Any) -> None:
    world.minutes(each=lambda: put_errors(cw, 5))
    put_alarm(cw)
    world.minutes()
    assert state(cw) == "ALARM"


@pytest.mark.parametrize(
    ("missing", "found"), [("breaching", "ALARM"), ("notBreaching", "OK"), ("ignore", "ALARM")]
)
def test_missing_data(world: MonitoringWorld, cw: Any, missing: str, found: str) -> None:
    put_alarm(cw, TreatMissingData=missing)
    set_state(cw, "a", "ALARM")
    world.minutes(3)
    assert state(cw) == found


def test_a_state_that_was_set_lasts_until_the_next_look(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    put_errors(cw, 1)
    world.minutes()
    set_state(cw, "a", "ALARM")
    assert described(cw)["StateReason"] == "set by a test"
    put_errors(cw, 1)
    world.minutes()
    assert state(cw) == "OK"


def test_percentiles(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, Statistic=None, ExtendedStatistic="p90", Threshold=50)
    put_alarm(
        cw,
        "few",
        Statistic=None,
        ExtendedStatistic="p90",
        Threshold=50,
        EvaluateLowSampleCountPercentile="ignore",
    )
    for value in range(1, 11):
        put_errors(cw, value * 10)
    world.minutes()
    assert (state(cw), state(cw, "few")) == ("ALARM", "INSUFFICIENT_DATA")
    cw.put_metric_data(
        Namespace="App",
        MetricData=[{"MetricName": "Errors", "Values": list(range(1, 101)), "Counts": [2] * 100}],
    )
    world.minutes()
    assert (state(cw), state(cw, "few")) == ("ALARM", "ALARM")


def metric(id: str, name: str, **more: Any) -> dict[str, Any]:
    stat = {"Metric": {"Namespace": "App", "MetricName": name}, "Period": 60, "Stat": "Sum"}
    return {"Id": id, "MetricStat": stat, "ReturnData": False, **more}


def put_math(cw: Any, expression: str, **more: Any) -> None:
    cw.put_metric_alarm(
        AlarmName="math", EvaluationPeriods=1, Threshold=0.1, ComparisonOperator="GreaterThanThreshold",
        Metrics=[
            metric("errors", "Errors"), metric("requests", "Requests"),
            {"Id": "rate", "Expression": expression, "Label": "error rate", "ReturnData": True},
        ],
        **more,
    )  # fmt: skip


def test_metric_math(world: MonitoringWorld, cw: Any) -> None:
    put_math(cw, "FILL(errors, 0) / requests")
    shown = described(cw, "math")["Metrics"]
    assert [query["Id"] for query in shown] == ["errors", "requests", "rate"]
    assert shown[2] == {
        "Id": "rate", "Expression": "FILL(errors, 0) / requests", "Label": "error rate", "ReturnData": True,
    }  # fmt: skip
    assert "Period" not in described(cw, "math")

    def requests(count: float) -> None:
        cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Requests", "Value": count}])

    requests(100)
    world.minutes()
    assert state(cw, "math") == "OK"
    requests(100)
    put_errors(cw, 20)
    world.minutes()
    assert state(cw, "math") == "ALARM"
    assert json.loads(described(cw, "math")["StateReasonData"])["recentDatapoints"] == [0.2]
    assert cw.describe_alarms_for_metric(Namespace="App", MetricName="Errors")["MetricAlarms"] == []


def test_an_alarm_is_replaced_and_keeps_its_state(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, AlarmDescription="first", Tags=[{"Key": "team", "Value": "shop"}])
    put_errors(cw, 3)
    world.minutes()
    put_alarm(cw, Threshold=10, Tags=[{"Key": "team", "Value": "other"}])
    found = described(cw)
    assert (found["StateValue"], found["Threshold"]) == ("ALARM", 10.0)
    assert "AlarmDescription" not in found
    tags = cw.list_tags_for_resource(ResourceARN=arn("a"))["Tags"]
    assert tags == [{"Key": "team", "Value": "shop"}], "tags are only for a new alarm"
    assert summaries(cw, HistoryItemType="ConfigurationUpdate") == ['Alarm "a" created', 'Alarm "a" updated']


@pytest.mark.parametrize("end", ["crash", "restart"])
def test_alarms_go_on_after_a_restart(world: MonitoringWorld, cw: Any, end: str) -> None:
    put_alarm(cw)
    put_errors(cw, 3)
    world.minutes()
    before = described(cw)
    getattr(world, end)()
    assert described(cw) == before
    assert len(summaries(cw)) == 2
    world.minutes(each=lambda: put_errors(cw, 0))
    assert state(cw) == "OK"


def test_a_refused_commit_changes_nothing(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    before = described(cw)
    for change in (
        lambda: put_alarm(cw, Threshold=7),
        lambda: put_alarm(cw, "b"),
        lambda: set_state(cw, "a", "ALARM"),
        lambda: cw.delete_alarms(AlarmNames=["a"]),
        lambda: cw.disable_alarm_actions(AlarmNames=["a"]),
    ):
        world.refuse_next_commit()
        with pytest.raises(ClientError) as refused:
            change()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert described(cw) == before
        assert [alarm["AlarmName"] for alarm in cw.describe_alarms()["MetricAlarms"]] == ["a"]
        assert len(summaries(cw)) == 1
    world.crash()
    assert described(cw) == before


def test_a_look_that_cannot_be_stored_is_made_again(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    world.advance(10 * SECOND)
    put_errors(cw, 3)
    world.advance(MINUTE - 16 * SECOND)
    world.refuse_next_commit()
    world.advance(20 * SECOND)
    assert state(cw) == "INSUFFICIENT_DATA"
    world.minutes()
    assert state(cw) == "ALARM"


@pytest.mark.slow
def test_a_history_is_kept_for_two_weeks_also_of_a_deleted_alarm(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    cw.delete_alarms(AlarmNames=["a"])
    put_alarm(cw, "other")
    assert summaries(cw) == ['Alarm "a" created', 'Alarm "a" deleted']
    world.advance(13 * DAY)
    assert len(summaries(cw)) == 2
    world.advance(2 * DAY)
    assert summaries(cw) == []
    world.crash()
    assert summaries(cw) == []


def test_a_shard_without_alarms_shows_no_old_history(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    cw.delete_alarms(AlarmNames=["a"])
    world.minutes()
    world.clock.advance(14 * DAY - 2 * MINUTE)
    assert len(summaries(cw)) == 2
    world.clock.advance(2 * MINUTE)
    assert summaries(cw) == []


def test_a_history_is_bounded(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    for number in range(600):
        set_state(cw, "a", "ALARM" if number % 2 else "OK")
    assert len(list(world.monitoring.of_alarms(SPACE).history.of(SPACE, "a"))) == ITEMS_PER_ALARM


def test_history_in_pages(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    for number in range(6):
        set_state(cw, "a", "ALARM" if number % 2 else "OK")
        world.advance(MINUTE // 10)
    pages = list(
        cw.get_paginator("describe_alarm_history").paginate(AlarmName="a", PaginationConfig={"PageSize": 3})
    )
    items = [item for page in pages for item in page["AlarmHistoryItems"]]
    assert len(pages) > 2
    assert [item["Timestamp"] for item in items] == sorted(
        (item["Timestamp"] for item in items), reverse=True
    )
    assert len({item["HistoryData"] + str(item["Timestamp"]) for item in items}) == len(items) >= 7
    since = cw.describe_alarm_history(AlarmName="a", StartDate=world.now - timedelta(seconds=15))
    assert 0 < len(since["AlarmHistoryItems"]) < len(items)
    assert cw.describe_alarm_history(AlarmTypes=["CompositeAlarm"])["AlarmHistoryItems"] == []


def test_regions_and_accounts_have_alarms_of_their_own(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    for other in (world.client(region="us-east-1"), world.client(account="111111111111")):
        assert other.describe_alarms()["MetricAlarms"] == []
        assert other.describe_alarm_history()["AlarmHistoryItems"] == []
        assert other.list_metrics()["Metrics"] == []
        with pytest.raises(ClientError):
            set_state(other, "a", "ALARM")
        put_alarm(other)
        put_errors(other, 5)
    world.minutes()
    assert state(cw) == "INSUFFICIENT_DATA"
    assert state(other) == "ALARM"


def test_an_account_has_so_many_alarms_and_no_more() -> None:
    with MonitoringWorld(limits=MonitoringLimits(alarms_max=2)) as world:
        cw = world.client()
        put_alarm(cw, "a")
        put_alarm(cw, "b")
        put_alarm(cw, "a", Threshold=2)
        with pytest.raises(ClientError) as refused:
            put_alarm(cw, "c")
        assert refused.value.response["Error"]["Code"] == "LimitExceeded"
        put_alarm(world.client(region="us-east-1"), "c")


def test_a_shard_without_alarms_has_no_timer(world: MonitoringWorld, cw: Any) -> None:
    fired = world.runtime.fired
    world.advance(59 * SECOND)
    idle = world.runtime.fired - fired
    put_alarm(cw)
    fired = world.runtime.fired
    world.advance(59 * SECOND)
    assert world.runtime.fired - fired > idle
    cw.delete_alarms(AlarmNames=["a"])
    world.advance(MINUTE)
    fired = world.runtime.fired
    world.advance(59 * SECOND)
    assert world.runtime.fired - fired <= idle + 1


@pytest.mark.slow
def test_many_alarms_are_looked_at_in_turns(world: MonitoringWorld, cw: Any) -> None:
    for number in range(250):
        put_alarm(cw, f"a{number:03d}", MetricName=f"m{number % 7}")
    for number in range(7):
        cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": f"m{number}", "Value": number}])
    world.minutes()
    pages = cw.get_paginator("describe_alarms").paginate()
    found = [alarm for page in pages for alarm in page["MetricAlarms"]]
    assert len(found) == 250
    assert {alarm["StateValue"] for alarm in found if alarm["MetricName"] in ("m0", "m1")} == {"OK"}
    assert {alarm["StateValue"] for alarm in found if alarm["MetricName"] in ("m2", "m6")} == {"ALARM"}


def test_an_expression_returns_data_unless_it_says_otherwise(world: MonitoringWorld, cw: Any) -> None:
    stat = {"Metric": {"Namespace": "App", "MetricName": "Errors"}, "Period": 60, "Stat": "Sum"}
    cw.put_metric_alarm(
        AlarmName="a", EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold",
        Metrics=[{"Id": "e", "Expression": "m * 2"}, {"Id": "m", "MetricStat": stat, "ReturnData": False}],
    )  # fmt: skip
    put_errors(cw, 1)
    world.minutes()
    assert state(cw) == "ALARM"


def test_the_alarms_of_an_account_have_so_many_bytes_and_no_more() -> None:
    with MonitoringWorld(limits=MonitoringLimits(alarm_bytes_max=10_000)) as world:
        cw, other = world.client(), world.client(account="111111111111")
        big = [{"Name": f"d{number}", "Value": "v" * 1000} for number in range(4)]
        put_alarm(cw, "a", Dimensions=big)
        put_alarm(cw, "b", Dimensions=big)
        bigger = [{"Name": f"d{number}", "Value": "v" * 1000} for number in range(7)]
        for name in ("b", "c"):
            with pytest.raises(ClientError, match="bytes of alarms") as refused:
                put_alarm(cw, name, Dimensions=bigger)
            assert refused.value.response["Error"]["Code"] == "LimitExceeded"
        put_alarm(other, "a", Dimensions=big)
        put_alarm(cw, "a")
        put_alarm(cw, "c", Dimensions=big)
        cw.delete_alarms(AlarmNames=["b"])
        put_alarm(cw, "d", Dimensions=big)
