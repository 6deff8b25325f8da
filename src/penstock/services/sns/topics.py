"""CreateTopic, DeleteTopic, GetTopicAttributes, SetTopicAttributes, ListTopics."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.auth.authorize import authorize
from penstock.errors import QuotaReached
from penstock.publishing.questions import TopicCountQuestion, TopicsQuestion
from penstock.publishing.shard_topics import ShardTopics
from penstock.services.sns.endpoints import PROTOCOLS
from penstock.services.sns.faults import AttributeInvalid, invalid, invalid_attributes, no_value, sns_fault
from penstock.services.sns.limits import (
    LARGE_MESSAGE_SUBSCRIPTIONS_MAX,
    MESSAGE_BYTES_MAX,
    PAGE_SIZE,
    TAGS_MAX,
)
from penstock.services.sns.resources import Sns, TopicResource, topic_resource
from penstock.services.sns.structs import (
    CreateTopicRequest,
    CreateTopicResult,
    DeleteTopicRequest,
    GetTopicAttributesRequest,
    GetTopicAttributesResult,
    ListedTopic,
    ListTopicsRequest,
    ListTopicsResult,
    SetTopicAttributesRequest,
)
from penstock.services.sns.topic_attributes import (
    ARCHIVE,
    CONTENT_DEDUP,
    FIFO,
    MESSAGE_SIZE,
    boolean,
    message_bytes_max,
    shown_topic,
    with_attribute,
    with_attributes,
)
from penstock.services.sns.validation import CONSTRAINTS, read_token, tag_map, write_token
from penstock.topics.names import FIFO_SUFFIX, TopicName, is_topic_name
from penstock.topics.records import Topic
from penstock.wire.service import Call

_NO_DATA_PROTECTION = (
    "DataProtectionPolicy Reason: Data protection functionality is not supported in this region"
)


def new_topic(sns: Sns, request: CreateTopicRequest, call: Call) -> TopicResource:
    """Only a possible name and valid tags are shown to the policies: callers choose the length of both."""
    CONSTRAINTS.check(request)
    name = request.Name or ""
    if not is_topic_name(name):
        raise invalid("Topic Name")
    tags = tag_map(request.Tags)
    topic = TopicName(call.space.account, call.space.region, name)
    return topic_resource(sns, topic, call, request_tags=tags, tag_keys=tuple(tags))


async def create_topic(sns: Sns, request: CreateTopicRequest, call: Call) -> CreateTopicResult:
    resource: TopicResource = call.resource
    attributes, tags = dict(request.Attributes or {}), dict(resource.request_tags)
    if tags:
        authorize(call, sns.actions["TagResource"], resource)
    if request.DataProtectionPolicy:
        raise invalid(_NO_DATA_PROTECTION)
    wanted = _wanted(resource.name, attributes, tags, sns.broker.wall_ms())
    topics = resource.topics
    if topics.get(resource.name) is None:
        await _check_quota(sns, resource.name)
    # Another request may have created it while other shards were asked.
    present = topics.get(resource.name)
    if present is None:
        sns.check_room(topics, None, wanted)
        topics.put_topic(wanted)
    else:
        _check_same(present, wanted, attributes, tags)
    await topics.settled()
    return CreateTopicResult(TopicArn=resource.arn)


def _wanted(name: TopicName, attributes: dict[str, str], tags: dict[str, str], now_ms: int) -> Topic:
    """The topic as it is asked for. Raises Fault. What decides its type is taken out of the attributes."""
    try:
        wants_fifo = boolean(FIFO, attributes.pop(FIFO)) if FIFO in attributes else False
        # SNS: name and attribute agree, also where the topic exists.
        if wants_fifo != name.name.endswith(FIFO_SUFFIX):
            raise invalid("Topic Name")
        topic = Topic(name=name, created_ms=now_ms, tags=tags)
        if wants_fifo:
            topic = topic.with_attribute(CONTENT_DEDUP, "false")
        topic = with_attributes(topic, attributes, now_ms)
    except AttributeInvalid as error:
        raise invalid_attributes(str(error)) from None
    if len(tags) > TAGS_MAX:
        raise too_many_tags()
    return topic


def _check_same(
    present: Topic, wanted: Topic, attributes: Mapping[str, str], tags: Mapping[str, str]
) -> None:
    """SNS: creating a topic again finds it, if what is given is what it has. An archive is never the same."""
    is_archived = ARCHIVE in present.attributes and ARCHIVE in attributes
    before, after = present.attributes, wanted.attributes
    if is_archived or any(before.get(name) != after.get(name) for name in attributes):
        raise invalid_attributes("Topic already exists with different attributes")
    if not tags.items() <= present.tags.items():
        raise invalid("Tags Reason: Topic already exists with different tags")


async def _check_quota(sns: Sns, name: TopicName) -> None:
    """Raises QuotaReached."""
    most = sns.limits.fifo_topics_max if name.is_fifo else sns.limits.topics_max
    count = await sns.broker.ask(TopicCountQuestion(name.space, name.is_fifo))
    if count >= most:
        raise QuotaReached("topics", most)


def too_many_tags() -> Exception:
    text = "Could not complete request: tag quota of per resource exceeded"
    return sns_fault("TagLimitExceededException", text)


async def delete_topic(sns: Sns, request: DeleteTopicRequest, call: Call) -> None:
    resource: TopicResource = call.resource
    topic = resource.topics.get(resource.name)
    if topic is not None:
        if ARCHIVE in topic.attributes:
            raise sns_fault(
                "InvalidStateException", "Invalid state: Cannot delete a topic with an ArchivePolicy"
            )
        await resource.topics.delete_topic(resource.name)
    await resource.topics.settled()


async def get_topic_attributes(
    sns: Sns, request: GetTopicAttributesRequest, call: Call
) -> GetTopicAttributesResult:
    resource: TopicResource = call.resource
    topic = resource.topic
    counts = resource.topics.counts(topic.name)
    await resource.topics.settled()
    return GetTopicAttributesResult(Attributes=shown_topic(topic, counts, sns.broker.wall_ms()))


async def set_topic_attributes(sns: Sns, request: SetTopicAttributesRequest, call: Call) -> None:
    resource: TopicResource = call.resource
    topic = resource.topic
    if request.AttributeName is None:
        raise no_value("AttributeName")
    changed = with_attribute(topic, request.AttributeName, request.AttributeValue or "", sns.broker.wall_ms())
    if request.AttributeName == MESSAGE_SIZE:
        _check_large_messages(resource.topics, changed)
    sns.check_room(resource.topics, topic, changed)
    resource.topics.put_topic(changed)
    await resource.topics.settled()


def _check_large_messages(topics: ShardTopics, topic: Topic) -> None:
    """Raises AttributeInvalid. SNS: only queues get large messages, and only so many."""
    if message_bytes_max(topic) <= MESSAGE_BYTES_MAX:
        return
    found = topics.subscriptions_of(topic.name, "", LARGE_MESSAGE_SUBSCRIPTIONS_MAX + 1)
    takes_all = all(PROTOCOLS[each.protocol].takes_large for each in found)
    if len(found) > LARGE_MESSAGE_SUBSCRIPTIONS_MAX or not takes_all:
        raise AttributeInvalid(
            f"{MESSAGE_SIZE}: more than {MESSAGE_BYTES_MAX} bytes need a topic with at most "
            f"{LARGE_MESSAGE_SUBSCRIPTIONS_MAX} subscriptions, all of them queues"
        )


async def list_topics(sns: Sns, request: ListTopicsRequest, call: Call) -> ListTopicsResult:
    after = read_token(request.NextToken, "topics")
    arns = await sns.broker.ask(TopicsQuestion(call.space, after, PAGE_SIZE + 1))
    page = arns[:PAGE_SIZE]
    token = write_token("topics", page[-1]) if len(arns) > PAGE_SIZE else None
    return ListTopicsResult(Topics=[ListedTopic(TopicArn=arn) for arn in page], NextToken=token)
