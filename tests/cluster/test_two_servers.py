"""Two whole servers that share the shards: a client sees the same through either."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cluster.servers import ACCOUNT, ClusterServer, in_memory, on_disk, two_servers
from support.harness import Client, run, until
from support.identities import Accounts


def in_thread(call: Callable[..., Any], **request: Any) -> asyncio.Future[Any]:
    return asyncio.ensure_future(asyncio.to_thread(call, **request))


def test_a_client_sees_the_same_through_either_server() -> None:
    def life(first: Any, second: Any, name: str) -> list[Any]:
        """A queue's whole life, its requests sent to the two in turn."""
        seen: list[Any] = []
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        group = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if fifo else {}
        url = first.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
        path = url.partition("//")[2].partition("/")[2]
        assert second.get_queue_url(QueueName=name)["QueueUrl"].endswith(path)
        seen.append(path.partition("/")[0])
        text = {"kind": {"DataType": "String", "StringValue": "test"}}
        sent = second.send_message(QueueUrl=url, MessageBody="hello", MessageAttributes=text, **group)
        seen += [sent["MD5OfMessageBody"], sent["MD5OfMessageAttributes"]]
        (received,) = first.receive_message(
            QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"], VisibilityTimeout=60
        )["Messages"]
        assert received["MessageId"] == sent["MessageId"]
        seen += [
            received["Body"],
            received["MessageAttributes"],
            received["Attributes"]["ApproximateReceiveCount"],
        ]
        handle = received["ReceiptHandle"]
        second.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=30)
        numbers = first.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        seen.append(numbers["ApproximateNumberOfMessagesNotVisible"])
        second.delete_message(QueueUrl=url, ReceiptHandle=handle)
        first.tag_queue(QueueUrl=url, Tags={"a": "b"})
        seen.append(second.list_queue_tags(QueueUrl=url)["Tags"])
        entries = [
            {
                "Id": str(n),
                "MessageBody": str(n),
                **({"MessageGroupId": "g", "MessageDeduplicationId": f"b{n}"} if fifo else {}),
            }
            for n in range(10)
        ]
        seen.append(len(first.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]))
        seen.append(
            sorted(
                m["Body"] for m in second.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
            )
        )
        for client in (first, second):
            with pytest.raises(ClientError) as refused:
                client.receive_message(QueueUrl=url, MaxNumberOfMessages=11)
            seen.append(
                (
                    refused.value.response["Error"],
                    refused.value.response["ResponseMetadata"]["HTTPStatusCode"],
                )
            )
        second.delete_queue(QueueUrl=url)
        for client in (first, second):
            with pytest.raises(ClientError) as refused:
                client.send_message(QueueUrl=url, MessageBody="late", **group)
            seen.append(
                (
                    refused.value.response["Error"],
                    refused.value.response["ResponseMetadata"]["HTTPStatusCode"],
                )
            )
        return seen

    async def test() -> None:
        async with two_servers(in_memory) as servers:
            here, there = (server.boto3() for server in servers)
            for suffix in ("", ".fifo"):
                lives = [
                    await asyncio.to_thread(life, first, second, owner.queue_name(f"from-{number}", suffix))
                    for number, (first, second) in enumerate([(here, there), (there, here)])
                    for owner in servers
                ]
                assert lives[0] == lives[1] == lives[2] == lives[3]

    run(test)


def test_ten_messages_of_a_mebibyte_are_passed_on() -> None:
    async def test() -> None:
        async with two_servers(in_memory) as (entry, owner):
            client = entry.boto3()
            url = (await in_thread(client.create_queue, QueueName=owner.queue_name()))["QueueUrl"]
            bodies = [str(number) * 1_048_576 for number in range(10)]
            for body in bodies:
                await in_thread(client.send_message, QueueUrl=url, MessageBody=body)
            answer = await in_thread(client.receive_message, QueueUrl=url, MaxNumberOfMessages=10)
            assert sorted(message["Body"] for message in answer["Messages"]) == bodies

    run(test)


def signed_request(server: ClusterServer, path: str, body: str, *headers: str) -> bytes:
    scope = f"{ACCOUNT}/20260101/us-east-1/sqs/aws4_request"
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={'0' * 64}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", body]).encode()


def test_other_protocols_are_passed_on_when_their_queue_is_known() -> None:
    async def test() -> None:
        async with two_servers(in_memory) as (entry, owner):
            client = owner.boto3()
            url = (await in_thread(client.create_queue, QueueName=owner.queue_name()))["QueueUrl"]
            path = f"/{ACCOUNT}/{owner.queue_name()}"
            form = "Content-Type: application/x-www-form-urlencoded"
            sent = await entry.ask(signed_request(entry, path, "Action=SendMessage&MessageBody=hello", form))
            assert (sent.status, b"<MD5OfMessageBody>" in sent.body) == (200, True)
            answer = await in_thread(client.receive_message, QueueUrl=url)
            assert answer["Messages"][0]["Body"] == "hello"

    run(test)


def receive(server: ClusterServer, url: str, wait_s: int) -> bytes:
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": wait_s, "AttributeNames": ["All"]})
    headers = ("X-Amz-Target: AmazonSQS.ReceiveMessage", "Content-Type: application/x-amz-json-1.0")
    return signed_request(server, "/", body, *headers)


def test_a_poll_that_was_passed_on_ends_with_its_client_and_counts_nothing() -> None:
    async def test() -> None:
        async with two_servers(in_memory) as (entry, owner):
            client = owner.boto3()
            url = (await in_thread(client.create_queue, QueueName=owner.queue_name()))["QueueUrl"]
            (queue,) = owner.parts.broker.queues()
            polling = Client(*await asyncio.open_connection("127.0.0.1", entry.port))
            polling.send(receive(entry, url, 20))
            await until(lambda: len(queue.waiting.long_polls) == 1)
            polling.close()
            await until(lambda: not queue.waiting.long_polls)
            await in_thread(client.send_message, QueueUrl=url, MessageBody="hello")
            waiting = Client(*await asyncio.open_connection("127.0.0.1", entry.port))
            waiting.send(receive(entry, url, 20))
            (message,) = (await waiting.response()).json()["Messages"]
            assert message["Attributes"]["ApproximateReceiveCount"] == "1"
            waiting.close()

    run(test)


def test_a_poll_that_was_passed_on_is_answered_when_a_message_comes() -> None:
    async def test() -> None:
        async with two_servers(in_memory) as (entry, owner):
            client = entry.boto3()
            url = (await in_thread(client.create_queue, QueueName=owner.queue_name()))["QueueUrl"]
            poll = in_thread(client.receive_message, QueueUrl=url, WaitTimeSeconds=10)
            (queue,) = owner.parts.broker.queues()
            await until(lambda: len(queue.waiting.long_polls) == 1)
            await in_thread(client.send_message, QueueUrl=url, MessageBody="hello")
            assert (await poll)["Messages"][0]["Body"] == "hello"

    run(test)


# -- secured ------------------------------------------------------------------------------------------------------


def audited(folder: Path) -> list[dict[str, Any]]:
    files = [folder / f"audit-{number}.jsonl" for number in range(2)]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def test_the_owner_verifies_authorises_and_records_once(tmp_path: Path) -> None:
    """Whether the shard is seen before the signature is verified, or after it."""
    accounts = Accounts(tmp_path)
    key = accounts.user("alice", "sqs-full-access")
    (tmp_path / "root.key").write_bytes(bytes(range(32)).hex().encode())
    (tmp_path / "root.key").chmod(0o600)

    def config(number: int) -> Any:
        return on_disk(
            tmp_path, number, credentials=accounts.path, root_key_file=tmp_path / "root.key",
            audit=str(tmp_path / f"audit-{number}.jsonl"), audit_data_events=True,
        )  # fmt: skip

    async def test() -> None:
        async with two_servers(config) as (entry, owner):
            client = entry.boto3(key, accounts.secrets[key])
            name = owner.queue_name()
            url = (await in_thread(client.create_queue, QueueName=name))[
                "QueueUrl"
            ]  # verified here, then passed on
            await in_thread(client.send_message, QueueUrl=url, MessageBody="hello")  # passed on at once
            for wrong in (entry, owner):
                with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                    await in_thread(wrong.boto3(key, "wrong").send_message, QueueUrl=url, MessageBody="no")
            assert entry.parts.broker.queues() == []

    run(test)
    events = [
        (each["eventName"], each.get("errorCode"), each["sourceIPAddress"])
        for each in audited(tmp_path)
        if each["eventName"] in ("CreateQueue", "SendMessage")
    ]
    assert sorted(events, key=str) == [
        ("CreateQueue", None, "127.0.0.1"),
        ("SendMessage", "SignatureDoesNotMatch", "127.0.0.1"),
        ("SendMessage", "SignatureDoesNotMatch", "127.0.0.1"),
        ("SendMessage", None, "127.0.0.1"),
    ]
