"""A small, quick AWS JSON client for load: keep-alive connections, no signing, answers checked for status 200."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Connection(asyncio.Protocol):
    """One request at a time over one socket."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        start = head.find(b"content-length:") + 15
        length = int(head[start : head.find(b"\r\n", start) if b"\r\n" in head[start:] else None])
        end = head_end + 4 + length
        if len(self._buffer) < end or self._answer is None:
            return
        body, self._buffer = self._buffer[head_end + 4 : end], self._buffer[end:]
        answer, self._answer = self._answer, None
        if head[9:12] == b"200":
            answer.set_result(body)
        else:
            answer.set_exception(RuntimeError(body.decode()))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None:
            self._answer.set_exception(error or ConnectionError("the server hung up"))

    def send(self, action: str, body: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST / HTTP/1.1\r\nHost: %b\r\nX-Amz-Target: AmazonSQS.%b\r\n"
            b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b"
            % (self._host.encode(), action.encode(), len(body), body)
        )
        return self._answer

    async def call(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        body = await self.send(action, _encode(request))
        return _decode(body) if body else {}

    def close(self) -> None:
        self._transport.close()


async def connect(port: int) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(f"127.0.0.1:{port}"), "127.0.0.1", port)
    return connection


async def together(port: int, count: int, work: Callable[[Connection, int], Awaitable[None]]) -> None:
    """Run ``work`` on ``count`` connections at once."""
    connections = [await connect(port) for _ in range(count)]
    await asyncio.gather(*(work(connection, i) for i, connection in enumerate(connections)))
    for connection in connections:
        connection.close()


def batches(total: int, size: int = 10) -> Iterable[range]:
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
