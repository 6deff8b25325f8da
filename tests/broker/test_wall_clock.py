"""A wall clock that is set: timestamps follow it, and nothing else does."""

from __future__ import annotations

import pytest

from penstock.limits import DAY, MINUTE
from support.texts import says
from support.world import SECOND, World

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


# -- a clock that jumps between two runs of the server ----------------------------------------------------------


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_what_expired_while_the_server_was_down_is_kept_for_ten_minutes(
    world: World, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(queue, retention_ms=DAY)
    world.create("kept", retention_ms=14 * DAY)
    for number in range(8):  # more than a small memory holds
        world.send(queue, f"m{number}", group=f"g{number}")
    world.send("kept", "m")
    world.clock.advance(5 * DAY)
    world.crash()
    (warning,) = [record.message for record in caplog.records if "retention" in record.message]
    says(warning, "8 messages of 1 queues", "since 2023-11-14T22:13:20Z", "shard 0", "in 10 minutes")
    world.send(queue, "new", group="new")
    world.advance(10 * MINUTE - 1)
    assert sum(world.counts(queue)) == 9
    (first,) = world.receive(queue, 1)
    assert first.content.body == "m0"
    world.advance(MINUTE)
    assert world.bodies(queue) == ["new"]
    assert sum(world.counts(queue)) == 1
    assert world.bodies("kept") == ["m"]


def test_a_longer_retention_keeps_what_expired_while_the_server_was_down(world: World) -> None:
    world.create("q", retention_ms=DAY)
    world.send("q", "m")
    world.clock.advance(5 * DAY)
    world.crash()
    world.configure("q", retention_ms=14 * DAY)
    world.advance(DAY)
    assert world.bodies("q") == ["m"]


def test_a_restart_within_the_ten_minutes_begins_them_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create("q", retention_ms=DAY)
    world.send("q", "m")
    world.clock.advance(5 * DAY)
    world.crash()
    world.advance(9 * MINUTE)
    world.send("q", "new")
    world.restart()
    assert sum("1 messages of 1 queues passed" in record.message for record in caplog.records) == 2
    world.advance(9 * MINUTE)
    assert sum(world.counts("q")) == 2
    world.advance(2 * MINUTE)
    assert world.bodies("q") == ["new"]
    world.restart()
    world.advance(DAY)
    assert sum(world.counts("q")) == 0


def test_after_a_short_stop_messages_expire_in_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.create("q", retention_ms=DAY)
    world.send("q", "m")
    world.advance(DAY - 2 * MINUTE)
    world.send("q", "new")
    world.clock.advance(3 * MINUTE)
    world.crash()
    assert world.bodies("q") == ["new"]
    assert not [record for record in caplog.records if "retention" in record.message]
