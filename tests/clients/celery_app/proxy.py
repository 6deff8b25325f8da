"""A TCP proxy between client and server that can fail on demand.

``pass`` forwards bytes. ``refuse`` answers every request with 503. ``cut`` resets every connection. Changing the
mode resets open connections, so that the new mode applies to all clients at once.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 4\r\nConnection: close\r\n\r\nbusy"
)


class Proxy:
    """Runs in a thread of its own until ``close``."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.failures = 0
        self._mode = "pass"
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._call(self._listen()).result(10)

    def behave(self, mode: str) -> None:
        assert mode in ("pass", "refuse", "cut")

        async def change() -> None:
            self._mode = mode
            for writer in list(self._open):
                reset(writer)

        self._call(change()).result(10)

    def close(self) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._call(end()).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _call(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self._mode == "cut":
                self.failures += 1
                reset(writer)
            elif self._mode == "refuse":
                await reader.read(65536)
                self.failures += 1
                writer.write(UNAVAILABLE)
                await writer.drain()
            else:
                await self._forward(reader, writer)
        except OSError:
            reset(writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        self._open.add(back_writer)
        try:
            await asyncio.gather(copy(reader, back_writer), copy(back_reader, writer))
        finally:
            self._open.discard(back_writer)
            back_writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN, as a failing machine or a firewall does."""
    raw = writer.get_extra_info("socket")
    if raw is not None and not writer.transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
