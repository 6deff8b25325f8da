"""A receive that finds many dead letters moves them in small commits, and finds what lies behind them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from penstock.broker.waiting import Ask
from penstock.errors import StoreAway, StoreError
from penstock.limits import MINUTE
from support.shards import ShardsWorld
from support.world import SECOND, UNMETERED, Caller, World, outgoing

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])
PLACES = pytest.mark.parametrize("shard_of_dead", [0, 1], ids=["same shard", "other shard"])

DEAD = 1000
PER_TURN = UNMETERED.dead_letters_per_turn


@pytest.fixture
def world() -> Iterator[ShardsWorld]:
    with ShardsWorld(UNMETERED) as world:
        yield world


def make(world: ShardsWorld, kind: str, shard_of_dead: int) -> tuple[str, str]:
    """A queue of shard 0 whose messages were all received once, and will be dead letters when they are visible."""
    work, dead = world.name("work", 0, kind), world.name("dead", shard_of_dead, kind)
    world.create(dead)
    world.create(work, dead_letters=(dead, 1), visibility_ms=MINUTE)
    for first in range(0, DEAD, 100):
        world.send_all(work, *[f"m{i}" for i in range(first, first + 100)], group="g")
    assert len(world.drain_up_to(work, DEAD)) == DEAD
    return work, dead


def largest_commit(world: ShardsWorld) -> int:
    return max(changes.rows for store in world.stores.values() for changes in store.appended)


def forget_commits(world: ShardsWorld) -> None:
    for store in world.stores.values():
        store.appended.clear()


@KINDS
@PLACES
def test_a_short_poll_finds_the_message_behind_them(
    world: ShardsWorld, kind: str, shard_of_dead: int
) -> None:
    work, dead = make(world, kind, shard_of_dead)
    world.advance(MINUTE)
    world.send(work, "good", group="g")
    assert world.counts(dead) == (0, 0, 0)
    forget_commits(world)
    poll = world.begin_poll(work)
    there: list[int] = []
    poll.answer.on_done(lambda _: there.append(world.queue(dead).rules.backlog.total))
    world.run()
    assert poll.bodies == ["good"]
    assert there == [DEAD], "they are in their queue when the answer leaves"
    assert (world.counts(work), world.counts(dead)) == ((0, 1, 0), (DEAD, 0, 0))
    # Where they change shards, commits of the outbox that hand over the ones before take part.
    assert largest_commit(world) <= 2 * PER_TURN


@KINDS
@PLACES
def test_a_short_poll_moves_all_of_them_before_it_finds_nothing(
    world: ShardsWorld, kind: str, shard_of_dead: int
) -> None:
    work, dead = make(world, kind, shard_of_dead)
    world.advance(MINUTE)
    assert world.receive(work) == []
    assert (world.counts(work), world.counts(dead)) == ((0, 0, 0), (DEAD, 0, 0))


@PLACES
def test_a_waiting_long_poll_finds_the_message_behind_them(world: ShardsWorld, shard_of_dead: int) -> None:
    work, dead = make(world, "", shard_of_dead)
    world.send(work, "good", group="g", delay_ms=MINUTE)
    world.advance(MINUTE - SECOND)
    poll = world.poll(work, wait_ms=20 * SECOND)
    forget_commits(world)
    world.advance(SECOND)
    assert poll.bodies == ["good"]
    assert world.counts(dead) == (DEAD, 0, 0)
    assert largest_commit(world) <= 2 * PER_TURN


@KINDS
@PLACES
def test_a_long_poll_that_has_moved_them_waits_on(world: ShardsWorld, kind: str, shard_of_dead: int) -> None:
    work, dead = make(world, kind, shard_of_dead)
    world.advance(MINUTE - SECOND)
    poll = world.poll(work, wait_ms=20 * SECOND)
    world.advance(SECOND)
    assert not poll.done
    assert world.counts(dead) == (DEAD, 0, 0)
    world.send(work, "good", group="g")
    assert poll.bodies == ["good"]


def test_receives_that_come_meanwhile_wait_and_find_theirs(world: ShardsWorld) -> None:
    work, dead = make(world, "", 0)
    world.advance(MINUTE)
    world.send_all(work, *[f"good{i}" for i in range(5)], group="g")
    forget_commits(world)
    polls = [world.begin_poll(work, 1) for _ in range(5)]
    world.run()
    assert sorted(body for poll in polls for body in poll.bodies) == [f"good{i}" for i in range(5)]
    assert world.counts(dead) == (DEAD, 0, 0)
    assert largest_commit(world) <= 2 * PER_TURN


def moved_some(world: ShardsWorld, dead: str) -> None:
    """Run until some of the dead letters are in their queue."""
    while not world.queue(dead).rules.backlog.total:
        assert world.runtime.step()


def test_others_are_answered_between_two_commits(world: ShardsWorld) -> None:
    work, dead = make(world, "", 0)
    other = world.name("other", 0)
    world.create(other)
    world.advance(MINUTE)
    poll = world.begin_poll(work)
    sent = world.sending(other, outgoing("m"))
    while not sent.done:
        assert world.runtime.step()
    assert not poll.done
    assert world.queue(dead).rules.backlog.total <= PER_TURN
    world.run()
    assert poll.bodies == []


def test_a_short_poll_fails_with_a_commit_that_is_refused(world: ShardsWorld) -> None:
    work, dead = make(world, "", 0)
    world.advance(MINUTE)
    poll = world.begin_poll(work)
    moved_some(world, dead)
    world.stores[0].refusals.append(StoreError("refused by the test"))
    world.run()
    with pytest.raises(StoreError):
        poll.answer.result()
    moved = world.counts(dead)[0]
    assert 0 < moved < DEAD
    assert world.counts(work) == (DEAD - moved, 0, 0)
    assert world.receive(work) == []
    assert world.counts(dead) == (DEAD, 0, 0)


def test_a_long_poll_goes_on_after_a_commit_that_is_refused(world: ShardsWorld) -> None:
    work, dead = make(world, "", 0)
    world.advance(MINUTE)
    poll = world.begin_poll(work, wait_ms=20 * SECOND)
    moved_some(world, dead)
    world.stores[0].refusals.append(StoreError("refused by the test"))
    world.run()
    assert not poll.done
    assert world.counts(dead) == (DEAD, 0, 0)
    world.send(work, "good")
    assert poll.bodies == ["good"]


def test_the_rest_stays_when_the_client_is_gone(world: ShardsWorld) -> None:
    work, dead = make(world, "", 0)
    world.advance(MINUTE)
    poll = world.begin_poll(work)
    moved_some(world, dead)
    poll.caller.hang_up()
    world.run()
    assert poll.bodies == []
    moved = world.counts(dead)[0]
    assert 0 < moved < DEAD
    assert world.receive(work) == []
    assert world.counts(dead) == (DEAD, 0, 0)


def test_nothing_is_looked_for_in_a_pause() -> None:
    """A message that becomes due meanwhile is found when the pause ends."""
    with World(msgspec.structs.replace(UNMETERED, dead_letters_per_turn=1)) as world:
        world.create("dead")
        world.create("work", dead_letters=("dead", 1), visibility_ms=SECOND)
        world.send_all("work", "a", "b")
        assert len(world.drain_up_to("work", 2)) == 2
        world.send("work", "later", delay_ms=2 * SECOND)
        world.advance(SECOND)
        world.hold_commits()
        poll = world.begin_poll("work", wait_ms=MINUTE)
        world.run()
        assert world.queue("work").waiting.paused
        world.advance(10 * SECOND)
        assert not poll.done
        world.release_commits()
        world.run()
        assert poll.bodies == ["later"]


def test_no_receive_pauses_for_a_commit_that_has_failed() -> None:
    """While the outcome of an earlier commit is unknown, the open one has failed and is never written."""
    with World(msgspec.structs.replace(UNMETERED, dead_letters_per_turn=1)) as world:
        world.create("dead")
        world.create("work", dead_letters=("dead", 1), visibility_ms=SECOND)
        world.send("work", "good", delay_ms=SECOND)
        world.send("work", "bad")
        (bad,) = world.receive("work")
        assert bad.content.body == "bad"
        world.clock.advance(SECOND)
        queue = world.queue("work")
        answer = queue.waiting.wait(Ask(2, None, None), Caller(), 0)
        world.shard.open_commit.done.fail(StoreAway("the outcome is not known"))
        queue.decided(world.clock.now_ms())
        assert answer.done
        assert not queue.waiting.paused
