"""Publish and PublishBatch: to a topic, to the endpoint of an application, to a phone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.auth.authorize import Resource
from penstock.publishing.publisher import Published
from penstock.publishing.shard_topics import ShardTopics
from penstock.services.sns.direct import DirectTarget, direct_target, publish_directly
from penstock.services.sns.faults import invalid, no_value, sns_fault
from penstock.services.sns.limits import (
    BATCH_ENTRIES_MAX,
    BATCH_ID_LENGTH_MAX,
    MESSAGE_BYTES_MAX,
)
from penstock.services.sns.message_attributes import user_attributes
from penstock.services.sns.messages import check_fifo, check_ids, check_size, publication, size_of
from penstock.services.sns.resources import Sns, TopicResource, topic_resource
from penstock.services.sns.structs import (
    BatchResultErrorEntry,
    PublishBatchRequest,
    PublishBatchRequestEntry,
    PublishBatchResult,
    PublishBatchResultEntry,
    PublishRequest,
    PublishResult,
)
from penstock.services.sns.topic_attributes import message_bytes_max
from penstock.services.sns.validation import CONSTRAINTS, checked_arn, topic_name
from penstock.topics.publication import Publication
from penstock.topics.records import Topic
from penstock.wire.service import Call, Fault

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]+")


def target_of_publish(sns: Sns, request: PublishRequest, call: Call) -> Resource:
    """The topic, the endpoint of an application or the phone that is to get a message. Raises Fault or NotOwned."""
    given = [each for each in (request.TopicArn, request.TargetArn, request.PhoneNumber) if each is not None]
    if not given:
        raise no_value("TopicArn or TargetArn")
    if len(given) > 1:
        raise invalid("TopicArn, TargetArn or PhoneNumber Reason: only one of them can be given")
    if request.TopicArn is not None:
        return topic_resource(sns, topic_name(request.TopicArn, call), call)
    if request.TargetArn is not None and ":endpoint/" not in checked_arn(request.TargetArn, "TargetArn"):
        return topic_resource(sns, topic_name(request.TargetArn, call, "TargetArn"), call)
    return direct_target(sns, request, call)


async def publish(sns: Sns, request: PublishRequest, call: Call) -> PublishResult:
    CONSTRAINTS.check(request)
    message = publication(request, call.trace)
    if isinstance(call.resource, DirectTarget):
        check_size(size_of(request), MESSAGE_BYTES_MAX)
        return await publish_directly(sns, call.resource, message, call)
    resource: TopicResource = call.resource
    topic = resource.topics.get(resource.name)
    check_size(size_of(request), MESSAGE_BYTES_MAX if topic is None else message_bytes_max(topic))
    check_ids(request)
    topic = resource.topic
    check_fifo(request, topic)
    (published,) = await _publish(sns, resource.topics, topic, [message], call)
    return PublishResult(SequenceNumber=published.sequence, MessageId=published.message_id)


async def _publish(
    sns: Sns, topics: ShardTopics, topic: Topic, messages: Sequence[Publication], call: Call
) -> list[Published]:
    key = topic.attributes.get("KmsMasterKeyId")
    if key:
        sns.keys.check(topic.name.space, key)
    return await topics.publish(topic, messages, call.base_url)


# -- batches ---------------------------------------------------------------------------------------------------


async def publish_batch(sns: Sns, request: PublishBatchRequest, call: Call) -> PublishBatchResult:
    """The valid entries are published together, in one decision and in their order."""
    resource: TopicResource = call.resource
    CONSTRAINTS.check(request)
    topic = resource.topic
    entries = _checked_entries(request.PublishBatchRequestEntries or [])
    if sum(map(size_of, entries)) > max(MESSAGE_BYTES_MAX, message_bytes_max(topic)):
        raise sns_fault(
            "BatchRequestTooLongException",
            "The length of all the messages put together is more than the limit.",
        )
    for entry in entries:
        # SNS: an invalid attribute of one message is an error of the request.
        user_attributes(entry.MessageAttributes)
    messages: list[tuple[str, Publication]] = []
    failed: list[BatchResultErrorEntry] = []
    for entry in entries:
        try:
            messages.append((entry.Id or "", _entry_message(entry, topic, call)))
        except Fault as fault:
            if topic.name.is_fifo:  # SNS: the order of the others would be another one
                raise
            failed.append(
                BatchResultErrorEntry(
                    Id=entry.Id or "", Code=fault.code, Message=fault.message, SenderFault=fault.sender_fault
                )
            )
    published: list[Published] = []
    if messages:
        published = await _publish(sns, resource.topics, topic, [each for _, each in messages], call)
    successful = [
        PublishBatchResultEntry(Id=id, SequenceNumber=one.sequence, MessageId=one.message_id)
        for (id, _), one in zip(messages, published, strict=True)
    ]
    return PublishBatchResult(Failed=failed, Successful=successful)


def _entry_message(entry: PublishBatchRequestEntry, topic: Topic, call: Call) -> Publication:
    """Raises Fault."""
    message = publication(entry, call.trace)
    check_size(size_of(entry), message_bytes_max(topic))
    check_ids(entry)
    check_fifo(entry, topic)
    return message


def _checked_entries(entries: Sequence[PublishBatchRequestEntry]) -> Sequence[PublishBatchRequestEntry]:
    """Raises Fault if there is none, there are too many, or one has no id of its own."""
    if not entries:
        raise sns_fault(
            "EmptyBatchRequestException",
            "There should be at least one PublishBatchRequestEntry in the request.",
        )
    if len(entries) > BATCH_ENTRIES_MAX:
        raise sns_fault(
            "TooManyEntriesInBatchRequestException",
            "The batch request contains more entries than permissible.",
        )
    ids = [entry.Id or "" for entry in entries]
    for id in ids:
        if len(id) > BATCH_ID_LENGTH_MAX:
            raise _invalid_id(f"is too long: {id}")
        if not _ENTRY_ID.fullmatch(id):
            raise _invalid_id(f"contains an impermissible character: {id}")
    if len(set(ids)) < len(ids):
        raise sns_fault(
            "BatchEntryIdsNotDistinctException",
            "Two or more batch entries in the request have the same Id.",
        )
    return entries


def _invalid_id(what: str) -> Fault:
    text = f"The Id of a batch entry in the batch request {what}"
    # SNS has a verb in one of the two texts only.
    return sns_fault("InvalidBatchEntryIdException", text)
