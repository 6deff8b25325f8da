"""PutDashboard, GetDashboard, ListDashboards, DeleteDashboards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import msgspec

from penstock.auth.authorize import authorize
from penstock.errors import DashboardMissing
from penstock.limits import SECOND
from penstock.monitoring.dashboards import dashboard_arn
from penstock.services.cloudwatch.faults import cloudwatch_fault, invalid_value, missing
from penstock.services.cloudwatch.limits import (
    DASHBOARD_BODY_BYTES_MAX,
    DELETED_DASHBOARDS_MAX,
    LISTED_DASHBOARDS_MAX,
    METRICS_PER_WIDGET_MAX,
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
from penstock.turns import Steps
from penstock.wire.service import Call

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_LENGTH_MAX}}}")
_WIDGET_TYPES = ("metric", "text", "alarm", "log", "explorer", "custom")
_PROBLEMS_MAX = 20
_ABSENT, _NULL = msgspec.Raw(), msgspec.Raw(b"null")


def named_dashboard(
    cw: CloudWatch, request: PutDashboardRequest | GetDashboardRequest, call: Call
) -> CloudWatchResource:
    """Raises Fault or NotOwned."""
    name = _name(request.DashboardName, "DashboardName")
    tags = given_tags(request) if isinstance(request, PutDashboardRequest) else {}
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
    problems = await cw.broker.turns.run(_problems(body), call.space.account)
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


class _Content(msgspec.Struct):
    """Only what is checked is made into objects: a body may have half a million members."""

    widgets: msgspec.Raw = _ABSENT


class _Widget(msgspec.Struct):
    type: msgspec.Raw = _ABSENT
    properties: msgspec.Raw = _ABSENT


class _Properties(msgspec.Struct):
    markdown: msgspec.Raw = _ABSENT
    metrics: msgspec.Raw = msgspec.Raw(b"[]")


_Items = msgspec.defstruct(
    "_Items",
    [
        (f"item{number}", msgspec.Raw, _ABSENT)
        for number in range(max(WIDGETS_MAX, METRICS_PER_WIDGET_MAX) + 1)
    ],
    array_like=True,
)

_content = msgspec.json.Decoder(_Content)
_widget = msgspec.json.Decoder(_Widget)
_properties = msgspec.json.Decoder(_Properties)
_items = msgspec.json.Decoder(_Items)


def _first_items(array: msgspec.Raw) -> list[msgspec.Raw]:
    """One more than the most that are allowed, at most."""
    return [item for item in msgspec.structs.astuple(_items.decode(array)) if item]


def _starts(value: msgspec.Raw, mark: str) -> bool:
    """Whether it is an object, an array or a string."""
    return bytes(memoryview(value)[:1]) == mark.encode()


def _problems(body: str) -> Steps[list[dict[str, str]]]:
    """What is wrong with the structure of a dashboard. What a widget shows is for those who draw it."""
    found: list[dict[str, str]] = []

    def wrong(path: str, message: str) -> None:
        if len(found) < _PROBLEMS_MAX:
            found.append({"dataPath": path, "message": message})

    if len(body.encode()) > DASHBOARD_BODY_BYTES_MAX:
        wrong("", f"Should not be larger than {DASHBOARD_BODY_BYTES_MAX} bytes")
        return found
    try:
        widgets = _content.decode(body).widgets
    except msgspec.ValidationError:
        wrong("", "Should be object")
        return found
    except (ValueError, RecursionError):
        wrong("", "The field DashboardBody must be a valid JSON object")
        return found
    yield
    if not _starts(widgets, "["):
        is_absent = widgets in (_ABSENT, _NULL)
        wrong("/widgets", "Should have required property 'widgets'" if is_absent else "Should be array")
        return found
    items = _first_items(widgets)
    if len(items) > WIDGETS_MAX:
        wrong("/widgets", f"Should NOT have more than {WIDGETS_MAX} items")
    for number, widget in enumerate(items[:WIDGETS_MAX]):
        yield from _check_widget(f"/widgets/{number}", widget, wrong)
    return found


def _check_widget(path: str, given: msgspec.Raw, wrong: Callable[[str, str], None]) -> Steps[None]:
    yield
    if not _starts(given, "{"):
        wrong(path, "Should be object")
        return
    widget = _widget.decode(given)
    kind = msgspec.json.decode(widget.type) if _starts(widget.type, '"') else None
    if kind not in _WIDGET_TYPES:
        wrong(f"{path}/type", f"Should be equal to one of the allowed values: {', '.join(_WIDGET_TYPES)}")
    if not _starts(widget.properties, "{"):
        wrong(f"{path}/properties", "Should be object")
        return
    yield
    properties = _properties.decode(widget.properties)
    if kind == "text" and not _starts(properties.markdown, '"'):
        wrong(f"{path}/properties/markdown", "Should be string")
    if not _starts(properties.metrics, "["):
        wrong(f"{path}/properties/metrics", "Should be array")
        return
    yield
    metrics = _first_items(properties.metrics)
    if len(metrics) > METRICS_PER_WIDGET_MAX:
        wrong(f"{path}/properties/metrics", f"Should NOT have more than {METRICS_PER_WIDGET_MAX} items")
    for number, metric in enumerate(metrics[:METRICS_PER_WIDGET_MAX]):
        if not _starts(metric, "["):
            wrong(f"{path}/properties/metrics/{number}", "Should be array")


async def get_dashboard(cw: CloudWatch, request: GetDashboardRequest, call: Call) -> GetDashboardResult:
    home = call.resource.home
    found = home.dashboards.find(call.space.account, request.DashboardName or "")
    await home.shard.settled()
    return GetDashboardResult(
        DashboardArn=call.resource.arn, DashboardBody=found.body, DashboardName=found.name
    )


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
                DashboardArn=dashboard_arn(cw.partition_of(call), account, each.name),
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
