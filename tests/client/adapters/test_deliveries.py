"""What adapters are built on: messages that others settle, long delays, queues that are created, missing packages."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable

import pytest

from penstock.client import Client, SyncClient
from penstock.client.adapters import needs
from penstock.client.adapters.deliveries import Deliveries, Delivery
from penstock.client.adapters.queues import delay_options, ensure_queue
from support.process import ServerProcess

SOON_S = 60


class Held:
    """The deliveries of a queue, as a framework would take them."""

    def __init__(self, client: Client, queue: str) -> None:
        self.received: asyncio.Queue[Delivery | BaseException] = asyncio.Queue()
        self.deliveries = Deliveries(client, queue, self.received.put_nowait, held_max=5)
        self.deliveries.start(self.received.put_nowait)

    async def next(self) -> Delivery:
        async with asyncio.timeout(SOON_S):
            found = await self.received.get()
        assert isinstance(found, Delivery), found
        return found


async def counts(client: Client, queue: str) -> tuple[int, int]:
    """Visible, in flight."""
    shown = await client.get_queue_attributes(queue)
    return int(shown["ApproximateNumberOfMessages"]), int(shown["ApproximateNumberOfMessagesNotVisible"])


async def wait_for(client: Client, queue: str, expected: tuple[int, int]) -> None:
    async with asyncio.timeout(SOON_S):
        while await counts(client, queue) != expected:  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.02)


def with_queue(server: ServerProcess, name: str) -> str:
    with SyncClient(endpoint_url=server.url) as client:
        return ensure_queue(client, name)


@pytest.mark.parametrize(
    ("settle", "left", "dead"),
    [
        (Delivery.done, (0, 0), (0, 0)),
        (lambda delivery: delivery.give_up("useless"), (0, 0), (1, 0)),
    ],
    ids=["done", "given up"],
)
def test_a_delivery_is_hidden_until_it_is_settled(
    server: ServerProcess, settle: Callable[[Delivery], None], left: tuple[int, int], dead: tuple[int, int]
) -> None:
    queue = with_queue(server, f"settled-{dead[0]}")

    async def main() -> None:
        async with Client(endpoint_url=server.url) as client:
            held = Held(client, queue)
            await client.send_message(queue, "x")
            delivery = await held.next()
            assert await counts(client, queue) == (0, 1)
            await asyncio.to_thread(settle, delivery)
            delivery.give_back()  # the first call counts
            await wait_for(client, queue, left)
            assert await counts(client, f"{queue}-dead-letters") == dead
            await held.deliveries.close()

    asyncio.run(main())


def test_a_close_gives_back_what_is_not_settled(server: ServerProcess) -> None:
    queue = with_queue(server, "closed")

    async def main() -> None:
        async with Client(endpoint_url=server.url) as client:
            held = Held(client, queue)
            for body in "abc":
                await client.send_message(queue, body)
            first, _, _ = [await held.next() for _ in range(3)]
            held.deliveries.stop_receiving()
            await client.send_message(queue, "d")
            first.done()
            await wait_for(client, queue, (1, 2))
            await held.deliveries.close()
            assert await counts(client, queue) == (3, 0)
            assert held.received.empty()

    asyncio.run(main())


def test_what_is_settled_after_a_close_is_said(server: ServerProcess) -> None:
    queue = with_queue(server, "late")

    async def main() -> tuple[Delivery, Delivery]:
        async with Client(endpoint_url=server.url) as client:
            held = Held(client, queue)
            for body in "ab":
                await client.send_message(queue, body)
            first, second = await held.next(), await held.next()
            await held.deliveries.close()
            assert not first.done(), "the loop runs, but it was given back"
            return Delivery(second.message), second

    for delivery in asyncio.run(main()):
        assert not delivery.done() and not delivery.give_up("late"), "the loop is closed"


def test_a_queue_that_does_not_exist_is_reported(server: ServerProcess) -> None:
    async def main() -> None:
        async with Client(endpoint_url=server.url) as client:
            held = Held(client, "no-such-queue")
            async with asyncio.timeout(SOON_S):
                found = await held.received.get()
            assert 'no queue "no-such-queue"' in str(found)
            await held.deliveries.close()

    asyncio.run(main())


def test_a_message_that_is_not_due_is_delayed_again(server: ServerProcess) -> None:
    queue = with_queue(server, "delayed")

    async def main() -> None:
        async with Client(endpoint_url=server.url) as client:
            held = Held(client, queue)
            due = time.time() + 2
            # As after the first 15 minutes of a long delay.
            await client.send_message(
                queue, "later", message_attributes={"PenstockDueAt": due, "kind": "tea", "bytes": b"\x00"}
            )
            delivery = await held.next()
            assert time.time() >= due
            assert delivery.message.body == "later"
            attributes = delivery.message.message_attributes
            assert attributes["kind"].value == "tea"
            assert attributes["bytes"].value == b"\x00"
            delivery.done()
            await held.deliveries.close()
            assert await counts(client, queue) == (0, 0)

    asyncio.run(main())


def test_delays_of_any_length() -> None:
    assert delay_options(0) == {"message_attributes": None}
    assert delay_options(-1, {"a": 1}) == {"message_attributes": {"a": 1}}
    assert delay_options(0.2) == {"message_attributes": None, "delay_seconds": 1}
    assert delay_options(900) == {"message_attributes": None, "delay_seconds": 900}
    long = delay_options(3600.5, {"a": 1}, now=1000.0)
    assert long == {"message_attributes": {"a": 1, "PenstockDueAt": 4600.5}, "delay_seconds": 900}
    with pytest.raises(ValueError, match="delay"):
        delay_options(math.nan)


def test_a_queue_is_created_once_and_never_changed(server: ServerProcess) -> None:
    with SyncClient(endpoint_url=server.url) as client:
        queue = ensure_queue(client, "created")
        policy = json.loads(client.get_queue_attributes(queue)["RedrivePolicy"])
        assert policy["deadLetterTargetArn"].endswith(":created-dead-letters")
        client.set_queue_attributes(queue, {"VisibilityTimeout": 7})
        assert ensure_queue(client, "created") == queue
        assert client.get_queue_attributes(queue)["VisibilityTimeout"] == "7"


def test_a_missing_framework_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"pip install 'penstock-mq\[dramatiq\]'"), needs("dramatiq"):
        import no_such_framework  # type: ignore[import-not-found]  # noqa: F401
