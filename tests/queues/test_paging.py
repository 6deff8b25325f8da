"""Paging: a window of a queue is in memory, the rest in the store, and nobody can tell.

Each test here holds a way in which a message could fall between the two, or be in both.
"""

from __future__ import annotations

import msgspec
import pytest

from penstock.limits import HOUR, MINUTE
from penstock.queues.backlog import ENTRY_BYTES, LANE_BYTES
from sim.world import ROOMY, SECOND, TINY, World, outgoing

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


def tiny(**more: int) -> World:
    return World(msgspec.structs.replace(TINY, **more))


def work_off(world: World, queue: str) -> list[str]:
    done: list[str] = []
    while batch := world.receive(queue, 10, visibility_ms=HOUR):
        done += [message.content.body for message in batch]
        world.delete(queue, *batch)
    return done


@KINDS
def test_a_backlog_is_not_in_memory(queue: str) -> None:
    with tiny() as world:
        world.create(queue)
        for i in range(20):
            world.send_all(queue, *[f"m{i}.{j}" for j in range(10)], group=f"g{i % 2}")
        rules = world.queue(queue).rules.backlog
        assert len(rules.index) < 60
        assert rules.total == 200
        assert len(set(work_off(world, queue))) == 200


@KINDS
def test_more_groups_than_are_listed(queue: str) -> None:
    with tiny() as world:
        world.create(queue)
        sent = [f"m{i}" for i in range(40)]
        for i, body in enumerate(sent):
            world.send(queue, body, group=f"g{i % 13}")
        world.crash()
        assert sorted(work_off(world, queue)) == sorted(sent)


@KINDS
def test_large_messages_of_many_groups_do_not_go_past_the_budget(queue: str) -> None:
    """A few of each group are kept whatever the budget says; not their contents, which the store has."""
    budget = 100_000
    with World(msgspec.structs.replace(ROOMY, memory_budget_bytes=budget)) as world:
        world.create(queue)
        bodies = [f"{i}" + "x" * 20_000 for i in range(50)]
        for i, body in enumerate(bodies):
            world.send(queue, body, group=f"g{i}")
        assert len(world.queue(queue).rules.backlog.index) == 50
        assert world.broker.budget.used < budget + 50_000
        assert sorted(work_off(world, queue)) == sorted(bodies)


@pytest.mark.parametrize("kind", ["waiting", "delayed", "in flight"])
def test_what_is_kept_is_counted_once(kind: str) -> None:
    with tiny() as world:
        world.create("q")
        for i in range(20):
            world.send("q", f"m{i}", delay_ms=i * SECOND if kind == "delayed" else None)
        if kind == "in flight":
            world.drain_up_to("q", 15, visibility_ms=5 * SECOND)
        world.crash()
        world.advance(10 * SECOND)
        world.drain_up_to("q", 3)
        rules = world.queue("q").rules.backlog
        kept = sum(ENTRY_BYTES + len(entry.content or b"") for entry in rules.index.values())
        assert world.broker.budget.used == kept + LANE_BYTES * len(rules.lanes)


def test_the_memory_of_an_empty_broker_is_empty() -> None:
    with tiny() as world:
        world.create("q.fifo")
        world.send_all("q.fifo", *"abcdefgh", group="g")
        assert world.broker.dedup_usage.total >= 8
        work_off(world, "q.fifo")
        world.advance(6 * MINUTE)
        world.counts("q.fifo")
        assert world.broker.budget.used == 0


@KINDS
def test_the_search_for_expired_messages_does_not_go_round_in_circles(queue: str) -> None:
    """Their removal is not durable yet, so that the store still shows them."""
    with tiny() as world:
        world.create(queue)
        for i in range(30):
            world.send(queue, f"m{i}", group="g")
        world.advance(2 * MINUTE)
        world.configure(queue, retention_ms=MINUTE)
        world.hold_commits()
        for _ in range(20):
            counts = world.counts(queue)
        assert counts == (0, 0, 0)
        world.release_commits()
        assert world.store.oldest_ms(world.queue(queue).id, 0) is None


def test_hiding_the_last_message_at_hand_fetches_the_next() -> None:
    with tiny() as world:
        world.create("q", visibility_ms=SECOND)
        world.send_all("q", *[f"m{i}" for i in range(10)])
        received = world.drain_up_to("q", 10)
        world.advance(SECOND)
        world.receive("q", 1, visibility_ms=HOUR)
        for message in received[:6]:
            world.change("q", message, HOUR)
        assert len(world.drain("q", visibility_ms=HOUR)) >= 4


def test_two_tenants_one_hidden_and_shown_again() -> None:
    """What was offered, hidden by its handle and comes back to the same place is offered again."""
    with tiny() as world:
        world.create("q", visibility_ms=SECOND)
        world.send("q", "a", group="a")
        (first,) = world.receive("q", 1)
        world.send("q", "b", group="b")
        world.receive("q", 1, visibility_ms=HOUR)
        world.advance(SECOND)
        world.change("q", first, 5 * SECOND)
        assert world.receive("q") == []
        world.advance(5 * SECOND)
        assert world.bodies("q") == ["a"]


def test_after_a_restart_nothing_overtakes_what_is_not_loaded_yet() -> None:
    """Those in flight are in memory first; one that comes back waits for those before it in its group."""
    with World(msgspec.structs.replace(ROOMY, lanes_max=1, listed_rows=1)) as world:
        world.create("q.fifo")
        for body in ("first", "second"):
            world.send("q.fifo", body, group="g")
        first, _ = world.receive("q.fifo", 2, visibility_ms=MINUTE)
        world.change("q.fifo", first, 0)
        world.crash()
        world.advance(MINUTE)
        assert work_off(world, "q.fifo") == ["first", "second"]


@pytest.mark.parametrize(("queue", "delay_ms"), [("q", None), ("q", 3 * SECOND), ("q.fifo", None)])
def test_a_read_that_sees_a_message_before_its_arrival(queue: str, delay_ms: int | None) -> None:
    """The store has it, the queue does not know yet: it is neither doubled nor lost."""
    for backlog in range(1, 12):
        with tiny() as world:
            world.create(queue)
            for i in range(backlog):
                world.send(queue, f"m{i}", group="g", delay_ms=delay_ms)
            world.advance(2 * SECOND)
            sent = world.sending(queue, outgoing("new", group="g", delay_ms=delay_ms))
            world.runtime.step()
            world.runtime.writer.step()  # committed; the loop has not heard of it
            assert not sent.done
            received = world.receive(queue, 1, visibility_ms=SECOND)
            assert sent.done
            world.advance(3 * SECOND)
            world.counts(queue)
            assert world.counts(queue) == (backlog + 1, 0, 0)
            assert len(received) == (0 if delay_ms else 1)
            assert sorted(work_off(world, queue)) == sorted(["new", *(f"m{i}" for i in range(backlog))])
            assert world.counts(queue) == (0, 0, 0)


def test_a_handle_of_a_lost_receive_reaches_a_message_that_only_the_store_has() -> None:
    with tiny() as world:
        world.create("q")
        world.send("q", "m")
        world.hold_commits()
        (lost,) = world.receive("q", 1)
        world.crash()
        world.change("q", lost, HOUR)
        for i in range(12):
            world.send("q", f"later{i}", delay_ms=MINUTE)
        world.crash()
        world.delete("q", lost)
        assert world.counts("q") == (0, 0, 12)
