"""boto3 through its client. Runs with the current version and, in a separate environment, with one of 2023 that
speaks the Query protocol: both must see the same.

boto3 checks no digests of messages; ``same_digest`` does it here.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
import uuid
from typing import Any

import pytest

EVERY_TYPE: dict[str, dict[str, Any]] = {
    "city": {"DataType": "String", "StringValue": "Zürich"},
    "amount": {"DataType": "Number", "StringValue": "12.50"},
    "money": {"DataType": "Number.chf", "StringValue": "7"},
    "blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff\n\x7f"},
    "image": {"DataType": "Binary.gif", "BinaryValue": b"GIF89a"},
}


def new_queue(sqs: Any, **attributes: str) -> str:
    name = f"boto3-{uuid.uuid4()}{'.fifo' if 'FifoQueue' in attributes else ''}"
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def arn_of(sqs: Any, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


def receive(sqs: Any, url: str, most: int = 10, wait: int = 10) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=wait,
        AttributeNames=["All"], MessageAttributeNames=["All"],
    )  # fmt: skip
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    for message in messages:
        assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode()).hexdigest()
        if "MessageAttributes" in message:
            assert message["MD5OfMessageAttributes"] == digest_of(message["MessageAttributes"])
    return messages


def digest_of(attributes: dict[str, dict[str, Any]]) -> str:
    """SQS: name, type and value of each attribute in order of names, each after its length in four bytes; one
    byte distinguishes text (1) from bytes (2)."""
    digest = hashlib.md5()
    for name, attribute in sorted(attributes.items()):
        is_text = "StringValue" in attribute
        value = attribute["StringValue"].encode() if is_text else attribute["BinaryValue"]
        for part in (name.encode(), attribute["DataType"].encode()):
            digest.update(struct.pack(">I", len(part)) + part)
        digest.update((b"\1" if is_text else b"\2") + struct.pack(">I", len(value)) + value)
    return digest.hexdigest()


def test_a_queue_is_created_and_found(sqs: Any) -> None:
    url = new_queue(sqs, VisibilityTimeout="45")
    name = url.rsplit("/", 1)[1]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    sqs.tag_queue(QueueUrl=url, Tags={"team": "water", "stage": "test"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["stage"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "water"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "3"})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (shown["VisibilityTimeout"], shown["DelaySeconds"]) == ("45", "3")
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


def test_queues_are_listed_by_pages(sqs: Any) -> None:
    urls = {new_queue(sqs) for _ in range(5)}
    pages = list(sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 2}))
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]
    assert {url for page in pages for url in page["QueueUrls"]} == urls


def test_a_message_is_sent_received_and_deleted(sqs: Any) -> None:
    url = new_queue(sqs)
    body = 'größer 水 🚰 <&> ]]>\r\n\t"quoted" '
    sent = sqs.send_message(QueueUrl=url, MessageBody=body)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    (got,) = receive(sqs, url)
    assert (got["Body"], got["MessageId"]) == (body, sent["MessageId"])
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"
    assert abs(int(got["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    assert receive(sqs, url, wait=0) == []


def test_a_message_of_the_largest_size(sqs: Any) -> None:
    url = new_queue(sqs)
    body = "&+é" * (1_048_576 // 4)  # four bytes, and nine characters once it is part of a form
    sqs.send_message(QueueUrl=url, MessageBody=body)
    (got,) = receive(sqs, url)
    assert got["Body"] == body


def test_attributes_of_every_type_come_back(sqs: Any) -> None:
    url = new_queue(sqs)
    sent = sqs.send_message(
        QueueUrl=url, MessageBody="x", MessageAttributes=EVERY_TYPE,
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988"}},
    )  # fmt: skip
    assert sent["MD5OfMessageAttributes"] == digest_of(EVERY_TYPE)
    (got,) = receive(sqs, url)
    assert got["MessageAttributes"] == EVERY_TYPE
    assert got["Attributes"]["AWSTraceHeader"] == "Root=1-5759e988"


def test_a_batch_says_which_entries_failed(sqs: Any) -> None:
    url = new_queue(sqs)
    sent = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "one", "MessageAttributes": EVERY_TYPE},
            {"Id": "bad", "MessageBody": "late", "DelaySeconds": 901},
            {"Id": "fine", "MessageBody": "two"},
        ],
    )
    assert [entry["Id"] for entry in sent["Successful"]] == ["good", "fine"]
    assert sent["Successful"][0]["MD5OfMessageAttributes"] == digest_of(EVERY_TYPE)
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidParameterValue", True)
    got = receive(sqs, url)
    entries = [{"Id": "bad", "ReceiptHandle": "nonsense", "VisibilityTimeout": 60}]
    entries += [
        {"Id": f"good{n}", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 60}
        for n, message in enumerate(got)
    ]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)
    assert [entry["Code"] for entry in changed["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert len(changed["Successful"]) == len(got)
    for entry in entries:
        del entry["VisibilityTimeout"]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in deleted["Failed"]] == ["bad"]


def test_a_long_poll_wakes(sqs: Any) -> None:
    url = new_queue(sqs)
    later = threading.Timer(0.3, sqs.send_message, kwargs={"QueueUrl": url, "MessageBody": "wake up"})
    later.start()
    started = time.monotonic()
    assert [message["Body"] for message in receive(sqs, url, wait=20)] == ["wake up"]
    assert time.monotonic() - started < 10
    later.join()


def test_fifo_keeps_order_and_drops_duplicates(sqs: Any) -> None:
    url = new_queue(sqs, FifoQueue="true")
    bodies = [f"m{n}" for n in range(5)]
    sent = [
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body)
        for body in [*bodies, "m0"]
    ]
    assert sent[-1]["MessageId"] == sent[0]["MessageId"]
    got = receive(sqs, url)
    assert [message["Body"] for message in got] == bodies
    numbers = [int(message["Attributes"]["SequenceNumber"]) for message in got]
    assert numbers == sorted(set(numbers)) == [int(answer["SequenceNumber"]) for answer in sent[:5]]
    assert got[0]["Attributes"]["MessageGroupId"] == "g"


def test_dead_letters_move_and_come_back(sqs: Any) -> None:
    dead = new_queue(sqs)
    policy = {"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 1}
    url = new_queue(sqs, VisibilityTimeout="0", RedrivePolicy=json.dumps(policy))
    sqs.send_message(QueueUrl=url, MessageBody="poison", MessageAttributes=EVERY_TYPE)
    assert len(receive(sqs, url)) == 1
    assert receive(sqs, url, wait=0) == []
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    (letter,) = receive(sqs, dead)
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(sqs, url)
    assert letter["MessageAttributes"] == EVERY_TYPE
    sqs.change_message_visibility(QueueUrl=dead, ReceiptHandle=letter["ReceiptHandle"], VisibilityTimeout=0)

    assert sqs.start_message_move_task(SourceArn=arn_of(sqs, dead))["TaskHandle"]
    assert [message["Body"] for message in receive(sqs, url)] == ["poison"]
    (task,) = sqs.list_message_move_tasks(SourceArn=arn_of(sqs, dead))["Results"]
    assert task["SourceArn"] == arn_of(sqs, dead)
    assert task["Status"] in ("RUNNING", "COMPLETED")


def test_errors_have_their_types(sqs: Any) -> None:
    url = new_queue(sqs)
    name = url.rsplit("/", 1)[1]
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as missing:
        sqs.get_queue_url(QueueName="nowhere")
    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    with pytest.raises(sqs.exceptions.QueueNameExists):
        sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "7"})
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="nonsense")
    with pytest.raises(sqs.exceptions.BatchEntryIdsNotDistinct):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "same", "MessageBody": "x"}] * 2)
    with pytest.raises(sqs.exceptions.TooManyEntriesInBatchRequest):
        entries = [{"Id": str(n), "MessageBody": "x"} for n in range(11)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.start_message_move_task(SourceArn=arn_of(sqs, url) + "-nowhere")
    with pytest.raises(sqs.exceptions.ClientError) as untyped:
        sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=901)
    assert untyped.value.response["Error"]["Code"] == "InvalidParameterValue"
