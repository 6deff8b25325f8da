"""Large messages between AWS's extended client for Python and ours, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqs_extended_client import SQSExtendedClientSession

from penstock.client import LargePayloads, S3Store, SendEntry, SigningKeys, SyncClient
from support.fake_s3 import FakeS3

LARGE = "“large” " * 300_000


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with FakeS3() as running:
        yield running


@pytest.fixture
def theirs(reach: dict[str, str], s3: FakeS3) -> Any:
    s3.objects.clear()
    client = SQSExtendedClientSession(region_name="us-east-1").client("sqs", **reach)
    client.s3_client = s3.client()
    client.large_payload_support = "bucket"
    client.delete_payload_from_s3 = True
    return client


@pytest.fixture
def ours(reach: dict[str, str], s3: FakeS3) -> Iterator[SyncClient]:
    keys = SigningKeys(reach["aws_access_key_id"], "any")
    store = S3Store("bucket", client=s3.client())
    with SyncClient(
        endpoint_url=reach["endpoint_url"], region="us-east-1", credentials=keys,
        large_payloads=LargePayloads(store),
    ) as client:  # fmt: skip
        yield client


@pytest.fixture
def queue(ours: SyncClient) -> str:
    return ours.create_queue("orders")


@pytest.mark.parametrize("legacy", [False, True])
def test_we_read_theirs(theirs: Any, ours: SyncClient, queue: str, s3: FakeS3, legacy: bool) -> None:
    theirs.use_legacy_attribute = legacy
    attributes = {"n": {"DataType": "Number", "StringValue": "1"}}
    theirs.send_message(QueueUrl=queue, MessageBody=LARGE, MessageAttributes=attributes)
    assert len(s3.objects) == 1
    (message,) = ours.receive_message(queue, wait_time_seconds=20, message_attribute_names=["All"])
    assert message.body == LARGE
    assert {name: value.value for name, value in message.message_attributes.items()} == {"n": 1}
    ours.change_message_visibility(queue, message.receipt_handle, 60)
    ours.delete_message(queue, message.receipt_handle)
    assert s3.objects == {}


def test_they_read_ours(theirs: Any, ours: SyncClient, queue: str, s3: FakeS3) -> None:
    ours.send_message(queue, LARGE, message_attributes={"n": 1})
    assert len(s3.objects) == 1
    (message,) = theirs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert message["Body"] == LARGE
    assert message["MessageAttributes"] == {"n": {"DataType": "Number", "StringValue": "1"}}
    handle = message["ReceiptHandle"]
    theirs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=60)
    theirs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    assert s3.objects == {}
    counts = ours.get_queue_attributes(queue)
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_receipt_handles_are_the_same(theirs: Any, ours: SyncClient, queue: str, s3: FakeS3) -> None:
    """What one has received, the other can delete."""
    ours.send_message(queue, LARGE)
    (message,) = ours.receive_message(queue, wait_time_seconds=20)
    theirs.delete_message(QueueUrl=queue, ReceiptHandle=message.receipt_handle)
    assert s3.objects == {}
    theirs.send_message(QueueUrl=queue, MessageBody=LARGE)
    (received,) = theirs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    ours.delete_message(queue, received["ReceiptHandle"])
    assert s3.objects == {}


def test_batches(theirs: Any, ours: SyncClient, queue: str, s3: FakeS3) -> None:
    theirs.always_through_s3 = True
    theirs.send_message_batch(
        QueueUrl=queue, Entries=[{"Id": str(place), "MessageBody": body} for place, body in enumerate("abc")]
    )
    ours.send_message_batch(queue, [SendEntry(body=LARGE), SendEntry(body="d")])
    assert len(s3.objects) == 4
    bodies: list[str] = []
    while len(bodies) < 5:
        received = ours.receive_message(queue, max_number_of_messages=3, wait_time_seconds=20)
        bodies += [message.body for message in received]
        ours.delete_message_batch(queue, [message.receipt_handle for message in received])
    assert sorted(bodies) == sorted([LARGE, "a", "b", "c", "d"])
    assert s3.objects == {}


def test_they_read_our_batch(theirs: Any, ours: SyncClient, queue: str, s3: FakeS3) -> None:
    sent = [f"{letter}{LARGE}" for letter in "abc"]
    ours.send_message_batch(queue, sent)
    bodies: list[str] = []
    while len(bodies) < 3:
        answer = theirs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        messages = answer.get("Messages", [])
        bodies += [message["Body"] for message in messages]
        entries = [
            {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"]}
            for place, message in enumerate(messages)
        ]
        theirs.delete_message_batch(QueueUrl=queue, Entries=entries)
    assert sorted(bodies) == sent
    assert s3.objects == {}
