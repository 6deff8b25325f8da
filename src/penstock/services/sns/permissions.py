"""AddPermission and RemovePermission: they edit the policy of a topic by labels."""

from __future__ import annotations

from penstock.services.sns.faults import invalid, no_value
from penstock.services.sns.limits import LABEL_LENGTH_MAX, PERMISSION_ACCOUNTS_MAX
from penstock.services.sns.resources import Sns, TopicResource
from penstock.services.sns.structs import AddPermissionRequest, RemovePermissionRequest
from penstock.services.sns.topic_policy import with_permission, without_permission
from penstock.services.sns.validation import CONSTRAINTS, has_control_characters
from penstock.wire.service import Call


async def add_permission(sns: Sns, request: AddPermissionRequest, call: Call) -> None:
    CONSTRAINTS.check(request)
    resource: TopicResource = call.resource
    topic = resource.topic
    label, accounts = _label(request.Label), request.AWSAccountId or []
    if len(accounts) > PERMISSION_ACCOUNTS_MAX:
        raise invalid("AWSAccountId")
    policy = with_permission(
        topic.attributes.get("Policy"), topic.name, label, accounts, request.ActionName or []
    )
    changed = topic.with_attribute("Policy", policy)
    sns.check_room(resource.topics, topic, changed)
    resource.topics.put_topic(changed)
    await resource.topics.settled()


async def remove_permission(sns: Sns, request: RemovePermissionRequest, call: Call) -> None:
    resource: TopicResource = call.resource
    topic = resource.topic
    policy = without_permission(topic.attributes.get("Policy"), topic.name, _label(request.Label))
    resource.topics.put_topic(topic.with_attribute("Policy", policy))
    await resource.topics.settled()


def _label(text: str | None) -> str:
    if text is None:
        raise no_value("Label")
    if not 1 <= len(text) <= LABEL_LENGTH_MAX or has_control_characters(text):
        raise invalid("Label")
    return text
