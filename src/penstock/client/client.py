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
    """A client of Penstock, or of Amazon SQS and SNS, for one event loop and any number of tasks.

    Use it as a context manager, or close it:

        async with Client() as client:
            await client.send_message("orders", "two lattes")
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
        """Find the server and the keys; nothing is sent yet.

        :param endpoint_url: The URL of the server, or ``"aws"`` for Amazon SQS. By default it is found as commands
            and AWS SDKs find it.
        :param region: The AWS region. By default it is found like the endpoint.
        :param profile: The profile of the AWS files to take keys and settings from. By default that
            of the context, or ``AWS_PROFILE``.
        :param context: The context of ``penstock context`` to take the server from. By default the chosen one, if
            there is any.
        :param credentials: Keys to sign with, or where they come from. By default they are found as AWS SDKs find
            them.
        :param max_connections: How many connections are open at most; 64 by default. Further requests wait.
        :param timeout_s: Seconds for one attempt; 30 by default. A receive has in addition what the server may wait.
        :param retries: Which requests are repeated. By default :class:`Retries` with its defaults.
        :param large_payloads: Where bodies are stored that are too large for a queue. By default, nowhere.
        :raises EndpointError: It is not clear which server is meant.
        :raises ProfileError: The profile cannot be read.
        :raises ValueError: A limit is invalid.
        """
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
