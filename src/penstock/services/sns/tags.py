"""TagResource, UntagResource, ListTagsForResource: of topics. Nothing else has tags."""

from __future__ import annotations

import msgspec

from penstock.publishing.errors import TopicMissing
from penstock.services.sns.faults import invalid, sns_fault
from penstock.services.sns.limits import TAGS_MAX
from penstock.services.sns.resources import Sns, TopicResource, topic_resource
from penstock.services.sns.structs import (
    ListTagsForResourceRequest,
    ListTagsForResourceResult,
    Tag,
    TagResourceRequest,
    TagResourceResult,
    UntagResourceRequest,
    UntagResourceResult,
)
from penstock.services.sns.topics import too_many_tags
from penstock.services.sns.validation import CONSTRAINTS, tag_map, topic_name
from penstock.topics.records import Topic
from penstock.wire.service import Call


def resource_to_tag(sns: Sns, request: TagResourceRequest, call: Call) -> TopicResource:
    CONSTRAINTS.check(request)
    return _resource(sns, request.ResourceArn, call, tag_map(request.Tags))


def resource_to_untag(sns: Sns, request: UntagResourceRequest, call: Call) -> TopicResource:
    CONSTRAINTS.check(request)
    resource = _resource(sns, request.ResourceArn, call)
    keys = tuple(dict.fromkeys(request.TagKeys or ()))
    if len(keys) > TAGS_MAX:
        raise invalid("TagKeys")
    resource.tag_keys = keys
    return resource


def resource_to_list(sns: Sns, request: ListTagsForResourceRequest, call: Call) -> TopicResource:
    CONSTRAINTS.check(request)
    return _resource(sns, request.ResourceArn, call)


def _resource(sns: Sns, arn: str | None, call: Call, tags: dict[str, str] | None = None) -> TopicResource:
    """Raises Fault or NotOwned."""
    name = topic_name(arn, call, "ResourceArn")
    given = tags or {}
    try:
        return topic_resource(sns, name, call, request_tags=given, tag_keys=tuple(given))
    except TopicMissing:
        raise _missing() from None


def _found(resource: TopicResource) -> Topic:
    topic = resource.topics.get(resource.name)
    if topic is None:
        raise _missing()
    return topic


def _missing() -> Exception:
    return sns_fault("ResourceNotFoundException", "Resource does not exist")


async def tag_resource(sns: Sns, request: TagResourceRequest, call: Call) -> TagResourceResult:
    topic = _found(call.resource)
    tags = {**topic.tags, **call.resource.request_tags}
    if len(tags) > TAGS_MAX:
        raise too_many_tags()
    await _save(sns, call.resource, topic, tags)
    return TagResourceResult()


async def untag_resource(sns: Sns, request: UntagResourceRequest, call: Call) -> UntagResourceResult:
    topic, removed = _found(call.resource), set(call.resource.tag_keys)
    await _save(
        sns, call.resource, topic, {key: tag for key, tag in topic.tags.items() if key not in removed}
    )
    return UntagResourceResult()


async def _save(sns: Sns, resource: TopicResource, topic: Topic, tags: dict[str, str]) -> None:
    if tags != topic.tags:
        changed: Topic = msgspec.structs.replace(topic, tags=tags)
        sns.check_room(resource.topics, topic, changed)
        resource.topics.put_topic(changed)
    await resource.topics.settled()


async def list_tags_for_resource(
    sns: Sns, request: ListTagsForResourceRequest, call: Call
) -> ListTagsForResourceResult:
    topic = _found(call.resource)
    await call.resource.topics.settled()
    return ListTagsForResourceResult(Tags=[Tag(Key=key, Value=value) for key, value in topic.tags.items()])
