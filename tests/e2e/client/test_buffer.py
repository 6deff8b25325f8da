"""Buffered receivers on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.client.conftest import Run, received, said_before_kill
from penstock.client import ApiError, BufferedReceiver, Client


@asynccontextmanager
async def filled(client: Client, bodies: str, **attributes: str) -> AsyncIterator[str]:
    """A queue with these messages, one letter each."""
    queue = await client.create_queue("orders", attributes)
    await client.send_message_batch(queue, list(bodies))
    yield queue


def test_messages_are_received_ahead_and_in_time(run: Run) -> None:
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


def test_a_message_is_waited_for(run: Run) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders")
        async with BufferedReceiver(client, queue) as receiver:
            waiting = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            await client.send_message(queue, "tea")
            assert (await waiting).body == "tea"

    run(test)


def test_no_more_than_allowed_is_received_and_the_rest_goes_back(run: Run) -> None:
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


def test_what_waits_too_long_goes_back_and_is_received_again(run: Run) -> None:
    async def test(client: Client) -> None:
        async with filled(client, "a") as queue:
            async with BufferedReceiver(client, queue, visibility_timeout=600, left_s_min=599.5) as receiver:
                for _ in range(20):
                    await asyncio.sleep(0.1)
                message = await receiver.receive()
            assert message.receive_count > 1

    run(test)


def test_a_queue_that_cannot_be_received_from_is_an_error(run: Run) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders")
        async with BufferedReceiver(client, queue) as receiver:
            waiting = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            await client.delete_queue(queue)
            with pytest.raises(ApiError, match="NonExistentQueue"):
                await waiting

    run(test)


def test_wrong_use_is_refused(run: Run) -> None:
    async def test(client: Client) -> None:
        queue = await client.create_queue("orders", {"VisibilityTimeout": "30"})
        with pytest.raises(ValueError, match=r"visibility timeout.* 30 seconds"):
            await BufferedReceiver(client, queue, left_s_min=30).__aenter__()
        with pytest.raises(ValueError, match="messages_max=0"):
            BufferedReceiver(client, queue, messages_max=0)
        with pytest.raises(RuntimeError, match="context manager"):
            await BufferedReceiver(client, queue).receive()

    run(test)


KILLED_RECEIVER = """
import asyncio, sys
from penstock.client import BufferedReceiver, Client, SigningKeys

async def main(url, account):
    async with Client(endpoint_url=url, region="us-east-1", credentials=SigningKeys(account, "any")) as client:
        async with BufferedReceiver(client, "orders") as receiver:
            print((await receiver.receive()).body, flush=True)
            await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""


def test_what_a_killed_receiver_had_is_received_again(run: Run, settings: dict[str, Any]) -> None:
    async def test(client: Client) -> None:
        async with filled(client, "abcdefghij", VisibilityTimeout="2") as queue:
            await asyncio.to_thread(said_before_kill, 1, KILLED_RECEIVER, settings)
            arrived = await received(client, queue, 10)
        assert sorted(message.body for message in arrived) == list("abcdefghij")

    run(test)
