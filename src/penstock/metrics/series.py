"""A series: the buckets of one metric in one unit, finer for the recent past and coarser for the rest.

A value is added to every level at once, so that nothing has to be rolled up later and values may come late. A level
is made of chunks of 120 buckets. Each level has one open chunk, as objects; all others are packed bytes, in memory
as in the store. So a series of a year takes some hundred kilobytes, and storing it again takes a few chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from penstock.metrics.buckets import Bucket, Sketch
from penstock.metrics.chunks import ChunkedRows, ChunkForm, TakenRows, TimedRow
from penstock.turns import Steps

SECOND_S, MINUTE_S, FIVE_MINUTES_S, HOUR_S, DAY_S = 1, 60, 300, 3600, 86_400

CHUNK_BUCKETS = 120
_BUCKETS_PER_STEP = 60
_VALUES_PER_BUCKET = 8  # so many different values take about as long as a bucket with one

Point = tuple[int, Bucket]
"""When the period of a bucket begins, in seconds since 1970."""


class MetricKey(NamedTuple):
    """What a metric is known by. Its dimensions are sorted by name."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, namespace: str, name: str, dimensions: Iterable[tuple[str, str]] = ()) -> MetricKey:
        return cls(namespace, name, tuple(sorted(dimensions)))


class Level(NamedTuple):
    """Buckets of one length, and how long they are kept. CloudWatch: these lengths and times."""

    bucket_s: int
    kept_s: int


LEVELS = (
    Level(SECOND_S, 3 * HOUR_S),
    Level(MINUTE_S, 15 * DAY_S),
    Level(FIVE_MINUTES_S, 63 * DAY_S),
    Level(HOUR_S, 455 * DAY_S),
)


def kept_s(bucket_s: int) -> int:
    """How long buckets of this length are kept, whatever they are about."""
    return next(level.kept_s for level in LEVELS if level.bucket_s == bucket_s)


def kept_bucket_s(age_s: float, levels: Iterable[Level]) -> int:
    """The shortest buckets, of a minute at least, that are still kept after this time; else the longest ones."""
    lengths = [level for level in levels if level.bucket_s >= MINUTE_S]
    return next((level.bucket_s for level in lengths if age_s < level.kept_s), lengths[-1].bucket_s)


class ChunkId(NamedTuple):
    bucket_s: int  # names the level
    number: int  # the time of its first bucket, in chunks since 1970


def merged_points(
    points: Iterable[Point | None], start_s: int, end_s: int, period_s: int
) -> Steps[list[Point]]:
    """Buckets of a coarser period, which begin at ``start_s`` and every ``period_s`` after it. Periods without values
    are left out; buckets that begin outside of [start, end) are ignored. The points may come in any order; None among
    them is a pause, for what computes long without a point."""
    merged: dict[int, Bucket] = {}
    work = 0
    for point in points:
        if point is None:
            work = _BUCKETS_PER_STEP
        else:
            at_s, bucket = point
            if start_s <= at_s < end_s:
                begin_s = at_s - (at_s - start_s) % period_s
                present = merged.get(begin_s)
                if present is None:
                    merged[begin_s] = bucket.copy()
                else:
                    present.merge(bucket)
            work += 1 + (len(bucket.sketch) // _VALUES_PER_BUCKET if bucket.sketch else 0)
        if work >= _BUCKETS_PER_STEP:
            work = 0
            yield
    if work:
        yield
    return sorted(merged.items(), key=lambda point: point[0])


def _fine_points(levels: Iterable[TakenRows[Bucket]]) -> Iterator[Point | None]:
    """Seconds, and the minutes that have none."""
    fine_minutes: set[int] = set()
    for taken in levels:
        for point in taken.in_steps():
            if point is not None:
                if taken.bucket_s < MINUTE_S:
                    fine_minutes.add(point[0] - point[0] % MINUTE_S)
                elif point[0] in fine_minutes:
                    continue
            yield point


_Placed = tuple[int, int, Bucket | None]
"""A point with the place of its level: that of the finest one is 0. None: a pause after the point before."""


def _complete_points(levels: Sequence[TakenRows[Bucket]]) -> Iterator[Point | None]:
    """Yields, for the time of each of the longest buckets, the finest buckets that have all values.

    ``levels``: finest first. Every value is in all levels, so that buckets with fewer values than others of the same
    time are incomplete: what is old, or took too much memory, was removed, and perhaps a value came later."""
    if len(levels) == 1:
        yield from levels[0].in_steps()
        return
    placed = merge(*(_placed(place, taken) for place, taken in enumerate(levels)))
    longest_s = levels[-1].bucket_s
    for _, together in groupby(placed, key=lambda point: point[0] // longest_s):
        by_level: dict[int, list[Point]] = {}
        counts: dict[int, float] = {}
        for at_s, place, bucket in together:
            if bucket is None:
                yield None
                continue
            by_level.setdefault(place, []).append((at_s, bucket))
            counts[place] = counts.get(place, 0) + bucket.count
        complete = max(counts.values(), default=0) * _COMPLETE
        if counts:
            yield from by_level[min(place for place, count in counts.items() if count >= complete)]


def _placed(place: int, taken: TakenRows[Bucket]) -> Iterator[_Placed]:
    at_s = 0
    for point in taken.in_steps():
        if point is None:
            yield at_s, place, None
        else:
            at_s, bucket = point
            yield at_s, place, bucket


_COMPLETE = 1 - 1e-9  # counts may be fractions, and their sum is rounded

_EXACT_MAX = 2.0**53


class StoredBucket(msgspec.Struct, array_like=True, omit_defaults=True):
    """A bucket as it is stored, without fields that follow from others: most buckets hold one small value, or the
    value 1 many times."""

    count: float
    min: float = 1
    max: float | None = None  # None: as the minimum, and so the sum is known
    sum: float = 0
    sketch: Sketch | None = None


_decode_former = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode


class BucketChunks(ChunkForm[Bucket]):
    def merged(self, present: Bucket, later: Bucket) -> Bucket:
        present.merge(later)
        return present

    def copied(self, row: Bucket) -> Bucket:
        return row.copy()

    def to_stored(self, row: Bucket) -> StoredBucket:
        if row.is_constant and row.sum == row.min * row.count:
            return StoredBucket(_short(row.count), _short(row.min))
        sketch: Sketch | None = None
        if row.sketch is not None:
            # Most of the time of packing goes here: no call for each count.
            sketch = {
                key: whole if count < _EXACT_MAX and (whole := int(count)) == count else count
                for key, count in row.sketch.items()
            }
        return StoredBucket(_short(row.count), _short(row.min), _short(row.max), _short(row.sum), sketch)

    def from_stored(self, stored: StoredBucket) -> Bucket:
        if stored.max is None:
            return Bucket(stored.count, stored.min * stored.count, stored.min, stored.min, stored.sketch)
        return Bucket(stored.count, stored.sum, stored.min, stored.max, stored.sketch)

    def read_former(self, packed: bytes) -> list[TimedRow[Bucket]]:
        """Each is an array of its time, since the one before, and of what a stored bucket has."""
        found: list[TimedRow[Bucket]] = []
        at_s = 0
        for later_s, *stored in _decode_former(packed):
            at_s += msgspec.convert(later_s, int)
            found.append(TimedRow(at_s, 1, self.from_stored(msgspec.convert(stored, StoredBucket))))
        return found


BUCKET_CHUNKS = BucketChunks(StoredBucket)


def _short(number: float) -> float | int:
    """Returns an integer if it is the same number: small integers take one byte, floats nine."""
    return int(number) if abs(number) < _EXACT_MAX and int(number) == number else number


_BUCKET_BYTES, _SKETCH_KEY_BYTES = 300, 80


class Series:
    """The values of one metric in one unit, as buckets of several lengths.

    ``levels``: finest first; each length divides the next one, and each is kept longer than the one before."""

    __slots__ = ("_kept", "_levels", "_newest_s", "changed")

    def __init__(self, levels: tuple[Level, ...] = LEVELS) -> None:
        self._kept = levels
        self._levels = {
            level.bucket_s: ChunkedRows(BUCKET_CHUNKS, level.bucket_s, CHUNK_BUCKETS) for level in levels
        }
        self._newest_s: int | None = 0  # None: not known, because chunks were put that are still packed
        self.changed: set[ChunkId] = set()
        """Chunks with values that were added since this was cleared."""

    def add(self, value: float | Bucket, at_s: float, *, high_resolution: bool = False) -> None:
        """``high_resolution``: also in buckets of less than a minute."""
        bucket = value if isinstance(value, Bucket) else Bucket.of(value)
        for bucket_s, level in self._levels.items():
            if bucket_s < MINUTE_S and not high_resolution:
                continue
            number = level.add(int(at_s // bucket_s) * bucket_s, bucket.copy())
            self.changed.add(ChunkId(bucket_s, number))
        if self._newest_s is not None:
            self._newest_s = max(self._newest_s, int(at_s // MINUTE_S) * MINUTE_S)

    def opening(self, at_s: float, *, high_resolution: bool = False) -> Steps[None]:
        """Opens the chunks that a value of this time joins, in steps: then it is added quickly."""
        for bucket_s, level in self._levels.items():
            if bucket_s >= MINUTE_S or high_resolution:
                yield from level.opening(int(at_s // bucket_s) * bucket_s)

    @property
    def newest_s(self) -> int:
        """When the last minute with a value begins."""
        if self._newest_s is None:
            # Every value is in all levels from minutes on, and coarser ones are kept longer: only the newest chunk of
            # the first one that has any is unpacked.
            levels = (level for bucket_s, level in self._levels.items() if bucket_s >= MINUTE_S)
            last_s = next((last_s for level in levels if (last_s := level.newest_s)), 0)
            self._newest_s = last_s - last_s % MINUTE_S
        return self._newest_s

    def read(self, start_s: int, end_s: int, period_s: int) -> Steps[list[Point]]:
        """Buckets of this period, the first of which begins at ``start_s``; those without values are left out.

        For each time, the finest level is taken that still has all values and divides the period. In periods of less
        than a minute, a minute without values of high resolution is one point, at its beginning."""
        # Values may be added at every pause of the reader: it takes what it reads before the first one.
        if period_s < MINUTE_S:
            fine = [level for bucket_s, level in self._levels.items() if bucket_s <= MINUTE_S]
            points = _fine_points([level.taken(start_s, end_s) for level in fine])
        else:
            whole = [
                level
                for bucket_s, level in self._levels.items()
                if bucket_s >= MINUTE_S and not period_s % bucket_s
            ]
            longest_s = whole[-1].bucket_s
            from_s, until_s = start_s - start_s % longest_s, end_s + -end_s % longest_s
            points = _complete_points([level.taken(from_s, until_s) for level in whole])
        return (yield from merged_points(points, start_s, end_s, period_s))

    # -- chunks ----------------------------------------------------------------------------------------------

    def chunk(self, id: ChunkId) -> bytes | None:
        """A chunk as it is stored; None if there is none."""
        return self._levels[id.bucket_s].chunk(id.number)

    def packing(self, id: ChunkId) -> Steps[bytes | None]:
        """The same in steps. Nothing may be added meanwhile."""
        return self._levels[id.bucket_s].packing(id.number)

    def chunks(self) -> set[ChunkId]:
        return {
            ChunkId(bucket_s, number)
            for bucket_s, level in self._levels.items()
            for number in level.numbers()
        }

    def put_chunk(self, id: ChunkId, packed: bytes) -> None:
        """A chunk that was stored, or a part of it. It is unpacked when it is read."""
        level = self._levels[id.bucket_s]
        if level.chunk(id.number) is None:
            level.put(id.number, packed)
        else:
            level.merge(packed)
        self._newest_s = None

    def trim(self, now_s: int) -> list[ChunkId]:
        """Remove what is older than its level keeps, and return which chunks that were."""
        old = [
            ChunkId(bucket_s, number)
            for bucket_s, kept_s in self._kept
            for number in self._levels[bucket_s].trim(now_s - kept_s)
        ]
        self.changed.difference_update(old)
        return old

    def drop(self, id: ChunkId) -> None:
        """Forget a chunk, to save memory. What a coarser level has of the same time stays."""
        self._levels[id.bucket_s].drop(id.number)
        self.changed.discard(id)

    def chunk_size(self, id: ChunkId) -> int:
        """About how many bytes of memory a chunk takes."""
        level = self._levels[id.bucket_s]
        return _size_of(level.open_rows) if id.number == level.open_number else level.packed_size(id.number)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        levels = self._levels.values()
        return sum(level.packed_bytes + _size_of(level.open_rows) for level in levels)


def _size_of(buckets: Iterable[Bucket]) -> int:
    """About how many bytes of memory buckets take that are not packed."""
    return sum(_BUCKET_BYTES + len(bucket.sketch or ()) * _SKETCH_KEY_BYTES for bucket in buckets)
