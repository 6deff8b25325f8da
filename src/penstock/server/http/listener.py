"""Listening sockets and the connections they accept: limits, deadlines, load shedding, orderly stop.

Connections are accepted here instead of by the event loop's server, which shows a connection only when its TLS
handshake is done: a connection counts from the moment it is accepted.

Which connection gives way when there are too many is decided in :mod:`penstock.server.http.load_shedding`.

One tick checks all deadlines and provides a coarse clock: ten thousand idle connections cost it a millisecond a
second, and a request sets no timer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from penstock.server.client_addresses import ClientAddresses
from penstock.server.http.connection import (
    CLOSING,
    DRAIN,
    IDLE,
    NEVER,
    READ_BODY,
    READ_HEAD,
    RESPOND,
    Connection,
)
from penstock.server.http.limits import HttpLimits
from penstock.server.http.load_shedding import Admission, MemoryUse, admission, choose_victims
from penstock.server.http.request import HttpError, Request
from penstock.server.http.request_turns import RequestTurns
from penstock.server.http.response import DateHeader

_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 64  # then the open connections have their turn
_ACCEPT_PAUSE_S = 1.0
_LOG_REFUSED_S = 60.0

log = logging.getLogger("penstock.http")

Serve = Callable[[Request], None]
"""Calls ``request.respond`` exactly once, at once or later, and never raises."""


class Listener:
    def __init__(
        self,
        serve: Serve,
        limits: HttpLimits,
        clients: ClientAddresses | None = None,
        is_health_check: Callable[[Request], bool] = lambda request: False,
    ) -> None:
        self.serve = serve
        self.limits = limits
        self.is_health_check = is_health_check
        self.tls: ssl.SSLContext | None = None
        """The context that each new connection uses: another one may be set at any time."""
        self.stopping = False
        self.closes_after_response = False
        self.buffered_bytes = 0  # of requests of all connections that do not run yet
        self.date = DateHeader()
        self.turns = RequestTurns()
        self.deadlines: list[float]
        """The deadlines of a connection that begins to wait now, by what it waits for."""
        self._clients = clients or ClientAddresses()
        self._sockets: list[socket.socket] = []
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}  # with the task that sets it up
        # Those that sent no whole request yet, oldest first, and since when.
        self._silent: dict[Connection, float] = {}
        self._by_client: dict[str, int] = {}
        self._shedding = False
        self._refused = self._displaced = 0  # since they were last logged
        self.accepted_total = self.refused_total = self.displaced_total = 0
        self._log_refused_at = 0.0
        self._accept_pause: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._read_clock()

    # Accepting.

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on one more address; returns its port, a free one if 0 is given. Raises OSError."""
        opened = await open_sockets(host, port)
        self.accept(opened, tls)
        bound: int = opened[0].getsockname()[1]
        return bound

    def accept(self, listening: list[socket.socket], tls: ssl.SSLContext | None) -> None:
        """Accept connections from sockets that listen already."""
        self.tls = tls
        self._sockets += listening
        self._accept_from(listening)
        if self._ticker is None:
            self._tick()

    def _accept_from(self, sockets: list[socket.socket]) -> None:
        for listening in sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
                accepted.setblocking(False)
            except BlockingIOError:
                return
            except ConnectionError:  # it was reset while it waited to be accepted
                continue
            except OSError as error:
                self._pause_accepting(error)
                return
            if not address:  # macOS, if it was reset just now
                accepted.close()
                continue
            self._add(accepted, address[0])

    def _pause_accepting(self, error: OSError) -> None:
        """Pause, because there are no more open files, or the like. The socket stays readable, and the next try
        would fail too."""
        log.error("cannot accept connections, trying again in a second: %s", error.strerror or error)
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        self._accept_pause = loop.call_later(_ACCEPT_PAUSE_S, self._accept_from, self._sockets)

    def _add(self, accepted: socket.socket, address: str) -> None:
        self.accepted_total += 1
        client = self._clients.client_of(address)
        connection = Connection(self, address, client)
        self._admit(connection)
        if connection.refused is not None and self.tls is not None:
            accepted.close()  # a response would need a handshake, which costs more than the response
            return
        if client is not None:
            self._by_client[client] = self._by_client.get(client, 0) + 1
        task = asyncio.get_running_loop().create_task(self._connect(accepted, connection))
        self._connections[connection] = task
        self._empty.clear()
        if connection.refused is None:
            self._silent[connection] = monotonic()
        task.add_done_callback(partial(self._connect_ended, accepted, connection))

    def _admit(self, connection: Connection) -> None:
        """Decide whether it is refused, reserved, or takes the place of another."""
        if self.stopping:
            connection.refused = HttpError(503, "The server is stopping.")
            return
        client, oldest = connection.client, next(iter(self._silent), None)
        if oldest is not None and self._silent[oldest] + self.limits.silent_s > monotonic():
            oldest = None  # its request may be there, and only not read yet
        match admission(
            self.limits,
            len(self._connections),
            None if client is None else self._by_client.get(client, 0),
            None if oldest is None else oldest.reserved,
        ):
            case Admission.RESERVED:
                connection.reserved = True
            case Admission.DISPLACES:
                assert oldest is not None
                connection.reserved = oldest.reserved
                self._displace(oldest)
            case Admission.CLIENT_REFUSED:
                connection.refused = HttpError(
                    503, "Too many connections from your address. Please try again."
                )
                self.count_refused()
            case Admission.REFUSED:
                connection.refused = HttpError(503, "Too many connections. Please try again.")
                self.count_refused()

    def _displace(self, connection: Connection) -> None:
        self._displaced += 1
        self.displaced_total += 1
        task = self._connections[connection]
        self._forget(connection)
        if task is not None:
            task.cancel()
        else:
            connection.abort()

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        """Runs until the connection can speak HTTP: it calls :meth:`connected`."""
        tls = self.tls
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=tls,
                ssl_handshake_timeout=self.limits.head_s if tls is not None else None,
            )  # fmt: skip
        except (OSError, asyncio.CancelledError) as error:  # time-outs and TLS errors are OSErrors
            log.debug("a connection failed before its first request: %s", error or type(error).__name__)

    def _connect_ended(
        self, accepted: socket.socket, connection: Connection, task: asyncio.Task[None]
    ) -> None:
        """Closes what did not become a connection. The task itself cannot: if it is cancelled before its first
        step, it does nothing."""
        if self._connections.get(connection, task) is task:
            accepted.close()
            self._forget(connection)

    def connected(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections[connection] = None
        else:  # it was displaced meanwhile
            connection.abort()

    def first_request(self, connection: Connection) -> None:
        self._silent.pop(connection, None)

    def disconnected(self, connection: Connection) -> None:
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        self._silent.pop(connection, None)
        client = connection.client
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
        if not self._connections:
            self._empty.set()

    # Stopping.

    async def retire(self, idle_s: float, grace_s: float) -> None:
        """Hand the listening sockets over to another process without failing a request: each connection is closed
        with its next response, or after ``idle_s`` without a request."""
        self.close_sockets()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), idle_s)
        await self.close(grace_s)

    def close_sockets(self) -> None:
        """Take no new connections. The open ones stay, each until its next response."""
        self.closes_after_response = True
        if self._accept_pause is not None:
            self._accept_pause.cancel()
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._sockets = []

    def stop_accepting(self) -> None:
        """Take no new connections. Idle ones close, the others after the response they wait for."""
        self.stopping = True
        self.close_sockets()
        for connection, task in list(self._connections.items()):
            if task is None:
                connection.stop()
            elif self.tls is not None:  # without a handshake it is connected at once, and is refused then
                task.cancel()

    async def close(self, grace_s: float) -> None:
        """Wait until the last responses are read, at most for ``grace_s``."""
        self.stop_accepting()
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            for connection, task in list(self._connections.items()):
                if task is None:
                    connection.abort()
                else:
                    task.cancel()
            await self._empty.wait()  # every connection, and what it was serving, learns of its end
        if self._ticker is not None:
            self._ticker.cancel()

    # Limits.

    def shed_requests(self) -> None:
        """Too much is buffered of requests that do not run yet. Some more is freed, or the next request would do the
        same again."""
        if self._shedding:
            return
        self._shedding = True
        try:
            excess = self.buffered_bytes - self.limits.buffered_bytes_max * 7 // 8
            uses = [MemoryUse(each, each.client, each.buffered_bytes) for each in self._connections]
            for connection in choose_victims(uses, excess):
                connection.give_up(HttpError(503, "Too many large requests at once. Please try again."))
        finally:
            self._shedding = False

    def shed_responses(self) -> None:
        """Clients that are slow to read may hold so much memory together, and no more."""
        slow = [
            MemoryUse(each, each.client, each.unread_bytes)
            for each, task in self._connections.items()
            if task is None
        ]
        excess = sum(use.bytes for use in slow) - self.limits.buffered_bytes_max
        for connection in choose_victims(slow, excess):
            connection.abort()

    def count_refused(self) -> None:
        self._refused += 1
        self.refused_total += 1

    # The clock.

    def _tick(self) -> None:
        late_s = monotonic() - self._now - 2 * self.limits.tick_s
        self._read_clock()
        if late_s > 0:
            # The process was suspended, or the loop was busy: that is no fault of the clients.
            for connection in self._connections:
                connection.deadline += late_s
        for connection in [each for each in self._connections if each.deadline <= self._now]:
            connection.expire()
        self.shed_responses()
        self._log_refused()
        self._ticker = asyncio.get_running_loop().call_later(self.limits.tick_s, self._tick)

    def _read_clock(self) -> None:
        limits = self.limits
        self._now = now = monotonic()
        self.deadlines = [0.0] * 6
        self.deadlines[IDLE] = now + limits.idle_s
        self.deadlines[READ_HEAD] = now + limits.head_s
        self.deadlines[READ_BODY] = now + limits.body_s
        self.deadlines[RESPOND] = NEVER
        self.deadlines[DRAIN] = now + limits.write_s
        self.deadlines[CLOSING] = now + limits.linger_s
        self.date.update()
        self.log_requests = log.isEnabledFor(logging.DEBUG)

    def _log_refused(self) -> None:
        if (self._refused or self._displaced) and self._now >= self._log_refused_at:
            log.warning(
                "too many connections: refused %d and closed %d that sent no request (max_connections is %d, "
                "max_connections_per_address is %d)",
                self._refused, self._displaced, self.limits.connections_max, self.limits.connections_per_address_max,
            )  # fmt: skip
            self._refused = self._displaced = 0
            self._log_refused_at = self._now + _LOG_REFUSED_S


async def open_sockets(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Listen on every address of the host; with port 0 on a free port, the same for all. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                # Otherwise :: would take the port of 0.0.0.0, too.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind((address[0], port, *address[2:]))
            listening.listen(_BACKLOG)
            port = listening.getsockname()[1]
        return sockets
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
