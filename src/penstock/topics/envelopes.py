"""What subscribers get of a topic, byte for byte: the JSON texts of notifications and confirmations.

Subscribers compare signatures and checksums, so the texts are made here and not by an encoder: two spaces of
indentation, a space on both sides of each colon, no escapes but those that JSON requires, and no line break at the
end. A notification differs between two subscribers by the ARN at the end of its UnsubscribeURL only, which is why it
can be made in two parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from penstock.clock import iso_time
from penstock.limits import SECOND
from penstock.topics.publication import Notice

NOTIFICATION = "Notification"

_encode = msgspec.json.Encoder().encode
_SMALL_HEX = [f"\\u{code:04x}" for code in range(0x20) if f"{code:x}" != f"{code:X}"]
_BACKSLASH, _NOWHERE = "\\\\", "\0"  # an escaped backslash, and what no JSON text has

_CHOSEN = (
    "You have chosen to subscribe to the topic {}.\n"
    "To confirm the subscription, visit the SubscribeURL included in this message."
)
_DEACTIVATED = (
    "You have chosen to deactivate subscription {}.\n"
    "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
)


class ConfirmationKind(StrEnum):
    SUBSCRIBE = "SubscriptionConfirmation"
    UNSUBSCRIBE = "UnsubscribeConfirmation"


class Confirmation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Asks a subscriber to visit a URL with a token: to begin a subscription, or to restore one. It can be
    stored."""

    kind: ConfirmationKind
    message_id: str
    topic_arn: str
    subscription_arn: str
    token: str
    sent_ms: int  # by the wall clock
    base_url: str
    signature: str = ""  # base64; empty: it is not signed
    signature_version: str = "1"
    certificate_url: str = ""

    @property
    def message(self) -> str:
        if self.kind is ConfirmationKind.SUBSCRIBE:
            return _CHOSEN.format(self.topic_arn)
        return _DEACTIVATED.format(self.subscription_arn)

    @property
    def subscribe_url(self) -> str:
        # SNS: URLs in messages are not percent-encoded.
        return f"{_base(self)}/?Action=ConfirmSubscription&TopicArn={self.topic_arn}&Token={self.token}"


def notification(notice: Notice) -> str:
    """Returns the whole text that a subscriber without raw delivery gets."""
    before, after = notification_parts(notice)
    return f"{before}{notice.subscription_arn}{after}"


def notification_parts(notice: Notice) -> tuple[str, str]:
    """Returns the text before and after the ARN of the subscription. The one in ``notice`` is not used."""
    before = _lines(_fields(notice))
    url = json_text(unsubscribe_url(notice, ""))[:-1]
    after = '"'
    if notice.attributes:
        entries = (
            f'    {json_text(name)} : {{"Type":{json_text(type)},"Value":{json_text(value)}}}'
            for name, (type, value) in notice.attributes.items()
        )
        after += ',\n  "MessageAttributes" : {\n' + ",\n".join(entries) + "\n  }"
    return f'{{\n{before},\n  "UnsubscribeURL" : {url}', f"{after}\n}}"


def _fields(notice: Notice) -> Iterator[tuple[str, str]]:
    yield "Type", NOTIFICATION
    yield "MessageId", notice.message_id
    if notice.sequence is not None:
        yield "SequenceNumber", notice.sequence
    if notice.is_replayed:
        yield "Replayed", "true"
    yield "TopicArn", notice.topic_arn
    if notice.subject is not None:
        yield "Subject", notice.subject
    yield "Message", notice.text
    yield "Timestamp", timestamp(notice.published_ms)
    yield from _signature_fields(notice)


def confirmation(of: Confirmation) -> str:
    """Returns the text that asks a subscriber for a confirmation."""
    fields = [
        ("Type", of.kind.value),
        ("MessageId", of.message_id),
        ("Token", of.token),
        ("TopicArn", of.topic_arn),
        ("Message", of.message),
        ("SubscribeURL", of.subscribe_url),
        ("Timestamp", timestamp(of.sent_ms)),
        *_signature_fields(of),
    ]
    return f"{{\n{_lines(fields)}\n}}"


def raw(notice: Notice) -> str:
    """Returns what a subscriber with raw delivery gets as a body."""
    return notice.text


def unsubscribe_url(of: Notice, subscription_arn: str) -> str:
    return f"{_base(of)}/?Action=Unsubscribe&SubscriptionArn={subscription_arn}"


def timestamp(wall_ms: int) -> str:
    """2026-09-14T09:28:12.177Z"""
    return f"{iso_time(wall_ms // SECOND)[:-1]}.{wall_ms % SECOND:03d}Z"


def json_text(text: str) -> str:
    """Returns a JSON string. Only what JSON requires is escaped, with capital hexadecimal digits."""
    encoded = _encode(text).decode()
    if "\\u00" in encoded:  # a control character, or these characters themselves
        encoded = encoded.replace(_BACKSLASH, _NOWHERE)
        for small in _SMALL_HEX:
            encoded = encoded.replace(small, f"\\u{small[2:].upper()}")
        return encoded.replace(_NOWHERE, _BACKSLASH)
    return encoded


def _signature_fields(of: Notice | Confirmation) -> Iterator[tuple[str, str]]:
    # SNS: messages of FIFO topics have no signature.
    if of.signature:
        yield "SignatureVersion", of.signature_version
        yield "Signature", of.signature
        yield "SigningCertURL", of.certificate_url


def _lines(fields: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> str:
    return ",\n".join(f'  "{name}" : {json_text(value)}' for name, value in fields)


def _base(of: Notice | Confirmation) -> str:
    return of.base_url.rstrip("/")
