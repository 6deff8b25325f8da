"""ListPermissions and ListAuditEvents: what the caller may do, and who did what."""

from __future__ import annotations

import msgspec

from penstock.auth.authorize import AccessDenied, Resource, authorize
from penstock.broker.other_shards import DefinitionQuestion
from penstock.names import QueueName
from penstock.services.admin.resources import Admin, queue_named, queue_resource, the_server
from penstock.services.admin.shown import limit_of
from penstock.services.admin.structs import (
    ListAuditEventsRequest,
    ListAuditEventsResult,
    ListPermissionsRequest,
    ListPermissionsResult,
)
from penstock.services.admin.subscribers import topic_or_subscription
from penstock.services.admin.topics import (
    all_topics,
    filter_to_test,
    topic_in_account,
    topics_asked_for,
    topics_of,
)
from penstock.wire.service import Call

_EVENTS_DEFAULT, _EVENTS_MAX = 100, 1000
_TOPICS = "sns:"  # how permissions on topics begin
_ON_TOPICS = (filter_to_test, topic_or_subscription, topics_asked_for)


async def list_permissions(
    admin: Admin, request: ListPermissionsRequest, call: Call
) -> ListPermissionsResult:
    """What the caller may do at present: with one queue or all queues, one topic or all topics, and the server."""
    name = QueueName(call.space.account, call.space.region, "*")
    found = None
    if request.queue is not None:
        name = queue_named(request.queue, request.account, call)
        found = await admin.broker.ask(DefinitionQuestion(name))
    queue, everything = queue_resource(name, found), topics_of(call.space)
    topics = everything
    if request.topic is not None:
        topics = await topic_in_account(admin, request.topic, call)
    server = the_server(admin, request, call)
    asked = msgspec.structs.replace(call)  # each question leaves its verdict
    allowed, remedies = [], {}
    for row in admin.rows:
        # Permissions of the admin API that are not about queues are about the server.
        about_queue = (
            row.grantable or not row.permission.startswith("penstock:") or row.resource is not the_server
        )
        try:
            if row.resource is all_topics:
                about: Resource = everything
            elif row.permission.startswith(_TOPICS) or row.resource in _ON_TOPICS:
                about = topics
            else:
                about = queue if about_queue else server
            authorize(asked, row, about)
        except AccessDenied as denied:
            if denied.remedy is not None:
                remedies[row.permission] = denied.remedy
            continue
        allowed.append(row.permission)
    return ListPermissionsResult(allowed=sorted(set(allowed)), remedies=remedies)


async def list_audit_events(
    admin: Admin, request: ListAuditEventsRequest, call: Call
) -> ListAuditEventsResult:
    """The newest events of the audit log that match."""
    limit = limit_of(request.limit, _EVENTS_DEFAULT, _EVENTS_MAX)
    return ListAuditEventsResult(events=await admin.server.audit_events(request, limit))
