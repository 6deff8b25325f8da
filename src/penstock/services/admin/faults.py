"""The errors of the admin API: a shape and a status for each error of the domain, and a text that says what to do."""

from __future__ import annotations

from penstock.auth.authorize import AccessDenied
from penstock.errors import (
    ContentDamaged,
    ContentOutdated,
    FilterInvalid,
    FilterTooSlow,
    HandleExpired,
    HandleInvalid,
    KeyUnavailable,
    MessageInFlight,
    MessageNotAvailable,
    NoRoomBetween,
    NotPossible,
    PenstockError,
    QueueMissing,
    QuotaReached,
    SearchUnfinished,
    SignatureMissing,
    TaskInvalid,
    TaskMissing,
    TaskNotRunning,
    TaskRunning,
)
from penstock.wire.service import Fault

STATUS = {
    "QueueDoesNotExist": 404,
    "MessageDoesNotExist": 404,
    "TaskDoesNotExist": 404,
    "TopicDoesNotExist": 404,
    "SubscriptionDoesNotExist": 404,
    "OutboxEntryDoesNotExist": 404,
    "MessageInFlight": 409,
    "VersionMismatch": 409,
    "ReceiptHandleExpired": 409,
    "NotPossible": 409,
    "InvalidParameter": 400,
    "AccessDenied": 403,
}

IN_FLIGHT = "The message was received and is hidden: wait until it is deleted or visible again."

_TEXTS: dict[type[PenstockError], tuple[str, str]] = {
    QueueMissing: ("QueueDoesNotExist", "The queue does not exist in this account and region."),
    MessageNotAvailable: (
        "MessageDoesNotExist",
        "The queue holds no message with this id: it was deleted, moved or has expired.",
    ),
    SearchUnfinished: (
        "MessageDoesNotExist",
        "No message with this id was found in ten seconds, and the queue has more messages: use ListMessages, "
        "with its id as the filter, or change the message by a task with that filter.",
    ),
    MessageInFlight: ("MessageInFlight", IN_FLIGHT),
    ContentDamaged: (
        "NotPossible",
        "The content of the message is damaged: delete the message, or send it to the dead-letter queue.",
    ),
    HandleInvalid: (
        "InvalidParameter",
        "The receipt_handle is not one of this message: give the one of your last receive.",
    ),
    HandleExpired: (
        "ReceiptHandleExpired",
        "The message is not hidden by that receive any more: it is visible again, or was received since.",
    ),
    TaskMissing: (
        "TaskDoesNotExist",
        "The queue has no task with this id: it was never started, or ended long ago and was forgotten.",
    ),
    TaskNotRunning: ("NotPossible", "The task has ended: only a running one can be cancelled."),
    TaskRunning: (
        "NotPossible",
        "As many tasks of this queue run as may at a time: wait until one ends, or cancel it.",
    ),
    NoRoomBetween: (
        "NotPossible",
        "There is no free position directly before that message: move it to the front or before another one.",
    ),
}


def admin_fault(shape: str, message: str) -> Fault:
    return Fault(shape, shape, STATUS[shape], message, modelled=True)


def invalid(parameter: str, expected: str) -> Fault:
    return admin_fault("InvalidParameter", f"Invalid value of {parameter}: expected {expected}.")


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, SignatureMissing):
        return admin_fault("AccessDenied", "The request must be signed for the service penstock.")
    if isinstance(error, AccessDenied):
        allow = f". To allow it: {error.remedy}" if error.remedy else ""
        return admin_fault("AccessDenied", f"{error}{allow}")
    if isinstance(error, FilterInvalid | FilterTooSlow | TaskInvalid):
        return admin_fault("InvalidParameter", f"{error}.")
    if isinstance(error, ContentOutdated):
        text = f"The message has changed since it was read: its version is {error.version}. Read it again."
        return admin_fault("VersionMismatch", text)
    if isinstance(error, KeyUnavailable):
        text = f"The encryption key {error.key} cannot be used: enable it, or restore it to the keyring."
        return admin_fault("NotPossible", text)
    if isinstance(error, NotPossible):
        return admin_fault("NotPossible", f"Not possible: {error}.")
    if isinstance(error, QuotaReached):
        return admin_fault("NotPossible", f"The account may have {error.most} {error.what}, and no more.")
    for kind in type(error).__mro__:
        if kind in _TEXTS:
            return admin_fault(*_TEXTS[kind])
    return None
