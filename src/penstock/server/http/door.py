"""One address the server listens on: its sockets, and taking callers in.

We accept ourselves instead of leaving it to the event loop's server, which shows a caller only when its TLS
handshake is done: those that never finish one would count nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 64  # then the connections that are open have their turn
_PAUSE_S = 1.0

log = logging.getLogger("penstock.http")

Welcome = Callable[[socket.socket, str], None]
"""Takes a caller's socket, not blocking, and its address."""


class Door:
    def __init__(self, sockets: list[socket.socket], welcome: Welcome) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._welcome = welcome
        self._pause: asyncio.TimerHandle | None = None
        self._open()

    @property
    def port(self) -> int:
        port: int = self._sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    def _open(self) -> None:
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                caller, address = listening.accept()
                caller.setblocking(False)
            except BlockingIOError:
                return
            except ConnectionError:  # it left while it was in line
                continue
            except OSError as error:
                self._rest(error)
                return
            if not address:  # macOS: of one that was reset before we looked
                caller.close()
                continue
            self._welcome(caller, address[0])

    def _rest(self, error: OSError) -> None:
        """No more open files, or the like: the socket stays ready, and trying again at once would not help."""
        log.error("cannot accept connections, trying again in a second: %s", error.strerror or error)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._pause = self._loop.call_later(_PAUSE_S, self._open)


async def open_door(host: str, port: int, welcome: Welcome) -> Door:
    """Listen on every address that the host has; a free port, the same for all, if 0 is asked for. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # Else :: would take the port of 0.0.0.0 too, where both are to be listened on.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind((address[0], port, *address[2:]))
            listening.listen(_BACKLOG)
            port = listening.getsockname()[1]
        return Door(sockets, welcome)
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
