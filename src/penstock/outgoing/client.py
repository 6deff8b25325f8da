"""Requests that the server makes on behalf of accounts: one client for all of its parts.

A user who chooses the URL could make the server call whatever it can reach. So an operator lists what may be called
(:mod:`penstock.outgoing.urls`), redirects are not followed, and proxies of the environment are not used. A name is
looked up once for each request, and the connection goes to one of the addresses that were found and checked
(:mod:`penstock.outgoing.addresses`).

One time limit is around the whole exchange, from the lookup to the answer, and of the answer no more is read than was
asked for: a server that answers a byte at a time gains nothing. Accounts share the requests that are made at a time.
All of it runs on the event loop. Only lookups need a thread; it is a daemon, which the end of the process does not
wait for.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import __version__
from penstock.fair_share import FairShare
from penstock.outgoing.addresses import is_callable
from penstock.outgoing.urls import OutgoingUrl

if TYPE_CHECKING:
    from penstock.client.http.asynchronous import AsyncConnection
    from penstock.client.http.exchange import HttpResponse, TlsContexts

T = TypeVar("T")

TIMEOUT_S = 10.0
_AT_A_TIME, _OF_ONE_ACCOUNT = 64, 8
_ADDRESSES_MAX = 4  # of one name that are tried

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110: a token
# What decides about the connection or where the body ends: two opinions on that make one request into two.
_OWN_HEADERS = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
     "proxy-connection")
)  # fmt: skip


class OutgoingFailed(Exception):
    """There is no answer. The text says why."""


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port): the addresses of a name. Raises OSError."""


async def look_up(host: str, port: int) -> list[str]:
    found = await _in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class OutgoingHttp:
    """The HTTP client of the server. It belongs to the event loop of its first request."""

    def __init__(self, timeout_s: float = TIMEOUT_S, resolve: Resolve = look_up) -> None:
        """``timeout_s``: of a whole exchange, once it is its turn."""
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._share = FairShare(_AT_A_TIME, _OF_ONE_ACCOUNT)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._tls: TlsContexts | None = None
        self._is_closed = False

    async def request(
        self,
        account: str,
        method: str,
        url: OutgoingUrl,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        answer_bytes_max: int = 0,
    ) -> HttpResponse:
        """Returns status, headers and the first bytes of the body. What the status means is up to the caller.

        ``account``: whose share it takes. ``answer_bytes_max``: of the body; what is beyond them is not read. Raises
        OutgoingFailed if there is no answer, also when this is closed."""
        if self._is_closed:
            raise OutgoingFailed("the server stops")
        exchange = self._exchange(account, url, _request(method, url, headers, body), answer_bytes_max)
        # A task of its own: callers run without one, and the time limit needs one.
        task = asyncio.get_running_loop().create_task(exchange)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
            raise OutgoingFailed("the server stops") from None

    def close(self) -> None:
        """End the requests under way. Nothing has to be waited for."""
        self._is_closed = True
        for task in self._under_way:
            task.cancel()

    async def _exchange(
        self, account: str, url: OutgoingUrl, request: bytes, answer_bytes_max: int
    ) -> HttpResponse:
        from penstock.client.http.exchange import ExchangeFailed, reason_of

        async with self._share.turn(account):
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    connection = await self._connect(url, answer_bytes_max)
                    try:
                        return await connection.exchange(request, self._timeout_s)
                    finally:
                        connection.close()
            except ExchangeFailed as failure:
                raise OutgoingFailed(str(failure)) from None
            except (OSError, ValueError) as error:  # UnicodeError: a name that no lookup takes
                if isinstance(error, TimeoutError) and limit.expired():
                    raise OutgoingFailed(f"no answer within {self._timeout_s:g} seconds") from None
                raise OutgoingFailed(reason_of(error)) from None

    async def _connect(self, url: OutgoingUrl, answer_bytes_max: int) -> AsyncConnection:
        # Imported when they are first needed: most servers never call anything.
        from penstock.client.http.asynchronous import AsyncConnection
        from penstock.client.http.exchange import Address, AnswerReader, TlsContexts

        loop = asyncio.get_running_loop()
        addresses = await self._addresses(url)
        context = None
        if url.scheme == "https":
            self._tls = self._tls or TlsContexts()  # reads the certificate authorities, which takes a while
            context = await _in_thread(partial(self._tls.of, Address(url.host, url.port, is_tls=True)))
        ends_s = loop.time() + self._timeout_s
        for left in range(len(addresses), 0, -1):
            # An address that does not answer leaves time for the next ones. The last one has all that is left.
            share_s = (ends_s - loop.time()) / left if left > 1 else None
            try:
                async with asyncio.timeout(share_s):
                    _, connection = await loop.create_connection(
                        lambda: AsyncConnection(loop, AnswerReader(answer_bytes_max, cuts=True)),
                        addresses[-left],
                        url.port,
                        ssl=context,
                        server_hostname=None if context is None else url.host,
                    )
                    return connection
            except OSError:
                if left == 1:
                    raise
        raise OutgoingFailed("its name has no address")

    async def _addresses(self, url: OutgoingUrl) -> list[str]:
        """Returns the addresses of the host that may be called. Raises OutgoingFailed or OSError."""
        with suppress(ValueError):
            return [str(ip_address(url.host))]  # the operator has named it
        found = await self._resolve(url.host, url.port)
        allowed = [address for address in found if is_callable(address)]
        if found and not allowed:
            raise OutgoingFailed(f"its name leads to {found[0]}, which must not be called")
        return allowed[:_ADDRESSES_MAX]


def _request(method: str, url: OutgoingUrl, headers: Mapping[str, str], body: bytes) -> bytes:
    """Raises OutgoingFailed: accounts may choose values of headers."""
    lines = {"user-agent": f"User-Agent: penstock/{__version__}", "accept": "Accept: */*"}
    chosen = set()
    for name, value in headers.items():
        folded = name.lower()
        if not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise OutgoingFailed(f"the header {name!a} has characters that no header may have")
        if folded in _OWN_HEADERS or folded in chosen:
            raise OutgoingFailed(f"the header {name!a} cannot be chosen, or not twice")
        chosen.add(folded)
        lines[folded] = f"{name}: {value}"
    head = [
        f"{method} {url.target} HTTP/1.1",
        f"Host: {url.host_header}",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, *lines.values(), "", ""]).encode() + body


def _in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function that blocks in a thread that nobody joins: a lookup can take longer than the process lives."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, failure = None, None
        try:
            value = function()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="penstock-lookup", daemon=True).start()
    return future
