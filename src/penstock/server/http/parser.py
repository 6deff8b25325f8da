"""Turns bytes into requests: HTTP/1.1 without a socket.

httptools reads the bytes and calls back. Everything is bounded: the request line, the headers, the body, and what
makes no body grow (a header that does not end, chunk extensions, trailers). A violation raises :class:`HttpError`;
requests that were complete before it stay in ``requests``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from secrets import randbits

import httptools

from penstock.cache import BoundedCache
from penstock.server.http.limits import HttpLimits
from penstock.server.http.request import (
    HEADER_COST,
    REQUEST_COST,
    HttpError,
    Peer,
    RawHeaders,
    Request,
    length_of_head,
    memory_of_head,
)

# With two values it would be undefined which of them counts.
_SINGLE = frozenset(
    (b"host", b"authorization", b"content-type", b"content-length", b"x-amz-target", b"transfer-encoding")
)
_KNOWN_NAMES_BYTES_MAX = 1024  # SDKs need 150

BETWEEN, HEAD, BODY = range(3)
"""The phases of reading: between requests, in a head, in a body."""

_Names = list[bytes]
_known_names: BoundedCache[tuple[bytes, ...], tuple[_Names, _Names]] = BoundedCache(256)
"""Header names as received and in lower case: a client sends the same ones in every request."""


class RequestParser:
    __slots__ = (
        "_body", "_fed", "_headers", "_ids", "_keep_alive", "_last_names", "_limits", "_lower_names", "_method",
        "_names", "_parser", "_peer", "_raw_headers", "_target", "_upgrade", "_values", "_version", "continue_due",
        "phase", "progress", "requests",
    )  # fmt: skip

    def __init__(self, peer: Peer, limits: HttpLimits) -> None:
        self._peer = peer
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._ids = request_ids()
        self._last_names: _Names = []
        self._lower_names: _Names = []
        self.requests: deque[Request] = deque()  # complete, not yet taken by the connection
        self.progress = 0  # bytes of bodies since the connection set it to zero
        self.drop()

    def drop(self) -> None:
        """Discard the request that is being read."""
        self.phase = BETWEEN
        self.continue_due = False  # the client waits for 100 Continue before it sends the body
        self._fed = 0  # bytes since the request began, its head ended or its body last grew
        self._target = b""
        # Of an unfinished head; after it, of trailers, which are not used.
        self._names: _Names = []
        self._values: list[bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._raw_headers: RawHeaders | None = None
        self._body: bytes | bytearray = b""
        self._version = "1.1"
        self._upgrade = False

    def stop(self) -> None:
        """Read no further. httptools itself holds the header that is not complete yet, up to 64 KB."""
        self.drop()
        self._parser = httptools.HttpRequestParser(self)

    def close(self) -> None:
        """The connection is lost. Breaks the reference cycle with the parser."""
        self.drop()
        self.requests.clear()
        del self._parser

    def feed(self, data: bytes | memoryview) -> bytes:
        """Read on. Returns what has to be fed again: after an offer to upgrade, else nothing."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return self._without_upgrade(bytes(data[offer.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, HttpError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            raise HttpError(400, f"Malformed HTTP request: {error}.") from None
        # Only of a request that is not complete: any other gets its own response, and exactly one.
        if self._fed > self._limits.header_bytes_max:
            raise _headers_too_large()
        if len(self._names) > self._limits.header_count_max:
            raise _too_many_headers()
        return b""

    @property
    def buffered_bytes(self) -> int:
        """Memory of the requests that the connection has not taken, and of the one that is being read."""
        size = 0
        for request in self.requests:
            if not request.buffered_bytes:
                head = memory_of_head(request.target, request.headers, request.raw_headers)
                request.buffered_bytes = REQUEST_COST + head + len(request.body)
            size += request.buffered_bytes
        if self.phase != BETWEEN:
            size += memory_of_head(self._target, self._headers, self._raw_headers) + len(self._body)
            size += self._fed + len(self._names) * HEADER_COST
        return size

    # Callbacks of httptools. There is no on_message_begin: the URL comes first.

    def on_url(self, url: bytes) -> None:
        self.phase = HEAD
        self._target = target = self._target + url
        if len(target) > self._limits.uri_bytes_max:
            raise HttpError(414, "The request's URI is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        # Called a dozen times for each request: everything else is done when all headers are there.
        self._names.append(name)
        self._values.append(value)

    def on_headers_complete(self) -> None:
        limits, parser, names, values = self._limits, self._parser, self._names, self._values
        if len(names) > limits.header_count_max:
            raise _too_many_headers()
        if self._fed > limits.header_bytes_max:  # perhaps only with what of the body came in the same piece
            length = length_of_head(self._target, zip(names, values, strict=True))
            if length > limits.header_bytes_max:
                raise _headers_too_large()
        if names != self._last_names:
            self._last_names, self._lower_names = _lower(names)
        headers = {}
        for name, value in zip(self._lower_names, values, strict=True):
            headers[name] = value.strip()
        if len(headers) < len(names):
            self._raw_headers = list(zip(names, values, strict=True))
            headers = _joined(self._raw_headers)
        self._headers, self._names, self._values = headers, [], []
        self._method = parser.get_method()
        if parser.should_upgrade():
            if self._method == b"CONNECT":
                raise HttpError(405, "This server is not a proxy.")
            self._raw_headers = list(zip(names, values, strict=True))
            self._version = parser.get_http_version()
            self._upgrade = True
            return
        self.phase = BODY
        self._fed = 0
        self._keep_alive = parser.should_keep_alive()
        announced = headers.get(b"content-length")
        if announced is not None:
            if int(announced) > limits.body_bytes_max:
                raise self._body_too_large()
        elif b"transfer-encoding" in headers and parser.get_http_version() == "1.0":
            # RFC 9112, 6.1: a proxy that does not know it there sees the body end somewhere else.
            raise HttpError(400, "HTTP/1.0 has no Transfer-Encoding.")
        if b"connection" in headers or b"expect" in headers:  # they depend on the version
            self._version = parser.get_http_version()
            expect = headers.get(b"expect")
            if expect is not None and self._version != "1.0":
                if expect.lower() != b"100-continue":
                    raise HttpError(417, "The only supported expectation is 100-continue.")
                self.continue_due = True

    def on_body(self, data: bytes) -> None:
        if self._body:
            # One bytearray, not a list: a piece costs far more than its bytes if they are few.
            self._body = body = bytearray(self._body) if type(self._body) is bytes else self._body
            body += data
        else:
            self._body = data
        self._fed = 0
        self.continue_due = False  # the client did not wait
        self.progress += len(data)
        if len(self._body) > self._limits.body_bytes_max:
            raise self._body_too_large()

    def on_message_complete(self) -> None:
        if self._upgrade:
            return
        request_id = next(self._ids, None)
        if request_id is None:
            self._ids = request_ids()
            request_id = next(self._ids)
        body = self._body
        self.requests.append(
            Request(
                self._peer,
                request_id,
                self._method,
                self._target,
                self._headers,
                self._raw_headers,
                body if type(body) is bytes else bytes(body),
                self._keep_alive,
                self._version,
            )
        )
        self.phase = BETWEEN
        self._fed = 0
        self._target = self._body = b""
        self._headers, self._raw_headers = {}, None
        if self._names or self._version != "1.1" or self.continue_due:  # trailers, or rare headers
            self.drop()

    def _body_too_large(self) -> HttpError:
        return HttpError(413, f"The request's body is larger than {self._limits.body_bytes_max} bytes.")

    def _without_upgrade(self, rest: bytes) -> bytes:
        # RFC 9110, 7.8: a server may ignore an offer to upgrade. But httptools stops at it: it gets the same head
        # again without the offer.
        head = [b"%b %b HTTP/%b" % (self._method, self._target, self._version.encode())]
        assert self._raw_headers is not None
        head += [b"%b: %b" % header for header in self._raw_headers if header[0].lower() != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.drop()
        return b"\r\n".join([*head, b"", rest])


_ID_ENDINGS = [f"{number:03x}" for number in range(4096)]


def request_ids() -> Iterator[str]:
    """A few thousand ids that look like UUIDs of version 4: random, and counted at the end.

    They correlate log lines and are not secrets. No Python code runs for each.
    """
    digits = f"{randbits(108):027x}"
    beginning = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[15:18]}-{digits[18:]}"
    return map(beginning.__add__, _ID_ENDINGS)


def _lower(names: _Names) -> tuple[_Names, _Names]:
    """Returns the names if they are the usual few, and the same in lower case. The connection keeps them."""
    if sum(map(len, names)) > _KNOWN_NAMES_BYTES_MAX:
        return [], [name.lower() for name in names]
    known = _known_names.get(tuple(names))
    return known or _known_names.put(tuple(names), (names, [name.lower() for name in names]))


def _joined(raw: RawHeaders) -> dict[bytes, bytes]:
    """Joins repeated headers. RFC 9110, 5.3: a repeated header continues a list. Those that have one value must not
    be repeated."""
    headers: dict[bytes, bytes] = {}
    for raw_name, value in raw:
        name = raw_name.lower()
        if name not in headers:
            headers[name] = value.strip()
        elif name in _SINGLE:
            raise HttpError(400, f"The header {name.decode('latin-1')} is given twice.")
        else:
            headers[name] += b", " + value.strip()
    return headers


def _headers_too_large() -> HttpError:
    return HttpError(431, "The request's headers are too large.")


def _too_many_headers() -> HttpError:
    return HttpError(431, "The request has too many headers.")
