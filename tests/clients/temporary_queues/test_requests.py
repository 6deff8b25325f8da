"""Requests and responses between AWS's temporary queue client for Java and ours, both ways."""

from __future__ import annotations

import asyncio

from clients.java_tools import java
from penstock.client import Client, Consumer, RequestSender, Responder, SigningKeys


def client(reach: dict[str, str]) -> Client:
    keys = SigningKeys(reach["aws_access_key_id"], "any")
    return Client(endpoint_url=reach["endpoint_url"], region="us-east-1", credentials=keys)


def test_they_answer_our_request(reach: dict[str, str]) -> None:
    async def test() -> None:
        async with client(reach) as ours, RequestSender(ours) as requests:
            queue = await ours.create_queue("orders")
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(java, "TemporaryQueues", "respond", queue, reach=reach))
                response = await requests.request(queue, "one espresso", expected=str, timeout_s=100)
            assert response == "one espresso!"

    asyncio.run(test())


def test_we_answer_their_request(reach: dict[str, str]) -> None:
    async def test() -> None:
        async with client(reach) as ours:
            queue = await ours.create_queue("orders")

            async def handle(body: str) -> str:
                return f"{body}!"

            consumer = Consumer(ours, queue, handle, middleware=[Responder(ours)])
            consuming = asyncio.create_task(consumer.run())
            said = await asyncio.to_thread(
                java, "TemporaryQueues", "request", queue, "one espresso", reach=reach
            )
            assert said == "one espresso!\n"
            await consumer.stop()
            await consuming

    asyncio.run(test())
