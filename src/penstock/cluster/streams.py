"""Responses that are streams, of requests that were passed on.

The process that the client is connected to asks the owner for one piece after the other, as fast as the client reads
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from itertools import count

from penstock.cluster.accepting import LinkListener
from penstock.cluster.link import Peers
from penstock.errors import Unreachable
from penstock.promise import outcome

_NEXT_PIECE = "next-piece"
_END_STREAM = "end-stream"


class OpenStreams:
    """The streams of this process that others are reading."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._numbers = count(1)
        self._streams: dict[int, tuple[AsyncIterator[bytes], asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()  # or they could be collected while they run

    def listen(self, listener: LinkListener) -> None:
        listener.handle(_NEXT_PIECE, self._next_piece)
        listener.handle(_END_STREAM, self._end)

    def add(self, stream: AsyncIterable[bytes]) -> int:
        number = next(self._numbers)
        self._keep(number, aiter(stream))
        return number

    async def _next_piece(self, payload: bytes) -> bytes:
        """Returns the next piece, which is empty at the end."""
        number = int(payload)
        stream, timer = self._streams.pop(number, (None, None))
        if stream is None or timer is None:
            raise Unreachable("The response was not read for too long.")
        timer.cancel()
        # A stream may await anything, so a task reads it, as for a client of our own.
        piece = await asyncio.get_running_loop().create_task(_next_of(stream))
        if piece:
            self._keep(number, stream)
        return piece

    async def _end(self, payload: bytes) -> bytes:
        self._close(int(payload))
        return b""

    def _keep(self, number: int, stream: AsyncIterator[bytes]) -> None:
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._close, number)
        self._streams[number] = stream, timer

    def _close(self, number: int) -> None:
        stream, timer = self._streams.pop(number, (None, None))
        if timer is not None:
            timer.cancel()
        close = getattr(stream, "aclose", None)
        if close is not None:
            self._closing.add(task := asyncio.get_running_loop().create_task(close()))
            task.add_done_callback(self._closing.discard)


async def _next_of(stream: AsyncIterator[bytes]) -> bytes:
    """Returns the next piece, which is empty at the end."""
    async for piece in stream:
        if piece:
            return piece
    return b""


async def pieces_of(peers: Peers, address: str, number: int) -> AsyncIterator[bytes]:
    """Yields the pieces of the stream with this number at the process with this address."""
    name = b"%d" % number
    try:
        while piece := await outcome(peers.call(address, _NEXT_PIECE, name)):
            yield piece
    finally:
        peers.call(address, _END_STREAM, name)
