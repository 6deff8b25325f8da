"""PutDashboard, GetDashboard, ListDashboards, DeleteDashboards."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from penstock.auth.authorize import authorize
from penstock.errors import DashboardMissing
from penstock.limits import SECOND
from penstock.services.cloudwatch.faults import cloudwatch_fault, invalid_value, missing
from penstock.services.cloudwatch.limits import (
    DASHBOARD_BODY_BYTES_MAX,
    DELETED_DASHBOARDS_MAX,
    LISTED_DASHBOARDS_MAX,
    NAME_LENGTH_MAX,
    WIDGETS_MAX,
)
from penstock.services.cloudwatch.resources import (
    CloudWatch,
    CloudWatchResource,
    all_dashboards,
    dashboard_resource,
)
from penstock.services.cloudwatch.structs import (
    DashboardEntry,
    DeleteDashboardsRequest,
    DeleteDashboardsResult,
    GetDashboardRequest,
    GetDashboardResult,
    ListDashboardsRequest,
    ListDashboardsResult,
    PutDashboardRequest,
    PutDashboardResult,
)
from penstock.services.cloudwatch.validation import given_tags, read_token, write_token
from penstock.wire.service import Call

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LENGTH_MAX}}}")
_WIDGET_TYPES = ("metric", "text", "alarm", "log", "explorer", "custom")
_PROBLEMS_MAX = 20


def named_dashboard(
    cw: CloudWatch, request: PutDashboardRequest | GetDashboardRequest, call: Call
) -> CloudWatchResource:
    """Raises Fault or NotOwned."""
    name = _name(request.DashboardName, "DashboardName")
    tags = given_tags(request.Tags) if isinstance(request, PutDashboardRequest) else {}
    return dashboard_resource(cw, name, call, tags)


def _name(name: str | None, parameter: str) -> str:
    if name is None:
        raise missing(parameter)
    if not _NAME.fullmatch(name):
        raise invalid_value(
            f"The value for field {parameter} contains invalid characters. It can only contain alphanumerics, "
            "dash (-) and underscore (_).\n"
        )
    return name


async def put_dashboard(cw: CloudWatch, request: PutDashboardRequest, call: Call) -> PutDashboardResult:
    body = request.DashboardBody
    if body is None:
        raise missing("DashboardBody")
    problems = _problems(body)
    if problems:
        count = (
            f"there are {len(problems)} validation errors"
            if len(problems) > 1
            else "there is 1 validation error"
        )
        raise cloudwatch_fault(
            "DashboardInvalidInputError",
            f"The dashboard body is invalid, {count}:\n{json.dumps(problems, indent=2)}",
            {
                "dashboardValidationMessages": [
                    {"DataPath": each["dataPath"], "Message": each["message"]} for each in problems
                ]
            },
        )
    home, account, name = call.resource.home, call.space.account, request.DashboardName or ""
    home.dashboards.put(account, name, body)
    if call.resource.request_tags:
        found = home.dashboards.find(account, name)
        home.dashboards.tag(found, {**found.tags, **call.resource.request_tags})
    await home.shard.settled()
    return PutDashboardResult(DashboardValidationMessages=[])


def _problems(body: str) -> list[dict[str, str]]:
    """What is wrong with the structure of a dashboard. What a widget shows is for those who draw it."""
    found: list[dict[str, str]] = []

    def wrong(path: str, message: str) -> None:
        if len(found) < _PROBLEMS_MAX:
            found.append({"dataPath": path, "message": message})

    if len(body.encode()) > DASHBOARD_BODY_BYTES_MAX:
        wrong("", f"Should not be larger than {DASHBOARD_BODY_BYTES_MAX} bytes")
        return found
    try:
        content: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        wrong("", "The field DashboardBody must be a valid JSON object")
        return found
    if not isinstance(content, dict):
        wrong("", "Should be object")
        return found
    widgets = content.get("widgets")
    if not isinstance(widgets, list):
        wrong("/widgets", "Should have required property 'widgets'" if widgets is None else "Should be array")
        return found
    if len(widgets) > WIDGETS_MAX:
        wrong("/widgets", f"Should NOT have more than {WIDGETS_MAX} items")
    for number, widget in enumerate(widgets[:WIDGETS_MAX]):
        _check_widget(f"/widgets/{number}", widget, wrong)
    return found


def _check_widget(path: str, widget: Any, wrong: Any) -> None:
    if not isinstance(widget, dict):
        wrong(path, "Should be object")
        return
    if widget.get("type") not in _WIDGET_TYPES:
        wrong(f"{path}/type", f"Should be equal to one of the allowed values: {', '.join(_WIDGET_TYPES)}")
    properties = widget.get("properties")
    if not isinstance(properties, dict):
        wrong(f"{path}/properties", "Should be object")
        return
    if widget.get("type") == "text" and not isinstance(properties.get("markdown"), str):
        wrong(f"{path}/properties/markdown", "Should be string")
    metrics = properties.get("metrics", [])
    if not isinstance(metrics, list):
        wrong(f"{path}/properties/metrics", "Should be array")
        return
    for number, metric in enumerate(metrics):
        if not isinstance(metric, list):
            wrong(f"{path}/properties/metrics/{number}", "Should be array")


async def get_dashboard(cw: CloudWatch, request: GetDashboardRequest, call: Call) -> GetDashboardResult:
    home = call.resource.home
    found = home.dashboards.find(call.space.account, request.DashboardName or "")
    await home.shard.settled()
    return GetDashboardResult(DashboardArn=found.arn, DashboardBody=found.body, DashboardName=found.name)


async def list_dashboards(cw: CloudWatch, request: ListDashboardsRequest, call: Call) -> ListDashboardsResult:
    home, account = call.resource.home, call.space.account
    prefix = request.DashboardNamePrefix or ""
    asked = [account, prefix]
    after = read_token(request.NextToken, asked) or ""
    found = [
        each for each in home.dashboards.of(account) if each.name.startswith(prefix) and each.name > after
    ]
    page = found[:LISTED_DASHBOARDS_MAX]
    await home.shard.settled()
    return ListDashboardsResult(
        DashboardEntries=[
            DashboardEntry(
                DashboardName=each.name,
                DashboardArn=each.arn,
                LastModified=each.modified_ms / SECOND,
                Size=len(each.body.encode()),
            )
            for each in page
        ],
        NextToken=write_token(asked, page[-1].name) if len(page) < len(found) else None,
    )


def dashboards_to_delete(cw: CloudWatch, request: DeleteDashboardsRequest, call: Call) -> CloudWatchResource:
    """The first of several; the handler asks for the others. Raises Fault or NotOwned."""
    names = request.DashboardNames
    if names is None:
        raise missing("DashboardNames")
    if len(names) > DELETED_DASHBOARDS_MAX:
        raise invalid_value(
            f"The collection DashboardNames must not have a size greater than {DELETED_DASHBOARDS_MAX}."
        )
    for name in names:
        _name(name, "DashboardNames")
    return dashboard_resource(cw, names[0], call) if names else all_dashboards(cw, request, call)


async def delete_dashboards(
    cw: CloudWatch, request: DeleteDashboardsRequest, call: Call
) -> DeleteDashboardsResult:
    names = list(dict.fromkeys(request.DashboardNames or ()))
    for name in names[1:]:
        authorize(call, cw.actions[call.action], dashboard_resource(cw, name, call))
    home, account = call.resource.home, call.space.account
    unknown = []
    for name in names:
        found = home.dashboards.get(account, name)
        if found is None:
            unknown.append(name)
        else:
            home.dashboards.remove(found)
    await home.shard.settled()
    if unknown:
        raise DashboardMissing(", ".join(unknown))
    return DeleteDashboardsResult()
