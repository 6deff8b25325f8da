"""Batches: errors of the whole request, errors of one entry, and the outcome of the other entries."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import HandleExpired, HandleInvalid, MessageNotAvailable

BATCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "SendMessageBatch": ("SendMessageBatchRequestEntry", {"MessageBody": "x"}),
    "DeleteMessageBatch": ("DeleteMessageBatchRequestEntry", {"ReceiptHandle": "h"}),
    "ChangeMessageVisibilityBatch": (
        "ChangeMessageVisibilityBatchRequestEntry",
        {"ReceiptHandle": "h", "VisibilityTimeout": 1},
    ),
}
LEGACY = "AWS.SimpleQueueService."


@pytest.fixture(autouse=True)
def queues(sqs: Any) -> None:
    sqs.make("q")
    sqs.make("q.fifo")
    sqs.make("small", MaximumMessageSize="1024")


def send(sqs: Any, *entries: dict[str, Any], queue: str = "q") -> Any:
    numbered = [{"Id": f"e{number}", **entry} for number, entry in enumerate(entries, 1)]
    return sqs("SendMessageBatch", QueueUrl=queue, Entries=numbered)


@pytest.mark.parametrize("action", BATCHES)
def test_a_batch_needs_entries_and_no_more_than_ten(sqs: Any, action: str) -> None:
    kind, entry = BATCHES[action]
    nothing: tuple[list[Any] | None, ...] = (None, [])
    for entries in nothing:
        assert sqs(action, QueueUrl="q", Entries=entries).error == (
            f"{LEGACY}EmptyBatchRequest",
            f"There should be at least one {kind} in the request.",
        )
    many = [{"Id": str(number), **entry} for number in range(11)]
    assert sqs(action, QueueUrl="q", Entries=many).error == (
        f"{LEGACY}TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 11.",
    )
    assert len(sqs(action, QueueUrl="q", Entries=many[:10]).body["Successful"]) == 10


@pytest.mark.parametrize("entry_id", ["1", 1], ids=["read in one go", "read by hand"])
def test_far_too_many_entries_are_counted_until_there_are_too_many_to_read(sqs: Any, entry_id: Any) -> None:
    many = [{"Id": entry_id}] * 2001
    assert sqs("SendMessageBatch", QueueUrl="q", Entries=many[:2000]).error == (
        f"{LEGACY}TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 2000.",
    )
    assert sqs("SendMessageBatch", QueueUrl="q", Entries=many).error == (
        "MalformedInput",
        "The request has a list or map, or several, of more than 2000 members.",
    )


@pytest.mark.parametrize("action", BATCHES)
def test_entries_need_ids_that_are_well_formed_and_distinct(sqs: Any, action: str) -> None:
    kind, entry = BATCHES[action]
    assert sqs(action, QueueUrl="q", Entries=[{"Id": "1", **entry}, entry]).error == (
        "MissingParameter",
        f"The request must contain the parameter {kind}.2.Id.",
    )
    for bad in ("", "a b", "x" * 81, "a\n"):
        assert sqs(action, QueueUrl="q", Entries=[{"Id": bad, **entry}]).error == (
            f"{LEGACY}InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            "It can be at most 80 letters long.",
        )
    ids = ("id_1", "id_2", "id_2", "id_1")
    assert sqs(action, QueueUrl="q", Entries=[{"Id": id_, **entry} for id_ in ids]).error == (
        f"{LEGACY}BatchEntryIdsNotDistinct",
        "Id id_2 repeated.",
    )


def test_a_batch_is_too_long_only_past_the_sum_whatever_the_queues_limit(sqs: Any) -> None:
    third = {"MessageBody": "x" * 200_000}
    assert len(send(sqs, third, third, third).body["Successful"]) == 3
    half = {"MessageBody": "x" * 524_288}
    assert send(sqs, half, half).status == 200
    for queue in ("q", "small"):
        assert send(sqs, half, half, {"MessageBody": "x"}, queue=queue).error == (
            f"{LEGACY}BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        )
    attribute = {"MessageAttributes": {"k": {"DataType": "String", "StringValue": "x"}}}
    assert send(sqs, {"MessageBody": "x" * 1_048_569, **attribute}).code == f"{LEGACY}BatchRequestTooLong"


def test_fifo_entries_without_group_or_id_refuse_the_whole(sqs: Any) -> None:
    fine = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    no_group = {"MessageBody": "x", "MessageDeduplicationId": "d"}
    no_dedup = {"MessageBody": "x", "MessageGroupId": "g"}
    assert send(sqs, fine, no_group, queue="q.fifo").error == (
        "InvalidParameterValue",
        "The request must contain the parameter MessageGroupId.",
    )
    assert send(sqs, fine, no_dedup, queue="q.fifo").error == (
        "InvalidParameterValue",
        "The queue should either have ContentBasedDeduplication enabled "
        "or MessageDeduplicationId provided explicitly",
    )
    assert sqs.broker.sent == []


def test_invalid_entries_fail_alone_and_the_others_are_sent_in_order_in_one_commit(sqs: Any) -> None:
    reply = send(
        sqs,
        {"MessageBody": "one"},
        {"MessageBody": ""},
        {"MessageBody": "\x01"},
        {"MessageBody": "x", "DelaySeconds": 1800},
        {"MessageBody": "x", "MessageDeduplicationId": "d"},
        {"MessageBody": "y" * 1025},
        {},
        {"MessageBody": "two"},
        queue="small",
    )
    assert reply.status == 200
    assert [entry["Id"] for entry in reply.body["Successful"]] == ["e1", "e8"]
    assert reply.body["Successful"][0] == {
        "Id": "e1",
        "MessageId": "id-one",
        "MD5OfMessageBody": "f97c5d29941bfb1b2fdab0874906ab82",
    }
    failed = {entry["Id"]: entry for entry in reply.body["Failed"]}
    assert {id_: entry["Code"] for id_, entry in failed.items()} == {
        "e2": "EmptyValue",
        "e3": "InvalidMessageContents",
        "e4": "InvalidParameterValue",
        "e5": "InvalidParameterValue",
        "e6": "InvalidParameterValue",
        "e7": "MissingParameter",
    }
    assert all(entry["SenderFault"] is True for entry in failed.values())
    assert failed["e4"]["Message"] == (
        "Value 1800 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    )
    assert failed["e5"]["Message"] == ("The request include parameter that is not valid for this queue type")
    assert failed["e6"]["Message"] == (
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."
    )
    assert [message.body for message in sqs.broker.sent] == ["one", "two"]
    assert sqs.broker.commits == 1


def test_nothing_is_sent_when_every_entry_is_invalid(sqs: Any) -> None:
    reply = send(sqs, {"MessageBody": ""})
    assert set(reply.body) == {"Failed"}
    assert sqs.broker.commits == 0


def test_without_failures_there_is_no_failed(sqs: Any) -> None:
    assert set(send(sqs, {"MessageBody": "x"}).body) == {"Successful"}


def test_delete_batch_outcomes(sqs: Any) -> None:
    sqs.broker.outcomes = {"x": HandleInvalid(), "old": HandleExpired()}
    handles = {"a": "good", "b": "x", "c": "old", "d": None}
    reply = sqs(
        "DeleteMessageBatch",
        QueueUrl="q.fifo",
        Entries=[{"Id": id_, "ReceiptHandle": handle} for id_, handle in handles.items()],
    )
    assert reply.body["Successful"] == [{"Id": "a"}]
    assert {entry["Id"]: (entry["Code"], entry["Message"]) for entry in reply.body["Failed"]} == {
        "b": ("ReceiptHandleIsInvalid", 'The input receipt handle "x" is not a valid receipt handle.'),
        "c": ("ReceiptHandleIsInvalid", "The receipt handle has expired"),
        "d": (
            "MissingParameter",
            "The request must contain the parameter DeleteMessageBatchRequestEntry.4.ReceiptHandle.",
        ),
    }


def test_change_visibility_batch_outcomes(sqs: Any) -> None:
    sqs.broker.outcomes = {"x": HandleInvalid(), "gone": MessageNotAvailable()}
    rows = {"a": ("good", 60), "b": ("x", 0), "c": ("gone", 0), "d": ("good", -85), "e": ("good", None)}
    reply = sqs(
        "ChangeMessageVisibilityBatch",
        QueueUrl="q",
        Entries=[
            {"Id": id_, "ReceiptHandle": handle, "VisibilityTimeout": timeout}
            for id_, (handle, timeout) in rows.items()
        ],
    )
    assert reply.body["Successful"] == [{"Id": "a"}]
    assert {entry["Id"]: (entry["Code"], entry["Message"]) for entry in reply.body["Failed"]} == {
        "b": ("ReceiptHandleIsInvalid", 'The input receipt handle "x" is not a valid receipt handle.'),
        "c": (
            "ReceiptHandleIsInvalid",
            "Message does not exist or is not available for visibility timeout change",
        ),
        "d": (
            "InvalidParameterValue",
            "Value -85 for parameter VisibilityTimeout is invalid. "
            "Reason: VisibilityTimeout must be an integer between 0 and 43200.",
        ),
        "e": (
            "MissingParameter",
            "The request must contain the parameter "
            "ChangeMessageVisibilityBatchRequestEntry.5.VisibilityTimeout.",
        ),
    }
