"""An HTTP request, the connection it came on, and the errors of the transport."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from penstock.names import Requester
from penstock.wire.service import Headers, Response, RunningCall

RawHeaders = list[tuple[bytes, bytes]]

REQUEST_COST = 352  # memory of a request besides its headers and body
HEADER_COST = 128  # memory of a header besides its text, once as received or once by name


class Origin(NamedTuple):
    """The address a request came from, and the address under which it reached us."""

    base_url: str  # scheme://host[:port]
    source_ip: str
    secure: bool  # it came over TLS


class Peer:
    """The two ends of a connection, and what was derived from its last request: clients repeat themselves."""

    __slots__ = (
        "address", "caller", "caller_key", "certificate", "host", "listening", "origin", "requester", "requester_key",
        "scheme", "verified",
    )  # fmt: skip

    def __init__(self, address: str, scheme: str, listening: str, certificate: str = "") -> None:
        assert address, "policies and the audit log need an address"
        self.address = address
        self.scheme = scheme  # "http" or "https": of this connection, not of a proxy in front of it
        self.listening = listening  # host:port that the client connected to, used if there is no Host header
        self.certificate = certificate  # subject of the client certificate, if one was requested
        self.host: object = self  # the Host header that `origin` was made of; at first no header equals it
        self.origin: Origin
        self.caller_key: object = self  # the part of Authorization that `caller` was made of
        self.caller: Any
        self.requester_key: object = self  # what `requester` was made of
        self.requester: Requester
        self.verified = ""  # the name of the caller of the last request, if its signature was verified


class Request(msgspec.Struct, eq=False):
    """One HTTP request, read completely. It is answered by one call of :meth:`respond`.

    ``headers`` has the names in lower case, and repeated headers joined by a comma and a space. If a header is
    repeated, ``raw_headers`` has them as received, because signatures join them in another way.
    """

    peer: Peer
    id: str = ""
    method: bytes = b""
    target: bytes = b""  # path and query, as sent
    headers: dict[bytes, bytes] = {}
    raw_headers: RawHeaders | None = None
    body: bytes = b""
    keep_alive: bool = True
    version: str = "1.1"
    cors_headers: Headers | None = None  # added to the response
    call: RunningCall | None = None  # set if a service handles the request
    on_not_owned: Callable[[int], None] | None = None  # set if another process passed it on: gets the shard
    counted: bool = False  # by that process, against the rate limit
    on_response: Callable[[Request, Response], None] | None = None  # set by the connection
    buffered_bytes: int = 0  # memory that it takes while it waits to be served; 0: not computed yet

    def respond(self, response: Response) -> None:
        on_response, self.on_response = self.on_response, None
        assert on_response is not None, "a request is answered once"
        on_response(self, response)

    def release(self) -> None:
        """Drop what takes memory: the request was read, and may wait for its response for long."""
        if self.call is not None and self.call.decoding is not None and not self.call.decoding.done:
            self.call.decoding.on_done(lambda _: self.release())
            return
        self.body = self.target = b""
        self.headers, self.raw_headers = {}, None

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        return self.target.partition(b"?")[2]


def length_of_head(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> int:
    return len(target) + sum([len(name) + len(value) + 4 for name, value in headers])


def memory_of_head(target: bytes, headers: dict[bytes, bytes], raw_headers: RawHeaders | None) -> int:
    if raw_headers is None:
        return length_of_head(target, headers.items()) + len(headers) * HEADER_COST
    return length_of_head(target, raw_headers) + (len(headers) + len(raw_headers)) * HEADER_COST


class HttpError(Exception):
    """A request is refused with this status. If the parser raises it, the connection ends with the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
