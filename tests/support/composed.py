"""A whole server on a loopback port, composed from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.errors import StoreError
from penstock.promise import start
from penstock.server.compose import EarlyParts, Parts
from penstock.server.settings.config import Config
from support.harness import Client, Received, until


class Port:
    """A port of a server, with its number."""

    def __init__(self, number: int) -> None:
        self._port = number

    async def ask(self, request: bytes) -> Received:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        client.send(request)
        response = await client.response()
        client.close()
        return response


class Server(Port):
    def __init__(self, parts: Parts, port: int) -> None:
        super().__init__(port)
        self.parts = parts

    async def list_queues(self, headers: dict[str, str]) -> int:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["POST / HTTP/1.1", *lines, "Content-Length: 2", "", "{}"])
        return (await self.ask(head.encode())).status

    async def unload(self) -> None:
        await finished(self.parts.unload())

    def close(self) -> None:
        self.parts.close()
        self.parts.early.close()

    async def stop(self) -> None:
        self.parts.wind_down()
        await self.parts.listener.close(0)
        await self.unload()
        self.close()


async def finished(coroutine: Any) -> Any:
    """Runs a step of a server that may await its promises."""
    promise = start(coroutine)
    await until(lambda: promise.done)
    return promise.result()


async def loaded(config: Config) -> Server:
    failures: list[StoreError] = []
    early = EarlyParts(config)
    port = await early.listener.listen("127.0.0.1", 0, None)
    try:
        server = Server(await finished(Parts.open(early, failures.append)), port)
        try:
            await finished(server.parts.load())
        except BaseException:
            await server.unload()
            server.parts.close()
            raise
    except BaseException:
        early.close()
        await early.listener.close(0)
        raise
    return server


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Server]:
    server = await loaded(config)
    try:
        yield server
    finally:
        await server.stop()
