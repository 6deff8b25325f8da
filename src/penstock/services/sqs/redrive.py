"""RedrivePolicy and RedriveAllowPolicy: JSON text to settings, and back to the canonical text that SQS shows.

SQS: whether the target exists, is of the same type and allows this source is checked when the policy is
set, and never again.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.broker.other_shards import DefinitionQuestion
from penstock.names import Arn, QueueName, without_partition
from penstock.queues.settings import QueueSettings, Redrive, RedriveAllow
from penstock.services.sqs.faults import invalid_value
from penstock.services.sqs.limits import POLICY_BYTES_MAX, REDRIVE_RECEIVES_MAX, REDRIVE_SOURCES_MAX
from penstock.services.sqs.validation import utf8_length
from penstock.wire.faults import invalid_parameter
from penstock.wire.service import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

_INTEGER = re.compile(r"\d{1,10}", re.ASCII)


def read_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in ``text``, or None if it is anything else."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_object(document: dict[str, Any]) -> str:
    # Not msgspec, which writes only integers of 64 bits but reads larger ones.
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def read_redrive(text: str, source: QueueName) -> Redrive:
    document = _document(text)
    if document is None:
        raise invalid_parameter(
            "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
        )
    for key in ("maxReceiveCount", "deadLetterTargetArn"):
        if document.get(key) is None:
            raise _refused(text, f"Redrive policy does not contain mandatory attribute: {key}.")
    if len(document) > 2:
        raise _refused(
            text, "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."
        )
    receives_max = _count(document["maxReceiveCount"])
    if receives_max is None:
        raise _refused(
            text,
            f"Invalid value for maxReceiveCount: {document['maxReceiveCount']}, "
            f"valid values are from 1 to {REDRIVE_RECEIVES_MAX} both inclusive.",
        )
    return Redrive(_target(document["deadLetterTargetArn"], text, source), receives_max)


def _document(text: str) -> dict[str, Any] | None:
    return read_object(text) if utf8_length(text) <= POLICY_BYTES_MAX else None


def _count(value: Any) -> int | None:
    # Infrastructure tools send the count as text as often as a number.
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= REDRIVE_RECEIVES_MAX:
        return value
    return None


def _target(value: Any, text: str, source: QueueName) -> QueueName:
    arn = Arn.parse(value) if isinstance(value, str) else None
    if arn is None:
        raise _refused(text, "Dead-letter target ARN should be fully qualified ARN.")
    if arn.service != "sqs":
        raise _refused(text, "Only SQS queues are valid resources for deadLetterTargetArn.")
    if arn.region != source.region:
        raise _refused(text, "Dead-letter target must be in same region as the source.")
    if arn.account != source.account:
        raise _refused(text, "Dead-letter target owner should be same as the source.")
    return arn.queue


async def check_redrive(
    broker: Broker, redrive: Redrive, text: str, source: QueueName, *, fifo: bool
) -> None:
    """The target may be in any shard."""
    target = await broker.ask(DefinitionQuestion(redrive.target))
    check_redrive_target(None if target is None else target.settings, redrive, text, source, fifo=fifo)


def check_redrive_target(
    target: QueueSettings | None, redrive: Redrive, text: str, source: QueueName, *, fifo: bool
) -> None:
    if redrive.target == source:
        return  # SQS: a queue may be its own dead-letter queue.
    if target is None:
        raise _refused(text, "Dead letter target does not exist.")
    if target.fifo != fifo:
        raise _refused(text, "Dead-letter queue must be same type of queue as the source.")
    if not _allows(target.redrive_allow, source):
        raise _refused(text, "The redrive allow policy of the dead-letter queue does not allow this source.")


def _allows(allow: RedriveAllow | None, source: QueueName) -> bool:
    if allow is None or allow.permission == "allowAll":
        return True
    return allow.permission == "byQueue" and without_partition(source.arn) in map(
        without_partition, allow.sources
    )


def show_redrive(redrive: Redrive) -> str:
    return write_object({"deadLetterTargetArn": redrive.target.arn, "maxReceiveCount": redrive.receives_max})


def read_redrive_allow(text: str) -> RedriveAllow:
    document = _document(text)
    if document is None or not document.keys() <= {"redrivePermission", "sourceQueueArns"}:
        raise _unsupported_format()
    permission, sources = document.get("redrivePermission"), document.get("sourceQueueArns") or []
    if permission not in ("allowAll", "denyAll", "byQueue") or not isinstance(sources, list):
        raise _unsupported_format()
    if not all(isinstance(source, str) and Arn.parse(source) for source in sources):
        raise _unsupported_format()
    if permission == "byQueue" and not sources:
        raise _allow_refused(
            text,
            "When you specify the byQueue permission type, "
            "you must also specify one or more sourceQueueArns values.",
        )
    if permission != "byQueue" and sources:
        raise _allow_refused(
            text, "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
        )
    if len(sources) > REDRIVE_SOURCES_MAX:
        raise _allow_refused(
            text, f"The maximum number of source queue ARNs you can specify is {REDRIVE_SOURCES_MAX}."
        )
    return RedriveAllow(permission, tuple(sources))


def show_redrive_allow(allow: RedriveAllow) -> str:
    document: dict[str, Any] = {"redrivePermission": allow.permission}
    if allow.sources:
        document["sourceQueueArns"] = list(allow.sources)
    return write_object(document)


def _refused(text: str, reason: str) -> Fault:
    return invalid_value(text, "RedrivePolicy", reason)


def _allow_refused(text: str, reason: str) -> Fault:
    return invalid_value(
        text, "RedriveAllowPolicy", f"Amazon SQS can't create the redrive allow policy. {reason}"
    )


def _unsupported_format() -> Fault:
    return invalid_parameter(
        "Invalid value for the parameter RedriveAllowPolicy. Reason: "
        "Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
    )
