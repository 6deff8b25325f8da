"""What an account may have: never more by sending, and again as soon as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import QuotaReached, StoreError
from penstock.limits import Limits
from penstock.names import QueueName
from penstock.queues.messages import Attribute
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.faults import to_fault
from support.generated import examples
from support.texts import says
from support.world import SECOND, World, outgoing


def refused(world: World, short: str, *bodies: str) -> QuotaReached:
    with pytest.raises(QuotaReached) as caught:
        world.send_all(short, *bodies)
    return caught.value


# -- queues ----------------------------------------------------------------------------------------------------


def create(world: World, account: str, region: str, name: str) -> None:
    world.do(
        world.broker.create(QueueName(account, region, name), QueueSettings(fifo=False, redrive=None), {})
    )


def test_so_many_queues_in_all_regions_together() -> None:
    with World(Limits(quota_queues=2)) as world:
        create(world, "1" * 12, "eu-west-1", "a")
        create(world, "1" * 12, "us-east-1", "a")
        with pytest.raises(QuotaReached) as caught:
            create(world, "1" * 12, "eu-west-1", "b")
        assert (caught.value.what, caught.value.most) == ("queues", 2)
        create(world, "2" * 12, "eu-west-1", "b")
        world.do(world.broker.drop(world.broker.find(QueueName("1" * 12, "us-east-1", "a"))))
        create(world, "1" * 12, "eu-west-1", "b")
        world.crash()
        with pytest.raises(QuotaReached):
            create(world, "1" * 12, "eu-west-1", "c")


# -- messages --------------------------------------------------------------------------------------------------


@pytest.fixture
def three() -> Iterator[World]:
    world = World(Limits(quota_messages=3))
    world.create("q")
    world.create("other")
    yield world
    world.close()


def test_no_send_goes_over(three: World) -> None:
    three.send_all("q", "a", "b")
    error = refused(three, "other", "c", "d")
    assert (error.what, error.most) == ("messages", 3)
    three.send("other", "c")
    refused(three, "q", "d")
    three.advance(5 * SECOND)
    refused(three, "q", "d")
    assert three.counts("q") == (2, 0, 0)


def test_sends_at_the_same_moment_are_counted_too(three: World) -> None:
    three.hold_commits()
    sending = [three.sending("q", outgoing(str(number))) for number in range(5)]
    three.run()
    three.release_commits()
    outcomes = [later._error for later in sending]
    assert [type(error) for error in outcomes] == [type(None)] * 3 + [QuotaReached] * 2


def test_what_is_being_written_counts_as_what_is_not_yet(three: World) -> None:
    """One of three sends is being written, and two are in the commit after it."""
    three.hold_commits()
    sending = [three.sending("q", outgoing("a"))]
    three.run()
    sending += [three.sending("q", outgoing(body)) for body in "bcd"]
    three.run()
    three.release_commits()
    assert [type(later._error) for later in sending] == [type(None)] * 3 + [QuotaReached]
    assert three.counts("q") == (3, 0, 0)


def test_a_purge_counts_before_it_is_durable(three: World) -> None:
    three.send("q", "a")
    three.hold_commits()
    sending = [three.sending("q", outgoing("b"))]
    three.run()
    purged = three.start(three.broker.purge(three.queue("q")))
    sending += [three.sending("q", outgoing(body)) for body in "cdef"]
    three.run()
    three.release_commits()
    assert purged.done
    assert [type(later._error) for later in sending] == [type(None)] * 4 + [QuotaReached]
    assert three.counts("q") == (3, 0, 0)


def test_room_is_not_given_away_twice_while_a_queue_is_loaded(three: World) -> None:
    three.queue("q").memory.forget()
    three.runtime.reader.paused = True
    late = three.sending("q", outgoing("a"), outgoing("b"))
    three.run()
    assert not late.done
    three.send_all("other", "c", "d")
    three.runtime.reader.paused = False
    three.run()
    assert isinstance(late._error, QuotaReached)
    assert three.counts("q") == (0, 0, 0) and three.counts("other") == (2, 0, 0)


def test_room_is_seen_at_once(three: World) -> None:
    three.send_all("q", "a", "b", "c")
    for message in three.drain_up_to("q", 2):
        three.delete("q", message)
    three.send_all("q", "d", "e")
    refused(three, "q", "f")
    three.purge("q")
    three.send_all("q", "f", "g", "h")
    refused(three, "q", "i")
    three.drop("q")
    three.send_all("other", "i", "j", "k")
    refused(three, "other", "l")


def test_what_was_there_at_a_start_counts(three: World) -> None:
    three.send_all("q", "a", "b")
    three.crash()
    refused(three, "q", "c", "d")
    three.send("q", "c")


def test_what_the_store_refused_was_not_sent(three: World) -> None:
    three.send("q", "a")
    three.refuse_next_commit()
    with pytest.raises(StoreError):
        three.send_all("q", "b", "c")
    three.send_all("q", "b", "c")
    refused(three, "q", "d")


def test_dead_letters_always_fit(three: World) -> None:
    three.create("orders", dead_letters=("other", 1))
    three.send_all("orders", "a", "b", "c")
    three.drain_up_to("orders", 3, visibility_ms=SECOND)
    three.advance(2 * SECOND)
    assert three.drain("orders") == []
    assert three.counts("other") == (3, 0, 0)
    refused(three, "q", "d")


def test_an_account_does_not_pay_for_another(three: World) -> None:
    three.send_all("q", "a", "b", "c")
    create(three, "2" * 12, "eu-west-1", "q")
    theirs = three.broker.find(QueueName("2" * 12, "eu-west-1", "q"))
    three.do(theirs.send([outgoing("a")] * 3))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("sdpw"), st.integers(1, 4)), max_size=25))
def test_whatever_happens_no_more_is_held_than_may_be(steps: list[tuple[str, int]]) -> None:
    with World(Limits(quota_messages=6)) as world:
        world.create("q")
        for step, count in steps:
            match step:
                case "s":
                    fits = sum(world.counts("q")) + count <= 6
                    with nullcontext() if fits else pytest.raises(QuotaReached):
                        world.send_all("q", *["m"] * count)
                case "d":
                    for message in world.drain_up_to("q", count):
                        world.delete("q", message)
                case "p":
                    world.crash()
                case "w":
                    world.advance(count * SECOND)
            assert sum(world.counts("q")) <= 6
        room = 6 - sum(world.counts("q"))
        if room:
            world.send_all("q", *["m"] * room)
        refused(world, "q", "one more")


# -- bytes -----------------------------------------------------------------------------------------------------


def test_so_many_bytes_of_bodies_and_attributes() -> None:
    with World(Limits(quota_bytes=10_000)) as world:
        world.create("q")
        world.send("q", "ä" * 4000)
        assert refused(world, "q", "ä" * 1001).what == "bytes"
        with pytest.raises(QuotaReached):
            world.send("q", "x", attributes={"big": Attribute("Binary", b"x" * 2000)})
        world.send("q", "x" * 1500)
        refused(world, "q", "x" * 400)
        for message in world.drain_up_to("q", 2):
            world.delete("q", message)
        world.send("q", "x" * 9500)


def test_many_small_messages_do_not_slip_through() -> None:
    with World(Limits(quota_bytes=20_000)) as world:
        world.create("q")
        with suppress(QuotaReached):
            for _ in range(1000):
                world.send("q", "x")
        (held,) = world.store.usage().values()
        assert 15_000 < held.bytes <= 20_000


def test_the_words_on_the_wire() -> None:
    fault = to_fault(QuotaReached("messages", 3))
    assert fault is not None
    assert (fault.shape, fault.status) == ("OverLimit", 403)
    says(fault.message, "account", "3 messages")
