"""Requests that the server makes on behalf of accounts, such as those to web hooks of alarms.

A user who chooses the URL could make the server call whatever it can reach. So an operator lists what may be called
(:class:`AllowedUrls`), redirects are not followed, and proxies of the environment are not used. A name is looked up
once for each request, and the connection goes to one of the addresses that were found and checked.

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
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from penstock import __version__
from penstock.server.fair_share import FairShare

if TYPE_CHECKING:
    from penstock.client.http.asynchronous import AsyncConnection
    from penstock.client.http.exchange import HttpResponse, TlsContexts

T = TypeVar("T")

TIMEOUT_S = 10.0
_AT_A_TIME, _OF_ONE_ACCOUNT = 64, 8
_PORTS = {"http": 80, "https": 443}


class OutgoingFailed(Exception):
    """There is no answer. The text says why."""


class OutgoingUrl(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str
    query: str

    @classmethod
    def parse(cls, text: str) -> OutgoingUrl | None:
        """None if it is no URL that is the same for everyone who reads it."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            return None
        scheme, host = parts.scheme.lower(), parts.hostname
        if scheme not in _PORTS or not host or port == 0 or "@" in parts.netloc or parts.fragment:
            return None
        if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
            return None
        if not _is_plain(parts.path):
            return None
        return cls(scheme, host.lower().rstrip("."), port or _PORTS[scheme], parts.path or "/", parts.query)

    def is_below(self, allowed: OutgoingUrl) -> bool:
        """Is it the same address, and the same path or one below it?"""
        prefix = allowed.path.rstrip("/")
        is_same_path = self.path == allowed.path or self.path.startswith(f"{prefix}/")
        return self[:3] == allowed[:3] and is_same_path

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def _is_plain(path: str) -> bool:
    """Whether no server sees a segment in it that leads upwards, or a control character.

    Servers decode a path before they resolve it, some of them more than once, and some drop what follows a semicolon
    in a segment."""
    while (decoded := unquote(path)) != path:
        path = decoded
    names = [segment.partition(";")[0].strip() for segment in re.split(r"[/\\]", path)]
    return path.isprintable() and not any(name and not name.strip(".") for name in names)


class AllowedUrls:
    """What may be called: URLs of the operator, and everything below their paths."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = [url for text in allowed if (url := OutgoingUrl.parse(text)) is not None]

    def find(self, text: str) -> OutgoingUrl | None:
        """The URL, if it may be called."""
        url = OutgoingUrl.parse(text)
        return url if url is not None and any(url.is_below(each) for each in self._allowed) else None


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

    async def post(
        self, account: str, url: OutgoingUrl, body: bytes, content_type: str, *, answer_bytes_max: int = 0
    ) -> HttpResponse:
        """``account``: whose share it takes. ``answer_bytes_max``: 0: only the head of the answer is read. Raises
        OutgoingFailed, also when this is closed."""
        if self._is_closed:
            raise OutgoingFailed("the server stops")
        exchange = self._exchange(account, url, _request(url, body, content_type), answer_bytes_max)
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
        for address in addresses:
            try:
                _, connection = await loop.create_connection(
                    lambda: AsyncConnection(loop, AnswerReader(answer_bytes_max)),
                    address,
                    url.port,
                    ssl=context,
                    server_hostname=None if context is None else url.host,
                )
                return connection
            except OSError:
                if address == addresses[-1]:
                    raise
        raise OutgoingFailed("its name has no address")

    async def _addresses(self, url: OutgoingUrl) -> list[str]:
        """Those of the host that may be called. Raises OutgoingFailed or OSError."""
        with suppress(ValueError):
            return [str(ip_address(url.host))]  # the operator has named it
        found = await self._resolve(url.host, url.port)
        allowed = [address for address in found if _is_of_a_host(address)]
        if found and not allowed:
            raise OutgoingFailed(f"its name leads to {found[0]}, which is no address of a host")
        return allowed


def _is_of_a_host(text: str) -> bool:
    """Link-local addresses are those of this machine's neighbours, among them the metadata services of clouds."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return not (address.is_link_local or address.is_multicast or address.is_unspecified)


def _request(url: OutgoingUrl, body: bytes, content_type: str) -> bytes:
    head = (
        f"POST {url.target} HTTP/1.1\r\nHost: {url.host_header}\r\nUser-Agent: penstock/{__version__}\r\n"
        f"Accept: */*\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


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
