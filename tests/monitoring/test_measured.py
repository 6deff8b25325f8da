"""What services measure: counted in any shard, read together, lost by a crash only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitoring.alarms import put_alarm, state
from monitoring.world import REGION, SPACE, MonitoringWorld
from penstock.broker.shard import Commit
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.monitoring.limits import MonitoringLimits
from penstock.monitoring.measured import MEASURED_KINDS, MeasuredMetrics, ServiceNamespace
from penstock.monitoring.reading import ShardMetrics
from penstock.names import Home, Space
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from support.generated import examples
from support.world import FaultyStore

SHARDS = 3
TOPICS = ServiceNamespace("Example/Topics", {"Published": "Count", "Size": "Bytes"})
NEWS = (("TopicName", "news"),)
ANY = RecordKind("any", str, by_home)


@pytest.fixture
def world() -> Iterator[MonitoringWorld]:
    with topics() as made:
        made.after_look()
        yield made


def topics(**more: Any) -> MonitoringWorld:
    return MonitoringWorld(SHARDS, namespaces=(TOPICS,), **more)


def measured(world: MonitoringWorld, shard: int) -> MeasuredMetrics:
    return world.broker.partition(shard).part(ShardMetrics).measured


def add(
    world: MonitoringWorld, shard: int, name: str = "Published", *more: float, space: Space = SPACE
) -> None:
    measured(world, shard).add(space, TOPICS, name, NEWS, *more)


def statistics(world: MonitoringWorld, name: str = "Published", **more: Any) -> dict[str, Any]:
    """Returns the statistics of the last hours, in one period."""
    asked = {"Statistics": ["Sum", "SampleCount", "Minimum", "Maximum"], "Period": 86_400, **more}
    found = world.client().get_metric_statistics(
        Namespace=TOPICS.name, MetricName=name, Dimensions=[{"Name": "TopicName", "Value": "news"}],
        StartTime=world.now - timedelta(hours=12), EndTime=world.now + timedelta(minutes=1), **asked,
    )["Datapoints"]  # fmt: skip
    assert len(found) <= 1
    return dict(found[0]) if found else {}


def total(world: MonitoringWorld) -> float:
    return float(statistics(world).get("Sum", 0))


def listed(world: MonitoringWorld, cw: Any = None) -> list[tuple[str, str]]:
    found = (cw or world.client()).list_metrics(Namespace=TOPICS.name)["Metrics"]
    return [(metric["MetricName"], metric["Dimensions"][0]["Value"]) for metric in found]


def test_values_of_all_shards_add_up_and_are_read_at_once(world: MonitoringWorld) -> None:
    for shard, size in enumerate((10.0, 20.0, 60.0)):
        add(world, shard, "Size", size)
        add(world, shard, "Published", 1, 5)
    found = statistics(world, "Size", ExtendedStatistics=["p50"])
    assert (found["Sum"], found["SampleCount"], found["Minimum"], found["Maximum"]) == (90, 3, 10, 60)
    assert found["Unit"] == "Bytes" and found["ExtendedStatistics"]["p50"] == pytest.approx(20, rel=0.02)
    assert total(world) == 15
    assert listed(world) == [("Published", "news"), ("Size", "news")]
    assert {metric["Namespace"] for metric in world.client().list_metrics()["Metrics"]} == {TOPICS.name}


def test_a_metric_costs_no_commit_until_its_minute_ends(world: MonitoringWorld) -> None:
    before = world.stores[0].end().number
    for _ in range(100):
        add(world, 0)
    world.run()
    assert world.stores[0].end().number == before
    world.advance(MINUTE + SECOND)
    assert world.stores[0].end().number == before + 1
    world.advance(5 * MINUTE)
    assert world.stores[0].end().number == before + 1, "what is not measured costs nothing"


def test_a_crash_loses_the_minute_that_has_not_ended(world: MonitoringWorld) -> None:
    add(world, 0)
    add(world, 1)
    world.advance(MINUTE + SECOND)
    add(world, 0)
    assert total(world) == 3
    world.crash()
    assert total(world) == 2


def test_minutes_are_apart(world: MonitoringWorld) -> None:
    for _ in range(3):
        add(world, 0)
        add(world, 1)
        world.advance(MINUTE)
    asked = {
        "Namespace": TOPICS.name, "MetricName": "Published", "Period": 60, "Statistics": ["Sum"],
        "Dimensions": [{"Name": "TopicName", "Value": "news"}],
    }  # fmt: skip
    found = world.client().get_metric_statistics(
        StartTime=world.now - timedelta(hours=1), EndTime=world.now, **asked
    )["Datapoints"]
    assert [point["Sum"] for point in found] == [2, 2, 2]


def test_a_stop_and_a_move_of_a_shard_lose_nothing(world: MonitoringWorld) -> None:
    add(world, 0)
    add(world, 1)
    world.reopen(0)
    assert total(world) == 2
    add(world, 0)
    world.restart()
    assert total(world) == 3


def test_what_the_last_commit_brings_is_stored_by_one_more(world: MonitoringWorld) -> None:
    """Such as messages that are counted as published when they are durable."""
    ends: list[Callable[[], None]] = [lambda: world.reopen(0), world.restart]
    for end in ends:
        partition, metrics = world.broker.partition(0), measured(world, 0)
        partition.shard.table(ANY).put(f"{0:016x}/any", "any")
        partition.shard.open_commit.when_durable.append(partial(count_commit, metrics))
        end()
    assert total(world) == 2


def count_commit(metrics: MeasuredMetrics, commit: Commit) -> None:
    metrics.add(SPACE, TOPICS, "Published", NEWS)


def test_a_refused_minute_is_stored_with_the_next_one(world: MonitoringWorld) -> None:
    add(world, SHARDS - 1)
    world.refuse_next_commit()
    world.advance(MINUTE + SECOND)
    assert total(world) == 1
    world.advance(2 * MINUTE)
    assert total(world) == 1
    world.crash()
    assert total(world) == 1


def test_chunks_replace_what_was_stored_by_the_minute(world: MonitoringWorld) -> None:
    for _ in range(5):
        add(world, 0)
        world.advance(MINUTE)
    store = measured(world, 0).store
    assert len(store._sent) == 5
    world.advance(11 * MINUTE)
    assert len(store._sent) == 0
    world.crash()
    assert total(world) == 5


def test_an_alarm_watches_a_metric_of_several_shards(world: MonitoringWorld) -> None:
    cw = world.client()
    put_alarm(cw, Namespace=TOPICS.name, MetricName="Published", Threshold=2,
              Dimensions=[{"Name": "TopicName", "Value": "news"}])  # fmt: skip
    for _ in range(2):
        for shard in range(SHARDS):
            add(world, shard)
        world.advance(MINUTE)
    assert state(cw) == "ALARM"


def test_an_account_has_so_many_metrics_and_displaces_no_other() -> None:
    with topics(limits=MonitoringLimits(metrics_max=2)) as world:
        metrics = measured(world, 0)
        for number in range(5):
            metrics.add(SPACE, TOPICS, "Published", (("TopicName", f"t{number}"),))
        assert listed(world) == [("Published", "t0"), ("Published", "t1")]
        add(world, 0, space=Space("111111111111", REGION))
        assert listed(world, world.client(account="111111111111")) == [("Published", "news")]
        world.client().put_metric_data(Namespace="App", MetricData=[{"MetricName": "m", "Value": 1}])


def test_an_account_with_too_many_values_harms_no_other() -> None:
    with topics(limits=MonitoringLimits(metrics_bytes_max=100_000)) as world:
        other = Space("111111111111", REGION)
        add(world, 0, space=other)
        for number in range(500):
            measured(world, 0).add(SPACE, TOPICS, "Published", (("TopicName", f"t{number}"),))
        assert world.monitoring.budget.used < 2 * world.monitoring.budget.bytes_max
        world.advance(MINUTE)
        add(world, 0, space=other)
        world.advance(HOUR)
        assert listed(world, world.client(account=other.account)) == [("Published", "news")]


@pytest.mark.parametrize("targets", [1, 2, 5])
def test_parts_of_a_metric_add_up_after_a_migration(world: MonitoringWorld, targets: int) -> None:
    for shard in range(SHARDS):
        add(world, shard)
    world.advance(12 * MINUTE)  # in chunks
    for shard in range(SHARDS):
        add(world, shard, "Published", 1, 10)
    world.advance(2 * MINUTE)  # as the minute brought it
    migrate(world, targets)
    assert total(world) == 33
    for shard in range(targets):
        add(world, shard)
    world.advance(12 * MINUTE)
    assert total(world) == 33 + targets
    world.crash()
    assert total(world) == 33 + targets, "parts are stored once, under the key of their shard"
    for shard in range(targets):
        store = measured(world, shard).store
        assert all(not metric.foreign for metric in store) and len(list(store._records)) <= 1


def migrate(world: MonitoringWorld, targets: int) -> None:
    """The records move to new stores, as ``penstock migrate`` moves them."""
    for store in world.stores.values():
        store.close()
    opened = [FaultyStore(world._shard_directory(index)) for index in range(world.shards)]
    mapping = ShardMapping([OpenShard(store, store.open()) for store in opened], targets)
    moved = [each for source in range(world.shards) for each in mapping.records(source)]
    for store in opened:
        store.close()
    names = {kind.name for kind in MEASURED_KINDS.all}
    moved = [(target, record) for target, record in moved if record.kind in names]
    assert len({(record.kind, record.key) for _, record in moved}) == len(moved)
    assert all(target == Home.of_key(record.key).shard(targets) for target, record in moved)
    world._directory /= "migrated"
    world.shards = targets
    world._open()
    world.run()
    for target, record in moved:
        changes = world.broker.partition(target).shard.changes
        changes.records[record.kind, record.key] = record.data
    for partition in world.broker.partitions:
        partition.shard.settled()
    world.run()
    world.crash()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, SHARDS - 1)),
        st.tuples(st.just("refused"), st.just(0)),
        st.tuples(st.just("pass"), st.sampled_from([SECOND, MINUTE, 11 * MINUTE, HOUR])),
        st.tuples(st.just("move"), st.integers(0, SHARDS - 1)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=examples(60))
@given(STEPS)
def test_the_sum_is_that_of_what_was_measured(steps: list[tuple[str, int]]) -> None:
    with topics() as world:
        expected = 0
        for step, number in steps:
            match step:
                case "add":
                    add(world, number)
                    expected += 1
                case "refused":
                    world.refuse_next_commit()
                    world.advance(2 * MINUTE)
                    world.store.refusals.clear()
                case "pass":
                    world.advance(number)
                case "move":
                    world.reopen(number)
                case "restart":
                    world.restart()
                case "crash":
                    world.advance(3 * MINUTE)
                    world.crash()
            assert total(world) == expected, step
