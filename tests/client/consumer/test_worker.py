"""An application of handlers: what it declares, starts and stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.consumer.fake_queue import NO_ANSWER, FakeQueue, run
from penstock.client import Idempotency, MemoryKeys
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.receiving import CannotStart
from penstock.client.consumer.retry import Constant, RetryPolicy
from penstock.client.consumer.worker import Worker
from penstock.client.errors import api_error
from support.rows import every_row


class Served(FakeQueue):
    """It serves several queues by their names, as one."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_closed = True


def test_a_handler_stays_a_function() -> None:
    app = Worker(concurrency=3, wait_time_seconds=5)

    @app.handler("orders", concurrency=7)
    def order(body: str) -> str:
        return body.upper()

    assert order("x") == "X"
    assert app.handlers["orders"].settings.concurrency == 7
    assert app.handlers["orders"].settings.wait_time_seconds == 5, "of all handlers"


@every_row(
    ("settings", "problem"),
    [
        ({"concurrency": 0}, "value 0 for concurrency.*1 or more"),
        ({"prefetch": -1}, "for prefetch"),
        ({"visibility_timeout": 0}, "for visibility_timeout: expected 1 to 43200, or None"),
        ({"processing_s_max": 0}, "for processing_s_max"),
        ({"batch_size": 0}, "for batch_size"),
        ({"batch_wait_s": -1}, "for batch_wait_s"),
        ({"wait_time_seconds": 21}, "wait_time_seconds.* 0 to 20"),
        ({"wait_time_seconds": 0}, "poll_interval_s.* more than 0.*wait_time_seconds"),
        ({"poll_interval_s": -1}, "for poll_interval_s"),
        ({"batch_size": 2, "idempotency": Idempotency(MemoryKeys())}, "handlers of single messages"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Worker().handler("orders", **settings)


def test_an_unknown_setting() -> None:
    with pytest.raises(TypeError, match="concurency"):
        Worker().handler("orders", concurency=3)
    with pytest.raises(TypeError, match="concurency"):
        Worker(concurency=3)


def test_one_handler_for_each_queue() -> None:
    app = Worker()
    app.handler("orders")(print)
    with pytest.raises(ValueError, match=r'"orders".*handler.*print'):
        app.handler("orders")


def test_it_runs_hooks_and_handlers_until_it_is_stopped() -> None:
    async def story() -> None:
        queue, happened = Served(), list[str]()
        app = Worker(client=queue, name="w7")

        @app.on_start
        async def start() -> None:
            happened.append("start")

        @app.on_stop
        def stop() -> None:
            happened.append("stop")

        @app.handler("orders")
        async def order(body: str, context: MessageContext) -> None:
            assert app.client is queue
            happened.append(f"{body} by {context.worker}")

        queue.put("x")
        serving = asyncio.create_task(app.serve())
        await queue.empty()
        await app.stop()
        await serving
        assert happened == ["start", "x by w7", "stop"] and queue.is_closed
        with pytest.raises(RuntimeError, match="does not run"):
            _ = app.client

    run(story())


def test_middleware_that_needs_the_client_is_added_at_the_start() -> None:
    async def story() -> None:
        queue, order = Served(), list[str]()
        app = Worker(client=queue)

        @app.on_start
        def start() -> None:
            client = app.client

            async def late(context: MessageContext, call_next: Any) -> Any:
                order.append(f"with a client: {client is queue}")
                return await call_next()

            app.use(late)

        @app.handler("orders")
        async def handle(body: str) -> None:
            order.append(body)

        queue.put("x")
        serving = asyncio.create_task(app.serve())
        await queue.empty()
        await app.stop()
        await serving
        assert order == ["with a client: True", "x"]

    run(story())


def test_it_works_until_the_queues_are_empty() -> None:
    async def story() -> None:
        queue, handled = Served(), list[str]()
        app = Worker(client=queue, retry=RetryPolicy(Constant(600)))

        @app.handler("orders")
        async def handle(body: str) -> None:
            handled.append(body)
            await asyncio.sleep(100)
            if body == "first":
                queue.put("second")
            if body == "failing":
                raise ValueError

        queue.put("first", "failing")
        await app.serve(until_empty=True)
        assert sorted(handled) == ["failing", "first", "second"]
        assert queue.bodies == ["failing"] and not queue.visible, "one that waits for its next attempt stays"

    run(story())


def test_a_server_in_trouble_is_not_an_empty_queue() -> None:
    async def story() -> None:
        queue, handled = Served(), list[str]()
        app = Worker(client=queue)

        @app.handler("orders")
        async def handle(body: str) -> None:
            handled.append(body)

        queue.put("x")
        queue.failing["receive_message"] = NO_ANSWER
        serving = asyncio.create_task(app.serve(until_empty=True))
        await asyncio.sleep(100)
        assert not serving.done()
        queue.failing.clear()
        await serving
        assert handled == ["x"]

    run(story())


def test_only_some_queues() -> None:
    async def story() -> None:
        queue = Served()
        app = Worker(client=queue)
        for name in ("orders", "bills", "https://sqs.us-east-1.amazonaws.com/123456789012/letters"):
            app.handler(name)(lambda message: None)
        serving = asyncio.create_task(app.serve(queues=["letters", "bills"], concurrency=2))
        await queue.until(lambda: len(app._consumers) == 2, "they run")
        assert [consumer.queue.rpartition("/")[2] for consumer in app._consumers] == ["bills", "letters"]
        assert {consumer.settings.concurrency for consumer in app._consumers} == {2}
        await app.stop()
        await serving

    run(story())


def test_what_cannot_start() -> None:
    async def story() -> None:
        app = Worker(client=Served())
        with pytest.raises(CannotStart, match="has no handlers"):
            await app.serve()
        app.handler("orders")(lambda message: None)
        with pytest.raises(CannotStart, match=r'no handler.*"order".*orders'):
            await app.serve(queues=["order"])

    run(story())


def test_one_queue_that_cannot_be_consumed_stops_the_others() -> None:
    async def story() -> None:
        queue, stopped = Served(), list[str]()
        app = Worker(client=queue)
        app.on_stop(lambda: stopped.append("stop"))
        app.handler("orders", visibility_timeout=30)(lambda message: None)
        app.handler("missing")(lambda message: None)
        queue.failing["get_queue_attributes"] = api_error("QueueDoesNotExist", "no such queue", 400, "")
        with pytest.raises(CannotStart, match='no queue "missing"'):
            await app.serve()
        assert stopped == ["stop"]

    run(story())


def test_an_annotation_that_cannot_be_read_is_found_at_the_start() -> None:
    async def story() -> None:
        app = Worker(client=Served())

        @app.handler("orders")
        def order(body: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(CannotStart, match="types in a module"):
            await app.serve()

    run(story())
