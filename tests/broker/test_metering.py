"""The metrics of queues: what is counted, what is looked at, and what is kept through restarts."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import msgspec
import pytest

from penstock.broker import queue_figures
from penstock.broker.live_queue import LiveQueue
from penstock.broker.queue_figures import Levels, all_figures
from penstock.broker.queue_meter import MinuteLooks, QueueMeter, SecondsMemory
from penstock.broker.queue_metrics import Totals
from penstock.broker.summaries import QueueQuery, SummariesQuestion, summary_of
from penstock.errors import StoreAway, StoreError, StoreUnknown
from penstock.limits import DAY, HOUR
from penstock.metrics.buckets import Bucket
from penstock.metrics.budget import MetricBudget
from penstock.metrics.queue_hours import HOUR_CHUNKS
from penstock.metrics.queue_rows import QUEUE_CHUNKS, QUEUE_METRICS, TimedQueueRow
from penstock.metrics.series import Point, merged_points
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.fairness import NoisyTenants
from penstock.queues.settings import QueueSettings, Redrive
from penstock.store.changes import Changes, EntryRow, LogRow
from penstock.store.port import LAST, JournalEnd, Mark, Selection
from penstock.turns import Steps, Turns, _PendingSteps, finished
from support.shards import ShardsWorld
from support.world import MINUTE, ROOMY, SECOND, World, name_of, outgoing

START_MS = 1_700_000_040_000  # a whole minute
START_S = START_MS // SECOND


@pytest.fixture
def metered() -> Iterator[World]:
    with World(ROOMY) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        yield world


def points(
    world: World,
    queue: str,
    metric: str,
    period_s: int = 60,
    start_s: int = START_S,
    end_s: int | None = None,
) -> list[Point]:
    end_s = end_s or world.clock.wall_ms() // SECOND + 60
    metering = world.broker.partition(world.queue(queue).shard.index).metering
    assert metering is not None
    live = world.queue(queue)
    (found,) = world.do(metering.points([(live, QUEUE_METRICS[metric])], start_s, end_s, period_s))
    return found


def sums(world: World, queue: str, metric: str, **more: int) -> dict[int, float]:
    """Returns sums by minutes, or seconds, since the start."""
    period_s = more.get("period_s", 60)
    return {(at_s - START_S) // period_s: bucket.sum for at_s, bucket in points(world, queue, metric, **more)}


def test_each_minute_has_its_counts(metered: World) -> None:
    metered.create("q")
    for minute in range(3):
        for n in range(minute + 1):
            metered.send("q", "x", size=100 * (n + 1))
            metered.advance(10 * SECOND)
        metered.delete("q", *metered.receive("q"))
        assert metered.receive("q") == []
        metered.advance(MINUTE - (minute + 1) * 10 * SECOND)
    metered.advance(2 * MINUTE)
    zeros = {3: 0, 4: 0, 5: 0}
    assert sums(metered, "q", "sent") == {0: 1, 1: 2, 2: 3, **zeros}
    assert sums(metered, "q", "received") == {0: 1, 1: 2, 2: 3, **zeros}
    assert sums(metered, "q", "deleted") == {0: 1, 1: 2, 2: 3, **zeros}
    assert sums(metered, "q", "empty_receives") == {0: 1, 1: 1, 2: 1, **zeros}
    assert sums(metered, "q", "sent_bytes") == {0: 100, 1: 300, 2: 600}
    (_, last) = points(metered, "q", "sent_bytes")[-1]
    assert (last.count, last.min, last.max) == (3, 100, 300)
    (_, first) = points(metered, "q", "sent")[0]
    assert first == Bucket.of(1, 1)
    # 10, 20 and 30 seconds after the receive
    assert sums(metered, "q", "processing_time") == {0: 0, 1: 0, 2: 0}


def test_each_second_has_its_counts(metered: World) -> None:
    metered.create("q")
    for second, messages in ((0, 2), (1, 0), (2, 5), (7, 1)):
        metered.advance(START_MS + second * SECOND + 300 - metered.clock.now_ms())
        if messages:
            metered.send_all("q", *["x"] * messages)
    metered.advance(3 * SECOND)
    sent = sums(metered, "q", "sent", period_s=1)
    assert {second: count for second, count in sent.items() if count} == {0: 2, 2: 5, 7: 1}
    visible = sums(metered, "q", "visible", period_s=1)
    assert visible == {0: 2, 1: 2, 2: 7, 3: 7, 4: 7, 5: 7, 6: 7, 7: 8, 8: 8, 9: 8, 10: 8}


def test_a_number_of_messages_holds_its_value_in_every_second(metered: World) -> None:
    """Nobody uses the queue, and nothing is looked at but once a minute."""
    metered.create("q")
    metered.send_all("q", *["x"] * 7)
    metered.receive("q", 2, visibility_ms=HOUR)
    metered.advance(30 * MINUTE + 25 * SECOND)
    now_s = metered.clock.wall_ms() // SECOND
    for metric, held in (("visible", 5), ("in_flight", 2), ("delayed", 0), ("sent", 0)):
        found = points(metered, "q", metric, period_s=10, start_s=now_s - 905, end_s=now_s + 1)
        assert [at_s for at_s, _ in found] == list(range(now_s - 905, now_s + 1, 10)), metric
        assert {bucket.max for _, bucket in found} == {held}, metric
    ages = points(metered, "q", "oldest_age", period_s=10, start_s=now_s - 30, end_s=now_s + 1)
    age_s = now_s - START_S
    assert [bucket.max for _, bucket in ages] == [age_s - 20, age_s - 10, age_s, age_s]


def test_a_value_that_changed_without_a_request_is_held_from_then_on(metered: World) -> None:
    metered.create("q")
    metered.send("q", "later", delay_ms=10 * MINUTE + 30 * SECOND)
    metered.advance(20 * MINUTE)
    found = sums(metered, "q", "visible", period_s=30)
    assert [found[half] for half in range(38)] == [0] * 20 + [1] * 18
    metered.crash()
    metered.advance(SECOND)
    after = sums(metered, "q", "visible", period_s=30)
    assert [after[half] for half in range(38)] == [0] * 20 + [1] * 18


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "idle"])
def test_a_queue_has_no_values_before_it_was_active(metered: World, is_new: bool) -> None:
    """Its first minute has no row before it: nothing is known of the periods before the first look."""
    if not is_new:
        metered.create("q")
        metered.advance(8 * HOUR)
    minute_s = metered.clock.wall_ms() // SECOND
    metered.advance(44 * SECOND + 200)
    if is_new:
        metered.create("q")
    metered.send_all("q", *["x"] * 300)
    for passed_ms in (0, 3 * SECOND, 30 * SECOND, 2 * MINUTE):
        metered.advance(passed_ms)
        for metric in ("visible", "oldest_age", "sent"):
            begin_s = [at_s for at_s, _ in points(metered, "q", metric, period_s=10, start_s=minute_s)]
            if passed_ms or metric != "sent":
                assert begin_s[0] == minute_s + 40, (metric, passed_ms)
        visible = points(metered, "q", "visible", period_s=10, start_s=minute_s)
        assert {bucket.max for _, bucket in visible} == {300}
    metered.restart()
    visible = points(metered, "q", "visible", period_s=10, start_s=minute_s)
    first_s = minute_s + (50 if is_new else 60)  # the number of the idle queue changed in this minute
    assert (visible[0][0], visible[0][1].max) == (first_s, 300), "its seconds are gone"


def test_a_peak_is_not_shown_again_when_its_seconds_are_gone(metered: World) -> None:
    metered.create("q")
    metered.advance(5 * MINUTE + 2 * SECOND)
    metered.send_all("q", *["x"] * 300)
    metered.advance(10 * SECOND)
    metered.purge("q")
    metered.advance(20 * SECOND)
    metered.restart()
    for passed_ms in (SECOND, 40 * SECOND, 2 * MINUTE):
        metered.advance(passed_ms)
        found = points(metered, "q", "visible", period_s=10)
        assert [at_s - START_S for at_s, bucket in found if bucket.max] == [], passed_ms
        assert START_S + 290 in dict(found)
        assert points(metered, "q", "visible")[5][1].max == 300


def test_what_was_held_before_the_first_period_is_known(metered: World) -> None:
    metered.create("q")
    metered.send_all("q", *["x"] * 5)
    metered.advance(10 * MINUTE + 30 * SECOND)
    metered.send_all("q", *["x"] * 10)
    metered.advance(70 * SECOND)
    metered.receive("q", 10, visibility_ms=HOUR)
    metered.advance(3 * SECOND)
    for begin_s in range(600, 690):
        found = points(metered, "q", "visible", period_s=10, start_s=START_S + begin_s)
        for at_s, bucket in found:
            assert bucket.max == (15 if 621 <= at_s - START_S < 700 else 5), (begin_s, at_s - START_S)
        assert found[0][0] == START_S + begin_s


def test_counts_of_seconds_that_are_gone_are_not_shown_as_zero(metered: World) -> None:
    metered.create("q")
    metered.advance(2 * MINUTE)
    metered.send("q", "x")
    metered.advance(2 * MINUTE)
    assert sums(metered, "q", "sent", period_s=30, end_s=START_S + 240) == {
        **dict.fromkeys(range(8), 0),
        4: 1,
    }
    metered.restart()
    found = sums(metered, "q", "sent", period_s=30, end_s=START_S + 240)
    assert found == dict.fromkeys([0, 1, 2, 3, 6, 7], 0)


def test_only_what_a_metric_needs_is_looked_at(metered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    metered.create("q")
    metered.send("q", "quiet", group="quiet")
    metered.send_all("q", *["noise"] * 300, group="noisy")
    metered.drain_up_to("q", 45, visibility_ms=HOUR)
    asked: list[str] = []
    rules = metered.queue("q").rules

    def noisy_tenants(*_: object) -> Steps[NoisyTenants]:
        asked.append("noisy")
        yield
        return NoisyTenants()

    monkeypatch.setattr(type(rules), "noisy_tenants", noisy_tenants)

    def select(*_: object, **__: object) -> list[object]:
        asked.append("select")
        return []

    monkeypatch.setattr(metered.store, "select", select)
    for metric in ("sent", "visible", "in_flight", "groups_in_flight"):
        points(metered, "q", metric)
        points(metered, "q", metric, period_s=10)
    assert asked == []
    points(metered, "q", "oldest_age")
    assert set(asked) == {"select"}
    points(metered, "q", "noisy_groups")
    assert asked[-1] == "noisy"


def test_a_minute_that_was_looked_at_is_not_looked_at_again(
    metered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm asks five seconds after its minute has ended."""
    metered.create("q")
    metered.send_all("q", *["x"] * 300)
    metered.advance(2 * MINUTE + 5 * SECOND)
    asked: list[int] = []
    select = metered.store.select

    def counted(selection: Selection, *args: Any, **more: Any) -> list[EntryRow]:
        asked.append(selection.queue)
        return select(selection, *args, **more)

    monkeypatch.setattr(metered.store, "select", counted)
    found = points(metered, "q", "oldest_age", end_s=START_S + 120)
    assert [bucket.max for _, bucket in found] == [60, 120]
    assert asked == []
    assert len(points(metered, "q", "oldest_age", end_s=START_S + 180)) == 3
    assert asked, "the minute has not ended"


def test_only_what_was_asked_for_is_read(metered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    metered.create("q")
    use(metered, 10 * 60)
    read: list[str] = []
    stored = metered.store.log

    def counted(kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        rows = stored(kind, key, after, rows_max)
        read.extend([key] * len(rows))
        return rows

    def select(*_: object, **__: object) -> list[object]:
        read.append("select")
        return []

    monkeypatch.setattr(metered.store, "log", counted)
    monkeypatch.setattr(metered.store, "select", select)
    now_s = metered.clock.wall_ms() // SECOND // 60 * 60
    meter = metered.broker.partition(0).metering._meters[metered.queue("q")]  # type: ignore[union-attr]
    gathered_s = meter.minutes.timed[0].at_s
    assert len(points(metered, "q", "sent", start_s=gathered_s + 60)) == (now_s - gathered_s) // 60
    assert read == [], "memory has these minutes"
    assert len(points(metered, "q", "oldest_age", start_s=START_S + 3600, end_s=START_S + 7200)) == 60
    assert 1 <= len(read) <= 10 and "select" not in read, "the present was not asked for"
    assert len(points(metered, "q", "sent", start_s=gathered_s)) == (now_s - gathered_s) // 60 + 1
    assert len(points(metered, "q", "sent")) == 601


def test_the_minute_that_has_not_ended_has_its_maximum(metered: World) -> None:
    metered.create("q")
    metered.send_all("q", *["x"] * 10)
    metered.advance(5 * SECOND)
    metered.delete("q", *metered.receive("q"))
    metered.advance(5 * SECOND)
    ((_, bucket),) = points(metered, "q", "visible")
    assert (bucket.min, bucket.max) == (0, 10)


def test_counts_are_exact_against_a_model(metered: World) -> None:
    """Two hours of random use, read in minutes, in five minutes and in seconds."""
    rng = random.Random(11)
    counted: dict[str, Counter[int]] = defaultdict(Counter)
    metered.create("q")
    held = []

    def count(metric: str, number: int = 1) -> None:
        counted[metric][(metered.clock.wall_ms() // SECOND) - START_S] += number

    for _ in range(600):
        metered.advance(rng.choice([0, 40, 900, 5_000, 40_000]))
        match rng.randrange(4):
            case 0:
                sizes = [rng.randrange(1, 2000) for _ in range(rng.randrange(1, 11))]
                metered.do(metered.queue("q").send([outgoing("x", size=size) for size in sizes]))
                count("sent", len(sizes))
                count("sent_bytes", sum(sizes))
            case 1 | 2:
                received = metered.receive("q", rng.randrange(1, 11), visibility_ms=HOUR)
                held += received
                count("received", len(received)) if received else count("empty_receives")
            case 3 if held:
                deleted = [held.pop() for _ in range(min(len(held), 3))]
                metered.delete("q", *deleted)
                count("deleted", len(deleted))
    metered.advance(SECOND)
    for metric, expected in counted.items():
        for period_s in (1, 60, 300):
            wanted = Counter[int]()
            for second, number in expected.items():
                wanted[second // period_s] += number
            found = sums(metered, "q", metric, period_s=period_s)
            assert {at: number for at, number in found.items() if number} == +wanted, (metric, period_s)


def test_levels_of_a_minute_have_average_minimum_and_maximum(metered: World) -> None:
    metered.create("q")
    metered.advance(2 * MINUTE)
    metered.advance(30 * SECOND)
    metered.send_all("q", *["x"] * 10)
    metered.advance(15 * SECOND)
    metered.send_all("q", *["x"] * 10)
    metered.advance(16 * SECOND)
    (at_s, bucket) = points(metered, "q", "visible")[2]
    assert at_s == START_S + 120
    # For half of the minute none, for a quarter ten, for a quarter twenty: one value, however often it was looked at.
    assert (bucket.count, bucket.min, bucket.max) == (1, 0, 20)
    assert bucket.sum == pytest.approx(7.5, abs=0.5)


def test_the_levels_of_a_minute_stay_until_it_is_stored() -> None:
    """Many queues are looked at once a minute: the next minute has begun when the last of them have their turn."""
    meter = QueueMeter("a", SecondsMemory(1_000_000), MetricBudget(1_000_000), lambda: 0, lambda: None)

    def look(second: int, visible: int) -> None:
        meter.pass_time(START_MS + second * SECOND, Totals(), {})
        meter.look(START_MS + second * SECOND, Levels(visible, 0, 0, None), None)

    for second in range(1, 61):
        look(second, 300 if 30 <= second < 40 else 0)
    late = [61, 62]
    for second in late:
        look(second, 7)
    rows = meter.rows_until_now(Totals(), {}, MinuteLooks(Levels(7, 0, 0, None), None, None))
    assert [timed.row.visible for timed in rows] == [(0, 300, 50.0), (0, 7, 3.5)]
    ((at_s, row),) = meter.end_minute(START_S, MinuteLooks(Levels(7, 0, 0, None), None, None))
    assert (at_s, row.visible) == (START_S, (0, 300, 50.0))
    ((at_s, row),) = meter.end_minute(START_S + 60, MinuteLooks(Levels(7, 0, 0, None), None, None))
    assert at_s == START_S + 60 and isinstance(row.visible, tuple) and row.visible[:2] == (0, 7)


def test_a_message_that_comes_back_by_itself_is_seen(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    metered.receive("q", visibility_ms=10 * MINUTE + 30 * SECOND)
    metered.send("q", "later", delay_ms=14 * MINUTE + 30 * SECOND)
    metered.advance(16 * MINUTE)
    in_flight = sums(metered, "q", "in_flight")
    assert {minute: in_flight[minute] for minute in range(1, 17)} == {n: int(n < 10) for n in range(1, 17)}
    assert sums(metered, "q", "delayed")[13] == 1
    assert sums(metered, "q", "visible")[15] == 2


def test_dead_letters_and_moves_are_no_sends(metered: World) -> None:
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 1), visibility_ms=SECOND)
    metered.send("q", "x")
    metered.receive("q")
    metered.advance(2 * SECOND)
    assert metered.receive("q") == []
    assert metered.counts("dead") == (1, 0, 0)
    metered.start_move("dead", "q")
    metered.advance(MINUTE)
    assert metered.counts("q") == (1, 0, 0)
    assert sum(sums(metered, "dead", "sent").values()) == 0
    assert sum(sums(metered, "q", "sent").values()) == 1
    assert sum(sums(metered, "dead", "received").values()) == 0


@pytest.mark.parametrize("seconds_queues", [1000, 1])
def test_dead_letters_that_are_redriven_within_a_minute_are_in_its_maximum(seconds_queues: int) -> None:
    """Also if as many queues of others are looked at every second as may be."""
    with World(msgspec.structs.replace(ROOMY, metrics_seconds_queues=seconds_queues)) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        check_a_redrive_within_a_minute(world)


def check_a_redrive_within_a_minute(metered: World) -> None:
    metered.create("busy")
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 1), visibility_ms=SECOND)
    metered.advance(10 * HOUR)  # nobody uses them
    metered.send("busy", "x")
    metered.send_all("q", *["x"] * 300)
    assert len(metered.drain_up_to("q", 300)) == 300
    metered.advance(2 * SECOND)
    assert metered.drain_up_to("q", 1) == []
    assert metered.counts("dead") == (300, 0, 0)
    metered.advance(13 * SECOND)
    metered.start_move("dead", "q")
    metered.advance(5 * SECOND)
    assert metered.counts("dead") == (0, 0, 0)
    minute_s = metered.clock.wall_ms() // SECOND // 60 * 60
    shown = points(metered, "dead", "visible", period_s=1, start_s=minute_s)
    assert max(bucket.max for _, bucket in shown) == 300
    metered.advance(MINUTE)
    found = dict(points(metered, "dead", "visible", start_s=minute_s))
    assert (found[minute_s].min, found[minute_s].max) == (0, 300)
    assert found[minute_s + 60].max == 0
    assert sum(bucket.sum for _, bucket in points(metered, "dead", "sent")) == 0


def test_messages_from_another_shard_are_a_use_of_their_queue() -> None:
    with ShardsWorld() as world:
        home = world.create("q").shard.index
        dead = next(
            name for name in map("dead{}".format, range(20)) if world.create(name).shard.index != home
        )
        world.configure("q", redrive=Redrive(name_of(dead), 1), visibility_ms=SECOND)
        world.advance(10 * HOUR)
        assert points(world, dead, "visible", start_s=world.clock.wall_ms() // SECOND - 120) == []
        world.send_all("q", *["x"] * 5)
        world.receive("q")
        world.advance(2 * SECOND)
        assert world.receive("q") == []
        world.advance(3 * SECOND)
        metrics = world.queue(dead).metrics
        assert metrics.used_ms > world.clock.now_ms() - 5 * SECOND
        found = points(world, dead, "visible", start_s=world.clock.wall_ms() // SECOND - 60)
        assert max(bucket.max for _, bucket in found) == 5


def test_deletes_with_a_valid_handle_count_each_time(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    (message,) = metered.receive("q")
    metered.advance(3 * SECOND)
    metered.delete("q", message)
    metered.delete("q", message)
    assert metered.do(metered.queue("q").delete(["forged"])) != [None]
    assert sums(metered, "q", "deleted") == {0: 2}
    # The processing time is that of the one message.
    assert points(metered, "q", "processing_time") == [(START_S, Bucket.of(3.0, 1))]


def test_messages_that_the_client_did_not_get_are_not_received(metered: World) -> None:
    metered.create("q")
    poll = metered.poll("q")
    poll.caller.hang_up()
    metered.send("q", "x")
    received = metered.receive("q")
    assert len(received) == 1
    assert sums(metered, "q", "received") == {0: 1}


def test_duplicates_of_a_fifo_queue(metered: World) -> None:
    metered.create("q.fifo")
    for sends in (["a", "b", "a"], ["a"], ["c"]):
        messages = [outgoing(body, group="g", dedup_id=body, size=ord(body)) for body in sends]
        metered.do(metered.queue("q.fifo").send(messages))
    assert sums(metered, "q.fifo", "sent") == {0: 3}
    assert sums(metered, "q.fifo", "duplicates") == {0: 2}
    assert sums(metered, "q.fifo", "sent_bytes") == {0: ord("a") + ord("b") + ord("c")}


def test_groups_with_messages_in_flight(metered: World) -> None:
    metered.create("q.fifo")
    for n in range(6):
        metered.send("q.fifo", str(n), group=f"g{n % 3}", dedup_id=str(n))
    assert sums(metered, "q.fifo", "groups_in_flight") == {0: 0}
    first = metered.receive("q.fifo", 2)
    assert sums(metered, "q.fifo", "groups_in_flight") == {0: 1}
    metered.receive("q.fifo", 2, visibility_ms=30 * SECOND)
    assert sums(metered, "q.fifo", "groups_in_flight") == {0: 2}
    metered.delete("q.fifo", *first)
    metered.crash()
    assert sums(metered, "q.fifo", "groups_in_flight")[0] == 1
    metered.advance(MINUTE)
    assert sums(metered, "q.fifo", "groups_in_flight")[1] == 0
    metered.create("standard")
    assert points(metered, "standard", "groups_in_flight") == []


# -- the age of the oldest message -----------------------------------------------------------------------------


def age(world: World, queue: str) -> float | None:
    """Returns the age in the minute that has not ended."""
    found = points(world, queue, "oldest_age")
    now_s = world.clock.wall_ms() // SECOND
    return found[-1][1].max if found and found[-1][0] == now_s - now_s % 60 else None


def test_the_age_is_that_of_the_oldest_message_in_any_state(metered: World) -> None:
    metered.create("q")
    assert age(metered, "q") is None
    metered.send("q", "first")
    metered.advance(90 * SECOND)
    metered.send("q", "second")
    (first,) = metered.receive("q", 1, visibility_ms=HOUR)
    metered.advance(60 * SECOND)
    assert age(metered, "q") == 150
    metered.delete("q", first)
    assert age(metered, "q") == 60
    assert sums(metered, "q", "oldest_age") == {0: 60, 1: 120, 2: 60}


def test_a_message_received_three_times_is_set_aside_on_a_standard_queue(metered: World) -> None:
    metered.create("q", visibility_ms=SECOND)
    metered.send("q", "poison")
    metered.advance(MINUTE)
    metered.send("q", "good")
    for receives in range(1, 4):
        assert age(metered, "q") == 60 + 2 * (receives - 1)
        metered.receive("q", 1)
        metered.advance(2 * SECOND)
    assert age(metered, "q") == 6
    for _ in range(3):
        metered.advance(2 * SECOND)
        metered.drain("q")
    assert age(metered, "q") is None
    metered.send("q", "new")
    metered.advance(5 * SECOND)
    assert age(metered, "q") == 5


@pytest.mark.parametrize("messages", [1, 250], ids=["in memory", "in the store"])
def test_the_age_in_short_periods_is_that_of_their_time(metered: World, messages: int) -> None:
    metered.create("q")
    metered.send("q", "old")
    (old,) = metered.receive("q", visibility_ms=HOUR)
    metered.send_all("q", *["x"] * (messages - 1))
    metered.advance(5 * MINUTE + 20 * SECOND)
    metered.send("q", "new")
    metered.advance(28 * SECOND)
    metered.delete("q", old)
    if messages > 1:
        metered.delete("q", *metered.drain_up_to("q", messages))
    else:
        metered.delete("q", *metered.receive("q"))
    for passed_ms in (3 * SECOND, MINUTE, 10 * MINUTE):
        metered.advance(passed_ms)
        found = sums_of_max(metered, "oldest_age", start_s=START_S + 300, end_s=START_S + 350)
        expected = {300: 310, 310: 320, 320: 330, 330: 340, 340: 348}
        assert found.keys() >= {300, 310, 320, 330}
        assert all(found[at_s] == pytest.approx(expected[at_s], abs=1) for at_s in list(found)[:4])


def test_the_age_follows_the_oldest_of_many_messages_within_the_minute(metered: World) -> None:
    metered.create("q")
    metered.send("q", "old")
    metered.advance(3 * MINUTE + 2 * SECOND)
    (old,) = metered.receive("q", visibility_ms=HOUR)
    metered.send_all("q", *["x"] * 400)
    metered.advance(3 * SECOND)
    metered.delete("q", old)
    metered.advance(35 * SECOND)
    assert age(metered, "q") == 38
    found = sums_of_max(metered, "oldest_age", start_s=START_S + 180, end_s=START_S + 220)
    assert found == {180: 185, 190: 18, 200: 28, 210: 38}


def test_many_messages_in_a_queue_that_was_empty_have_an_age_within_the_minute(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    metered.advance(2 * MINUTE)
    metered.delete("q", *metered.receive("q"))
    metered.advance(5 * SECOND)
    metered.send_all("q", *["x"] * 300)
    metered.advance(30 * SECOND)
    found = sums_of_max(metered, "oldest_age", start_s=START_S + 130, end_s=START_S + 150)
    assert found == {130: 15, 140: 25}


def test_the_oldest_of_many_messages_is_read_only_when_it_is_gone(
    metered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in more queues than a second's reads are for has them wait for their turn."""
    names = [f"q{number}" for number in range(30)]
    for name in names:
        metered.create(name)
        metered.send_all(name, *["x"] * 300)
    metered.advance(5 * SECOND)
    read = noted_reads(metered, monkeypatch)
    metered.advance(10 * SECOND)
    assert read == [], "their oldest messages are in memory"
    for name in names:
        metered.delete(name, *metered.receive(name))
    reads: list[int] = []
    for _ in range(3):
        metered.advance(SECOND)
        reads.append(len(read) - sum(reads))
    assert (reads, len(set(read))) == ([20, 10, 0], 30)


def noted_reads(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the ids of the queues whose messages are read from now on, to which each read adds."""
    read: list[int] = []
    select = world.store.select

    def counted(which: Selection, *more: Any, **options: Any) -> list[EntryRow]:
        read.append(which.queue)
        return select(which, *more, **options)

    monkeypatch.setattr(world.store, "select", counted)
    return read


def sums_of_max(world: World, metric: str, **times: int) -> dict[int, float]:
    """The maxima of periods of ten seconds, by their seconds since the start."""
    return {at_s - START_S: bucket.max for at_s, bucket in points(world, "q", metric, period_s=10, **times)}


def test_the_age_ends_with_the_last_message(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    metered.advance(MINUTE + 24 * SECOND)
    metered.delete("q", *metered.receive("q"))
    metered.advance(20 * SECOND)
    found = sums_of_max(metered, "oldest_age")
    assert found == pytest.approx({at_s: min(84, at_s + 10) for at_s in range(0, 90, 10)}, abs=1)


def test_the_minute_of_a_stop_has_an_age(metered: World) -> None:
    metered.create("q")
    metered.send_all("q", *["x"] * 250)
    metered.create("empty")
    for _ in range(2):
        metered.advance(2 * MINUTE + 10 * SECOND)
        metered.restart()
    metered.advance(2 * MINUTE)
    ages = sums(metered, "q", "oldest_age")
    assert list(ages.items())[:6] == [(minute, 60 * (minute + 1)) for minute in range(6)]
    short = sums_of_max(metered, "oldest_age", end_s=START_S + 360)
    assert short == {at_s: at_s + 10 for at_s in range(0, 360, 10)}
    assert points(metered, "empty", "oldest_age") == []


def test_a_message_that_was_deleted_in_the_minute_of_a_stop_has_no_age(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    metered.advance(2 * MINUTE + 10 * SECOND)
    metered.restart()
    assert age(metered, "q") == 130
    metered.delete("q", *metered.receive("q"))
    assert age(metered, "q") is None
    metered.advance(2 * MINUTE)
    assert sums(metered, "q", "oldest_age") == {0: 60, 1: 120}


def test_a_message_that_blocks_its_group_keeps_its_age(metered: World) -> None:
    metered.create("q.fifo", visibility_ms=SECOND)
    metered.send("q.fifo", "poison", group="g", dedup_id="1")
    for _ in range(5):
        metered.advance(2 * SECOND)
        metered.receive("q.fifo", 1)
    assert age(metered, "q.fifo") == 10


@pytest.mark.parametrize("restarts", [False, True])
def test_a_dead_letter_is_as_old_as_its_time_in_the_dead_letter_queue(metered: World, restarts: bool) -> None:
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 1), visibility_ms=SECOND)
    metered.send("q", "x")
    metered.advance(5 * HOUR)
    metered.receive("q")
    metered.advance(2 * SECOND)
    assert metered.receive("q") == []
    if restarts:
        metered.advance(MINUTE)
        metered.restart()
    metered.advance(2 * HOUR)
    assert age(metered, "dead") == pytest.approx(2 * 3600, rel=0.05)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("visibility_s", [10, 130])
def test_the_age_of_a_dead_letter_is_known_to_a_second(metered: World, visibility_s: int, busy: bool) -> None:
    metered.create("other")
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 1), visibility_ms=visibility_s * SECOND)
    metered.send_all("q", *["x"] * 300)
    metered.advance(HOUR)
    metered.drain_up_to("q", 300)
    for _ in range(visibility_s + 17):
        metered.advance(SECOND)
        if busy:
            metered.send("other", "x")
    assert metered.receive("q") == []
    assert metered.counts("dead") == (300, 0, 0)
    for passed_s in (3, 17, 70, 147):
        metered.advance(passed_s * SECOND)
        passed = sum(each for each in (3, 17, 70, 147) if each <= passed_s)
        assert age(metered, "dead") == pytest.approx(passed, abs=max(1.5, passed / 32)), passed_s
        if busy:
            metered.send("other", "x")


def ages_everywhere(world: World, queue: str) -> list[float | None]:
    """As metrics, the list of queues and Prometheus have it, in seconds."""
    live = world.queue(queue)
    query = QueueQuery(live.name.space, 2, only=frozenset([queue]))
    (summary,) = world.do(world.broker.ask(SummariesQuestion(query)))
    same = world.do(summary_of(world.broker.partition_of(live), live))
    assert summary.oldest_age_ms == same.oldest_age_ms

    async def scraped() -> float | None:
        async for figures in all_figures(world.broker.partition(live.shard.index)):
            for each in figures:
                if each.queue is live:
                    return None if each.age_ms is None else each.age_ms / SECOND
        return None

    listed = None if summary.oldest_age_ms is None else summary.oldest_age_ms / SECOND
    return [age(world, queue), listed, world.do(scraped())]


def scraped_levels(world: World) -> dict[str, Levels | None]:
    """Returns the levels that Prometheus gets."""

    async def scraped() -> dict[str, Levels | None]:
        found: dict[str, Levels | None] = {}
        async for figures in all_figures(world.broker.partition(0)):
            found.update((each.name.name, each.levels) for each in figures)
        return found

    return world.do(scraped())


@pytest.mark.parametrize("messages", [20, 300])
def test_prometheus_has_the_messages_of_a_fifo_queue_with_a_delay(metered: World, messages: int) -> None:
    metered.create("q.fifo", delay_ms=MINUTE)
    for n in range(messages):
        metered.send("q.fifo", "x", group="g", dedup_id=str(n))
    assert scraped_levels(metered) == {"q.fifo": Levels(0, 0, messages, 0)}
    metered.advance(MINUTE)
    metered.receive("q.fifo", 2)
    metered.send("q.fifo", "x", group="g", dedup_id="last")
    assert scraped_levels(metered) == {"q.fifo": Levels(messages - 2, 2, 1, 1)}
    if messages == 20:
        metered.advance(3 * SECOND)
        shown = points(metered, "q.fifo", "in_flight", period_s=1)
        assert shown[-1][1].max == 2


def test_prometheus_has_the_messages_of_queues_that_are_not_loaded(metered: World) -> None:
    for name, messages in (("q", 5), ("empty", 0), ("q.fifo", 0)):
        metered.create(name)
        metered.send_all(name, *["x"] * messages)
        metered.queue(name).memory.forget()
    expected = {"q": Levels(5, 0, 0, None), "empty": Levels(0, 0, 0, None), "q.fifo": Levels(0, 0, 0, 0)}
    assert scraped_levels(metered) == expected
    assert not metered.queue("q").memory.loaded


def test_the_age_is_the_same_whoever_shows_it(metered: World) -> None:
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 3), visibility_ms=SECOND)
    assert ages_everywhere(metered, "q") == [None] * 3
    metered.send("q", "poison")
    metered.advance(HOUR)
    metered.send("q", "good")
    metered.advance(10 * SECOND)
    assert ages_everywhere(metered, "q") == [3610] * 3
    for _ in range(3):
        (poison,) = metered.receive("q", 1)
        assert poison.content.body == "poison"
        metered.advance(2 * SECOND)
    assert ages_everywhere(metered, "q") == [16] * 3, "the one that is set aside does not count"
    metered.receive("q", 10)
    assert metered.counts("dead") == (1, 0, 0)
    metered.advance(20 * MINUTE)
    metric, listed, scraped = ages_everywhere(metered, "dead")
    assert metric is not None and listed == scraped
    assert metric == pytest.approx(listed, abs=1) == pytest.approx(20 * 60, rel=0.1)


def test_the_age_is_the_same_from_memory_and_from_the_store(
    metered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 4), visibility_ms=2 * SECOND, retention_ms=2 * MINUTE)
    metered.create("q.fifo", visibility_ms=2 * SECOND)
    queues = [metered.queue(name) for name in ("q", "dead", "q.fifo")]
    figures = metered.broker.partition(0).figures
    seen = set()
    for step in range(150):
        if chance.random() < 0.5:
            metered.send("q", "x", delay_ms=chance.choice([0, 5 * SECOND]))
            metered.send("q.fifo", "x", group=str(step % 3), dedup_id=str(step))
        for name in ("q", "q.fifo"):
            for received in metered.receive(name, chance.randrange(1, 4)):
                if chance.random() < 0.3:
                    metered.delete(name, received)
        metered.advance(chance.randrange(5 * SECOND))
        from_memory = metered.do(figures.oldest(queues))
        with monkeypatch.context() as patched:
            patched.setattr(queue_figures, "_WALKED_MAX", -1)
            assert metered.do(figures.oldest(queues)) == from_memory
        seen.add(tuple(queue in from_memory for queue in queues))
    assert {each[1] for each in seen} == {True, False}, "some became dead letters"


def test_the_age_of_few_messages_takes_no_read(metered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    metered.create("few")
    metered.create("many")
    metered.send_all("few", "a", "b")
    metered.send_all("many", *["x"] * 300)
    read = noted_reads(metered, monkeypatch)
    metered.advance(10 * SECOND)
    assert [age(metered, "few"), age(metered, "many")] == [10, 10]
    assert set(read) == {metered.queue("many").id}


def test_the_age_is_known_without_metrics() -> None:
    with World(msgspec.structs.replace(ROOMY, metrics_bytes_max=0)) as world:
        world.create("dead")
        world.create("q", dead_letters=("dead", 1), visibility_ms=SECOND)
        world.send("q", "x")
        world.advance(5 * HOUR)
        world.receive("q")
        world.advance(2 * SECOND)
        assert world.receive("q") == []
        world.advance(HOUR)
        dead = world.queue("dead")
        found = world.do(summary_of(world.broker.partition_of(dead), dead)).oldest_age_ms
        assert found == pytest.approx(HOUR, rel=0.05)


# -- fair queues -----------------------------------------------------------------------------------------------


def test_noisy_groups_of_a_fair_queue(metered: World) -> None:
    metered.create("q")
    metered.send("q", "no group")
    assert points(metered, "q", "noisy_groups") == []
    metered.send("q", "quiet", group="quiet")
    metered.advance(10 * SECOND)
    metered.send_all("q", *["noise"] * 60, group="noisy")
    metered.send("q", "delayed noise", group="noisy", delay_ms=MINUTE)
    assert sums(metered, "q", "noisy_groups") == {0: 0}
    metered.drain_up_to("q", 45, visibility_ms=10 * MINUTE)
    assert sums(metered, "q", "noisy_groups") == {0: 1}
    ((_, visible),) = points(metered, "q", "visible")
    assert visible.max >= 17
    assert sums(metered, "q", "quiet_visible") == {0: 0}
    assert sums(metered, "q", "quiet_in_flight") == {0: 2}
    assert sums(metered, "q", "quiet_delayed") == {0: 0}
    assert sums(metered, "q", "quiet_oldest_age") == {0: 10}
    # Five minutes after its last send it is quiet again.
    metered.advance(6 * MINUTE)
    assert sums(metered, "q", "noisy_groups")[6] == 0
    assert sums(metered, "q", "quiet_visible")[6] == 18


def test_a_quiet_dead_letter_is_as_old_as_its_time_in_the_dead_letter_queue(metered: World) -> None:
    metered.create("dead")
    metered.create("q", dead_letters=("dead", 1))
    metered.send("q", "x", group="quiet")
    metered.advance(10 * MINUTE)
    metered.receive("q", visibility_ms=SECOND)
    metered.advance(2 * SECOND)
    assert metered.receive("q") == []
    metered.advance(8 * SECOND)
    metered.send_all("dead", *["noise"] * 60, group="noisy")
    metered.drain_up_to("dead", 45, visibility_ms=10 * MINUTE)
    assert sums(metered, "dead", "noisy_groups")[10] == 1
    assert sums(metered, "dead", "quiet_oldest_age")[10] == age(metered, "dead") == pytest.approx(9, abs=2)


# -- active queues ---------------------------------------------------------------------------------------------


def test_a_queue_has_values_for_six_hours_after_its_last_use(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x")
    metered.delete("q", *metered.receive("q"))
    metered.advance(8 * HOUR)
    minutes = sums(metered, "q", "sent")
    assert minutes.keys() == set(range(360))
    metered.advance(SECOND)
    metered.send("q", "x")
    metered.advance(10 * HOUR)
    assert len(sums(metered, "q", "visible")) == 360 + 601


# -- storage ---------------------------------------------------------------------------------------------------


def use(world: World, minutes: int) -> None:
    for minute in range(minutes):
        world.send_all("q", *["x"] * (minute % 7 + 1), size=50)
        world.advance(MINUTE)


@pytest.mark.parametrize("minutes", [1, 3, 59, 61, 150])
def test_a_crash_loses_at_most_the_minute_that_has_not_ended(metered: World, minutes: int) -> None:
    metered.create("q")
    use(metered, minutes)
    metered.advance(SECOND)
    before = points(metered, "q", "sent")
    metered.send("q", "lost")
    metered.crash()
    after = points(metered, "q", "sent")
    assert after[:minutes] == before[:minutes]
    assert points(metered, "q", "visible")[:minutes] == points(metered, "q", "visible")[:minutes]
    use(metered, 3)
    assert sum(bucket.sum for _, bucket in points(metered, "q", "sent")) == sum(
        bucket.sum for _, bucket in before
    ) + (1 + 2 + 3)


def test_a_clean_stop_loses_nothing(metered: World) -> None:
    metered.create("q")
    use(metered, 5)
    metered.advance(10 * SECOND)
    metered.send_all("q", "a", "b", size=7)
    for _ in range(3):
        metered.restart()
        metered.send("q", "c", size=8)
    found = points(metered, "q", "sent")
    assert {(at_s - START_S) // 60: bucket.sum for at_s, bucket in found} == {
        0: 1,
        1: 2,
        2: 3,
        3: 4,
        4: 5,
        5: 5,
    }
    metered.advance(MINUTE)
    assert sums(metered, "q", "sent")[5] == 5
    assert sums(metered, "q", "sent_bytes")[5] == 38
    # It counts as used for six hours since the last use, not since the restart.
    metered.restart()
    metered.purge("q")
    metered.advance(7 * HOUR)
    assert max(sums(metered, "q", "sent", end_s=START_S + 26_000)) == 365


def test_a_refused_commit_loses_nothing(metered: World) -> None:
    metered.create("q")
    use(metered, 3)
    metered.send("q", "x")
    metered.refuse_next_commit()
    metered.advance(MINUTE + SECOND)
    assert not metered.store.refusals
    metered.advance(2 * MINUTE)
    expected = sums(metered, "q", "sent")
    assert expected[3] == 1
    metered.crash()
    assert {minute: count for minute, count in sums(metered, "q", "sent").items() if minute < 5} == {
        minute: count for minute, count in expected.items() if minute < 5
    }


def test_a_second_crash_loses_nothing_that_was_stored_before_the_first(metered: World) -> None:
    metered.create("q")
    use_until_chunk(metered)
    use(metered, 3)
    metered.advance(SECOND)
    before = sums(metered, "q", "sent")
    metered.crash()
    metered.clock.advance(2 * HOUR)
    use(metered, 2)
    metered.advance(SECOND)
    metered.crash()
    end_s = START_S + 60 * (max(before) - 1)
    assert sums(metered, "q", "sent", end_s=end_s) == {
        at: before[at] for at in before if at < max(before) - 1
    }


def test_recent_entries_go_when_their_rows_are_in_chunks(metered: World) -> None:
    for n in range(10):
        metered.create(f"q{n}")
    for _ in range(4):
        metered.advance(50 * MINUTE)
        metered.refuse_next_commit()
        metered.advance(MINUTE)
        metered.crash()
        metered.advance(100 * MINUTE)
        recent = metered.store.log("metrics", "recent", -1, 1000)
        assert len(recent) <= 61


def test_a_chunk_whose_minute_was_refused_is_stored_in_the_next_one(metered: World) -> None:
    metered.create("q")
    use_until_chunk(metered)
    before = stored_counts(metered)["minutes"]
    metered.refuse_next_commit()
    metered.advance(SECOND)
    assert not metered.store.refusals
    assert stored_counts(metered)["minutes"] == before
    metered.advance(MINUTE)
    assert stored_counts(metered)["minutes"] == sum(sums(metered, "q", "sent").values()) > before


def test_a_round_that_comes_late_ends_every_minute(metered: World) -> None:
    """A commit takes longer than a minute: the next round is about two."""
    metered.create("q")
    metered.create("idle")
    metered.send_all("idle", "x", "y")
    metered.advance(3 * MINUTE)
    for minute in range(5):
        for _ in range(4):
            metered.receive("q")
        if minute == 1:
            metered.hold_commits()
        metered.advance(MINUTE)
        if minute == 3:
            metered.release_commits()
    metered.advance(2 * MINUTE)
    for crashes in (False, True):
        if crashes:
            metered.crash()
        empty = sums(metered, "q", "empty_receives")
        assert [empty[minute] for minute in range(9)] == [0, 0, 0, 4, 4, 4, 4, 4, 0]
        held = sums(metered, "idle", "visible")
        assert [held.get(minute) for minute in range(9)] == [2] * 9
        ages = points(metered, "idle", "oldest_age")
        assert [bucket.max for _, bucket in ages][:9] == [60 * (minute + 1) for minute in range(9)]


def test_series_are_computed_in_the_turns_of_their_account(
    metered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    metered.create("q")
    use(metered, 3)
    accounts: list[str] = []
    run = Turns.run

    async def noted(self: Turns, steps: Steps[Any], of: str = "") -> Any:
        accounts.append(of)
        return await run(self, steps, of)

    monkeypatch.setattr(Turns, "run", noted)
    assert points(metered, "q", "sent")
    assert accounts == [name_of("q").account]


def test_a_stop_packs_chunks_in_turns(metered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    metered.create("q")
    use(metered, 3)
    sent = sum(sums(metered, "q", "sent").values())
    packed_in_turns: list[bool] = []
    pack, do_piece = QUEUE_CHUNKS.pack, _PendingSteps.do_piece
    in_turn = False

    def noted(timed: Iterable[TimedQueueRow]) -> bytes:
        packed_in_turns.append(in_turn)
        return pack(timed)

    def piece(job: _PendingSteps) -> bool:
        nonlocal in_turn
        in_turn = True
        try:
            return do_piece(job)
        finally:
            in_turn = False

    monkeypatch.setattr(QUEUE_CHUNKS, "pack", noted)
    monkeypatch.setattr(_PendingSteps, "do_piece", piece)
    metered.restart()
    assert packed_in_turns == [True]
    assert sum(sums(metered, "q", "sent").values()) == sent


def test_looking_for_due_queues_pauses(metered: World) -> None:
    for n in range(300):
        metered.create(f"q{n}")
    metered.advance(2 * MINUTE)
    metering = metered.broker.partition(0).metering
    assert metering is not None
    minute = metered.clock.wall_ms() // MINUTE
    assert len(list(metering._due_chunks(minute, minute - 1))) >= 2


def count_sent(world: World, queue: LiveQueue, *sizes: float) -> None:
    queue.metrics.turn(world.clock.now_ms())
    for size in sizes:
        queue.metrics.sent += 1
        queue.metrics.sizes[int(size)] = queue.metrics.sizes.get(int(size), 0) + 1


def test_minutes_that_cannot_be_stored_take_a_bounded_number_of_bytes() -> None:
    """An account that has less than its share loses nothing."""
    sizes_max = 60_000
    with World(msgspec.structs.replace(ROOMY, metrics_minutes_bytes=sizes_max)) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        world.create("q")
        modest = QueueName("111111111111", "eu-west-1", "modest")
        world.do(world.broker.create(modest, QueueSettings(), {}))
        world.store.full = True
        with pytest.raises(StoreError):
            world.send("q", "x")
        metering = world.broker.partition(0).metering
        assert metering is not None and world.shard.refuses
        for minute in range(30):
            count_sent(world, world.queue("q"), *(1.1**n for n in range(100 + minute)))
            count_sent(world, world.broker.find(modest), 1)
            world.advance(MINUTE)
        assert metering._minutes_budget.used <= sizes_max + 10_000
        found = points(world, "q", "sent")
        assert 5 <= len(found) <= 25
        asked = [(world.broker.find(modest), QUEUE_METRICS["sent"])]
        (others,) = world.do(metering.points(asked, START_S, START_S + 1800, 60))
        assert sum(bucket.sum for _, bucket in others) == 30
        world.store.full = False
        world.advance(MINUTE)
        world.advance(62 * MINUTE)
        assert metering._minutes_budget.used < 3_000
        assert points(world, "q", "sent")[: len(found) - 2] == found[:-2]


def stored_counts(world: World) -> dict[str, float]:
    """How many messages were sent by all stored chunks of the queue, and how many more minutes these have than
    values are in their hours."""
    log = [
        [row.data for row in world.store.log(kind, str(world.queue("q").id), -1, 1000)]
        for kind in ("metrics", "metrics-hours")
    ]
    minutes = [timed for data in log[0] for timed in QUEUE_CHUNKS.unpack(data)]
    hours = [timed for data in log[1] for timed in HOUR_CHUNKS.unpack(data)]
    return {
        "minutes": sum(times * row.sent for _, times, row in minutes),
        "hours": sum(row[0].sum for _, _, row in hours),
        "values": sum(times for _, times, _ in minutes) - sum(row[VISIBLE].count for _, _, row in hours),
    }


VISIBLE = list(QUEUE_METRICS).index("visible")
NONE = {"minutes": 0, "hours": 0, "values": 0}


def use_until_chunk(world: World) -> None:
    """The round of the minute that has just ended stores a chunk of the queue."""
    while (world.clock.wall_ms() // MINUTE - 1 + world.queue("q").id) % 60:
        use(world, 1)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_stop_while_a_chunk_is_committed_stores_its_rows_once(metered: World, is_refused: bool) -> None:
    metered.create("q")
    use(metered, 3)
    use_until_chunk(metered)
    sent = sum(sums(metered, "q", "sent").values())
    metered.hold_commits()
    metered.advance(SECOND)
    assert stored_counts(metered) == NONE, "the chunk is not written yet"
    assert sum(sums(metered, "q", "sent").values()) == sent, "a read does not wait for it"
    if is_refused:
        metered.refuse_next_commit()
    stop = metered.start(metered.broker.stop())
    metered.run()
    metered.release_commits()
    assert stop.done
    stored = {"minutes": sent, "hours": sent, "values": 0}
    assert stored_counts(metered) == (NONE if is_refused else stored)
    metered.crash()
    assert sum(sums(metered, "q", "sent").values()) == (sent - 1 if is_refused else sent), (
        "the last minute is lost"
    )


@pytest.mark.parametrize("is_made", [True, False])
def test_a_chunk_whose_commit_was_thought_refused_is_stored_once(metered: World, is_made: bool) -> None:
    """The answer of the store is lost, and the journal cannot be read for longer than requests wait."""
    metered.create("q")
    use(metered, 3)
    use_until_chunk(metered)
    sent = sum(sums(metered, "q", "sent").values())
    append, end = metered.store.append, metered.store.end

    def lose_the_answer(changes: Changes, mark: Mark) -> Set[int]:
        if is_made:
            append(changes, mark)
        raise StoreUnknown("the connection was lost")

    def no_answer() -> JournalEnd:
        raise StoreAway("no connection")

    metered.store.append, metered.store.end = lose_the_answer, no_answer  # type: ignore[method-assign]
    metered.advance(10 * SECOND)
    assert stored_counts(metered)["minutes"] == (sent if is_made else 0)
    assert sum(sums(metered, "q", "sent").values()) == sent, "the outcome is not known"
    metered.advance(MINUTE)
    assert sum(sums(metered, "q", "sent").values()) == sent
    metered.store.append, metered.store.end = append, end  # type: ignore[method-assign]
    metered.advance(2 * MINUTE)
    assert sum(sums(metered, "q", "sent").values()) == sent
    metered.restart()
    assert stored_counts(metered) == {"minutes": sent, "hours": sent, "values": 0}


def test_one_small_commit_a_minute_and_none_without_active_queues(metered: World) -> None:
    for n in range(50):
        metered.create(f"q{n}")
    metered.advance(90 * MINUTE)
    metered.store.appended.clear()
    metered.advance(60 * MINUTE)
    assert len(metered.store.appended) == 60
    logs = [row for changes in metered.store.appended for row in changes.logs]
    # One entry a minute for all of them, and for each one chunk an hour, with what it is of the hour.
    assert len(logs) == 60 + 50 + 50
    assert sum(len(row.data) for row in logs) < 20_000
    metered.advance(8 * HOUR)
    metered.store.appended.clear()
    metered.advance(59 * MINUTE)
    assert len(metered.store.appended) <= 1


@pytest.mark.slow
def test_minutes_are_kept_for_fifteen_days(metered: World) -> None:
    metered.create("q")
    metered.send("q", "x", delay_ms=0)
    metered.configure("q", retention_ms=14 * DAY)
    metered.advance(DAY)
    assert len(points(metered, "q", "visible")) == 24 * 60 + 1
    for _ in range(16):
        metered.send("q", "x")
        metered.advance(DAY)
    kept = points(metered, "q", "visible")
    now_s = metered.clock.wall_ms() // SECOND
    assert now_s - 15 * 86_400 - 5 * 3600 <= kept[0][0] <= now_s - 15 * 86_400 + 3600
    assert sum(bucket.sum for _, bucket in points(metered, "q", "sent")) in (14, 15)


HOUR_START_S = START_S // 3600 * 3600
DAY_START_S = START_S // 86_400 * 86_400


@pytest.mark.parametrize("days", [20, 400])
def test_hours_are_kept_when_the_minutes_are_gone(metered: World, days: int) -> None:
    metered.create("q")
    use(metered, 200)
    end_s = metered.clock.wall_ms() // SECOND // 3600 * 3600
    metered.advance(7 * HOUR)  # it holds messages all the time
    asked = [
        (metric, period_s, start_s)
        for metric in ("sent", "sent_bytes", "visible", "in_flight", "oldest_age")
        for period_s, start_s in ((3600, HOUR_START_S), (86_400, DAY_START_S))
    ]
    before = [points(metered, "q", *each, end_s=end_s) for each in asked]
    metered.purge("q")
    metered.restart()
    metered.clock.advance(days * DAY)
    for _ in range(2):  # before minutes are removed, and after that
        after = [points(metered, "q", *each, end_s=end_s) for each in asked]
        for each, found, expected in zip(asked, after, before, strict=True):
            assert [(at_s, *numbers(bucket)) for at_s, bucket in found] == [
                (at_s, *map(pytest.approx, numbers(bucket))) for at_s, bucket in expected
            ], each
        use(metered, 65)
    assert points(metered, "q", "sent", 60, HOUR_START_S, end_s) == []
    assert points(metered, "q", "sent", 300, HOUR_START_S, end_s) == []


def numbers(bucket: Bucket) -> tuple[float, ...]:
    return bucket.count, bucket.sum, bucket.min, bucket.max


def test_hours_are_removed_after_455_days(metered: World) -> None:
    metered.create("q")
    use(metered, 130)
    metered.restart()  # stores what was gathered
    metered.clock.advance(454 * DAY)
    use(metered, 65)
    end_s = START_S + DAY // SECOND
    assert len(points(metered, "q", "sent", 3600, HOUR_START_S, end_s)) == 3
    metered.clock.advance(2 * DAY)
    assert points(metered, "q", "sent", 3600, HOUR_START_S, end_s) == []
    use(metered, 65)
    rows = metered.store.log("metrics-hours", str(metered.queue("q").id), -1, 100)
    assert all(row.position > START_MS + DAY for row in rows)


def test_restarts_within_an_hour_lose_nothing_of_it_and_count_nothing_twice(metered: World) -> None:
    metered.create("q")
    for end in (metered.restart, metered.crash, metered.restart):
        use(metered, 33)
        metered.advance(SECOND)
        end()
    metered.advance(61 * MINUTE)
    before = points(metered, "q", "sent", 3600, HOUR_START_S)
    assert sum(bucket.sum for _, bucket in before) == 3 * sum(minute % 7 + 1 for minute in range(33))
    visible = points(metered, "q", "visible", 3600, HOUR_START_S, HOUR_START_S + 3600)
    metered.clock.advance(20 * DAY)
    after = points(metered, "q", "sent", 3600, HOUR_START_S, START_S + 2 * 86_400)
    assert [(at_s, bucket.sum) for at_s, bucket in after[: len(before)]] == [
        (at_s, bucket.sum) for at_s, bucket in before
    ]
    for (_, found), (_, expected) in zip(
        points(metered, "q", "visible", 3600, HOUR_START_S, HOUR_START_S + 3600), visible, strict=True
    ):
        assert (found.min, found.max) == (expected.min, expected.max)
        assert found.sum / found.count == pytest.approx(expected.sum / expected.count, rel=0.05)


ASKED_HOURS = (  # period, start, end, in seconds since HOUR_START_S
    (3600, 0, 40 * 3600),
    (3600, 1800, 39 * 3600 + 1800),
    (7200, 3600, 37 * 3600),
    (5 * 3600, 60, 30 * 3600 + 120),
    (86_400, -7 * 3600, 41 * 3600),
    (86_400, 13 * 60, 86_400 + 13 * 60),
)


@pytest.mark.parametrize("seed", range(4))
def test_hours_say_what_minutes_say(metered: World, seed: int) -> None:
    """Thirty hours of random use, with restarts, crashes and refused commits."""
    rng = random.Random(seed)
    metered.create("q", visibility_ms=10 * MINUTE)
    asked = [QUEUE_METRICS[name] for name in ("sent", "sent_bytes", "visible", "in_flight", "oldest_age")]
    while metered.clock.wall_ms() < (HOUR_START_S + 30 * 3600) * SECOND:
        for _ in range(rng.choice([0, 0, 1, 40])):
            if rng.random() < 0.5:
                metered.send_all("q", *["x"] * rng.randrange(1, 5), size=rng.choice([10, 200, 3000]))
            received = metered.receive("q", rng.randrange(1, 10))
            if rng.random() < 0.7:
                metered.delete("q", *received)
            metered.advance(rng.choice([SECOND, 20 * SECOND, 70 * SECOND]))
        match rng.randrange(6):
            case 0:
                metered.restart()
            case 1:
                metered.crash()
            case 2:
                metered.refuse_next_commit()
        metered.advance(rng.choice([MINUTE, 17 * MINUTE, 2 * HOUR]))
        metered.store.refusals.clear()
    now_s = metered.clock.wall_ms() // SECOND
    for metric in asked:
        minutes = points(metered, "q", metric.name, 60, HOUR_START_S - 86_400, now_s + 60)
        assert len(minutes) > 20
        for period_s, start_s, end_s in ASKED_HOURS:
            times = HOUR_START_S + start_s, HOUR_START_S + end_s
            expected = finished(merged_points(minutes, *times, period_s))
            found = points(metered, "q", metric.name, period_s, *times)
            assert [(at_s, *numbers(bucket)) for at_s, bucket in found] == [
                (at_s, *map(pytest.approx, numbers(bucket))) for at_s, bucket in expected
            ], (metric.name, period_s, start_s)
            for (_, bucket), (_, other) in zip(found, expected, strict=True):
                assert bucket.has_distribution == other.has_distribution
                for share in (0.5, 0.9):
                    assert percentile(bucket, share) == pytest.approx(percentile(other, share), rel=0.03)


def percentile(bucket: Bucket, share: float) -> float:
    passed = 0.0
    for value, count in bucket.distribution():
        passed += count
        if passed >= share * bucket.count - 1e-6:
            return value
    return bucket.max


def test_a_read_in_hours_unpacks_few_minutes(metered: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("q", "other"):
        metered.create(name)
    for _ in range(26 * 2):
        use(metered, 1)
        metered.send("other", "x")
        metered.advance(29 * MINUTE)
    unpacked: list[int] = []
    unpack = QUEUE_CHUNKS.unpack

    def counted(packed: bytes) -> list[TimedQueueRow]:
        rows = unpack(packed)
        unpacked.append(len(rows))
        return rows

    monkeypatch.setattr(QUEUE_CHUNKS, "unpack", counted)
    metering, now_s = metered.broker.partition(0).metering, metered.clock.wall_ms() // SECOND
    assert metering is not None
    day_s = now_s // 60 * 60 - 86_400
    (day,) = points(metered, "q", "sent", 86_400, day_s, day_s + 86_400)
    assert day[1].sum == 48
    assert len(unpacked) <= 10, "the hours in which the period begins and ends"
    unpacked.clear()
    assert len(points(metered, "q", "sent", 3600, HOUR_START_S + 7200, now_s)) >= 24
    assert len(unpacked) <= 5, "the hour that has not ended"
    reads: list[set[str]] = []
    log = metered.store.log

    def noted(kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        reads[-1].add(key)
        return log(kind, key, after, rows_max)

    read = metered.runtime.read

    def apart(job: Callable[[], Any]) -> Promise[Any]:
        def one() -> Any:
            reads.append(set())
            return job()

        return read(one)

    monkeypatch.setattr(metered.store, "log", noted)
    monkeypatch.setattr(metered.runtime, "read", apart)
    both = [(metered.queue(name), QUEUE_METRICS["sent"]) for name in ("q", "other")]
    assert all(metered.do(metering.points(both, START_S, now_s, 60)))
    assert max(map(len, reads)) == 1, "the rows of one queue at a time"


@pytest.mark.parametrize("is_swept", [False, True], ids=["minutes are there", "minutes are removed"])
def test_nothing_is_counted_twice_where_hours_begin(metered: World, is_swept: bool) -> None:
    metered.create("q")
    use(metered, 200)
    metered.advance(65 * MINUTE)
    end_s = metered.clock.wall_ms() // SECOND // 3600 * 3600
    before = sums(metered, "q", "sent", period_s=3600, start_s=HOUR_START_S, end_s=end_s)
    assert sum(before.values()) == sum(minute % 7 + 1 for minute in range(200))
    metered.clock.advance(15 * DAY - 5 * HOUR)
    for _ in range(14):
        if is_swept:
            metered.broker.partition(0).metering._log.sweep([metered.queue("q").id])  # type: ignore[union-attr]
        metered.advance(SECOND)
        assert sums(metered, "q", "sent", period_s=3600, start_s=HOUR_START_S, end_s=end_s) == before
        days = points(metered, "q", "sent", 86_400, DAY_START_S, DAY_START_S + 2 * 86_400)
        assert sum(bucket.sum for _, bucket in days) == sum(before.values())
        metered.clock.advance(27 * MINUTE)


def test_a_queue_of_an_earlier_release_has_no_hours(metered: World) -> None:
    """Its minutes are shown as long as they are kept."""
    metered.create("q")
    use(metered, 130)
    metered.restart()  # stores what was gathered
    end_s = metered.clock.wall_ms() // SECOND
    use(metered, 65)  # stores the minute of the stop
    before = sums(metered, "q", "sent", period_s=3600, start_s=HOUR_START_S, end_s=end_s)
    metered.shard.changes.truncated["metrics-hours", str(metered.queue("q").id)] = LAST
    metered.clock.advance(14 * DAY)
    metered.advance(MINUTE)
    assert sums(metered, "q", "sent", period_s=3600, start_s=HOUR_START_S, end_s=end_s) == before
    metered.clock.advance(2 * DAY)
    use(metered, 65)
    assert sums(metered, "q", "sent", period_s=3600, start_s=HOUR_START_S, end_s=end_s) == {}


@pytest.mark.slow
def test_stored_metrics_are_bounded_and_the_oldest_go_first() -> None:
    limits = msgspec.structs.replace(ROOMY, metrics_bytes_max=30_000)
    with World(limits) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        for n in range(5):
            world.create(f"q{n}")
        rng = random.Random(1)
        for _ in range(16 * 60):
            for n in range(5):
                world.send_all(f"q{n}", *["x"] * rng.randrange(1, 10), size=rng.randrange(1000))
            world.advance(MINUTE)
        assert 10_000 < stored_bytes(world, 5) < 35_000
        (at_s, _), *_ = points(world, "q3", "sent")
        assert at_s > START_S + 8 * 3600


def stored_bytes(world: World, queues: int) -> int:
    ids = [world.queue(f"q{n}").id for n in range(queues)]
    return sum(len(row.data) for id in ids for row in world.store.log("metrics", str(id), -1, 10_000))


def test_a_queue_that_was_deleted_and_made_again_begins_fresh(metered: World) -> None:
    metered.create("q")
    use(metered, 70)
    id = metered.queue("q").id
    for kind in ("metrics", "metrics-hours"):
        assert metered.store.log(kind, str(id), -1, 10) != []
    metered.drop("q")
    metered.advance(61 * SECOND)
    for kind in ("metrics", "metrics-hours"):
        assert metered.store.log(kind, str(id), -1, 10) == []
    metered.create("q")
    assert sum(sums(metered, "q", "sent").values()) == 0


def test_metrics_can_be_switched_off() -> None:
    with World(msgspec.structs.replace(ROOMY, metrics_bytes_max=0)) as world:
        world.create("q")
        world.send("q", "x")
        world.store.appended.clear()
        world.advance(10 * MINUTE)
        assert world.store.appended == []
        assert world.broker.partition(0).metering is None
        assert world.queue("q").metrics.sent == 1


def test_seconds_are_kept_for_three_hours_within_their_memory(metered: World) -> None:
    metered.create("q")
    metered.create("other")
    for _ in range(4 * 60):
        metered.send("q", "x")
        metered.advance(MINUTE)
    found = points(metered, "q", "sent", period_s=1)
    now_s = metered.clock.wall_ms() // SECOND
    assert now_s - 3.6 * 3600 <= found[0][0] <= now_s - 3 * 3600
    assert len(found) == now_s - found[0][0] + 1


@pytest.mark.slow
def test_seconds_of_many_queues_are_bounded() -> None:
    limits = msgspec.structs.replace(ROOMY, metrics_seconds_bytes=110_000, metrics_seconds_queues=3)
    with World(limits) as world:
        world.clock.advance(START_MS - world.clock.now_ms())
        for n in range(5):
            world.create(f"q{n}")
        for second in range(900):
            for n in range(5):
                world.send_all(f"q{n}", *["x"] * (second % 3 + 1))
            world.advance(SECOND)
        end_s = world.clock.wall_ms() // SECOND

        def changes(n: int, start_s: int) -> int:
            found = points(world, f"q{n}", "visible", period_s=1, start_s=start_s, end_s=start_s + 50)
            return len({bucket.max for _, bucket in found})

        assert [changes(n, end_s - 50) > 10 for n in range(5)] == [True] * 5
        assert [changes(n, START_S + 60) > 10 for n in range(5)] == [False] * 5
        assert sum(sums(world, "q4", "sent").values()) == 1800


def test_a_wall_clock_that_is_set_back_loses_nothing(metered: World) -> None:
    metered.create("q")
    use(metered, 10)
    metered.clock.wall_offset_ms = -5 * MINUTE
    use(metered, 10)
    found = points(metered, "q", "sent")
    assert sum(bucket.sum for _, bucket in found) == 2 * sum(minute % 7 + 1 for minute in range(10))
    assert len(found) <= 17


def test_metrics_of_several_shards() -> None:
    with ShardsWorld() as world:
        for n in range(8):
            world.create(f"q{n}")
            world.send_all(f"q{n}", *["x"] * (n + 1))
        world.advance(2 * MINUTE)
        for n in range(8):
            found = points(world, f"q{n}", "sent", start_s=world.clock.wall_ms() // SECOND - 300)
            assert sum(bucket.sum for _, bucket in found) == n + 1


def test_a_shard_that_moves_keeps_its_metrics() -> None:
    with ShardsWorld() as world:
        start_s = world.clock.wall_ms() // SECOND
        world.create("q")
        index = world.queue("q").shard.index
        for minute in range(5):
            world.send_all("q", *["x"] * (minute + 1))
            world.advance(MINUTE)
        world.send("q", "x")
        world.reopen(index)
        world.run()
        world.send("q", "x")
        found = points(world, "q", "sent", start_s=start_s - 60)
        assert sum(bucket.sum for _, bucket in found) == 1 + 2 + 3 + 4 + 5 + 2


def test_metrics_do_not_disturb_a_store_that_refuses(metered: World) -> None:
    metered.create("q")
    metered.store.full = True
    with pytest.raises(StoreError):
        metered.send("q", "x")
    appended = len(metered.store.appended)
    metered.advance(5 * MINUTE)
    assert len(metered.store.appended) == appended
    metered.store.full = False
    metered.advance(5 * MINUTE)
    assert sum(sums(metered, "q", "sent").values()) == 0
    metered.crash()
    assert len(sums(metered, "q", "sent")) >= 9


def test_seconds_of_a_shard_that_is_given_back_take_no_memory() -> None:
    with ShardsWorld() as world:
        name = world.name("q", 1)
        world.create(name)
        for _ in range(5):
            world.send(name, "x")
            world.advance(MINUTE)
        budget = world.broker.partition(1).metering._memory._budget  # type: ignore[union-attr]
        assert budget.used > 0
        world.close_shard(1)
        world.run()
        assert budget.used == 0
