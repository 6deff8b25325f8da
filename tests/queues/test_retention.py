"""Retention: a message goes when its time is over, wherever it is."""

from __future__ import annotations

import pytest

from penstock.limits import DAY, HOUR, MINUTE
from sim.world import SECOND, World

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


@KINDS
def test_a_waiting_message_goes(world: World, queue: str) -> None:
    world.create(queue, retention_ms=MINUTE)
    world.send(queue, "m", group="g")
    world.advance(MINUTE - 1)
    assert world.counts(queue) == (1, 0, 0)
    world.advance(1)
    assert world.bodies(queue) == []
    assert world.counts(queue) == (0, 0, 0)


@KINDS
def test_a_message_in_flight_goes_too_and_its_delete_succeeds(world: World, queue: str) -> None:
    world.create(queue, retention_ms=MINUTE)
    world.send(queue, "m", group="g")
    (message,) = world.receive(queue, visibility_ms=HOUR)
    world.advance(MINUTE)
    assert world.counts(queue) == (0, 0, 0)
    world.delete(queue, message)
    world.advance(HOUR)
    assert world.bodies(queue) == []


def test_a_delayed_message_goes_too(world: World) -> None:
    world.create("q", retention_ms=MINUTE)
    world.send("q", "m", delay_ms=15 * MINUTE)
    world.advance(MINUTE)
    assert world.counts("q") == (0, 0, 0)
    world.advance(15 * MINUTE)
    assert world.bodies("q") == []


@KINDS
def test_a_message_that_comes_back_is_as_old_as_it_was(world: World, queue: str) -> None:
    world.create(queue, retention_ms=MINUTE)
    world.send(queue, "m", group="g")
    world.receive(queue, visibility_ms=40 * SECOND)
    world.advance(40 * SECOND)
    world.receive(queue, visibility_ms=10 * SECOND)
    world.advance(20 * SECOND)
    assert world.bodies(queue) == []


@KINDS
def test_a_new_retention_is_retroactive(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "old", group="g")
    world.advance(2 * MINUTE)
    world.send(queue, "young", group="g")
    world.configure(queue, retention_ms=MINUTE)
    assert world.drain(queue) == ["young"]


@KINDS
def test_a_backlog_expires_also_where_nobody_calls(world: World, queue: str) -> None:
    world.create(queue, retention_ms=HOUR)
    for i in range(40):
        world.send(queue, f"m{i}", group=f"g{i % 7}")
    world.crash()
    world.advance(HOUR + 10 * MINUTE)
    assert world.store.oldest_ms(world.queue(queue).id, 0) is None
    assert world.counts(queue) == (0, 0, 0)


@KINDS
def test_what_a_receive_finds_too_old_is_removed_for_good(world: World, queue: str) -> None:
    world.create(queue, retention_ms=MINUTE)
    world.advance(SECOND)
    world.send(queue, "m", group="g")
    world.advance(MINUTE)
    assert world.receive(queue) == []
    assert world.store.oldest_ms(world.queue(queue).id, 0) is None


def test_the_default_is_four_days(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.advance(4 * DAY - 1)
    assert world.bodies("q", visibility_ms=0) == ["m"]
    world.advance(1)
    assert world.bodies("q") == []


def test_an_expired_fifo_head_frees_its_group(world: World) -> None:
    world.create("q.fifo", retention_ms=MINUTE)
    world.send("q.fifo", "head", group="g")
    world.receive("q.fifo", visibility_ms=HOUR)
    world.advance(30 * SECOND)
    world.send("q.fifo", "next", group="g")
    assert world.bodies("q.fifo") == []
    world.advance(30 * SECOND)
    assert world.bodies("q.fifo") == ["next"]
