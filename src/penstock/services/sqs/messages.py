"""SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits import SECOND
from penstock.services.sqs.faults import handle_fault
from penstock.services.sqs.operations import (
    ChangeMessageVisibilityRequest,
    DeleteMessageRequest,
    ReceiveMessageRequest,
    ReceiveMessageResult,
    SendMessageRequest,
    SendMessageResult,
)
from penstock.services.sqs.outgoing import outgoing, sequence_number
from penstock.services.sqs.queue_urls import held_queue
from penstock.services.sqs.receiving import AttributeSelection
from penstock.services.sqs.validation import (
    NEEDS_DEDUP_ID,
    VISIBILITY_S_MAX,
    check_id,
    check_range,
    required,
)
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter, missing_parameter

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

_COUNT_MAX = 10
_WAIT_S_MAX = 20


async def send_message(broker: Broker, request: SendMessageRequest, call: Call) -> SendMessageResult:
    queue = held_queue(broker, request.QueueUrl, call)
    settings = queue.settings
    body = required(request.MessageBody, "MessageBody")
    if settings.fifo:
        if request.MessageGroupId is None:
            raise missing_parameter("MessageGroupId")
        if request.MessageDeduplicationId is None and not settings.content_dedup:
            raise invalid_parameter(NEEDS_DEDUP_ID)
    message, digests = outgoing(request, body, settings, call)
    (sent,) = await broker.send(queue, [message])
    return SendMessageResult(
        MD5OfMessageBody=digests.body,
        MD5OfMessageAttributes=digests.attributes,
        MD5OfMessageSystemAttributes=digests.system_attributes,
        MessageId=sent.id,
        SequenceNumber=sequence_number(sent.sequence),
    )


async def receive_message(broker: Broker, request: ReceiveMessageRequest, call: Call) -> ReceiveMessageResult:
    queue = held_queue(broker, request.QueueUrl, call)
    count, visibility_s, wait_s = (
        request.MaxNumberOfMessages,
        request.VisibilityTimeout,
        request.WaitTimeSeconds,
    )
    check_range(count, 1, _COUNT_MAX, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
    reason = f"Must be >= 0 and <= {VISIBILITY_S_MAX}, if provided."
    check_range(visibility_s, 0, VISIBILITY_S_MAX, "VisibilityTimeout", reason)
    check_range(wait_s, 0, _WAIT_S_MAX, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
    selection = AttributeSelection(request)
    if not queue.settings.fifo:
        # SQS: a standard queue takes no notice of it, whatever it says.
        request.ReceiveRequestAttemptId = None
    attempt_id = request.ReceiveRequestAttemptId
    if attempt_id is not None:
        check_id(attempt_id, "ReceiveRequestAttemptId")
    received = await broker.receive(
        queue,
        call,
        count=count or 1,
        visibility_ms=None if visibility_s is None else visibility_s * SECOND,
        wait_ms=None if wait_s is None else wait_s * SECOND,
        attempt_id=attempt_id,
    )
    if not received:
        return ReceiveMessageResult()
    return ReceiveMessageResult(Messages=selection.of(received))


async def delete_message(broker: Broker, request: DeleteMessageRequest, call: Call) -> None:
    queue = held_queue(broker, request.QueueUrl, call)
    handle = required(request.ReceiptHandle, "ReceiptHandle")
    (refused,) = await broker.delete(queue, [handle])
    if refused is not None:
        raise handle_fault(refused, handle)


async def change_message_visibility(
    broker: Broker, request: ChangeMessageVisibilityRequest, call: Call
) -> None:
    queue = held_queue(broker, request.QueueUrl, call)
    handle = required(request.ReceiptHandle, "ReceiptHandle")
    timeout_s = request.VisibilityTimeout
    if timeout_s is None:
        raise missing_parameter("VisibilityTimeout")
    reason = f"Must be between 0 and {VISIBILITY_S_MAX}."
    check_range(timeout_s, 0, VISIBILITY_S_MAX, "VisibilityTimeout", reason)
    (refused,) = await broker.change_visibility(queue, [(handle, timeout_s * SECOND)])
    if refused is not None:
        raise handle_fault(refused, handle, timeout_s)
