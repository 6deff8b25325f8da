"""A message on its way in: checked and measured, alone or as an entry of a batch."""

from __future__ import annotations

import msgspec

from penstock.limits import SECOND
from penstock.queues.messages import Attribute, Outgoing
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.checksums import md5_of_attributes, md5_of_body
from penstock.services.sqs.faults import invalid_value
from penstock.services.sqs.message_attributes import (
    TRACE_HEADER,
    system_attributes,
    user_attributes,
    wire_size,
)
from penstock.services.sqs.operations import MessageParts
from penstock.services.sqs.validation import (
    DELAY_S_MAX,
    NOT_FOR_THIS_TYPE,
    check_body,
    check_id,
    check_range,
    is_legal,
    too_long,
    utf8_length,
)
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter

# Amazon's sequence numbers have twenty digits, always: as text they sort as they do as numbers.
_SEQUENCE_BASE = 18_800_000_000_000_000_000


class Digests(msgspec.Struct, frozen=True):
    """What the sender is told about its message, for it to check: what it sent now, even if that turns out to
    be a duplicate of something else."""

    body: str
    attributes: str | None
    system_attributes: str | None


def size_of(parts: MessageParts) -> int:
    """SQS: the body and the user attributes. What the system adds does not count."""
    size = utf8_length(parts.MessageBody or "")
    return size + wire_size(parts.MessageAttributes) if parts.MessageAttributes else size


def outgoing(
    parts: MessageParts, body: str, settings: QueueSettings, call: Call, *, in_batch: bool = False
) -> tuple[Outgoing, Digests]:
    """The message, found valid. That on FIFO it has a group and something to deduplicate by is seen before:
    a batch words that otherwise."""
    delay_ms = None if parts.DelaySeconds is None else _delay_ms(parts.DelaySeconds, settings)
    if parts.MessageGroupId is not None:
        check_id(parts.MessageGroupId, "MessageGroupId")
    if parts.MessageDeduplicationId is not None:
        _check_dedup_id(parts.MessageDeduplicationId, settings, in_batch=in_batch)
    check_body(body)
    attributes = user_attributes(parts.MessageAttributes) if parts.MessageAttributes else None
    system = system_attributes(parts.MessageSystemAttributes) if parts.MessageSystemAttributes else None
    if size_of(parts) > settings.message_bytes_max:
        raise too_long(settings.message_bytes_max, in_batch=in_batch)
    message = Outgoing(
        body=body,
        sender=call.sender,
        attributes=attributes,
        trace=_trace(system, call) if system or call.trace else None,
        delay_ms=delay_ms,
        group=parts.MessageGroupId,
        dedup_id=parts.MessageDeduplicationId,
    )
    return message, Digests(
        md5_of_body(body),
        md5_of_attributes(attributes) if attributes else None,
        md5_of_attributes(system) if system else None,
    )


def sequence_number(sequence: int | None) -> str | None:
    return None if sequence is None else str(_SEQUENCE_BASE + sequence)


def _delay_ms(delay_s: int, settings: QueueSettings) -> int | None:
    reason = f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}."
    check_range(delay_s, 0, DELAY_S_MAX, "DelaySeconds", reason)
    if not settings.fifo:
        return delay_s * SECOND
    # SQS: on FIFO the delay is the queue's, never the message's; 0 is taken and means the queue's.
    if delay_s:
        raise invalid_value(delay_s, "DelaySeconds", f"{NOT_FOR_THIS_TYPE}.")
    return None


def _check_dedup_id(dedup_id: str, settings: QueueSettings, *, in_batch: bool) -> None:
    if settings.fifo:
        check_id(dedup_id, "MessageDeduplicationId")
    elif in_batch:
        raise invalid_parameter(NOT_FOR_THIS_TYPE)
    else:
        raise invalid_value(dedup_id, "MessageDeduplicationId", f"{NOT_FOR_THIS_TYPE}.")


def _trace(system: dict[str, Attribute] | None, call: Call) -> str | None:
    """The trace the sender named, or else the one its request came with."""
    if system is not None:
        value = system[TRACE_HEADER].value
        return value if isinstance(value, str) else None
    return call.trace if call.trace and is_legal(call.trace) else None
