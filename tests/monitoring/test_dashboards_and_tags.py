"""Dashboards, and the tags of dashboards and alarms."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from botocore.exceptions import ClientError

from monitoring.alarms import arn, put_alarm
from monitoring.world import ACCOUNT, MonitoringWorld
from penstock.monitoring.limits import MonitoringLimits
from penstock.services.cloudwatch import dashboards
from penstock.services.cloudwatch.dashboards import _problems
from server.heaviest_requests import crowded_dashboards

BODY = json.dumps(
    {
        "start": "-PT3H",
        "widgets": [
            {
                "type": "text",
                "x": 0,
                "y": 0,
                "width": 6,
                "height": 3,
                "properties": {"markdown": "# Orders ü"},
            },
            {
                "type": "metric",
                "properties": {
                    "metrics": [["AWS/SQS", "NumberOfMessagesSent", "QueueName", "orders", {"stat": "Sum"}]],
                    "region": "eu-west-1",
                },
            },
        ],
    }
)


def test_a_dashboard_is_kept_as_it_is(world: MonitoringWorld, cw: Any) -> None:
    assert cw.put_dashboard(DashboardName="orders", DashboardBody=BODY)["DashboardValidationMessages"] == []
    world.crash()
    found = cw.get_dashboard(DashboardName="orders")
    assert (found["DashboardBody"], found["DashboardName"]) == (BODY, "orders")
    assert found["DashboardArn"] == f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/orders"
    (entry,) = cw.list_dashboards()["DashboardEntries"]
    assert (entry["DashboardName"], entry["Size"], entry["LastModified"]) == (
        "orders",
        len(BODY.encode()),
        world.now,
    )
    # Dashboards belong to the account, in all its regions.
    assert world.client(region="us-east-1").get_dashboard(DashboardName="orders")["DashboardBody"] == BODY
    cw.put_dashboard(DashboardName="orders", DashboardBody='{"widgets":[]}')
    assert cw.get_dashboard(DashboardName="orders")["DashboardBody"] == '{"widgets":[]}'
    cw.delete_dashboards(DashboardNames=["orders"])
    assert cw.list_dashboards()["DashboardEntries"] == []


def test_dashboards_are_listed_by_prefix_and_in_pages(
    world: MonitoringWorld, cw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboards, "LISTED_DASHBOARDS_MAX", 3)
    for number in range(7):
        cw.put_dashboard(DashboardName=f"d{number}", DashboardBody='{"widgets":[]}')
    cw.put_dashboard(DashboardName="other", DashboardBody='{"widgets":[]}')
    pages = cw.get_paginator("list_dashboards").paginate(DashboardNamePrefix="d")
    names = [[entry["DashboardName"] for entry in page["DashboardEntries"]] for page in pages]
    assert names == [["d0", "d1", "d2"], ["d3", "d4", "d5"], ["d6"]]


def test_as_many_dashboards_as_possible_are_deleted(world: MonitoringWorld, cw: Any) -> None:
    cw.put_dashboard(DashboardName="a", DashboardBody='{"widgets":[]}')
    with pytest.raises(ClientError, match="Dashboard none does not exist"):
        cw.delete_dashboards(DashboardNames=["a", "none"])
    assert cw.list_dashboards()["DashboardEntries"] == []


def test_an_account_has_so_many_dashboards_and_no_more() -> None:
    with MonitoringWorld(limits=MonitoringLimits(dashboards_max=2, dashboard_bytes_max=1000)) as world:
        cw = world.client()
        for name in ("a", "b", "a"):
            cw.put_dashboard(DashboardName=name, DashboardBody='{"widgets":[]}')
        for name, body in (("c", '{"widgets":[]}'), ("a", json.dumps({"widgets": [], "x": "y" * 1000}))):
            with pytest.raises(ClientError) as refused:
                cw.put_dashboard(DashboardName=name, DashboardBody=body)
            assert refused.value.response["Error"]["Code"] == "LimitExceeded"


def test_problems_of_a_dashboard_are_members_of_the_error(cw: Any) -> None:
    widgets = [{"type": "metric", "properties": {"metrics": [1]}}]
    with pytest.raises(cw.exceptions.DashboardInvalidInputError) as refused:
        cw.put_dashboard(DashboardName="a", DashboardBody=json.dumps({"widgets": widgets}))
    assert refused.value.response["dashboardValidationMessages"] == [
        {"DataPath": "/widgets/0/properties/metrics/0", "Message": "Should be array"}
    ]


def test_a_widget_has_so_many_metrics_and_no_more(cw: Any) -> None:
    def put(count: int) -> None:
        widgets = [{"type": "metric", "properties": {"metrics": [["N", "m"]] * count}}]
        cw.put_dashboard(DashboardName="a", DashboardBody=json.dumps({"widgets": widgets}))

    put(500)
    with pytest.raises(ClientError, match="Should NOT have more than 500 items"):
        put(501)


@pytest.mark.slow
def test_a_body_is_checked_piece_by_piece() -> None:
    for body in crowded_dashboards():
        steps = _problems(body)
        tracemalloc.start()
        for _ in steps:
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * len(body), f"objects of all its members were made: {body[:30]}"


def test_a_body_must_be_json_in_all_its_parts(cw: Any) -> None:
    for wrong in ('"\\x"', "01", "1e", "nul", "-", '"\n"', "[1,]"):
        with pytest.raises(ClientError, match="must be a valid JSON object"):
            cw.put_dashboard(DashboardName="a", DashboardBody=f'{{"widgets":[],"other":{wrong}}}')


def tags(cw: Any, of: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in cw.list_tags_for_resource(ResourceARN=of)["Tags"]}


@pytest.mark.parametrize("kind", ["alarm", "dashboard"])
def test_tags(world: MonitoringWorld, cw: Any, kind: str) -> None:
    given = [{"Key": "team", "Value": "shop"}]
    if kind == "alarm":
        put_alarm(cw, "a", Tags=given)
        name = arn("a")
    else:
        cw.put_dashboard(DashboardName="a", DashboardBody='{"widgets":[]}', Tags=given)
        name = f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/a"
    assert tags(cw, name) == {"team": "shop"}
    cw.tag_resource(ResourceARN=name, Tags=[{"Key": "team", "Value": "x"}, {"Key": "empty", "Value": ""}])
    world.crash()
    assert tags(cw, name) == {"team": "x", "empty": ""}
    cw.untag_resource(ResourceARN=name, TagKeys=["team", "unknown"])
    assert tags(cw, name) == {"empty": ""}
    if kind == "alarm":
        cw.delete_alarms(AlarmNames=["a"])
    else:
        cw.put_dashboard(DashboardName="a", DashboardBody='{"widgets":[]}')
        assert tags(cw, name) == {"empty": ""}, "they stay when it is replaced"
        cw.delete_dashboards(DashboardNames=["a"])
    assert tags(cw, name) == {}, "CloudWatch: of what does not exist there are none"
    with pytest.raises(ClientError) as refused:
        cw.tag_resource(ResourceARN=name, Tags=given)
    assert refused.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert refused.value.response["ResourceType"] == kind
