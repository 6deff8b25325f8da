"""Queue attributes: a map of strings on the wire, :class:`QueueSettings` inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.limits import SECOND
from penstock.names import QueueName
from penstock.queues.messages import Counts
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.faults import invalid_attribute, sqs_fault, unknown_attribute
from penstock.services.sqs.limits import (
    DELAY_S_MAX,
    KMS_KEY_LENGTH_MAX,
    KMS_REUSE_S_MAX,
    KMS_REUSE_S_MIN,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_MIN,
    RETENTION_S_MAX,
    RETENTION_S_MIN,
    VISIBILITY_S_MAX,
    WAIT_S_MAX,
)
from penstock.services.sqs.permissions import check_policy
from penstock.services.sqs.redrive import (
    read_redrive,
    read_redrive_allow,
    show_redrive,
    show_redrive_allow,
)
from penstock.services.sqs.validation import is_legal

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue


class _IntegerAttribute(msgspec.Struct, frozen=True):
    """Limits are in the unit of the wire."""

    setting: str
    low: int
    high: int
    unit: int = SECOND


_INTEGERS = {
    "DelaySeconds": _IntegerAttribute("delay_ms", 0, DELAY_S_MAX),
    "MaximumMessageSize": _IntegerAttribute(
        "message_bytes_max", MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX, unit=1
    ),
    "MessageRetentionPeriod": _IntegerAttribute("retention_ms", RETENTION_S_MIN, RETENTION_S_MAX),
    "ReceiveMessageWaitTimeSeconds": _IntegerAttribute("wait_ms", 0, WAIT_S_MAX),
    "VisibilityTimeout": _IntegerAttribute("visibility_ms", 0, VISIBILITY_S_MAX),
    "KmsDataKeyReusePeriodSeconds": _IntegerAttribute("data_key_reuse_ms", KMS_REUSE_S_MIN, KMS_REUSE_S_MAX),
}
_CHOICES = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
_FIFO_ONLY = ("FifoQueue", "ContentBasedDeduplication", *_CHOICES)
_DIGITS = re.compile(r"\d{1,10}", re.ASCII)

SETTABLE = {
    *_INTEGERS,
    *_FIFO_ONLY,
    "Policy",
    "RedrivePolicy",
    "RedriveAllowPolicy",
    "KmsMasterKeyId",
    "SqsManagedSseEnabled",
}
COUNTED = {
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
}
READABLE = SETTABLE | COUNTED | {"All", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}


def wants_fifo(attributes: Mapping[str, str]) -> bool:
    """Whether the attributes ask for a FIFO queue. The name has to agree: see check_queue_name."""
    return "FifoQueue" in attributes and _boolean("FifoQueue", attributes["FifoQueue"])


def with_attributes(
    settings: QueueSettings, attributes: Mapping[str, str], name: QueueName, *, new: bool
) -> QueueSettings:
    """``settings`` with the given attributes. Raises Fault if one is invalid, or all together."""
    changes: dict[str, Any] = {}
    for attribute, value in attributes.items():
        _check_settable(attribute, value, settings, new=new)
        changes.update(_change(attribute, value, name))
    _choose_encryption(changes)
    if new:
        # SQS: the scope a queue was created with is the one it keeps; a later one is only shown.
        changes["dedup_scope"] = changes.get("dedup_scope_shown", "queue")
    changed: QueueSettings = msgspec.structs.replace(settings, **changes)
    if changed.throughput_limit == "perMessageGroupId" and changed.dedup_scope_shown != "messageGroup":
        raise sqs_fault(
            "InvalidAttributeValue",
            "The perMessageGroupId value is allowed only "
            "when the value for DeduplicationScope is messageGroup",
        )
    return changed


def _check_settable(attribute: str, value: str, settings: QueueSettings, *, new: bool) -> None:
    if attribute not in SETTABLE:
        raise unknown_attribute(attribute)
    if attribute in _FIFO_ONLY and not settings.fifo:
        if attribute in _CHOICES:
            raise sqs_fault(
                "InvalidAttributeName",
                f"You can specify the {attribute} only when FifoQueue is set to true.",
            )
        raise unknown_attribute(attribute)
    if attribute == "FifoQueue" and not new and not _boolean(attribute, value):
        raise sqs_fault(
            "InvalidAttributeValue",
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        )


def _change(attribute: str, value: str, name: QueueName) -> dict[str, Any]:
    integer = _INTEGERS.get(attribute)
    if integer is not None:
        return {integer.setting: _number(attribute, value, integer) * integer.unit}
    match attribute:
        case "FifoQueue":
            return {}  # decided with the name when the queue is created
        case "ContentBasedDeduplication":
            return {"content_dedup": _boolean(attribute, value)}
        case "SqsManagedSseEnabled":
            return {"managed_key": _boolean(attribute, value)}
        case "DeduplicationScope":
            return {"dedup_scope_shown": _choice(attribute, value)}
        case "FifoThroughputLimit":
            return {"throughput_limit": _choice(attribute, value)}
        case "KmsMasterKeyId":
            return {"encryption_key": _key(value)}
        case "Policy":  # SQS: an empty policy or key removes it.
            if value:
                check_policy(value)
            return {"policy": value or None}
        case "RedrivePolicy":
            return {"redrive": read_redrive(value, name) if value else None}
        case "RedriveAllowPolicy":
            return {"redrive_allow": read_redrive_allow(value) if value else None}
    raise AssertionError(f"{attribute} is settable, but not implemented")


def _choose_encryption(changes: dict[str, Any]) -> None:
    # SQS: one kind of encryption at a time; choosing one removes the other.
    if changes.get("encryption_key"):
        if changes.get("managed_key"):
            raise sqs_fault(
                "InvalidAttributeName",
                "You can use one type of server-side encryption (SSE) at one time. "
                "You can either enable KMS SSE or SQS SSE.",
            )
        changes["managed_key"] = False
    elif changes.get("managed_key"):
        changes["encryption_key"] = None


def _number(attribute: str, value: str, integer: _IntegerAttribute) -> int:
    number = int(value) if _DIGITS.fullmatch(value) else -1
    if not integer.low <= number <= integer.high:
        raise invalid_attribute(attribute)
    return number


def _boolean(attribute: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise invalid_attribute(attribute)
    return value.lower() == "true"


def _choice(attribute: str, value: str) -> str:
    if value not in _CHOICES[attribute]:
        raise invalid_attribute(attribute)
    return value


def _key(value: str) -> str | None:
    # SQS: the key is looked up when it is used, not when it is named.
    if len(value) > KMS_KEY_LENGTH_MAX or not is_legal(value):
        raise invalid_attribute("KmsMasterKeyId")
    return value or None


def shown_settings(settings: QueueSettings) -> dict[str, str]:
    """Every attribute of these settings that has a value."""
    shown = {
        attribute: str(getattr(settings, integer.setting) // integer.unit)
        for attribute, integer in _INTEGERS.items()
    }
    if settings.encryption_key is None:
        del shown["KmsDataKeyReusePeriodSeconds"]
    else:
        shown["KmsMasterKeyId"] = settings.encryption_key
    shown["SqsManagedSseEnabled"] = _shown_boolean(settings.managed_key)
    if settings.policy is not None:
        shown["Policy"] = settings.policy
    if settings.redrive is not None:
        shown["RedrivePolicy"] = show_redrive(settings.redrive)
    if settings.redrive_allow is not None:
        shown["RedriveAllowPolicy"] = show_redrive_allow(settings.redrive_allow)
    if settings.fifo:
        shown["FifoQueue"] = "true"
        shown["ContentBasedDeduplication"] = _shown_boolean(settings.content_dedup)
        shown["DeduplicationScope"] = settings.dedup_scope_shown
        shown["FifoThroughputLimit"] = settings.throughput_limit
    return shown


def shown_queue(queue: LiveQueue, counts: Counts) -> dict[str, str]:
    return {
        "QueueArn": queue.name.arn,
        "CreatedTimestamp": str(queue.created_ms // SECOND),
        "LastModifiedTimestamp": str(queue.modified_ms // SECOND),
        "ApproximateNumberOfMessages": str(counts.visible),
        "ApproximateNumberOfMessagesNotVisible": str(counts.in_flight),
        "ApproximateNumberOfMessagesDelayed": str(counts.delayed),
        **shown_settings(queue.settings),
    }


def different_attribute(
    current: QueueSettings, wanted: QueueSettings, given: Mapping[str, str]
) -> str | None:
    """The first given attribute whose value would not be the current one."""
    before, after = shown_settings(current), shown_settings(wanted)
    return next((name for name in given if before.get(name) != after.get(name)), None)


def _shown_boolean(value: bool) -> str:
    return "true" if value else "false"
