"""Requests and responses on a real server, also when one of both is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from e2e.client.conftest import Run, said_before_kill
from penstock.client import (
    Client,
    Consumer,
    DecodeError,
    GiveUp,
    QueueDoesNotExist,
    RequestRefused,
    RequestSender,
    Responder,
    Unavailable,
)
from penstock.client.reply_queues import QUEUE_PREFIX, delete_abandoned


class Order(msgspec.Struct):
    drink: str
    count: int = 1


class Receipt(msgspec.Struct):
    cents: int


async def price(order: Order) -> Receipt:
    if order.drink == "beer":
        raise GiveUp("no beer here")
    return Receipt(250 * order.count)


@asynccontextmanager
async def answered(client: Client, handler: Callable[..., Any] = price) -> AsyncIterator[str]:
    """A queue whose messages are answered."""
    await client.create_queue("orders")
    consumer = Consumer(client, "orders", handler, middleware=[Responder(client)])
    running = asyncio.create_task(consumer.run())
    try:
        yield "orders"
    finally:
        await consumer.stop(5)
        await running


async def reply_queues(client: Client) -> list[str]:
    return [url async for page in client.list_queue_pages(QUEUE_PREFIX) for url in page.queue_urls]


def test_each_request_gets_its_own_response(run: Run) -> None:
    async def test(client: Client) -> None:
        async with answered(client) as queue, RequestSender(client) as requests:
            receipts = await asyncio.gather(
                *(requests.request(queue, Order("tea", count), expected=Receipt) for count in range(100))
            )
            assert [receipt.cents for receipt in receipts] == [250 * count for count in range(100)]
            assert len(await reply_queues(client)) == 1, "all share one queue"
        assert await reply_queues(client) == []
        assert requests.late_responses == 0

    run(test)


def test_a_request_that_is_given_up_fails(run: Run) -> None:
    async def test(client: Client) -> None:
        async with answered(client) as queue, RequestSender(client) as requests:
            with pytest.raises(RequestRefused, match="no beer here"):
                await requests.request(queue, Order("beer"))
            with pytest.raises(RequestRefused, match="Order"):
                await requests.request(queue, {"drink": 1})

    run(test)


def test_a_response_of_another_form_is_an_error(run: Run) -> None:
    async def test(client: Client) -> None:
        async with answered(client) as queue, RequestSender(client) as requests:
            with pytest.raises(DecodeError, match="as Order"):
                await requests.request(queue, Order("tea"), expected=Order)

    run(test)


def test_a_response_after_the_timeout_is_dropped(run: Run) -> None:
    async def test(client: Client) -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def slow(order: Order) -> str:
            if order.drink == "coffee":
                waiting.set()
                await go_on.wait()
            return order.drink

        async with answered(client, slow) as queue, RequestSender(client) as requests:
            while not waiting.is_set():
                with pytest.raises(TimeoutError, match=r"orders.* 0\.1 seconds"):
                    await requests.request(queue, Order("coffee"), timeout_s=0.1)
            go_on.set()
            while not requests.late_responses:
                assert await requests.request(queue, Order("tea"), expected=str) == "tea"

    run(test)


def test_messages_that_are_no_requests_are_not_answered(run: Run) -> None:
    async def test(client: Client) -> None:
        async with answered(client) as queue, RequestSender(client) as requests:
            await client.send_message(queue, '{"drink": "tea"}')
            theirs = await client.create_queue("theirs")
            for url in (theirs, f"{theirs}#name", "nonsense", f"{QUEUE_PREFIX}none#name", ""):
                await client.send_message(
                    queue, '{"drink": "tea"}', message_attributes={"ResponseQueueUrl": url or "#"}
                )
            await requests.request(queue, Order("tea"))
            left = 1
            while left:
                attributes = await client.get_queue_attributes(queue)
                left = sum(
                    int(attributes[name]) for name in attributes if name.startswith("ApproximateNumber")
                )
            assert (await client.get_queue_attributes(theirs))["ApproximateNumberOfMessages"] == "0"

    run(test)


def test_wrong_use_is_refused(run: Run) -> None:
    async def test(client: Client) -> None:
        with pytest.raises(ValueError, match="1 or more seconds"):
            RequestSender(client, idle_s=0.5)
        with pytest.raises(RuntimeError, match="context manager"):
            await RequestSender(client).request("orders", "tea")

    run(test)


def test_a_missing_queue_is_an_error_of_the_request(run: Run) -> None:
    async def test(client: Client) -> None:
        async with RequestSender(client) as requests:
            with pytest.raises(QueueDoesNotExist):
                await requests.request("nothing", Order("tea"))

    run(test)


def test_a_deleted_reply_queue_fails_its_requests_and_is_replaced(run: Run) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("unanswered")
        async with answered(client) as queue, RequestSender(client) as requests:
            waiting = asyncio.create_task(requests.request("unanswered", Order("tea")))
            urls: list[str] = []
            while not urls:
                urls = await reply_queues(client)
            await asyncio.sleep(0)
            await client.delete_queue(urls[0])
            with pytest.raises(Unavailable, match=r"reply queue.*deleted"):
                await waiting
            assert await requests.request(queue, Order("tea"), expected=Receipt) == Receipt(250)

    run(test)


# -- killed processes ----------------------------------------------------------------------------------------

PROCESS = """
import asyncio, sys
from penstock.client import Client, Consumer, RequestSender, Responder, SigningKeys

async def responder(client):
    async def handle(message):
        print("has it", flush=True)
        await asyncio.sleep(3600)
    await Consumer(client, "orders", handle, middleware=[Responder(client)]).run()

async def requester(client):
    async with RequestSender(client, idle_s=1) as requests:
        sending = asyncio.create_task(requests.request("unanswered", "tea", timeout_s=3600))
        while not (await client.list_queues("__RequesterClientQueues__")).queue_urls:
            pass
        print("waits", flush=True)
        await sending

async def main(url, account, role):
    keys = SigningKeys(account, "any")
    async with Client(endpoint_url=url, region="us-east-1", credentials=keys) as client:
        await globals()[role](client)

asyncio.run(main(*sys.argv[1:]))
"""


def test_the_request_of_a_killed_responder_is_answered_by_another(run: Run, settings: dict[str, Any]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("orders", {"VisibilityTimeout": 2})
        async with RequestSender(client) as requests:
            waiting = asyncio.create_task(
                requests.request("orders", Order("tea"), expected=Receipt, timeout_s=60)
            )
            await asyncio.to_thread(said_before_kill, 1, PROCESS, settings, "responder")
            assert not waiting.done()
            consumer = Consumer(client, "orders", price, middleware=[Responder(client)])
            running = asyncio.create_task(consumer.run())
            assert await waiting == Receipt(250)
            await consumer.stop(5)
            await running

    run(test)


def test_the_queue_of_a_killed_requester_is_deleted_by_others(run: Run, settings: dict[str, Any]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("unanswered")
        await asyncio.to_thread(said_before_kill, 1, PROCESS, settings, "requester")
        (left,) = await reply_queues(client)
        async with answered(client) as queue, RequestSender(client, idle_s=1) as requests:
            await requests.request(queue, Order("tea"))
            urls = [left]
            while left in urls:
                urls = await reply_queues(client)
            assert len(urls) == 1, "that of a living process stays"
            assert await requests.request(queue, Order("tea"), expected=Receipt) == Receipt(250)

    run(test)


def test_abandoned_queues_can_be_deleted_from_outside(run: Run, settings: dict[str, Any]) -> None:
    async def test(client: Client) -> None:
        await client.create_queue("unanswered")
        await client.create_queue(f"{QUEUE_PREFIX}not-ours")
        await asyncio.to_thread(said_before_kill, 1, PROCESS, settings, "requester")
        deleted = 0
        while not deleted:
            deleted = await delete_abandoned(client)
        assert deleted == 1
        assert len(await reply_queues(client)) == 1

    run(test)
