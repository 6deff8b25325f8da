"""TagResource, UntagResource, ListTagsForResource: of alarms and dashboards."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.monitoring.alarm_records import Alarm, alarm_named
from penstock.monitoring.dashboards import Dashboard
from penstock.names import Arn
from penstock.services.cloudwatch.faults import cloudwatch_fault, invalid_value
from penstock.services.cloudwatch.limits import NAME_LENGTH_MAX, TAGS_MAX
from penstock.services.cloudwatch.resources import (
    CloudWatch,
    CloudWatchResource,
    alarm_resource,
    dashboard_resource,
)
from penstock.services.cloudwatch.structs import (
    ListTagsForResourceRequest,
    ListTagsForResourceResult,
    TagPair,
    TagResourceRequest,
    TagResourceResult,
    UntagResourceRequest,
    UntagResourceResult,
)
from penstock.services.cloudwatch.validation import CONSTRAINTS, given_tags
from penstock.wire.service import Call, Fault

_DASHBOARD = re.compile(
    rf"arn:[^:]*:cloudwatch::([0-9]{{12}}):dashboard/([A-Za-z0-9_-]{{1,{NAME_LENGTH_MAX}}})"
)
_NO_TAGS: Mapping[str, str] = {}


def resource_to_list(cw: CloudWatch, request: ListTagsForResourceRequest, call: Call) -> CloudWatchResource:
    return _resource(cw, request, call)


def resource_to_tag(cw: CloudWatch, request: TagResourceRequest, call: Call) -> CloudWatchResource:
    return _resource(cw, request, call, given_tags(request))


def resource_to_untag(cw: CloudWatch, request: UntagResourceRequest, call: Call) -> CloudWatchResource:
    CONSTRAINTS.check(request, "TagKeys")
    resource = _resource(cw, request, call)
    resource.tag_keys = tuple(request.TagKeys or ())
    return resource


def _resource(
    cw: CloudWatch,
    request: TagResourceRequest | UntagResourceRequest | ListTagsForResourceRequest,
    call: Call,
    tags: Mapping[str, str] = _NO_TAGS,
) -> CloudWatchResource:
    """Raises Fault or NotOwned."""
    CONSTRAINTS.check(request, "ResourceARN")
    text = request.ResourceARN or ""
    dashboard = _DASHBOARD.fullmatch(text)
    if dashboard is not None and dashboard[1] == call.space.account:
        return dashboard_resource(cw, dashboard[2], call, tags)
    name = alarm_named(call.space, text)
    if name is not None and name != text:
        return alarm_resource(cw, name, call, tags)
    parsed = Arn.parse(text)
    if dashboard is not None or (parsed is not None and parsed.service == "cloudwatch"):
        # Of another account or region, or something that is not here.
        return CloudWatchResource(text, call.space.account, request_tags=tags, tag_keys=tuple(tags))
    raise invalid_value(
        f"The value {text} for parameter ResourceARN is not the ARN of an alarm or a dashboard."
    )


def _found(call: Call) -> Alarm | Dashboard | None:
    resource = call.resource
    if resource.home is None:
        return None
    dashboard = _DASHBOARD.fullmatch(resource.arn)
    found: Alarm | Dashboard | None
    if dashboard is not None:
        found = resource.home.dashboards.get(call.space.account, dashboard[2])
    else:
        found = resource.home.alarms.get(call.space, alarm_named(call.space, resource.arn))
    return found


def _not_found(arn: str) -> Fault:
    kind = "dashboard" if ":dashboard/" in arn else "alarm"
    return cloudwatch_fault(
        "ResourceNotFoundException",
        f"The {kind} {arn} does not exist",
        {"ResourceType": kind, "ResourceId": arn},
    )


async def tag_resource(cw: CloudWatch, request: TagResourceRequest, call: Call) -> TagResourceResult:
    found = _found(call)
    if found is None:
        raise _not_found(call.resource.arn)
    tags = {**found.tags, **call.resource.request_tags}
    if len(tags) > TAGS_MAX:
        raise invalid_value(f"A resource can have at most {TAGS_MAX} tags.")
    await _save(call, found, tags)
    return TagResourceResult()


async def untag_resource(cw: CloudWatch, request: UntagResourceRequest, call: Call) -> UntagResourceResult:
    found = _found(call)
    if found is None:
        raise _not_found(call.resource.arn)
    removed = set(call.resource.tag_keys)
    await _save(call, found, {key: value for key, value in found.tags.items() if key not in removed})
    return UntagResourceResult()


async def _save(call: Call, found: Alarm | Dashboard, tags: dict[str, str]) -> None:
    home = call.resource.home
    (home.alarms if isinstance(found, Alarm) else home.dashboards).tag(found, tags)
    await home.shard.settled()


async def list_tags_for_resource(
    cw: CloudWatch, request: ListTagsForResourceRequest, call: Call
) -> ListTagsForResourceResult:
    """CloudWatch: a resource that does not exist has no tags."""
    found = _found(call)
    if call.resource.home is not None:
        await call.resource.home.shard.settled()
    tags = {} if found is None else found.tags
    return ListTagsForResourceResult(Tags=[TagPair(Key=key, Value=value) for key, value in tags.items()])
