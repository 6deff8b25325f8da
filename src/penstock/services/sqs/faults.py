"""The errors of SQS: each shape with its older code and status, and the domain's errors in SQS's words."""

from __future__ import annotations

from penstock.errors import (
    DedupFull,
    HandleExpired,
    HandleInvalid,
    KeyDisabled,
    KeyUnavailable,
    MessageNotAvailable,
    MoveTaskMissing,
    MoveTaskNotRunning,
    MoveTaskRunning,
    PenstockError,
    PurgedRecently,
    QueueDeletedRecently,
    QueueMissing,
    QuotaReached,
    SignatureMissing,
    SourceNotDeadLetterQueue,
    TooManyInFlight,
    VisibilityTooLong,
)
from penstock.wire.faults import access_denied, invalid_parameter
from penstock.wire.service import Fault

_LEGACY = "AWS.SimpleQueueService."
_SHAPES: dict[str, tuple[str, int]] = {
    "QueueDoesNotExist": (_LEGACY + "NonExistentQueue", 400),
    "QueueNameExists": ("QueueAlreadyExists", 400),
    "QueueDeletedRecently": (_LEGACY + "QueueDeletedRecently", 400),
    "PurgeQueueInProgress": (_LEGACY + "PurgeQueueInProgress", 403),
    "OverLimit": ("OverLimit", 403),
    "RequestThrottled": ("RequestThrottled", 403),
    "ReceiptHandleIsInvalid": ("ReceiptHandleIsInvalid", 404),
    "ResourceNotFoundException": ("ResourceNotFoundException", 404),
    "InvalidAddress": ("InvalidAddress", 404),
    "EmptyBatchRequest": (_LEGACY + "EmptyBatchRequest", 400),
    "TooManyEntriesInBatchRequest": (_LEGACY + "TooManyEntriesInBatchRequest", 400),
    "BatchEntryIdsNotDistinct": (_LEGACY + "BatchEntryIdsNotDistinct", 400),
    "InvalidBatchEntryId": (_LEGACY + "InvalidBatchEntryId", 400),
    "BatchRequestTooLong": (_LEGACY + "BatchRequestTooLong", 400),
    "UnsupportedOperation": (_LEGACY + "UnsupportedOperation", 400),
    "InvalidAttributeName": ("InvalidAttributeName", 400),
    "InvalidAttributeValue": ("InvalidAttributeValue", 400),
    "InvalidMessageContents": ("InvalidMessageContents", 400),
    "KmsDisabled": ("KMS.DisabledException", 400),
    "KmsNotFound": ("KMS.NotFoundException", 400),
}

HANDLE_EXPIRED = "The receipt handle has expired"
MESSAGE_NOT_AVAILABLE = "Message does not exist or is not available for visibility timeout change"


def sqs_fault(shape: str, message: str, query_message: str | None = None) -> Fault:
    code, status = _SHAPES[shape]
    return Fault(shape, code, status, message, modelled=True, query_message=query_message)


def unknown_attribute(name: str) -> Fault:
    return sqs_fault("InvalidAttributeName", f"Unknown Attribute {name}.")


def invalid_attribute(name: str) -> Fault:
    return sqs_fault("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


def invalid_value(value: object, parameter: str, reason: str) -> Fault:
    return invalid_parameter(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def resource_missing(parameter: str) -> Fault:
    message = f"The resource that you specified for the {parameter} parameter doesn't exist."
    return sqs_fault("ResourceNotFoundException", message)


def handle_fault(error: PenstockError, handle: str, visibility_s: int | None = None) -> Fault:
    """What became of one receipt handle, where the words name the handle or the timeout asked for."""
    match error:
        case HandleInvalid():
            message = f'The input receipt handle "{handle}" is not a valid receipt handle.'
            return sqs_fault("ReceiptHandleIsInvalid", message)
        case HandleExpired():
            return invalid_value(handle, "ReceiptHandle", f"{HANDLE_EXPIRED}.")
        case MessageNotAvailable():
            return invalid_value(handle, "ReceiptHandle", f"{MESSAGE_NOT_AVAILABLE}.")
        case VisibilityTooLong():
            reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."
            return invalid_value(visibility_s, "VisibilityTimeout", reason)
    raise error


_WORDS: dict[type[PenstockError], tuple[str, ...]] = {
    QueueMissing: (
        "QueueDoesNotExist",
        "The specified queue does not exist.",
        "The specified queue does not exist for this wsdl version.",
    ),
    QueueDeletedRecently: (
        "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    ),
    TooManyInFlight: (
        "OverLimit",
        "Too many messages have been received without being deleted. "
        "Please delete your received messages or let them timeout before receiving more.",
    ),
    DedupFull: ("RequestThrottled", "Too many FIFO messages were sent within the deduplication interval."),
    MoveTaskMissing: ("ResourceNotFoundException", "Task does not exist."),
}
_PARAMETER_WORDS: dict[type[PenstockError], str] = {
    MoveTaskRunning: "There is already a task running. "
    "Only one active task is allowed for a source queue arn at a given time.",
    MoveTaskNotRunning: "Only active tasks can be cancelled.",
    SourceNotDeadLetterQueue: "Source queue must be configured as a Dead Letter Queue.",
}


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, SignatureMissing):
        return access_denied(f"Access to the resource {error.address} is denied.")
    if isinstance(error, PurgedRecently):
        message = f"Only one PurgeQueue operation on {error.queue} is allowed every 60 seconds."
        return sqs_fault("PurgeQueueInProgress", message)
    if isinstance(error, QuotaReached):
        return sqs_fault("OverLimit", f"The account may have {error.most} {error.what}, and no more.")
    if isinstance(error, KeyUnavailable):
        return _key_fault(error)
    for kind in type(error).__mro__:
        if kind in _WORDS:
            return sqs_fault(*_WORDS[kind])
        if kind in _PARAMETER_WORDS:
            return invalid_parameter(_PARAMETER_WORDS[kind])
    return None


def _key_fault(error: KeyUnavailable) -> Fault:
    """In the words of KMS, which SQS passes on."""
    if isinstance(error, KeyDisabled):
        return sqs_fault("KmsDisabled", f"{error.key} is disabled.")
    if ":alias/" in error.key:
        return sqs_fault("KmsNotFound", f"Alias {error.key} is not found.")
    return sqs_fault("KmsNotFound", f"Key '{error.key}' does not exist")
