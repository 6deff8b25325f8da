"""A small, fast client for load: keep-alive connections, signed requests, one at a time on each. It speaks AWS JSON
to SQS and AWS Query to SNS.

An answer goes to a callback, so that a load can send its next request from there, without a task per request.
``call`` is the same as a coroutine, where speed does not matter.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import msgspec

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

REGION = "us-east-1"
ACCESS_KEY = "bench"
SECRET_KEY = "bench-secret"
_JSON = "application/x-amz-json-1.0"
_FORM = "application/x-www-form-urlencoded; charset=utf-8"
_TOPICS_VERSION = "2010-03-31"

OnAnswer = Callable[[bytes | Exception], None]


class Wrong(Exception):
    """An answer that is not what it must be."""


class Signer:
    """Signature Version 4 for POST requests: AWS JSON to SQS, and AWS Query to SNS.

    A signature is valid for five minutes, so requests may be signed before the clock starts.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._day = ""
        self._keys: dict[str, bytes] = {}  # by service

    def request(self, action: str, body: bytes) -> bytes:
        """A whole HTTP request to SQS, signed now."""
        return self._signed("sqs", _JSON, body, f"AmazonSQS.{action}")

    def query(self, action: str, parameters: Mapping[str, str]) -> bytes:
        """A whole HTTP request to SNS, signed now."""
        form = urlencode({"Action": action, "Version": _TOPICS_VERSION, **parameters})
        return self._signed("sns", _FORM, form.encode())

    def _signed(self, service: str, kind: str, body: bytes, target: str | None = None) -> bytes:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{stamp[:8]}/{REGION}/{service}/aws4_request"
        headers = {"Content-Type": kind, "Host": self._host, "X-Amz-Date": stamp}
        if target is not None:
            headers["X-Amz-Target"] = target
        names = ";".join(headers).lower()
        lines = "".join(f"{name.lower()}:{value}\n" for name, value in headers.items())
        canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        signed = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode()
        signature = hmac.digest(self._key_of(stamp[:8], service), signed, "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        headers["Content-Length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST / HTTP/1.1\r\n{head}\r\n".encode() + body

    def _key_of(self, day: str, service: str) -> bytes:
        if day != self._day:
            self._day, self._keys = day, {}
        if service not in self._keys:
            key = f"AWS4{SECRET_KEY}".encode()
            for part in (day, REGION, service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._keys[service] = key
        return self._keys[service]


class Connection(asyncio.Protocol):
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.signer = Signer(f"{host}:{port}")
        self._buffer = b""
        self._on_answer: OnAnswer | None = None
        self._transport: asyncio.Transport
        self._reusable = False
        self._reconnecting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._buffer = b""
        await asyncio.get_running_loop().create_connection(lambda: self, self._host, self._port)
        self._reusable = True

    @property
    def local_port(self) -> int:
        port: int = self._transport.get_extra_info("sockname")[1]
        return port

    def send(self, request: bytes, on_answer: OnAnswer) -> None:
        assert self._on_answer is None, "one request at a time"
        self._on_answer = on_answer
        if self._reusable:
            self._transport.write(request)
        else:  # the server closes its connections after an answer
            self._reconnecting = asyncio.ensure_future(self._reconnect_and_send(request))

    async def call(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """Calls an action of SQS."""
        body = await self._answer(self.signer.request(action, encode(request)))
        return cast("dict[str, Any]", _decode(body)) if body else {}

    async def query(self, action: str, parameters: Mapping[str, str]) -> str:
        """Calls an action of SNS. Returns the XML."""
        return (await self._answer(self.signer.query(action, parameters))).decode()

    async def _answer(self, request: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def done(body: bytes | Exception) -> None:
            if answer.done():
                return  # the caller was cancelled
            if isinstance(body, Exception):
                answer.set_exception(body)
            else:
                answer.set_result(body)

        self.send(request, done)
        return await answer

    def close(self) -> None:
        self._on_answer = None
        self._transport.close()

    async def _reconnect_and_send(self, request: bytes) -> None:
        try:
            await self.open()
        except OSError as error:
            self._finish(error)
        else:
            self._transport.write(request)

    def _finish(self, outcome: bytes | Exception) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(outcome)

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._reusable:
            self._reusable = False
            self._finish(error or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        body = _body(head, self._buffer, head_end + 4)
        if body is None:
            return
        self._buffer = b""
        if head.startswith(b"http/1.0") or b"\r\nconnection: close" in head:
            self._reusable = False
            self._transport.close()
        if head[9:12] == b"200":
            self._finish(body)
        else:
            self._finish(Wrong(f"status {head[9:12].decode()}: {body[:300].decode(errors='replace')}"))


def _body(head: bytes, buffer: bytes, start: int) -> bytes | None:
    """The answer's body once it is complete."""
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        end = start + int(head[at + 17 :].partition(b"\r\n")[0])
        return buffer[start:end] if len(buffer) >= end else None
    if not buffer.endswith(b"0\r\n\r\n"):  # chunked, as some frameworks answer
        return None
    body = b""
    while True:
        size, _, rest = buffer[start:].partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if length == 0:
            return body
        body += rest[:length]
        start += len(size) + 2 + length + 2


async def connect(place: str | int) -> Connection:
    """``place`` is an endpoint's URL, or a port of this machine."""
    if isinstance(place, int):
        place = f"http://127.0.0.1:{place}"
    parts = urlsplit(place)
    connection = Connection(parts.hostname or "127.0.0.1", parts.port or 80)
    await connection.open()
    return connection


async def together(place: str | int, count: int, work: Callable[[Connection, int], Awaitable[None]]) -> None:
    """Run ``work`` on ``count`` connections at once; the first failure ends all."""
    connections = [await connect(place) for _ in range(count)]
    try:
        async with asyncio.TaskGroup() as group:
            for i, connection in enumerate(connections):
                group.create_task(_awaited(work(connection, i)))
    except* (Wrong, OSError) as failures:
        raise failures.exceptions[0] from None
    finally:
        for connection in connections:
            connection.close()


async def _awaited(work: Awaitable[None]) -> None:
    await work


def batches(total: int, size: int = 10) -> Iterable[range]:
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
