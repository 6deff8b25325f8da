"""Streams of the web console: however many there are and whatever they ask, others are served, in bounded memory."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, cast

import pytest

from penstock.server.console import Console
from penstock.server.console_sign_outs import EndedSessions
from penstock.server.console_streams import ConsoleStreams, Viewer
from penstock.server.http.limits import HttpLimits
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.services import admin
from penstock.wire.service import Response
from support.harness import HOME, peer, post, run, serving, until

from .test_slow_readers import slow_reader

PER_VIEWER, IN_ALL, AT_ONCE = 50, 500, 4
VIEWER = Viewer("000000000000", "192.0.2.1")
ANOTHER = Viewer("000000000000", "192.0.2.2")
OK = Response(200, [], b'{"queues": []}\n')


class Answers:
    """The admin API, of which a test holds back the answers."""

    def __init__(self, response: Callable[[], Response] = lambda: OK) -> None:
        self.free = asyncio.Event()
        self.asked = self.at_once = self.at_once_max = 0
        self._response = response

    async def ask(self) -> Response:
        self.asked += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await self.free.wait()
        self.at_once -= 1
        return self._response()


async def first(stream: AsyncIterator[bytes]) -> bytes:
    return await anext(stream, b"")


def test_streams_that_begin_at_the_same_time_are_counted() -> None:
    async def scenario() -> None:
        streams, answers = ConsoleStreams(), Answers()
        answers.free.set()
        assert not streams.is_full(VIEWER)
        opened = [streams.changes(VIEWER, answers.ask) for _ in range(2 * PER_VIEWER)]
        events = await asyncio.gather(*[first(each) for each in opened])
        assert sum(event.startswith(b"data: ") for event in events) == PER_VIEWER
        refused = [event for event in events if event.startswith(b"event: refused\n")]
        assert len(refused) == PER_VIEWER
        assert json.loads(refused[0].partition(b"data: ")[2])["code"] == "TooManyStreams"
        assert streams.is_full(VIEWER) and not streams.is_full(ANOTHER)
        for each in opened:
            await close(each)
        assert not streams.is_full(VIEWER)

    asyncio.run(scenario())


class Watching:
    """Viewers that open streams."""

    def __init__(self) -> None:
        self.streams = ConsoleStreams()
        self.answers = Answers()
        self.answers.free.set()
        self.open: dict[Viewer, list[AsyncIterator[bytes]]] = {}

    async def begin(self, viewer: Viewer, count: int = 1) -> int:
        """How many of them got a place."""
        opened = [self.streams.changes(viewer, self.answers.ask) for _ in range(count)]
        self.open.setdefault(viewer, []).extend(opened)
        events = await asyncio.gather(*map(first, opened))
        return sum(event.startswith(b"data: ") for event in events)

    def shares(self) -> dict[Viewer, int]:
        """How many streams of each viewer have not been ended."""
        return {viewer: len(self.streams._open.get(viewer, ())) for viewer in self.open}


def test_who_has_few_streams_gets_a_place_of_who_has_the_most() -> None:
    async def scenario() -> None:
        watching = Watching()
        greedy = [Viewer("", f"192.0.2.{number}") for number in range(10)]
        for each in greedy:
            assert await watching.begin(each, 60) == PER_VIEWER
        others = [Viewer("", f"198.51.100.{number}") for number in range(3)]
        for each in others:
            assert await watching.begin(each, 5) == 5
        shares = watching.shares()
        assert [shares[each] for each in others] == [5, 5, 5]
        assert sum(shares.values()) == IN_ALL
        assert {shares[each] for each in greedy} == {48, 49}, "all of them gave way"
        last = watching.open[greedy[0]][PER_VIEWER - 1]
        assert b"TooManyStreams" in await first(last), "it is told why it ends"
        for _ in range(PER_VIEWER):
            await watching.begin(others[0])
        shares = watching.shares()
        assert shares[others[0]] <= min(shares[each] for each in greedy) + 1, "nobody has more than a share"

    asyncio.run(scenario())


def test_accounts_share_the_places_however_many_addresses_each_has() -> None:
    async def scenario() -> None:
        watching = Watching()
        for number in range(IN_ALL // 5):
            assert await watching.begin(Viewer("111111111111", f"192.0.2.{number}"), 5) == 5
        others = [Viewer("222222222222", f"198.51.100.{number}") for number in range(10)]
        for each in others:
            await watching.begin(each, 40)
        shares = watching.shares()
        assert sum(shares.values()) == IN_ALL
        assert sum(shares[each] for each in others) == IN_ALL // 2
        assert {shares[each] for each in others} == {25}
        assert await watching.begin(Viewer("111111111111", "203.0.113.1")) == 1, "within the account"

    asyncio.run(scenario())


async def close(stream: AsyncIterator[bytes]) -> None:
    assert isinstance(stream, AsyncGenerator)
    await stream.aclose()


def test_few_streams_ask_at_the_same_time_and_a_disconnected_one_frees_its_turn() -> None:
    async def scenario() -> None:
        streams, answers = ConsoleStreams(), Answers()
        opened = [
            asyncio.create_task(first(streams.changes(Viewer("", f"192.0.2.{number}"), answers.ask)))
            for number in range(50)
        ]
        await until(lambda: answers.asked == AT_ONCE)
        for each in opened[:25]:  # those that ask, and some that wait
            each.cancel()
        await until(lambda: answers.asked == 2 * AT_ONCE)
        answers.free.set()
        events = await asyncio.gather(*opened, return_exceptions=True)
        assert sum(isinstance(event, bytes) for event in events) == 25
        assert answers.asked == AT_ONCE + 25

    asyncio.run(scenario())


def test_accounts_share_the_turns_however_many_slow_streams_one_has() -> None:
    async def scenario() -> None:
        streams, slow, quick = ConsoleStreams(), Answers(), Answers()
        quick.free.set()
        greedy = [asyncio.create_task(first(streams.changes(VIEWER, slow.ask))) for _ in range(PER_VIEWER)]
        await until(lambda: slow.asked == AT_ONCE)
        for number in range(3):
            other = streams.changes(Viewer(f"{number + 1}" * 12, "192.0.2.9"), quick.ask)
            watching = asyncio.create_task(first(other))
            await until(watching.done)
            assert watching.result().startswith(b"data: ")
        assert slow.asked == AT_ONCE
        streams.stop()
        slow.free.set()
        await asyncio.gather(*greedy)

    asyncio.run(scenario())


def test_a_turn_is_free_after_a_rest_of_three_times_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        now_s, rests = 100.0, list[float]()

        async def ask() -> Response:
            nonlocal now_s
            now_s += 2.5
            return OK

        def call_later(delay_s: float, callback: Callable[..., Any], *_: Any) -> None:
            rests.append(delay_s)

        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
        streams = ConsoleStreams(now_s=lambda: now_s)
        opened = [streams.changes(VIEWER, ask) for _ in range(AT_ONCE)]
        for each in opened:
            assert await anext(each) == b'data: {"queues": []}\n\n'
        monkeypatch.undo()
        assert rests == [7.5] * AT_ONCE
        waiting = asyncio.create_task(first(streams.changes(VIEWER, ask)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        streams.stop()
        assert await waiting == b"", "a stop ends those that wait for their turn, too"

    asyncio.run(scenario())


def test_a_stream_holds_nothing_of_what_it_has_shown() -> None:
    async def scenario() -> None:
        size, number = 1_000_000, 0

        def different() -> Response:
            nonlocal number
            number += 1
            return Response(200, [], b"%d" % number + b"x" * size)

        streams, answers = ConsoleStreams(every_s=0.001), Answers(different)
        answers.free.set()
        opened = [streams.changes(VIEWER, answers.ask) for _ in range(PER_VIEWER)]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for each in opened:
            assert len(await anext(each)) > size
        asked = answers.asked
        answers.free.clear()
        waiting = [asyncio.create_task(first(each)) for each in opened]
        await until(lambda: answers.asked == asked + AT_ONCE)
        assert tracemalloc.get_traced_memory()[0] - before < 3 * size
        tracemalloc.stop()
        streams.stop()
        answers.free.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_a_stream_does_not_hold_the_body_of_its_request() -> None:
    async def scenario() -> None:
        console = Console(
            lambda _: None,
            Origins(None, ()),
            HOME,
            None,
            lambda: None,
            cast(EndedSessions, object()),
            [admin.SERVICE],
        )
        headers = {b"host": b"127.0.0.1:9324", b"x-penstock-console": b"1"}
        size = 8_000_000
        tracemalloc.start()
        request = Request(peer(), "id", b"GET", b"/console/watch/admin/v1/queues", headers, None, b"x" * size)
        response = await console.page(request)
        assert response.stream is not None
        assert tracemalloc.get_traced_memory()[0] > size
        request.release()  # as a connection does it
        assert tracemalloc.get_traced_memory()[0] < size / 2
        tracemalloc.stop()

    asyncio.run(scenario())


def test_a_stream_whose_client_does_not_read_ends() -> None:
    """It is not asked for more meanwhile, and its place is free again."""

    async def scenario() -> None:
        async with serving(HttpLimits(write_s=0.3, linger_s=0.4)) as server:
            number = 0

            def different() -> Response:
                nonlocal number
                number += 1
                return Response(200, [], b"%d" % number + b"x" * 4_000_000)

            streams, answers = ConsoleStreams(every_s=0.001), Answers(different)
            answers.free.set()
            server.dispatcher.unanswered = {"Big.Answer"}
            sock = slow_reader(server)
            arrived = await server.dispatcher.arrival()
            arrived.respond(Response(200, [], stream=streams.changes(VIEWER, answers.ask)))
            await until(lambda: answers.asked > 0)
            await until(lambda: not server.listener._connections)
            await until(lambda: not streams._open)
            sock.close()

    run(scenario)


def test_a_connection_holds_nothing_of_a_piece_that_was_read() -> None:
    async def scenario() -> None:
        size, done = 20_000_000, asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x" * size
            await done.wait()

        async with serving() as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            reader, writer = await asyncio.open_connection(server.host, server.port)
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            writer.write(post("Big.Answer"))
            (await server.dispatcher.arrival()).respond(Response(200, [], stream=pieces()))
            left = size
            while left > 0:
                left -= len(await reader.read(65536))
            assert tracemalloc.get_traced_memory()[0] - before < size / 2
            tracemalloc.stop()
            done.set()
            writer.close()

    run(scenario)
