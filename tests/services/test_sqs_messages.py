"""SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import tracemalloc
from typing import Any

import pytest

from penstock.errors import (
    DecideAgain,
    DedupFull,
    HandleExpired,
    HandleInvalid,
    MessageNotAvailable,
    TooManyInFlight,
    VisibilityTooLong,
)
from penstock.promise import Promise
from penstock.queues.messages import Attribute, Content, Received
from support.rows import every_row

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
NOT_HERE = "The request include parameter that is not valid for this queue type."


def text(value: str, type_: str = "String") -> dict[str, str]:
    return {"DataType": type_, "StringValue": value}


def blob(value: bytes, type_: str = "Binary") -> dict[str, str]:
    return {"DataType": type_, "BinaryValue": base64.b64encode(value).decode()}


@pytest.fixture(autouse=True)
def queues(sqs: Any) -> None:
    sqs.make("q")
    sqs.make("q.fifo")
    sqs.make("small", MaximumMessageSize="1024")


def send(sqs: Any, queue: str = "q", body: Any = "hello", **members: Any) -> Any:
    return sqs("SendMessage", QueueUrl=queue, MessageBody=body, **members)


def test_send_returns_digests_only_of_what_was_sent(sqs: Any) -> None:
    assert send(sqs).body == {
        "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592",
        "MessageId": "id-hello",
    }
    reply = send(
        sqs,
        MessageAttributes={"timestamp": text("1493147359900", "Number")},
        MessageSystemAttributes={"AWSTraceHeader": text(TRACE)},
    )
    assert reply.body["MD5OfMessageAttributes"] == "235c5c510d26fb653d073faed50ae77c"
    assert reply.body["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    sent = sqs.broker.sent[-1]
    assert (sent.trace, sent.sender) == (TRACE, "AIDASENDER")
    assert sent.attributes == {"timestamp": Attribute("Number", "1493147359900")}


def test_send_to_fifo_returns_a_sequence_number_of_twenty_digits(sqs: Any) -> None:
    reply = send(sqs, "q.fifo", MessageGroupId="g", MessageDeduplicationId="d")
    assert len(reply.body["SequenceNumber"]) == 20
    assert reply.body["SequenceNumber"].isdecimal()


def test_the_trace_header_of_the_request_goes_with_the_message_unless_one_is_sent(sqs: Any) -> None:
    sqs.trace = "Root=1-header"
    assert "MD5OfMessageSystemAttributes" not in send(sqs).body
    assert sqs.broker.sent[-1].trace == "Root=1-header"
    send(sqs, MessageSystemAttributes={"AWSTraceHeader": text(TRACE)})
    assert sqs.broker.sent[-1].trace == TRACE


@pytest.mark.parametrize("body", ["é😀", "&quot;\r\n\t]]>", "\ufffd", "\ud7ff\ue000", "\x7f\x85"])
def test_bodies_pass_as_they_are(sqs: Any, body: str) -> None:
    reply = send(sqs, body=body)
    assert reply.body["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert sqs.broker.sent[-1].body == body


def test_a_number_as_body_is_converted_to_text(sqs: Any) -> None:
    assert send(sqs, body=12).status == 200
    assert sqs.broker.sent[-1].body == "12"


@pytest.mark.parametrize(
    ("body", "hex_"),
    [("\x01", "1"), ("a\x00", "0"), ("\x0b\x01", "B"), ("\ufffe", "FFFE"), ("a\ud800b", "D800")],
)
def test_a_character_that_xml_cannot_carry_is_refused_by_its_number(sqs: Any, body: str, hex_: str) -> None:
    assert send(sqs, body=body).error == (
        "InvalidMessageContents",
        f"Invalid binary character '#x{hex_}' was found in the message body, the set of allowed characters "
        "is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].",
    )


@every_row(
    ("queue", "members", "code", "message"),
    [
        ("q", {"body": None}, "MissingParameter", "The request must contain the parameter MessageBody."),
        ("q", {"body": ""}, "MissingParameter", "The request must contain the parameter MessageBody."),
        (
            "q",
            {"DelaySeconds": 1000},
            "InvalidParameterValue",
            "Value 1000 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
        ),
        (
            "q",
            {"DelaySeconds": -1},
            "InvalidParameterValue",
            "Value -1 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
        ),
        (
            "q.fifo",
            {"DelaySeconds": 2, "MessageGroupId": "g", "MessageDeduplicationId": "d"},
            "InvalidParameterValue",
            f"Value 2 for parameter DelaySeconds is invalid. Reason: {NOT_HERE}",
        ),
        (
            "q.fifo",
            {"MessageDeduplicationId": "d"},
            "MissingParameter",
            "The request must contain the parameter MessageGroupId.",
        ),
        (
            "q.fifo",
            {"MessageGroupId": "g"},
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled "
            "or MessageDeduplicationId provided explicitly",
        ),
        (
            "q.fifo",
            {"MessageGroupId": "", "MessageDeduplicationId": "d"},
            "InvalidParameterValue",
            "Value  for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
        (
            "q.fifo",
            {"MessageGroupId": "g", "MessageDeduplicationId": "a b"},
            "InvalidParameterValue",
            "Value a b for parameter MessageDeduplicationId is invalid. Reason: MessageDeduplicationId can "
            "only include alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
        (
            "q",
            {"MessageGroupId": "g" * 129},
            "InvalidParameterValue",
            f"Value {'g' * 129} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only "
            "include alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
        (
            "q",
            {"MessageDeduplicationId": "d"},
            "InvalidParameterValue",
            f"Value d for parameter MessageDeduplicationId is invalid. Reason: {NOT_HERE}",
        ),
        (
            "small",
            {"body": "x" * 1025},
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
        ),
    ],
)
def test_send_refuses(sqs: Any, queue: str, members: dict[str, Any], code: str, message: str) -> None:
    assert send(sqs, queue, **members).error == (code, message)
    assert sqs.broker.sent == []


def test_a_group_on_a_standard_queue_is_a_fair_queues_tenant(sqs: Any) -> None:
    assert "SequenceNumber" not in send(sqs, MessageGroupId="tenant!~").body
    assert sqs.broker.sent[-1].group == "tenant!~"


def test_delays_are_the_messages_on_standard_and_the_queues_on_fifo(sqs: Any) -> None:
    for delay, expected in ((None, None), (0, 0), (900, 900_000)):
        send(sqs, DelaySeconds=delay)
        assert sqs.broker.sent[-1].delay_ms == expected
    send(sqs, "q.fifo", DelaySeconds=0, MessageGroupId="g", MessageDeduplicationId="d")
    assert sqs.broker.sent[-1].delay_ms is None


def test_size_is_body_and_attributes_in_utf8_and_the_limit_itself_passes(sqs: Any) -> None:
    attributes = {"k": text("x")}  # 1 + 6 + 1 bytes
    assert send(sqs, "small", "x" * 1016, MessageAttributes=attributes).status == 200
    assert send(sqs, "small", "x" * 1017, MessageAttributes=attributes).code == "InvalidParameterValue"
    assert send(sqs, "small", "é" * 512).status == 200
    assert send(sqs, "small", "é" * 512 + "x").code == "InvalidParameterValue"
    binary = {"k": blob(b"x" * 100)}  # 1 + 6 + 100: the bytes, not their base64
    assert send(sqs, "small", "x" * 917, MessageAttributes=binary).status == 200
    assert send(sqs, "small", "x" * 918, MessageAttributes=binary).code == "InvalidParameterValue"
    trace = {"AWSTraceHeader": text(TRACE)}
    assert send(sqs, "small", "x" * 1024, MessageSystemAttributes=trace).status == 200


@every_row(
    ("name", "value", "message"),
    [
        ("", text("x"), "The request must contain non-empty message (user) attribute names."),
        ("n" * 257, text("x"), "Message (user) attribute name must be shorter than 256 bytes."),
        *(
            (
                name,
                text("x"),
                "You can't use message attribute names beginning with 'AWS.' or 'Amazon'. "
                "These strings are reserved for internal use.",
            )
            for name in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x")
        ),
        (".x", text("x"), "Message (user) attribute name must not begin with character '.'."),
        ("x.", text("x"), "Message (user) attribute name must not end with character '.'."),
        ("x..y", text("x"), "Message (user) attribute name must not have successive '.' characters."),
        *(
            (
                f"a{bad}",
                text("x"),
                f"Invalid non-alphanumeric character '#x{ord(bad):X}' was found in the message attribute "
                "name. Can only include alphanumeric characters, hyphens, underscores, or dots.",
            )
            for bad in '!"§(? '
        ),
        ("N", {}, "The message (user) attribute 'N' must contain a non-empty message attribute value."),
        (
            "N",
            {"StringValue": "x"},
            "The message (user) attribute 'N' must contain a non-empty message attribute type.",
        ),
        *(
            (
                "N",
                text("x", type_),
                "The type of message (user) attribute 'N' is invalid. You must use only the following "
                "supported type prefixes: Binary, Number, String.",
            )
            for type_ in ("Str", "string", "StringX", "String.", "Array", "String.\x00")
        ),
        (
            "N",
            text("x", "String." + "x" * 250),
            "Message (user) attribute type must be shorter than 256 bytes.",
        ),
        ("N", text(""), "Message (user) attribute 'N' must contain a non-empty value of type 'String'."),
        (
            "N",
            {"DataType": "String"},
            "Message (user) attribute 'N' must contain a non-empty value of type 'String'.",
        ),
        ("N", blob(b""), "Message (user) attribute 'N' must contain a non-empty value of type 'Binary'."),
        ("N", {**blob(b"x"), **text("x")}, "Message (user) attribute 'N' must have a single value."),
        (
            "N",
            blob(b"x", "String"),
            "Message (user) attribute 'N' with type 'String' must use field 'String'.",
        ),
        (
            "N",
            text("x", "Binary"),
            "Message (user) attribute 'N' with type 'Binary' must use field 'Binary'.",
        ),
        *(
            ("N", text(number, "Number"), "Can't cast the value of message (user) attribute 'N' to a number.")
            for number in ("x", "1_0", "NaN", "Infinity", "1e127", "-1e129", "1e999999999", "٣", "1" * 39, "0x1")
        ),
        ("N", text("\x01"), "Message (user) attribute 'N' contains a character that is not allowed."),
    ],
)  # fmt: skip
def test_attribute_rules(sqs: Any, name: str, value: dict[str, str], message: str) -> None:
    reply = send(sqs, MessageAttributes={name: value})
    assert reply.error == ("InvalidParameterValue", message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n" * 256, text("x")),
        ("aws", text("x")),
        ("amazonas", text("x")),
        ("øßä.a-b_c1", text("x")),
        ("N", text("x", "String.Foo")),
        ("N", text("1", "Number.java.lang.Long")),
        ("N", text("-1.5e-10", "Number")),
        ("N", text("1" * 38, "Number")),
        ("N", blob(b"\x00", "Binary.png")),
        ("N", text("\r\n\t")),
    ],
)
def test_attributes_pass_and_their_types_are_kept(sqs: Any, name: str, value: dict[str, str]) -> None:
    assert send(sqs, MessageAttributes={name: value}).status == 200
    assert sqs.broker.sent[-1].attributes[name].type == value["DataType"]


def test_ten_attributes_at_most(sqs: Any) -> None:
    def attributes(count: int) -> dict[str, Any]:
        return {f"n{number}": text("x") for number in range(count)}

    assert send(sqs, MessageAttributes=attributes(10)).status == 200
    assert send(sqs, MessageAttributes=attributes(11)).error == (
        "InvalidParameterValue",
        "Number of message attributes [11] exceeds the allowed maximum [10].",
    )


def test_null_attributes_are_refused_and_their_null_members_ignored(sqs: Any) -> None:
    assert send(sqs, MessageAttributes={"a": None, "b": text("x")}).code == "MalformedInput"
    reply = send(sqs, MessageAttributes={"b": {**text("x"), "BinaryValue": None}})
    assert reply.status == 200
    assert list(sqs.broker.sent[-1].attributes) == ["b"]
    assert send(sqs, MessageAttributes={}).status == 200
    assert sqs.broker.sent[-1].attributes is None


def test_list_values_are_not_supported(sqs: Any) -> None:
    for value in ({"StringListValues": ["a"]}, {"BinaryListValues": ["aGk="]}):
        assert send(sqs, MessageAttributes={"N": {"DataType": "String", **value}}).error == (
            "AWS.SimpleQueueService.UnsupportedOperation",
            "Message attribute list values in SendMessage operation are not supported.",
        )


def test_only_the_trace_header_is_a_system_attribute(sqs: Any) -> None:
    assert send(sqs, MessageSystemAttributes={"X": text("x")}).error == (
        "InvalidParameterValue",
        "Message system attribute name 'X' is invalid.",
    )
    assert send(sqs, MessageSystemAttributes={"AWSTraceHeader": text("")}).error == (
        "InvalidParameterValue",
        "Message system attribute 'AWSTraceHeader' must contain a non-empty value of type 'String'.",
    )


def test_a_trace_header_counts_for_no_size_and_has_a_limit_of_its_own(sqs: Any) -> None:
    too_long = (
        "InvalidParameterValue",
        "Message system attribute 'AWSTraceHeader' must not be longer than 1024 bytes.",
    )
    binary = {"DataType": "Binary", "BinaryValue": base64.b64encode(b"x" * 1025).decode()}
    assert send(sqs, MessageSystemAttributes={"AWSTraceHeader": text("x" * 1024)}).status == 200
    for value in (text("x" * 1025), text("é" * 513), binary):
        assert send(sqs, MessageSystemAttributes={"AWSTraceHeader": value}).error == too_long


def test_full_deduplication_memory_throttles_sends(sqs: Any) -> None:
    sqs.broker.raises = DedupFull()
    reply = send(sqs, "q.fifo", MessageGroupId="g", MessageDeduplicationId="d")
    assert (reply.status, reply.code) == (403, "RequestThrottled")


# Receive

CONTENT = Content(
    "id-1",
    "hello",
    "AIDASENDER",
    1_700_000_000_123,
    {
        "Hello": Attribute("String", "a"),
        "Help.Me": Attribute("Number", "1"),
        "Other": Attribute("Binary", b"\x01"),
    },
    TRACE,
    "dedup",
)
RECEIVED = Received(
    CONTENT, "AQEB", 2, 1_700_000_000_456, "group", 7, "arn:aws:sqs:eu-west-1:123456789012:src"
)
SYSTEM = {
    "SenderId": "AIDASENDER",
    "SentTimestamp": "1700000000123",
    "ApproximateReceiveCount": "2",
    "ApproximateFirstReceiveTimestamp": "1700000000456",
    "AWSTraceHeader": TRACE,
    "MessageGroupId": "group",
    "MessageDeduplicationId": "dedup",
    "SequenceNumber": "18800000000000000007",
    "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:123456789012:src",
}


def receive(sqs: Any, queue: str = "q", **members: Any) -> Any:
    return sqs("ReceiveMessage", QueueUrl=queue, **members)


def test_an_empty_receive_is_an_empty_object_and_uses_the_defaults_of_the_queue(sqs: Any) -> None:
    assert receive(sqs).raw == b"{}"
    assert sqs.broker.asked == {"count": 1, "visibility_ms": None, "wait_ms": None, "attempt_id": None}
    receive(sqs, MaxNumberOfMessages=10, VisibilityTimeout=0, WaitTimeSeconds=20)
    assert sqs.broker.asked == {"count": 10, "visibility_ms": 0, "wait_ms": 20_000, "attempt_id": None}


def test_only_requested_attributes_are_returned(sqs: Any) -> None:
    sqs.broker.receivable = [RECEIVED]
    assert receive(sqs).body["Messages"] == [
        {
            "MessageId": "id-1",
            "ReceiptHandle": "AQEB",
            "MD5OfBody": "5d41402abc4b2a76b9719d911017c592",
            "Body": "hello",
        }
    ]


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({"AttributeNames": ["All"]}, set(SYSTEM)),
        ({"MessageSystemAttributeNames": ["All"], "AttributeNames": ["SenderId"]}, set(SYSTEM)),
        (
            {"MessageSystemAttributeNames": ["SenderId"], "AttributeNames": ["SentTimestamp"]},
            {"SenderId", "SentTimestamp"},
        ),
        ({"AttributeNames": ["SequenceNumber", "Nonsense"]}, {"SequenceNumber"}),
    ],
)  # fmt: skip
def test_system_attributes_by_either_list(sqs: Any, members: dict[str, Any], names: set[str]) -> None:
    sqs.broker.receivable = [RECEIVED]
    (message,) = receive(sqs, **members).body["Messages"]
    assert message["Attributes"] == {name: SYSTEM[name] for name in names}


def test_system_attributes_that_do_not_apply_are_left_out(sqs: Any) -> None:
    plain = Received(Content("id", "x", "S", 1), "h", 1, 2, None, None, None)
    sqs.broker.receivable = [plain]
    (message,) = receive(sqs, AttributeNames=["All"]).body["Messages"]
    assert set(message["Attributes"]) == {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
    }
    (message,) = receive(sqs, AttributeNames=["MessageGroupId"]).body["Messages"]
    assert "Attributes" not in message


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["All"], {"Hello", "Help.Me", "Other"}),
        ([".*"], {"Hello", "Help.Me", "Other"}),
        (["*"], {"Hello", "Help.Me", "Other"}),
        (["Hello"], {"Hello"}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Help.*", "Other"], {"Help.Me", "Other"}),
        (["Help.*"] * 2000, {"Help.Me"}),
        (["hello", "AWS.", "..foo", "Hel"], set()),
        ([], set()),
    ],
)
def test_message_attribute_names_filter_and_the_digest_covers_what_is_returned(
    sqs: Any, names: list[str], shown: set[str]
) -> None:
    sqs.broker.receivable = [RECEIVED]
    (message,) = receive(sqs, MessageAttributeNames=names).body["Messages"]
    assert set(message.get("MessageAttributes", {})) == shown
    assert ("MD5OfMessageAttributes" in message) == bool(shown)
    if shown == {"Hello"}:
        sent = send(sqs, MessageAttributes={"Hello": text("a")}).body
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        assert message["MessageAttributes"] == {"Hello": text("a")}
    if "Other" in shown:
        assert message["MessageAttributes"]["Other"] == blob(b"\x01")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MaxNumberOfMessages", 0, "Must be between 1 and 10, if provided."),
        ("MaxNumberOfMessages", 11, "Must be between 1 and 10, if provided."),
        ("WaitTimeSeconds", -1, "Must be >= 0 and <= 20, if provided."),
        ("WaitTimeSeconds", 21, "Must be >= 0 and <= 20, if provided."),
        ("VisibilityTimeout", 43201, "Must be >= 0 and <= 43200, if provided."),
        ("VisibilityTimeout", -1, "Must be >= 0 and <= 43200, if provided."),
    ],
)
def test_receive_ranges(sqs: Any, name: str, value: int, reason: str) -> None:
    asked: dict[str, Any] = {name: value}
    assert receive(sqs, **asked).error == (
        "InvalidParameterValue",
        f"Value {value} for parameter {name} is invalid. Reason: {reason}",
    )


def test_a_waiting_receive_does_not_hold_its_lists_of_names(sqs: Any) -> None:
    never: Promise[list[Received]] = Promise()

    async def wait(*_: Any, **__: Any) -> list[Received]:
        return await never

    sqs.broker.receive = wait
    members = ("AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames")
    body = json.dumps(
        {"QueueUrl": "q"} | {member: [f"n{number:07}" for number in range(2000)] for member in members}
    ).encode()
    sqs.start("ReceiveMessage", body)
    tracemalloc.start()
    for _ in range(10):
        sqs.start("ReceiveMessage", body)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 10 < 40_000


def test_a_receive_that_is_decided_again_asks_for_the_same(sqs: Any) -> None:
    sqs.broker.receivable = [RECEIVED]
    asked = {"AttributeNames": ["SentTimestamp"], "MessageSystemAttributeNames": ["SenderId"]}
    names: dict[str, Any] = {"MessageAttributeNames": ["city", "*"], **asked}
    expected = receive(sqs, **names).body
    (message,) = expected["Messages"]
    assert message["Attributes"] and message["MessageAttributes"]
    receives, refusals = sqs.broker.receive, [DecideAgain("refused"), DecideAgain("refused")]

    async def refuse(*given: Any, **more: Any) -> list[Received]:
        if refusals:
            raise refusals.pop()
        answer: list[Received] = await receives(*given, **more)
        return answer

    sqs.broker.receive = refuse
    assert receive(sqs, **names).body == expected
    assert not refusals


@pytest.mark.parametrize("member", ["AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames"])
def test_the_names_in_a_receive_are_bounded(sqs: Any, member: str) -> None:
    allowed: dict[str, Any] = {member: ["a" * 8192, "b" * 8192]}
    too_many: dict[str, Any] = {member: ["a" * 8192, "b" * 8193]}
    assert receive(sqs, **allowed).status == 200
    assert receive(sqs, **too_many).code == "InvalidParameterValue"


def test_an_attempt_id_is_ignored_on_standard_and_checked_on_fifo(sqs: Any) -> None:
    assert receive(sqs, ReceiveRequestAttemptId="any thing").status == 200
    assert sqs.broker.asked["attempt_id"] is None
    assert receive(sqs, "q.fifo", ReceiveRequestAttemptId="a1").status == 200
    assert sqs.broker.asked["attempt_id"] == "a1"
    assert receive(sqs, "q.fifo", ReceiveRequestAttemptId="a b").code == "InvalidParameterValue"


def test_too_many_in_flight_is_over_limit_403(sqs: Any) -> None:
    sqs.broker.raises = TooManyInFlight()
    reply = receive(sqs)
    assert (reply.status, reply.code) == (403, "OverLimit")
    assert reply.message.startswith("Too many messages have been received without being deleted.")


# Delete and change


@pytest.mark.parametrize("action", ["DeleteMessage", "ChangeMessageVisibility"])
@pytest.mark.parametrize("handle", [None, ""])
def test_the_handle_is_required(sqs: Any, action: str, handle: str | None) -> None:
    assert sqs(action, QueueUrl="q", ReceiptHandle=handle).error == (
        "MissingParameter",
        "The request must contain the parameter ReceiptHandle.",
    )


def test_delete_is_void_and_a_garbage_handle_is_404(sqs: Any) -> None:
    assert sqs("DeleteMessage", QueueUrl="q", ReceiptHandle="AQEB").raw == b""
    sqs.broker.outcomes["garbage"] = HandleInvalid()
    reply = sqs("DeleteMessage", QueueUrl="q", ReceiptHandle="garbage")
    assert reply.status == 404
    assert reply.error == (
        "ReceiptHandleIsInvalid",
        'The input receipt handle "garbage" is not a valid receipt handle.',
    )


def test_an_expired_fifo_handle_is_an_error(sqs: Any) -> None:
    sqs.broker.outcomes["h"] = HandleExpired()
    assert sqs("DeleteMessage", QueueUrl="q.fifo", ReceiptHandle="h").error == (
        "InvalidParameterValue",
        "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
    )


@pytest.mark.parametrize(
    ("timeout", "outcome", "error"),
    [
        (None, HandleInvalid(), ("MissingParameter", "The request must contain the parameter VisibilityTimeout.")),
        (
            43201,
            HandleInvalid(),
            (
                "InvalidParameterValue",
                "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200.",
            ),
        ),
        (
            43199,
            VisibilityTooLong(),
            (
                "InvalidParameterValue",
                "Value 43199 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for "
                "the message is beyond the limit [43200 seconds].",
            ),
        ),
        (
            0,
            MessageNotAvailable(),
            (
                "InvalidParameterValue",
                "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not "
                "available for visibility timeout change.",
            ),
        ),
    ],
)  # fmt: skip
def test_change_visibility_refuses(sqs: Any, timeout: Any, outcome: Any, error: tuple[str, str]) -> None:
    sqs.broker.outcomes["h"] = outcome
    reply = sqs("ChangeMessageVisibility", QueueUrl="q", ReceiptHandle="h", VisibilityTimeout=timeout)
    assert reply.error == error


def test_change_visibility_is_void_and_counts_in_milliseconds(sqs: Any) -> None:
    reply = sqs("ChangeMessageVisibility", QueueUrl="q", ReceiptHandle="h", VisibilityTimeout=43200)
    assert reply.raw == b""
    assert sqs.broker.asked == {"h": 43_200_000}
