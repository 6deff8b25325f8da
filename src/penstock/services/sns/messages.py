"""A message to publish, alone or as an entry of a batch: validated and measured, in the words of SNS."""

from __future__ import annotations

import re

import msgspec

from penstock.services.sns.endpoints import PROTOCOLS
from penstock.services.sns.faults import invalid
from penstock.services.sns.limits import ID_LENGTH_MAX, SUBJECT_UNITS_MAX
from penstock.services.sns.message_attributes import user_attributes, wire_size
from penstock.services.sns.mobile_records import PLATFORMS
from penstock.services.sns.structs import MessageParts
from penstock.services.sns.topic_attributes import CONTENT_DEDUP
from penstock.services.sns.validation import has_control_characters, utf8_length
from penstock.topics.publication import DEFAULT, Publication
from penstock.topics.records import Topic

_ID = re.compile(rf"[!-~]{{1,{ID_LENGTH_MAX}}}")
_STRUCTURE = "Message Structure - "
_PROTOCOLS = frozenset((*PROTOCOLS, *PLATFORMS, DEFAULT))
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def size_of(parts: MessageParts) -> int:
    """Returns the bytes that count. SNS: those of the subject do not."""
    return utf8_length(parts.Message or "") + wire_size(parts.MessageAttributes)


def publication(parts: MessageParts, trace: str | None) -> Publication:
    """A message whose contents are valid, for whichever target. Raises Fault."""
    message = parts.Message
    if not message:
        raise invalid("Empty message")
    by_protocol = _by_protocol(message) if _is_structured(parts.MessageStructure) else None
    if parts.Subject is not None:
        _check_subject(parts.Subject)
    return Publication(
        message=message,
        subject=parts.Subject,
        by_protocol=by_protocol,
        attributes=user_attributes(parts.MessageAttributes),
        group=parts.MessageGroupId,
        dedup_id=parts.MessageDeduplicationId,
        trace=trace,
    )


def check_size(size: int, most: int) -> None:
    if size > most:
        raise invalid("Message too long")


def check_ids(parts: MessageParts) -> None:
    """Raises Fault if the text of the group or of the deduplication id is invalid."""
    for parameter, value in (
        ("MessageGroupId", parts.MessageGroupId),
        ("MessageDeduplicationId", parts.MessageDeduplicationId),
    ):
        if value is not None and not _ID.fullmatch(value):
            raise invalid(
                f"The {parameter} parameter can only include alphanumeric and punctuation characters. "
                f"1 to {ID_LENGTH_MAX} in length"
            )


def check_fifo(parts: MessageParts, topic: Topic) -> None:
    """Raises Fault if the group and the deduplication id do not suit the type of the topic."""
    if not topic.name.is_fifo:
        # SNS: a group is allowed, for queues that are fair.
        if parts.MessageDeduplicationId is not None:
            raise invalid(
                "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter "
                "that is not valid for this topic type"
            )
        return
    if parts.MessageGroupId is None:
        raise invalid("The MessageGroupId parameter is required for FIFO topics")
    if parts.MessageDeduplicationId is None and topic.attributes.get(CONTENT_DEDUP) != "true":
        raise invalid(
            "The topic should either have ContentBasedDeduplication enabled "
            "or MessageDeduplicationId provided explicitly"
        )


def _is_structured(structure: str | None) -> bool:
    if structure is None or structure == "":
        return False
    if structure != "json":
        raise invalid("MessageStructure")
    return True


def _by_protocol(message: str) -> dict[str, str]:
    """The texts of a structured message, by protocol. Values are not decoded before it is known that they are
    needed: what is sent may be large."""
    try:
        document = {name: bytes(raw) for name, raw in _decode(message).items() if name in _PROTOCOLS}
        default = document.get(DEFAULT, b"{")
        if default[:1] in (b"{", b"["):
            raise invalid(f"{_STRUCTURE}No default entry in JSON message body")
        # SNS: what is not text is ignored for a protocol.
        texts = {
            name: msgspec.json.decode(value, type=str)
            for name, value in document.items()
            if value[:1] == b'"'
        }
    except msgspec.ValidationError:
        raise invalid(f"{_STRUCTURE}No default entry in JSON message body") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise invalid(f"{_STRUCTURE}JSON message body failed to parse") from None
    # SNS: a default that is a number, a boolean or null becomes text, as it was written.
    texts.setdefault(DEFAULT, default.decode())
    return texts


def _check_subject(subject: str) -> None:
    units = len(subject.encode("utf-16-le")) // 2
    if not 1 <= units <= SUBJECT_UNITS_MAX or has_control_characters(subject):
        raise invalid("Subject")
