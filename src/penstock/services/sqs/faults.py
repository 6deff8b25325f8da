"""The errors of SQS: each shape with its older code and status, and the text for each error of the domain."""

from __future__ import annotations

from penstock.auth.authorize import AccessDenied
from penstock.errors import (
    DedupFull,
    KeyDisabled,
    KeyUnavailable,
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
)
from penstock.services.sqs.limits import DELETE_PAUSE_S, PURGE_PAUSE_S
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


def queue_not_accessible() -> Fault:
    return sqs_fault(
        "QueueDoesNotExist", "The specified queue does not exist or you do not have access to it."
    )


_TEXTS: dict[type[PenstockError], tuple[str, ...]] = {
    QueueMissing: (
        "QueueDoesNotExist",
        "The specified queue does not exist.",
        "The specified queue does not exist for this wsdl version.",
    ),
    QueueDeletedRecently: (
        "QueueDeletedRecently",
        f"You must wait {DELETE_PAUSE_S} seconds after deleting a queue "
        "before you can create another with the same name.",
    ),
    TooManyInFlight: (
        "OverLimit",
        "Too many messages have been received without being deleted. "
        "Please delete your received messages or let them timeout before receiving more.",
    ),
    DedupFull: ("RequestThrottled", "Too many FIFO messages were sent within the deduplication interval."),
    MoveTaskMissing: ("ResourceNotFoundException", "Task does not exist."),
}
_PARAMETER_TEXTS: dict[type[PenstockError], str] = {
    MoveTaskRunning: "There is already a task running. "
    "Only one active task is allowed for a source queue arn at a given time.",
    MoveTaskNotRunning: "Only active tasks can be cancelled.",
    SourceNotDeadLetterQueue: "Source queue must be configured as a Dead Letter Queue.",
}


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, SignatureMissing):
        return access_denied(f"Access to the resource {error.address} is denied.")
    if isinstance(error, AccessDenied):
        # SQS: some queues do not exist for those who may not see them.
        hidden = getattr(error.resource, "is_hidden", False)
        return queue_not_accessible() if hidden else access_denied(str(error))
    if isinstance(error, PurgedRecently):
        message = f"Only one PurgeQueue operation on {error.queue} is allowed every {PURGE_PAUSE_S} seconds."
        return sqs_fault("PurgeQueueInProgress", message)
    if isinstance(error, QuotaReached):
        return sqs_fault("OverLimit", f"The account may have {error.most} {error.what}, and no more.")
    if isinstance(error, KeyUnavailable):
        return _key_fault(error)
    for kind in type(error).__mro__:
        if kind in _TEXTS:
            return sqs_fault(*_TEXTS[kind])
        if kind in _PARAMETER_TEXTS:
            return invalid_parameter(_PARAMETER_TEXTS[kind])
    return None


def _key_fault(error: KeyUnavailable) -> Fault:
    """SQS passes the texts of KMS on."""
    if isinstance(error, KeyDisabled):
        return sqs_fault("KmsDisabled", f"{error.key} is disabled.")
    if ":alias/" in error.key:
        return sqs_fault("KmsNotFound", f"Alias {error.key} is not found.")
    return sqs_fault("KmsNotFound", f"Key '{error.key}' does not exist")
