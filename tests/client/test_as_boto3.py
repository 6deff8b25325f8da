"""Requests are those that boto3 makes of the same parameters: what Amazon accepts of it, it accepts of the client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from client.driver import KEYS
from client.fake_server import FakeServer, reply
from penstock.client import MessageAttribute, SendEntry, SigningKeys, SyncClient, VisibilityEntry
from penstock.services.sqs.actions import ACTIONS

URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo"
ARN = "arn:aws:sqs:eu-central-1:123456789012:dead"
# All members that an answer to any action must have.
ANSWER = {
    "QueueUrl": URL, "MessageId": "1", "TaskHandle": "t", "Successful": [], "Failed": [], "Attributes": {},
    "Tags": {}, "queueUrls": [], "Results": [], "ApproximateNumberOfMessagesMoved": 1,
}  # fmt: skip
KEYS_WITH_TOKEN = SigningKeys("ASIAEXAMPLE", "secret", "a/token+with=signs")

_MESSAGE: dict[str, Any] = {
    "delay_seconds": 3, "message_group_id": "g", "message_deduplication_id": "d",
    "message_attributes": {
        "text": "grün", "number": 1.5, "bytes": b"\x00\xff", "own": MessageAttribute("String.x", string_value="y")
    },
    "message_system_attributes": {"AWSTraceHeader": "Root=1"},
}  # fmt: skip
_BOTO_MESSAGE = {
    "DelaySeconds": 3, "MessageGroupId": "g", "MessageDeduplicationId": "d",
    "MessageAttributes": {
        "text": {"DataType": "String", "StringValue": "grün"}, "number": {"DataType": "Number", "StringValue": "1.5"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "own": {"DataType": "String.x", "StringValue": "y"},
    },
    "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
}  # fmt: skip

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    ("add_permission", (URL, "label", ["111122223333"], ["SendMessage"]), {},
     {"QueueUrl": URL, "Label": "label", "AWSAccountIds": ["111122223333"], "Actions": ["SendMessage"]}),
    ("cancel_message_move_task", ("t",), {}, {"TaskHandle": "t"}),
    ("change_message_visibility", (URL, "h", 0), {},
     {"QueueUrl": URL, "ReceiptHandle": "h", "VisibilityTimeout": 0}),
    ("change_message_visibility_batch", (URL, [VisibilityEntry("h", 5), VisibilityEntry("i", 0, id="x")]), {},
     {"QueueUrl": URL, "Entries": [{"Id": "0", "ReceiptHandle": "h", "VisibilityTimeout": 5},
                                   {"Id": "x", "ReceiptHandle": "i", "VisibilityTimeout": 0}]}),
    ("create_queue", ("orders.fifo", {"FifoQueue": True, "DelaySeconds": 5}, {"a": "b"}), {},
     {"QueueName": "orders.fifo", "Attributes": {"FifoQueue": "true", "DelaySeconds": "5"}, "tags": {"a": "b"}}),
    ("delete_message", (URL, "h"), {}, {"QueueUrl": URL, "ReceiptHandle": "h"}),
    ("delete_message_batch", (URL, ["h", "i"]), {},
     {"QueueUrl": URL, "Entries": [{"Id": "0", "ReceiptHandle": "h"}, {"Id": "1", "ReceiptHandle": "i"}]}),
    ("delete_queue", (URL,), {}, {"QueueUrl": URL}),
    ("get_queue_attributes", (URL, ["QueueArn"]), {}, {"QueueUrl": URL, "AttributeNames": ["QueueArn"]}),
    ("get_queue_url", ("orders",), {"owner_account_id": "111122223333"},
     {"QueueName": "orders", "QueueOwnerAWSAccountId": "111122223333"}),
    ("list_dead_letter_source_queues", (URL,), {"max_results": 5, "next_token": "n"},
     {"QueueUrl": URL, "MaxResults": 5, "NextToken": "n"}),
    ("list_message_move_tasks", (ARN,), {"max_results": 5}, {"SourceArn": ARN, "MaxResults": 5}),
    ("list_queue_tags", (URL,), {}, {"QueueUrl": URL}),
    ("list_queues", ("pre",), {"max_results": 5, "next_token": "n"},
     {"QueueNamePrefix": "pre", "MaxResults": 5, "NextToken": "n"}),
    ("purge_queue", (URL,), {}, {"QueueUrl": URL}),
    ("receive_message", (URL,),
     {"max_number_of_messages": 10, "wait_time_seconds": 0, "visibility_timeout": 0,
      "message_attribute_names": ["All"], "message_system_attribute_names": ["SentTimestamp"],
      "receive_request_attempt_id": "r"},
     {"QueueUrl": URL, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0, "VisibilityTimeout": 0,
      "MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["SentTimestamp"],
      "ReceiveRequestAttemptId": "r"}),
    ("remove_permission", (URL, "label"), {}, {"QueueUrl": URL, "Label": "label"}),
    ("send_message", (URL, "grüße 🐌 \x1f\"\\"), _MESSAGE,
     {"QueueUrl": URL, "MessageBody": "grüße 🐌 \x1f\"\\", **_BOTO_MESSAGE}),
    ("send_message_batch", (URL, [SendEntry(body="a", **_MESSAGE), "b"]), {},
     {"QueueUrl": URL, "Entries": [{"Id": "0", "MessageBody": "a", **_BOTO_MESSAGE},
                                   {"Id": "1", "MessageBody": "b"}]}),
    ("set_queue_attributes", (URL, {"DelaySeconds": 5, "RedrivePolicy": {"maxReceiveCount": 3}}), {},
     {"QueueUrl": URL, "Attributes": {"DelaySeconds": "5", "RedrivePolicy": '{"maxReceiveCount": 3}'}}),
    ("start_message_move_task", (ARN,), {"destination_arn": URL, "max_number_of_messages_per_second": 5},
     {"SourceArn": ARN, "DestinationArn": URL, "MaxNumberOfMessagesPerSecond": 5}),
    ("tag_queue", (URL, {"a": "b"}), {}, {"QueueUrl": URL, "Tags": {"a": "b"}}),
    ("untag_queue", (URL, ["a"]), {}, {"QueueUrl": URL, "TagKeys": ["a"]}),
]  # fmt: skip


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeServer]:
    with FakeServer(reply(body=json.dumps(ANSWER).encode())) as server:
        yield server


def parsed(request: bytes) -> tuple[str, dict[str, str], Any]:
    head, _, body = request.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return line, headers, json.loads(body)


def signed_names(headers: dict[str, str]) -> set[str]:
    found = re.search(r"SignedHeaders=([^,]+)", headers["authorization"])
    assert found is not None
    return set(found[1].split(";"))


def test_every_action_is_compared() -> None:
    assert len(CALLS) == len(ACTIONS)


@pytest.mark.parametrize("keys", [KEYS, KEYS_WITH_TOKEN], ids=["keys", "with a token"])
@pytest.mark.parametrize(
    ("method", "arguments", "options", "members"), CALLS, ids=[call[0] for call in CALLS]
)
def test_a_request(
    fake: FakeServer,
    keys: SigningKeys,
    method: str,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    members: dict[str, Any],
) -> None:
    fake.requests.clear()
    with SyncClient(endpoint_url=fake.url, region="eu-central-1", credentials=keys) as client:
        getattr(client, method)(*arguments, **options)
    sqs = boto3.client(
        "sqs", endpoint_url=fake.url, region_name="eu-central-1", aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key, aws_session_token=keys.token,
        config=Config(sigv4a_signing_region_set=None, retries={"total_max_attempts": 1}),
    )  # fmt: skip
    getattr(sqs, method)(**members)
    (line, own, own_body), (boto_line, boto, boto_body) = (parsed(request) for request in fake.requests)
    assert (line, own_body) == (boto_line, boto_body)
    for name in ("host", "content-type", "x-amz-target", "x-amzn-query-mode", "x-amz-security-token"):
        assert own.get(name) == boto.get(name), name
    scope = re.compile(r"Credential=\w+/\d+/eu-central-1/sqs/aws4_request")
    assert scope.search(own["authorization"]) and scope.search(boto["authorization"])
    # Headers of boto3 alone count its own attempts; the user agent is not signed by either.
    of_boto3_alone = {"amz-sdk-invocation-id", "amz-sdk-request"}
    assert signed_names(own) == signed_names(boto) - of_boto3_alone
