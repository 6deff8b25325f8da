"""A request as the transport hands it on, and how a refusal of the transport is spelt."""

from __future__ import annotations

from random import getrandbits
from typing import NamedTuple

from penstock.wire.call import Call


class Peer(NamedTuple):
    """The other end of a connection, and ours."""

    address: str
    scheme: str  # "http" or "https": how this connection itself is made
    listening: str  # host:port the caller reached us on; stands in for a missing Host header


class Request:
    """One HTTP request, read completely. Header names are lower-case."""

    __slots__ = ("body", "call", "headers", "id", "keep_alive", "method", "peer", "target", "version")

    def __init__(self, peer: Peer) -> None:
        self.id = new_request_id()
        self.peer = peer
        self.method = b""
        self.target = b""  # path and query, as sent
        self.version = "1.1"
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.keep_alive = True
        self.call: Call | None = None  # set by whoever serves it, before anything can be waited for

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        return self.target.partition(b"?")[2]


class Refusal(Exception):
    """The transport does not take this request; the connection ends with the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def new_request_id() -> str:
    """A version 4 UUID. It names a request in logs and is no secret, so the cheap generator will do."""
    text = f"{getrandbits(128):032x}"
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
