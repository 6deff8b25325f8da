"""What both networks share: addresses, answers and how they are read, failures, connections that wait to be used.

A network does one exchange: it takes a connection, writes a request and reads its answer. Its methods are
coroutines, also those of the blocking one, which never suspend: so the code above is written once.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 64 * 1024 * 1024  # ten messages of 1 MiB, even if JSON escapes every character
# Headers that say where a body ends; without them, it ends with the connection.
_LENGTHS = (b"content-length", b"transfer-encoding")
IDLE_S_MAX = 25.0  # servers and load balancers close connections that were idle for longer

Sink = Callable[[bytes], object]
T = TypeVar("T")


class Address(NamedTuple):
    """Where connections lead to."""

    host: str
    port: int
    is_tls: bool
    ca_file: str | None = None

    @classmethod
    def of(cls, url: str, ca_file: str | None = None) -> Address:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        return cls(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, ca_file)


class HttpResponse:
    """The response of a server to one request."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name: bytes) -> str:
        """The value of a header, or an empty text. ``name`` is in lower case."""
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")


Abandoned = Callable[[HttpResponse], Coroutine[Any, Any, None]]


class ExchangeFailed(Exception):
    """There is no answer. ``is_unsent``: nothing of the request reached the server. ``is_stale``: a connection that
    was used before ended without a byte of an answer. ``is_final``: it would fail again in the same way."""

    def __init__(
        self,
        reason: str,
        *,
        is_unsent: bool = False,
        is_stale: bool = False,
        is_timeout: bool = False,
        is_final: bool = False,
    ) -> None:
        super().__init__(reason)
        self.is_unsent = is_unsent
        self.is_stale = is_stale
        self.is_timeout = is_timeout
        self.is_final = is_final

    @classmethod
    def to_connect(cls, error: Exception) -> ExchangeFailed:
        is_final = isinstance(error, ssl.SSLCertVerificationError)
        is_timeout = isinstance(error, TimeoutError)
        reason = "connecting timed out" if is_timeout else reason_of(error)
        return cls(reason, is_unsent=True, is_timeout=is_timeout, is_final=is_final)

    @classmethod
    def to_answer(cls, timeout_s: float) -> ExchangeFailed:
        return cls(f"timed out after {timeout_s:g} seconds", is_timeout=True)


class Network(Protocol):
    """What a session needs of the world around it."""

    async def exchange(
        self,
        address: Address,
        request: bytes,
        timeout_s: float,
        sink: Sink | None = None,
        abandoned: Abandoned | None = None,
    ) -> HttpResponse:
        """``timeout_s``: for each step, which are a free connection, connecting, and the complete answer (with
        ``sink``, which gets the body of a successful answer in pieces, the next piece). ``abandoned`` gets an answer
        that came although the task was cancelled; there is no such thing for a thread. Raises ExchangeFailed."""

    async def sleep(self, seconds: float) -> None: ...

    def lock(self) -> AbstractAsyncContextManager[object]: ...

    def apart(self, function: Callable[[], T]) -> Awaitable[T]:
        """Call a function that may block."""

    async def close(self) -> None: ...


class AnswerReader:
    """Reads the answers that come on one connection, one after the other."""

    def __init__(self, body_bytes_max: int | None = None, *, cuts: bool = False) -> None:
        """``body_bytes_max``: 0: an answer is complete with its head, and the connection is not used again.
        ``cuts``: what is beyond them is not read; else such an answer is an error."""
        self._cuts = cuts
        self._body_bytes_max = BODY_BYTES_MAX if body_bytes_max is None else body_bytes_max
        self._parser = HttpResponseParser(self)
        self.expect(None)

    def expect(self, sink: Sink | None) -> None:
        """Prepares to read the response; no request is sent yet."""
        self._sink = sink
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._bytes = self._body_bytes = 0
        self._answer: HttpResponse | None = None
        self._ends_with_connection = False
        self.has_begun = False
        self.may_go_on = False  # after this answer, on the same connection

    def feed(self, data: bytes) -> HttpResponse | None:
        """The answer, once it is complete. Raises ExchangeFailed if it is not HTTP."""
        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:  # status 101: nothing asked for it
            raise ExchangeFailed(
                "the peer wants to speak another protocol than HTTP", is_final=True
            ) from None
        except HttpParserError as error:
            if self._answer is not None:  # what comes after it was not asked for
                self.may_go_on = False
                return self._answer
            cause = error.__context__
            if isinstance(cause, Exception) and not isinstance(cause, HttpParserError):
                raise cause from None  # of a callback below
            raise ExchangeFailed("the peer does not speak HTTP", is_final=True) from None
        # Headers, and whatever else is not the body, the parser keeps or skips without a limit of its own.
        self._bytes += len(data)
        if self._bytes - 2 * self._body_bytes > HEAD_BYTES_MAX:
            raise ExchangeFailed(
                f"the head of the answer has more than {HEAD_BYTES_MAX} bytes", is_final=True
            )
        return self._answer

    def end(self) -> HttpResponse | None:
        """The connection has ended: the answer whose body had no other end."""
        if not self._ends_with_connection or self._answer is not None:
            return None
        self._answer = HttpResponse(self._parser.get_status_code(), self._headers, b"".join(self._pieces))
        return self._answer

    # Callbacks of the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 300:
            self._sink = None  # an error is read as a whole
        names = {name.lower() for name, _ in self._headers}
        self._ends_with_connection = status >= 200 and names.isdisjoint(_LENGTHS)
        if status >= 200 and not self._body_bytes_max:
            self._answer = self._answer or HttpResponse(status, self._headers, b"")

    def on_body(self, piece: bytes) -> None:
        self._body_bytes += len(piece)
        if not self._body_bytes_max or (self._cuts and self._answer is not None):
            return
        if self._sink is not None:
            self._sink(piece)
            return
        if self._body_bytes > self._body_bytes_max and self._cuts:
            body = b"".join((*self._pieces, piece))[: self._body_bytes_max]
            self._answer = HttpResponse(self._parser.get_status_code(), self._headers, body)
            return
        if self._body_bytes > self._body_bytes_max:
            raise ExchangeFailed(f"the answer has more than {self._body_bytes_max} bytes", is_final=True)
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # the answer is still to come
            self._headers = []
            return
        if not self._body_bytes_max or (self._cuts and self._answer is not None):
            return
        if self._answer is not None:
            raise ExchangeFailed("the server answered twice")
        pieces = self._pieces
        self._answer = HttpResponse(
            status, self._headers, pieces[0] if len(pieces) == 1 else b"".join(pieces)
        )
        self.may_go_on = self._parser.should_keep_alive()


class Closable(Protocol):
    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class IdleConnections(Generic[C]):
    """Connections that wait to be used again: the last one first, so that those too many grow old and are closed."""

    def __init__(self) -> None:
        self._by_address: dict[Address, deque[tuple[float, C]]] = {}
        self._is_closed = False

    def take(self, address: Address) -> C | None:
        """Raises ExchangeFailed once they are closed."""
        if self._is_closed:
            raise ExchangeFailed("the client is closed", is_unsent=True, is_final=True)
        waiting = self._by_address.get(address)
        while waiting:
            try:
                since, connection = waiting.pop()
            except IndexError:  # another thread was first
                return None
            if monotonic() - since < IDLE_S_MAX and connection.is_open:
                return connection
            connection.close()
        return None

    def put(self, address: Address, connection: C) -> None:
        if self._is_closed:
            connection.close()
            return
        waiting = self._by_address.setdefault(address, deque())
        now = monotonic()
        waiting.append((now, connection))
        if now - waiting[0][0] >= IDLE_S_MAX:
            waiting.popleft()[1].close()  # one for each that comes is enough

    def close_all(self) -> None:
        for waiting in self._by_address.values():
            while waiting:
                waiting.pop()[1].close()

    def close(self) -> None:
        self._is_closed = True
        self.close_all()


class TlsContexts:
    """Makes one context for each set of certificate authorities, since they are read from files."""

    def __init__(self) -> None:
        self._by_file: dict[str | None, ssl.SSLContext] = {}

    def of(self, address: Address) -> ssl.SSLContext | None:
        """Returns the context for a server; None if it is used without TLS. Raises ExchangeFailed."""
        if not address.is_tls:
            return None
        context = self._by_file.get(address.ca_file)
        if context is None:
            try:
                context = ssl.create_default_context(cafile=address.ca_file)
            except OSError as error:
                reason = f'cannot use "{address.ca_file}" as CA certificates: {reason_of(error)}'
                raise ExchangeFailed(reason, is_unsent=True, is_final=True) from None
            self._by_file[address.ca_file] = context
        return context


def checked_limit(max_connections: int) -> int:
    if max_connections < 1:
        raise ValueError(f"invalid max_connections {max_connections}: expected 1 or more")
    return max_connections


def no_connection(limit: int, waited_s: float) -> ExchangeFailed:
    reason = f"all {limit} connections were in use for {waited_s:g} seconds: raise max_connections"
    return ExchangeFailed(reason, is_unsent=True, is_final=True)


def reason_of(error: BaseException) -> str:
    """Returns a short text, without numbers and addresses where there is a name for the error."""
    if isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
