"""Metrics that clients send: nothing acknowledged is lost or counted twice, and memory stays bounded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from monitoring.world import SPACE, MonitoringWorld
from penstock.errors import StoreAway, StoreError, StoreUnknown
from penstock.limits import DAY, HOUR, MINUTE, SECOND
from penstock.metrics.buckets import Bucket
from penstock.metrics.series import BUCKET_CHUNKS, MetricKey
from penstock.monitoring.limits import MonitoringLimits
from penstock.monitoring.metric_store import Datum, MetricStore, SentData
from penstock.store.changes import Changes
from penstock.store.port import JournalEnd, Mark
from penstock.turns import finished
from support.generated import examples

NAMESPACE = "App"


def put(cw: Any, value: float = 1.0, name: str = "Sales", **more: Any) -> None:
    cw.put_metric_data(Namespace=NAMESPACE, MetricData=[{"MetricName": name, "Value": value, **more}])


def total(world: MonitoringWorld, cw: Any, name: str = "Sales", **more: Any) -> float:
    """Returns the sum of everything within two weeks."""
    found = cw.get_metric_statistics(
        Namespace=NAMESPACE, MetricName=name, Statistics=["Sum"], Period=3600,
        StartTime=world.now - timedelta(days=16), EndTime=world.now + timedelta(hours=3), **more,
    )["Datapoints"]  # fmt: skip
    return float(sum(point["Sum"] for point in found))


def metrics(world: MonitoringWorld) -> MetricStore:
    return world.monitoring.of_metrics(SPACE, NAMESPACE).metrics


def waiting(world: MonitoringWorld) -> int:
    """How many requests are stored as they were sent."""
    return len(metrics(world)._sent)


def test_what_was_acknowledged_outlives_a_crash_at_once(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 3)
    world.crash()
    assert total(world, cw) == 3


def test_chunks_replace_what_was_sent(world: MonitoringWorld, cw: Any) -> None:
    for _ in range(5):
        put(cw, 2)
    assert waiting(world) == 5
    world.advance(11 * MINUTE)
    assert waiting(world) == 0
    assert total(world, cw) == 10
    put(cw, 1)
    world.crash()
    assert total(world, cw) == 11, "neither lost nor counted twice"


def test_chunks_of_an_earlier_release_are_read(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 2)
    world.advance(11 * MINUTE)
    make_former(metrics(world))
    put(cw, 3)
    world.crash()
    assert total(world, cw) == 5
    world.advance(11 * MINUTE)
    assert not len(metrics(world)._records._tables[1]) and not len(metrics(world)._chunks._tables[1])
    world.crash()
    assert total(world, cw) == 5


def make_former(custom: MetricStore) -> None:
    """What is stored gets the names and the form that the release before had."""
    records, chunks = custom._records, custom._chunks
    for key, record in list(records):
        records.remove(key)
        records._tables[1].put(key, record)
    for key, packed in list(chunks):
        ((at_s, _, bucket),) = BUCKET_CHUNKS.unpack(packed)
        chunks.remove(key)
        chunks._tables[1].put(key, msgspec.msgpack.encode([[at_s, bucket.count, bucket.min]]))


def test_chunks_of_both_forms_are_merged(world: MonitoringWorld, cw: Any) -> None:
    """A node of the release before has stored values of the same time, and did not see those that are there."""
    put(cw, 2)
    world.advance(11 * MINUTE)
    custom = metrics(world)
    for key, packed in list(custom._chunks):
        custom._chunks._tables[1].put(key, packed)
    for key, record in list(custom._records):
        custom._records._tables[1].put(key, record)
    put(cw, 3)
    for _ in range(2):
        world.crash()
        assert total(world, cw) == 7
    world.advance(11 * MINUTE)
    world.crash()
    assert total(world, cw) == 7
    world.clock.ms += 470 * DAY
    put(cw, name="Other")
    world.advance(11 * MINUTE)
    assert [record.key.name for _, record in metrics(world)._records] == ["Other"]


def test_a_damaged_chunk_does_not_keep_a_shard_from_opening(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 2)
    put(cw, 4, name="Other")
    world.advance(11 * MINUTE)
    custom = metrics(world)
    damaged = custom.get(SPACE, MetricKey(NAMESPACE, "Sales"))
    assert damaged is not None
    for key, _ in list(custom._chunks):
        if key.startswith(damaged.record_key):
            custom._chunks.put(key, b"damaged")
    put(cw, 3)
    world.crash()
    assert total(world, cw) == 3
    assert total(world, cw, name="Other") == 4


def test_a_refused_commit_counts_nothing(world: MonitoringWorld, cw: Any) -> None:
    world.refuse_next_commit()
    with pytest.raises(ClientError) as refused:
        put(cw)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert total(world, cw) == 0
    put(cw, 2)
    world.crash()
    assert total(world, cw) == 2


def test_a_refused_commit_sums_what_was_sent_once(
    world: MonitoringWorld, cw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        put(cw)
    store = metrics(world)
    ((_, sent), *_) = store._sent
    costs = 0

    def counted(data: SentData) -> int:
        nonlocal costs
        costs += 1
        return 100

    monkeypatch.setattr(SentData, "cost", property(counted))
    for _ in range(30):
        store.keep(sent)
    costs = 0
    world.refuse_next_commit()
    settled = store._shard.settled()
    world.run()
    with pytest.raises(StoreError):
        settled.result()
    put(cw)
    assert costs == 1 + 21, "the new one, and each once"


def test_chunks_that_could_not_be_stored_are_stored_later(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 5)
    world.refuse_next_commit()
    world.advance(11 * MINUTE)
    assert waiting(world) == 1
    assert total(world, cw) == 5
    put(cw, 1)
    world.advance(11 * MINUTE)
    assert waiting(world) == 0
    world.crash()
    assert total(world, cw) == 6


@pytest.mark.parametrize("is_made", [False, True])
def test_a_commit_of_unknown_outcome_counts_nothing_twice(
    world: MonitoringWorld, cw: Any, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    """The store is away while chunks are stored, for longer than requests wait for the outcome."""
    put(cw, 5)
    store = world.stores[0]
    append, end = store.append, store.end

    def lost(changes: Changes, mark: Mark) -> Any:
        if is_made:
            append(changes, mark)
        raise StoreUnknown("the connection was lost")

    def away() -> JournalEnd:
        raise StoreAway("the store is away")

    monkeypatch.setattr(store, "append", lost)
    monkeypatch.setattr(store, "end", away)
    storing = world.start(metrics(world).store())
    world.advance(8 * SECOND)
    assert storing.done, "it is given up before the outcome is known"
    assert total(world, cw) == 5
    monkeypatch.setattr(store, "append", append)
    monkeypatch.setattr(store, "end", end)
    world.advance(2 * SECOND)
    assert waiting(world) == (0 if is_made else 1)
    assert total(world, cw) == 5
    put(cw, 1)
    world.advance(11 * MINUTE)
    assert waiting(world) == 0
    assert total(world, cw) == 6
    world.crash()
    assert total(world, cw) == 6


def test_values_that_come_while_chunks_are_made_ready_join_afterwards(
    world: MonitoringWorld, cw: Any
) -> None:
    for number in range(250):  # several turns of the loop
        put(cw, 1, name=f"m{number}")
    world.hold_commits()
    storing = world.start(metrics(world).store())
    world.run()
    assert not storing.done
    held = world.start(metrics(world).put(SPACE, NAMESPACE, []))
    world.release_commits()
    assert storing.done and held.done
    world.crash()
    assert sum(total(world, cw, f"m{number}") for number in range(0, 250, 50)) == 5


def test_units_are_kept_apart(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 1, Unit="Seconds")
    put(cw, 1000, Unit="Milliseconds")
    world.advance(11 * MINUTE)
    world.crash()
    assert total(world, cw, Unit="Seconds") == 1
    assert total(world, cw, Unit="Milliseconds") == 1000
    assert total(world, cw, Unit="Bytes/Second") == 0
    put(cw, 5, Unit="Bytes/Second")
    world.advance(11 * MINUTE)
    world.crash()
    assert total(world, cw, Unit="Bytes/Second") == 5


def test_values_come_late(world: MonitoringWorld, cw: Any) -> None:
    put(cw, 1)
    put(cw, 2, Timestamp=world.now - timedelta(days=13))
    world.advance(11 * MINUTE)
    put(cw, 4, Timestamp=world.now - timedelta(days=13))
    world.crash()
    assert total(world, cw) == 7


@pytest.mark.slow
def test_seconds_are_kept_for_three_hours_and_minutes_for_fifteen_days(
    world: MonitoringWorld, cw: Any
) -> None:
    put(cw, 1, StorageResolution=1)
    at = world.now

    def points(period: int) -> int:
        found = cw.get_metric_statistics(
            Namespace=NAMESPACE, MetricName="Sales", Statistics=["Sum"], Period=period,
            StartTime=at - timedelta(seconds=period), EndTime=at + timedelta(seconds=2 * period),
        )  # fmt: skip
        return len(found["Datapoints"])

    assert (points(1), points(60), points(300)) == (1, 1, 1)
    world.advance(4 * HOUR)
    assert (points(1), points(60), points(300)) == (0, 1, 1)
    for _ in range(16):
        world.advance(DAY)
    assert (points(300), points(3600)) == (1, 1)
    world.restart()
    assert (points(300), points(3600)) == (1, 1)


def test_a_metric_vanishes_from_lists_after_two_weeks_and_from_the_store_after_455_days(
    world: MonitoringWorld, cw: Any
) -> None:
    put(cw)
    assert len(cw.list_metrics()["Metrics"]) == 1
    world.clock.ms += 15 * DAY
    assert cw.list_metrics()["Metrics"] == []
    world.clock.ms += 470 * DAY
    put(cw, name="Other")
    world.advance(11 * MINUTE)
    assert [metric.key.name for metric in metrics(world)] == ["Other"]
    world.crash()
    assert [metric.key.name for metric in metrics(world)] == ["Other"]


def test_an_account_has_so_many_metrics_and_no_more() -> None:
    with MonitoringWorld(limits=MonitoringLimits(metrics_max=3)) as world:
        cw = world.client()
        for number in range(3):
            put(cw, name=f"m{number}")
        put(cw, name="m0")
        with pytest.raises(ClientError) as refused:
            put(cw, name="m3")
        assert refused.value.response["Error"]["Code"] == "LimitExceeded"
        put(world.client(account="111111111111"), name="m0")


@pytest.mark.slow
def test_memory_is_bounded_and_the_oldest_values_go_first() -> None:
    with MonitoringWorld(limits=MonitoringLimits(metrics_bytes_max=300_000)) as world:
        cw = world.client()
        budget = world.monitoring.budget
        refused = 0
        for minute in range(400):
            try:
                cw.put_metric_data(
                    Namespace=NAMESPACE,
                    MetricData=[{"MetricName": f"m{n}", "Values": [1 + n, 2 + minute]} for n in range(20)],
                )
            except ClientError as error:
                assert error.response["Error"]["Code"] == "LimitExceeded"
                refused += 1
            world.advance(10 * MINUTE)
            assert budget.used < 2 * budget.bytes_max
        assert refused < 40
        found = cw.get_metric_statistics(
            Namespace=NAMESPACE, MetricName="m1", Statistics=["Sum"], Period=60,
            StartTime=world.now - timedelta(minutes=30), EndTime=world.now,
        )  # fmt: skip
        assert found["Datapoints"], "the newest values are there"
        world.crash()
        assert world.monitoring.budget.used < 2 * budget.bytes_max


def test_an_account_that_sends_too_much_harms_no_other() -> None:
    with MonitoringWorld(limits=MonitoringLimits(metrics_bytes_max=300_000)) as world:
        modest, greedy = world.client(account="111111111111"), world.client(account="222222222222")
        put(modest, name="mine")
        world.advance(11 * MINUTE)  # stored: it can be forgotten from now on
        began = world.now - timedelta(minutes=12)
        refused = 0
        for minute in range(200):
            try:
                greedy.put_metric_data(
                    Namespace=NAMESPACE,
                    MetricData=[{"MetricName": f"m{n}", "Values": [1 + n, 2 + minute]} for n in range(20)],
                )
            except ClientError:
                refused += 1
            world.advance(MINUTE)
        assert refused, "the account has used its share"
        put(modest, name="another")
        found = modest.get_metric_statistics(
            Namespace=NAMESPACE, MetricName="mine", Statistics=["Sum"], Period=60,
            StartTime=began, EndTime=world.now,
        )  # fmt: skip
        assert found["Datapoints"], "values of others are older, and stay"


def test_memory_is_made_free_with_a_pause_after_each_metric(world: MonitoringWorld, cw: Any) -> None:
    for hours in (20, 0):
        data = [
            {"MetricName": f"m{n}", "Value": 1, "Timestamp": world.now - timedelta(hours=hours)}
            for n in range(40)
        ]
        cw.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        world.advance(11 * MINUTE)
    store, budget = metrics(world), world.monitoring.budget
    budget.bytes_max = budget.used - 1
    assert sum(1 for _ in store._relief()) >= 3 * 40
    assert budget.used <= budget.bytes_max
    world.run()
    minutes = {"Period": 60, "StartTime": world.now - timedelta(hours=24), "EndTime": world.now}
    asked = {"Namespace": NAMESPACE, "Statistics": ["Sum"], **minutes}
    found = [cw.get_metric_statistics(MetricName=f"m{n}", **asked)["Datapoints"] for n in range(40)]
    assert all(len(points) >= 1 for points in found), "what is new stays"
    assert any(len(points) == 1 for points in found), "what is old goes"


def test_memory_that_a_shard_used_is_given_back_with_it() -> None:
    with MonitoringWorld(shards=2) as world:
        cw = world.client()
        for number in range(10):
            cw.put_metric_data(Namespace=f"n{number}", MetricData=[{"MetricName": "m", "Value": 1}])
        before = world.monitoring.budget.used
        assert before > 0
        for index in (0, 1):
            world.reopen(index)
        assert world.monitoring.budget.used <= before
        assert len(cw.list_metrics()["Metrics"]) == 10


def full(world: MonitoringWorld, minutes: int, days_ago: int = 0) -> SentData:
    """Values of some minutes, a thousand different ones in each."""
    at_s = world.clock.wall_ms() // SECOND // 7200 * 7200 - days_ago * 86_400
    data: list[Datum] = []
    for minute in range(minutes):
        values = [(1.021**place + 1, float(minute + place * 7919 % 997 + 1)) for place in range(951)]
        data.append(Datum("Sales", (), "None", at_s + 60.0 * minute, Bucket.of_all(values)))
    return SentData(SPACE, NAMESPACE, tuple(data))


def test_values_that_alternate_between_days_join_in_small_steps(world: MonitoringWorld, cw: Any) -> None:
    """Each of them opens other chunks, which are full."""
    store = metrics(world)
    for days_ago in (6, 0):
        finished(store._join("any", full(world, 20, days_ago)))
    series = store.metric(SPACE, MetricKey(NAMESPACE, "Sales")).of_unit("None")
    steps = sum(1 for _ in store._join("one", full(world, 1, 6)))
    assert steps >= 20 + 20, "to pack minutes, and to unpack others"
    assert sum(1 for _ in store._gathered()) >= 20, "to pack the open chunk"
    expected = 2 * counted(full(world, 20)) + counted(full(world, 1))
    assert sum(bucket.count for _, bucket in finished(series.read(0, 2**33, 3600))) == expected


def counted(sent: SentData) -> float:
    return sum(datum.bucket.count for datum in sent.data)


def test_a_metric_that_is_forgotten_while_values_join_it_has_these(world: MonitoringWorld, cw: Any) -> None:
    store, budget = metrics(world), world.monitoring.budget
    for steps in range(0, 90, 7):
        finished(store._join("any", full(world, 20)))
        for series in store.metric(SPACE, MetricKey(NAMESPACE, "Sales")).series.values():
            series.changed.clear()  # stored
        joining = store._join("later", full(world, 1, 6))
        for _ in range(steps):
            next(joining, None)
        bytes_max, budget.bytes_max = budget.bytes_max, 1
        finished(store._relief())
        budget.bytes_max = bytes_max
        finished(joining)
        found = store.get(SPACE, MetricKey(NAMESPACE, "Sales"))
        assert found is not None
        ((_, bucket),) = finished(found.read("None", 0, 2**33, 3600))
        assert bucket.count == counted(full(world, 1)), steps
        store._drop_chunks(found, 2**33)
        for series in found.series.values():
            series.changed.clear()
        store._drop_chunks(found, 2**33)
        assert store.get(SPACE, found.key) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 9)),
        st.tuples(st.just("refused"), st.integers(1, 9)),
        st.tuples(st.just("pass"), st.sampled_from([MINUTE, 11 * MINUTE, HOUR])),
        st.tuples(st.just("storing refused"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=20,
)


@settings(deadline=None, max_examples=examples(60))
@given(STEPS)
def test_the_sum_is_that_of_what_was_acknowledged(steps: list[tuple[str, int]]) -> None:
    with MonitoringWorld() as world:
        cw = world.client()
        expected = 0
        for step, number in steps:
            match step:
                case "put":
                    put(cw, number)
                    expected += number
                case "refused":
                    world.refuse_next_commit()
                    with pytest.raises(ClientError):
                        put(cw, number)
                case "pass":
                    world.advance(number)
                case "storing refused":
                    world.refuse_next_commit()
                    world.advance(11 * MINUTE)
                    world.stores[0].refusals.clear()
                case "crash":
                    world.crash()
                case "restart":
                    world.restart()
            assert total(world, cw) == expected, step
