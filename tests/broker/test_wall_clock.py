"""A wall clock that is set: timestamps follow it, and nothing else does."""

from __future__ import annotations

import pytest

from penstock.limits import DAY, MINUTE
from sim.world import SECOND, World

JUMPS = pytest.mark.parametrize("jump_ms", [-30 * DAY, 30 * DAY], ids=["back", "forward"])


@JUMPS
def test_nothing_is_released_or_expired(world: World, jump_ms: int) -> None:
    world.create("q")
    world.create("q.fifo")
    world.send("q", "hidden")
    world.receive("q", visibility_ms=MINUTE)
    world.send("q", "delayed", delay_ms=MINUTE)
    world.send("q", "waiting")
    first = world.send("q.fifo", "m", group="g", dedup_id="d")
    world.clock.wall_offset_ms = jump_ms
    world.advance(SECOND)
    assert world.counts("q") == (1, 1, 1)
    assert world.send("q.fifo", "m", group="g", dedup_id="d") == first
    world.crash()
    assert world.counts("q") == (1, 1, 1)
    world.advance(MINUTE)
    assert sorted(world.drain("q")) == ["delayed", "hidden", "waiting"]


@JUMPS
def test_timestamps_are_the_wall_clocks(world: World, jump_ms: int) -> None:
    world.create("q")
    world.clock.wall_offset_ms = jump_ms
    world.send("q", "m")
    sent_ms = world.clock.wall_ms()
    world.advance(SECOND)
    (message,) = world.receive("q")
    assert message.content.sent_ms == sent_ms
    assert message.first_received_ms == sent_ms + SECOND


@JUMPS
def test_long_polls_end_in_time(world: World, jump_ms: int) -> None:
    world.create("q")
    poll = world.poll("q", wait_ms=5 * SECOND)
    world.clock.wall_offset_ms = jump_ms
    world.advance(5 * SECOND - 1)
    assert not poll.done
    world.advance(1)
    assert poll.bodies == []


@JUMPS
def test_cool_downs_end_in_time(world: World, jump_ms: int) -> None:
    world.create("q")
    world.purge("q")
    world.clock.wall_offset_ms = jump_ms
    world.advance(MINUTE)
    world.purge("q")
