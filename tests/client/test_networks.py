"""Connections of both networks: kept, limited, noticed when they are lost, closed by a cancelled task, bounded."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from client.driver import KEYS, Driver
from client.fake_server import CLOSE, HANG, FakeServer, reply
from penstock.client import Client, Retries, SyncClient, Unavailable
from penstock.client.actions import Actions
from penstock.client.http import exchange
from support.process import ServerProcess
from support.waiting import until

ONCE = Retries(attempts_max=1)
PARTS_OF_ANSWERS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0 503 x\r\n", b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n",
]  # fmt: skip
Q = "http://q/1/q"


def test_a_connection_is_used_again(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        for _ in range(5):
            await client.delete_message(Q, "handle")

    with FakeServer(reply()) as fake:
        drive(steps, fake.url)
        assert (len(fake.requests), fake.connections) == (5, 1)
        assert fake.closed.acquire(timeout=10), "closed with the client"


def test_a_connection_that_the_server_wants_closed(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        for _ in range(3):
            await client.delete_message(Q, "handle")

    with FakeServer(reply(Connection="close")) as fake:
        drive(steps, fake.url)
        assert fake.connections == 3


def test_a_connection_that_was_closed_while_idle_is_not_used(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        await client.send_message(Q, "x")
        fake.close_connections()
        await client.send_message(Q, "x")

    with FakeServer(reply(body=b'{"MessageId": "1"}')) as fake:
        drive(steps, fake.url, retries=Retries(repeats_unknown=False))
        assert (fake.actions, fake.connections) == (["SendMessage"] * 2, 2)


def test_a_connection_that_was_idle_for_long_is_not_used(
    drive: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps(client: Actions) -> None:
        await client.delete_message(Q, "handle")
        monkeypatch.setattr(exchange, "IDLE_S_MAX", 0)
        await client.delete_message(Q, "handle")

    with FakeServer(reply()) as fake:
        drive(steps, fake.url)
        assert fake.connections == 2


def test_a_kept_connection_that_ends_without_an_answer_is_replaced_at_once(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        await client.delete_message(Q, "handle")
        await client.delete_message(Q, "handle")

    with FakeServer(reply(), CLOSE, reply()) as fake:
        drive(steps, fake.url)
        assert (len(fake.requests), fake.connections) == (3, 2)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (CLOSE, "closed the connection"),
        (reply(body=b"{}", Content_Length="10") + CLOSE, "timed out after"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "wants to speak another protocol"),
        (reply(x="a" * 70_000), "head .*more than 65536 bytes"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: " + b"a" * 70_000,
            "head .*more than 65536 bytes",
        ),
        (reply(body=b"x" * 70_000), "more than 65536 bytes"),
    ],
    ids=[
        "closed",
        "half",
        "another protocol",
        "an upgrade",
        "a large head",
        "a large trailer",
        "a large body",
    ],
)
def test_no_answer(drive: Driver, monkeypatch: pytest.MonkeyPatch, answer: bytes, problem: str) -> None:
    monkeypatch.setattr(exchange, "BODY_BYTES_MAX", 65536)

    async def steps(client: Actions) -> None:
        await client.delete_message(Q, "handle")

    with (
        FakeServer(answer) as fake,
        pytest.raises(Unavailable, match=f"{fake.url}: .*{problem}"),
    ):
        drive(steps, fake.url, timeout_s=0.5 if "timed out" in problem else 30, retries=ONCE)


@given(st.lists(st.binary(max_size=50) | st.sampled_from(PARTS_OF_ANSWERS), max_size=20))
def test_any_bytes_are_an_answer_or_a_failure(pieces: list[bytes]) -> None:
    reader = exchange.AnswerReader()
    try:
        for piece in pieces:
            if (answer := reader.feed(piece)) is not None:
                assert 200 <= answer.status < 1000
                reader.expect(None)
    except exchange.ExchangeFailed:
        pass


def test_an_answer_in_many_pieces(drive: Driver) -> None:
    body = b'{"QueueUrls": ["' + b"x" * 300_000 + b'"]}'
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:7], body[7:200_000], body[200_000:])
    )
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    async def steps(client: Actions) -> int:
        return len((await client.list_queues()).queue_urls[0])

    with FakeServer(reply(body=body)) as fake:
        assert drive(steps, fake.url) == 300_000
    with FakeServer(b"HTTP/1.1 102 Processing\r\n\r\n" + chunked) as fake:
        assert drive(steps, fake.url) == 300_000


def test_an_answer_that_ends_with_its_connection(drive: Driver) -> None:
    async def steps(client: Actions) -> list[list[str]]:
        return [(await client.list_queues()).queue_urls for _ in range(2)]

    with FakeServer(b'HTTP/1.1 200 OK\r\n\r\n{"QueueUrls": ["a"]}') as fake:
        assert drive(steps, fake.url) == [["a"], ["a"]]
        assert fake.connections == 2


def test_what_was_not_asked_for_is_not_read_as_an_answer(drive: Driver) -> None:
    async def steps(client: Actions) -> list[list[str]]:
        return [(await client.list_queues()).queue_urls for _ in range(2)]

    first, second = (reply(body=b'{"QueueUrls": ["%b"]}' % name) for name in (b"a", b"b"))
    with FakeServer(first + second, second) as fake:
        assert drive(steps, fake.url) == [["a"], ["b"]]
        assert fake.connections == 2


@pytest.mark.parametrize("call", ["receive_message", "send_message"])
def test_a_server_that_does_not_answer_in_time(drive: Driver, call: str) -> None:
    async def steps(client: Actions) -> None:
        if call == "receive_message":
            await client.receive_message(Q, wait_time_seconds=1)
        else:
            await client.send_message(Q, "x")

    with FakeServer(HANG) as fake:
        with pytest.raises(
            Unavailable, match=f"timed out after {1.1 if call == 'receive_message' else 0.1} sec"
        ):
            drive(steps, fake.url, timeout_s=0.1, retries=ONCE)
        assert fake.closed.acquire(timeout=10), "its connection is closed"


def test_a_server_that_cannot_be_reached(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        await client.list_queues()

    with pytest.raises(Unavailable, match=r"http://127.0.0.1:1: Connection refused"):
        drive(steps, "http://127.0.0.1:1", retries=ONCE)
    with pytest.raises(Unavailable, match=r"http://nowhere.invalid: .*(known|resolution)"):
        drive(steps, "http://nowhere.invalid", retries=ONCE)


@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_settings_that_cannot_be_used(kind: type[Client | SyncClient]) -> None:
    with pytest.raises(ValueError, match=r"max_connections 0: .*1 or more"):
        kind(max_connections=0)
    with pytest.raises(ValueError, match=r"timeout_s 0: .*more than 0"):
        kind(timeout_s=0)


def test_a_client_that_is_closed(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        await client._session.close()
        await client.list_queues()

    with FakeServer(reply()) as fake, pytest.raises(Unavailable, match="client is closed"):
        drive(steps, fake.url)


# -- asyncio ---------------------------------------------------------------------------------------------------------


def client_of(url: str, **settings: object) -> Client:
    return Client(endpoint_url=url, credentials=KEYS, **settings)  # type: ignore[arg-type]


def test_tasks_share_a_limited_number_of_connections() -> None:
    async def main() -> None:
        async with client_of(fake.url, max_connections=3) as client:
            await asyncio.gather(*(client.delete_message(Q, "handle") for _ in range(50)))

    with FakeServer(reply()) as fake:
        asyncio.run(main())
        assert len(fake.requests) == 50 and fake.connections == 3


def test_a_request_that_finds_no_free_connection() -> None:
    async def main() -> None:
        async with client_of(fake.url, max_connections=1, timeout_s=0.2) as client:
            poll = asyncio.create_task(client.receive_message(Q, wait_time_seconds=20))
            await asyncio.to_thread(fake.waiting.acquire)
            with pytest.raises(Unavailable, match=r"all 1 connections.* 0\.2 seconds.*max_connections"):
                await client.list_queues()
            poll.cancel()

    with FakeServer(HANG) as fake:
        asyncio.run(main())


def test_a_cancelled_poll_closes_its_own_connection_only() -> None:
    async def main() -> None:
        async with client_of(fake.url) as client:
            polls = [asyncio.create_task(client.receive_message(Q, wait_time_seconds=20)) for _ in range(3)]
            for _ in polls:
                await asyncio.to_thread(fake.waiting.acquire)
            polls[1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await polls[1]
            assert await asyncio.to_thread(fake.closed.acquire, timeout=10)
            assert not fake.closed.acquire(blocking=False)
            assert not polls[0].done() and not polls[2].done()
            polls[0].cancel(), polls[2].cancel()

    with FakeServer(HANG) as fake:
        asyncio.run(main())
        assert fake.connections == 3


def test_tasks_that_are_cancelled_while_they_wait_for_a_connection() -> None:
    async def main() -> None:
        async with client_of(fake.url, max_connections=2) as client:
            polls = [asyncio.create_task(client.receive_message(Q, wait_time_seconds=20)) for _ in range(2)]
            for _ in polls:
                await asyncio.to_thread(fake.waiting.acquire)
            waiting = [asyncio.create_task(client.list_queues()) for _ in range(10)]
            await asyncio.sleep(0)
            for task in (*waiting[:9], *polls):
                task.cancel()
            await asyncio.gather(*waiting[:9], *polls, return_exceptions=True)
            assert (await waiting[9]).queue_urls == []
            await asyncio.gather(*(client.list_queues() for _ in range(4)))

    with FakeServer(HANG, HANG, reply()) as fake:
        asyncio.run(main())
        assert fake.connections <= 4


def test_messages_of_a_cancelled_poll_return(server: ServerProcess) -> None:
    async def main() -> None:
        async with client_of(server.url) as client:
            url = await client.create_queue("cancelled", {"VisibilityTimeout": 43_200})
            for number in range(30):
                poll = asyncio.create_task(client.receive_message(url, wait_time_seconds=20))
                await asyncio.sleep(0.001 * (number % 3))
                poll.cancel()
                await asyncio.gather(poll, return_exceptions=True)
            await client.send_message(url, "x")
            assert len(await client.receive_message(url, wait_time_seconds=20)) == 1

    asyncio.run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_no_message_is_hidden_by_a_poll_that_is_cancelled_while_it_is_answered(
    server: ServerProcess, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """Sends and cancellations meet at all moments of a poll; each message can still be received."""

    async def main() -> None:
        async with client_of(server.url) as sender, client_of(server.url) as client:
            url = await client.create_queue(
                f"race-{run.__module__.partition('.')[0]}", {"VisibilityTimeout": 43_200}
            )
            received: list[str] = []
            for number in range(300):
                poll = asyncio.create_task(client.receive_message(url, wait_time_seconds=20))
                await asyncio.sleep(0.001)
                send = asyncio.create_task(sender.send_message(url, str(number)))
                for _ in range(number % 12):
                    await asyncio.sleep(0.0002 * (number % 5))
                poll.cancel()
                outcome, _ = await asyncio.gather(poll, send, return_exceptions=True)
                if isinstance(outcome, list):
                    received += [message.body for message in outcome]
            assert 0 < len(received) < 300, "some were cancelled, some were not"
            while len(received) < 300:
                messages = await client.receive_message(url, max_number_of_messages=10, wait_time_seconds=20)
                assert messages, "some are hidden"
                received += [message.body for message in messages]
            assert sorted(received, key=int) == [str(number) for number in range(300)]

    run(main())


def test_what_a_cancelled_poll_received_is_given_back_before_the_client_is_closed() -> None:
    answer = {"Messages": [{"MessageId": "1", "ReceiptHandle": "h1", "Body": "x"}]}
    polling = threading.Event()

    def late(request: bytes) -> bytes:
        polling.set()
        fake.cancelled.wait(10)  # type: ignore[attr-defined]
        return reply(body=json.dumps(answer).encode())

    async def main() -> None:
        async with client_of(fake.url) as client:
            poll = asyncio.create_task(client.receive_message(Q, wait_time_seconds=20))
            await asyncio.to_thread(polling.wait, 10)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
            fake.cancelled.set()  # type: ignore[attr-defined]

    with FakeServer(late, reply()) as fake:
        fake.cancelled = threading.Event()  # type: ignore[attr-defined]
        asyncio.run(main())
        assert fake.actions == ["ReceiveMessage", "ChangeMessageVisibilityBatch"]
        assert b'[{"Id":"0","ReceiptHandle":"h1","VisibilityTimeout":0}]' in fake.requests[1]


def test_a_client_of_another_event_loop() -> None:
    with FakeServer(reply()) as fake:
        client = client_of(fake.url)

        async def use() -> None:
            await client.list_queues()

        asyncio.run(use())
        with pytest.raises(RuntimeError, match="another event loop"):
            asyncio.run(use())


# -- threads ---------------------------------------------------------------------------------------------------------


def test_threads_share_a_limited_number_of_connections() -> None:
    with (
        FakeServer(reply()) as fake,
        SyncClient(endpoint_url=fake.url, credentials=KEYS, max_connections=3) as client,
    ):

        def use() -> None:
            for _ in range(20):
                client.delete_message(Q, "handle")

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(fake.requests) == 160 and fake.connections <= 3


def test_a_thread_that_finds_no_free_connection() -> None:
    with FakeServer(HANG) as fake, SyncClient(
        endpoint_url=fake.url, credentials=KEYS, max_connections=1, timeout_s=0.2, retries=ONCE
    ) as client:  # fmt: skip

        def poll() -> None:
            with pytest.raises(Unavailable, match="closed the connection"):
                client.receive_message(Q, wait_time_seconds=5)

        thread = threading.Thread(target=poll)
        thread.start()
        fake.waiting.acquire()
        with pytest.raises(Unavailable, match="all 1 connections"):
            client.list_queues()
        fake.close_connections()
        thread.join()


def test_a_forked_process_uses_connections_of_its_own() -> None:
    with FakeServer(reply()) as fake, SyncClient(endpoint_url=fake.url, credentials=KEYS) as client:
        client.list_queues()
        child = os.fork()
        if child == 0:
            try:
                client.list_queues()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        client.list_queues()
        assert (len(fake.requests), fake.connections) == (3, 2)
        until(lambda: fake.closed.acquire(blocking=False), "the child closed its connection")
