"""Requests that are passed on: unchanged, once, to the owner, and what happens when there is none or it is lost."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from cluster.links import QUICK, Proxy
from cluster.nodes import WAIT, SeenRequest, for_shard, move, nodes
from penstock.errors import NotOwned
from penstock.server.throttle import Throttle
from penstock.wire.service import Response
from support.harness import run, until
from support.texts import says


def test_a_request_is_passed_on_unchanged_and_so_is_its_answer() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            request = for_shard(
                1, b"the body", b"X-Two: a", b"X-Two:  b", b"X-Amzn-Trace-Id: Root=1", path=b"/a/b?c=%20d"
            )
            here, there = await entry.connect(), await owner.connect()
            for client in (here, there):
                client.send(request)
            passed, local = await here.response(), await there.response()
            assert passed.status == local.status
            assert passed.body == local.body == b"answered: the body"
            for each in (passed, local):
                each.headers.pop("date")
                each.headers.pop("x-amzn-requestid")
            assert passed.headers == local.headers
            assert not entry.seen
            first, second = sorted(
                owner.seen, key=lambda seen: seen.peer.listening == f"127.0.0.1:{owner.port}"
            )
            assert first.headers == second.headers
            assert first.raw_headers == second.raw_headers is not None
            assert (first.method, first.target_path) == (b"POST", b"/a/b?c=%20d")
            assert first.call.trace == "Root=1"
            assert first.call.base_url == second.call.base_url == "http://queues.test:9324"
            assert first.peer.address == "127.0.0.1"
            assert first.peer.listening == f"127.0.0.1:{entry.port}"
            here.close()
            there.close()

    run(test)


def test_the_certificate_of_the_client_and_the_id_of_the_request_go_along() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            seen: list[SeenRequest] = owner.seen
            serve = entry.routes.serve

            def with_certificate(request: object) -> None:
                request.peer.certificate = "CN=client"  # type: ignore[attr-defined]
                serve(request)  # type: ignore[arg-type]

            entry.http.serve = with_certificate
            answer = await entry.ask(for_shard(1))
            assert seen[0].peer.certificate == "CN=client"
            assert answer.headers["x-amzn-requestid"] == seen[0].call.request_id

    run(test)


def test_large_bodies_and_answers() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = lambda seen: seen.answer(seen.body * 3)
            body = b"0123456789abcdef" * 256 * 1024  # 4 MiB
            assert (await entry.ask(for_shard(1, body))).body == body * 3

    run(test)


def test_answers_that_are_streams_follow_the_client() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            made: list[int] = []

            async def pieces() -> AsyncIterator[bytes]:
                for number in range(200):
                    made.append(number)
                    await asyncio.sleep(0)
                    yield b"%03d" % number + b"x" * 100_000

            owner.answers = lambda seen: seen.respond(Response(200, [], stream=pieces()))
            client = await entry.connect()
            client.send(for_shard(1))
            assert (await client.head()).headers["transfer-encoding"] == "chunked"
            received = b""
            for number in range(200):
                size = int(await client.line(), 16)
                received += (await client.exactly(size))[:3]
                await client.line()
                assert len(made) < number + 150, "the whole stream was read ahead"
            assert await client.line() == b"0\r\n"
            assert received == b"".join(b"%03d" % number for number in range(200))
            client.close()

    run(test)


def test_a_stream_ends_at_the_owner_when_the_client_disconnects() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            ended: list[bool] = []

            async def endless() -> AsyncIterator[bytes]:
                try:
                    while True:
                        await asyncio.sleep(0)
                        yield b"x" * 10_000
                finally:
                    ended.append(True)

            owner.answers = lambda seen: seen.respond(Response(200, [], stream=endless()))
            client = await entry.connect()
            client.send(for_shard(1))
            await client.head()
            client.reset()
            await until(lambda: bool(ended))

    run(test)


def test_requests_that_were_passed_on_leave_no_garbage() -> None:
    """What only the garbage collector frees piles up, and freeing it stalls all connections."""

    async def test() -> None:
        async with nodes() as (entry, owner):
            returned: list[bool] = []

            def answer(seen: SeenRequest) -> None:
                seen.call.if_unread = partial(returned.append, True)
                seen.answer()
                owner.seen.clear()

            owner.answers = answer
            client = await entry.connect()

            async def ask(times: int) -> None:
                for _ in range(times):
                    client.send(for_shard(1))
                    assert (await client.response()).status == 200

            await ask(10)
            gc.collect()
            gc.freeze()  # what earlier tests left behind may become garbage now
            gc.disable()
            try:
                await ask(200)
                assert gc.collect() < 200
            finally:
                gc.enable()
                gc.unfreeze()
            client.close()

    run(test)


# -- long polls -------------------------------------------------------------------------------------------------


def test_waiting_requests_cost_neither_connections_nor_tasks() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = None
            first = await entry.connect()
            first.send(for_shard(1))
            await owner.arrival(1)
            tasks = len(asyncio.all_tasks())
            clients = [await entry.connect() for _ in range(300)]
            for client in clients:
                client.send(for_shard(1))
            await owner.arrival(301)
            assert len(asyncio.all_tasks()) <= tasks + 1
            assert len(owner.links._links) == 1
            for seen in owner.seen:
                seen.answer(b"at last")
            for client in (first, *clients):
                assert (await client.response()).body == b"at last"
                client.close()

    run(test)


def test_a_client_that_disconnects_is_gone_at_the_owner() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = None
            client = await entry.connect()
            client.send(for_shard(1))
            seen = await owner.arrival()
            left: list[bool] = []

            def leave() -> None:
                left.append(True)
                seen.answer(b"nothing")

            seen.call.on_gone = leave
            client.close()
            await until(lambda: bool(left))
            assert seen.call.gone
            await until(lambda: not entry.http._connections)

    run(test)


def test_messages_go_back_if_the_client_left_while_their_answer_was_on_its_way() -> None:
    async def test() -> None:
        async with nodes(limits=msgspec.structs.replace(QUICK, tick_s=5.0)) as (entry, owner):
            owner.answers = None
            returned: list[bool] = []
            client = await entry.connect()
            client.send(for_shard(1))
            seen = await owner.arrival()
            seen.call.if_unread = lambda: returned.append(True)
            client.close()
            seen.answer(b"messages")  # before the owner could hear of it
            assert not seen.call.gone
            await until(lambda: bool(returned))

    run(test)


def test_messages_that_were_read_do_not_go_back() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = None
            returned: list[bool] = []
            client = await entry.connect()
            client.send(for_shard(1))
            seen = await owner.arrival()
            seen.call.if_unread = lambda: returned.append(True)
            seen.answer(b"messages")
            assert (await client.response()).body == b"messages"
            client.close()
            await until(lambda: not entry.http._connections)
            owner.answers = lambda seen: seen.answer()
            await entry.ask(for_shard(1))
            assert not returned

    run(test)


def test_messages_on_their_way_to_a_node_that_is_lost_go_back() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = None
            client = await entry.connect()
            client.send(for_shard(1))
            seen = await owner.arrival()
            entry.peers.close()
            await until(lambda: seen.call.gone)
            returned: list[bool] = []
            seen.call.if_unread = lambda: returned.append(True)
            seen.answer(b"messages")
            assert returned
            client.close()

    run(test)


# -- owners that change -----------------------------------------------------------------------------------------


def test_an_owner_that_is_none_any_more_says_so_and_the_next_is_asked() -> None:
    async def test() -> None:
        async with nodes(3) as (entry, old, new):
            move(new, 1, [entry, old, new], known=False)
            entry.owners.on_refresh = lambda shard: entry.owners.addresses.update({shard: new.address})
            assert (await entry.ask(for_shard(1))).body == b"answered: body"
            assert entry.owners.refreshed == [1]
            assert (len(old.seen), len(new.seen)) == (0, 1)
            assert not old.owners.refreshed, "a node passes on what its own clients ask, nothing else"

    run(test)


def test_a_request_is_passed_on_once_even_if_nodes_disagree() -> None:
    async def test() -> None:
        async with nodes() as (first, second):
            first.owned.clear()
            second.owned.clear()
            first.owners.addresses = {1: second.address}
            second.owners.addresses = {1: first.address}
            answer = await first.ask(for_shard(1))
            assert answer.status == 503
            says(answer.json()["message"], "No node", "queue")
            assert first.owners.refreshed
            assert not second.owners.refreshed

    run(test)


def test_a_request_waits_for_an_owner_while_the_shard_moves() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            entry.owners.addresses.pop(1)

            def appears(shard: int) -> None:
                if len(entry.owners.refreshed) == 4:
                    entry.owners.addresses[shard] = owner.address

            entry.owners.on_refresh = appears
            clients = [await entry.connect() for _ in range(20)]
            for client in clients:
                client.send(for_shard(1))
            for client in clients:
                assert (await client.response()).status == 200
                client.close()
            assert len(entry.owners.refreshed) < 10, "requests for one shard wait together"

    run(test)


def test_a_request_waits_for_a_shard_that_comes_to_the_node_itself() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            move(entry, 1, [entry, owner])
            entry.owned.discard(1)  # being loaded

            def loaded(shard: int) -> None:
                if len(entry.owners.refreshed) == 3:
                    entry.owned.add(shard)

            entry.owners.on_refresh = loaded
            assert (await entry.ask(for_shard(1))).body == b"answered: body"
            assert len(entry.seen) == 1
            # A poll that is served here after all ends like any other when its client disconnects.
            entry.answers = None
            entry.owned.discard(1)
            entry.owners.refreshed.clear()
            client = await entry.connect()
            client.send(for_shard(1))
            await entry.arrival(2)
            client.close()
            await until(lambda: entry.seen[1].call.gone)

    run(test)


def test_without_an_owner_the_answer_is_503_after_a_while() -> None:
    async def test() -> None:
        async with nodes() as (entry, _):
            entry.owners.addresses.pop(1)
            began = asyncio.get_running_loop().time()
            answer = await entry.ask(for_shard(1))
            assert answer.status == 503
            assert answer.headers["retry-after"]
            # The loop's clock has a resolution of milliseconds.
            assert asyncio.get_running_loop().time() - began >= WAIT.wait_s - 0.01

    run(test)


def test_few_requests_may_wait() -> None:
    async def test() -> None:
        few = msgspec.structs.replace(WAIT, waiting_max=2, waiting_bytes_max=10_000)
        async with nodes(wait=few) as (entry, _):
            entry.owners.addresses.pop(1)
            answer = await entry.ask(for_shard(1, b"x" * 10_001))
            assert (answer.status, "Too many requests wait" in answer.json()["message"]) == (503, True)
            clients = [await entry.connect() for _ in range(5)]
            for client in clients:
                client.send(for_shard(1))
            texts = [(await client.response()).json()["message"] for client in clients]
            assert sum("Too many requests wait" in text for text in texts) == 3
            assert (entry.forwarder._waiting_count, entry.forwarder._waiting_bytes) == (0, 0)

    run(test)


def test_a_node_that_stops_leaves_requests_to_the_next_owner() -> None:
    async def test() -> None:
        async with nodes(3) as (entry, old, new):
            old.forwarder.stopping = True

            def taken_over(shard: int) -> None:
                if len(entry.owners.refreshed) == 3:
                    move(new, shard, [entry, old, new])

            entry.owners.on_refresh = taken_over
            assert (await entry.ask(for_shard(1))).status == 200
            assert (len(old.seen), len(new.seen)) == (0, 1)

    run(test)


def test_a_request_waits_for_an_owner_that_is_not_ready_yet() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.health.expect("it starts")
            own = await owner.ask(for_shard(1))
            assert (own.status, "it starts" in own.json()["message"]) == (503, True)

            def ready(shard: int) -> None:
                if len(entry.owners.refreshed) == 3:
                    owner.health.done("it starts")

            entry.owners.on_refresh = ready
            assert (await entry.ask(for_shard(1))).status == 200
            assert len(owner.seen) == 1

    run(test)


def test_a_hint_that_is_wrong_is_put_right_by_the_owner() -> None:
    async def test() -> None:
        async with nodes(3) as (entry, wrong, right):
            entry.hint = 1
            assert (await entry.ask(for_shard(2))).status == 200
            assert (len(wrong.seen), len(right.seen)) == (0, 1)
            assert (await entry.ask(for_shard(0))).status == 200  # even if that is the node itself
            assert len(entry.seen) == 1

    run(test)


# -- links that break -------------------------------------------------------------------------------------------


def test_what_was_sent_is_not_sent_again() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner), Proxy(owner.address) as proxy:
            entry.owners.addresses[1] = proxy.address
            owner.answers = None
            client = await entry.connect()
            client.send(for_shard(1))
            await owner.arrival()
            proxy.cut()
            answer = await client.response()
            assert answer.status == 503
            says(answer.json()["message"], "may or may not")
            client.close()
            owner.answers = lambda seen: seen.answer()
            assert (await entry.ask(for_shard(1, b"another"))).status == 200
            assert [seen.body for seen in owner.seen] == [b"body", b"another"]

    run(test)


def test_what_could_not_be_sent_waits_for_the_connection() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            await owner.links.close(0)
            later = asyncio.create_task(entry.ask(for_shard(1)))
            await until(lambda: len(entry.owners.refreshed) >= 3)
            await owner.links.listen(owner.address)
            assert (await later).status == 200
            assert len(owner.seen) == 1

    run(test)


def test_beyond_the_bytes_in_flight_a_request_is_refused_at_once() -> None:
    async def test() -> None:
        limits = msgspec.structs.replace(QUICK, in_flight_bytes_max=10_000)
        async with nodes(limits=limits) as (entry, owner):
            owner.answers = None
            clients = [await entry.connect() for _ in range(3)]
            for client in clients:
                client.send(for_shard(1, b"x" * 4000))
            await owner.arrival(2)
            refused = await clients[2].response()
            assert (refused.status, "Too much waits" in refused.json()["message"]) == (503, True)
            for seen in owner.seen:
                seen.answer()
            for client in clients[:2]:
                assert (await client.response()).status == 200

    run(test)


def test_a_request_counts_once_against_a_rate_limit_that_processes_share() -> None:
    """Whether it is counted before it turns out to be another's, or by the owner only."""

    async def test() -> None:
        async with nodes() as (entry, owner):
            entry.routes._throttle = owner.routes._throttle = Throttle(0.001, burst=4)
            statuses = [(await entry.ask(for_shard(1))).status for _ in range(2)]
            entry.hint = 1
            statuses += [(await entry.ask(for_shard(1))).status for _ in range(3)]
            assert statuses == [200, 200, 200, 200, 403]

    run(test)


def test_large_requests_that_wait_for_long_leave_the_link_to_others() -> None:
    """Long polls with a padded body would take up the link like this, each for 20 seconds."""

    async def test() -> None:
        limits = msgspec.structs.replace(QUICK, in_flight_bytes_max=50_000)
        async with nodes(limits=limits) as (entry, owner):
            owner.answers = None
            clients = [await entry.connect() for _ in range(8)]
            for number, client in enumerate(clients, 1):
                client.send(for_shard(1, b"x" * 40_000))
                await owner.arrival(number)
                await until(lambda: entry.peers.link(owner.address)._in_flight_bytes < 10_000)
            for seen in owner.seen[:4]:
                seen.answer(b"messages")
            for client in clients[:4]:
                assert (await client.response()).body == b"messages"
            entry.peers.disconnect(owner.address)
            for client in clients[4:]:  # they are not kept, so they cannot be sent again
                lost = await client.response()
                assert (lost.status, "may or may not" in lost.json()["message"]) == (503, True)
            assert len(owner.seen) == 8

    run(test)


def test_a_large_request_that_waited_is_not_passed_on_to_the_next_owner() -> None:
    async def test() -> None:
        async with nodes() as (entry, owner):
            owner.answers = None
            client = await entry.connect()
            client.send(for_shard(1, b"x" * 40_000))
            await owner.arrival()
            await until(lambda: entry.peers.link(owner.address)._in_flight_bytes < 10_000)
            (incoming,) = next(iter(owner.links._links)).running.values()
            incoming.fail(NotOwned(1))
            assert (await client.response()).status == 503

    run(test)


@pytest.mark.parametrize(
    "content_type", [b"application/x-amz-json-1.0", b"application/x-www-form-urlencoded"]
)
def test_refusals_are_in_the_protocol_of_the_request(content_type: bytes) -> None:
    async def test() -> None:
        async with nodes() as (entry, _):
            entry.owners.addresses.pop(1)
            answer = await entry.ask(for_shard(1, b"Action=X", b"Content-Type: " + content_type))
            assert answer.status == 503
            if b"json" in content_type:
                assert json.loads(answer.body)["__type"].endswith("ServiceUnavailableException")
            else:
                assert b"<Code>ServiceUnavailable</Code>" in answer.body

    run(test)
