"""The memory of a queue is loaded while messages arrive that do not wait for it, such as dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import pytest

from penstock.errors import StoreError
from penstock.promise import Promise
from support.world import SECOND, UNMETERED, Poll, World, outgoing

T = TypeVar("T")

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])
DEAD = 200
ENOUGH = 20  # more dead letters than may arrive while the queue is loaded


@pytest.fixture
def world() -> Iterator[World]:
    """A receive of it makes a commit for each dead letter, one directly after the other."""
    with World(msgspec.structs.replace(UNMETERED, dead_letters_per_turn=1)) as world:
        yield world


def make(world: World, kind: str = "") -> tuple[str, str]:
    """A queue whose next receive finds many dead letters."""
    work, dead = "work" + kind, "dead" + kind
    world.create(dead)
    world.create(work, dead_letters=(dead, 1), visibility_ms=SECOND)
    world.send_all(work, *[f"m{i}" for i in range(DEAD)], group="g")
    assert len(world.drain_up_to(work, DEAD)) == DEAD
    world.advance(SECOND)
    return work, dead


def run_until(world: World, waited_for: Promise[T]) -> T:
    while not waited_for.done:
        assert world.runtime.step()
    return waited_for.result()


def moving(world: World, work: str) -> Poll:
    """A receive that has begun to move its dead letters."""
    poll = world.begin_poll(work)
    before = world.shard.commits
    while world.shard.commits < before + 3:
        assert world.runtime.step()
    return poll


def on_held_read(world: World, then: Callable[[], None]) -> None:
    """Do this when a read begins that commits wait for."""
    read_between_commits = world.shard.read_between_commits

    def watched(function: Callable[[], T]) -> Promise[T]:
        then()
        return read_between_commits(function)

    world.shard.read_between_commits = watched  # type: ignore[method-assign]


@KINDS
def test_a_queue_is_loaded_while_dead_letters_arrive(world: World, kind: str) -> None:
    work, dead = make(world, kind)
    poll = moving(world, work)
    world.queue(dead).memory.forget()
    counts = run_until(world, world.start(world.queue(dead).counts()))
    assert not poll.done
    assert counts.visible < ENOUGH
    world.run()
    assert poll.bodies == []
    assert world.counts(dead) == (DEAD, 0, 0)
    assert sorted(world.bodies(dead, DEAD)) == sorted(f"m{i}" for i in range(DEAD))


def test_a_queue_that_was_loaded_so_knows_its_sends(world: World) -> None:
    work, dead = make(world, ".fifo")
    first = world.send(dead, "first", group="a", dedup_id="d")
    moving(world, work)
    world.queue(dead).memory.forget()
    (again,) = run_until(world, world.sending(dead, outgoing("again", group="a", dedup_id="d")))
    assert again == first
    world.run()
    assert world.counts(dead) == (DEAD + 1, 0, 0)


def test_commits_do_not_wait_long_for_a_store_that_does_not_read(world: World) -> None:
    work, dead = make(world)
    world.create("other")
    poll = moving(world, work)
    reader = world.runtime.reader
    on_held_read(world, lambda: setattr(reader, "paused", True))
    world.queue(dead).memory.forget()
    counts = world.start(world.queue(dead).counts())
    world.run()
    sent = world.sending("other", outgoing("m"))
    world.run()
    assert reader.paused
    assert not sent.done
    world.advance(5 * SECOND)
    assert sent.done
    assert poll.bodies == []
    assert not counts.done
    reader.paused = False
    world.run()
    assert counts.result().visible == DEAD


def test_commits_go_on_when_the_read_fails(world: World) -> None:
    work, dead = make(world)
    poll = moving(world, work)
    usage, errors = world.store.usage, [StoreError("refused by the test")]

    def fail_once(queue: int | None = None) -> object:
        if errors:
            raise errors.pop()
        return usage(queue)

    on_held_read(world, lambda: setattr(world.store, "usage", fail_once))
    world.queue(dead).memory.forget()
    counts = world.start(world.queue(dead).counts())
    world.run()
    assert not errors
    with pytest.raises(StoreError):
        counts.result()
    assert poll.bodies == []
    assert world.counts(dead) == (DEAD, 0, 0)
