"""A received message as its receiver wants it: with the attributes it asked for, and digests of those."""

from __future__ import annotations

from penstock.queues.message import Received
from penstock.services.sqs.checksums import md5_of_attributes, md5_of_body
from penstock.services.sqs.message_attributes import TRACE_HEADER, name_filter, to_wire
from penstock.services.sqs.operations import Message, ReceiveMessageRequest
from penstock.services.sqs.outgoing import sequence_number


class Wanted:
    """What one ReceiveMessage asks to be shown, worked out once for all its messages."""

    __slots__ = ("_all", "_matches", "_system")

    def __init__(self, request: ReceiveMessageRequest) -> None:
        # SQS: the old list and the new one mean the same, and add up.
        self._system = {*(request.AttributeNames or ()), *(request.MessageSystemAttributeNames or ())}
        self._all = "All" in self._system
        self._matches = name_filter(request.MessageAttributeNames)

    def of(self, received: Received) -> Message:
        content = received.content
        message = Message(
            MessageId=content.id,
            ReceiptHandle=received.handle,
            MD5OfBody=md5_of_body(content.body),
            Body=content.body,
        )
        if self._system:
            message.Attributes = self._system_attributes(received) or None
        if self._matches is not None and content.attributes:
            shown = {name: content.attributes[name] for name in content.attributes if self._matches(name)}
            if shown:
                message.MD5OfMessageAttributes = md5_of_attributes(shown)
                message.MessageAttributes = to_wire(shown)
        return message

    def _system_attributes(self, received: Received) -> dict[str, str]:
        content = received.content
        known = {
            "SenderId": content.sender,
            "SentTimestamp": str(content.sent_ms),
            "ApproximateReceiveCount": str(received.receives),
            "ApproximateFirstReceiveTimestamp": str(received.first_received_ms),
            TRACE_HEADER: content.trace,
            "MessageGroupId": received.group,
            "MessageDeduplicationId": content.dedup_id,
            "SequenceNumber": sequence_number(received.sequence),
            "DeadLetterQueueSourceArn": received.source,
        }
        return {
            name: value
            for name, value in known.items()
            if value is not None and (self._all or name in self._system)
        }
