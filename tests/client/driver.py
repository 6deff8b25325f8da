"""Runs the same steps over both networks: in an event loop, and on blocking sockets without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.client.actions import Actions
from penstock.client.api import run
from penstock.client.credentials import KeySource, SigningKeys
from penstock.client.endpoint import Endpoint
from penstock.client.http.asynchronous import AsyncNetwork
from penstock.client.http.blocking import BlockingNetwork
from penstock.client.session import Session

T = TypeVar("T")
Steps = Callable[[Actions], Coroutine[Any, Any, T]]

KEYS = SigningKeys("AKIDEXAMPLE", "secret")


class Driver:
    """Calls either client. It has keys, since an open server takes any."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(
        self,
        steps: Steps[T],
        url: str,
        *,
        keys: KeySource | None = KEYS,
        region: str = "us-east-1",
        ca_file: str | None = None,
        max_connections: int = 4,
        **settings: Any,
    ) -> T:
        endpoint = Endpoint(url, region, keys, "test", ca_file)

        async def with_network(network: AsyncNetwork | BlockingNetwork) -> T:
            session = Session(endpoint, network, **settings)
            try:
                return await steps(Actions(session))
            finally:
                await session.close()

        if self.kind == "blocking":
            return run(with_network(BlockingNetwork(max_connections)))
        return asyncio.run(with_network(AsyncNetwork(max_connections)))
