"""Two ends of a link on a real socket, a proxy that a test can cut or stop, and calls that a test answers itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.cluster.accepting import IncomingCall, LinkListener
from penstock.cluster.channel import LinkLimits
from penstock.cluster.handshake import LinkSecurity
from penstock.cluster.link import Peers
from penstock.promise import Promise
from support.harness import until

SECRET = LinkSecurity(b"a secret that all nodes of a cluster share")
QUICK = LinkLimits(tick_s=0.05, backoff_s_min=0.01, backoff_s_max=0.05)


class Ends:
    """``there`` listens at ``address`` and keeps the calls of kind "keep"; it answers those of kind "echo"."""

    def __init__(self, there: LinkListener, here: Peers, address: str) -> None:
        self.there = there
        self.here = here
        self.address = address
        self.kept: list[IncomingCall] = []

    def call(self, kind: str, payload: bytes = b"") -> Promise[bytes]:
        return self.here.call(self.address, kind, payload)

    async def arrival(self, count: int = 1) -> IncomingCall:
        await until(lambda: len(self.kept) >= count)
        return self.kept[count - 1]


@asynccontextmanager
async def linked(
    address: str | Path = "127.0.0.1:0",
    limits: LinkLimits = QUICK,
    *,
    there: LinkSecurity = SECRET,
    here: LinkSecurity = SECRET,
) -> AsyncIterator[Ends]:
    listener, peers = LinkListener(there, limits), Peers(here, limits)
    ends = Ends(listener, peers, await listener.listen(str(address)))

    async def echo(payload: bytes) -> bytes:
        return payload

    listener.handle("echo", echo)
    listener.handlers["keep"] = ends.kept.append
    peers.start()
    try:
        yield ends
    finally:
        peers.close()
        await listener.close(0)


async def outcome(promise: Promise[bytes]) -> bytes:
    await until(lambda: promise.done)
    return promise.result()


class Proxy:
    """Passes bytes between a client and ``target`` until a test changes that."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server
        self._writers: list[asyncio.StreamWriter] = []
        self._flows = asyncio.Event()
        self._flows.set()
        self.address = ""
        self.seen = bytearray()  # from the client
        self.change_next = False  # one bit of what the client sends next

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        self._flows.set()

    def hold(self) -> None:
        """The connections stay open, and nothing passes."""
        self._flows.clear()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers += [writer, far_writer]
        await asyncio.gather(
            self._pass(reader, far_writer, outgoing=True), self._pass(far_reader, writer, outgoing=False)
        )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, outgoing: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                await self._flows.wait()
                if outgoing:
                    self.seen += data
                    if self.change_next:
                        self.change_next = False
                        data = data[:-1] + bytes([data[-1] ^ 1])
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()
