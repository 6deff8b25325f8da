"""The hours of a queue: a bucket of each of its metrics, made from rows of minutes.

An hour may be known in parts, from different minutes. The parts are merged when they are read, so that nothing has to
be read when minutes are stored. A row of minutes cannot be the row of an hour: merged gauges of rows do not tell how
many minutes they are about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from penstock.metrics.buckets import Bucket
from penstock.metrics.chunks import ChunkForm, TimedRow
from penstock.metrics.queue_rows import METRICS, QueueMetric, TimedQueueRow
from penstock.metrics.series import BUCKET_CHUNKS, HOUR_S, MINUTE_S, Point, StoredBucket
from penstock.turns import Steps

HourRow = dict[int, Bucket]
"""The values of an hour, by the place of the metric in METRICS; metrics without values are left out."""

_PLACES = {metric.name: place for place, metric in enumerate(METRICS)}


class HourChunks(ChunkForm[HourRow]):
    def merged(self, present: HourRow, later: HourRow) -> HourRow:
        for place, bucket in later.items():
            if place in present:
                present[place].merge(bucket)
            else:
                present[place] = bucket
        return present

    def copied(self, row: HourRow) -> HourRow:
        return {place: bucket.copy() for place, bucket in row.items()}

    def to_stored(self, row: HourRow) -> dict[int, StoredBucket]:
        return {place: BUCKET_CHUNKS.to_stored(bucket) for place, bucket in row.items()}

    def from_stored(self, stored: dict[int, StoredBucket]) -> HourRow:
        return {place: BUCKET_CHUNKS.from_stored(bucket) for place, bucket in stored.items()}

    def read_former(self, packed: bytes) -> list[TimedRow[HourRow]]:
        raise ValueError("hours of queues have had a version from the beginning")


HOUR_CHUNKS = HourChunks(dict[int, StoredBucket])


def hours_of(minutes: Iterable[TimedQueueRow], until_s: int) -> Steps[list[TimedRow[HourRow]]]:
    """Computes the part of each hour that these minutes are. ``until_s``: when the last minute ended, if that was
    early."""
    by_hour: defaultdict[int, list[TimedQueueRow]] = defaultdict(list)
    for at_s, times, row in minutes:
        end_s = at_s + times * MINUTE_S
        while at_s < end_s:
            hour_s = at_s - at_s % HOUR_S
            part_s = min(end_s, hour_s + HOUR_S) - at_s
            by_hour[hour_s].append(TimedRow(at_s, part_s // MINUTE_S, row))
            at_s += part_s
    found: list[TimedRow[HourRow]] = []
    for hour_s, part in sorted(by_hour.items()):
        hour: HourRow = {}
        for place, metric in enumerate(METRICS):
            bucket = _bucket(metric, part, until_s)
            if bucket is not None:
                hour[place] = bucket
            yield
        found.append(TimedRow(hour_s, 1, hour))
    return found


def _bucket(metric: QueueMetric, minutes: Iterable[TimedQueueRow], until_s: int) -> Bucket | None:
    """All values of these minutes. Most buckets are of one value: these are counted first, because merging them
    one by one takes three times as long."""
    counts: defaultdict[float, float] = defaultdict(float)
    others: list[Bucket] = []
    of, is_age = metric.of, metric.is_age
    for at_s, times, row in minutes:
        if is_age and times > 1:  # it is another one in each minute
            ends_s = range(at_s + MINUTE_S, at_s + (times + 1) * MINUTE_S, MINUTE_S)
            buckets, times = [of(row, min(end_s, until_s)) for end_s in ends_s], 1
        else:
            buckets = [of(row, min(at_s + MINUTE_S, until_s))]
        for bucket in buckets:
            if bucket is None:
                continue
            if bucket.min == bucket.max:
                counts[bucket.min] += bucket.count * times
            else:
                others += [bucket] * times
    merged = Bucket.of_all(counts.items()) if counts else others.pop().copy() if others else None
    for bucket in others:
        assert merged is not None
        merged.merge(bucket)
    return merged


def hour_points(metric: QueueMetric, hours: Mapping[int, HourRow]) -> Iterator[Point]:
    """The buckets of one metric. ``hours``: by time."""
    place = _PLACES[metric.name]
    for hour_s, row in hours.items():
        if place in row:
            yield hour_s, row[place]
