"""FIFO: order within a group, what locks it, what opens it, and whose turn it is."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from penstock.errors import HandleExpired
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.queues.messages import Received
from queues.harness import Queues

Q = "q.fifo"


@pytest.fixture
def queues(queues: Queues) -> Queues:
    queues.create(Q)
    return queues


def send(queues: Queues, *messages: str) -> None:
    """``g1m2`` goes to group ``g1``."""
    for message in messages:
        queues.send(Q, message, group=message[:2])


def take(queues: Queues, count: int, **more: int) -> dict[str, Received]:
    return {message.content.body: message for message in queues.drain_up_to(Q, count, **more)}


def work_off(queues: Queues) -> list[str]:
    """Receive and delete until nothing is left. With little memory, a receive gives fewer than it was asked for."""
    done: list[str] = []
    while batch := queues.receive(Q, 10):
        done += [message.content.body for message in batch]
        queues.delete(Q, *batch)
    return done


def test_one_group_comes_in_order(queues: Queues) -> None:
    sent = [f"g1m{i}" for i in range(30)]
    send(queues, *sent)
    assert work_off(queues) == sent


def test_one_receive_gives_many_of_one_group(roomy: Queues) -> None:
    roomy.create(Q)
    sent = [f"g1m{i}" for i in range(12)]
    send(roomy, *sent)
    assert roomy.bodies(Q, 10) == sent[:10]
    assert roomy.bodies(Q, 10) == []


def test_a_batch_keeps_its_order(queues: Queues) -> None:
    sent = queues.send_all(Q, *[f"m{i}" for i in range(10)], group="g")
    sequences = [answer.sequence or 0 for answer in sent]
    assert sequences == sorted(set(sequences))
    assert work_off(queues) == [f"m{i}" for i in range(10)]


def test_a_receive_takes_all_it_can_of_one_group_and_then_the_next(roomy: Queues) -> None:
    roomy.create(Q)
    send(roomy, "g1m1", "g2m1", "g1m2", "g1m3")
    assert roomy.bodies(Q, 10) == ["g1m1", "g1m2", "g1m3", "g2m1"]


def test_a_message_in_flight_blocks_those_behind_it(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g2m1")
    assert queues.bodies(Q, 1) == ["g1m1"]
    assert queues.bodies(Q, 10) == ["g2m1"]
    assert queues.bodies(Q, 10) == []


def test_a_new_send_does_not_open_a_group(queues: Queues) -> None:
    send(queues, "g1m1")
    queues.receive(Q)
    send(queues, "g1m2")
    assert queues.bodies(Q) == []


def test_group_locked_siblings_count_as_visible(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g1m3", "g2m1", "g2m2", "g2m3")
    take(queues, 1)
    take(queues, 1)
    assert queues.counts(Q) == (4, 2, 0)
    queues.reload()
    assert queues.counts(Q) == (4, 2, 0)


def test_deleting_all_that_is_in_flight_opens_the_group(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g1m3")
    taken = take(queues, 2)
    queues.delete(Q, taken["g1m1"])
    assert queues.bodies(Q) == []
    queues.delete(Q, taken["g1m2"])
    assert queues.bodies(Q) == ["g1m3"]


def test_expiry_opens_the_group_from_its_first(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2")
    queues.receive(Q, 1, visibility_ms=SECOND)
    queues.advance(SECOND)
    assert list(take(queues, 2)) == ["g1m1", "g1m2"]


def test_a_later_one_in_flight_does_not_block_those_before_it(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g1m3")
    taken = take(queues, 3, visibility_ms=10 * SECOND)
    queues.change(Q, taken["g1m2"], MINUTE)
    queues.advance(10 * SECOND)
    assert queues.bodies(Q, 10) == ["g1m1"]
    queues.advance(50 * SECOND)
    assert list(take(queues, 3)) == ["g1m1", "g1m2", "g1m3"]


def test_zero_on_receive_frees_at_once(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2")
    assert queues.bodies(Q, 1, visibility_ms=0) == ["g1m1"]
    assert queues.bodies(Q, 1, visibility_ms=0) == ["g1m1"]
    assert list(take(queues, 2)) == ["g1m1", "g1m2"]


def test_change_to_zero_frees_at_once(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2")
    taken = take(queues, 1)
    queues.change(Q, taken["g1m1"], 0)
    assert list(take(queues, 2)) == ["g1m1", "g1m2"]


def test_a_group_that_opens_again_goes_behind_those_that_wait(queues: Queues) -> None:
    send(queues, "g1m1", "g2m1", "g3m1")
    taken = take(queues, 1)
    queues.change(Q, taken["g1m1"], 0)
    assert [queues.bodies(Q, 1)[0] for _ in range(3)] == ["g2m1", "g3m1", "g1m1"]


def test_a_group_taken_in_part_goes_behind_too(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g2m1", "g2m2")
    first = take(queues, 1)
    queues.delete(Q, first["g1m1"])
    assert queues.bodies(Q, 1) == ["g2m1"]
    assert queues.bodies(Q, 1) == ["g1m2"]


def test_locks_and_order_survive_a_crash(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2", "g1m3", "g2m1")
    taken = take(queues, 1, visibility_ms=MINUTE)
    queues.reload()
    assert queues.bodies(Q, 10) == ["g2m1"]
    queues.delete(Q, taken["g1m1"])
    assert work_off(queues) == ["g1m2", "g1m3"]


def test_sequence_numbers_grow_across_a_crash_and_a_purge(queues: Queues) -> None:
    sequences = []
    for i in range(6):
        sequences.append(queues.send(Q, f"m{i}", group="g").sequence or 0)
        if i == 2:
            queues.reload()
        if i == 4:
            queues.purge(Q)
    assert all(a < b for a, b in pairwise(sequences))


def test_the_sequence_received_is_the_one_sent(queues: Queues) -> None:
    sent = queues.send(Q, "m", group="g")
    (message,) = queues.receive(Q)
    assert message.sequence == sent.sequence
    assert message.content.id == sent.id


def test_many_groups_page_and_none_is_forgotten(queues: Queues) -> None:
    """Seven groups, while tiny limits list three at a time."""
    for i in range(5):
        for group in range(7):
            send(queues, f"g{group}m{i}")
    seen = work_off(queues)
    assert len(seen) == len(set(seen)) == 35
    for group in range(7):
        assert [body for body in seen if body.startswith(f"g{group}")] == [f"g{group}m{i}" for i in range(5)]


def test_twenty_consumers_with_random_failures_keep_the_order_of_every_group(queues: Queues) -> None:
    dice = random.Random(7)
    groups = [f"{group:02}" for group in range(10)]
    for i in range(4):
        for group in groups:
            queues.send(Q, f"{group}m{i}", group=group)
    done: list[str] = []
    for _ in range(2_000):
        for message in queues.receive(
            Q, dice.randint(1, 10), visibility_ms=dice.choice([0, SECOND, 3 * SECOND])
        ):
            if dice.random() < 0.4:
                try:
                    queues.delete(Q, message)
                except HandleExpired:
                    continue  # hidden for no time: it is another's turn
                done.append(message.content.body)
        queues.advance(dice.choice([0, 500, SECOND]))
        if len(done) == 40:
            break
    assert len(done) == len(set(done)) == 40
    for group in groups:
        # A consumer that fails on one and goes on with the next deletes out of order: what counts is that
        # all are done.
        assert sorted(body for body in done if body.startswith(group)) == [f"{group}m{i}" for i in range(4)]


def test_a_group_deleted_message_by_message_comes_in_order(queues: Queues) -> None:
    dice = random.Random(11)
    for i in range(12):
        for group in ("ga", "gb", "gc", "gd"):
            queues.send(Q, f"{group}m{i:02}", group=group)
    done: list[str] = []
    while len(done) < 48:
        for message in queues.receive(Q, 1, visibility_ms=5 * SECOND):
            if dice.random() < 0.7:
                queues.delete(Q, message)
                done.append(message.content.body)
        queues.advance(dice.choice([0, SECOND]))
    for group in ("ga", "gb", "gc", "gd"):
        assert [b for b in done if b.startswith(group)] == [f"{group}m{i:02}" for i in range(12)]


def test_a_long_hidden_group_does_not_hold_up_the_others(queues: Queues) -> None:
    send(queues, "g1m1", "g1m2")
    queues.receive(Q, 1, visibility_ms=12 * HOUR)
    send(queues, *[f"g2m{i}" for i in range(9)])
    assert work_off(queues) == [f"g2m{i}" for i in range(9)]
