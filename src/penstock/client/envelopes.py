"""The envelope in which a topic delivers a message to a queue or a URL, and what was published in it."""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.client.codec import DecodeError
from penstock.client.structs import Message, MessageAttribute, Notification

NOTIFICATION = "Notification"
SUBSCRIPTION_CONFIRMATION = "SubscriptionConfirmation"
UNSUBSCRIBE_CONFIRMATION = "UnsubscribeConfirmation"

_EXPECTED = "an envelope of a topic"
# Names and values are signed as lines, so that a line break in the ARN could hide another member.
_TOPIC_ARN = re.compile(r"arn:[a-z-]{1,20}:sns:[a-z0-9-]{1,63}:[0-9]{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?")


class EnvelopeAttribute(msgspec.Struct, frozen=True, rename={"data_type": "Type", "text": "Value"}):
    """A message attribute as it stands in an envelope: bytes are base64."""

    data_type: str
    text: str


class Envelope(msgspec.Struct, frozen=True, rename={
    "type": "Type", "message_id": "MessageId", "topic_arn": "TopicArn", "message": "Message",
    "timestamp": "Timestamp", "subject": "Subject", "sequence_number": "SequenceNumber", "replayed": "Replayed",
    "attributes": "MessageAttributes", "token": "Token", "subscribe_url": "SubscribeURL",
    "unsubscribe_url": "UnsubscribeURL", "signature_version": "SignatureVersion", "signature": "Signature",
    "signing_cert_url": "SigningCertURL",
}):  # fmt: skip
    """The members of an envelope, as they were sent.

    The signature covers the members from ``type`` to ``subscribe_url``. Who could change messages on their way could
    change the others, the attributes among them.

    :param type: ``Notification``, ``SubscriptionConfirmation`` or ``UnsubscribeConfirmation``.
    :param message_id: The id that the topic gave the message.
    :param topic_arn: The ARN of the topic.
    :param message: The text.
    :param timestamp: When it was published, as a text.
    :param subject: The subject. None by default.
    :param token: What confirms a subscription. Empty by default.
    :param subscribe_url: The URL that does so. Empty by default.
    :param sequence_number: The number of the message, on a FIFO topic. None by default.
    :param replayed: ``true`` if it comes from the archive of the topic. Empty by default.
    :param attributes: The message attributes. Empty by default.
    :param unsubscribe_url: The URL that ends the subscription. Empty by default.
    :param signature_version: ``1`` or ``2``. Empty by default.
    :param signature: The signature, in Base64. Empty by default.
    :param signing_cert_url: The URL of the certificate. Empty by default.
    """

    type: str
    message_id: str
    topic_arn: str
    message: str
    timestamp: str
    subject: str | None = None
    token: str = ""
    subscribe_url: str = ""
    # -- not signed
    sequence_number: str | None = None
    replayed: str = ""
    attributes: dict[str, EnvelopeAttribute] = {}
    unsubscribe_url: str = ""
    signature_version: str = ""
    signature: str = ""
    signing_cert_url: str = ""

    @property
    def notification(self) -> Notification:
        """The message as its publisher gave it."""
        published_at = datetime.fromisoformat(self.timestamp)
        return Notification(
            message_id=self.message_id,
            topic_arn=self.topic_arn,
            message=self.message,
            published_at=published_at if published_at.tzinfo else published_at.replace(tzinfo=UTC),
            subject=self.subject,
            attributes={name: _value(each) for name, each in self.attributes.items()},
            sequence_number=self.sequence_number,
            is_replayed=self.replayed == "true",
        )


_decoder = msgspec.json.Decoder(Envelope)


def read_envelope(body: str | bytes) -> Envelope:
    """Read the envelope of a topic.

        envelope = read_envelope(message.body)
        print(envelope.notification.topic, envelope.message)

    :param body: The body of a message, or of a request.
    :returns: The envelope. Its signature is not checked.
    :raises DecodeError: It is something else.
    """
    try:
        envelope = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(_EXPECTED, _reason(error)) from None
    if _TOPIC_ARN.fullmatch(envelope.topic_arn) is None:
        raise DecodeError(_EXPECTED, "its TopicArn is not the ARN of a topic")
    try:
        datetime.fromisoformat(envelope.timestamp)
    except ValueError:
        raise DecodeError(_EXPECTED, "its Timestamp is not a time") from None
    return envelope


def open_envelope(body: str) -> Envelope:
    """Reads an envelope with a message. Raises DecodeError for anything else."""
    envelope = read_envelope(body)
    if envelope.type != NOTIFICATION:
        raise DecodeError(_EXPECTED, "its Type is not Notification")
    return envelope


def find_envelope(body: str) -> Envelope | None:
    """The same, but returns None for a body that is something else: not every object with a message in it is one."""
    if not body.startswith("{") or f'"{NOTIFICATION}"' not in body:  # most others are not parsed
        return None
    try:
        return open_envelope(body)
    except DecodeError:
        return None


def _reason(error: Exception) -> str:
    """A text without values of the body."""
    return "it is not JSON" if not isinstance(error, msgspec.ValidationError) else str(error)


def _value(attribute: EnvelopeAttribute) -> Any:
    """The value as Python has it. SNS: an array or a number that cannot be read is delivered all the same."""
    kind = attribute.data_type.partition(".")[0]
    try:
        if kind == "Binary":
            return base64.b64decode(attribute.text, validate=True)
        if kind == "Number":
            return _number(attribute.text)
        read = json.loads(attribute.text) if attribute.data_type == "String.Array" else None
    except (ValueError, RecursionError):
        return attribute.text
    return read if isinstance(read, list) else attribute.text


def _number(text: str) -> int | float:
    """Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not math.isfinite(number):
            raise
        return number


def opened(message: Message, envelope: Envelope) -> Message:
    """The message as its publisher gave it: what was published instead of the envelope around it."""
    attributes = {name: _attribute(each) for name, each in envelope.attributes.items()}
    return msgspec.structs.replace(
        message,
        body=envelope.message,
        md5_of_body="",
        message_attributes=attributes,
        md5_of_message_attributes=None,
        notification=envelope.notification,
    )


def _attribute(attribute: EnvelopeAttribute) -> MessageAttribute:
    value = _value(attribute)
    if isinstance(value, bytes):
        return MessageAttribute(attribute.data_type, binary_value=value)
    return MessageAttribute(attribute.data_type, string_value=attribute.text)
