"""What a server answers from the moment at which it listens, until it has opened its store and after that."""

from __future__ import annotations

from penstock.errors import StoreError
from penstock.promise import start
from penstock.server.compose import Parts
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from support.composed import Server
from support.harness import get, post, run, until


def test_services_and_metrics_are_refused_until_the_store_is_open() -> None:
    async def test() -> None:
        failures: list[StoreError] = []
        config = Config(memory=True, metrics_listen=Address("127.0.0.1", 0))
        parts = Parts(config, failures.append)
        server = Server(parts, await parts.listener.listen("127.0.0.1", 0, None))
        opened = await parts.open_metrics_port()
        assert opened is not None
        metrics = Server(parts, opened.port)

        async def statuses() -> list[int]:
            asked = (post("AmazonSQS.ListQueues"), get("/health/live"), get("/metrics"))
            own_port = (get("/metrics"), get("/health/live"), get("/elsewhere"))
            answers = [await server.ask(each) for each in asked] + [
                await metrics.ask(each) for each in own_port
            ]
            return [answer.status for answer in answers]

        assert await statuses() == [503, 200, 503, 503, 200, 404]
        loading = start(parts.load())
        await until(lambda: loading.done)
        loading.result()
        assert await statuses() == [200, 200, 200, 200, 200, 404]
        parts.wind_down()
        await parts.listener.close(0)
        await server.unload()
        parts.close()
        assert not failures

    run(test)
