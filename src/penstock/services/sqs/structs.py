"""Requests and responses of SQS. Names are those of the JSON protocol (``tags`` but ``Tags``).

Every member of a request may be absent: handlers check what is required, with the texts of SQS.
:class:`Flat` gives the Query protocol's name of a list or map; there the path of the request may name the
queue.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.wire.shapes import AnyText, AtRoot, Flat, FromPath, Many, Named

Text = str | None
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None

QueueUrl = Annotated[Text, FromPath()]
QueueAttributes = Annotated[Named[str] | None, Flat("Attribute")]
AttributeNames = Annotated[Many[str] | None, Flat("AttributeName")]
TagMap = Annotated[Named[str] | None, Flat("Tag", key="Key")]


class SqsStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class MessageAttributeValue(SqsStruct):
    StringValue: Annotated[Text, AnyText()] = None
    BinaryValue: bytes | None = None
    StringListValues: Annotated[Many[str] | None, Flat("StringListValue")] = None
    BinaryListValues: Annotated[Many[bytes] | None, Flat("BinaryListValue")] = None
    DataType: Text = None


MessageAttributes = Annotated[Named[MessageAttributeValue] | None, Flat("MessageAttribute")]
MessageSystemAttributes = Annotated[Named[MessageAttributeValue] | None, Flat("MessageSystemAttribute")]


class OnQueue(SqsStruct):
    QueueUrl: QueueUrl = None


# Queues


class CreateQueueRequest(SqsStruct, AtRoot):
    QueueName: Text = None
    Attributes: QueueAttributes = None
    tags: TagMap = None


class CreateQueueResult(SqsStruct):
    QueueUrl: str


class GetQueueUrlRequest(SqsStruct):
    QueueName: Text = None
    QueueOwnerAWSAccountId: Text = None


class GetQueueUrlResult(SqsStruct):
    QueueUrl: str


class ListQueuesRequest(SqsStruct, AtRoot):
    QueueNamePrefix: Text = None
    NextToken: Text = None
    MaxResults: Integer = None


class ListQueuesResult(SqsStruct):
    QueueUrls: Annotated[list[str] | None, Flat("QueueUrl", json="queueUrls")] = None
    NextToken: Text = None


class DeleteQueueRequest(OnQueue):
    pass


class PurgeQueueRequest(OnQueue):
    pass


class GetQueueAttributesRequest(OnQueue):
    AttributeNames: AttributeNames = None


class GetQueueAttributesResult(SqsStruct):
    Attributes: QueueAttributes = None


class SetQueueAttributesRequest(OnQueue):
    Attributes: QueueAttributes = None


class ListDeadLetterSourceQueuesRequest(OnQueue):
    NextToken: Text = None
    MaxResults: Integer = None


class ListDeadLetterSourceQueuesResult(SqsStruct):
    queueUrls: Annotated[list[str] | None, Flat("QueueUrl")] = None
    NextToken: Text = None


# Tags


class TagQueueRequest(OnQueue):
    Tags: TagMap = None


class UntagQueueRequest(OnQueue):
    TagKeys: Annotated[Many[str] | None, Flat("TagKey")] = None


class ListQueueTagsRequest(OnQueue):
    pass


class ListQueueTagsResult(SqsStruct):
    Tags: TagMap = None


# Permissions


class AddPermissionRequest(OnQueue):
    Label: Text = None
    AWSAccountIds: Annotated[Many[str] | None, Flat("AWSAccountId")] = None
    Actions: Annotated[Many[str] | None, Flat("ActionName")] = None


class RemovePermissionRequest(OnQueue):
    Label: Text = None


# Messages


class MessageParts(SqsStruct):
    """A message to send, alone or in a batch."""

    MessageBody: Annotated[Text, AnyText()] = None
    DelaySeconds: Integer = None
    MessageAttributes: MessageAttributes = None
    MessageSystemAttributes: MessageSystemAttributes = None
    MessageDeduplicationId: Text = None
    MessageGroupId: Text = None


class SendMessageRequest(MessageParts):
    QueueUrl: QueueUrl = None


class SendMessageResult(SqsStruct):
    MessageId: str
    MD5OfMessageBody: str
    MD5OfMessageAttributes: Text = None
    MD5OfMessageSystemAttributes: Text = None
    SequenceNumber: Text = None


class ReceiveMessageRequest(OnQueue):
    AttributeNames: AttributeNames = None
    # Amazon's own Query model gives both lists the same name; kombu spells this one out.
    MessageSystemAttributeNames: Annotated[
        Many[str] | None, Flat("AttributeName", also=("MessageSystemAttributeName",))
    ] = None
    MessageAttributeNames: Annotated[Many[str] | None, Flat("MessageAttributeName")] = None
    MaxNumberOfMessages: Integer = None
    VisibilityTimeout: Integer = None
    WaitTimeSeconds: Integer = None
    ReceiveRequestAttemptId: Text = None


class Message(SqsStruct):
    MessageId: str
    ReceiptHandle: str
    MD5OfBody: str
    Body: str
    Attributes: QueueAttributes = None
    MD5OfMessageAttributes: Text = None
    MessageAttributes: MessageAttributes = None


class ReceiveMessageResult(SqsStruct):
    Messages: Annotated[list[Message] | None, Flat("Message", json="messages")] = None


class DeleteMessageRequest(OnQueue):
    ReceiptHandle: Text = None


class ChangeMessageVisibilityRequest(OnQueue):
    ReceiptHandle: Text = None
    VisibilityTimeout: Integer = None


# Batches


class BatchResultErrorEntry(SqsStruct):
    Id: str
    SenderFault: bool
    Code: str
    Message: str


FailedEntries = Annotated[list[BatchResultErrorEntry] | None, Flat("BatchResultErrorEntry")]


class SendMessageBatchRequestEntry(MessageParts):
    Id: Text = None


class SendMessageBatchRequest(OnQueue):
    Entries: Annotated[Many[SendMessageBatchRequestEntry] | None, Flat("SendMessageBatchRequestEntry")] = None


class SendMessageBatchResultEntry(SqsStruct):
    Id: str
    MessageId: str
    MD5OfMessageBody: str
    MD5OfMessageAttributes: Text = None
    MD5OfMessageSystemAttributes: Text = None
    SequenceNumber: Text = None


class SendMessageBatchResult(SqsStruct):
    Successful: Annotated[list[SendMessageBatchResultEntry] | None, Flat("SendMessageBatchResultEntry")] = (
        None
    )
    Failed: FailedEntries = None


class DeleteMessageBatchRequestEntry(SqsStruct):
    Id: Text = None
    ReceiptHandle: Text = None


class DeleteMessageBatchRequest(OnQueue):
    Entries: Annotated[
        Many[DeleteMessageBatchRequestEntry] | None, Flat("DeleteMessageBatchRequestEntry")
    ] = None


class DeleteMessageBatchResultEntry(SqsStruct):
    Id: str


class DeleteMessageBatchResult(SqsStruct):
    Successful: Annotated[
        list[DeleteMessageBatchResultEntry] | None, Flat("DeleteMessageBatchResultEntry")
    ] = None
    Failed: FailedEntries = None


class ChangeMessageVisibilityBatchRequestEntry(SqsStruct):
    Id: Text = None
    ReceiptHandle: Text = None
    VisibilityTimeout: Integer = None


class ChangeMessageVisibilityBatchRequest(OnQueue):
    Entries: Annotated[
        Many[ChangeMessageVisibilityBatchRequestEntry] | None,
        Flat("ChangeMessageVisibilityBatchRequestEntry"),
    ] = None


class ChangeMessageVisibilityBatchResultEntry(SqsStruct):
    Id: str


class ChangeMessageVisibilityBatchResult(SqsStruct):
    Successful: Annotated[
        list[ChangeMessageVisibilityBatchResultEntry] | None, Flat("ChangeMessageVisibilityBatchResultEntry")
    ] = None
    Failed: FailedEntries = None


# Move tasks


class StartMessageMoveTaskRequest(SqsStruct):
    SourceArn: Text = None
    DestinationArn: Text = None
    MaxNumberOfMessagesPerSecond: Integer = None


class StartMessageMoveTaskResult(SqsStruct):
    TaskHandle: str


class CancelMessageMoveTaskRequest(SqsStruct):
    TaskHandle: Text = None


class CancelMessageMoveTaskResult(SqsStruct):
    ApproximateNumberOfMessagesMoved: int


class ListMessageMoveTasksRequest(SqsStruct):
    SourceArn: Text = None
    MaxResults: Integer = None


class ListMessageMoveTasksResultEntry(SqsStruct):
    Status: str
    SourceArn: str
    StartedTimestamp: int
    ApproximateNumberOfMessagesMoved: int
    ApproximateNumberOfMessagesToMove: int
    TaskHandle: Text = None
    DestinationArn: Text = None
    MaxNumberOfMessagesPerSecond: int | None = None
    FailureReason: Text = None


class ListMessageMoveTasksResult(SqsStruct):
    Results: Annotated[
        list[ListMessageMoveTasksResultEntry] | None, Flat("ListMessageMoveTasksResultEntry")
    ] = None
