"""A connection without a socket: what a client sends goes in, what the server writes comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from penstock.server.http.connection import Connection
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener, Serve
from penstock.server.http.request import Request

TURNS_MAX = 10_000
ADDRESS = "192.0.2.7"
LIMITS = HttpLimits(uri_bytes_max=300, header_count_max=20, body_bytes_max=400)
"""Low, so that small inputs reach them."""


class Exchange(NamedTuple):
    written: bytes
    methods: list[bytes]
    """The methods of the requests that were served, in order."""


class SocketlessListener(Listener):
    """Accepts connections without sockets, and records the methods of their requests."""

    def __init__(self, serve: Serve) -> None:
        super().__init__(self._serve, LIMITS)
        self.methods: list[bytes] = []
        self._serve_on = serve

    def _serve(self, request: Request) -> None:
        self.methods.append(request.method)
        self._serve_on(request)

    def open_connection(self) -> Connection:
        connection = Connection(self, ADDRESS, None)
        self._connections[connection] = None
        return connection

    def expect_empty(self) -> None:
        assert self.buffered_bytes == 0, "requests stay buffered after the connection"
        assert not self._connections, "a closed connection is still listed"


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 9324)})
        self.written = bytearray()
        self.reads = True
        self._closing = False
        self._ended = False

    def write(self, data: Any) -> None:
        assert not self._ended, "written after the end of the stream"
        if not self._closing:
            self.written += data

    def write_eof(self) -> None:
        self._ended = True

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        self._closing = True


def converse(serve: Serve, pieces: Sequence[bytes]) -> Exchange:
    """A client that sends these pieces, closes its side and reads to the end."""
    return _loop().run_until_complete(_converse(serve, pieces))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _converse(serve: Serve, pieces: Sequence[bytes]) -> Exchange:
    listener, transport = SocketlessListener(serve), Transport()
    connection = listener.open_connection()
    connection.connection_made(transport)
    for piece in pieces:
        await _until_it_reads(transport)
        if transport.is_closing():
            break
        connection.data_received(piece)
    await _until_it_reads(transport)
    if not transport.is_closing() and not connection.eof_received():
        transport.close()
    for _ in range(TURNS_MAX):
        if transport.is_closing():
            break
        await asyncio.sleep(0)
    assert transport.is_closing(), "the connection of a client that is done stays open"
    connection.connection_lost(None)
    listener.expect_empty()
    return Exchange(bytes(transport.written), listener.methods)


async def _until_it_reads(transport: Transport) -> None:
    for _ in range(TURNS_MAX):
        if transport.reads or transport.is_closing():
            return
        await asyncio.sleep(0)
    raise AssertionError("the server never resumes reading")
