"""From bytes to requests: HTTP/1.1 without a socket.

Whatever is read is bounded: the request line, the headers, the body, and what makes no body grow (a header
that never ends, a chunk extension, trailers). What is out of bounds raises
:class:`Refusal`; requests that were complete before that stay in ``requests``.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum

import httptools

from penstock.server.http.limits import HttpLimits
from penstock.server.http.request import Peer, Refusal, Request

# Two answers to "who, where, what" would leave it to chance which one counts.
_ONCE = frozenset(
    (b"host", b"authorization", b"content-type", b"content-length", b"x-amz-target", b"transfer-encoding")
)


class Phase(IntEnum):
    """How far the request that is being read has come."""

    BETWEEN = 0
    HEAD = 1
    BODY = 2


_HEADER_COST = 256  # of a header besides its text, in lists and tables: many small ones count too


class Buffered:
    """Bytes of requests, of all connections together, that are held and not yet worked on."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Reader:
    __slots__ = (
        "_body", "_body_bytes", "_buffered", "_head_bytes", "_headers", "_limits", "_parser", "_peer", "_quiet_bytes",
        "_request", "_upgrade", "continue_due", "phase", "progress", "requests",
    )  # fmt: skip

    def __init__(self, peer: Peer, limits: HttpLimits, buffered: Buffered) -> None:
        self._peer = peer
        self._limits = limits
        self._buffered = buffered
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None  # that is being read
        self._body = bytearray()  # not the pieces: each would cost far more than its bytes, if they are few
        self._head_bytes = self._body_bytes = 0  # counted as buffered
        self._headers: list[tuple[bytes, bytes]] = []
        self._quiet_bytes = 0  # taken in since the request began, or since its body last grew
        self._upgrade = False
        self.phase = Phase.BETWEEN
        self.progress = 0  # bytes of the body since someone set this to zero
        self.continue_due = False  # the client waits for a word before it sends the body
        self.requests: deque[Request] = deque()

    def feed(self, data: bytes | memoryview) -> bytes:
        """Read on. Answers what must be fed again, which is nothing but in one rare case."""
        self._quiet_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return self._declined_upgrade(bytes(data[offer.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, Refusal):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            raise Refusal(400, f"Malformed HTTP request: {error}.") from None
        if self._quiet_bytes > self._limits.header_bytes_max:
            raise Refusal(431, "The request's headers are too large.")
        return b""

    def take(self) -> Request:
        """The next request, to be worked on now."""
        request = self.requests.popleft()
        self._buffered.bytes -= request.held_bytes
        return request

    @property
    def held_bytes(self) -> int:
        """Our part of what is buffered."""
        return self._head_bytes + self._body_bytes + sum(request.held_bytes for request in self.requests)

    def close(self) -> None:
        """The connection is lost. We and the parser know each other, which else only the collector would end."""
        self.drop()
        while self.requests:
            self.take()
        del self._parser

    def drop(self) -> None:
        """Throw away the request that is being read."""
        self._buffered.bytes -= self._head_bytes + self._body_bytes
        self._head_bytes = self._body_bytes = 0
        self._request = None
        self._headers = []
        self._body = bytearray()
        self.continue_due = False
        self.phase = Phase.BETWEEN

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._request = Request(self._peer)
        self._headers = []
        self._body = bytearray()
        self._quiet_bytes = self.progress = 0
        self._upgrade = False
        self.phase = Phase.HEAD

    def on_url(self, url: bytes) -> None:
        request = self._request
        assert request is not None
        request.target += url
        if len(request.target) > self._limits.uri_bytes_max:
            raise Refusal(414, "The request's URI is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        # Called a dozen times for each request: everything else is done once, when all are there. But they are
        # counted as they come: tiny ones take twenty times their bytes. Trailers of a chunked body come here too,
        # into a list of their own that nobody reads.
        headers = self._headers
        headers.append((name, value))
        if len(headers) > self._limits.header_count_max:
            raise Refusal(431, "The request has too many headers.")

    def on_headers_complete(self) -> None:
        request = self._request
        assert request is not None
        request.headers = self._read_headers()
        # What was fed since the request began is its head, to within a bite.
        request.held_bytes = self._quiet_bytes + len(self._headers) * _HEADER_COST
        request.raw_headers, self._headers = self._headers, []
        request.method = self._parser.get_method()
        if self._parser.should_upgrade():
            if request.method == b"CONNECT":
                raise Refusal(405, "This is not a proxy.")
            self._upgrade = True
            return
        self._head_bytes = request.held_bytes
        self._buffered.bytes += request.held_bytes
        self.phase = Phase.BODY
        request.keep_alive = self._parser.should_keep_alive()
        if b"connection" in request.headers or b"expect" in request.headers:
            # Only they mean something else in version 1.0, and to ask makes a text of it each time.
            request.version = self._parser.get_http_version()
        length = request.headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes_max:
            raise self._too_large()
        expect = request.headers.get(b"expect")
        if expect is not None and request.version != "1.0":
            if expect.lower() != b"100-continue":
                raise Refusal(417, "Only the expectation 100-continue can be met.")
            self.continue_due = True

    def _read_headers(self) -> dict[bytes, bytes]:
        headers = {name.lower(): value.strip() for name, value in self._headers}
        if len(headers) < len(self._headers):
            headers = {}
            for name, value in self._headers:
                _add(headers, name.lower(), value.strip())
        return headers

    def on_body(self, data: bytes) -> None:
        self._quiet_bytes = 0
        self.continue_due = False  # it came without waiting
        self.progress += len(data)
        self._body += data
        self._body_bytes += len(data)
        self._buffered.bytes += len(data)
        if self._body_bytes > self._limits.body_bytes_max:
            raise self._too_large()

    def on_message_complete(self) -> None:
        if self._upgrade:
            return
        request, self._request = self._request, None  # whoever works on it says how long it is needed
        assert request is not None
        request.body = bytes(self._body)
        request.held_bytes += self._body_bytes
        self._body = bytearray()
        self._head_bytes = self._body_bytes = 0
        self._headers = []  # trailers
        self.continue_due = False
        self.phase = Phase.BETWEEN
        self.requests.append(request)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The request's body is larger than {self._limits.body_bytes_max} bytes.")

    def _declined_upgrade(self, rest: bytes) -> bytes:
        # An offer to speak another protocol may be passed over (RFC 9110, 7.8), but the parser stops at it:
        # it gets the same head again without the offer.
        request = self._request
        assert request is not None
        offer = (b"upgrade", b"connection")
        head = [b"%b %b HTTP/1.1" % (request.method, request.target)]
        head += [b"%b: %b" % header for header in request.raw_headers if header[0].lower() not in offer]
        self._parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*head, b"", rest])


def _add(headers: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    """A header given again continues its list (RFC 9110, 5.3), unless it can have one value only."""
    if name not in headers:
        headers[name] = value
    elif name in _ONCE:
        raise Refusal(400, f"The header {name.decode('latin-1')} was given twice.")
    else:
        headers[name] += b", " + value
