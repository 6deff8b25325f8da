"""Rules where they meet commits: decisions that are not durable, refused or lost, and reads that come too early."""

from __future__ import annotations

import msgspec
import pytest

from penstock.limits import HOUR, MINUTE, SECOND
from penstock.queues.fifo import FifoQueue
from support.world import TINY, World, outgoing

Q = "q.fifo"
KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


def tiny(**more: int) -> World:
    return World(msgspec.structs.replace(TINY, **more))


def work_off(world: World, queue: str) -> list[str]:
    done: list[str] = []
    while batch := world.receive(queue, 10, visibility_ms=HOUR):
        done += [message.content.body for message in batch]
        world.delete(queue, *batch)
    return done


def test_a_duplicate_of_a_send_that_is_not_durable_yet_waits_for_it(world: World) -> None:
    world.create(Q)
    world.hold_commits()
    first = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    again = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    assert not first.done and not again.done
    world.release_commits()
    assert again.result() == first.result()


def test_a_crash_before_the_commit_forgets_the_send(world: World) -> None:
    world.create(Q)
    world.hold_commits()
    world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    world.crash()
    world.send(Q, "m", group="g", dedup_id="d")
    assert world.drain(Q) == ["m"]


def test_a_refused_send_is_not_remembered(world: World) -> None:
    world.create(Q)
    world.refuse_next_commit()
    failed = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    with pytest.raises(Exception, match="refused"):
        failed.result()
    world.send(Q, "m", group="g", dedup_id="d")
    assert world.drain(Q) == ["m"]


def test_an_idle_queue_gives_back_what_expired() -> None:
    """It is neither sent to nor received from: the background round does it, in memory and in the store."""
    with World() as world:
        world.create(Q)
        world.send_all(Q, "a", "b", group="g")
        world.receive(Q, 1, attempt_id="try")
        rules = world.queue(Q).rules
        assert isinstance(rules, FifoQueue) and len(rules._attempts) == 1
        world.advance(7 * MINUTE)
        assert world.broker.dedup_usage.total == 0
        assert not rules._attempts
        assert world.store.dedup(world.queue(Q).id, now_ms=0) == []


def test_a_receive_that_was_not_committed_never_answers_and_leaves_the_group_open(world: World) -> None:
    world.create(Q)
    world.send(Q, "g1m1", group="g1")
    world.counts(Q)
    world.hold_commits()
    poll = world.poll(Q, wait_ms=0)
    assert not poll.done
    world.crash()
    (message,) = world.receive(Q)
    assert (message.content.body, message.receives) == ("g1m1", 1)


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
        assert world.stored(queue) == []


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


@KINDS
def test_a_backlog_expires_also_without_requests(world: World, queue: str) -> None:
    world.create(queue, retention_ms=HOUR)
    for i in range(40):
        world.send(queue, f"m{i}", group=f"g{i % 7}")
    world.crash()
    world.advance(HOUR + 10 * MINUTE)
    assert world.stored(queue) == []
    assert world.counts(queue) == (0, 0, 0)
