"""AWS JSON 1.0 to the byte: headers, empty responses, omitted members, paths."""

from __future__ import annotations

import http.client
import json
import re
import socket
from http.client import HTTPConnection
from typing import Any

import pytest

from support.process import ServerProcess
from support.raw import JSON, Raw, Reply, authorization

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def assert_headers(reply: Reply) -> None:
    assert reply.headers["content-type"] == JSON
    assert UUID.fullmatch(reply.headers["x-amzn-requestid"])
    assert reply.headers["content-length"] == str(len(reply.body))
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", reply.headers["date"])


@pytest.fixture
def handle(raw: Raw) -> str:
    raw.done("CreateQueue", {"QueueName": "q"})
    raw.done("SendMessage", {"QueueUrl": "q", "MessageBody": "b"})
    (message,) = raw.done("ReceiveMessage", {"QueueUrl": "q"})["Messages"]
    text: str = message["ReceiptHandle"]
    return text


def test_empty_responses_have_a_content_type(raw: Raw, handle: str) -> None:
    permission = {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
    requests: dict[str, dict[str, Any]] = {
        "AddPermission": permission,
        "RemovePermission": {"Label": "l"},
        "ChangeMessageVisibility": {"ReceiptHandle": handle, "VisibilityTimeout": 30},
        "DeleteMessage": {"ReceiptHandle": handle},
        "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
        "TagQueue": {"Tags": {"k": "v"}},
        "UntagQueue": {"TagKeys": ["k"]},
        "PurgeQueue": {},
        "DeleteQueue": {},
    }
    for action, request in requests.items():
        reply = raw.ask(action, {"QueueUrl": "q", **request})
        assert (reply.status, reply.body) == (200, b""), action
        assert_headers(reply)


def test_empty_members_are_omitted(raw: Raw) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    for action, request in {
        "ReceiveMessage": {"QueueUrl": "q"},
        "ListQueues": {"QueueNamePrefix": "none"},
        "ListQueueTags": {"QueueUrl": "q"},
        "GetQueueAttributes": {"QueueUrl": "q", "AttributeNames": ["Policy"]},
        "ListDeadLetterSourceQueues": {"QueueUrl": "q"},
        "ListMessageMoveTasks": {
            "SourceArn": raw.done("GetQueueAttributes", {"QueueUrl": "q", "AttributeNames": ["QueueArn"]})[
                "Attributes"
            ]["QueueArn"]
        },
    }.items():
        reply = raw.ask(action, request)
        assert (reply.status, reply.body) == (200, b"{}"), action
        assert_headers(reply)
    assert raw.done("GetQueueAttributes", {"QueueUrl": "q"}) == {}


def test_batch_responses_omit_an_empty_list(raw: Raw, handle: str) -> None:
    def keys(action: str, *entries: dict[str, object]) -> set[str]:
        return set(raw.done(action, {"QueueUrl": "q", "Entries": list(entries)}))

    good: dict[str, object] = {"Id": "a", "ReceiptHandle": handle}
    bad: dict[str, object] = {"Id": "b", "ReceiptHandle": "garbage"}
    hide: dict[str, object] = {"VisibilityTimeout": 60}
    assert keys("SendMessageBatch", {"Id": "a", "MessageBody": "x"}) == {"Successful"}
    assert keys("SendMessageBatch", {"Id": "a", "MessageBody": ""}) == {"Failed"}
    assert keys("ChangeMessageVisibilityBatch", good | hide) == {"Successful"}
    assert keys("ChangeMessageVisibilityBatch", bad | hide) == {"Failed"}
    assert keys("ChangeMessageVisibilityBatch", bad | hide, good | hide) == {"Successful", "Failed"}
    assert keys("DeleteMessageBatch", bad) == {"Failed"}
    assert keys("DeleteMessageBatch", good) == {"Successful"}


def test_an_error_is_two_members_in_order_without_whitespace(raw: Raw) -> None:
    reply = raw.ask("CreateQueue", {"QueueName": "q", "Attributes": {"Policy": "no"}})
    assert reply.status == 400
    assert reply.body == (
        b'{"__type":"com.amazonaws.sqs#InvalidAttributeValue",'
        b'"message":"Invalid value for the parameter Policy."}'
    )
    assert reply.headers["x-amzn-query-error"] == "InvalidAttributeValue;Sender"
    assert_headers(reply)


def test_digests_only_of_what_was_sent(raw: Raw) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    assert set(raw.done("SendMessage", {"QueueUrl": "q", "MessageBody": "b"})) == {
        "MD5OfMessageBody",
        "MessageId",
    }
    (message,) = raw.done("ReceiveMessage", {"QueueUrl": "q"})["Messages"]
    assert set(message) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


def test_null_and_unknown_members_of_a_request_are_ignored(raw: Raw) -> None:
    raw.done("CreateQueue", {"QueueName": "q", "Attributes": None, "tags": {"b": "1"}, "X": 1})
    assert raw.done("ListQueueTags", {"QueueUrl": "q"}) == {"Tags": {"b": "1"}}
    raw.done(
        "SendMessage", {"QueueUrl": "q", "MessageBody": "b", "DelaySeconds": None, "MessageGroupId": None}
    )
    assert len(raw.done("ReceiveMessage", {"QueueUrl": "q", "AttributeNames": None})["Messages"]) == 1


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("CreateQueue", {"QueueName": "n", "Attributes": {"Policy": None}}),
        ("TagQueue", {"QueueUrl": "q", "Tags": {"a": None, "b": "1"}}),
        ("UntagQueue", {"QueueUrl": "q", "TagKeys": ["a", None]}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "b", "MessageAttributes": {"a": None}}),
        ("ReceiveMessage", {"QueueUrl": "q", "AttributeNames": [None]}),
        ("DeleteMessageBatch", {"QueueUrl": "q", "Entries": [None]}),
    ],
)
def test_null_members_of_lists_and_maps_are_refused(raw: Raw, action: str, request_: dict[str, Any]) -> None:
    """A server that drops them in silence would send a message without an attribute."""
    raw.done("CreateQueue", {"QueueName": "q"})
    reply = raw.ask(action, request_)
    assert reply.status == 400
    assert b"SerializationException" in reply.body


def test_scalars_are_converted_to_text(raw: Raw) -> None:
    raw.done("CreateQueue", {"QueueName": "q", "Attributes": {"VisibilityTimeout": 7}})
    raw.done("SendMessage", {"QueueUrl": "q", "MessageBody": 42})
    (message,) = raw.done("ReceiveMessage", {"QueueUrl": "q"})["Messages"]
    assert message["Body"] == "42"


def test_the_same_request_works_on_any_path(raw: Raw, account: str) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    for path in (f"/{account}/q", "/", "/some/where/else"):
        reply = raw.ask("SendMessage", {"QueueUrl": "q", "MessageBody": "b"}, path=path)
        assert (reply.status, reply.headers["content-type"]) == (200, JSON)


@pytest.mark.parametrize("accept", ["application/json", "text/xml", "*/*", "application/x-amz-json-1.0"])
def test_any_accept_and_any_case_of_header_names(server: ServerProcess, account: str, accept: str) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {
        "x-AMZ-target": "AmazonSQS.ListQueues",
        "ACCEPT": accept,
        "authorization": authorization(account),
    }
    connection.request("POST", "/", b"{}", headers)
    response = connection.getresponse()
    assert (response.status, response.getheader("Content-Type"), response.read()) == (200, JSON, b"{}")
    connection.close()


def test_a_request_without_an_action(server: ServerProcess, raw: Raw) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/", b"{}")
    response = connection.getresponse()
    assert response.status == 400
    assert response.getheader("x-amzn-query-error") == "InvalidAction;Sender"
    assert json.loads(response.read())["__type"] == "com.amazon.coral.service#UnknownOperationException"
    connection.close()


def test_request_ids_differ(raw: Raw) -> None:
    ids = {raw.ask("ListQueues").headers["x-amzn-requestid"] for _ in range(5)}
    assert len(ids) == 5


def test_pipelined_requests_are_answered_in_order(server: ServerProcess, account: str) -> None:
    def request(action: str, **members: object) -> bytes:
        body = json.dumps(members).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
            f"Authorization: {authorization(account)}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    names = [f"q{i}" for i in range(20)]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        # A later request sees what an earlier one did, though none waited for an answer.
        connection.sendall(
            b"".join(
                request("CreateQueue", QueueName=name) + request("GetQueueUrl", QueueName=name)
                for name in names
            )
        )
        answers = connection.makefile("rb")
        for name in [name for name in names for _ in "12"]:
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            length = int(http.client.parse_headers(answers)["Content-Length"])
            assert json.loads(answers.read(length))["QueueUrl"] == f"http://h/{account}/{name}"
