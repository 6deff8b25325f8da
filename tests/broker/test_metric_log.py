"""How accounts share the space for metrics of queues."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from penstock.broker.metric_log import MetricLog, MetricsState, PlacedEntry, RecentEntry, packed_chunks
from penstock.limits import DAY, HOUR, MINUTE, SECOND
from penstock.metrics.chunks import TimedRow
from penstock.metrics.queue_rows import QueueRow, TimedQueueRow
from penstock.turns import finished
from support.world import ROOMY, World

BYTES_MAX = 60_000
START_MS = 20_000 * DAY
GREEDY, MODEST, LATER = 1001, 2001, 3001  # queues, each of another account


@pytest.fixture
def world() -> Iterator[World]:
    with World(msgspec.structs.replace(ROOMY, metrics_bytes_max=BYTES_MAX)) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        yield world


def made(world: World) -> MetricLog:
    metering = world.broker.partition(0).metering
    assert metering is not None
    log = metering._log
    for queue in (GREEDY, GREEDY + 1, GREEDY + 2, MODEST, LATER):
        log.add(queue, f"account {queue // 1000}")
    return log


def hours(world: World, log: MetricLog, count: int, *queues: int, rows: int = 60) -> None:
    """Each of the queues stores a chunk an hour."""
    rng = random.Random(count)
    for _ in range(count):
        at_s = world.clock.now_ms() // SECOND
        chunks = {
            queue: [
                TimedRow(at_s + minute * 60, 1, QueueRow(sent=rng.randrange(10**9))) for minute in range(rows)
            ]
            for queue in queues
        }
        write(log, at_s, chunks)
        world.do(settled(world))
        world.clock.advance(HOUR)


def write(log: MetricLog, at_s: int, chunks: dict[int, list[TimedQueueRow]]) -> None:
    position = log.next_entry_position()
    log.write([PlacedEntry(position, RecentEntry(at_s))], finished(packed_chunks(chunks, at_s)), position)


async def settled(world: World) -> None:
    await world.shard.settled()


def stored(world: World, *queues: int, kind: str = "metrics") -> list[int]:
    """The hours that have chunks, since the beginning."""
    rows = [row for queue in queues for row in world.store.log(kind, str(queue), -1, 10_000)]
    return sorted((row.position - START_MS) // HOUR for row in rows)


def size(world: World) -> int:
    queues = (GREEDY, GREEDY + 1, GREEDY + 2, MODEST, LATER)
    return sum(
        len(row.data)
        for queue in queues
        for kind in ("metrics", "metrics-hours")
        for row in world.store.log(kind, str(queue), -1, 10_000)
    )


def test_the_account_that_has_the_most_loses_its_oldest_hours(world: World) -> None:
    log = made(world)
    hours(world, log, 100, GREEDY, GREEDY + 1, GREEDY + 2, MODEST)
    assert BYTES_MAX // 2 < size(world) <= BYTES_MAX
    assert stored(world, MODEST)[0] < 100 - len(stored(world, GREEDY)), "it keeps more than one of the others"
    assert stored(world, GREEDY)[0] > stored(world, MODEST)[0]


def test_hours_go_before_minutes(world: World) -> None:
    log = made(world)
    hours(world, log, 10, GREEDY)
    assert stored(world, GREEDY, kind="metrics-hours") == stored(world, GREEDY) == list(range(10))
    while stored(world, GREEDY)[0] == 0:
        minutes_before = stored(world, GREEDY)
        hours(world, log, 1, GREEDY)
        assert size(world) <= BYTES_MAX
    assert stored(world, GREEDY, kind="metrics-hours") == []
    assert len(minutes_before) > 40, "the minutes take the whole space"
    held = [state for account, state in log._state if account == "account 1"]
    assert not held[0].hours


def test_an_account_within_its_share_loses_no_hours(world: World) -> None:
    log = made(world)
    hours(world, log, 10, MODEST)
    hours(world, log, 100, GREEDY, GREEDY + 1, GREEDY + 2)
    hours(world, log, 1, MODEST)
    assert stored(world, MODEST, kind="metrics-hours") == [*range(10), 110]


def test_an_account_within_its_share_loses_nothing(world: World) -> None:
    log = made(world)
    hours(world, log, 10, MODEST)
    hours(world, log, 200, GREEDY, GREEDY + 1, GREEDY + 2)
    hours(world, log, 1, MODEST)
    assert stored(world, MODEST) == [*range(10), 210]
    assert size(world) <= BYTES_MAX


def test_one_that_comes_later_gets_its_share_although_the_other_has_filled_the_present_hours(
    world: World,
) -> None:
    log = made(world)
    queues = GREEDY, GREEDY + 1, GREEDY + 2
    hours(world, log, 1, *queues, rows=2500)
    assert size(world) <= BYTES_MAX
    hours(world, log, 1, LATER, rows=2000)
    assert stored(world, LATER) == [1]
    assert size(world) <= BYTES_MAX


def test_hours_of_an_earlier_release_go_first_and_are_forgotten_with_their_time(world: World) -> None:
    block = world.clock.now_ms() // (4 * HOUR)
    former = {block - 2: 20_000, block - 1: 30_000}
    made(world)._state.put("state", MetricsState(world.clock.now_ms(), former, 5))
    world.do(settled(world))
    world.restart()
    log = made(world)
    hours(world, log, 40, MODEST)
    state = log._state.get("state")
    assert state is not None and state.stored == {block - 1: 30_000} and state.gone_to > 5
    world.clock.advance(16 * DAY)
    hours(world, log, 1, LATER)
    state = log._state.get("state")
    assert state is not None and state.stored == {}
    kept = [
        (bool(state.stored), bool(state.hours)) for account, state in log._state if account == "account 2"
    ]
    assert kept == [(False, True)]
    world.clock.advance(455 * DAY)
    hours(world, log, 1, LATER)
    assert {account for account, _ in log._state} == {"state", "account 3"}


def test_counts_are_those_before_if_a_commit_is_refused(world: World) -> None:
    log = made(world)
    hours(world, log, 2, MODEST)
    before = dict(log._state)
    world.refuse_next_commit()
    chunks = {MODEST: [TimedRow(0, 1, QueueRow(sent=1))]}
    write(log, 60, chunks)
    world.run()
    assert dict(log._state) == before
    world.advance(MINUTE)
