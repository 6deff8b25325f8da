"""Dead letters: when a message goes, what it keeps, and where it may go on to."""

from __future__ import annotations

import pytest

from penstock.broker.other_shards import SourcesQuestion
from penstock.errors import HandleExpired, HandleInvalid, NotPossible, StoreError
from penstock.limits import DAY, HOUR, MINUTE
from penstock.names import Requester
from penstock.queues.messages import Attribute, Received
from penstock.queues.settings import Redrive
from support.world import SECOND, World, name_of

CONSUMER = Requester("alice (AKIA1)", "10.0.0.1", "consumer/1.0")
KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


def make(world: World, kind: str, receives_max: int = 1) -> tuple[str, str]:
    source, dead = "source" + kind, "dead" + kind
    world.create(dead)
    world.create(source, dead_letters=(dead, receives_max), visibility_ms=SECOND)
    return source, dead


@KINDS
@pytest.mark.parametrize("receives_max", [1, 3])
def test_exactly_so_many_deliveries_and_the_next_receive_moves(
    world: World, kind: str, receives_max: int
) -> None:
    source, dead = make(world, kind, receives_max)
    world.send(source, "m", group="g")
    for count in range(1, receives_max + 1):
        (message,) = world.receive(source)
        assert message.receives == count
        world.advance(SECOND)
        assert world.counts(dead) == (0, 0, 0), "it moves when it is received, not before"
    assert world.receive(source) == []
    assert world.counts(source) == (0, 0, 0)
    assert world.counts(dead) == (1, 0, 0)


@KINDS
def test_what_a_dead_letter_keeps_and_gets(world: World, kind: str) -> None:
    source, dead = make(world, kind)
    attributes = {"colour": Attribute("String", "blue")}
    sent = world.send(source, "m", group="g", dedup_id="d", attributes=attributes, trace="Root=1")
    (first,) = world.receive(source)
    world.advance(SECOND)
    world.receive(source)
    (message,) = world.receive(dead)
    assert message.content == first.content, (
        "id, body, attributes, sender, send time, trace, deduplication id"
    )
    assert message.content.id == sent.id
    assert message.group == "g"
    assert message.receives == 2, "the receive that moved it does not count"
    assert message.first_received_ms == first.first_received_ms
    assert message.source == name_of(source).arn
    assert first.source is None


@KINDS
def test_moving_survives_a_crash_and_is_all_or_nothing(world: World, kind: str) -> None:
    source, dead = make(world, kind)
    world.send(source, "m", group="g")
    world.receive(source)
    world.advance(SECOND)
    world.counts(dead)
    world.hold_commits()
    world.poll(source, wait_ms=0)
    world.crash()
    assert (world.counts(source), world.counts(dead)) == ((1, 0, 0), (0, 0, 0))
    assert world.receive(source) == []
    world.crash()
    assert (world.counts(source), world.counts(dead)) == ((0, 0, 0), (1, 0, 0))


@pytest.mark.slow
def test_standard_keeps_the_enqueue_time(world: World) -> None:
    source, dead = make(world, "")
    world.send(source, "m")
    world.receive(source)
    world.advance(3 * DAY)
    world.receive(source)
    assert world.counts(dead) == (1, 0, 0)
    world.advance(DAY)
    world.counts(dead)
    assert world.counts(dead) == (0, 0, 0)


@pytest.mark.slow
def test_fifo_restarts_it(world: World) -> None:
    source, dead = make(world, ".fifo")
    world.send(source, "m", group="g")
    world.receive(source)
    world.advance(3 * DAY)
    world.receive(source)
    world.advance(4 * DAY - 1)
    assert world.counts(dead) == (1, 0, 0)
    world.advance(1)
    assert world.counts(dead) == (0, 0, 0)


def test_fifo_a_poisoned_head_frees_its_group(world: World) -> None:
    source, dead = make(world, ".fifo")
    for body in ("poison", "next", "last"):
        world.send(source, body, group="g", dedup_id=body)
    world.receive(source, 1)
    world.advance(SECOND)
    (message,) = world.receive(source, 1)
    assert message.content.body == "next"
    (letter,) = world.receive(dead)
    assert (letter.content.body, letter.group, letter.content.dedup_id) == ("poison", "g", "poison")


def test_fifo_dead_letters_keep_their_order(world: World) -> None:
    source, dead = make(world, ".fifo")
    for i in range(6):
        world.send(source, f"m{i}", group="g")
    for _ in range(30):
        world.receive(source, 10)
        world.advance(SECOND)
    letters = []
    while batch := world.receive(dead):
        letters += [message.content.body for message in batch]
        world.delete(dead, *batch)
    assert letters == [f"m{i}" for i in range(6)]


def test_a_long_poll_on_the_dead_letter_queue_wakes(world: World) -> None:
    source, dead = make(world, "")
    world.send(source, "m")
    world.receive(source)
    world.advance(SECOND)
    poll = world.poll(dead)
    assert not poll.done
    world.receive(source)
    assert poll.bodies == ["m"]


def test_dying_messages_do_not_fill_an_answer(world: World) -> None:
    source, dead = make(world, "")
    world.send_all(source, *[f"old{i}" for i in range(8)])
    assert len(world.drain_up_to(source, 8)) == 8
    world.advance(SECOND)
    world.send("source", "new")
    assert world.drain_up_to(source, 1)[0].content.body == "new"
    assert len(world.drain(dead)) == 8


def test_a_queue_may_be_its_own_dead_letter_queue(world: World) -> None:
    world.create("loop", visibility_ms=SECOND)
    world.configure("loop", redrive=Redrive(name_of("loop"), 1))
    world.send("loop", "m")
    world.receive("loop")
    world.advance(SECOND)
    seen = [message.receives for _ in range(3) for message in world.receive("loop")]
    assert seen == [2]
    assert world.counts("loop") == (0, 1, 0)


def test_a_chain_of_dead_letter_queues(world: World) -> None:
    world.create("third")
    world.create("second", dead_letters=("third", 1), visibility_ms=SECOND)
    world.create("first", dead_letters=("second", 2), visibility_ms=SECOND)
    world.send("first", "m")
    for _ in range(2):
        assert len(world.receive("first")) == 1
        world.advance(SECOND)
    assert world.receive("first") == []
    (message,) = world.receive("second")
    assert (message.receives, message.source) == (3, name_of("first").arn)
    world.advance(SECOND)
    assert world.receive("second") == []
    (message,) = world.receive("third")
    assert (message.receives, message.source) == (4, name_of("second").arn)


@KINDS
def test_without_its_dead_letter_queue_a_message_stays(world: World, kind: str) -> None:
    source, dead = make(world, kind)
    world.send(source, "m", group="g")
    world.drop(dead)
    for count in range(1, 4):
        assert world.receive(source)[0].receives == count
        world.advance(SECOND)


def test_handles_of_the_source_do_not_reach_a_dead_letter(world: World) -> None:
    source, dead = make(world, "")
    world.send(source, "m")
    (message,) = world.receive(source)
    world.advance(SECOND)
    world.receive(source)
    world.delete(source, message)
    assert world.counts(dead) == (1, 0, 0)


def test_the_sources_of_a_dead_letter_queue(world: World) -> None:
    make(world, "")
    world.create("another", dead_letters=("dead", 5))
    world.create("unrelated")
    assert world.do(world.broker.ask(SourcesQuestion(name_of("dead")))) == [
        name_of("another"),
        name_of("source"),
    ]
    world.crash()
    assert world.do(world.broker.ask(SourcesQuestion(name_of("dead")))) == [
        name_of("another"),
        name_of("source"),
    ]
    assert world.do(world.broker.ask(SourcesQuestion(name_of("source")))) == []


def test_a_dead_letter_is_there_when_the_receive_that_moved_it_is_answered(world: World) -> None:
    source, dead = make(world, "")
    world.send(source, "m")
    world.receive(source)
    world.advance(HOUR)
    world.hold_commits()
    poll = world.poll(source, wait_ms=0)
    assert not poll.done
    world.release_commits()
    assert poll.answer.result() == []
    assert world.bodies(dead) == ["m"]


def test_a_refused_move_leaves_the_message_where_it_was(world: World) -> None:
    source, dead = make(world, "")
    world.send(source, "m")
    world.receive(source)
    world.advance(HOUR)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.receive(source)
    assert (world.counts(source), world.counts(dead)) == ((1, 0, 0), (0, 0, 0))
    world.advance(MINUTE)
    world.receive(source)
    assert (world.counts(source), world.counts(dead)) == ((0, 0, 0), (1, 0, 0))


def give_up(world: World, queue: str, message: Received) -> None:
    live = world.queue(queue)
    seq = world.stored_number(queue, message.handle)
    world.do(live.dead_letter(message.handle, seq, CONSUMER))


@KINDS
def test_a_receiver_gives_a_message_up(world: World, kind: str) -> None:
    source, dead = make(world, kind, receives_max=5)
    world.send(source, "m", group="g")
    world.send(source, "next", group="g")
    (message,) = world.receive(source, 1)
    give_up(world, source, message)
    assert world.bodies(source) == ["next"], "and the group goes on"
    (letter,) = world.receive(dead)
    assert (letter.content, letter.group) == (message.content, message.group)
    assert letter.receives == 2 and letter.source == name_of(source).arn
    seq = world.stored_number(dead, letter.handle)
    given_up = [
        each for each in world.queue(source).history(seq, gone=True).events if each.event == "dead_lettered"
    ]
    assert [(each.requester, each.detail) for each in given_up] == [(CONSUMER, f"to {dead}")]


@KINDS
def test_giving_up_survives_a_crash_and_is_all_or_nothing(world: World, kind: str) -> None:
    source, dead = make(world, kind, receives_max=5)
    world.send(source, "m", group="g")
    (message,) = world.receive(source)
    world.advance(SECOND // 2)  # the receive is written
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        give_up(world, source, message)
    assert (world.counts(source), world.counts(dead)) == ((0, 1, 0), (0, 0, 0))
    give_up(world, source, message)
    world.crash()
    assert (world.counts(source), world.counts(dead)) == ((0, 0, 0), (1, 0, 0))


@KINDS
def test_only_who_holds_a_message_can_give_it_up(world: World, kind: str) -> None:
    source, dead = make(world, kind, receives_max=5)
    world.send(source, "m", group="g")
    (first,) = world.receive(source)
    world.advance(SECOND)
    with pytest.raises(HandleExpired):
        give_up(world, source, first)
    (second,) = world.receive(source)
    with pytest.raises(HandleExpired):
        give_up(world, source, first)
    world.delete(source, second)
    with pytest.raises(HandleExpired):
        give_up(world, source, second)
    assert world.counts(dead) == (0, 0, 0)


@KINDS
def test_a_message_is_given_up_after_a_restart(world: World, kind: str) -> None:
    source, dead = make(world, kind, receives_max=5)
    world.send(source, "m", group="g")
    (message,) = world.receive(source)
    world.restart()
    give_up(world, source, message)
    assert (world.counts(source), world.counts(dead)) == ((0, 0, 0), (1, 0, 0))


def test_without_a_dead_letter_queue_a_message_cannot_be_given_up(world: World) -> None:
    source, dead = make(world, "", receives_max=5)
    world.send(source, "m")
    (message,) = world.receive(source)
    world.drop(dead)
    with pytest.raises(NotPossible, match="no dead-letter queue"):
        give_up(world, source, message)
    with pytest.raises(HandleInvalid):
        world.do(world.queue(source).dead_letter(message.handle, 12345))
