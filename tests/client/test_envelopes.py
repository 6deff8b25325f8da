"""Envelopes as SNS was recorded to write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client import DecodeError, Message, MessageAttribute
from penstock.client.envelopes import find_envelope, open_envelope, opened, read_envelope
from support.texts import says

ENVELOPE = """{
  "Type" : "Notification",
  "MessageId" : "5e3e4ca7-6a4e-5a1a-b9f0-2d5c3c8d4f11",
  "TopicArn" : "arn:aws:sns:eu-central-1:123456789012:orders",
  "Subject" : "new \\"order\\"",
  "Message" : "grüße\\n🐌",
  "Timestamp" : "2026-09-14T09:28:12.177Z",
  "SignatureVersion" : "1",
  "Signature" : "c2ln",
  "SigningCertURL" : "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "UnsubscribeURL" : "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=a",
  "MessageAttributes" : {
    "k" : {"Type":"String","Value":"v"},
    "n" : {"Type":"Number","Value":"0001.23000"},
    "i" : {"Type":"Number","Value":"7"},
    "l" : {"Type":"String.Array","Value":"[\\"a\\", 1, null]"},
    "b" : {"Type":"Binary","Value":"AP8="}
  }
}"""
RECEIVED = Message("id", "handle", ENVELOPE, "md5", {"ApproximateReceiveCount": "2"})


def changed(**members: Any) -> str:
    """The envelope with other members; None removes one."""
    read = {**json.loads(ENVELOPE), **members}
    return json.dumps({name: value for name, value in read.items() if value is not None})


def attribute(kind: str, value: str) -> Any:
    envelope = open_envelope(changed(MessageAttributes={"a": {"Type": kind, "Value": value}}))
    return envelope.notification.attributes["a"]


def test_what_was_published_is_in_it() -> None:
    found = open_envelope(ENVELOPE).notification
    assert (found.topic_arn, found.topic) == ("arn:aws:sns:eu-central-1:123456789012:orders", "orders")
    assert (found.message, found.subject) == ("grüße\n🐌", 'new "order"')
    assert found.message_id == "5e3e4ca7-6a4e-5a1a-b9f0-2d5c3c8d4f11"
    assert found.published_at == datetime(2026, 9, 14, 9, 28, 12, 177000, UTC)
    assert found.attributes == {"k": "v", "n": 1.23, "i": 7, "l": ["a", 1, None], "b": b"\x00\xff"}
    assert (found.sequence_number, found.is_replayed) == (None, False)


def test_a_fifo_topic_and_a_replay_show() -> None:
    found = open_envelope(changed(SequenceNumber="10000000000000003000", Replayed="true")).notification
    assert (found.sequence_number, found.is_replayed) == ("10000000000000003000", True)


def test_a_message_is_opened() -> None:
    message = opened(RECEIVED, open_envelope(ENVELOPE))
    assert (message.message_id, message.receipt_handle, message.receive_count) == ("id", "handle", 2)
    assert (message.body, message.topic) == ("grüße\n🐌", "orders")
    assert message.message_attributes["n"] == MessageAttribute("Number", string_value="0001.23000")
    assert message.message_attributes["b"] == MessageAttribute("Binary", binary_value=b"\x00\xff")
    assert message.text_attributes == {"k": "v", "l": '["a", 1, null]'}
    assert RECEIVED.body == ENVELOPE and RECEIVED.topic is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [("Binary", "%"), ("Number", "five"), ("Number", "1e999"), ("Number", "nan"), ("String.Array", "not json"),
     ("String.Array", '{"a": 1}'), ("String.Array", "[" * 100_000), ("String.custom", "5")],
)  # fmt: skip
def test_an_attribute_that_cannot_be_read_is_its_text(kind: str, value: str) -> None:
    assert attribute(kind, value) == value


def test_numbers_keep_their_digits() -> None:
    assert (
        attribute("Number", "12345678901234567890123456789012345678")
        == 12345678901234567890123456789012345678
    )
    assert attribute("Number.float", "1.5") == 1.5


NO_ENVELOPES = [
    "", "text", "{}", "[]", '{"Type": "Notification"}', changed(Type="SubscriptionConfirmation", Token="t"),
    changed(TopicArn="orders"), changed(TopicArn="arn:aws:sns:x"),
    changed(TopicArn="arn:aws:sqs:eu-central-1:123456789012:orders"),
    changed(TopicArn="arn:aws:sns:eu-central-1:123456789012:orders\nType"),
    changed(Message={"a": 1}), changed(Message=None),
    changed(Timestamp="yesterday"), changed(MessageId=None), changed(MessageAttributes={"a": "b"}), ENVELOPE[:-1],
    "{" * 100_000 + '"Notification"',
]  # fmt: skip


@pytest.mark.parametrize("body", NO_ENVELOPES, ids=range(len(NO_ENVELOPES)))
def test_what_is_no_envelope_is_found_out(body: str) -> None:
    assert find_envelope(body) is None
    with pytest.raises(DecodeError):
        open_envelope(body)


def test_an_error_says_what_is_wrong_and_no_values() -> None:
    with pytest.raises(DecodeError) as raised:
        open_envelope(changed(TopicArn=None, Message="secret"))
    says(str(raised.value), "envelope", "TopicArn")
    assert "secret" not in str(raised.value)


def test_bytes_and_unknown_members_are_read() -> None:
    assert read_envelope(changed(New=[1]).encode()).message == "grüße\n🐌"
    with pytest.raises(DecodeError):
        read_envelope(b"\xff")
