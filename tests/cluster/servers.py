"""Two whole servers in this process that share the shards between them, and boto3 clients of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config as BotoConfig

from cluster.links import SECRET
from penstock.errors import StoreError
from penstock.names import QueueName, shard_of
from penstock.server.cluster import ClusterPlace
from penstock.server.compose import EarlyParts, Parts
from penstock.server.settings.config import Config
from support.composed import Server, finished

ACCOUNT = "111122223333"
SHARDS = 4
_session = boto3.session.Session()


class FixedOwners:
    """Shards that never change hands."""

    def __init__(self, addresses: list[str]) -> None:
        """``addresses``: by shard."""
        self.shards = len(addresses)
        self._addresses = addresses

    def address_of(self, shard: int) -> str | None:
        return self._addresses[shard]

    async def refresh(self, shard: int) -> None:
        """There is nothing to find out."""


class ClusterServer(Server):
    def __init__(self, parts: Parts, port: int, number: int) -> None:
        super().__init__(parts, port)
        self.port = port
        self.number = number

    def boto3(self, key: str = ACCOUNT, secret: str = "any") -> Any:
        config = BotoConfig(retries={"total_max_attempts": 1}, read_timeout=15, max_pool_connections=32)
        return _session.client(
            "sqs", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1", config=config,
            aws_access_key_id=key, aws_secret_access_key=secret,
        )  # fmt: skip

    def queue_name(self, stem: str = "queue", suffix: str = "") -> str:
        """The name of a queue that belongs to this server."""
        names = (f"{stem}-{number}{suffix}" for number in range(100))
        return next(
            name
            for name in names
            if shard_of(QueueName(ACCOUNT, "us-east-1", name), SHARDS) % 2 == self.number
        )


@asynccontextmanager
async def two_servers(make: Callable[[int], Config]) -> AsyncIterator[tuple[ClusterServer, ClusterServer]]:
    """The first owns the even shards, the second the odd ones."""
    ports = await _free_ports(2)
    addresses = [f"127.0.0.1:{ports[shard % 2]}" for shard in range(SHARDS)]
    servers = []
    for number in range(2):
        failures: list[StoreError] = []
        place = ClusterPlace(addresses[number], FixedOwners(addresses), SECRET)
        early = EarlyParts(make(number), place)
        port = await early.listener.listen("127.0.0.1", 0, None)
        parts = await finished(Parts.open(early, failures.append))
        servers.append(ClusterServer(parts, port, number))
        for step in (partial(parts.open_shards, range(number, SHARDS, 2)), parts.declare):
            await finished(step())
    try:
        yield servers[0], servers[1]
    finally:
        for server in servers:
            server.parts.wind_down()
            await server.parts.listener.close(0)
            assert server.parts.links is not None
            await server.parts.links.close()
            await server.unload()
            server.close()


async def _free_ports(count: int) -> list[int]:
    opened = [await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) for _ in range(count)]
    ports = [server.sockets[0].getsockname()[1] for server in opened]
    for server in opened:
        server.close()
    return ports


def in_memory(_: int, **more: Any) -> Config:
    return Config(memory=True, shards=SHARDS, **more)


def on_disk(folder: Path, number: int, **more: Any) -> Config:
    return Config(data=folder / f"data-{number}", shards=SHARDS, **more)
