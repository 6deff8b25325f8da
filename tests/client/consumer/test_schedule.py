"""Which message is handled next, how many are received, and what is given back in which order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from penstock.client.consumer.claims import Claim
from penstock.client.consumer.schedule import Ahead, FifoSchedule, Schedule, StandardSchedule, group_of
from support.rows import every_row


@dataclass(eq=False)
class Received:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)


def claim(name: str) -> Claim:
    """The letter is its group."""
    return Claim(Received(name, {"MessageGroupId": name[0]}), 0, 30, 3600, 15)


def claims(names: str) -> list[Claim]:
    return [claim(name) for name in names.split()]


def names(given: list[Claim] | None) -> str | None:
    return None if given is None else " ".join(each.message.name for each in given)


def started(schedule: Schedule, now: float = 0.0) -> list[list[Claim]]:
    calls = []
    while (call := schedule.start(now)) is not None:
        calls.append(call)
    return calls


def ahead(mean_s: float | None = None, prefetch_max: int = 100, visibility_s: float = 30) -> Ahead:
    found = Ahead(visibility_s, prefetch_max)
    if mean_s is not None:
        found.observe(mean_s)
    return found


# -- how much waits here -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ahead(), 0),  # nothing is known yet
        (ahead(60), 0),
        (ahead(0.5), 4),  # two seconds of work
        (ahead(0.5, prefetch_max=3), 3),
        (ahead(0.5, prefetch_max=0), 0),
        (ahead(0.0), 100),
        (ahead(0.1, visibility_s=2), 5),  # a quarter of the visibility timeout
    ],
)
def test_what_can_be_begun_soon_is_received_in_advance(given: Ahead, expected: int) -> None:
    assert given.per_handler() == expected


def test_the_mean_follows_what_messages_take() -> None:
    found = ahead(0.1)
    assert found.per_handler() == 20
    for _ in range(50):
        found.observe(10.0)
    assert found.per_handler() == 0


# -- standard queues -----------------------------------------------------------------------------------------


def test_standard_messages_are_started_in_order_up_to_the_concurrency() -> None:
    schedule = StandardSchedule(2, ahead())
    assert schedule.wanted(0) == 2
    schedule.add(claims("a1 a2 a3"), 0)
    first, second = started(schedule)
    assert (names(first), names(second)) == ("a1", "a2")
    assert schedule.wanted(0) == 0
    assert schedule.finish(first, 1, failed=True) == [], "the order does not matter"
    assert names(schedule.start(1)) == "a3"


def test_standard_messages_that_wait_count() -> None:
    schedule = StandardSchedule(2, ahead(1.0))
    assert schedule.wanted(0) == 6, "two that run, and two seconds of work for each"
    schedule.add(claims("a1 a2 a3"), 0)
    started(schedule)
    assert schedule.wanted(0) == 3


def test_standard_messages_are_received_a_few_at_a_time() -> None:
    schedule = StandardSchedule(1, ahead(0.1))
    assert schedule.wanted(0) == 21
    schedule.add(claims(" ".join(f"a{number}" for number in range(15))), 0)
    (call,) = started(schedule)
    assert schedule.wanted(0) == 0, "six are missing"
    for _ in range(4):
        schedule.finish(call, 0, failed=False)
        (call,) = started(schedule)
    assert schedule.wanted(0) == 10


def test_standard_messages_that_wait_can_be_lost_or_given_back() -> None:
    schedule = StandardSchedule(1, ahead())
    given = claims("a1 a2 a3 a4")
    schedule.add(given, 0)
    started(schedule)
    assert schedule.lost(given[2]) == []
    assert names(schedule.drain()) == "a4 a2"
    assert started(schedule) == []


def test_a_batch_waits_to_be_full() -> None:
    schedule = StandardSchedule(1, ahead(), batch_size=3, batch_wait_s=5)
    assert schedule.wanted(0) == 3
    schedule.add(claims("a1"), 10)
    assert (schedule.start(10), schedule.start_at()) == (None, 15)
    schedule.add(claims("a2 a3 a4"), 12)
    assert names(schedule.start(12)) == "a1 a2 a3"
    assert schedule.start_at() == float("inf"), "none may run"


def test_a_batch_does_not_wait_for_longer_than_that() -> None:
    schedule = StandardSchedule(1, ahead(), batch_size=3, batch_wait_s=5)
    schedule.add(claims("a1"), 10)
    schedule.add(claims("a2"), 14)
    assert names(schedule.start(15)) == "a1 a2"


# -- FIFO queues ---------------------------------------------------------------------------------------------


def test_one_message_of_a_group_at_a_time_and_groups_in_parallel() -> None:
    schedule = FifoSchedule(2, ahead())
    schedule.add(claims("a1 a2 b1 b2 c1"), 0)
    a1, b1 = started(schedule)
    assert (names(a1), names(b1)) == ("a1", "b1")
    assert schedule.finish(a1, 1, failed=False) == []
    assert names(schedule.start(1)) == "c1", "groups take turns"
    assert schedule.finish(b1, 1, failed=False) == []
    assert names(schedule.start(1)) == "a2"


def test_after_a_failure_the_rest_of_the_group_is_given_back_last_first() -> None:
    schedule = FifoSchedule(2, ahead())
    schedule.add(claims("a1 a2 a3 b1 b2"), 0)
    a1, b1 = started(schedule)
    assert names(schedule.finish(a1, 1, failed=True)) == "a3 a2"
    assert schedule.start(1) is None
    assert schedule.finish(b1, 1, failed=False) == []
    assert names(schedule.start(1)) == "b2"


def test_a_group_that_comes_back_waits_for_its_handler() -> None:
    schedule = FifoSchedule(2, ahead())
    schedule.add(claims("a1 a2"), 0)
    (a1,) = started(schedule)
    assert names(schedule.lost(a1[0])) == "a2", "its handler may still run"
    schedule.add(claims("a1 a2"), 1)
    assert schedule.start(1) is None
    assert schedule.finish(a1, 2, failed=False) == []
    assert names(schedule.start(2)) == "a1"


def test_what_follows_a_lost_message_is_given_back() -> None:
    schedule = FifoSchedule(1, ahead())
    given = claims("a1 a2 a3 a4")
    schedule.add(given, 0)
    (a1,) = started(schedule)
    assert names(schedule.lost(given[2])) == "a4"
    schedule.finish(a1, 1, failed=False)
    assert names(schedule.start(1)) == "a2"


def test_the_first_of_a_waiting_group_is_lost() -> None:
    schedule = FifoSchedule(1, ahead())
    given = claims("a1 b1 b2")
    schedule.add(given, 0)
    (a1,) = started(schedule)
    assert names(schedule.lost(given[1])) == "b2"
    assert schedule.lost(given[1]) == []
    schedule.finish(a1, 1, failed=False)
    assert schedule.start(1) is None


def test_a_batch_has_messages_of_one_group() -> None:
    schedule = FifoSchedule(2, ahead(), batch_size=3)
    schedule.add(claims("a1 a2 a3 a4 b1"), 0)
    assert [names(call) for call in started(schedule)] == ["a1 a2 a3", "b1"]


def test_fifo_messages_that_wait_are_given_back_at_a_stop() -> None:
    schedule = FifoSchedule(1, ahead())
    schedule.add(claims("a1 a2 a3 b1"), 0)
    (a1,) = started(schedule)
    assert names(schedule.drain()) == "a3 a2 b1"
    assert schedule.finish(a1, 1, failed=False) == [] and schedule.start(1) is None


def test_fifo_receives_until_enough_groups_are_here() -> None:
    schedule = FifoSchedule(2, ahead(0.5))
    assert schedule.wanted(0) == 5, "one that runs, and two seconds of work"
    schedule.add(claims("a1 a2 a3"), 0)
    assert schedule.wanted(0) == 5
    schedule.add(claims("b1"), 0)
    assert schedule.wanted(0) == 0


def test_fifo_receives_one_by_one_after_a_failure() -> None:
    schedule = FifoSchedule(2, ahead(0.01))
    assert schedule.wanted(0) == 10
    schedule.add(claims("a1"), 0)
    (a1,) = started(schedule)
    schedule.finish(a1, 5, failed=True)
    assert schedule.wanted(6) == 1
    assert schedule.wanted(66) == 10


class FifoModel:
    """A FIFO queue: within a group, messages go out in order up to the first that is in flight."""

    def __init__(self, groups: str, messages: int) -> None:
        self.queued = {group: [f"{group}{number}" for number in range(messages)] for group in groups}
        self.in_flight: set[str] = set()

    def receive(self, chance: random.Random, count: int) -> list[str]:
        got: list[str] = []
        for group in chance.sample(sorted(self.queued), len(self.queued)):
            for name in self.queued[group]:
                if name in self.in_flight or len(got) == count:
                    break
                got.append(name)
        self.in_flight.update(got)
        return got

    def delete(self, name: str) -> None:
        if name in self.in_flight:
            self.in_flight.remove(name)
            self.queued[name[0]].remove(name)


@every_row("seed", range(40))
@every_row("batch_size", [1, 3])
def test_no_message_is_handled_before_all_earlier_ones_of_its_group_are_done(
    seed: int, batch_size: int
) -> None:
    """Two workers; handlers fail, claims are lost, all at random."""
    chance = random.Random(seed)
    queue = FifoModel("abcd", 8)
    workers = [FifoSchedule(2, ahead(0.01), batch_size) for _ in range(2)]
    running: list[list[list[Claim]]] = [[], []]
    lost: set[Claim] = set()
    now = 0.0

    def give_back(given: list[Claim]) -> None:
        for each in given:
            if each not in lost:
                queue.in_flight.discard(each.message.name)

    for _ in range(20_000):
        now += 10
        number = chance.randrange(2)
        schedule, calls = workers[number], running[number]
        step = chance.random()
        if step < 0.4 and (wanted := schedule.wanted(now)):
            schedule.add([claim(name) for name in queue.receive(chance, wanted)], now)
        if step < 0.7 and (call := schedule.start(now)) is not None:
            calls.append(call)
            for each in call:
                if each not in lost:
                    before = queue.queued[group_of(each)]
                    position = before.index(each.message.name)
                    handled = {other.message.name for other in call}
                    assert set(before[:position]) <= handled, f"{each.message.name} is handled too early"
        if step < 0.9 and calls:
            call = calls.pop(chance.randrange(len(calls)))
            failed = chance.random() < 0.3 or any(each in lost for each in call)
            done = 0 if failed else len(call)
            for each in call[:done]:
                queue.delete(each.message.name)
            give_back(schedule.finish(call, now, failed=failed))
            give_back(call[done:][::-1])
        if step > 0.97:
            held = [each for call in calls for each in call if each not in lost]
            if held:
                each = chance.choice(held)
                lost.add(each)
                give_back(schedule.lost(each))
                queue.in_flight.discard(each.message.name)
        if not any(queue.queued.values()):
            return
    pytest.fail(f"not done: {queue.queued}")
