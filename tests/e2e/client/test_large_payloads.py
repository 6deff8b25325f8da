"""Bodies past the limit of a queue, on a real server, with payloads in a directory and in S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.client.conftest import Run, said_before_kill
from penstock.client import (
    BufferedReceiver,
    Client,
    Consumer,
    DirectoryStore,
    GiveUp,
    LargePayloads,
    Message,
    Producer,
    S3Store,
    SyncClient,
    VisibilityEntry,
)
from penstock.client.payload_stores import PayloadStore
from support.fake_s3 import FakeS3

LARGE = "“large” " * 300_000
Count = Callable[[], int]


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with FakeS3() as running:
        yield running


@pytest.fixture(params=["directory", "S3"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, s3: FakeS3) -> tuple[PayloadStore, Count]:
    """A store, and how many payloads are in it."""
    if request.param == "directory":
        return DirectoryStore(tmp_path), lambda: len(list(tmp_path.iterdir()))
    s3.objects.clear()
    return S3Store("payloads", client=s3.client()), lambda: len(s3.objects)


@pytest.fixture
def store(stored: tuple[PayloadStore, Count]) -> PayloadStore:
    return stored[0]


@pytest.fixture
def count(stored: tuple[PayloadStore, Count]) -> Count:
    return stored[1]


@pytest.fixture
def settings(settings: dict[str, Any], store: PayloadStore) -> dict[str, Any]:
    return {**settings, "large_payloads": LargePayloads(store)}


def test_a_large_message_is_received_as_it_was_sent(run: Run, count: Count) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        sent = await client.send_message("orders", LARGE, message_attributes={"n": 1})
        assert count() == 1
        (message,) = await client.receive_message(
            "orders", wait_time_seconds=20, message_attribute_names=["All"]
        )
        assert message.message_id == sent.message_id
        assert message.body == LARGE
        assert {name: value.value for name, value in message.message_attributes.items()} == {"n": 1}
        await client.change_message_visibility("orders", message.receipt_handle, 60)
        await client.delete_message("orders", message.receipt_handle)
        assert count() == 0
        assert await client.receive_message("orders") == []

    run(test)


def test_the_same_without_asyncio(settings: dict[str, Any], count: Count) -> None:
    with SyncClient(**settings) as client:
        client.create_queue("orders")
        client.send_message("orders", LARGE)
        (message,) = client.receive_message("orders", wait_time_seconds=20)
        assert message.body == LARGE
        client.delete_message("orders", message.receipt_handle)
        assert count() == 0


def test_batches_of_large_and_small_messages(run: Run, count: Count) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        bodies = ["small", LARGE, "x" * 600_000, "y" * 600_000]
        result = await client.send_message_batch("orders", bodies)
        assert len(result.successful) == 4
        assert count() == 2, "the large one, and one of those that are too large together"
        messages: list[Message] = []
        while len(messages) < 4:
            messages += await client.receive_message(
                "orders", max_number_of_messages=10, wait_time_seconds=20, visibility_timeout=600
            )
        assert sorted(message.body for message in messages) == sorted(bodies)
        entries = [VisibilityEntry(message.receipt_handle, 500) for message in messages]
        assert len((await client.change_message_visibility_batch("orders", entries)).successful) == 4
        handles = [message.receipt_handle for message in messages]
        assert len((await client.delete_message_batch("orders", handles)).successful) == 4
        assert count() == 0

    run(test)


def test_payloads_stay_until_their_message_is_deleted(run: Run, count: Count) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        await client.send_message("orders", LARGE)
        handle = "none"
        for _ in range(2):
            (message,) = await client.receive_message("orders", wait_time_seconds=20)
            handle = message.receipt_handle
            await client.change_message_visibility("orders", handle, 0)
        assert count() == 1
        failed = await client.delete_message_batch("orders", [f"{handle[:-8]}AAAAAAAA"])
        assert len(failed.failed) == 1
        assert count() == 1

    run(test)


def test_producers_and_buffered_receivers_need_no_setting_of_their_own(run: Run, count: Count) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            await asyncio.gather(producer.send({"text": LARGE}), producer.send("small"))
        assert count() == 1
        async with BufferedReceiver(client, "orders") as receiver:
            messages = [await receiver.receive(), await receiver.receive()]
            for message in messages:
                await client.delete_message("orders", message.receipt_handle)
        assert sorted(len(message.body) for message in messages) == [5, len(LARGE) + len('{"text":""}')]
        assert count() == 0

    run(test)


def test_consumers_handle_large_messages_and_keep_dead_letters(run: Run, count: Count) -> None:
    async def test(client: Client) -> None:
        dead = await client.create_queue("dead")
        arn = (await client.get_queue_attributes(dead, ["QueueArn"]))["QueueArn"]
        await client.create_queue(
            "orders", {"RedrivePolicy": {"deadLetterTargetArn": arn, "maxReceiveCount": 9}}
        )
        lengths: list[int] = []

        async def handle(body: str) -> None:
            lengths.append(len(body))
            if body.startswith("bad"):
                raise GiveUp("bad")

        await client.send_message_batch("orders", [LARGE, f"bad{LARGE}"])
        assert count() == 2
        consumer = Consumer(client, "orders", handle)
        running = asyncio.create_task(consumer.run())
        (letter,) = await client.receive_message(dead, wait_time_seconds=20)
        await consumer.stop()
        await running
        assert letter.body == f"bad{LARGE}"
        assert sorted(lengths) == [len(LARGE), len(LARGE) + 3]
        assert count() == 1
        await client.delete_message(dead, letter.receipt_handle)
        assert count() == 0

    run(test)


def test_payloads_can_be_kept(settings: dict[str, Any], store: PayloadStore, count: Count) -> None:
    settings["large_payloads"] = LargePayloads(store, threshold_bytes=10, delete_payloads=False)
    with SyncClient(**settings) as client:
        client.create_queue("orders")
        client.send_message("orders", "eleven bytes")
        (message,) = client.receive_message("orders", wait_time_seconds=20)
        client.delete_message("orders", message.receipt_handle)
        assert count() == 1


def test_a_message_whose_payload_is_gone_becomes_a_dead_letter(run: Run, tmp_path: Path, s3: FakeS3) -> None:
    def lose_payloads() -> None:
        s3.objects.clear()
        for file in tmp_path.iterdir():
            file.unlink()

    async def test(client: Client) -> None:
        dead = await client.create_queue("dead")
        arn = (await client.get_queue_attributes(dead, ["QueueArn"]))["QueueArn"]
        redrive = {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
        await client.create_queue("orders", {"RedrivePolicy": redrive, "VisibilityTimeout": 0})
        await client.send_message("orders", LARGE)
        lose_payloads()
        await client.send_message("orders", "small")
        bodies: list[str] = []
        while not bodies:
            bodies = [
                message.body for message in await client.receive_message("orders", max_number_of_messages=10)
            ]
        assert bodies == ["small"]
        letters = 0
        while not letters:
            await client.receive_message("orders")
            letters = int((await client.get_queue_attributes(dead))["ApproximateNumberOfMessages"])

    run(test)


KILLED_SENDER = """
import sys
from penstock.client import DirectoryStore, LargePayloads, SigningKeys, SyncClient

large = LargePayloads(DirectoryStore(sys.argv[3]))
keys = SigningKeys(sys.argv[2], "any")
with SyncClient(endpoint_url=sys.argv[1], region="us-east-1", credentials=keys, large_payloads=large) as client:
    while True:
        print(client.send_message("orders", "x" * 2_000_000).message_id, flush=True)
"""


def test_what_a_killed_sender_was_told_can_be_read(settings: dict[str, Any], tmp_path: Path) -> None:
    settings["large_payloads"] = LargePayloads(DirectoryStore(tmp_path))
    with SyncClient(**settings) as client:
        client.create_queue("orders")
        confirmed = set(said_before_kill(5, KILLED_SENDER, settings, str(tmp_path)))
        arrived: set[str] = set()
        while not confirmed <= arrived:
            messages = client.receive_message("orders", max_number_of_messages=10, wait_time_seconds=5)
            assert messages, f"{len(confirmed - arrived)} messages are missing"
            assert {len(message.body) for message in messages} == {2_000_000}
            arrived |= {message.message_id for message in messages}
