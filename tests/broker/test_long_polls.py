"""Long polls: answered the moment something can be received, empty at their end, never an error."""

from __future__ import annotations

import pytest

from penstock.errors import QueueMissing
from penstock.limits import MINUTE
from support.world import SECOND, UNMETERED, World, outgoing


def test_an_empty_queue_answers_empty_at_the_end(world: World) -> None:
    world.create("q")
    poll = world.poll("q", wait_ms=20 * SECOND)
    world.advance(20 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == []


def test_the_queues_own_wait_is_used_when_the_receive_names_none(world: World) -> None:
    world.create("q", wait_ms=5 * SECOND)
    poll = world.poll("q", wait_ms=None)
    world.advance(5 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == []


def test_an_explicit_zero_is_a_short_poll(world: World) -> None:
    world.create("q", wait_ms=20 * SECOND)
    assert world.receive("q", wait_ms=0) == []


def test_a_send_wakes_it_without_waiting_for_more(world: World) -> None:
    world.create("q")
    poll = world.poll("q", 10)
    world.advance(SECOND)
    world.send("q", "m")
    assert poll.bodies == ["m"]


def test_it_wakes_after_the_commit_and_not_before(world: World) -> None:
    world.create("q")
    poll = world.poll("q")
    world.hold_commits()
    world.sending("q", outgoing("m"))
    world.run()
    assert not poll.done
    world.release_commits()
    assert poll.bodies == ["m"]


def test_the_end_of_a_delay_wakes_it(world: World) -> None:
    world.create("q")
    world.send_all("q", *"abcdefgh", delay_ms=5 * SECOND)
    poll = world.poll("q", 1)
    world.advance(5 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == ["a"]


def test_the_end_of_a_visibility_wakes_it(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.receive("q", visibility_ms=3 * SECOND)
    poll = world.poll("q")
    world.advance(3 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == ["m"]


def test_a_change_to_zero_wakes_it(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    (message,) = world.receive("q")
    poll = world.poll("q")
    world.change("q", message, 0)
    assert poll.bodies == ["m"]


@pytest.mark.parametrize("how", ["delete", "expiry", "zero"])
def test_an_opened_group_wakes_it(world: World, how: str) -> None:
    world.create("q.fifo")
    for body in ("first", "second"):
        world.send("q.fifo", body, group="g")
    (first,) = world.receive("q.fifo", 1, visibility_ms=5 * SECOND)
    poll = world.poll("q.fifo", 1)
    assert not poll.done
    if how == "delete":
        world.delete("q.fifo", first)
        assert poll.bodies == ["second"]
    elif how == "zero":
        world.change("q.fifo", first, 0)
        assert poll.bodies == ["first"]
    else:
        world.advance(5 * SECOND)
        assert poll.bodies == ["first"]


def test_the_end_of_a_fifo_delay_wakes_it(world: World) -> None:
    world.create("q.fifo", delay_ms=3 * SECOND)
    poll = world.poll("q.fifo")
    world.send("q.fifo", "m", group="g")
    world.advance(3 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == ["m"]


def test_a_shorter_fifo_delay_wakes_it(world: World) -> None:
    world.create("q.fifo", delay_ms=MINUTE)
    world.send("q.fifo", "m", group="g")
    poll = world.poll("q.fifo")
    world.configure("q.fifo", delay_ms=0)
    assert poll.bodies == ["m"]


def test_first_come_first_served(world: World) -> None:
    world.create("q")
    polls = [world.poll("q", 1) for _ in range(3)]
    world.send("q", "a")
    world.send_all("q", "b", "c", "d")
    assert [poll.bodies for poll in polls] == [["a"], ["b"], ["c"]]
    assert world.counts("q") == (1, 3, 0)


def test_polls_wait_on_after_a_refused_commit(world: World) -> None:
    world.create("q")
    poll = world.poll("q")
    world.refuse_next_commit()
    failed = world.sending("q", outgoing("lost"))
    world.run()
    assert failed.done and not poll.done
    world.send("q", "kept")
    assert poll.bodies == ["kept"]


def test_deleting_the_queue_ends_its_polls(world: World) -> None:
    world.create("q")
    poll = world.poll("q")
    world.drop("q")
    with pytest.raises(QueueMissing):
        poll.answer.result()
    world.advance(MINUTE)
    world.create("q")
    world.send("q", "new")
    assert world.bodies("q") == ["new"], "a poll of the old queue takes nothing of the new one"


def test_stopping_ends_polls_with_nothing(world: World) -> None:
    world.create("q")
    poll = world.poll("q")
    world.do(world.broker.stop())
    assert poll.bodies == []


def test_idle_polls_cost_nothing_until_their_end() -> None:
    with World(UNMETERED) as roomy:
        roomy.create("q")
        polls = [roomy.poll("q") for _ in range(200)]
        before = roomy.runtime.fired
        roomy.advance(19 * SECOND)
        assert roomy.runtime.fired == before, "nothing polls"
        assert not any(poll.done for poll in polls)


def test_a_deleted_queue_lets_go_of_its_receives_a_few_at_a_time(world: World) -> None:
    world.create("q")
    polls = [world.poll("q") for _ in range(600)]
    dropped = world.start(world.broker.drop(world.queue("q")))
    answered = sum(poll.done for poll in polls)
    assert 0 < answered < 300, "other requests have their turn first"
    polls[-1].caller.hang_up()
    assert polls[-1].bodies == []
    world.run()
    assert dropped.done
    for poll in polls[:-1]:
        with pytest.raises(QueueMissing):
            poll.answer.result()


def test_ending_all_waits_answers_those_that_wait_and_no_others(world: World) -> None:
    world.create("q")
    polls = [world.poll("q", 1) for _ in range(600)]
    world.broker.end_polls()
    assert not all(poll.done for poll in polls)
    newcomer = world.poll("q")
    assert all(poll.bodies == [] for poll in polls)
    assert not newcomer.done
    world.send("q", "m")
    assert newcomer.bodies == ["m"]


def test_a_message_that_comes_while_waits_are_ended_is_handed_out_once_or_stays(world: World) -> None:
    world.create("q")
    polls = [world.poll("q", 1) for _ in range(600)]
    sent = world.sending("q", outgoing("m"))
    world.broker.end_polls()
    world.run()
    assert sent.done and all(poll.done for poll in polls)
    assert sum(len(poll.bodies) for poll in polls) + world.counts("q")[0] == 1
