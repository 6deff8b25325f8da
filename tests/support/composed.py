"""A whole server on a loopback port, composed from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.errors import StoreError
from penstock.promise import start
from penstock.server.compose import Parts
from penstock.server.settings.config import Config
from support.harness import Client, Received, until


class Server:
    def __init__(self, parts: Parts, port: int) -> None:
        self.parts = parts
        self._port = port

    async def ask(self, request: bytes) -> Received:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        client.send(request)
        response = await client.response()
        client.close()
        return response

    async def list_queues(self, headers: dict[str, str]) -> int:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["POST / HTTP/1.1", *lines, "Content-Length: 2", "", "{}"])
        return (await self.ask(head.encode())).status

    async def unload(self) -> None:
        later = start(self.parts.unload())
        await until(lambda: later.done)
        later.result()


async def loaded(config: Config) -> Server:
    failures: list[StoreError] = []
    parts = Parts(config, failures.append)
    port = await parts.listener.listen("127.0.0.1", 0, None)
    later = start(parts.load())
    await until(lambda: later.done)
    try:
        later.result()
    except BaseException:
        if hasattr(parts, "broker"):  # the store was opened
            await Server(parts, port).unload()
        parts.close()
        await parts.listener.close(0)
        raise
    return Server(parts, port)


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Server]:
    server = await loaded(config)
    try:
        yield server
    finally:
        server.parts.wind_down()
        await server.parts.listener.close(0)
        await server.unload()
        server.parts.close()
