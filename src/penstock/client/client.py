"""The client for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from penstock.client.actions import Actions
from penstock.client.credentials import KeySource
from penstock.client.endpoint import Endpoint, find_endpoint
from penstock.client.http.asynchronous import AsyncNetwork
from penstock.client.large_payloads import LargePayloads
from penstock.client.retries import Retries
from penstock.client.session import TIMEOUT_S, Session

CONNECTIONS_MAX = 64


class Client(Actions):
    """A client of Penstock or Amazon SQS, for one event loop and any number of tasks.

    Endpoint, region and keys that are not given are found as commands and AWS SDKs find them. ``timeout_s`` is for
    one attempt; a receive has as much in addition as the server may wait. ``large_payloads`` stores bodies that are
    too large for a queue.
    """

    def __init__(
        self,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        context: str | None = None,
        credentials: KeySource | None = None,
        max_connections: int = CONNECTIONS_MAX,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        large_payloads: LargePayloads | None = None,
    ) -> None:
        """Raises EndpointError or ProfileError."""
        endpoint = chosen_endpoint(endpoint_url, region, profile, context, credentials)
        network = AsyncNetwork(max_connections)
        super().__init__(Session(endpoint, network, timeout_s=timeout_s, retries=retries), large_payloads)

    @property
    def endpoint(self) -> Endpoint:
        """The server that was chosen."""
        return self._session.endpoint

    async def close(self) -> None:
        """Close all connections that are not in use."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def chosen_endpoint(
    url: str | None,
    region: str | None,
    profile: str | None,
    context: str | None,
    credentials: KeySource | None,
) -> Endpoint:
    """Keys that are given are used instead of those that are found."""
    found = find_endpoint(url=url, context=context, profile=profile, region=region)
    return found if credentials is None else found._replace(credentials=credentials)
