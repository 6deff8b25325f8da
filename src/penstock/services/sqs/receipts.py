"""DeleteMessage and ChangeMessageVisibility, alone and in batches: what is done with receipt handles."""

from __future__ import annotations

from penstock.errors import (
    HandleExpired,
    HandleInvalid,
    MessageNotAvailable,
    PenstockError,
    VisibilityTooLong,
)
from penstock.limits import SECOND
from penstock.services.sqs.batches import checked_entries, failed_entry
from penstock.services.sqs.faults import invalid_value, sqs_fault
from penstock.services.sqs.limits import VISIBILITY_S_MAX
from penstock.services.sqs.resources import Sqs
from penstock.services.sqs.structs import (
    BatchResultErrorEntry,
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchRequestEntry,
    ChangeMessageVisibilityBatchResult,
    ChangeMessageVisibilityBatchResultEntry,
    ChangeMessageVisibilityRequest,
    DeleteMessageBatchRequest,
    DeleteMessageBatchResult,
    DeleteMessageBatchResultEntry,
    DeleteMessageRequest,
)
from penstock.services.sqs.validation import check_range, required
from penstock.wire.faults import missing_parameter
from penstock.wire.service import Call, Fault

_EXPIRED = "The receipt handle has expired"
_NOT_AVAILABLE = "Message does not exist or is not available for visibility timeout change"


async def delete_message(sqs: Sqs, request: DeleteMessageRequest, call: Call) -> None:
    queue = call.resource.queue
    handle = request.ReceiptHandle
    if not handle:
        raise missing_parameter("ReceiptHandle")
    (error,) = await queue.delete([handle], call.requester)
    if error is not None:
        raise _handle_fault(error, handle)


async def delete_message_batch(
    sqs: Sqs, request: DeleteMessageBatchRequest, call: Call
) -> DeleteMessageBatchResult:
    queue = call.resource.queue
    kind = "DeleteMessageBatchRequestEntry"
    accepted: list[tuple[str, str]] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(checked_entries(request.Entries, kind), 1):
        assert entry.Id is not None
        try:
            accepted.append((entry.Id, required(entry.ReceiptHandle, f"{kind}.{number}.ReceiptHandle")))
        except Fault as fault:
            failed.append(failed_entry(entry.Id, fault))
    handles = [handle for _, handle in accepted]
    outcomes = await queue.delete(handles, call.requester) if handles else []
    successful: list[DeleteMessageBatchResultEntry] = []
    for (entry_id, handle), error in zip(accepted, outcomes, strict=True):
        if error is None:
            successful.append(DeleteMessageBatchResultEntry(Id=entry_id))
        else:
            failed.append(failed_entry(entry_id, _entry_fault(error, handle)))
    return DeleteMessageBatchResult(Successful=successful or None, Failed=failed or None)


async def change_message_visibility(sqs: Sqs, request: ChangeMessageVisibilityRequest, call: Call) -> None:
    queue = call.resource.queue
    handle = required(request.ReceiptHandle, "ReceiptHandle")
    timeout_s = request.VisibilityTimeout
    if timeout_s is None:
        raise missing_parameter("VisibilityTimeout")
    reason = f"Must be between 0 and {VISIBILITY_S_MAX}."
    check_range(timeout_s, 0, VISIBILITY_S_MAX, "VisibilityTimeout", reason)
    (error,) = await queue.change_visibility([(handle, timeout_s * SECOND)], call.requester)
    if error is not None:
        raise _handle_fault(error, handle, timeout_s)


async def change_message_visibility_batch(
    sqs: Sqs, request: ChangeMessageVisibilityBatchRequest, call: Call
) -> ChangeMessageVisibilityBatchResult:
    queue = call.resource.queue
    accepted: list[tuple[str, str, int]] = []
    failed: list[BatchResultErrorEntry] = []
    entries = checked_entries(request.Entries, "ChangeMessageVisibilityBatchRequestEntry")
    for number, entry in enumerate(entries, 1):
        assert entry.Id is not None
        try:
            accepted.append((entry.Id, *_visibility_change(entry, number)))
        except Fault as fault:
            failed.append(failed_entry(entry.Id, fault))
    changes = [(handle, timeout_s * SECOND) for _, handle, timeout_s in accepted]
    outcomes = await queue.change_visibility(changes, call.requester) if changes else []
    successful: list[ChangeMessageVisibilityBatchResultEntry] = []
    for (entry_id, handle, timeout_s), error in zip(accepted, outcomes, strict=True):
        if error is None:
            successful.append(ChangeMessageVisibilityBatchResultEntry(Id=entry_id))
        else:
            failed.append(failed_entry(entry_id, _entry_fault(error, handle, timeout_s)))
    return ChangeMessageVisibilityBatchResult(Successful=successful or None, Failed=failed or None)


def _visibility_change(entry: ChangeMessageVisibilityBatchRequestEntry, number: int) -> tuple[str, int]:
    member = f"ChangeMessageVisibilityBatchRequestEntry.{number}"
    handle = required(entry.ReceiptHandle, f"{member}.ReceiptHandle")
    timeout_s = entry.VisibilityTimeout
    if timeout_s is None:
        raise missing_parameter(f"{member}.VisibilityTimeout")
    reason = f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_S_MAX}."
    check_range(timeout_s, 0, VISIBILITY_S_MAX, "VisibilityTimeout", reason)
    return handle, timeout_s


def _handle_fault(error: PenstockError, handle: str, visibility_s: int | None = None) -> Fault:
    match error:
        case HandleInvalid():
            message = f'The input receipt handle "{handle}" is not a valid receipt handle.'
            return sqs_fault("ReceiptHandleIsInvalid", message)
        case HandleExpired():
            return invalid_value(handle, "ReceiptHandle", f"{_EXPIRED}.")
        case MessageNotAvailable():
            return invalid_value(handle, "ReceiptHandle", f"{_NOT_AVAILABLE}.")
        case VisibilityTooLong():
            limit = f"beyond the limit [{VISIBILITY_S_MAX} seconds]"
            reason = f"Total VisibilityTimeout for the message is {limit}."
            return invalid_value(visibility_s, "VisibilityTimeout", reason)
    raise error


def _entry_fault(error: PenstockError, handle: str, visibility_s: int | None = None) -> Fault:
    # SQS: other codes and texts than for the single actions.
    if isinstance(error, HandleExpired):
        return sqs_fault("ReceiptHandleIsInvalid", _EXPIRED)
    if isinstance(error, MessageNotAvailable):
        return sqs_fault("ReceiptHandleIsInvalid", _NOT_AVAILABLE)
    return _handle_fault(error, handle, visibility_s)
