"""Callers that are gone before we look: policies and the trail still know from where they called."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any

import pytest

from penstock.server.http.door import Door
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Peer, Request
from penstock.wire.dispatch import Answer

from .harness import post, run, until

RESET = struct.pack("ii", 1, 0)


def send_and_reset(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        caller.sendall(post())


def test_a_caller_that_resets_at_once_has_an_address() -> None:
    addresses: list[str] = []

    def serve(request: Request, done: Any) -> None:
        addresses.append(request.peer.address)
        done(Answer(200, [], b""))

    async def scene() -> None:
        listener = Listener(serve, HttpLimits())
        port = await listener.listen("127.0.0.1", 0)
        for _ in range(5):
            send_and_reset(port)  # all of it before the loop has a turn, and anybody accepts
        if sys.platform == "linux":  # where what was sent before the reset is still read
            await until(lambda: len(addresses) == 5)
        await listener.close(grace_s=1)
        assert set(addresses) <= {"127.0.0.1"}

    run(scene)


class Nowhere:
    """A listening socket whose first caller was reset so early that the system forgot where it came from."""

    def __init__(self, callers: list[tuple[socket.socket, object]]) -> None:
        self._callers = callers

    def accept(self) -> tuple[socket.socket, object]:
        if not self._callers:
            raise BlockingIOError
        return self._callers.pop(0)


def test_a_caller_from_nowhere_is_not_let_in() -> None:
    async def scene() -> None:
        nobody, somebody = socket.socketpair()
        welcomed: list[tuple[socket.socket, str]] = []
        door = Door([], lambda caller, address: welcomed.append((caller, address)))
        listening: Any = Nowhere([(nobody, None), (somebody, ("192.0.2.7", 5))])
        door._accept(listening)
        assert welcomed == [(somebody, "192.0.2.7")]
        assert nobody.fileno() == -1, "and closed"
        somebody.close()

    run(scene)


def test_nobody_is_from_nowhere() -> None:
    with pytest.raises(AssertionError, match="somewhere"):
        Peer("", "http", "127.0.0.1:9324")
