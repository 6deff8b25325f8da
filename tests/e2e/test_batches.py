"""Batches: errors of the whole request, errors of one entry, and the order of the others."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError


def failures(answer: dict[str, Any]) -> dict[str, tuple[str, str]]:
    assert all(entry["SenderFault"] for entry in answer.get("Failed", []))
    return {entry["Id"]: (entry["Code"], entry["Message"]) for entry in answer.get("Failed", [])}


def test_an_entry_fails_alone_with_its_own_code(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q", Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "b"},
            {"Id": "long", "MessageBody": "x" * 1025},
            {"Id": "illegal", "MessageBody": "\x01"},
            {"Id": "empty", "MessageBody": ""},
            {"Id": "late", "MessageBody": "b", "DelaySeconds": 1800},
            {"Id": "dedup", "MessageBody": "b", "MessageDeduplicationId": "d"},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    found = failures(answer)
    assert found["long"] == (
        "InvalidParameterValue",
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
    )
    assert found["illegal"][0] == "InvalidMessageContents"
    assert found["empty"][0] == "EmptyValue"
    assert found["late"] == (
        "InvalidParameterValue",
        "Value 1800 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
    )
    assert found["dedup"] == (
        "InvalidParameterValue",
        "The request include parameter that is not valid for this queue type",
    )
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert message["Body"] == "b"


def test_a_large_batch_passes_up_to_the_sum(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    three = [{"Id": str(i), "MessageBody": "x" * 200_000} for i in range(3)]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=three)["Successful"]) == 3
    exact = [{"Id": "a", "MessageBody": "x" * 1_000_000}, {"Id": "b", "MessageBody": "x" * 48_576}]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=exact)["Successful"]) == 2
    with pytest.raises(sqs.exceptions.BatchRequestTooLong):
        sqs.send_message_batch(QueueUrl=url, Entries=[*exact, {"Id": "c", "MessageBody": "x"}])
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    assert counts["Attributes"]["ApproximateNumberOfMessages"] == "5"


def test_delete_and_change_by_batch(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": str(i)} for i in range(4)])
    handles = [
        message["ReceiptHandle"]
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    ]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "shown", "ReceiptHandle": handles[0], "VisibilityTimeout": 0},
            {"Id": "hidden", "ReceiptHandle": handles[1], "VisibilityTimeout": 600},
            {"Id": "garbage", "ReceiptHandle": "x", "VisibilityTimeout": 0},
            {"Id": "range", "ReceiptHandle": handles[2], "VisibilityTimeout": -85},
            {"Id": "none", "ReceiptHandle": handles[2]},
        ],
    )
    assert {entry["Id"] for entry in changed["Successful"]} == {"shown", "hidden"}
    assert failures(changed) == {
        "garbage": ("ReceiptHandleIsInvalid", 'The input receipt handle "x" is not a valid receipt handle.'),
        "range": (
            "InvalidParameterValue",
            "Value -85 for parameter VisibilityTimeout is invalid. "
            "Reason: VisibilityTimeout must be an integer between 0 and 43200.",
        ),
        "none": (
            "MissingParameter",
            "The request must contain the parameter ChangeMessageVisibilityBatchRequestEntry.5.VisibilityTimeout.",
        ),
    }
    (shown,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert shown["Body"] == "0"
    entries = [{"Id": str(i), "ReceiptHandle": handle} for i, handle in enumerate([*handles, "x"])]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert {entry["Id"] for entry in deleted["Successful"]} == {"0", "1", "2", "3"}
    assert failures(deleted).keys() == {"4"}
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert [value for name, value in counts.items() if name.startswith("Approx")] == ["0", "0", "0"]


def test_a_fifo_batch_keeps_its_order(sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
    entries = [{"Id": f"e{i}", "MessageBody": str(i), "MessageGroupId": "g"} for i in range(10)]
    done = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    numbers = [int(entry["SequenceNumber"]) for entry in done]
    assert numbers == sorted(set(numbers))
    assert all(len(entry["SequenceNumber"]) == 20 for entry in done)
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == [str(i) for i in range(10)]


def test_a_fifo_batch_without_a_group_is_refused_whole(sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
    with pytest.raises(ClientError) as refused:
        entries = [{"Id": "a", "MessageBody": "b", "MessageGroupId": "g"}, {"Id": "b", "MessageBody": "b"}]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue", (
        "not MissingParameter, as one alone"
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
