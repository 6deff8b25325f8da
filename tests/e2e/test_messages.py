"""Messages on standard queues as boto3 sees them: contents, attributes, digests, handles, visibility, delay."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from e2e.conftest import ON_SHARDS
from support.raw import Raw

pytestmark = ON_SHARDS

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture
def url(sqs: Any) -> str:
    text: str = sqs.create_queue(QueueName="q")["QueueUrl"]
    return text


def receive(sqs: Any, url: str, **more: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = sqs.receive_message(QueueUrl=url, **more).get("Messages", [])
    return messages


def receive_one(sqs: Any, url: str, **more: Any) -> dict[str, Any]:
    (message,) = receive(sqs, url, **more)
    return message


# -- contents ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "é", "\U0001f600", "&quot;", '"&<>', "a\rb", "a\r\nb", "a\tb", "]]>", "\ufffd", "\ue000", "\U0010ffff",
        " leading and trailing ", '{"a": "b"}', "x" * 1_048_576,
    ],
    ids=lambda body: ascii(body[:8]),
)  # fmt: skip
def test_a_body_is_returned_byte_for_byte_with_its_digest(sqs: Any, url: str, body: str) -> None:
    digest = hashlib.md5(body.encode()).hexdigest()
    sent = sqs.send_message(QueueUrl=url, MessageBody=body)
    assert sent["MD5OfMessageBody"] == digest
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", sent["MessageId"]
    )
    message = receive_one(sqs, url)
    assert (message["Body"], message["MD5OfBody"], message["MessageId"]) == (body, digest, sent["MessageId"])


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "color": {"DataType": "String", "StringValue": "blue"},
    "count": {"DataType": "Number", "StringValue": "3"},
    "blob": {"DataType": "Binary", "BinaryValue": b"\x01\x02\x03"},
}


def test_digests_are_the_ones_recorded_from_amazon(sqs: Any, url: str) -> None:
    assert sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=ATTRIBUTES)[
        "MD5OfMessageAttributes"
    ] == "d838729972a4b70e2d2acd9d59ac847c"  # fmt: skip
    stamp = {"timestamp": {"DataType": "Number", "StringValue": "1493147359900"}}
    entries = [{"Id": "a", "MessageBody": "b", "MessageAttributes": stamp}]
    (done,) = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    assert done["MD5OfMessageAttributes"] == "235c5c510d26fb653d073faed50ae77c"
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    sent = sqs.send_message(QueueUrl=url, MessageBody="b", MessageSystemAttributes=system)
    assert sent["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    assert "MD5OfMessageAttributes" not in sent, "system attributes have no part in it"
    received = {
        message.get("MD5OfMessageAttributes")
        for message in receive(sqs, url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
    }
    assert received == {"d838729972a4b70e2d2acd9d59ac847c", "235c5c510d26fb653d073faed50ae77c", None}


def test_custom_types_and_unusual_names_are_kept(sqs: Any, url: str) -> None:
    given = {
        "n": {"DataType": "Number.java.lang.Long", "StringValue": "007.50"},
        "øßä": {"DataType": "String.Foo", "StringValue": "x"},
        "a.b-c_d": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
        "x" * 256: {"DataType": "String", "StringValue": "\u00e9\t\n"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=given)
    message = receive_one(sqs, url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], set()),
        (["All"], {"Hello", "Help.Me", "other"}),
        ([".*"], {"Hello", "Help.Me", "other"}),
        (["*"], {"Hello", "Help.Me", "other"}),
        (["other"], {"other"}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Help.*"], {"Help.Me"}),
        (["AWS.", "..foo", "none", "hello"], set()),
    ],
)
def test_which_attributes_are_returned_and_what_the_digest_covers(
    sqs: Any, url: str, names: list[str], expected: set[str]
) -> None:
    given = {name: {"DataType": "String", "StringValue": name} for name in ("Hello", "Help.Me", "other")}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=given)
    message = receive_one(sqs, url, MessageAttributeNames=names)
    assert message.get("MessageAttributes", {}).keys() == expected
    assert ("MD5OfMessageAttributes" in message) == bool(expected)
    only = {name: value for name, value in given.items() if name in expected}
    if only:
        again = sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=only)
        assert message["MD5OfMessageAttributes"] == again["MD5OfMessageAttributes"]


def test_system_attributes_by_either_list(sqs: Any, url: str, account: str) -> None:
    before = int(time.time() * 1000) - 5000
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageSystemAttributes=system, MessageGroupId="tenant")
    everything = {
        "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp",
        "AWSTraceHeader", "MessageGroupId",
    }  # fmt: skip
    for lists, expected in (
        ({"MessageSystemAttributeNames": ["All"]}, everything),
        ({"AttributeNames": ["All"]}, everything),
        ({"AttributeNames": ["SenderId"], "MessageSystemAttributeNames": ["All"]}, everything),
        ({"MessageSystemAttributeNames": ["SentTimestamp", "SequenceNumber"]}, {"SentTimestamp"}),
        ({"AttributeNames": ["ApproximateReceiveCount"]}, {"ApproximateReceiveCount"}),
    ):  # fmt: skip
        message = receive_one(sqs, url, VisibilityTimeout=0, **lists)
        assert message["Attributes"].keys() == expected
        assert "MessageAttributes" not in message
    assert "Attributes" not in receive_one(sqs, url, VisibilityTimeout=0)
    shown = receive_one(sqs, url, AttributeNames=["All"])["Attributes"]
    assert shown["ApproximateReceiveCount"] == "7", "each of them counted"
    assert shown["AWSTraceHeader"] == TRACE
    assert before < int(shown["SentTimestamp"]) <= int(shown["ApproximateFirstReceiveTimestamp"])
    assert shown["SenderId"].startswith("AIDA") and account not in shown["SenderId"]


def test_the_first_receive_time_stays_the_same(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    name = "ApproximateFirstReceiveTimestamp"
    times = [
        receive_one(sqs, url, VisibilityTimeout=0, AttributeNames=[name])["Attributes"][name]
        for _ in range(3)
    ]
    assert len(set(times)) == 1


def test_a_message_has_the_trace_header_of_its_request(raw: Raw) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    raw.ask("SendMessage", {"QueueUrl": "q", "MessageBody": "b"}, X_Amzn_Trace_Id=TRACE)
    (message,) = raw.done("ReceiveMessage", {"QueueUrl": "q", "AttributeNames": ["All"]})["Messages"]
    assert message["Attributes"]["AWSTraceHeader"] == TRACE


def test_size_is_body_and_attributes_and_the_limit_itself_passes(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="small", Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    one = {"k": {"DataType": "String", "StringValue": "x"}}  # 8 bytes
    sqs.send_message(QueueUrl=url, MessageBody="a" * 1016, MessageAttributes=one)
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    sqs.send_message(QueueUrl=url, MessageBody="a" * 1024, MessageSystemAttributes=system)
    with pytest.raises(ClientError, match="must be shorter than 1024 bytes"):
        sqs.send_message(QueueUrl=url, MessageBody="a" * 1017, MessageAttributes=one)


# -- receiving, hiding, deleting -----------------------------------------------------------------------------


def test_a_receive_returns_one_message_by_default(sqs: Any, url: str) -> None:
    for i in range(12):
        sqs.send_message(QueueUrl=url, MessageBody=str(i))
    assert [m["Body"] for m in receive(sqs, url)] == ["0"]
    assert [m["Body"] for m in receive(sqs, url, MaxNumberOfMessages=10)] == [str(i) for i in range(1, 11)]
    assert [m["Body"] for m in receive(sqs, url, MaxNumberOfMessages=10)] == ["11"]
    assert receive(sqs, url, MaxNumberOfMessages=10) == []


def test_each_receive_has_its_own_handles_in_the_form_of_aws(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    handles = {receive_one(sqs, url, VisibilityTimeout=0)["ReceiptHandle"] for _ in range(3)}
    assert len(handles) == 3
    assert all(handle.startswith("AQEB") and len(handle) <= 1024 for handle in handles)


def test_delete_is_idempotent_and_a_superseded_handle_deletes(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    first = receive_one(sqs, url, VisibilityTimeout=0)["ReceiptHandle"]
    receive_one(sqs, url, VisibilityTimeout=0)
    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=first)
    assert receive(sqs, url) == []


def test_a_handle_of_another_queue_is_invalid(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    handle = receive_one(sqs, url)["ReceiptHandle"]
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=other, ReceiptHandle=handle)
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handle[:-1] + ("A" if handle[-1] != "A" else "B"))


def test_the_visibility_timeout_of_the_queue_is_the_default(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="quick", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="b")
    receive_one(sqs, url)
    assert receive(sqs, url) == []
    again = receive_one(sqs, url, WaitTimeSeconds=20, VisibilityTimeout=600, AttributeNames=["All"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert receive(sqs, url, WaitTimeSeconds=2) == [], "the request's own counts for that receive"


def test_visibility_0_shows_a_message_at_once_and_a_longer_one_hides_it_again(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    handle = receive_one(sqs, url)["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    handle = receive_one(sqs, url, VisibilityTimeout=1)["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=600)
    assert receive(sqs, url, WaitTimeSeconds=2) == []


def test_an_expired_handle_still_hides_and_deletes_on_standard(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    expired = receive_one(sqs, url, VisibilityTimeout=0)["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=expired, VisibilityTimeout=600)
    assert receive(sqs, url) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=expired)
    with pytest.raises(ClientError) as refused:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=expired, VisibilityTimeout=1)
    assert refused.value.response["Error"] == {
        "Code": "InvalidParameterValue",
        "Message": f"Value {expired} for parameter ReceiptHandle is invalid. Reason: Message does not exist "
        "or is not available for visibility timeout change.",
        "QueryErrorCode": "InvalidParameterValueException",
        "Type": "Sender",
    }


def test_a_message_is_hidden_for_twelve_hours_in_total_at_most(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    handle = receive_one(sqs, url)["ReceiptHandle"]
    time.sleep(0.01)  # some time since the receive
    with pytest.raises(ClientError) as refused:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=43200)
    assert refused.value.response["Error"]["Message"] == (
        "Value 43200 for parameter VisibilityTimeout is invalid. "
        "Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."
    )


def test_an_attempt_id_is_ignored_on_standard_queues(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    receive_one(sqs, url, ReceiveRequestAttemptId="a")
    assert receive(sqs, url, ReceiveRequestAttemptId="a") == []


def test_a_messages_own_delay_wins_over_the_queues(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="late", Attributes={"DelaySeconds": "600"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="queue's")
    sqs.send_message(QueueUrl=url, MessageBody="own", DelaySeconds=0)
    assert [m["Body"] for m in receive(sqs, url, MaxNumberOfMessages=10)] == ["own"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
    assert receive(sqs, url) == [], "on a standard queue the change does not count for what was sent"


def test_a_group_on_a_standard_queue_locks_nothing(sqs: Any, url: str) -> None:
    sent = [sqs.send_message(QueueUrl=url, MessageBody=str(i), MessageGroupId="g") for i in range(2)]
    assert "SequenceNumber" not in sent[0]
    first = receive_one(sqs, url, AttributeNames=["MessageGroupId"])
    assert first["Attributes"] == {"MessageGroupId": "g"}
    assert receive_one(sqs, url)["Body"] == "1"
