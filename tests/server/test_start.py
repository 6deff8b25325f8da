"""What a server answers from the moment at which it listens, until it has opened its store and after that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cluster.links import SECRET
from cluster.servers import FixedOwners
from penstock.errors import PenstockError, StoreError
from penstock.server.cluster import ClusterPlace
from penstock.server.compose import EarlyParts, Parts
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from support.composed import Port, Server, finished
from support.harness import get, post, run


def test_services_metrics_and_console_are_refused_until_the_store_is_open() -> None:
    async def test() -> None:
        failures: list[StoreError] = []
        config = Config(memory=True, metrics_listen=Address("127.0.0.1", 0))
        early = EarlyParts(config)
        server = Port(await early.listener.listen("127.0.0.1", 0, None))
        opened = await early.open_metrics_port()
        assert opened is not None
        metrics = Port(opened.port)

        async def statuses() -> list[int]:
            asked = (post("AmazonSQS.ListQueues"), get("/health/live"), get("/metrics"), get("/console/"))
            own_port = (get("/metrics"), get("/health/live"), get("/elsewhere"))
            answers = [await server.ask(each) for each in asked] + [
                await metrics.ask(each) for each in own_port
            ]
            return [answer.status for answer in answers]

        assert await statuses() == [503, 200, 503, 503, 503, 200, 404]
        parts = await finished(Parts.open(early, failures.append))
        assert await statuses() == [503, 200, 200, 200, 200, 200, 404]
        await finished(parts.load())
        assert await statuses() == [200, 200, 200, 200, 200, 200, 404]
        await Server(parts, 0).stop()
        assert not failures

    run(test)


def test_a_start_that_cannot_listen_for_other_processes_leaves_no_thread() -> None:
    async def test() -> None:
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        address = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
        early = EarlyParts(Config(memory=True), ClusterPlace(address, FixedOwners([address]), SECRET))
        before = set(threading.enumerate())
        with pytest.raises(PenstockError, match="cannot listen"):
            await finished(Parts.open(early, lambda error: None))
        started = set(threading.enumerate()) - before
        early.close()
        taken.close()
        assert [each.name for each in started if each.name.startswith("penstock")] == []

    run(test)
