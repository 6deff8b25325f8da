"""Purging and deleting queues: at once, for good, and with a pause before the next."""

from __future__ import annotations

import pytest

from penstock.broker.other_shards import NamesQuestion
from penstock.errors import PurgedRecently, QueueDeletedRecently, QueueMissing
from penstock.limits import HOUR, MINUTE
from penstock.queues.settings import QueueSettings
from penstock.store.port import LAST
from support.world import SECOND, World, name_of, outgoing

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


@KINDS
def test_a_purge_removes_what_waits_and_what_is_in_flight(world: World, queue: str) -> None:
    world.create(queue)
    for i in range(20):
        world.send(queue, f"m{i}", group=f"g{i % 5}")
    (held,) = world.receive(queue, 1)
    world.purge(queue)
    assert world.counts(queue) == (0, 0, 0)
    world.delete(queue, held)
    world.advance(HOUR)
    assert world.receive(queue) == []
    world.crash()
    assert world.receive(queue) == []
    assert world.counts(queue) == (0, 0, 0)


def test_a_purge_removes_delayed_messages(world: World) -> None:
    world.create("q")
    world.send_all("q", *"abcdefgh", delay_ms=MINUTE)
    world.purge("q")
    world.advance(2 * MINUTE)
    assert world.receive("q") == []


@KINDS
def test_what_is_sent_after_a_purge_stays(world: World, queue: str) -> None:
    world.create(queue)
    world.send_all(queue, *"abcdef", group="g")
    world.purge(queue)
    world.send_all(queue, "x", "y", group="g")
    world.crash()
    assert world.counts(queue) == (2, 0, 0)


@KINDS
def test_what_was_sent_before_a_purge_and_is_not_durable_yet_is_purged(world: World, queue: str) -> None:
    world.create(queue)
    world.hold_commits()
    sent = world.sending(queue, outgoing("m", group="g"))
    world.run()
    purged = world.start(world.broker.purge(world.queue(queue)))
    world.release_commits()
    assert sent.done and purged.done
    assert world.counts(queue) == (0, 0, 0)
    world.crash()
    assert world.counts(queue) == (0, 0, 0)


def test_one_purge_a_minute_also_across_a_crash(world: World) -> None:
    world.create("q")
    world.purge("q")
    world.advance(MINUTE - 1)
    with pytest.raises(PurgedRecently) as refused:
        world.purge("q")
    assert refused.value.queue == "q"
    world.crash()
    with pytest.raises(PurgedRecently):
        world.purge("q")
    world.advance(1)
    world.purge("q")


def test_a_refused_purge_purged_nothing(world: World) -> None:
    world.create("q")
    world.send_all("q", *"abcdef")
    world.refuse_next_commit()
    purged = world.start(world.broker.purge(world.queue("q")))
    world.run()
    with pytest.raises(Exception, match="refused"):
        purged.result()
    assert world.counts("q") == (6, 0, 0)
    assert sorted(world.drain("q")) == list("abcdef")
    world.purge("q")


def test_the_rows_of_a_purge_are_cleared_away(world: World) -> None:
    world.create("q")
    world.send_all("q", *[f"m{i}" for i in range(50)])
    world.purge("q")
    assert world.stored("q") == []


def test_a_name_rests_for_a_minute_after_a_delete_also_across_a_crash(world: World) -> None:
    world.create("q")
    world.drop("q")
    with pytest.raises(QueueMissing):
        world.queue("q")
    world.advance(MINUTE - 1)
    with pytest.raises(QueueDeletedRecently):
        world.create("q")
    world.crash()
    with pytest.raises(QueueDeletedRecently):
        world.create("q")
    world.advance(1)
    world.create("q")
    assert world.store.records("cooldown") == {}


@KINDS
def test_a_queue_made_again_is_empty_and_takes_no_old_handles(world: World, queue: str) -> None:
    world.create(queue)
    world.send_all(queue, *"abcdef", group="g")
    (old,) = world.receive(queue, 1)
    world.drop(queue)
    world.advance(MINUTE)
    world.create(queue)
    assert world.counts(queue) == (0, 0, 0)
    with pytest.raises(Exception) as refused:
        world.delete(queue, old)
    assert type(refused.value).__name__ == "HandleInvalid"
    world.crash()
    assert world.receive(queue) == []


def test_delete_of_a_queue_whose_sends_are_on_their_way(world: World) -> None:
    world.create("q")
    world.hold_commits()
    sent = world.sending("q", outgoing("m"))
    world.run()
    dropped = world.start(world.broker.drop(world.queue("q")))
    world.release_commits()
    assert sent.done and dropped.done
    world.crash()
    assert world.store.scan(0, LAST, 10, LAST) == []


def test_settings_tags_and_times_survive_a_restart(world: World) -> None:
    settings = QueueSettings(
        delay_ms=SECOND, wait_ms=SECOND, visibility_ms=7, policy='{"a": 1}', retention_ms=MINUTE
    )
    world.do(world.broker.create(name_of("q"), settings, {"team": "blue"}))
    created_ms = world.queue("q").created_ms
    world.advance(5 * SECOND)
    world.configure("q", delay_ms=2 * SECOND)
    world.restart()
    queue = world.queue("q")
    assert queue.settings == QueueSettings(
        delay_ms=2 * SECOND, wait_ms=SECOND, visibility_ms=7, policy='{"a": 1}', retention_ms=MINUTE
    )
    assert (queue.tags, queue.created_ms) == ({"team": "blue"}, created_ms)
    assert queue.modified_ms == created_ms + 5 * SECOND


def test_names_are_listed_by_prefix_and_space(world: World) -> None:
    for name in ("b", "a2", "a1"):
        world.create(name)
    assert [n.name for n in world.do(world.broker.ask(NamesQuestion(name_of("a").space, "a")))] == [
        "a1",
        "a2",
    ]
    world.drop("a1")
    assert [n.name for n in world.do(world.broker.ask(NamesQuestion(name_of("a").space)))] == ["a2", "b"]
