"""What happened to a message and who holds it, as an operator sees it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from penstock.broker.history import Holder
from penstock.errors import StoreError
from penstock.names import Requester
from penstock.queues.messages import Received
from support.texts import says
from support.world import DAY, MINUTE, ROOMY, SECOND, World, outgoing

ALICE = Requester("alice (AKIA1)", "10.0.0.1", "consumer/1.0")
BOB = Requester("bob (AKIA2)", "10.0.0.2", "producer/2.0")
KINDS = pytest.mark.parametrize("name", ["q", "q.fifo"])


@pytest.fixture
def make() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**limits: int) -> World:
        made.append(World(msgspec.structs.replace(ROOMY, **limits)))
        return made[-1]

    yield make
    for world in made:
        world.close()


def send(world: World, name: str, body: str = "a") -> int:
    """Returns the number of the message, which is the only one of its queue."""
    group = "g" if name.endswith(".fifo") else None
    world.do(world.queue(name).send([outgoing(body, group=group)], BOB))
    return world.stored(name)[-1].seq


def receive(world: World, name: str, visibility_ms: int = 30 * SECOND) -> Received:
    (received,) = world.receive(name, 1, visibility_ms=visibility_ms, requester=ALICE)
    return received


def events(world: World, name: str, seq: int) -> list[str]:
    return [event.event for event in world.queue(name).history(seq).events]


@KINDS
def test_the_history_of_a_whole_life_says_who_and_when(world: World, name: str) -> None:
    world.create(name)
    seq = send(world, name)
    sent_ms = world.clock.wall_ms()
    world.advance(5 * SECOND)
    received = receive(world, name)
    queue = world.queue(name)
    world.do(queue.change_visibility([(received.handle, MINUTE)], ALICE))
    world.do(queue.change_visibility([(received.handle, 0)], ALICE))
    received = receive(world, name)
    world.do(queue.delete([received.handle], ALICE))
    history = queue.history(seq)
    assert history.complete
    assert [(each.event, each.requester, each.detail) for each in history.events] == [
        ("sent", BOB, None),
        ("received", ALICE, "hidden for 30 s"),
        ("extended", ALICE, "hidden for 60 s"),
        ("released", ALICE, None),
        ("received", ALICE, "hidden for 30 s"),
        ("deleted", ALICE, None),
    ]
    assert [each.at_ms - sent_ms for each in history.events] == [0] + 5 * [5 * SECOND]


def test_a_message_is_deleted_once(world: World) -> None:
    world.create("q")
    seq = send(world, "q")
    received = receive(world, "q")
    world.delete("q", received)
    world.delete("q", received)  # SQS: that is no error
    assert events(world, "q", seq) == ["sent", "received", "deleted"]


def test_the_send_comes_first_even_if_a_receive_waited_for_it(world: World) -> None:
    world.create("q")
    poll = world.poll("q", requester=ALICE)
    seq = send(world, "q")
    assert poll.bodies == ["a"]
    assert events(world, "q", seq) == ["sent", "received"]


def test_a_client_that_did_not_get_its_message_released_it(world: World) -> None:
    world.create("q")
    seq = send(world, "q")
    poll = world.poll("q", requester=ALICE)
    assert poll.caller.if_unread is not None
    poll.caller.if_unread()
    world.run()
    last = world.queue("q").history(seq).events[-1]
    assert last.event == "released"
    says(last.detail or "", "response", "delivered")


@KINDS
def test_messages_expire(world: World, name: str) -> None:
    world.create(name, retention_ms=MINUTE)
    seq = send(world, name)
    world.advance(3 * MINUTE)
    assert events(world, name, seq) == ["sent", "expired"]


def test_dead_letters_and_moves(world: World) -> None:
    world.create("dead")
    world.create("q", dead_letters=("dead", 1))
    seq = send(world, "q")
    receive(world, "q", visibility_ms=SECOND)
    world.advance(2 * SECOND)
    assert world.receive("q") == []
    assert events(world, "dead", seq) == ["sent", "received", "dead_lettered"]
    assert world.queue("dead").history(seq).events[-1].detail == "to dead"
    world.start_move("dead")
    world.advance(2 * SECOND)
    assert events(world, "dead", seq)[-1] == "moved"
    history = world.queue("q").history(world.stored("q")[0].seq)
    assert [(each.event, each.detail) for each in history.events] == [("moved", "from dead")]
    assert not history.complete  # it is another message now, and what it was before has another number


def test_what_a_refused_commit_would_have_done_did_not_happen(world: World) -> None:
    world.create("dead")
    world.create("q", dead_letters=("dead", 1))
    seq = send(world, "q")
    received = receive(world, "q", visibility_ms=SECOND)
    world.advance(SECOND // 2)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.delete("q", received)
    world.advance(SECOND)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.receive("q")
    assert events(world, "q", seq) == ["sent", "received"]


# -- bounds --------------------------------------------------------------------------------------------------------


def test_the_oldest_events_are_forgotten_first(make: Callable[..., World]) -> None:
    world = make(history_events_max=3)
    world.create("q")
    first = send(world, "q", "a")
    assert world.queue("q").history(first).complete
    receive(world, "q")
    second = send(world, "q", "b")
    assert events(world, "q", first) == ["sent", "received"]
    receive(world, "q")
    history = world.queue("q").history(first)
    assert [each.event for each in history.events] == ["received"]
    assert not history.complete
    assert world.queue("q").history(second).complete


def test_without_a_history_nothing_is_kept(make: Callable[..., World]) -> None:
    world = make(history_events_max=0)
    world.create("q")
    seq = send(world, "q")
    receive(world, "q")
    assert world.queue("q").history(seq) == ([], False)
    assert world.queue("q").holder(seq) is not None


def test_events_are_forgotten_after_a_time(make: Callable[..., World]) -> None:
    world = make(history_ms_max=10 * MINUTE)
    world.create("q")
    seq = send(world, "q")
    world.advance(9 * MINUTE)
    receive(world, "q")
    world.advance(MINUTE)
    history = world.queue("q").history(seq)
    assert [each.event for each in history.events] == ["received"]
    assert not history.complete


def test_a_restart_forgets_the_history_but_not_the_counts(world: World) -> None:
    world.create("q")
    seq = send(world, "q")
    receive(world, "q", visibility_ms=DAY // 4)
    world.restart()
    assert world.queue("q").history(seq) == ([], False)
    assert world.queue("q").holder(seq) is None
    (row,) = world.stored("q")
    assert (row.receives, row.first_received_ms) == (1, world.clock.wall_ms())


# -- who holds it --------------------------------------------------------------------------------------------------


@KINDS
def test_who_holds_a_message(world: World, name: str) -> None:
    world.create(name)
    seq = send(world, name)
    queue = world.queue(name)
    assert queue.holder(seq) is None
    received = receive(world, name)
    since_ms = world.clock.wall_ms()
    held = Holder(ALICE.by, ALICE.address, ALICE.user_agent, since_ms, since_ms + 30 * SECOND, 0)
    assert queue.holder(seq) == held
    world.advance(10 * SECOND)
    world.change(name, received, MINUTE)
    assert queue.holder(seq) == held._replace(until_ms=since_ms + 70 * SECOND, extended=1)
    world.advance(70 * SECOND)
    world.counts(name)
    assert queue.holder(seq) is None


def test_a_repeated_receive_attempt_holds_the_messages_again(world: World) -> None:
    world.create("q.fifo")
    seq = send(world, "q.fifo")
    for _ in range(2):
        world.receive("q.fifo", attempt_id="try", visibility_ms=MINUTE, requester=ALICE)
        world.advance(SECOND)
    holder = world.queue("q.fifo").holder(seq)
    assert holder is not None and holder.since_ms == world.clock.wall_ms() - SECOND


@KINDS
def test_the_holder_stays_known_when_memory_is_loaded_again(world: World, name: str) -> None:
    world.create(name)
    seq = send(world, name)
    receive(world, name)
    held = world.queue(name).holder(seq)
    world.queue(name).memory.forget()
    world.do(world.queue(name).memory.load())
    assert held is not None and world.queue(name).holder(seq) == held


def test_times_follow_the_wall_clock(world: World) -> None:
    world.create("q")
    seq = send(world, "q")
    receive(world, "q")
    world.clock.wall_offset_ms = DAY  # it was set
    holder = world.queue("q").holder(seq)
    assert holder is not None and holder.since_ms == world.clock.wall_ms()
    assert world.queue("q").history(seq).events[0].at_ms == world.clock.wall_ms()
