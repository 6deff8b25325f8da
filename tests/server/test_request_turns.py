"""Whose request runs next on a busy server: verified callers first, clients in rotation, and nobody waits for ever.

No sockets and no clock: each request here says itself how much of a turn it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from penstock.server.http.connection import Connection
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Request
from penstock.server.http.request_turns import SIGNED, UNSIGNED, VERIFIED, RequestTurns
from penstock.turns import TURN_S
from penstock.wire.service import Response
from support.harness import post


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def turn() -> None:
    """What was called soon before this has run."""
    await asyncio.sleep(0)


class Job:
    """One request that waits in line."""

    def __init__(self, name: str, turns: RequestTurns, served: list[str], takes: float = 0.6) -> None:
        self.name, self._turns, self._served, self._takes = name, turns, served, takes

    def take_turn(self) -> None:
        self._served.append(self.name)
        self._turns.left_s -= self._takes * TURN_S


def test_clients_of_one_rank_are_served_in_rotation() -> None:
    async def scenario() -> None:
        turns, served = RequestTurns(), list[str]()
        turns.end()
        for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
            turns.wait(Job(name, turns, served), UNSIGNED, name[0])
        while turns.over:
            await turn()
        assert served == ["a1", "b1", "c1", "a2", "b2", "a3"]

    run(scenario)


def test_verified_callers_are_first_and_one_request_of_every_rank_runs_in_each_turn() -> None:
    async def scenario() -> None:
        turns, served = RequestTurns(), list[str]()
        turns.end()
        for number in range(6):
            turns.wait(Job("unsigned", turns, served), UNSIGNED, number)
            turns.wait(Job("signed", turns, served), SIGNED, number)
            turns.wait(Job("verified", turns, served), VERIFIED, number)
        await turn()
        assert served == ["verified", "verified", "signed", "unsigned"]
        await turn()
        assert served[4:] == ["verified", "verified", "signed", "unsigned"]
        while turns.over:
            await turn()
        assert (served.count("unsigned"), served.count("signed"), served.count("verified")) == (6, 6, 6)

    run(scenario)


def test_an_error_of_one_request_does_not_stop_the_lines() -> None:
    class Broken:
        def take_turn(self) -> None:
            raise RuntimeError

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        turns, served = RequestTurns(), list[str]()
        turns.end()
        turns.wait(Broken(), VERIFIED, "a")
        turns.wait(Job("b", turns, served), VERIFIED, "b")
        while turns.over:
            await turn()
        assert served == ["b"]

    run(scenario)


class Wire:
    """A transport without a socket."""

    def __init__(self) -> None:
        self.is_reading = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 9324) if name == "sockname" else default

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        pass


class Busy:
    """A listener whose every request takes half a turn, and the order in which they ran."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.listener = Listener(self._serve, HttpLimits())

    def _serve(self, request: Request) -> None:
        self.served.append(request.headers[b"x-amz-target"].decode())
        self.listener.turns.left_s -= 0.51 * TURN_S
        request.respond(Response(200, []))

    def connect(self, client: str | None = None, verified: str = "") -> Connection:
        connection = Connection(self.listener, "192.0.2.1", client)
        connection.connection_made(cast(asyncio.Transport, Wire()))
        connection._peer.verified = verified
        return connection


def test_a_verified_caller_is_served_in_the_next_turn_however_many_connections_wait() -> None:
    async def scenario() -> None:
        busy = Busy()
        large = b"x" * 57_000
        for number in range(1000):
            busy.connect().data_received(post("unsigned", large if number % 2 else b"{}"))
        before = len(busy.served)
        assert before <= 3, "a turn ends by time, whatever the number of connections"
        busy.connect(verified="alice").data_received(post("alice"))
        busy.connect().data_received(post("new", b"{}", b"Authorization: AWS4-HMAC-SHA256 x"))
        assert busy.served[before:] == []
        await turn()
        assert busy.served[before:] == ["alice", "new", "unsigned"]

    run(scenario)


def test_a_client_gains_nothing_by_many_connections() -> None:
    async def scenario() -> None:
        busy = Busy()
        for _ in range(300):
            busy.connect("198.51.100.1").data_received(post("many"))
        busy.connect("203.0.113.7").data_received(post("one"))
        for _ in range(2):
            await turn()
        assert busy.served.index("one") <= 8

    run(scenario)


def test_what_waits_in_line_counts_as_buffered_and_is_read_no_further() -> None:
    async def scenario() -> None:
        busy = Busy()
        busy.listener.turns.end()
        connection = busy.connect()
        connection.data_received(post("first", b"x" * 57_000))
        assert busy.listener.buffered_bytes >= 57_000
        wire = cast(Any, connection._transport)
        assert not wire.is_reading, "its bytes are not even parsed"
        while busy.listener.turns.over:
            await turn()
        assert (busy.served, busy.listener.buffered_bytes, wire.is_reading) == (["first"], 0, True)

    run(scenario)
