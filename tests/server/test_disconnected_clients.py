"""Clients that disconnect before they are accepted: policies and the audit log still know their address."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any

import pytest

from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Peer, Request
from penstock.wire.service import Response
from support.harness import post, run, until

RESET = struct.pack("ii", 1, 0)


def send_and_reset(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        caller.sendall(post())


def test_a_client_that_resets_at_once_has_an_address() -> None:
    addresses: list[str] = []

    def serve(request: Request) -> None:
        addresses.append(request.peer.address)
        request.respond(Response(200, []))

    async def scenario() -> None:
        listener = Listener(serve, HttpLimits())
        port = await listener.listen("127.0.0.1", 0)
        for _ in range(5):
            send_and_reset(port)  # before the loop runs and accepts it
        if sys.platform == "linux":  # where what was sent before the reset is still read
            await until(lambda: len(addresses) == 5)
        await listener.close(grace_s=1)
        assert set(addresses) <= {"127.0.0.1"}

    run(scenario)


class ListeningSocket:
    """The address of its first connection is lost, because that was reset before it was accepted."""

    def __init__(self, connections: list[tuple[socket.socket, object]]) -> None:
        self._connections = connections

    def accept(self) -> tuple[socket.socket, object]:
        if not self._connections:
            raise BlockingIOError
        return self._connections.pop(0)


def test_a_connection_without_an_address_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        lost, known = socket.socketpair()
        added: list[tuple[socket.socket, str]] = []
        listener = Listener(lambda request: None, HttpLimits())
        monkeypatch.setattr(listener, "_add", lambda accepted, address: added.append((accepted, address)))
        listening: Any = ListeningSocket([(lost, None), (known, ("192.0.2.7", 5))])
        listener._accept(listening)
        assert added == [(known, "192.0.2.7")]
        assert lost.fileno() == -1
        known.close()

    run(scenario)


def test_a_peer_has_an_address() -> None:
    with pytest.raises(AssertionError, match="address"):
        Peer("", "http", "127.0.0.1:9324")
