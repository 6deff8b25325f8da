"""SendMessage and SendMessageBatch: a message is validated and measured, alone or as an entry of a batch.

The responses carry MD5 digests that SDKs verify. The digest of a body is that of its UTF-8 bytes. The digest of
attributes covers, in order of their names, the name, the type and the value of each, every one after its length in
four bytes (big-endian); one byte before the value says text (1) or binary (2). They are digests of what was sent
now, even if it turns out to be a duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import md5

import msgspec

from penstock.limits import SECOND
from penstock.queues.messages import Attribute, Outgoing
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.batches import checked_entries, failed_entry
from penstock.services.sqs.faults import invalid_value, sqs_fault
from penstock.services.sqs.limits import BATCH_BYTES_MAX, DELAY_S_MAX
from penstock.services.sqs.message_attributes import (
    TRACE_HEADER,
    system_attributes,
    user_attributes,
    wire_size,
)
from penstock.services.sqs.resources import Sqs
from penstock.services.sqs.structs import (
    BatchResultErrorEntry,
    MessageParts,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
    SendMessageBatchResult,
    SendMessageBatchResultEntry,
    SendMessageRequest,
    SendMessageResult,
)
from penstock.services.sqs.validation import (
    CONTROL_CHARACTERS,
    ILLEGAL_CHARACTER,
    check_id,
    check_range,
    is_legal,
    utf8_length,
)
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.service import Call, Fault

# SQS: sequence numbers have twenty digits, always: as text they sort as they do as numbers.
_SEQUENCE_BASE = 18_800_000_000_000_000_000
_NOT_FOR_THIS_TYPE = "The request include parameter that is not valid for this queue type"  # sic
_NEEDS_DEDUP_ID = (
    "The queue should either have ContentBasedDeduplication enabled "
    "or MessageDeduplicationId provided explicitly"
)


class Digests(msgspec.Struct, frozen=True, gc=False):
    body: str
    attributes: str | None = None
    system_attributes: str | None = None


async def send_message(sqs: Sqs, request: SendMessageRequest, call: Call) -> SendMessageResult:
    queue = call.resource.queue
    settings = queue.settings
    if not request.MessageBody:
        raise missing_parameter("MessageBody")
    if settings.fifo:
        if request.MessageGroupId is None:
            raise missing_parameter("MessageGroupId")
        if request.MessageDeduplicationId is None and not settings.content_dedup:
            raise invalid_parameter(_NEEDS_DEDUP_ID)
    message, digests = prepare(request, request.MessageBody, settings, call)
    (sent,) = await queue.send([message], call.requester)
    return SendMessageResult(
        MD5OfMessageBody=digests.body,
        MD5OfMessageAttributes=digests.attributes,
        MD5OfMessageSystemAttributes=digests.system_attributes,
        MessageId=sent.id,
        SequenceNumber=None if sent.sequence is None else sequence_number(sent.sequence),
    )


async def send_message_batch(
    sqs: Sqs, request: SendMessageBatchRequest, call: Call
) -> SendMessageBatchResult:
    """The valid entries go to the broker together and in their order: one decision, one commit."""
    queue = call.resource.queue
    entries = checked_entries(request.Entries, "SendMessageBatchRequestEntry")
    _check_batch_size(entries)
    if queue.settings.fifo:
        _check_batch_fifo(entries, queue.settings)
    accepted: list[tuple[str, Digests]] = []
    messages: list[Outgoing] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(entries, 1):
        assert entry.Id is not None
        try:
            body = _entry_body(entry, number)
            message, digests = prepare(entry, body, queue.settings, call, in_batch=True)
        except Fault as fault:
            failed.append(failed_entry(entry.Id, fault))
        else:
            accepted.append((entry.Id, digests))
            messages.append(message)
    sent = await queue.send(messages, call.requester) if messages else []
    successful = [
        SendMessageBatchResultEntry(
            Id=entry_id,
            MessageId=one.id,
            MD5OfMessageBody=digests.body,
            MD5OfMessageAttributes=digests.attributes,
            MD5OfMessageSystemAttributes=digests.system_attributes,
            SequenceNumber=None if one.sequence is None else sequence_number(one.sequence),
        )
        for (entry_id, digests), one in zip(accepted, sent, strict=True)
    ]
    return SendMessageBatchResult(Successful=successful or None, Failed=failed or None)


def prepare(
    parts: MessageParts, body: str, settings: QueueSettings, call: Call, *, in_batch: bool = False
) -> tuple[Outgoing, Digests]:
    """The message to send and its digests. Raises Fault if it is invalid.

    The group and deduplication id that FIFO requires are checked before: their errors differ in a batch.
    """
    delay_ms = attributes = system = None
    if parts.DelaySeconds is not None:
        delay_ms = _delay_ms(parts.DelaySeconds, settings)
    if parts.MessageGroupId is not None:
        check_id(parts.MessageGroupId, "MessageGroupId")
    if parts.MessageDeduplicationId is not None:
        _check_dedup_id(parts.MessageDeduplicationId, settings, in_batch=in_batch)
    # Encoded once for the check, the size and the digest.
    encoded = body.encode("utf-8", "surrogatepass")
    size = len(encoded)
    if body.isascii():  # one pass over bytes is several times faster than isprintable
        legal = len(encoded.translate(None, CONTROL_CHARACTERS)) == size
    else:
        legal = body.isprintable() or ILLEGAL_CHARACTER.search(body) is None
    if not legal:
        raise _illegal_character(body)
    if parts.MessageAttributes:
        attributes = user_attributes(parts.MessageAttributes)
        size += wire_size(parts.MessageAttributes)
    if parts.MessageSystemAttributes:
        system = system_attributes(parts.MessageSystemAttributes)
    if size > settings.message_bytes_max:
        verb = "cannot be validated" if in_batch else "are invalid"
        raise invalid_parameter(
            f"One or more parameters {verb}. "
            f"Reason: Message must be shorter than {settings.message_bytes_max} bytes."
        )
    message = Outgoing(
        body=body,
        sender=call.sender,
        attributes=attributes,
        trace=_trace(system, call) if system or call.trace else None,
        delay_ms=delay_ms,
        group=parts.MessageGroupId,
        dedup_id=parts.MessageDeduplicationId,
        size=size,
    )
    digests = Digests(
        md5(encoded, usedforsecurity=False).hexdigest(),
        md5_of_attributes(attributes) if attributes else None,
        md5_of_attributes(system) if system else None,
    )
    return message, digests


def sequence_number(sequence: int) -> str:
    return str(_SEQUENCE_BASE + sequence)


def md5_of_attributes(attributes: Mapping[str, Attribute]) -> str:
    digest = md5(usedforsecurity=False)
    # The SDKs that verify compare UTF-16 code units, which past U+FFFF is not the order of code points.
    for name in sorted(attributes, key=lambda name: name.encode("utf-16-be")):
        attribute = attributes[name]
        value, kind = attribute.value, b"\x02"
        if isinstance(value, str):
            value, kind = value.encode(), b"\x01"
        for field, before in ((name.encode(), b""), (attribute.type.encode(), b""), (value, kind)):
            digest.update(before + len(field).to_bytes(4, "big") + field)
    return digest.hexdigest()


def _delay_ms(delay_s: int, settings: QueueSettings) -> int | None:
    reason = f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}."
    check_range(delay_s, 0, DELAY_S_MAX, "DelaySeconds", reason)
    if not settings.fifo:
        return delay_s * SECOND
    # SQS: on FIFO the delay is the queue's, never the message's; 0 is accepted and means the queue's.
    if delay_s:
        raise invalid_value(delay_s, "DelaySeconds", f"{_NOT_FOR_THIS_TYPE}.")
    return None


def _check_dedup_id(dedup_id: str, settings: QueueSettings, *, in_batch: bool) -> None:
    if settings.fifo:
        check_id(dedup_id, "MessageDeduplicationId")
    elif in_batch:
        raise invalid_parameter(_NOT_FOR_THIS_TYPE)
    else:
        raise invalid_value(dedup_id, "MessageDeduplicationId", f"{_NOT_FOR_THIS_TYPE}.")


def _illegal_character(body: str) -> Fault:
    found = ILLEGAL_CHARACTER.search(body)
    assert found is not None
    return sqs_fault(
        "InvalidMessageContents",
        f"Invalid binary character '#x{ord(found[0]):X}' was found in the message body, the set of allowed "
        "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].",
    )


def _trace(system: dict[str, Attribute] | None, call: Call) -> str | None:
    """The trace that the sender named, or else the one of its request."""
    if system is not None:
        value = system[TRACE_HEADER].value
        return value if isinstance(value, str) else None
    return call.trace if call.trace and is_legal(call.trace) else None


def _check_batch_size(entries: Sequence[SendMessageBatchRequestEntry]) -> None:
    # SQS: the sum has its own limit, whatever the queue's is for one message; what the system adds does not count.
    size = sum(utf8_length(entry.MessageBody or "") + wire_size(entry.MessageAttributes) for entry in entries)
    if size > BATCH_BYTES_MAX:
        raise sqs_fault(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent {size} bytes.",
        )


def _check_batch_fifo(entries: Sequence[SendMessageBatchRequestEntry], settings: QueueSettings) -> None:
    if any(entry.MessageGroupId is None for entry in entries):
        # SQS: here InvalidParameterValue, though a single send gives MissingParameter with the same text.
        raise invalid_parameter("The request must contain the parameter MessageGroupId.")
    if not settings.content_dedup and any(entry.MessageDeduplicationId is None for entry in entries):
        raise invalid_parameter(_NEEDS_DEDUP_ID)


def _entry_body(entry: SendMessageBatchRequestEntry, number: int) -> str:
    if entry.MessageBody:
        return entry.MessageBody
    missing = missing_parameter(f"SendMessageBatchRequestEntry.{number}.MessageBody")
    if entry.MessageBody is None:
        raise missing
    raise Fault("EmptyValue", "EmptyValue", 400, missing.message, modelled=False)
