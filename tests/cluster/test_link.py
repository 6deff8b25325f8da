"""Calls over links: on real sockets, cut, stopped, cancelled and refused."""

from __future__ import annotations

import asyncio
import logging
import stat
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.links import QUICK, Proxy, linked, outcome
from penstock.cluster.channel import LinkLimits
from penstock.cluster.frames import (
    HANDSHAKE_BYTES_MAX,
    VERSION,
    CallFrame,
    ChallengeFrame,
    HelloFrame,
    ProofFrame,
    handshake_bytes,
    packet_of,
)
from penstock.cluster.handshake import LinkSecurity
from penstock.cluster.link import NotSent
from penstock.errors import NotOwned, QueueMissing, QuotaReached, Unreachable
from support.harness import run, until
from support.rows import every_row
from support.texts import says


def replaced(**changes: Any) -> LinkLimits:
    return msgspec.structs.replace(QUICK, **changes)


@pytest.mark.parametrize("size", [0, 1, 300_000, 12_000_000])
def test_a_call_is_answered_whatever_its_size(size: int) -> None:
    async def test() -> None:
        async with linked() as ends:
            payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            assert await outcome(ends.call("echo", payload)) == payload

    run(test)


def test_calls_share_a_connection_and_are_answered_in_any_order() -> None:
    async def test() -> None:
        async with linked() as ends:
            answers = [ends.call("keep", b"%d" % number) for number in range(3000)]
            await ends.arrival(3000)
            assert await outcome(ends.call("echo", b"not held up")) == b"not held up"
            for call in reversed(ends.kept):
                call.answer(call.payload * 2)
            assert [await outcome(answer) for answer in answers] == [b"%d" % n * 2 for n in range(3000)]
            assert len(ends.there._links) == 1

    run(test)


def test_processes_are_linked_by_a_socket_that_only_their_user_can_open(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "links" / "process-0"
        async with linked(path, there=LinkSecurity(), here=LinkSecurity()) as ends:
            assert await outcome(ends.call("echo", b"hello")) == b"hello"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        # What a killed process leaves behind does not keep the next one from listening.
        async with linked(path, there=LinkSecurity(), here=LinkSecurity()) as ends:
            assert await outcome(ends.call("echo", b"again")) == b"again"
        path.parent.chmod(0o755)
        with pytest.raises(OSError, match="chmod 700"):
            async with linked(path, there=LinkSecurity(), here=LinkSecurity()):
                pass

    run(test)


def test_errors_of_the_domain_reach_the_caller() -> None:
    async def test() -> None:
        async with linked() as ends:
            for error in (NotOwned(7), QueueMissing(), QuotaReached("queues", 5), Unreachable("try later")):
                answer = ends.call("keep")
                (await ends.arrival(1)).fail(error)
                ends.kept.clear()
                with pytest.raises(type(error)) as raised:
                    await outcome(answer)
                assert raised.value.args == error.args

    run(test)


def test_an_unexpected_error_stays_in_the_log_of_its_process(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with linked() as ends:

            async def broken(_: bytes) -> bytes:
                raise ValueError("a secret detail")

            ends.there.handle("broken", broken)
            with pytest.raises(Unreachable, match="Its log says why"):
                await outcome(ends.call("broken"))
            with pytest.raises(Unreachable, match="not know the call"):
                await outcome(ends.call("unheard of"))

    run(test)
    assert "a secret detail" in caplog.text


# -- without the secret ---------------------------------------------------------------------------------------


async def raw(address: str, data: bytes) -> bytes:
    """All that a listener answers to some bytes before it closes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_another_secret_is_refused_on_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        other = LinkSecurity(b"the secret of another cluster")
        async with linked(here=other) as ends:
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))
        async with linked(there=other) as ends:
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))

    run(test)
    says(caplog.text, "another cluster secret")


def test_one_who_accepts_without_knowing_the_secret_is_not_believed() -> None:
    async def test() -> None:
        calls = bytearray()

        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(handshake_bytes(ChallengeFrame(b"n" * 32)))
            size = int.from_bytes((await reader.read(200))[-4:], "big")
            writer.write(handshake_bytes(ProofFrame(b"p" * 32)))
            calls.extend(await reader.read())
            assert size
            writer.close()

        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        async with linked() as ends:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(NotSent):
                await outcome(ends.here.call(f"127.0.0.1:{port}", "echo", b"confidential"))
        server.close()
        assert b"confidential" not in calls

    run(test)


@every_row(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff\xff\xff\xff" + b"x" * 1000,
        (HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big") + b"x" * 500,
        b"\0\0\0\x05hello",
        b"\0\0\0\0",
        handshake_bytes(HelloFrame(VERSION, b"short")),
        handshake_bytes(HelloFrame(VERSION + 1, b"n" * 32)),
        handshake_bytes(ProofFrame(b"p" * 32)),
        handshake_bytes(ChallengeFrame(b"n" * 32)),
        packet_of([CallFrame(1, "echo", b"")], None),
    ],
)
def test_without_the_secret_a_connection_is_closed_unanswered(data: bytes) -> None:
    async def test() -> None:
        async with linked() as ends:
            assert await raw(ends.address, data) == b""
            await until(lambda: not ends.there._links)

    run(test)


def test_without_the_secret_a_hello_gets_random_bytes_only() -> None:
    async def test() -> None:
        hello = handshake_bytes(HelloFrame(VERSION, b"n" * 32))
        async with linked() as ends:
            answers = [
                await raw(ends.address, hello + more)
                for more in (handshake_bytes(ProofFrame(b"p" * 32)), hello, b"\0\0\0\x01x")
            ]
            size = len(handshake_bytes(ChallengeFrame(b"n" * 32)))
            assert [len(answer) for answer in answers] == [size] * 3
            assert len(set(answers)) == 3

    run(test)


def test_connections_without_proof_are_few_and_do_not_stay() -> None:
    async def test() -> None:
        async with linked(limits=replaced(unproven_max=5)) as ends:
            first = [asyncio.create_task(raw(ends.address, b"\0")) for _ in range(5)]
            await until(lambda: len(ends.there._links) == 5)
            assert await asyncio.gather(*first) == [b""] * 5  # after a while
            await until(lambda: not ends.there._links)

    run(test)


def test_connections_without_proof_keep_no_node_out() -> None:
    async def test() -> None:
        async with linked(limits=replaced(unproven_max=5, tick_s=5.0)) as ends:
            silent = [asyncio.create_task(raw(ends.address, b"\0")) for _ in range(20)]
            await until(lambda: sum(task.done() for task in silent) == 15)  # the oldest give way
            assert len(ends.there._links) == 5
            assert await outcome(ends.call("echo", b"hello")) == b"hello"

    run(test)


def test_a_changed_byte_ends_the_connection_and_nothing_is_readable() -> None:
    async def test() -> None:
        async with linked() as ends, Proxy(ends.address) as proxy:
            ends.address = proxy.address
            assert await outcome(ends.call("echo", b"confidential")) == b"confidential"
            proxy.change_next = True
            with pytest.raises(Unreachable):
                await outcome(ends.call("keep", b"confidential"))
            assert not ends.kept
            assert b"confidential" not in proxy.seen

    run(test)


# -- broken connections ---------------------------------------------------------------------------------------


def test_a_cut_fails_what_was_sent_and_cancels_it_there() -> None:
    async def test() -> None:
        async with linked() as ends, Proxy(ends.address) as proxy:
            ends.address = proxy.address
            answer = ends.call("keep", b"once")
            cancelled: list[bool] = []
            (await ends.arrival()).on_cancel = lambda: cancelled.append(True)
            proxy.cut()
            with pytest.raises(Unreachable, match="may or may not") as raised:
                await outcome(answer)
            assert type(raised.value) is Unreachable
            await until(lambda: bool(cancelled))
            ends.kept[0].answer(b"too late")  # goes nowhere
            assert len(ends.kept) == 1  # nothing was sent a second time
            await asyncio.sleep(QUICK.backoff_s_max)
            assert await outcome(ends.call("echo", b"again")) == b"again"

    run(test)


def test_what_never_left_says_so() -> None:
    async def test() -> None:
        async with linked() as ends:
            await ends.there.close(0)
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))
            with pytest.raises(NotSent):  # not even tried, so soon after the failure
                await outcome(ends.call("echo"))

    run(test)


@pytest.mark.parametrize("begun", [True, False])
def test_a_peer_that_falls_silent_is_taken_for_dead(begun: bool) -> None:
    async def test() -> None:
        async with linked() as ends, Proxy(ends.address) as proxy:
            ends.address = proxy.address
            if begun:
                await outcome(ends.call("echo"))
            proxy.hold()
            with pytest.raises(Unreachable) as raised:
                await outcome(ends.call("keep"))
            assert isinstance(raised.value, NotSent) is not begun
            await until(lambda: not ends.there._links)  # the other side has noticed, too

    run(test)


def test_an_idle_connection_stays() -> None:
    async def test() -> None:
        async with linked() as ends:
            await outcome(ends.call("echo"))
            (link,) = ends.there._links
            await asyncio.sleep(QUICK.tick_s * QUICK.dead_ticks * 3)
            assert list(ends.there._links) == [link]
            await outcome(ends.call("echo"))
            assert list(ends.there._links) == [link]

    run(test)


# -- limits ---------------------------------------------------------------------------------------------------


def test_beyond_the_bytes_in_flight_calls_fail_at_once() -> None:
    async def test() -> None:
        limits = replaced(in_flight_bytes_max=10_000)
        async with linked(limits=limits) as ends:
            taken = [ends.call("keep", b"x" * 3000) for _ in range(3)]
            with pytest.raises(Unreachable, match="Too much waits"):
                ends.call("keep", b"x" * 3000).result()
            await ends.arrival(3)
            ends.kept[0].answer(b"")
            await outcome(taken[0])
            ends.call("keep", b"x" * 3000)
            await ends.arrival(4)

    run(test)


def test_a_peer_that_reads_no_answers_is_cut_off() -> None:
    async def test() -> None:
        limits = replaced(unread_bytes_pause=100_000, unread_bytes_max=5_000_000, dead_ticks=1000)
        async with linked(limits=limits) as ends, Proxy(ends.address) as proxy:
            ends.address = proxy.address
            answers = [ends.call("keep") for _ in range(40)]
            await ends.arrival(40)
            proxy.hold()
            for call in ends.kept:
                call.answer(b"x" * 1_000_000)
            await until(lambda: not ends.there._links)
            proxy.cut()
            with pytest.raises(Unreachable):
                await outcome(answers[-1])

    run(test)


def test_messages_go_back_if_too_many_are_on_their_way() -> None:
    """Instead of an end of the connection, which would be the end of all other calls, too."""

    async def test() -> None:
        limits = replaced(unread_messages_max=5_000_000, dead_ticks=1000)
        async with linked(limits=limits) as ends:
            answers = [ends.call("keep") for _ in range(40)]
            small = ends.call("keep")
            await ends.arrival(41)
            returned: list[int] = []
            for number, call in enumerate(ends.kept[:40]):
                call.answer(b"x" * 1_000_000, partial(returned.append, number))
            ends.kept[40].answer(b"done")
            assert await outcome(small) == b"done"
            assert 0 < len(returned) < 40
            for number, answer in enumerate(answers):
                if number in returned:
                    with pytest.raises(Unreachable, match="Too many messages"):
                        await outcome(answer)
                else:
                    assert len(await outcome(answer)) == 1_000_000

    run(test)


def test_a_payload_beyond_the_limit_is_not_sent_and_not_answered() -> None:
    async def test() -> None:
        limits = replaced(payload_bytes_max=1000)
        async with linked(limits=limits) as ends:
            with pytest.raises(Unreachable, match="too many for one call"):
                ends.call("echo", b"x" * 1001).result()
            answer = ends.call("keep")
            returned: list[bool] = []
            (await ends.arrival()).answer(b"x" * 1001, lambda: returned.append(True))
            with pytest.raises(Unreachable, match="too large"):
                await outcome(answer)
            assert returned

    run(test)


# -- cancelling -----------------------------------------------------------------------------------------------


def test_a_cancelled_call_is_cancelled_there() -> None:
    async def test() -> None:
        async with linked() as ends:
            link = ends.here.link(ends.address)
            outcomes: list[object] = []
            number = link.send("keep", b"", lambda *each: outcomes.append(each))
            call = await ends.arrival()
            cancelled: list[bool] = []
            call.on_cancel = lambda: cancelled.append(True)
            link.cancel(number)
            await until(lambda: bool(cancelled))
            call.answer(b"nothing")  # it ended early, and is answered like any other
            await until(lambda: bool(outcomes))
            assert outcomes == [(b"nothing", None)]

    run(test)


def test_a_call_that_is_cancelled_before_it_left_is_never_sent() -> None:
    async def test() -> None:
        async with linked() as ends:
            link = ends.here.link(ends.address)
            number = link.send("keep", b"", lambda *_: None)
            link.cancel(number)
            await outcome(ends.call("echo"))
            assert not ends.kept

    run(test)


def test_an_answer_that_came_too_late_is_returned() -> None:
    async def test() -> None:
        async with linked(limits=replaced(tick_s=5.0)) as ends:
            link = ends.here.link(ends.address)
            answers: list[object] = []
            numbers = [link.send("keep", b"", lambda *each: answers.append(each)) for _ in range(2)]
            await ends.arrival(2)
            returned: list[int] = []
            ends.kept[0].answer(b"first", lambda: returned.append(0))
            ends.kept[1].answer(b"second", lambda: returned.append(1))
            await until(lambda: len(answers) == 2)
            link.cancel(numbers[1])
            await until(lambda: bool(returned))
            assert returned == [1]

    run(test)


def test_what_can_be_returned_is_forgotten_after_a_while() -> None:
    async def test() -> None:
        async with linked() as ends:
            link = ends.here.link(ends.address)
            number = link.send("keep", b"", lambda *_: None)
            returned: list[bool] = []
            (await ends.arrival()).answer(b"x" * 1000, lambda: returned.append(True))
            (incoming,) = ends.there._links
            await until(lambda: not incoming._returnable and not incoming._returnable_before)
            await until(lambda: incoming._returnable_bytes == 0)
            link.cancel(number)
            await outcome(ends.call("echo"))
            assert not returned

    run(test)


def test_a_stop_waits_for_running_calls() -> None:
    async def test() -> None:
        async with linked() as ends:
            answer = ends.call("keep")
            call = await ends.arrival()
            closing = asyncio.create_task(ends.there.close(5))
            await asyncio.sleep(0.05)
            assert not closing.done()
            call.answer(b"the last one")
            assert await outcome(answer) == b"the last one"
            await closing

    run(test)


def test_a_call_that_crosses_a_stop_was_certainly_not_carried_out() -> None:
    """It can be sent to another node then, so that no request fails because a node stops."""

    async def test() -> None:
        async with linked() as ends:
            await outcome(ends.call("echo"))
            crossing = []

            def call_again(last: int = 0) -> None:
                crossing.append(ends.call("echo"))
                if last < 20:
                    asyncio.get_running_loop().call_soon(call_again, last + 1)

            call_again()
            await ends.there.close(0)
            await until(lambda: len(crossing) > 20 and all(each.done for each in crossing))
            refused = [each for each in crossing if each.failed]
            assert refused, "some came too late"
            for each in refused:
                with pytest.raises(NotSent):
                    each.result()

    run(test)


def test_a_running_call_whose_time_is_over_is_lost() -> None:
    async def test() -> None:
        async with linked() as ends:
            running = ends.call("keep")
            await ends.arrival(1)
            await ends.there.close(0)
            with pytest.raises(Unreachable, match="may or may not") as caught:
                await outcome(running)
            assert not isinstance(caught.value, NotSent)

    run(test)


def test_repeated_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.cluster")

    async def test() -> None:
        async with linked() as ends:
            address = ends.address
            await ends.there.close(0)
            for _ in range(5):
                with pytest.raises(NotSent):
                    await outcome(ends.call("echo"))
                await asyncio.sleep(QUICK.backoff_s_max)
            async with linked(address) as again:
                assert await outcome(ends.call("echo", b"back")) == b"back"
                assert again.there._links

    run(test)
    assert caplog.text.count("no connection to") == 1
    assert caplog.text.count("connected to") == 1


def test_a_stop_of_the_other_side_is_logged_when_it_is_needed_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.cluster")

    async def test() -> None:
        async with linked() as ends:
            await outcome(ends.call("echo"))
            await ends.there.close(0)
            await until(lambda: ends.here.link(ends.address)._channel is None)
            assert caplog.text == ""
            await asyncio.sleep(QUICK.backoff_s_max)
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))
            assert caplog.text.count("no connection to") == 1

    run(test)
