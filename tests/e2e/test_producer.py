"""Producers and buffered receivers on a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.process import ServerProcess
from penstock.client import (
    ApiError,
    BufferedReceiver,
    Client,
    JsonCodec,
    Message,
    Producer,
    SigningKeys,
    SyncClient,
    SyncProducer,
)

Test = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.fixture
def run(server: ServerProcess, account: str) -> Callable[[Test], None]:
    """Run a test with a client, within a time that no test needs."""

    async def limited(test: Test) -> None:
        async with asyncio.timeout(120), Client(**reach(server, account)) as client:
            await test(client)

    return lambda test: asyncio.run(limited(test))


def reach(server: ServerProcess, account: str) -> dict[str, Any]:
    keys = SigningKeys(account, "any")
    return {"endpoint_url": server.url, "region": "us-east-1", "credentials": keys}


async def received(client: Client, queue: str, count: int) -> list[Message]:
    """So many messages of a queue, deleted."""
    messages: list[Message] = []
    while len(messages) < count:
        batch = await client.receive_message(
            queue, max_number_of_messages=10, wait_time_seconds=20, message_attribute_names=["All"],
            message_system_attribute_names=["All"],
        )  # fmt: skip
        await client.delete_message_batch(queue, [message.receipt_handle for message in batch])
        messages += batch
    return messages


def test_values_arrive_once_each(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        codec = JsonCodec(type_attribute="Type")
        async with Producer(client, "orders", codec=codec) as producer:
            sent = await asyncio.gather(
                *(
                    producer.send({"number": number}, message_attributes={"n": number})
                    for number in range(500)
                )
            )
        arrived = await received(client, "orders", 500)
        assert {message.message_id for message in arrived} == {one.message_id for one in sent}
        for message in arrived:
            value = codec.decode(message.body, dict)
            assert message.message_attributes["n"].value == value["number"]
            assert message.message_attributes["Type"].value == "dict"

    run(test)


def test_batches_stay_below_the_limit_of_bytes(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            body = "é" * 150_000
            await asyncio.gather(*(producer.send(body, message_attributes={"n": 1}) for _ in range(20)))
            await producer.send("x" * 1_048_576)
            with pytest.raises(ApiError, match="longer than 1048576 bytes"):
                await producer.send("x" * 1_048_577)
        assert len(await received(client, "orders", 21)) == 21

    run(test)


def test_an_invalid_message_among_others_fails_alone(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            bodies = ["a", "b\x00", "c", "", "d"]
            sent = await asyncio.gather(*map(producer.send, bodies), return_exceptions=True)
        failed = [body for body, one in zip(bodies, sent, strict=True) if isinstance(one, ApiError)]
        assert failed == ["b\x00", ""]
        assert sorted(message.body for message in await received(client, "orders", 3)) == ["a", "c", "d"]

    run(test)


@pytest.mark.parametrize("batch_groups", [False, True])
def test_groups_keep_their_order(run: Callable[[Test], None], batch_groups: bool) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue(
            "orders.fifo", {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        )
        async with Producer(client, queue, batch_groups=batch_groups) as producer:
            for number in range(40):
                for group in "abc":
                    await producer.submit(f"{group}{number:02}", message_group_id=group)
        arrived = [message.body for message in await received(client, queue, 120)]
        for group in "abc":
            of_group = [body for body in arrived if body.startswith(group)]
            assert of_group == [f"{group}{number:02}" for number in range(40)]

    run(test)


def test_a_missing_queue_is_told_to_all_senders(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        async with Producer(client, "nothing") as producer:
            sent = await asyncio.gather(*(producer.send("tea") for _ in range(3)), return_exceptions=True)
        assert [type(one).__name__ for one in sent] == ["QueueDoesNotExist"] * 3

    run(test)


def test_the_trace_arrives(run: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")

    async def test(client: Client) -> None:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            await producer.send("tea")
        (message,) = await received(client, "orders", 1)
        trace = message.attributes["AWSTraceHeader"]
        assert trace == "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"

    run(test)


def test_a_blocking_producer(server: ServerProcess, account: str) -> None:
    with SyncClient(**reach(server, account)) as client:
        client.create_queue("orders")
        with SyncProducer(client, "orders") as producer:
            outcomes = [producer.submit({"number": number}) for number in range(100)]
            sent = {outcome.result(60).message_id for outcome in outcomes}
        arrived: set[str] = set()
        while len(arrived) < 100:
            messages = client.receive_message("orders", max_number_of_messages=10, wait_time_seconds=20)
            arrived |= {message.message_id for message in messages}
    assert arrived == sent


# -- a server that restarts, a producer that is killed -------------------------------------------------------


def test_messages_wait_for_a_server_that_restarts(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))

    async def test(server: ServerProcess) -> None:
        async with Client(**reach(server, "any")) as client:
            queue = await client.create_queue("orders.fifo", {"FifoQueue": "true"})
            async with Producer(client, queue) as producer:
                await producer.send("0", message_group_id="g", message_deduplication_id="0")
                server.kill()
                sending = [
                    asyncio.create_task(
                        producer.send(str(number), message_group_id="g", message_deduplication_id=str(number))
                    )
                    for number in range(1, 5)
                ]
                await asyncio.sleep(0)
                with await asyncio.to_thread(ServerProcess, *data, "--port", str(server.port)):
                    await asyncio.gather(*sending)
                    assert [m.body for m in await received(client, queue, 5)] == ["0", "1", "2", "3", "4"]

    with ServerProcess(*data) as server:
        asyncio.run(asyncio.wait_for(test(server), 120))


KILLED_PRODUCER = """
import asyncio, itertools, sys
from penstock.client import Client, Producer, SigningKeys

async def main(url):
    async with Client(endpoint_url=url, region="us-east-1", credentials=SigningKeys(sys.argv[2], "any")) as client:
        async with Producer(client, "orders") as producer:
            async def send(number):
                await producer.send(str(number))
                print(number, flush=True)
            for number in itertools.count():
                asyncio.create_task(send(number))
                if number % 50 == 0:
                    await asyncio.sleep(0.001)

asyncio.run(main(sys.argv[1]))
"""


def test_what_a_killed_producer_was_told_is_in_the_queue(server: ServerProcess, account: str) -> None:
    with SyncClient(**reach(server, account)) as client:
        client.create_queue("orders")
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_PRODUCER, server.url, account], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        told = {process.stdout.readline().strip() for _ in range(500)}
        process.kill()
        told |= {line.strip() for line in process.stdout if line.endswith("\n")}
        process.wait(30)
        process.stdout.close()
        arrived: set[str] = set()
        while not told <= arrived:
            batch = client.receive_message("orders", max_number_of_messages=10, wait_time_seconds=5)
            assert batch, f"{len(told - arrived)} messages are missing"
            arrived |= {message.body for message in batch}


# -- buffered receives ---------------------------------------------------------------------------------------


@asynccontextmanager
async def filled(client: Client, bodies: str, **attributes: str) -> AsyncIterator[str]:
    """A queue with these messages, one letter each."""
    queue = await client.create_queue("orders", attributes)
    await client.send_message_batch(queue, list(bodies))
    yield queue


def test_messages_are_received_ahead_and_in_time(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        async with filled(client, "abcdefghij") as queue, BufferedReceiver(client, queue) as receiver:
            bodies = []
            async for message in receiver:
                bodies.append(message.body)
                await client.delete_message(queue, message.receipt_handle)
                if len(bodies) == 10:
                    break
        assert sorted(bodies) == list("abcdefghij")

    run(test)


def test_a_message_is_waited_for(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders")
        async with BufferedReceiver(client, queue) as receiver:
            waiting = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            await client.send_message(queue, "tea")
            assert (await waiting).body == "tea"

    run(test)


def test_no_more_than_allowed_is_received_and_the_rest_goes_back(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        async with filled(client, "abcdefghij", VisibilityTimeout="600") as queue:
            async with BufferedReceiver(client, queue, messages_max=4) as receiver:
                first = await receiver.receive()
                hidden = 0
                while hidden < 5:  # the one that was handed out, and four ahead
                    attributes = await client.get_queue_attributes(queue)
                    hidden = int(attributes["ApproximateNumberOfMessagesNotVisible"])
                    assert hidden <= 5
            rest = await received(client, queue, 9)
        assert sorted([first.body, *(message.body for message in rest)]) == list("abcdefghij")

    run(test)


def test_what_waits_too_long_goes_back_and_is_received_again(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        async with filled(client, "a") as queue:
            async with BufferedReceiver(client, queue, visibility_timeout=600, left_s_min=599.5) as receiver:
                for _ in range(20):
                    await asyncio.sleep(0.1)
                message = await receiver.receive()
            assert message.receive_count > 1

    run(test)


def test_a_queue_that_cannot_be_received_from_is_an_error(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders")
        async with BufferedReceiver(client, queue) as receiver:
            waiting = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            await client.delete_queue(queue)
            with pytest.raises(ApiError, match="NonExistentQueue"):
                await waiting

    run(test)


def test_too_little_time_is_refused(run: Callable[[Test], None]) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders", {"VisibilityTimeout": "30"})
        with pytest.raises(ValueError, match="less than the visibility timeout, which is 30 seconds"):
            await BufferedReceiver(client, queue, left_s_min=30).__aenter__()

    run(test)
