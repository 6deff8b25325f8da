"""aiobotocore: the same calls on asyncio, many at a time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiobotocore.session import get_session

ATTRIBUTES = {
    "city": {"DataType": "String", "StringValue": "Zürich"},
    "money": {"DataType": "Number.chf", "StringValue": "7.50"},
    "blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}


def run(reach: dict[str, str], test: Callable[[Any], Awaitable[None]]) -> None:
    async def with_client() -> None:
        async with get_session().create_client("sqs", **reach) as sqs:
            await asyncio.wait_for(test(sqs), 60)

    asyncio.run(with_client())


def test_a_message_is_sent_received_and_deleted(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        url = (await sqs.create_queue(QueueName="pipes"))["QueueUrl"]
        sent = await sqs.send_message(QueueUrl=url, MessageBody="größer 水", MessageAttributes=ATTRIBUTES)
        answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"])
        (got,) = answer["Messages"]
        assert (got["Body"], got["MessageId"]) == ("größer 水", sent["MessageId"])
        assert got["MD5OfBody"] == hashlib.md5(got["Body"].encode()).hexdigest()
        assert got["MessageAttributes"] == ATTRIBUTES
        assert got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        await sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
        assert "Messages" not in await sqs.receive_message(QueueUrl=url)

    run(reach, test)


def test_many_polls_and_sends_at_a_time(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        url = (await sqs.create_queue(QueueName="pipes"))["QueueUrl"]
        polls = [
            asyncio.create_task(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, WaitTimeSeconds=20))
            for _ in range(5)
        ]
        bodies = {f"m{n}" for n in range(5)}
        await asyncio.gather(*(sqs.send_message(QueueUrl=url, MessageBody=body) for body in bodies))
        answers = await asyncio.gather(*polls)
        assert {message["Body"] for answer in answers for message in answer["Messages"]} == bodies

    run(reach, test)


def test_a_cancelled_poll_swallows_nothing(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        url = (await sqs.create_queue(QueueName="pipes"))["QueueUrl"]
        poll = asyncio.create_task(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20))
        await asyncio.sleep(0.2)  # let the poll reach the server
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await sqs.send_message(QueueUrl=url, MessageBody="for the next one")
        answer = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, AttributeNames=["All"])
        (got,) = answer["Messages"]
        assert got["Attributes"]["ApproximateReceiveCount"] == "1"

    run(reach, test)


def test_a_batch_says_which_entries_failed(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        url = (await sqs.create_queue(QueueName="pipes"))["QueueUrl"]
        entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901}]
        sent = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
        assert [entry["Id"] for entry in sent["Successful"]] == ["good"]
        assert [(entry["Id"], entry["Code"]) for entry in sent["Failed"]] == [
            ("bad", "InvalidParameterValue")
        ]

    run(reach, test)


def test_fifo_keeps_order_and_drops_duplicates(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        url = (await sqs.create_queue(QueueName="pipes.fifo", Attributes=attributes))["QueueUrl"]
        for body in ("one", "two", "one", "three"):
            await sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
        answer = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
        assert [message["Body"] for message in answer["Messages"]] == ["one", "two", "three"]
        numbers = [int(message["Attributes"]["SequenceNumber"]) for message in answer["Messages"]]
        assert numbers == sorted(set(numbers))

    run(reach, test)


def test_a_missing_queue_has_its_type(reach: dict[str, str]) -> None:
    async def test(sqs: Any) -> None:
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            await sqs.get_queue_url(QueueName="nowhere")

    run(reach, test)
