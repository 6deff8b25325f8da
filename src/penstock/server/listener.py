"""The open doors: accepts connections, keeps them within limits, and closes them in good order.

One sweep looks at all deadlines. Ten thousand idle connections cost it a millisecond a second; a timer for
each would be set and cancelled with every request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from penstock.server.connection import NEVER, Await, Connection
from penstock.server.http_limits import HttpLimits
from penstock.server.reader import Buffered
from penstock.server.request import Refusal, Request
from penstock.wire.dispatch import Answer

Serve = Callable[[Request, Callable[[Answer], None]], None]
"""Answers a request: calls back exactly once, at once or later, and never raises."""


class Listener:
    def __init__(self, serve: Serve, limits: HttpLimits) -> None:
        self.serve = serve
        self.limits = limits
        self.buffered = Buffered()
        self.stopping = False
        self.now: Callable[[], float]
        self.patience = {
            Await.REQUEST: limits.idle_s,
            Await.HEAD: limits.head_s,
            Await.BODY: limits.body_s,
            Await.ANSWER: NEVER,
            Await.WRITE: limits.write_s,
            Await.HANG_UP: limits.linger_s,
        }
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Open a door, one more each time; answers its port, a free one if 0 was asked for. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.now = loop.time
        handshake_s = self.limits.head_s if tls is not None else None
        server = await loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, ssl_handshake_timeout=handshake_s, backlog=1024
        )
        self._servers.append(server)
        if len(self._servers) == 1:
            self._sweep()
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def admit(self, connection: Connection) -> Refusal | None:
        self._connections.add(connection)
        self._empty.clear()
        if self.stopping:
            return Refusal(503, "The server is stopping.")
        if len(self._connections) > self.limits.connections_max:
            return Refusal(503, "Too many connections. Please try again.")
        return None

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def stop_accepting(self) -> None:
        """No new connections; those at rest close, the others after the answer they wait for."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.wind_down()

    async def close(self, grace_s: float) -> None:
        """Wait until the last answers are read, but no longer than that."""
        self.stop_accepting()
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._empty.wait()  # every connection learns of its end, and so does what it was serving
        self._sweeper.cancel()

    def _sweep(self) -> None:
        now = self.now()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.expire()
        self._sweeper = asyncio.get_running_loop().call_later(self.limits.sweep_s, self._sweep)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Raises OSError (of which ssl.SSLError is one) if the files cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context
