"""Load shedding: which connections give up memory, and which requests get through."""

from __future__ import annotations

import asyncio
import socket

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.limits import HttpLimits
from penstock.server.http.load_shedding import Admission, MemoryUse, admission, choose_victims
from support.harness import post, run, serving, until
from support.rows import every_row

LIMITS = HttpLimits(connections_max=3, reserved_connections=2, connections_per_address_max=2)

HOLDINGS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 1000)), max_size=30)


@every_row(
    ("connections", "of_client", "oldest_silent_is_reserved", "expected"),
    [
        (2, None, None, Admission.ACCEPTED),
        (2, 1, False, Admission.ACCEPTED),
        (2, 2, False, Admission.CLIENT_REFUSED),
        (3, 2, False, Admission.CLIENT_REFUSED),
        (3, None, False, Admission.DISPLACES),
        (3, None, None, Admission.RESERVED),
        (4, None, True, Admission.RESERVED),
        (5, None, True, Admission.DISPLACES),
        (5, None, None, Admission.REFUSED),
    ],
)
def test_what_becomes_of_a_new_connection(
    connections: int, of_client: int | None, oldest_silent_is_reserved: bool | None, expected: Admission
) -> None:
    assert admission(LIMITS, connections, of_client, oldest_silent_is_reserved) is expected


@given(HOLDINGS, st.integers(-10, 5000))
def test_enough_memory_is_freed_and_no_victim_is_unnecessary(
    holdings: list[tuple[str | None, int]], excess: int
) -> None:
    uses = [MemoryUse(number, client, size) for number, (client, size) in enumerate(holdings)]
    chosen = choose_victims(uses, excess)
    sizes = [uses[number].bytes for number in chosen]
    assert len(set(chosen)) == len(chosen) and 0 not in sizes
    assert sum(sizes) >= min(excess, sum(size for _, size in holdings))
    assert sum(sizes[:-1]) < max(excess, 1), "the last one was needed"


@given(HOLDINGS)
def test_the_first_victim_is_the_largest_of_the_client_that_holds_most(
    holdings: list[tuple[str | None, int]],
) -> None:
    uses = [MemoryUse(number, client, size) for number, (client, size) in enumerate(holdings)]
    totals: dict[object, int] = {}
    for each in uses:
        owner = each.by if each.client is None else each.client
        totals[owner] = totals.get(owner, 0) + each.bytes
    for number in choose_victims(uses, 1):
        given_up = uses[number]
        owner = number if given_up.client is None else given_up.client
        assert totals[owner] == max(totals.values())
        assert all(
            each.bytes <= given_up.bytes for each in uses if each.client == given_up.client is not None
        )


def test_small_requests_get_through_while_large_ones_are_held() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(buffered_bytes_max=200_000)) as server:
            slow = [await server.connect() for _ in range(8)]
            for client in slow:
                client.send(post("Never.Done", b"x" * 100_000)[:-1])
            for _ in range(20):
                assert (await server.ask(post("A.B", b"x" * 1000))).status == 200
            assert server.listener.buffered_bytes <= 200_000
            refused = [client for client in slow if not client.writer.is_closing()]
            assert len(refused) == 8
            answers = [asyncio.create_task(client.response()) for client in slow]
            done, waiting = await asyncio.wait(answers, timeout=0.3)
            assert {answer.result().status for answer in done} == {503}
            assert 1 <= len(waiting) <= 2, "those that fit go on"
            for answer in waiting:
                answer.cancel()

    run(scenario)


def test_unfinished_heads_count_and_are_given_up() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(buffered_bytes_max=200_000)) as server:
            clients = [await server.connect() for _ in range(10)]
            for client in clients:
                client.send(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 60_000)
            answers = [asyncio.create_task(client.response()) for client in clients]
            done, waiting = await asyncio.wait(answers, timeout=0.3)
            assert {answer.result().status for answer in done} == {503}
            assert 1 <= len(waiting) <= 3
            assert server.listener.buffered_bytes <= 200_000
            for answer in waiting:
                answer.cancel()

    run(scenario)


def test_requests_that_wait_behind_another_count_and_are_given_up() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(buffered_bytes_max=100_000)) as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            client = await server.connect()
            client.send(post("Long.Poll") + post("A.B", b"x" * 30_000) * 5)
            poll = await server.dispatcher.arrival()
            await until(lambda: server.listener.buffered_bytes == 0)
            assert (await server.ask(post("A.B", b"x" * 30_000))).status == 200
            poll.answer(b"the running one is still answered")
            assert (await client.response()).status == 200
            assert (await client.response()).status == 503
            assert await client.at_end()
            assert len(server.dispatcher.seen) == 2

    run(scenario)


def test_unread_responses_are_bounded_together() -> None:
    async def scenario() -> None:
        limits = HttpLimits(buffered_bytes_max=20_000_000)
        async with serving(limits) as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            socks = []
            for number in range(4):
                sock = socket.create_connection((server.host, server.port))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.sendall(post("Big.Answer"))
                (await server.dispatcher.arrival(number + 1)).answer(b"x" * (20_000_000 + number))
                socks.append(sock)
            unread = server.listener._connections
            assert 0 < sum(each.unread_bytes for each in unread) <= 20_000_000, (
                "at once, not at the next sweep"
            )
            assert unread, "those that fit go on"
            assert (await server.ask(post())).status == 200
            for sock in socks:
                sock.close()

    run(scenario)
