"""A listener on a loopback port with a dispatcher that the test controls, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from penstock.names import Space
from penstock.server.callers import OpenCallers
from penstock.server.client_addresses import ClientAddresses
from penstock.server.health import Health
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.server.routes import RequestHandlers, Routes
from penstock.server.web_pages import Cors
from penstock.wire.dispatch import refusal
from penstock.wire.service import Call, Response

HOME = Space("000000000000", "us-east-1")
QUICK = HttpLimits(idle_s=0.3, head_s=0.3, body_s=0.3, write_s=0.3, linger_s=0.3)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), 20)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())


class Dispatched:
    """A request that reached the dispatcher and waits for the test to respond."""

    def __init__(self, target: str | None, body: bytes, call: Call, done: Callable[[Response], None]) -> None:
        self.target = target
        self.body = body
        self.call = call
        self.respond = done

    def answer(self, body: bytes = b"{}", status: int = 200) -> None:
        request_id = (b"x-amzn-RequestId", self.call.request_id.encode())
        self.respond(Response(status, [(b"Content-Type", b"application/x-amz-json-1.0"), request_id], body))


class FakeDispatcher:
    """Echoes the target and the body at once; ``unanswered`` targets wait for :meth:`Dispatched.answer` instead."""

    def __init__(self) -> None:
        self.unanswered: set[str | None] = set()
        self.takes_s = 0.0  # of the event loop's time
        self.seen: list[Dispatched] = []
        self._arrived = asyncio.Event()

    def answer(self, request: Request, call: Call, done: Callable[[Response], None]) -> None:
        if call.page_refusal is not None:  # none of its actions is a link
            done(refusal(call.page_refusal, call.request_id, request))
            return
        target = request.headers[b"x-amz-target"].decode() if b"x-amz-target" in request.headers else None
        body = request.body
        dispatched = Dispatched(target, body, call, done)
        self.seen.append(dispatched)
        self._arrived.set()
        if self.takes_s:
            time.sleep(self.takes_s)
        if target not in self.unanswered:
            dispatched.answer(json.dumps({"target": target, "length": len(body)}).encode())

    async def arrival(self, count: int = 1) -> Dispatched:
        while len(self.seen) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.seen[count - 1]


class Running:
    def __init__(
        self, listener: Listener, dispatcher: FakeDispatcher, health: Health, port: int, host: str
    ) -> None:
        self.listener = listener
        self.dispatcher = dispatcher
        self.health = health
        self.port = port
        self.host = host

    async def connect(self, tls: ssl.SSLContext | None = None) -> Client:
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=tls, server_hostname=name)
        return Client(reader, writer)

    async def ask(self, request: bytes) -> Received:
        client = await self.connect()
        client.send(request)
        response = await client.response(head_only=request.startswith(b"HEAD"))
        client.close()
        return response


class Received:
    """A response as the client has it."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Received:
        """The status and the headers; what follows is still to be read."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in filter(None, lines[1:]):
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, f"{name} was sent twice"
            headers[name.lower()] = value
        return Received(int(lines[0].split(" ")[1]), headers, b"")

    async def response(self, *, head_only: bool = False) -> Received:
        head = await self.head()
        length = 0 if head_only or head.status == 100 else int(head.headers["content-length"])
        return Received(head.status, head.headers, await self._reader.readexactly(length))

    async def line(self) -> bytes:
        return await self._reader.readuntil(b"\r\n")

    async def exactly(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    async def at_end(self) -> bool:
        """Wait for the server to close; False if it sends something instead."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()


@asynccontextmanager
async def serving(
    limits: HttpLimits | None = None,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    origins: Origins | None = None,
    cors: Cors | None = None,
    clients: ClientAddresses | None = None,
    **more: Any,
) -> AsyncIterator[Running]:
    dispatcher, health = FakeDispatcher(), Health(["test"])
    origins = origins or Origins(None, ())
    routes = Routes(
        **{
            "callers": OpenCallers(HOME, origins),
            "origins": origins,
            "cors": cors or Cors(()),
            "health": health,
            **more,
        }
    )
    routes.open(RequestHandlers(dispatcher.answer))
    listener = Listener(routes.serve, limits or HttpLimits(), clients, is_health_check=routes.is_health_check)
    port = await listener.listen(host, 0, tls)
    try:
        yield Running(listener, dispatcher, health, port, host)
    finally:
        await listener.close(grace_s=0.05)


def post(target: str = "AmazonSQS.Echo", body: bytes = b"{}", *headers: bytes, path: bytes = b"/") -> bytes:
    lines = [
        b"POST %b HTTP/1.1" % path,
        b"Host: queues.test:9324",
        b"X-Amz-Target: " + target.encode(),
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join([*lines, b"", body])


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: queues.test:9324", *headers, "", ""]).encode()


def peer() -> Peer:
    return Peer("10.1.2.3", "http", "127.0.0.1:9324")


def made_request(target: bytes = b"/", *, by: Peer | None = None, **headers: str) -> Request:
    made = Request(by or peer())
    made.method = b"POST"
    made.target = target
    made.headers = {
        name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()
    }
    return made


def signed(credential: str) -> str:
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=00"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens at the other end of a socket."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
