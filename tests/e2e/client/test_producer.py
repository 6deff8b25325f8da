"""Producers on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from e2e.client.conftest import Run, reach, received, said_before_kill
from penstock.client import ApiError, Client, JsonCodec, Producer, SyncClient, SyncProducer
from support.process import ServerProcess


def test_values_arrive_once_each(run: Run) -> None:
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


def test_batches_stay_below_the_limit_of_bytes(run: Run) -> None:
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


def test_an_invalid_message_among_others_fails_alone(run: Run) -> None:
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
def test_groups_keep_their_order(run: Run, batch_groups: bool) -> None:
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


def test_a_missing_queue_is_told_to_all_senders(run: Run) -> None:
    async def test(client: Client) -> None:
        async with Producer(client, "nothing") as producer:
            sent = await asyncio.gather(*(producer.send("tea") for _ in range(3)), return_exceptions=True)
        assert [type(one).__name__ for one in sent] == ["QueueDoesNotExist"] * 3

    run(test)


def test_the_trace_arrives(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")

    async def test(client: Client) -> None:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            await producer.send("tea")
        (message,) = await received(client, "orders", 1)
        trace = message.attributes["AWSTraceHeader"]
        assert trace == "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"

    run(test)


def test_a_blocking_producer(settings: dict[str, Any]) -> None:
    with SyncClient(**settings) as client:
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


def test_what_a_killed_producer_was_told_is_in_the_queue(settings: dict[str, Any]) -> None:
    with SyncClient(**settings) as client:
        client.create_queue("orders")
        confirmed = set(said_before_kill(500, KILLED_PRODUCER, settings))
        arrived: set[str] = set()
        while not confirmed <= arrived:
            batch = client.receive_message("orders", max_number_of_messages=10, wait_time_seconds=5)
            assert batch, f"{len(confirmed - arrived)} messages are missing"
            arrived |= {message.body for message in batch}
