"""Authorization of every action of CloudWatch on a secured server, and what each acts on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.alarms import arn, put_alarm
from monitoring.world import ACCOUNT, MonitoringWorld
from penstock.auth.policy import compile_policy
from penstock.auth.policy.vocabulary import builtin_policies
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.names import Space
from penstock.services.cloudwatch import ACTIONS
from support.http_requests import json_request
from support.rows import every_row

ALARM = {
    "Namespace": "App", "MetricName": "m", "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
    "ComparisonOperator": "GreaterThanThreshold",
}  # fmt: skip
TIMES = {"StartTime": 1_700_000_000, "EndTime": 1_700_000_060}
DASHBOARD = f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/d"
EVERYTHING, ALARMS = "*", arn("*")

REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "PutMetricData": ({"Namespace": "App", "MetricData": [{"MetricName": "m", "Value": 1}]}, EVERYTHING),
    "ListMetrics": ({}, EVERYTHING),
    "GetMetricStatistics": (
        {"Namespace": "App", "MetricName": "m", "Period": 60, "Statistics": ["Sum"], **TIMES}, EVERYTHING,
    ),
    "GetMetricData": ({"MetricDataQueries": [{"Id": "e", "Expression": "TIME_SERIES(1)"}], **TIMES}, EVERYTHING),
    "PutMetricAlarm": ({"AlarmName": "a", **ALARM}, arn("a")),
    "PutCompositeAlarm": ({"AlarmName": "c", "AlarmRule": "TRUE"}, arn("c")),
    "DescribeAlarms": ({}, ALARMS),
    "DescribeAlarmsForMetric": ({"Namespace": "App", "MetricName": "m"}, ALARMS),
    "DescribeAlarmHistory": ({"AlarmName": "a"}, ALARMS),
    "SetAlarmState": ({"AlarmName": "a", "StateValue": "OK", "StateReason": ""}, arn("a")),
    "EnableAlarmActions": ({"AlarmNames": ["a"]}, arn("a")),
    "DisableAlarmActions": ({"AlarmNames": ["a"]}, arn("a")),
    "TagResource": ({"ResourceARN": arn("a"), "Tags": [{"Key": "k", "Value": "v"}]}, arn("a")),
    "UntagResource": ({"ResourceARN": arn("a"), "TagKeys": ["k"]}, arn("a")),
    "ListTagsForResource": ({"ResourceARN": DASHBOARD}, DASHBOARD),
    "PutDashboard": ({"DashboardName": "d", "DashboardBody": '{"widgets":[]}'}, DASHBOARD),
    "GetDashboard": ({"DashboardName": "d"}, DASHBOARD),
    "ListDashboards": ({}, EVERYTHING),
    "DeleteDashboards": ({"DashboardNames": ["d"]}, DASHBOARD),
    "DeleteAlarms": ({"AlarmNames": ["a"]}, arn("a")),
}  # fmt: skip


def user(*statements: dict[str, Any], account: str = ACCOUNT) -> Principal:
    text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    policies = (compile_policy(text, kind="identity"),) if statements else ()
    return Principal(
        kind="user", account=account, arn=f"arn:aws:iam::{account}:user/u", id="AIDA", policies=policies
    )


def allow(*actions: str, resource: str = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


@pytest.fixture
def world() -> Iterator[MonitoringWorld]:
    with MonitoringWorld() as made:
        cw = made.client()
        put_alarm(cw, "a", Tags=[{"Key": "team", "Value": "shop"}])
        put_alarm(cw, "b")
        cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        yield made


def ask(world: MonitoringWorld, action: str, principal: Principal, **members: Any) -> tuple[int, str]:
    world.principal = principal
    request = json_request(f"GraniteServiceVersion20100801.{action}", json.dumps(members).encode())
    space = Space(principal.account or ACCOUNT, "eu-west-1")
    response = world.answer(request, space)
    return response.status, json.loads(response.body).get("message", "") if response.body else ""


def test_there_is_a_request_for_every_action() -> None:
    assert set(REQUESTS) == set(ACTIONS)


@pytest.mark.parametrize("action", sorted(REQUESTS))
def test_an_action_needs_its_permission_on_what_it_acts_on(world: MonitoringWorld, action: str) -> None:
    members, resource = REQUESTS[action]
    others = [f"cloudwatch:{name}" for name in ACTIONS if name != action]
    for refused in (
        user(),
        user(allow(*others)),
        user(allow(f"cloudwatch:{action}", resource=arn("other"))),
        user(allow("cloudwatch:*"), {"Effect": "Deny", "Action": f"cloudwatch:{action}", "Resource": "*"}),
    ):
        status, message = ask(world, action, refused, **members)
        assert status == 403
        assert f"is not authorized to perform: cloudwatch:{action} on resource: {resource}" in message
    status, message = ask(world, action, user(allow(f"cloudwatch:{action}", resource=resource)), **members)
    assert (status, message) == (200, "")


@every_row("action", sorted(REQUESTS))
def test_callers_without_a_signature_are_refused(world: MonitoringWorld, action: str) -> None:
    status, message = ask(world, action, ANONYMOUS, **REQUESTS[action][0])
    assert (status, message) == (403, "Request is missing Authentication Token")


def test_another_account_sees_and_changes_nothing(world: MonitoringWorld) -> None:
    other = user(allow("*"), account="111111111111")
    assert ask(world, "SetAlarmState", other, **REQUESTS["SetAlarmState"][0])[0] == 400
    assert ask(world, "GetDashboard", other, DashboardName="d")[0] == 400
    status, message = ask(world, "TagResource", other, **REQUESTS["TagResource"][0])
    assert (status, message) == (400, f"The alarm {arn('a')} does not exist")
    world.principal = None
    assert world.client(account="111111111111").list_dashboards()["DashboardEntries"] == []


@pytest.mark.parametrize("action", ["DeleteAlarms", "EnableAlarmActions", "DisableAlarmActions"])
def test_many_alarms_need_the_permission_for_each(world: MonitoringWorld, action: str) -> None:
    only_a = user(allow("cloudwatch:*", resource=arn("a")))
    status, message = ask(world, action, only_a, AlarmNames=["a", "b"])
    assert (status, arn("b") in message) == (403, True)
    world.principal = None
    assert len(world.client().describe_alarms()["MetricAlarms"]) == 2, "nothing was done for the first one"


def test_conditions_on_namespaces_and_tags(world: MonitoringWorld) -> None:
    app = user(allow("cloudwatch:PutMetricData", Condition={"StringEquals": {"cloudwatch:namespace": "App"}}))
    members = REQUESTS["PutMetricData"][0]
    assert ask(world, "PutMetricData", app, **members)[0] == 200
    assert ask(world, "PutMetricData", app, **{**members, "Namespace": "Other"})[0] == 403
    shop = user(
        allow("cloudwatch:SetAlarmState", Condition={"StringEquals": {"aws:ResourceTag/team": "shop"}})
    )
    state = {"StateValue": "OK", "StateReason": ""}
    assert ask(world, "SetAlarmState", shop, AlarmName="a", **state)[0] == 200
    assert ask(world, "SetAlarmState", shop, AlarmName="b", **state)[0] == 403
    tagged = user(
        allow("cloudwatch:PutMetricAlarm", Condition={"StringEquals": {"aws:RequestTag/team": "shop"}})
    )
    assert ask(world, "PutMetricAlarm", tagged, AlarmName="n", **ALARM)[0] == 403
    tags = [{"Key": "team", "Value": "shop"}]
    assert ask(world, "PutMetricAlarm", tagged, AlarmName="n", Tags=tags, **ALARM)[0] == 200


BUILTIN = {
    "cloudwatch-full-access": set(ACTIONS),
    "cloudwatch-read-only": {name for name in ACTIONS if name.startswith(("Describe", "Get", "List"))},
    "cloudwatch-put-metrics": {"PutMetricData"},
}


def test_there_is_a_test_for_every_builtin_policy() -> None:
    assert set(BUILTIN) == {name for name in builtin_policies() if name.startswith("cloudwatch-")}


@pytest.mark.parametrize("policy", BUILTIN)
def test_what_builtin_policies_allow(world: MonitoringWorld, policy: str) -> None:
    statements = json.loads(builtin_policies()[policy])["Statement"]
    allowed = {
        action
        for action, (members, _) in REQUESTS.items()
        if ask(world, action, user(*statements), **members)[0] != 403
    }
    assert allowed == BUILTIN[policy]


def test_an_alarm_that_sends_to_a_queue_needs_more_than_full_access(world: MonitoringWorld) -> None:
    statements = json.loads(builtin_policies()["cloudwatch-full-access"])["Statement"]
    members = {"AlarmName": "n", "AlarmActions": [arn("q", "sqs")], **ALARM}
    assert ask(world, "PutMetricAlarm", user(*statements), **members)[0] == 403
    sends = allow("sqs:SendMessage", resource=arn("q", "sqs"))
    assert ask(world, "PutMetricAlarm", user(*statements, sends), **members)[0] == 200


def test_root_may_everything(world: MonitoringWorld) -> None:
    root = Principal(kind="root", account=ACCOUNT, arn=f"arn:aws:iam::{ACCOUNT}:root", id=ACCOUNT)
    for action, (members, _) in REQUESTS.items():
        assert ask(world, action, root, **members)[0] == 200, action
