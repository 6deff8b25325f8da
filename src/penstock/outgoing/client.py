"""Requests that the server makes on behalf of accounts: one client for all of its parts.

A user who chooses the URL could make the server call whatever it can reach. So an operator lists what may be called,
or which private addresses may be (:mod:`penstock.outgoing.urls`), redirects are not followed, and proxies of the
environment are not used. A name is looked up once for each request, and the connection goes to one of the addresses
that were found and checked (:mod:`penstock.outgoing.addresses`).

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
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import __version__
from penstock.fair_share import FairShare
from penstock.outgoing.urls import AddressRule, AllowedUrls, OutgoingUrl

if TYPE_CHECKING:
    from penstock.client.http.asynchronous import AsyncConnection
    from penstock.client.http.exchange import HttpResponse, TlsContexts

T = TypeVar("T")

TIMEOUT_S = 10.0
_AT_A_TIME, _OF_ONE_ACCOUNT = 64, 8
_LOOKUP_S = 5.0
_LOOKUPS_AT_A_TIME, _LOOKUPS_OF_ONE_ACCOUNT = 16, 4
_ADDRESSES_MAX = 4  # of one name that are tried

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110: a token
# What decides about the connection or where the body ends: two opinions on that make one request into two.
_OWN_HEADERS = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
     "proxy-connection")
)  # fmt: skip


class OutgoingFailed(Exception):
    """There is no answer. The text says why."""


class OutgoingRefused(OutgoingFailed):
    """The host has no address that may be called."""


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port): the addresses of a name. Raises OSError."""


async def look_up(host: str, port: int) -> list[str]:
    found = await in_thread(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class OutgoingHttp:
    """The HTTP client of the server. It belongs to the event loop of its first request."""

    def __init__(
        self,
        timeout_s: float = TIMEOUT_S,
        resolve: Resolve = look_up,
        *,
        at_a_time: int = _AT_A_TIME,
        of_one_account: int = _OF_ONE_ACCOUNT,
    ) -> None:
        """``timeout_s``: of a whole exchange, once it is its turn. ``at_a_time``: requests, and ``of_one_account``
        among them."""
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._share = FairShare(at_a_time, of_one_account)
        self._lookups = FairShare(
            _LOOKUPS_AT_A_TIME, _LOOKUPS_OF_ONE_ACCOUNT
        )  # whose answer somebody waits for
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
        rule: AddressRule = AllowedUrls,
        answer_bytes_max: int = 0,
    ) -> HttpResponse:
        """Returns status, headers and the first bytes of the body. What the status means is up to the caller.

        ``account``: whose share it takes. ``rule``: which addresses may be called. ``answer_bytes_max``: of the body;
        what is beyond them is not read. Raises OutgoingFailed if there is no answer, also when this is closed."""
        request = _request(method, url, headers, body)
        return await self._in_task(self._exchange(account, url, rule, request, answer_bytes_max))

    async def finds(self, account: str, url: OutgoingUrl, rule: AddressRule) -> bool:
        """Looks the host of a URL up. Returns False if it has no address, as far as can be said within a few seconds.
        Raises OutgoingRefused if it has addresses and none of them may be called, or OutgoingFailed when this is
        closed."""
        return await self._in_task(self._look_up(account, url, rule))

    async def _in_task(self, work: Coroutine[Any, Any, T]) -> T:
        """Callers run without a task, and the time limit needs one."""
        if self._is_closed:
            work.close()
            raise OutgoingFailed("the server stops")
        task = asyncio.get_running_loop().create_task(work)
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
        self, account: str, url: OutgoingUrl, rule: AddressRule, request: bytes, answer_bytes_max: int
    ) -> HttpResponse:
        async with self._turn(account):
            connection = await self._connect(url, answer_bytes_max, rule)
            try:
                return await connection.exchange(request, self._timeout_s)
            finally:
                connection.close()

    async def _look_up(self, account: str, url: OutgoingUrl, rule: AddressRule) -> bool:
        try:
            async with asyncio.timeout(_LOOKUP_S), self._lookups.turn(account):
                return bool(await self._addresses(url, rule))
        except (OSError, ValueError):  # TimeoutError, and UnicodeError: a name that no lookup takes
            return False

    @asynccontextmanager
    async def _turn(self, account: str) -> AsyncIterator[None]:
        """One of the turns of the account, limited in time. Raises OutgoingFailed for whatever fails in it."""
        from penstock.client.http.exchange import ExchangeFailed, reason_of

        async with self._share.turn(account):
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    yield
            except ExchangeFailed as failure:
                raise OutgoingFailed(str(failure)) from None
            except (OSError, ValueError) as error:  # UnicodeError: a name that no lookup takes
                if isinstance(error, TimeoutError) and limit.expired():
                    raise OutgoingFailed(f"no answer within {self._timeout_s:g} seconds") from None
                raise OutgoingFailed(reason_of(error)) from None

    async def _connect(
        self, url: OutgoingUrl, answer_bytes_max: int, rule: AddressRule = AllowedUrls
    ) -> AsyncConnection:
        # Imported when they are first needed: most servers never call anything.
        from penstock.client.http.asynchronous import AsyncConnection
        from penstock.client.http.exchange import Address, AnswerReader, TlsContexts

        loop = asyncio.get_running_loop()
        addresses = await self._addresses(url, rule)
        context = None
        if url.scheme == "https":
            self._tls = self._tls or TlsContexts()  # reads the certificate authorities, which takes a while
            context = await in_thread(partial(self._tls.of, Address(url.host, url.port, is_tls=True)))
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

    async def _addresses(self, url: OutgoingUrl, rule: AddressRule) -> list[str]:
        """Returns the addresses of the host that may be called. Raises OutgoingFailed or OSError."""
        try:
            found = [str(ip_address(url.host))]
        except ValueError:
            found = await self._resolve(url.host, url.port)
        allowed = [address for address in found if rule.may_call(url.host, address)]
        if found and not allowed:
            raise OutgoingRefused(f"its name leads to {found[0]}, which must not be called")
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


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
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
