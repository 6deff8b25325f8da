"""Paging: a window of a queue is in memory, the rest in the store, and clients see no difference.

Each test here holds a way in which a message could fall between the two, or be in both.
"""

from __future__ import annotations

import msgspec
import pytest

from penstock.limits import HOUR, MINUTE, SECOND
from penstock.queues.backlog import ENTRY_BYTES, LANE_BYTES
from penstock.queues.fifo import FifoQueue
from queues.harness import Queues
from support.world import ROOMY, TINY

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


def tiny(**more: int) -> Queues:
    return Queues(msgspec.structs.replace(TINY, **more))


def work_off(queues: Queues, queue: str) -> list[str]:
    done: list[str] = []
    while batch := queues.receive(queue, 10, visibility_ms=HOUR):
        done += [message.content.body for message in batch]
        queues.delete(queue, *batch)
    return done


@KINDS
def test_a_backlog_is_not_in_memory(queue: str) -> None:
    queues = tiny()
    queues.create(queue)
    for i in range(20):
        queues.send_all(queue, *[f"m{i}.{j}" for j in range(10)], group=f"g{i % 2}")
    rules = queues.rules(queue).backlog
    assert len(rules.index) < 60
    assert rules.total == 200
    assert len(set(work_off(queues, queue))) == 200


@KINDS
def test_more_groups_than_are_listed(queue: str) -> None:
    queues = tiny()
    queues.create(queue)
    sent = [f"m{i}" for i in range(40)]
    for i, body in enumerate(sent):
        queues.send(queue, body, group=f"g{i % 13}")
    queues.reload()
    assert sorted(work_off(queues, queue)) == sorted(sent)


@KINDS
def test_large_messages_of_many_groups_do_not_go_past_the_budget(queue: str) -> None:
    """A few of each group are kept whatever the budget says; not their contents, which the store has."""
    budget = 100_000
    queues = Queues(msgspec.structs.replace(ROOMY, memory_budget_bytes=budget))
    queues.create(queue)
    bodies = [f"{i}" + "x" * 20_000 for i in range(50)]
    for i, body in enumerate(bodies):
        queues.send(queue, body, group=f"g{i}")
    assert len(queues.rules(queue).backlog.index) == 50
    assert queues.budget.used < budget + 50_000
    assert sorted(work_off(queues, queue)) == sorted(bodies)


@pytest.mark.parametrize("kind", ["waiting", "delayed", "in flight"])
def test_what_is_kept_is_counted_once(kind: str) -> None:
    queues = tiny()
    queues.create("q")
    for i in range(20):
        queues.send("q", f"m{i}", delay_ms=i * SECOND if kind == "delayed" else None)
    if kind == "in flight":
        queues.drain_up_to("q", 15, visibility_ms=5 * SECOND)
    queues.reload()
    queues.advance(10 * SECOND)
    queues.drain_up_to("q", 3)
    rules = queues.rules("q").backlog
    kept = sum(ENTRY_BYTES + len(entry.content or b"") for entry in rules.index.values())
    assert queues.budget.used == kept + LANE_BYTES * len(rules.lanes)


def test_the_memory_of_an_empty_broker_is_empty() -> None:
    queues = tiny()
    queues.create("q.fifo")
    queues.send_all("q.fifo", *"abcdefgh", group="g")
    assert queues.dedup_usage.total >= 8
    work_off(queues, "q.fifo")
    queues.advance(6 * MINUTE)
    queues.counts("q.fifo")
    assert queues.budget.used == 0


def test_hiding_the_last_message_at_hand_fetches_the_next() -> None:
    queues = tiny()
    queues.create("q", visibility_ms=SECOND)
    queues.send_all("q", *[f"m{i}" for i in range(10)])
    received = queues.drain_up_to("q", 10)
    queues.advance(SECOND)
    queues.receive("q", 1, visibility_ms=HOUR)
    for message in received[:6]:
        queues.change("q", message, HOUR)
    assert len(queues.drain("q", visibility_ms=HOUR)) >= 4


def test_two_tenants_one_hidden_and_shown_again() -> None:
    """What was offered, hidden by its handle and comes back to the same place is offered again."""
    queues = tiny()
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "a", group="a")
    (first,) = queues.receive("q", 1)
    queues.send("q", "b", group="b")
    queues.receive("q", 1, visibility_ms=HOUR)
    queues.advance(SECOND)
    queues.change("q", first, 5 * SECOND)
    assert queues.receive("q") == []
    queues.advance(5 * SECOND)
    assert queues.bodies("q") == ["a"]


def test_after_a_restart_nothing_overtakes_what_is_not_loaded_yet() -> None:
    """Those in flight are in memory first; one that comes back waits for those before it in its group."""
    queues = Queues(msgspec.structs.replace(ROOMY, lanes_max=1, listed_rows=1))
    queues.create("q.fifo")
    for body in ("first", "second"):
        queues.send("q.fifo", body, group="g")
    first, _ = queues.receive("q.fifo", 2, visibility_ms=MINUTE)
    queues.change("q.fifo", first, 0)
    queues.reload()
    queues.advance(MINUTE)
    assert work_off(queues, "q.fifo") == ["first", "second"]


def test_giving_memory_back_skips_nothing_that_was_not_read_yet() -> None:
    """After a restart, a message that was in flight is in memory before those in front of it in its group."""
    limits = msgspec.structs.replace(ROOMY, refill_rows=16, lane_floor=16)
    queues = Queues(limits)
    queues.create("q.fifo")
    sent = [f"m{i}" for i in range(60)]
    queues.send_all("q.fifo", *sent, group="g")
    received = queues.receive("q.fifo", 60, visibility_ms=MINUTE)
    assert len(received) == 60
    for message in received[:-1]:
        queues.change("q.fifo", message, 0)
    queues.budget.bytes_max = 0
    queues.reload()
    queues.advance(MINUTE)
    assert queues.counts("q.fifo") == (60, 0, 0)
    rules = queues.rules("q.fifo")
    assert isinstance(rules, FifoQueue)
    lane = rules.backlog.lanes["g"]
    assert lane.stored and rules.backlog.excess(lane) == 1, "only the last message is too much"
    rules.trim(durable=1 << 60)
    done: list[str] = []
    while batch := queues.receive("q.fifo", 10):
        done += [message.content.body for message in batch]
        queues.delete("q.fifo", *batch)
    assert done == sent
