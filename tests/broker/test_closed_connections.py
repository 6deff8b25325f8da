"""Closed connections: a poll on one takes nothing, and messages of an unread answer are taken back uncounted."""

from __future__ import annotations

import pytest

from support.world import SECOND, World

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


@KINDS
def test_who_hangs_up_during_a_long_poll_takes_nothing(world: World, queue: str) -> None:
    world.create(queue)
    gone = world.poll(queue)
    gone.caller.hang_up()
    world.run()
    world.send(queue, "m", group="g")
    (message,) = world.receive(queue)
    assert (message.content.body, message.receives) == ("m", 1)
    assert gone.bodies == []


@KINDS
def test_an_unread_answer_is_taken_back_uncounted(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "m", group="g")
    poll = world.poll(queue)
    assert poll.bodies == ["m"]
    assert poll.caller.if_unread is not None
    world.advance(SECOND)
    poll.caller.if_unread()
    world.run()
    assert world.counts(queue) == (1, 0, 0)
    world.crash()
    (message,) = world.receive(queue)
    assert message.receives == 1
    assert message.first_received_ms == world.clock.wall_ms()


@KINDS
def test_what_is_taken_back_wakes_the_next_in_line(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "m", group="g")
    poll = world.poll(queue)
    waiting = world.poll(queue)
    assert poll.caller.if_unread is not None
    poll.caller.if_unread()
    world.run()
    assert waiting.bodies == ["m"]


def test_an_unread_answer_does_not_burn_a_receive_before_the_dead_letter_queue(world: World) -> None:
    world.create("dead")
    world.create("q", dead_letters=("dead", 1))
    world.send("q", "m")
    poll = world.poll("q")
    assert poll.caller.if_unread is not None
    poll.caller.if_unread()
    world.run()
    assert world.bodies("q") == ["m"]
    assert world.counts("dead") == (0, 0, 0)


def test_hanging_up_while_the_receive_is_committed(world: World) -> None:
    world.create("q.fifo")
    world.send("q.fifo", "m", group="g")
    world.hold_commits()
    poll = world.poll("q.fifo")
    assert not poll.done
    poll.caller.hang_up()
    world.release_commits()
    assert poll.bodies == []
    (message,) = world.receive("q.fifo")
    assert message.receives == 1


def test_what_another_client_received_meanwhile_is_not_taken_back(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "m")
    poll = world.poll("q")
    world.advance(SECOND)
    (newer,) = world.receive("q")
    assert poll.caller.if_unread is not None
    poll.caller.if_unread()
    world.run()
    assert world.counts("q") == (0, 1, 0)
    world.delete("q", newer)
    assert world.counts("q") == (0, 0, 0)


def test_taking_back_from_a_queue_that_is_gone(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    poll = world.poll("q")
    world.drop("q")
    assert poll.caller.if_unread is not None
    poll.caller.if_unread()
    world.run()


def test_the_polls_before_and_behind_one_that_hangs_up_are_served(world: World) -> None:
    world.create("q")
    polls = [world.poll("q", 1) for _ in range(3)]
    polls[1].caller.hang_up()
    world.send_all("q", "a", "b")
    assert [poll.bodies for poll in polls] == [["a"], [], ["b"]]
