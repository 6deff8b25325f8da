"""A request as the transport hands it on, and how a refusal of the transport is spelt."""

from __future__ import annotations

from random import getrandbits
from typing import NamedTuple

from penstock.wire.call import Call

_VERSION_4 = 4 << 76 | 2 << 62  # and the variant of RFC 4122
_RANDOM_BITS = (1 << 128) - 1 ^ (0xF << 76 | 3 << 62)


class Origin(NamedTuple):
    """From where, and under which address, a request reached us."""

    base_url: str  # scheme://host[:port]
    source_ip: str
    secure: bool  # it came by TLS


class Peer:
    """The other end of a connection, and ours."""

    __slots__ = ("address", "certificate", "host", "listening", "origin", "scheme")

    def __init__(self, address: str, scheme: str, listening: str, certificate: str = "") -> None:
        assert address, "everybody calls from somewhere: policies and the trail go by it"
        self.address = address
        self.scheme = scheme  # "http" or "https": how this connection itself is made
        self.listening = listening  # host:port the caller reached us on; stands in for a missing Host header
        self.certificate = certificate  # whose certificate it showed, as far as we asked for one
        # The Host of its last request, and what came of it: clients do not change it.
        self.host: bytes | None = None
        self.origin: Origin


class Request:
    """One HTTP request, read completely.

    ``headers`` is for looking things up: names in lower case, repeated ones joined. ``raw_headers`` is what was
    received, in its order and case, each line apart: a signature is made over that.
    """

    __slots__ = (
        "body", "call", "headers", "held_bytes", "id", "keep_alive", "method", "peer", "raw_headers", "target",
        "version",
    )  # fmt: skip

    def __init__(self, peer: Peer) -> None:
        self.id = new_request_id()
        self.peer = peer
        self.method = b""
        self.target = b""  # path and query, as sent
        self.version = "1.1"
        self.headers: dict[bytes, bytes] = {}
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.held_bytes = 0  # what it counts for while it waits its turn
        self.keep_alive = True
        self.call: Call | None = None  # set by whoever serves it, before anything can be waited for

    def let_go(self) -> None:
        """It was read, and may wait for long: what takes room is needed no more, and is counted no more."""
        self.body = self.target = b""
        self.headers, self.raw_headers = {}, []

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
    text = "%032x" % (getrandbits(128) & _RANDOM_BITS | _VERSION_4)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
