"""Time-outs: clients that are slow, silent, disconnected or do not read, and a server that stops."""

from __future__ import annotations

import asyncio
import socket
import time

from penstock.server.http.limits import HttpLimits
from support.harness import QUICK, Client, Dispatched, Running, get, post, run, serving, until


def test_an_idle_connection_is_closed_without_a_response() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            client = await server.connect()
            client.send(post())
            await client.response()
            assert await client.at_end()

    run(scenario)


def test_headers_that_do_not_end_in_time() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            client = await server.connect()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\n")
            dripping = asyncio.create_task(drip(client, b"X-A: b\r\n"))
            assert (await client.response()).status == 408
            assert await client.at_end()
            dripping.cancel()

    run(scenario)


def test_a_body_that_stalls() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            client = await server.connect()
            client.send(post(body=b"x" * 1000)[:-500])
            dripping = asyncio.create_task(drip(client, b"x"))
            assert (await client.response()).status == 408
            dripping.cancel()
            await until(lambda: server.listener.buffered_bytes == 0)

    run(scenario)


def test_a_slow_body_that_makes_progress_is_accepted() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            client = await server.connect()
            body = b"x" * 60_000
            request = post(body=body)
            for start in range(0, len(request), 8000):
                client.send(request[start : start + 8000])
                await asyncio.sleep(0.1)
            assert (await client.response()).json()["length"] == len(body)

    run(scenario)


def test_time_in_which_the_server_stood_still_does_not_count() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            client, request = await server.connect(), post("A.B", b"x" * 1000)
            client.send(request[:-500])
            await asyncio.sleep(0.1)
            time.sleep(0.8)  # noqa: ASYNC251
            await asyncio.sleep(0.02)
            client.send(request[-500:])
            assert (await client.response()).status == 200

    run(scenario)


def test_a_running_request_is_never_cut() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            client = await server.connect()
            client.send(post("Long.Poll"))
            poll = await server.dispatcher.arrival()
            await asyncio.sleep(0.8)
            poll.answer(b"late")
            assert (await client.response()).body == b"late"

    run(scenario)


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def scenario() -> None:
        async with serving(QUICK) as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            sock = socket.create_connection((server.host, server.port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(post("Big.Answer") + post("After.It"))
            (await server.dispatcher.arrival()).answer(b"x" * 30_000_000)
            await asyncio.sleep(0.05)
            assert len(server.dispatcher.seen) == 1, (
                "no further request is started for a client that does not read"
            )
            await until(lambda: not server.listener._connections)
            sock.close()

    run(scenario)


def test_a_client_that_reads_late_gets_everything() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            client = await server.connect()
            client.send(post("Big.Answer") + post("After.It"))
            (await server.dispatcher.arrival()).answer(b"x" * 30_000_000)
            await asyncio.sleep(0.1)
            assert len((await client.response()).body) == 30_000_000
            assert (await client.response()).json()["target"] == "After.It"

    run(scenario)


async def poll_with_messages(server: Running, events: list[str]) -> tuple[Client, Dispatched]:
    server.dispatcher.unanswered = {"Long.Poll"}
    client = await server.connect()
    client.send(post("Long.Poll"))
    poll = await server.dispatcher.arrival()
    poll.call.on_gone = lambda: events.append("gone")
    poll.call.if_unread = lambda: events.append("given back")
    return client, poll


def test_after_a_reset_the_call_is_gone_and_its_messages_are_returned() -> None:
    async def scenario() -> None:
        async with serving() as server:
            events: list[str] = []
            client, poll = await poll_with_messages(server, events)
            client.reset()
            await until(lambda: poll.call.gone)
            assert events == ["gone"]
            poll.answer(b"messages")
            assert events == ["gone", "given back"]

    run(scenario)


def test_after_a_close_the_call_is_gone_and_its_messages_are_returned() -> None:
    async def scenario() -> None:
        async with serving() as server:
            events: list[str] = []
            client, poll = await poll_with_messages(server, events)
            client.close()
            await until(lambda: poll.call.gone)
            poll.answer(b"messages")
            assert events == ["gone", "given back"]
            await until(lambda: not server.listener._connections)

    run(scenario)


def test_a_half_closed_client_gets_no_messages() -> None:
    async def scenario() -> None:
        async with serving() as server:
            events: list[str] = []
            client, poll = await poll_with_messages(server, events)
            client.writer.write_eof()
            await until(lambda: poll.call.gone)
            poll.answer(b"messages")
            assert events == ["gone", "given back"]
            assert await client.at_end()

    run(scenario)


def test_a_half_closed_client_gets_responses_without_messages() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.send(post("A.B") + post("C.D"))
            client.writer.write_eof()
            assert (await client.response()).json()["target"] == "A.B"
            assert (await client.response()).json()["target"] == "C.D"
            assert await client.at_end()

    run(scenario)


def test_messages_that_were_read_are_not_returned() -> None:
    async def scenario() -> None:
        async with serving() as server:
            events: list[str] = []
            client, poll = await poll_with_messages(server, events)
            poll.answer(b"messages")
            assert (await client.response()).body == b"messages"
            client.close()
            await until(lambda: not server.listener._connections)
            assert events == []

    run(scenario)


def test_pipelined_requests_of_a_lost_connection_are_not_started() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            client = await server.connect()
            client.send(post("Long.Poll") + post("A.B", b"x" * 5000) * 3 + post("C.D", b"y" * 5000)[:-1])
            poll = await server.dispatcher.arrival()
            await until(lambda: server.listener.buffered_bytes > 19_000)
            client.reset()
            await until(lambda: poll.call.gone)
            poll.answer()
            assert len(server.dispatcher.seen) == 1
            assert server.listener.buffered_bytes == 0

    run(scenario)


def test_a_stop_closes_idle_connections_and_answers_what_runs() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            idle, busy = await server.connect(), await server.connect()
            idle.send(get("/"))
            await idle.response()
            busy.send(post("Long.Poll"))
            poll = await server.dispatcher.arrival()
            closing = asyncio.create_task(server.listener.close(grace_s=5))
            assert await idle.at_end()
            poll.answer(b"the end")
            last = await busy.response()
            assert (last.body, last.headers["connection"]) == (b"the end", "close")
            busy.close()
            await asyncio.wait_for(closing, 1)

    run(scenario)


def test_a_stop_does_not_wait_forever() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits()) as server:
            events: list[str] = []
            _, poll = await poll_with_messages(server, events)
            await server.listener.close(grace_s=0.1)
            assert events == ["gone"]
            poll.answer(b"messages")
            assert events == ["gone", "given back"]

    run(scenario)


def test_many_idle_connections() -> None:
    async def scenario() -> None:
        async with serving() as server:
            clients = [await server.connect() for _ in range(200)]
            await until(lambda: len(server.listener._connections) == 200)
            clients[137].send(post())
            assert (await clients[137].response()).status == 200
            for client in clients:
                client.close()
            await until(lambda: not server.listener._connections)

    run(scenario)


async def drip(client: Client, drop: bytes) -> None:
    while True:
        client.send(drop)
        await asyncio.sleep(0.02)
