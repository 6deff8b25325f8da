"""The hours of queues, made from minutes in parts."""

from __future__ import annotations

import random

import pytest

from penstock.metrics.buckets import Bucket
from penstock.metrics.chunks import TimedRow, rows_between
from penstock.metrics.queue_hours import HOUR_CHUNKS, HourRow, hour_points, hours_of
from penstock.metrics.queue_rows import (
    METRICS,
    Gauge,
    NoisyGroups,
    QueueMetric,
    QueueRow,
    TimedQueueRow,
    points_of,
    short_points,
)
from penstock.metrics.series import HOUR_S, MINUTE_S, Point, merged_points
from penstock.turns import finished

START_S = 1_700_000_000 // HOUR_S * HOUR_S
END_S = START_S + 300 * HOUR_S


def minutes(rng: random.Random) -> list[TimedQueueRow]:
    """Some alike, for up to three hours, some with gaps between them."""
    found: list[TimedQueueRow] = []
    at_s = START_S + 17 * MINUTE_S
    for _ in range(150):
        times = rng.choice([1, 1, 1, 1, 2, 30, 170])
        low = rng.randrange(3)
        gauge: Gauge = low if rng.random() < 0.5 else (low, low + 7, low + 3 * rng.random())
        sent = rng.choice([0, 5])
        noisy = NoisyGroups(2, 1, 0, 0, START_S, (low, 0, 0)) if rng.random() < 0.3 else None
        row = QueueRow(
            sent, sent, 0, 1, 0, sent * 20, 10 if sent else 0, 30 if sent else 0,
            {10.0: 3, 30.0: 2} if sent else None,
            sent, sent * 100, gauge, low, 0, None, rng.choice([None, START_S - 5]), noisy,
        )  # fmt: skip
        found.append(TimedRow(at_s, times, row))
        at_s += (times + rng.choice([0, 0, 0, 40])) * MINUTE_S
    return found


def test_rows_without_values_have_pauses() -> None:
    """These are the hours of a queue that is looked at for days, and has no message with an age."""
    metric = next(each for each in METRICS if each.is_age)
    rows = [(START_S + MINUTE_S * minute, QueueRow()) for minute in range(6400)]
    points = points_of(metric, rows, MINUTE_S, START_S + 6400 * MINUTE_S)
    assert sum(1 for _ in merged_points(points, START_S, START_S + 6400 * MINUTE_S, HOUR_S)) >= 100
    seconds = [(START_S + second, QueueRow()) for second in range(6400)]
    short = short_points(metric, seconds, [], START_S, START_S + 6400, 10, START_S + 6400)
    assert sum(1 for _ in short) >= 100


def by_minutes(metric: QueueMetric, timed: list[TimedQueueRow]) -> list[Point]:
    rows = rows_between(timed, MINUTE_S, START_S, END_S)
    return finished(merged_points(points_of(metric, rows, MINUTE_S, END_S), START_S, END_S, HOUR_S))


def shown(bucket: Bucket) -> tuple[float, ...]:
    return bucket.count, bucket.sum, bucket.min, bucket.max


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows_per_chunk", [1, 7, 1000])
def test_hours_of_chunks_say_what_their_minutes_say(seed: int, rows_per_chunk: int) -> None:
    timed = minutes(random.Random(seed))
    hours: dict[int, HourRow] = {}
    for start in range(0, len(timed), rows_per_chunk):
        packed = HOUR_CHUNKS.pack(finished(hours_of(timed[start : start + rows_per_chunk], END_S)))
        for hour_s, times, row in HOUR_CHUNKS.unpack(packed):
            assert times == 1
            hours[hour_s] = HOUR_CHUNKS.merged(hours[hour_s], row) if hour_s in hours else row
    for metric in METRICS:
        found, expected = dict(hour_points(metric, hours)), dict(by_minutes(metric, timed))
        assert found.keys() == expected.keys()
        for hour_s, bucket in expected.items():
            assert shown(found[hour_s]) == pytest.approx(shown(bucket)), metric.name
            assert found[hour_s].has_distribution == bucket.has_distribution
            if found[hour_s].has_distribution:
                assert sum(count for _, count in found[hour_s].distribution()) == pytest.approx(bucket.count)


def test_the_age_of_a_minute_that_has_not_ended_is_that_of_its_last_second() -> None:
    row = QueueRow(visible=1, oldest_s=START_S)
    (hour,) = finished(hours_of([TimedRow(START_S, 2, row)], START_S + 70))
    assert dict(hour_points(METRICS[8], {hour.at_s: hour.row}))[START_S] == Bucket.of_all([(60, 1), (70, 1)])


def test_metrics_keep_the_places_under_which_hours_are_stored() -> None:
    assert [metric.name for metric in METRICS] == [
        "sent", "received", "deleted", "empty_receives", "sent_bytes", "visible", "in_flight", "delayed",
        "oldest_age", "groups_in_flight", "duplicates", "noisy_groups", "quiet_visible", "quiet_in_flight",
        "quiet_delayed", "quiet_oldest_age", "processing_time",
    ]  # fmt: skip


def test_a_damaged_chunk_has_no_hours() -> None:
    assert HOUR_CHUNKS.readable(b"damaged") == HOUR_CHUNKS.readable(b"") == []
