"""The open doors: takes callers in, keeps them within limits, and lets them go in good order.

A caller counts from the moment it is accepted: one that never finishes its TLS handshake, too.

One sweep looks at all deadlines. Ten thousand idle connections cost it a millisecond a second; a timer for
each would be set and cancelled with every request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from penstock.server.client_addresses import ClientAddresses
from penstock.server.http.connection import NEVER, Await, Connection
from penstock.server.http.door import Door, open_door
from penstock.server.http.limits import HttpLimits
from penstock.server.http.load_shedding import Held, choose
from penstock.server.http.parser import Buffered
from penstock.server.http.request import Refusal, Request
from penstock.wire.dispatch import Answer

log = logging.getLogger("penstock.http")

Serve = Callable[[Request, Callable[[Answer], None]], None]
"""Answers a request: calls back exactly once, at once or later, and never raises."""


class Listener:
    def __init__(self, serve: Serve, limits: HttpLimits, neighbours: ClientAddresses | None = None) -> None:
        self.serve = serve
        self.limits = limits
        self.buffered = Buffered()
        self.stopping = False
        self.tls: ssl.SSLContext | None = None
        """Looked at for each caller anew: another context here counts for those to come."""
        self.now: Callable[[], float]
        self.patience = {
            Await.REQUEST: limits.idle_s,
            Await.HEAD: limits.head_s,
            Await.BODY: limits.body_s,
            Await.ANSWER: NEVER,
            Await.WRITE: limits.write_s,
            Await.HANG_UP: limits.linger_s,
        }
        self._neighbours = neighbours or ClientAddresses()
        self._doors: list[Door] = []
        self._arriving: dict[Connection, str | None] = {}  # accepted, not yet ready to speak HTTP, by client
        self._connections: dict[Connection, str | None] = {}
        self._by_client: dict[str, int] = {}  # how many of both
        self._welcomes: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Open a door, one more each time; answers its port, a free one if 0 was asked for. Raises OSError."""
        self.now = asyncio.get_running_loop().time
        self.tls = tls
        door = await open_door(host, port, self._accepted)
        self._doors.append(door)
        if len(self._doors) == 1:
            self._sweep()
        return door.port

    # Coming and going.

    def _accepted(self, caller: socket.socket, address: str) -> None:
        client = self._neighbours.client_of(address)
        connection = Connection(self, address)
        self._arriving[connection] = client
        self._empty.clear()
        if client is not None:
            self._by_client[client] = self._by_client.get(client, 0) + 1
        if self.tls is not None and self._refusal(client) is not None:
            caller.close()  # words would need a handshake first, which is what there are too many of
            self._left(self._arriving.pop(connection))
            return
        welcome = asyncio.get_running_loop().create_task(self._welcome(caller, connection, address))
        self._welcomes.add(welcome)
        welcome.add_done_callback(partial(self._welcomed, caller, connection))

    async def _welcome(self, caller: socket.socket, connection: Connection, address: str) -> None:
        """Until the connection can speak HTTP, which it is told itself."""
        tls = self.tls
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, caller, ssl=tls,
                ssl_handshake_timeout=self.limits.head_s if tls is not None else None,
            )  # fmt: skip
        except (OSError, asyncio.CancelledError) as error:  # time-outs and what TLS says are OSErrors too
            log.debug("no connection with %s: %s", address, error or type(error).__name__)

    def _welcomed(self, caller: socket.socket, connection: Connection, welcome: asyncio.Task[None]) -> None:
        """Not a part of the task: one that is cancelled before its first step does nothing at all."""
        self._welcomes.discard(welcome)
        if connection in self._arriving:
            caller.close()
            self._left(self._arriving.pop(connection))

    def admit(self, connection: Connection) -> Refusal | None:
        client = self._connections[connection] = self._arriving.pop(connection, None)
        self._empty.clear()
        return self._refusal(client)

    def _refusal(self, client: str | None) -> Refusal | None:
        if self.stopping:
            return Refusal(503, "The server is stopping.")
        if len(self._connections) + len(self._arriving) > self.limits.connections_max:
            return Refusal(503, "Too many connections. Please try again.")
        most = self.limits.connections_per_address_max
        if client is not None and most and self._by_client[client] > most:
            return Refusal(503, "Too many connections from your address. Please try again.")
        return None

    def forget(self, connection: Connection) -> None:
        self._left(self._connections.pop(connection))

    def _left(self, client: str | None) -> None:
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
        if not self._connections and not self._arriving:
            self._empty.set()

    # The end.

    def stop_accepting(self) -> None:
        """No new connections; those at rest close, the others after the answer they wait for."""
        self.stopping = True
        for door in self._doors:
            door.close()
        if self.tls is not None:  # without a handshake they are over at once, and are told what goes on
            for welcome in list(self._welcomes):
                welcome.cancel()
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

    # Keeping within limits.

    def shed_bodies(self) -> None:
        """More is held of requests that do not run yet than may: some are refused. Not down to the last byte, or it
        would begin again with the next one."""
        most = self.limits.buffered_bytes_max
        holdings = [Held(each, client, each.held_bytes) for each, client in self._connections.items()]
        for connection in choose(holdings, self.buffered.bytes - most * 7 // 8):
            connection.refuse(Refusal(503, "Too many large requests at once. Please try again."))

    def shed_answers(self) -> None:
        """Clients that are slow to read may hold so much of our memory together, and no more."""
        slow = [Held(each, client, each.unread_bytes) for each, client in self._connections.items()]
        for connection in choose(slow, sum(held.bytes for held in slow) - self.limits.buffered_bytes_max):
            connection.abort()

    def _sweep(self) -> None:
        now = self.now()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.expire()
        self.shed_answers()
        self._sweeper = asyncio.get_running_loop().call_later(self.limits.sweep_s, self._sweep)
