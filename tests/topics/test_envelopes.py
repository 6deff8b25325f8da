"""What subscribers get, byte for byte, and what its signature covers."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from penstock.topics.envelopes import (
    Confirmation,
    ConfirmationKind,
    confirmation,
    json_text,
    notification,
    notification_parts,
    timestamp,
)
from penstock.topics.publication import Notice
from penstock.topics.signatures import text_to_sign

TOPIC = "arn:aws:sns:eu-west-1:000000000000:news"
SUBSCRIPTION = f"{TOPIC}:0b0a1c2d-0000-4000-8000-000000000001"
BASE = "http://localhost:9324"
CERTIFICATE = f"{BASE}/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
AT_MS = 1_789_378_092_177

PLAIN = Notice(
    message_id="5e1f",
    topic_arn=TOPIC,
    subscription_arn=SUBSCRIPTION,
    text="hello",
    published_ms=AT_MS,
    base_url=BASE,
)
SIGNED = msgspec.structs.replace(PLAIN, signature="c2lnbmVk", certificate_url=CERTIFICATE)
CONFIRMATION = Confirmation(
    kind=ConfirmationKind.SUBSCRIBE, message_id="4a", topic_arn=TOPIC, subscription_arn=SUBSCRIPTION, token="ab12",
    sent_ms=AT_MS, base_url=BASE, signature="c2lnbmVk", signature_version="2", certificate_url=CERTIFICATE,
)  # fmt: skip


def test_a_notification_has_its_fields_in_order_and_no_line_break_at_the_end() -> None:
    notice = msgspec.structs.replace(
        SIGNED, subject="About", attributes={"k": ("String", 'v"'), "n": ("Number", "0001.23000")}
    )
    assert notification(notice) == (
        "{\n"
        '  "Type" : "Notification",\n'
        '  "MessageId" : "5e1f",\n'
        f'  "TopicArn" : "{TOPIC}",\n'
        '  "Subject" : "About",\n'
        '  "Message" : "hello",\n'
        '  "Timestamp" : "2026-09-14T09:28:12.177Z",\n'
        '  "SignatureVersion" : "1",\n'
        '  "Signature" : "c2lnbmVk",\n'
        f'  "SigningCertURL" : "{CERTIFICATE}",\n'
        f'  "UnsubscribeURL" : "{BASE}/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}",\n'
        '  "MessageAttributes" : {\n'
        '    "k" : {"Type":"String","Value":"v\\""},\n'
        '    "n" : {"Type":"Number","Value":"0001.23000"}\n'
        "  }\n"
        "}"
    )


def test_a_notification_of_a_fifo_topic_has_a_number_and_no_signature() -> None:
    notice = msgspec.structs.replace(PLAIN, sequence="10000000000000003000", is_replayed=True)
    assert list(json.loads(notification(notice))) == [
        "Type", "MessageId", "SequenceNumber", "Replayed", "TopicArn", "Message", "Timestamp", "UnsubscribeURL",
    ]  # fmt: skip
    assert json.loads(notification(notice))["Replayed"] == "true"


def test_the_parts_around_the_subscription_make_the_same_text_for_each() -> None:
    notice = msgspec.structs.replace(SIGNED, attributes={"k": ("String", "v")})
    before, after = notification_parts(notice)
    other = msgspec.structs.replace(notice, subscription_arn=f"{TOPIC}:other")
    assert before + SUBSCRIPTION + after == notification(notice)
    assert before + f"{TOPIC}:other" + after == notification(other)
    assert SUBSCRIPTION not in before + after


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", '""'),
        ("é 漢 😀 /\x7f\u2028", '"é 漢 😀 /\x7f\u2028"'),
        ('"\\', '"\\"\\\\"'),
        ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
        ("\x00\x0b\x1f\n", '"\\u0000\\u000B\\u001F\\n"'),
        ("\\u001f", '"\\\\u001f"'),
        ("\\u001f\x1f", '"\\\\u001f\\u001F"'),
    ],
)
def test_texts_in_json(text: str, shown: str) -> None:
    assert json_text(text) == shown
    assert json.loads(json_text(text)) == text


def test_a_time_has_three_digits_after_the_second() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_000_007) == "1970-01-01T00:16:40.007Z"


def test_a_confirmation_of_a_subscription() -> None:
    assert confirmation(CONFIRMATION) == (
        "{\n"
        '  "Type" : "SubscriptionConfirmation",\n'
        '  "MessageId" : "4a",\n'
        '  "Token" : "ab12",\n'
        f'  "TopicArn" : "{TOPIC}",\n'
        f'  "Message" : "You have chosen to subscribe to the topic {TOPIC}.\\n'
        'To confirm the subscription, visit the SubscribeURL included in this message.",\n'
        f'  "SubscribeURL" : "{BASE}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=ab12",\n'
        '  "Timestamp" : "2026-09-14T09:28:12.177Z",\n'
        '  "SignatureVersion" : "2",\n'
        '  "Signature" : "c2lnbmVk",\n'
        f'  "SigningCertURL" : "{CERTIFICATE}"\n'
        "}"
    )


def test_a_confirmation_of_the_end_of_a_subscription() -> None:
    document = json.loads(
        confirmation(msgspec.structs.replace(CONFIRMATION, kind=ConfirmationKind.UNSUBSCRIBE))
    )
    assert document["Type"] == "UnsubscribeConfirmation"
    assert document["Message"] == (
        f"You have chosen to deactivate subscription {SUBSCRIPTION}.\nTo cancel this operation and restore the "
        "subscription, visit the SubscribeURL included in this message."
    )


def test_a_slash_at_the_end_of_the_base_is_not_doubled() -> None:
    notice = msgspec.structs.replace(PLAIN, base_url=f"{BASE}/")
    assert notification(notice) == notification(PLAIN)


def test_what_a_signature_covers() -> None:
    assert text_to_sign(PLAIN) == (
        f"Message\nhello\nMessageId\n5e1f\nTimestamp\n2026-09-14T09:28:12.177Z\nTopicArn\n{TOPIC}\n"
        "Type\nNotification\n"
    )
    with_subject = msgspec.structs.replace(PLAIN, subject="About")
    assert "MessageId\n5e1f\nSubject\nAbout\nTimestamp\n" in text_to_sign(with_subject)
    assert text_to_sign(CONFIRMATION).startswith(
        f"Message\nYou have chosen to subscribe to the topic {TOPIC}.\n"
    )
    assert text_to_sign(CONFIRMATION).endswith(
        f"MessageId\n4a\nSubscribeURL\n{BASE}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=ab12\n"
        f"Timestamp\n2026-09-14T09:28:12.177Z\nToken\nab12\nTopicArn\n{TOPIC}\nType\nSubscriptionConfirmation\n"
    )


def _signed_text(document: dict[str, Any]) -> str:
    """What a subscriber who has only the message checks, as Amazon describes it."""
    names = ["Message", "MessageId", "SubscribeURL", "Subject", "Timestamp", "Token", "TopicArn", "Type"]
    return "".join(f"{name}\n{document[name]}\n" for name in names if name in document)


@pytest.mark.parametrize("of", [PLAIN, msgspec.structs.replace(PLAIN, subject="é\n"), CONFIRMATION])
@pytest.mark.parametrize("digest", [SHA1(), SHA256()])
def test_a_subscriber_can_check_a_signature(of: Notice | Confirmation, digest: Any) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signature = key.sign(text_to_sign(of).encode(), padding.PKCS1v15(), digest)
    signed = msgspec.structs.replace(
        of, signature=base64.b64encode(signature).decode(), certificate_url=CERTIFICATE
    )
    text = notification(signed) if isinstance(signed, Notice) else confirmation(signed)
    document = json.loads(text)
    key.public_key().verify(
        base64.b64decode(document["Signature"]), _signed_text(document).encode(), padding.PKCS1v15(), digest
    )
