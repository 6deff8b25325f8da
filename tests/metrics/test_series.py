"""Buckets and series, against plain lists of values."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metrics.buckets import Bucket, sketch_key, sketched_value
from penstock.metrics.chunks import TimedRow, repeated, rows_between
from penstock.metrics.series import (
    BUCKET_CHUNKS,
    CHUNK_BUCKETS,
    DAY_S,
    HOUR_S,
    LEVELS,
    MINUTE_S,
    MetricKey,
    Series,
    merged_points,
)
from penstock.metrics.statistics import SIMPLE, statistic
from penstock.turns import Steps, finished
from support.generated import examples
from support.rows import every_row

START_S = 1_700_000_000 // HOUR_S * HOUR_S


def pack(buckets: dict[int, Bucket]) -> bytes:
    return BUCKET_CHUNKS.pack(repeated(buckets, MINUTE_S))


def unpack(packed: bytes) -> dict[int, Bucket]:
    return dict(rows_between(BUCKET_CHUNKS.unpack(packed), MINUTE_S, 0, 2 * START_S))


def bucket_of(*values: float) -> Bucket:
    return Bucket.of_all([(value, 1) for value in values])


def test_dimensions_of_a_key_are_sorted() -> None:
    one = MetricKey.of("Shop", "Orders", [("Shop", "b"), ("City", "a")])
    assert one == MetricKey.of("Shop", "Orders", [("City", "a"), ("Shop", "b")])
    assert one.dimensions == (("City", "a"), ("Shop", "b"))


def test_a_bucket_has_the_simple_statistics() -> None:
    bucket = bucket_of(10, 2, 30)
    assert {name: of(bucket) for name, of in SIMPLE.items()} == {
        "SampleCount": 3, "Sum": 42, "Average": 14, "Minimum": 2, "Maximum": 30,
    }  # fmt: skip


def test_equal_values_need_no_sketch() -> None:
    bucket = bucket_of(5, 5, 5)
    assert bucket.sketch is None
    assert statistic("p50")(bucket) == 5


@pytest.mark.parametrize("value", [1e-9, 0.02, 1, 7.5, 1024, 1e12])
def test_a_sketch_is_exact_to_one_percent(value: float) -> None:
    assert sketched_value(sketch_key(value)) == pytest.approx(value, rel=0.01)


def test_percentiles_are_those_of_the_sorted_values_within_one_percent() -> None:
    rng = random.Random(7)
    values = [rng.lognormvariate(3, 2) for _ in range(5000)]
    bucket = Bucket.of_all([(value, 1) for value in values])
    values.sort()
    for percent in (0, 1, 10, 50, 90, 99, 99.9, 100):
        expected = values[max(0, -int(-len(values) * percent // 100) - 1)]
        assert statistic(f"p{percent}")(bucket) == pytest.approx(expected, rel=0.0101), percent


def test_trimmed_statistics() -> None:
    bucket = bucket_of(*range(1, 101))
    assert statistic("TM(10%:90%)")(bucket) == pytest.approx(50.5, rel=0.01)
    assert statistic("tm90")(bucket) == pytest.approx(45.5, rel=0.01)
    assert statistic("IQM")(bucket) == pytest.approx(50.5, rel=0.01)
    assert statistic("TC(:20.5)")(bucket) == 20
    assert statistic("TS(:3.5)")(bucket) == pytest.approx(6, rel=0.01)
    assert statistic("PR(:25.5)")(bucket) == 25
    assert statistic("PR(75.5:)")(bucket) == 25
    assert statistic("wm99")(bucket) == pytest.approx(50.5, rel=0.01)


@every_row(
    "name",
    ["", "p", "p101", "p-1", "Median", "TM(:)", "TM(5:3)", "TM(5%:9)", "PR(1%:2%)", "TM(1%:200%)", "p50 "],
)
def test_names_that_are_no_statistic_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        statistic(name)


def test_statistics_without_their_values_have_no_percentiles() -> None:
    known_only_by_sums = Bucket(3, 42, 2, 30)
    assert statistic("p50")(known_only_by_sums) is None
    merged = bucket_of(1, 2)
    merged.merge(known_only_by_sums)
    assert statistic("p50")(merged) is None
    assert statistic("TM(1%:9%)")(bucket_of(-1, 1)) is None
    assert merged.count == 5


def test_percentiles_of_few_values_are_exact() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 90.0, 95.0, 98.0, 99.0]
    at_once = Bucket.of_all((value, 1.0) for value in values)
    one_by_one = Bucket.of(values[0])
    for value in values[1:]:
        one_by_one.merge(Bucket.of(value))
    stored = unpack(pack({60: one_by_one}))[60]
    for bucket in (at_once, one_by_one, stored):
        found = [statistic(f"p{percent}")(bucket) for percent in (1, 12.5, 25, 50, 75, 90, 100)]
        assert found == [1.0, 1.0, 2.0, 4.0, 95.0, 99.0, 99.0]
    many = Bucket.of_all((float(value), 1.0) for value in range(1, 1001))
    few = Bucket.of_all([(5000.0, 1.0), (7000.0, 1.0)])
    for merged, other in ((many.copy(), few), (few.copy(), many)):
        merged.merge(other)
        assert statistic("p50")(merged) == pytest.approx(501, rel=0.01)
        assert sum((merged.sketch or {}).values()) == 1002


def test_a_sketch_of_a_very_wide_distribution_stays_bounded() -> None:
    bucket = bucket_of(*(1.03**power for power in range(2000)))
    assert len(bucket.sketch or {}) <= 1024
    assert sum((bucket.sketch or {}).values()) == 2000
    assert statistic("p99")(bucket) == pytest.approx(1.03**1979, rel=0.02)


def test_packing_keeps_buckets() -> None:
    buckets = {
        60: Bucket.of(1, 5),
        120: Bucket.of(2.5),
        180: bucket_of(1, 2, 700),
        3600: Bucket(3, 42, 2, 30),
        3660: Bucket.of(0, 7),
        7200: Bucket(2, 1e18, 1, 1e18 - 1),
    }
    packed = pack(buckets)
    assert unpack(packed) == buckets
    assert len(pack({START_S + 60 * each: Bucket.of(1, 9) for each in range(100)})) < 320
    with pytest.raises(ValueError):
        unpack(packed[:-1])


def test_a_series_reads_back_what_was_added_in_any_order() -> None:
    """Against all values, over two days; every period of the reading is a sum of a plain list."""
    rng = random.Random(3)
    series, values = Series(), list[tuple[int, float]]()
    for _ in range(3000):
        at_s, value = START_S + rng.randrange(2 * DAY_S), float(rng.randrange(100))
        series.add(value, at_s)
        values.append((at_s, value))
    for period_s in (60, 300, 900, 3600, DAY_S):
        for start_s in (START_S, START_S + 7 * 60):
            points = finished(series.read(start_s, START_S + 2 * DAY_S, period_s))
            expected = dict[int, list[float]]()
            for at_s, value in values:
                minute_s = at_s // 60 * 60
                if minute_s >= start_s:
                    expected.setdefault(start_s + (minute_s - start_s) // period_s * period_s, []).append(
                        value
                    )
            if start_s % period_s == 0 or period_s == 60:
                assert {at_s: (each.count, each.sum, each.min, each.max) for at_s, each in points} == {
                    at_s: (len(found), sum(found), min(found), max(found)) for at_s, found in expected.items()
                }


def test_seconds_are_kept_only_of_values_with_high_resolution() -> None:
    series = Series()
    series.add(1, START_S + 0.5)
    series.add(2, START_S + 1.5, high_resolution=True)
    assert finished(series.read(START_S, START_S + 60, 1)) == [(START_S + 1, Bucket.of(2))]
    series.add(4, START_S + 61)
    assert finished(series.read(START_S, START_S + 120, 30)) == [
        (START_S, Bucket.of(2)),
        (START_S + 60, Bucket.of(4)),
    ], "a minute without values of high resolution is one point"
    assert [bucket.sum for _, bucket in finished(series.read(START_S, START_S + 60, 60))] == [3]


def test_old_values_are_read_from_coarser_buckets_and_end() -> None:
    series = Series()
    for minute in range(0, 100 * 24 * 60, 30):
        series.add(1, START_S + 60 * minute)
    now_s = START_S + 100 * DAY_S
    removed = series.trim(now_s)
    assert {chunk.bucket_s for chunk in removed} == {60, 300}
    # All of it in hours, no part of it twice.
    assert sum(bucket.count for _, bucket in finished(series.read(START_S, now_s, HOUR_S))) == 100 * 48
    # In minutes only the last fifteen days.
    minutes = finished(series.read(START_S, now_s, 60))
    assert now_s - 15 * DAY_S - 2 * HOUR_S <= minutes[0][0] <= now_s - 15 * DAY_S
    assert finished(series.read(START_S, now_s, 300))[0][0] <= now_s - 63 * DAY_S
    series.trim(now_s + 500 * DAY_S)
    assert series.chunks() == set()
    assert finished(series.read(START_S, now_s, HOUR_S)) == []


def a_day_without_half_of_its_minutes() -> Series:
    """One value a minute; the minutes of the first half were dropped, as a relief of memory does."""
    series = Series()
    for minute in range(1440):
        series.add(1, DAY_START_S + 60 * minute)
    series.trim(DAY_START_S + 3 * DAY_S)
    for id in sorted(series.chunks()):
        if id.bucket_s == MINUTE_S and id.number * 7200 < DAY_START_S + DAY_S // 2:
            series.drop(id)
    return series


DAY_START_S = START_S // DAY_S * DAY_S


def counts(series: Series, period_s: int, start_s: int = DAY_START_S) -> list[float]:
    return [bucket.count for _, bucket in finished(series.read(start_s, DAY_START_S + DAY_S, period_s))]


def test_minutes_that_were_dropped_are_read_from_coarser_buckets() -> None:
    series = a_day_without_half_of_its_minutes()
    assert counts(series, DAY_S) == [1440]
    assert counts(series, HOUR_S) == [60] * 24
    assert counts(series, 300) == [5] * 288
    assert len(counts(series, MINUTE_S)) == 720, "what no coarser bucket tells"
    assert sum(counts(series, HOUR_S, DAY_START_S + 30 * 60)) == 1440 - 30, "by five minutes"
    for id in sorted(series.chunks()):
        if id.bucket_s == 300:
            series.drop(id)
    assert counts(series, DAY_S) == [1440]
    assert counts(series, 300) == [5] * 144, "minutes that are there are not left out"


def test_a_late_value_does_not_hide_what_was_dropped() -> None:
    series = a_day_without_half_of_its_minutes()
    series.add(1, DAY_START_S + 90)
    stored = Series()
    for id in series.chunks():
        stored.put_chunk(id, series.chunk(id) or b"")
    for each in (series, stored):
        assert counts(each, DAY_S) == [1441]
        assert counts(each, HOUR_S) == [61] + [60] * 23
        assert sum(counts(each, DAY_S, DAY_START_S + 300)) == 1441 - 6
        assert counts(each, MINUTE_S)[0] == 1, "what is known in minutes"


def test_counts_that_are_fractions_tell_which_buckets_are_complete() -> None:
    series = Series()
    for minute in range(0, 1440, 7):
        series.add(Bucket.of(1, 0.1), DAY_START_S + 60 * minute)
    at_s = [at_s for at_s, _ in finished(series.read(DAY_START_S + 7 * 60, DAY_START_S + DAY_S, HOUR_S))]
    assert at_s == [DAY_START_S + 7 * 60 + HOUR_S * hour for hour in range(24)]


def test_a_series_is_stored_by_chunks() -> None:
    series = Series()
    for minute in range(1000):
        series.add(minute % 7, START_S + 60 * minute, high_resolution=minute > 990)
    changed = set(series.changed)
    assert changed == series.chunks()
    series.changed.clear()
    other = Series()
    for id in changed:
        packed = series.chunk(id)
        assert packed is not None
        other.put_chunk(id, packed)
    end_s = START_S + 1000 * 60
    assert finished(other.read(START_S, end_s, 300)) == finished(series.read(START_S, end_s, 300))
    series.add(1, end_s - 1)
    assert {chunk.bucket_s for chunk in series.changed} == {60, 300, 3600}


def test_a_full_series_is_bounded() -> None:
    """A value in every minute for twice as long as it is kept: buckets, and about how many bytes they take."""
    series = Series((LEVELS[1],))
    for minute in range(30 * 24 * 60):
        series.add(minute % 50, START_S + 60 * minute)
        if minute % 1440 == 0:
            series.trim(START_S + 60 * minute)
    end_s = START_S + 30 * DAY_S
    series.trim(end_s)
    assert 15 * 1440 <= len(finished(series.read(START_S, end_s, 60))) <= 15 * 1440 + 120
    assert series.size < 250_000


def test_points_are_merged_by_windows_from_the_start() -> None:
    points = [(60, Bucket.of(1)), (120, Bucket.of(2)), (360, Bucket.of(3)), (420, Bucket.of(9))]
    merged = finished(merged_points(points, 120, 420, 300))
    assert [(at_s, bucket.sum) for at_s, bucket in merged] == [(120, 5)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[range, list[Callable[[Series], object]]]:
    """Seconds with values, which fill some chunks; and what happens to the series while it is read."""
    step_s = draw(st.sampled_from([1, 20, MINUTE_S, 150]))
    times = range(START_S, START_S + step_s * draw(st.integers(2, 4)) * CHUNK_BUCKETS, step_s)
    at_s = st.integers(times.start, times.stop)
    adds = st.builds(
        lambda at_s, value, fine: lambda series: series.add(value, at_s, high_resolution=fine),
        at_s, st.integers(0, 5), st.booleans(),
    )  # fmt: skip
    trims = st.builds(lambda at_s: lambda series: series.trim(at_s + LEVELS[0].kept_s), at_s)
    drops = st.builds(
        lambda last: lambda series: list(map(series.drop, sorted(series.chunks())[-last:])),
        st.integers(1, 4),
    )
    return times, draw(st.lists(st.one_of(adds, adds, trims, drops), min_size=1, max_size=8))


@settings(max_examples=examples(150), deadline=None)
@given(histories(), st.sampled_from([1, 20, MINUTE_S, 300, HOUR_S]), st.booleans())
def test_a_read_that_pauses_gives_what_there_was_at_its_beginning(
    history: tuple[range, list[Callable[[Series], object]]], period_s: int, fine: bool
) -> None:
    times, changes = history
    series = Series()
    for at_s in times:
        series.add(1, at_s, high_resolution=fine)
    expected = finished(series.read(times.start, times.stop, period_s))
    steps = series.read(times.start, times.stop, period_s)
    try:
        for change in cycle(changes):
            next(steps)
            change(series)
    except StopIteration as stop:
        assert stop.value == expected


def test_the_newest_minute_is_found_in_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    series, newest_s = Series(), 40 * DAY_S + 7 * MINUTE_S
    for at_s in range(0, newest_s + 1, 7 * HOUR_S + MINUTE_S):
        series.add(1.0, at_s, high_resolution=True)
    series.add(1.0, newest_s)
    loaded = Series()
    for id in series.chunks():
        packed = series.chunk(id)
        assert packed is not None
        loaded.put_chunk(id, packed)
    unpacked: list[bytes] = []
    unpacking = BUCKET_CHUNKS.unpacking

    def counted(packed: bytes) -> Steps[list[TimedRow[Bucket]]]:
        unpacked.append(packed)
        return unpacking(packed)

    monkeypatch.setattr(BUCKET_CHUNKS, "unpacking", counted)
    assert loaded.newest_s == newest_s
    assert len(unpacked) == 1


def test_the_newest_hour_is_known_if_only_hours_are_left() -> None:
    series, loaded, at_s = Series(), Series(), 40 * DAY_S + 7 * MINUTE_S
    series.add(1.0, at_s)
    for id in series.chunks():
        if id.bucket_s == HOUR_S:
            loaded.put_chunk(id, series.chunk(id) or b"")
    assert loaded.newest_s == at_s - at_s % HOUR_S
