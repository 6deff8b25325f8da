"""Mounts: paths that are not a service's, with streamed responses, on raw sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.promise import Promise
from penstock.server.http.limits import HttpLimits
from penstock.server.http.request import HttpError, Request
from penstock.server.routes import Mount, ServiceMount
from penstock.server.web_pages import Cors, WebPageFilter
from penstock.wire.service import Call, Response
from support.harness import HOME, Client, Running, get, post, run, serving, until

TEXT = [(b"Content-Type", b"text/plain")]


async def show(request: Request) -> Response:
    """What the mount received."""
    facts = [request.method.decode(), request.path.decode(), request.query.decode(), len(request.body)]
    return Response(200, TEXT, json.dumps(facts).encode())


class Streams:
    """Responses that come piece by piece; remembers what was sent and how the streams ended."""

    def __init__(self, pieces: list[bytes] | None = None) -> None:
        self._pieces = pieces
        self.sent = 0
        self.ended: list[str] = []

    async def handler(self, request: Request) -> Response:
        return Response(200, TEXT, stream=self._stream())

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            for piece in self._pieces or ():
                self.sent += len(piece)
                yield piece
                await asyncio.sleep(0)
            if self._pieces is None:
                yield b"begun"
                await asyncio.get_running_loop().create_future()
        except (asyncio.CancelledError, GeneratorExit):
            self.ended.append("cancelled")
            raise
        self.ended.append("finished")


async def chunks(client: Client) -> list[bytes]:
    found: list[bytes] = []
    while True:
        size = int((await client.line()).strip(), 16)
        piece = await client.exactly(size + 2)
        if not size:
            return found
        found.append(piece[:-2])


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_all_methods_reach_a_mount(method: str) -> None:
    async def scenario() -> None:
        async with serving(mounts={b"admin": Mount(show)}) as server:
            answer = await server.ask(get("/admin/queues?a=1", method=method))
            assert answer.json() == [method, "/admin/queues", "a=1", 0]
            assert not server.dispatcher.seen

    run(scenario)


def test_a_service_with_an_address_of_its_own_gets_calls_below_it() -> None:
    """Also those of clients that name the action in a header, which pages do not get."""
    seen: list[tuple[bytes, str]] = []

    def dispatch(request: Request, call: Call, done: Callable[[Response], None]) -> None:
        seen.append((request.target, call.space.region))
        done(Response(200, TEXT, b"its own"))

    def accepts(request: Request) -> bool:
        return request.target.startswith(b"/own/address")

    async def scenario() -> None:
        mounts = {b"own": ServiceMount(dispatch, accepts), b"page": Mount(show)}
        async with serving(mounts=mounts) as server:
            for request in (post(path=b"/own/address"), get("/own/address?a=1")):
                assert (await server.ask(request)).body == b"its own"
            assert seen == [(b"/own/address", HOME.region), (b"/own/address?a=1", HOME.region)]
            assert not server.dispatcher.seen
            assert (await server.ask(get("/own/address", method="PUT"))).status == 405
            for elsewhere in (b"/own", b"/page", b"/"):
                await server.ask(post(path=elsewhere))
            assert len(server.dispatcher.seen) == 3 and len(seen) == 2

    run(scenario)


def test_bodies_reach_a_mount_within_the_limits() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(body_bytes_max=50_000), mounts={b"admin": Mount(show)}) as server:
            for size, status in ((50_000, 200), (50_001, 413)):
                head = get("/admin", f"Content-Length: {size}", method="PUT")
                answer = await server.ask(head + b"x" * size)
                assert answer.status == status
                assert status == 413 or answer.json()[-1] == size

    run(scenario)


def test_other_paths_and_requests_of_services_are_not_a_mounts() -> None:
    async def scenario() -> None:
        async with serving(mounts={b"admin": Mount(show)}) as server:
            for request in (get("/administration"), get("/123456789012/admin"), post(path=b"/admin")):
                assert "target" in (await server.ask(request)).json()
            assert len(server.dispatcher.seen) == 3

    run(scenario)


def test_a_mount_may_answer_later_or_fail() -> None:
    async def scenario() -> None:
        later: Promise[None] = Promise()

        async def wait(request: Request) -> Response:
            await later
            return Response(200, TEXT, b"later")

        async def refuse(request: Request) -> Response:
            raise HttpError(409, "Not now.")

        async def fail(request: Request) -> Response:
            raise KeyError("secret")

        mounts = {b"wait": Mount(wait), b"refuse": Mount(refuse), b"fail": Mount(fail)}
        async with serving(mounts=mounts) as server:
            client = await server.connect()
            client.send(get("/wait") + get("/refuse") + get("/fail"))
            await until(lambda: bool(server.listener._connections))
            await asyncio.sleep(0.02)
            later.resolve(None)
            assert (await client.response()).body == b"later"
            assert (await client.response()).status == 409
            failed = await client.response()
            assert failed.status == 500 and b"secret" not in failed.body

    run(scenario)


def test_an_open_server_lets_no_web_page_reach_a_mount() -> None:
    async def scenario() -> None:
        pages = WebPageFilter(Cors(()), None)
        mounts = {b"admin": Mount(show), b"public": Mount(show, for_any_page=True)}
        async with serving(mounts=mounts, pages=pages) as server:
            for path, status in (("/admin", 403), ("/public", 200), ("/health", 200)):
                assert (await server.ask(get(path, "Origin: https://evil.test"))).status == status

    run(scenario)


async def streamed(server: Running, request: bytes) -> tuple[Client, dict[str, str]]:
    client = await server.connect()
    client.send(request)
    head = await client.head()
    assert "content-length" not in head.headers
    return client, head.headers


def test_a_stream_is_sent_in_chunks_and_the_connection_is_kept() -> None:
    async def scenario() -> None:
        streams = Streams([b"one", b"", b"two" * 1000])
        async with serving(mounts={b"s": Mount(streams.handler)}) as server:
            client, headers = await streamed(server, get("/s") + post("After.It"))
            assert headers["transfer-encoding"] == "chunked"
            assert await chunks(client) == [b"one", b"two" * 1000]
            assert (await client.response()).json()["target"] == "After.It"
            assert streams.ended == ["finished"]

    run(scenario)


def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    async def scenario() -> None:
        streams = Streams([b"one", b"two"])
        async with serving(mounts={b"s": Mount(streams.handler)}) as server:
            request = b"GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
            client, headers = await streamed(server, request)
            assert "transfer-encoding" not in headers and headers["connection"] == "close"
            assert await client.exactly(6) == b"onetwo"
            assert await client.at_end()

    run(scenario)


def test_head_of_a_stream_has_no_body() -> None:
    async def scenario() -> None:
        streams = Streams([b"one"])
        async with serving(mounts={b"s": Mount(streams.handler)}) as server:
            client, _ = await streamed(server, get("/s", method="HEAD") + get("/"))
            assert (await client.response()).status == 200
            assert streams.sent == 0

    run(scenario)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_stream_ends_when_the_client_disconnects(how: str) -> None:
    async def scenario() -> None:
        streams = Streams()
        async with serving(mounts={b"s": Mount(streams.handler)}) as server:
            client, _ = await streamed(server, get("/s"))
            assert (await client.line()) == b"5\r\n"
            client.close() if how == "close" else client.reset()
            await until(lambda: streams.ended == ["cancelled"])
            await until(lambda: not server.listener._connections)

    run(scenario)


def test_a_stream_waits_for_a_client_that_does_not_read_and_ends_with_it() -> None:
    async def scenario() -> None:
        streams = Streams([b"x" * 100_000] * 1000)
        async with serving(HttpLimits(write_s=0.3), mounts={b"s": Mount(streams.handler)}) as server:
            sock = socket.create_connection((server.host, server.port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(get("/s"))
            await until(lambda: streams.ended == ["cancelled"])
            assert streams.sent < 20_000_000, "only as much as the socket buffers hold"
            sock.close()

    run(scenario)


def test_a_stream_that_fails_is_cut_off() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise KeyError("secret")

    async def handler(request: Request) -> Response:
        return Response(200, TEXT, stream=broken())

    async def scenario() -> None:
        async with serving(mounts={b"s": Mount(handler)}) as server:
            client, _ = await streamed(server, get("/s"))
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await chunks(client)
            assert (await server.ask(post())).status == 200

    run(scenario)


def test_a_stop_waits_for_a_stream_that_ends() -> None:
    async def scenario() -> None:
        streams = Streams([b"x"] * 50)
        async with serving(mounts={b"s": Mount(streams.handler)}) as server:
            client, _ = await streamed(server, get("/s"))
            closing = asyncio.create_task(server.listener.close(grace_s=5))
            assert len(await chunks(client)) == 50
            assert await client.at_end()
            client.close()
            await asyncio.wait_for(closing, 2)

    run(scenario)
