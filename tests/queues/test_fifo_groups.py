"""FIFO: order within a group, what locks it, what opens it, and whose turn it is."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from penstock.errors import HandleExpired
from penstock.limits import HOUR, MINUTE
from penstock.queues.messages import Received
from sim.world import SECOND, World

Q = "q.fifo"


@pytest.fixture
def world(world: World) -> World:
    world.create(Q)
    return world


def send(world: World, *messages: str) -> None:
    """``g1m2`` goes to group ``g1``."""
    for message in messages:
        world.send(Q, message, group=message[:2])


def take(world: World, count: int, **more: int) -> dict[str, Received]:
    return {message.content.body: message for message in world.drain_up_to(Q, count, **more)}


def work_off(world: World) -> list[str]:
    """Receive and delete until nothing is left. With little memory, a receive gives fewer than it was asked for."""
    done: list[str] = []
    while batch := world.receive(Q, 10):
        done += [message.content.body for message in batch]
        world.delete(Q, *batch)
    return done


def test_one_group_comes_in_order(world: World) -> None:
    sent = [f"g1m{i}" for i in range(30)]
    send(world, *sent)
    assert work_off(world) == sent


def test_one_receive_gives_many_of_one_group(roomy: World) -> None:
    roomy.create(Q)
    sent = [f"g1m{i}" for i in range(12)]
    send(roomy, *sent)
    assert roomy.bodies(Q, 10) == sent[:10]
    assert roomy.bodies(Q, 10) == []


def test_a_batch_keeps_its_order(world: World) -> None:
    sent = world.send_all(Q, *[f"m{i}" for i in range(10)], group="g")
    sequences = [answer.sequence or 0 for answer in sent]
    assert sequences == sorted(set(sequences))
    assert work_off(world) == [f"m{i}" for i in range(10)]


def test_a_receive_takes_all_it_can_of_one_group_and_then_the_next(roomy: World) -> None:
    roomy.create(Q)
    send(roomy, "g1m1", "g2m1", "g1m2", "g1m3")
    assert roomy.bodies(Q, 10) == ["g1m1", "g1m2", "g1m3", "g2m1"]


def test_a_message_in_flight_blocks_those_behind_it(world: World) -> None:
    send(world, "g1m1", "g1m2", "g2m1")
    assert world.bodies(Q, 1) == ["g1m1"]
    assert world.bodies(Q, 10) == ["g2m1"]
    assert world.bodies(Q, 10) == []


def test_a_new_send_does_not_open_a_group(world: World) -> None:
    send(world, "g1m1")
    world.receive(Q)
    send(world, "g1m2")
    assert world.bodies(Q) == []


def test_group_locked_siblings_count_as_visible(world: World) -> None:
    send(world, "g1m1", "g1m2", "g1m3", "g2m1", "g2m2", "g2m3")
    take(world, 1)
    take(world, 1)
    assert world.counts(Q) == (4, 2, 0)
    world.crash()
    assert world.counts(Q) == (4, 2, 0)


def test_deleting_all_that_is_in_flight_opens_the_group(world: World) -> None:
    send(world, "g1m1", "g1m2", "g1m3")
    taken = take(world, 2)
    world.delete(Q, taken["g1m1"])
    assert world.bodies(Q) == []
    world.delete(Q, taken["g1m2"])
    assert world.bodies(Q) == ["g1m3"]


def test_expiry_opens_the_group_from_its_first(world: World) -> None:
    send(world, "g1m1", "g1m2")
    world.receive(Q, 1, visibility_ms=SECOND)
    world.advance(SECOND)
    assert list(take(world, 2)) == ["g1m1", "g1m2"]


def test_a_later_one_in_flight_does_not_block_those_before_it(world: World) -> None:
    send(world, "g1m1", "g1m2", "g1m3")
    taken = take(world, 3, visibility_ms=10 * SECOND)
    world.change(Q, taken["g1m2"], MINUTE)
    world.advance(10 * SECOND)
    assert world.bodies(Q, 10) == ["g1m1"]
    world.advance(50 * SECOND)
    assert list(take(world, 3)) == ["g1m1", "g1m2", "g1m3"]


def test_zero_on_receive_frees_at_once(world: World) -> None:
    send(world, "g1m1", "g1m2")
    assert world.bodies(Q, 1, visibility_ms=0) == ["g1m1"]
    assert world.bodies(Q, 1, visibility_ms=0) == ["g1m1"]
    assert list(take(world, 2)) == ["g1m1", "g1m2"]


def test_change_to_zero_frees_at_once(world: World) -> None:
    send(world, "g1m1", "g1m2")
    taken = take(world, 1)
    world.change(Q, taken["g1m1"], 0)
    assert list(take(world, 2)) == ["g1m1", "g1m2"]


def test_a_group_that_opens_again_goes_behind_those_that_wait(world: World) -> None:
    send(world, "g1m1", "g2m1", "g3m1")
    taken = take(world, 1)
    world.change(Q, taken["g1m1"], 0)
    assert [world.bodies(Q, 1)[0] for _ in range(3)] == ["g2m1", "g3m1", "g1m1"]


def test_a_group_taken_in_part_goes_behind_too(world: World) -> None:
    send(world, "g1m1", "g1m2", "g2m1", "g2m2")
    first = take(world, 1)
    world.delete(Q, first["g1m1"])
    assert world.bodies(Q, 1) == ["g2m1"]
    assert world.bodies(Q, 1) == ["g1m2"]


def test_locks_and_order_survive_a_crash(world: World) -> None:
    send(world, "g1m1", "g1m2", "g1m3", "g2m1")
    taken = take(world, 1, visibility_ms=MINUTE)
    world.crash()
    assert world.bodies(Q, 10) == ["g2m1"]
    world.delete(Q, taken["g1m1"])
    assert work_off(world) == ["g1m2", "g1m3"]


def test_a_receive_that_was_not_committed_never_answers_and_leaves_the_group_open(world: World) -> None:
    send(world, "g1m1")
    world.counts(Q)
    world.hold_commits()
    poll = world.poll(Q, wait_ms=0)
    assert not poll.done
    world.crash()
    (message,) = world.receive(Q)
    assert (message.content.body, message.receives) == ("g1m1", 1)


def test_sequence_numbers_grow_across_a_crash_and_a_purge(world: World) -> None:
    sequences = []
    for i in range(6):
        sequences.append(world.send(Q, f"m{i}", group="g").sequence or 0)
        if i == 2:
            world.crash()
        if i == 4:
            world.purge(Q)
    assert all(a < b for a, b in pairwise(sequences))


def test_the_sequence_received_is_the_one_sent(world: World) -> None:
    sent = world.send(Q, "m", group="g")
    (message,) = world.receive(Q)
    assert message.sequence == sent.sequence
    assert message.content.id == sent.id


def test_many_groups_page_and_none_is_forgotten(world: World) -> None:
    """Seven groups, while tiny limits list three at a time."""
    for i in range(5):
        for group in range(7):
            send(world, f"g{group}m{i}")
    seen = work_off(world)
    assert len(seen) == len(set(seen)) == 35
    for group in range(7):
        assert [body for body in seen if body.startswith(f"g{group}")] == [f"g{group}m{i}" for i in range(5)]


def test_twenty_consumers_with_random_failures_keep_the_order_of_every_group(world: World) -> None:
    dice = random.Random(7)
    groups = [f"{group:02}" for group in range(10)]
    for i in range(4):
        for group in groups:
            world.send(Q, f"{group}m{i}", group=group)
    done: list[str] = []
    for _ in range(2_000):
        for message in world.receive(
            Q, dice.randint(1, 10), visibility_ms=dice.choice([0, SECOND, 3 * SECOND])
        ):
            if dice.random() < 0.4:
                try:
                    world.delete(Q, message)
                except HandleExpired:
                    continue  # hidden for no time: it is another's turn
                done.append(message.content.body)
        world.advance(dice.choice([0, 500, SECOND]))
        if len(done) == 40:
            break
    assert len(done) == len(set(done)) == 40
    for group in groups:
        # A consumer that fails on one and goes on with the next deletes out of order: what counts is that
        # all are done.
        assert sorted(body for body in done if body.startswith(group)) == [f"{group}m{i}" for i in range(4)]


def test_a_group_deleted_message_by_message_comes_in_order(world: World) -> None:
    dice = random.Random(11)
    for i in range(12):
        for group in ("ga", "gb", "gc", "gd"):
            world.send(Q, f"{group}m{i:02}", group=group)
    done: list[str] = []
    while len(done) < 48:
        for message in world.receive(Q, 1, visibility_ms=5 * SECOND):
            if dice.random() < 0.7:
                world.delete(Q, message)
                done.append(message.content.body)
        world.advance(dice.choice([0, SECOND]))
    for group in ("ga", "gb", "gc", "gd"):
        assert [b for b in done if b.startswith(group)] == [f"{group}m{i:02}" for i in range(12)]


def test_a_long_hidden_group_does_not_hold_up_the_others(world: World) -> None:
    send(world, "g1m1", "g1m2")
    world.receive(Q, 1, visibility_ms=12 * HOUR)
    send(world, *[f"g2m{i}" for i in range(9)])
    assert work_off(world) == [f"g2m{i}" for i in range(9)]
