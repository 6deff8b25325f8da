"""Nodes with a real HTTP listener and real links between them, and a dispatcher that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cluster.links import QUICK, SECRET
from penstock.cluster.accepting import LinkListener
from penstock.cluster.channel import LinkLimits
from penstock.cluster.forwarding import Forwarder, ForwardLimits
from penstock.cluster.link import Peers
from penstock.server.callers import OpenCallers
from penstock.server.health import Health
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.server.routes import RequestHandlers, Routes
from penstock.server.web_pages import Cors
from penstock.wire.service import Call, Response
from support.harness import HOME, Client, Dispatched, Received, until

WAIT = ForwardLimits(wait_s=0.6, pause_s_min=0.01, pause_s_max=0.05)


class MovingOwners:
    """The test says who owns what."""

    def __init__(self) -> None:
        self.shards = 8
        self.addresses: dict[int, str] = {}
        self.refreshed: list[int] = []
        self.on_refresh: Callable[[int], None] | None = None

    def address_of(self, shard: int) -> str | None:
        return self.addresses.get(shard)

    async def refresh(self, shard: int) -> None:
        self.refreshed.append(shard)
        if self.on_refresh is not None:
            self.on_refresh(shard)


class SeenRequest(Dispatched):
    """A request with all that the dispatcher got."""

    def __init__(self, request: Request, call: Call, done: Callable[[Response], None]) -> None:
        super().__init__(None, request.body, call, done)
        self.method, self.target_path, self.headers = request.method, request.target, dict(request.headers)
        self.raw_headers = request.raw_headers
        self.peer = request.peer
        self.respond = done


class Node:
    def __init__(self, limits: LinkLimits, wait: ForwardLimits) -> None:
        self.owned: set[int] = set()
        self.owners = MovingOwners()
        self.seen: list[SeenRequest] = []
        self.answers: Callable[[SeenRequest], None] | None = lambda seen: seen.answer(
            b"answered: " + seen.body
        )
        self.links = LinkListener(SECRET, limits)
        self.peers = Peers(SECRET, limits)
        origins = Origins(None, ())
        self.health = Health()
        self.routes = Routes(
            callers=OpenCallers(HOME, origins), origins=origins, cors=Cors(()), health=self.health
        )
        self.hint: int | None = None  # the shard that the node expects every request to be for
        self._wait = wait
        self.http = Listener(self.routes.serve, HttpLimits(), None, self.routes.is_health_check)
        self.forwarder: Forwarder
        self.address = ""
        self.port = 0

    async def start(self) -> None:
        self.address = await self.links.listen("127.0.0.1:0")
        self.port = await self.http.listen("127.0.0.1", 0, None)
        self.peers.start()
        self.forwarder = Forwarder(
            self.address, self.owners, self.owned, self.peers, self.routes.serve_passed_on,
            hint=lambda request: self.hint, limits=self._wait,
        )  # fmt: skip
        self.forwarder.listen(self.links)
        self.routes.open(RequestHandlers(self._dispatch, forwarder=self.forwarder))

    def _dispatch(self, request: Request, call: Call, done: Callable[[Response], None]) -> None:
        """Does as the real one: a request whose shard is not ours is passed on before anything is decided."""
        shard = int(request.headers.get(b"x-shard", b"0"))
        if shard not in self.owned:
            self.forwarder.pass_on(request, done, shard)
            return
        seen = SeenRequest(request, call, done)
        self.seen.append(seen)
        if self.answers is not None:
            self.answers(seen)

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))

    async def ask(self, request: bytes) -> Received:
        client = await self.connect()
        client.send(request)
        response = await client.response()
        client.close()
        return response

    async def arrival(self, count: int = 1) -> SeenRequest:
        await until(lambda: len(self.seen) >= count)
        return self.seen[count - 1]

    async def close(self) -> None:
        await self.http.close(0)
        self.peers.close()
        await self.links.close(0)


@asynccontextmanager
async def nodes(
    count: int = 2, *, limits: LinkLimits = QUICK, wait: ForwardLimits = WAIT
) -> AsyncIterator[list[Node]]:
    """Node n owns shard n, and all know it."""
    made = [Node(limits, wait) for _ in range(count)]
    for number, node in enumerate(made):
        await node.start()
        node.owned.add(number)
    for node in made:
        node.owners.addresses = {number: each.address for number, each in enumerate(made)}
    try:
        yield made
    finally:
        for node in made:
            await node.close()


def for_shard(shard: int, body: bytes = b"body", *headers: bytes, path: bytes = b"/") -> bytes:
    lines = [
        b"POST %b HTTP/1.1" % path,
        b"Host: queues.test:9324",
        b"X-Amz-Target: AmazonSQS.Echo",
        b"X-Shard: %d" % shard,
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join([*lines, b"", body])


def move(to: Node, shard: int, all_nodes: list[Node], *, known: bool = True) -> None:
    for node in all_nodes:
        node.owned.discard(shard)
        if known:
            node.owners.addresses[shard] = to.address
    to.owned.add(shard)
