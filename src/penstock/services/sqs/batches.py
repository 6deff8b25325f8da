"""SendMessageBatch, DeleteMessageBatch, ChangeMessageVisibilityBatch.

Rule 1: what is wrong with the request as a whole refuses all of it; what is wrong with an entry fails that
entry.
Rule 2: the entries that are right go to the broker together, in their order: one decision, one commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import HandleExpired, MessageNotAvailable, PenstockError
from penstock.limits import SECOND
from penstock.queues.messages import Outgoing
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.faults import (
    HANDLE_EXPIRED,
    MESSAGE_NOT_AVAILABLE,
    handle_fault,
    invalid_value,
    sqs_fault,
)
from penstock.services.sqs.operations import (
    BatchResultErrorEntry,
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchRequestEntry,
    ChangeMessageVisibilityBatchResult,
    ChangeMessageVisibilityBatchResultEntry,
    DeleteMessageBatchRequest,
    DeleteMessageBatchResult,
    DeleteMessageBatchResultEntry,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
    SendMessageBatchResult,
    SendMessageBatchResultEntry,
)
from penstock.services.sqs.outgoing import Digests, outgoing, sequence_number, size_of
from penstock.services.sqs.queue_urls import held_queue
from penstock.services.sqs.validation import (
    BATCH_BYTES_MAX,
    BATCH_ENTRIES_MAX,
    NEEDS_DEDUP_ID,
    VISIBILITY_S_MAX,
    required,
)
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.registry import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


class _Entry(Protocol):
    Id: str | None


AnyEntry = TypeVar("AnyEntry", bound=_Entry)


async def send_message_batch(
    broker: Broker, request: SendMessageBatchRequest, call: Call
) -> SendMessageBatchResult:
    queue = held_queue(broker, request.QueueUrl, call)
    entries = _checked(request.Entries, "SendMessageBatchRequestEntry")
    _check_size(entries)
    if queue.settings.fifo:
        _check_fifo(entries, queue.settings)
    accepted: list[tuple[str, Digests]] = []
    messages: list[Outgoing] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(entries, 1):
        try:
            body = _body(entry, number)
            message, digests = outgoing(entry, body, queue.settings, call, in_batch=True)
        except Fault as fault:
            failed.append(_failure(_id(entry), fault))
        else:
            accepted.append((_id(entry), digests))
            messages.append(message)
    sent = await broker.send(queue, messages) if messages else []
    successful = [
        SendMessageBatchResultEntry(
            Id=entry_id,
            MessageId=one.id,
            MD5OfMessageBody=digests.body,
            MD5OfMessageAttributes=digests.attributes,
            MD5OfMessageSystemAttributes=digests.system_attributes,
            SequenceNumber=sequence_number(one.sequence),
        )
        for (entry_id, digests), one in zip(accepted, sent, strict=True)
    ]
    return SendMessageBatchResult(Successful=successful or None, Failed=failed or None)


async def delete_message_batch(
    broker: Broker, request: DeleteMessageBatchRequest, call: Call
) -> DeleteMessageBatchResult:
    queue = held_queue(broker, request.QueueUrl, call)
    kind = "DeleteMessageBatchRequestEntry"
    accepted: list[tuple[str, str]] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(_checked(request.Entries, kind), 1):
        try:
            accepted.append((_id(entry), required(entry.ReceiptHandle, f"{kind}.{number}.ReceiptHandle")))
        except Fault as fault:
            failed.append(_failure(_id(entry), fault))
    outcomes = await broker.delete(queue, [handle for _, handle in accepted]) if accepted else []
    successful: list[DeleteMessageBatchResultEntry] = []
    for (entry_id, handle), refused in zip(accepted, outcomes, strict=True):
        if refused is None:
            successful.append(DeleteMessageBatchResultEntry(Id=entry_id))
        else:
            failed.append(_failure(entry_id, _handle_failure(refused, handle)))
    return DeleteMessageBatchResult(Successful=successful or None, Failed=failed or None)


async def change_message_visibility_batch(
    broker: Broker, request: ChangeMessageVisibilityBatchRequest, call: Call
) -> ChangeMessageVisibilityBatchResult:
    queue = held_queue(broker, request.QueueUrl, call)
    entries = _checked(request.Entries, "ChangeMessageVisibilityBatchRequestEntry")
    accepted: list[tuple[str, str, int]] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(entries, 1):
        try:
            accepted.append((_id(entry), *_visibility_change(entry, number)))
        except Fault as fault:
            failed.append(_failure(_id(entry), fault))
    changes = [(handle, timeout_s * SECOND) for _, handle, timeout_s in accepted]
    outcomes = await broker.change_visibility(queue, changes) if changes else []
    successful: list[ChangeMessageVisibilityBatchResultEntry] = []
    for (entry_id, handle, timeout_s), refused in zip(accepted, outcomes, strict=True):
        if refused is None:
            successful.append(ChangeMessageVisibilityBatchResultEntry(Id=entry_id))
        else:
            failed.append(_failure(entry_id, _handle_failure(refused, handle, timeout_s)))
    return ChangeMessageVisibilityBatchResult(Successful=successful or None, Failed=failed or None)


# The request as a whole


def _checked(entries: Sequence[AnyEntry] | None, kind: str) -> Sequence[AnyEntry]:
    """The entries, some but not too many, each with an id of its own."""
    if not entries:
        raise sqs_fault("EmptyBatchRequest", f"There should be at least one {kind} in the request.")
    if len(entries) > BATCH_ENTRIES_MAX:
        raise sqs_fault(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}. You have sent {len(entries)}.",
        )
    for number, entry in enumerate(entries, 1):
        if entry.Id is None:
            raise missing_parameter(f"{kind}.{number}.Id")
        if not _ENTRY_ID.fullmatch(entry.Id):
            raise sqs_fault(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
    ids = [entry.Id for entry in entries]
    if len(set(ids)) < len(ids):
        repeated = next(id for number, id in enumerate(ids) if id in ids[:number])
        raise sqs_fault("BatchEntryIdsNotDistinct", f"Id {repeated} repeated.")
    return entries


def _check_size(entries: Sequence[SendMessageBatchRequestEntry]) -> None:
    # SQS: the sum has its own limit, whatever the queue's is for one message.
    size = sum(map(size_of, entries))
    if size > BATCH_BYTES_MAX:
        raise sqs_fault(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent {size} bytes.",
        )


def _check_fifo(entries: Sequence[SendMessageBatchRequestEntry], settings: QueueSettings) -> None:
    if any(entry.MessageGroupId is None for entry in entries):
        # SQS: here InvalidParameterValue, though the same words of a single send are MissingParameter.
        raise invalid_parameter("The request must contain the parameter MessageGroupId.")
    if not settings.content_dedup and any(entry.MessageDeduplicationId is None for entry in entries):
        raise invalid_parameter(NEEDS_DEDUP_ID)


# One entry


def _id(entry: _Entry) -> str:
    assert entry.Id is not None, "_checked has looked"
    return entry.Id


def _body(entry: SendMessageBatchRequestEntry, number: int) -> str:
    if entry.MessageBody:
        return entry.MessageBody
    missing = missing_parameter(f"SendMessageBatchRequestEntry.{number}.MessageBody")
    if entry.MessageBody is None:
        raise missing
    raise Fault("EmptyValue", "EmptyValue", 400, missing.message, modelled=False)


def _visibility_change(entry: ChangeMessageVisibilityBatchRequestEntry, number: int) -> tuple[str, int]:
    member = f"ChangeMessageVisibilityBatchRequestEntry.{number}"
    handle = required(entry.ReceiptHandle, f"{member}.ReceiptHandle")
    timeout_s = entry.VisibilityTimeout
    if timeout_s is None:
        raise missing_parameter(f"{member}.VisibilityTimeout")
    if not 0 <= timeout_s <= VISIBILITY_S_MAX:
        reason = f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_S_MAX}."
        raise invalid_value(timeout_s, "VisibilityTimeout", reason)
    return handle, timeout_s


def _handle_failure(error: PenstockError, handle: str, timeout_s: int | None = None) -> Fault:
    # SQS: other codes and texts than for the single actions.
    if isinstance(error, HandleExpired):
        return sqs_fault("ReceiptHandleIsInvalid", HANDLE_EXPIRED)
    if isinstance(error, MessageNotAvailable):
        return sqs_fault("ReceiptHandleIsInvalid", MESSAGE_NOT_AVAILABLE)
    return handle_fault(error, handle, timeout_s)


def _failure(entry_id: str, fault: Fault) -> BatchResultErrorEntry:
    return BatchResultErrorEntry(
        Id=entry_id, SenderFault=fault.sender_fault, Code=fault.code, Message=fault.message
    )
