"""The metrics of one queue in memory: rows of seconds for up to three hours, rows of minutes until they are stored.

Counts come from :class:`penstock.broker.queue_metrics.QueueMetrics`, what is looked at (how many messages are visible
and so on) from :mod:`penstock.broker.metering`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.queue_figures import Levels
from penstock.broker.queue_metrics import Totals
from penstock.limits import SECOND
from penstock.metrics.buckets import Sketch, sketch_key
from penstock.metrics.queue_rows import (
    Gauge,
    NoisyGroups,
    QueueRow,
    Rows,
    TimedRow,
    extended,
    pack_rows,
    unpack_rows,
)
from penstock.metrics.series import HOUR_S, MINUTE_S, SECOND_S

_SECONDS_KEPT_S = 3 * HOUR_S
_ROWS_PER_CHUNK = 60
_CHUNK_BYTES = 150  # of objects around the packed bytes
_ENDED_MAX = 60


class MinuteLooks(NamedTuple):
    """What is looked at once a minute."""

    levels: Levels | None  # None: not known at present
    oldest_s: int | None  # when the oldest message came, by the wall clock
    noisy: NoisyGroups | None


NO_LOOKS = MinuteLooks(None, None, None)


class SecondsChunk(NamedTuple):
    end_s: int
    packed: bytes


class SecondsMemory:
    """Bounds the bytes that packed seconds of all queues take: the oldest chunks go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0
        self._order: deque[deque[SecondsChunk]] = deque()  # whose first chunk is the next to go

    def add(self, chunks: deque[SecondsChunk], chunk: SecondsChunk) -> None:
        """To the chunks of a queue."""
        chunks.append(chunk)
        self._order.append(chunks)
        self.used += len(chunk.packed) + _CHUNK_BYTES
        while self.used > self._bytes_max and self._order:
            self.drop_first(self._order.popleft())

    def drop_first(self, chunks: deque[SecondsChunk]) -> None:
        """If a queue has dropped chunks by itself, its places in the order find younger ones, or none."""
        if chunks:
            self.used -= len(chunks.popleft().packed) + _CHUNK_BYTES


class _Level:
    """One number over the seconds of a minute: it holds from one look to the next."""

    __slots__ = ("_area", "_high", "_last", "_low")

    def __init__(self, level: int) -> None:
        self._low = self._high = self._last = level
        self._area = 0

    def look(self, level: int, held_s: int) -> None:
        """``held_s``: since the look before."""
        self._area += held_s * self._last
        self._last = level
        if level < self._low:
            self._low = level
        elif level > self._high:
            self._high = level

    def gauge(self, seconds: int) -> Gauge:
        return self._low if self._low == self._high else (self._low, self._high, self._area / seconds)


class _LevelsOfMinute:
    __slots__ = ("_levels", "_looked_s", "begin_s")

    def __init__(self, begin_s: int, before: Levels) -> None:
        """``before``: what the queue had when the minute began."""
        self.begin_s = self._looked_s = begin_s
        self._levels = [None if level is None else _Level(level) for level in before]

    def look(self, at_s: int, found: Levels) -> None:
        held_s = max(0, at_s - self._looked_s)
        self._looked_s += held_s
        for level, number in zip(self._levels, found, strict=True):
            if level is not None and number is not None:
                level.look(number, held_s)

    def end(self, found: Levels) -> None:
        """The last look of a minute that was not looked at until its end."""
        if self._looked_s < self.begin_s + MINUTE_S:
            self.look(self.begin_s + MINUTE_S, found)

    def gauges(self) -> list[Gauge | None]:
        seconds = max(1, self._looked_s - self.begin_s)
        return [None if level is None else level.gauge(seconds) for level in self._levels]

    def gauges_with(self, present: Levels) -> list[Gauge | None]:
        """Up to now, while the minute has not ended."""
        if self._looked_s == self.begin_s:
            return list(present)
        return [extended(gauge, level) for gauge, level in zip(self.gauges(), present, strict=True)]


class _SizesOfMinute:
    """Counts the sizes of the messages sent in a minute."""

    __slots__ = ("high", "low", "sketch")

    def __init__(self) -> None:
        self.low = self.high = 0
        self.sketch: Sketch = {}

    def add(self, sizes: dict[int, int]) -> None:
        sketch = self.sketch
        low, high = min(sizes), max(sizes)
        self.low, self.high = min(low, self.low) if sketch else low, max(high, self.high)
        for size, count in sizes.items():
            key = sketch_key(size)
            sketch[key] = sketch.get(key, 0) + count

    def with_more(self, sizes: dict[int, int]) -> _SizesOfMinute:
        both = _SizesOfMinute()
        both.low, both.high, both.sketch = self.low, self.high, dict(self.sketch)
        if sizes:
            both.add(sizes)
        return both


class QueueRecorder:
    """``memory``: of the seconds of all queues. ``wall_offset_ms``: what is added to a time of the broker's clock to
    get that of the wall clock. ``on_used`` is called when a queue is used that is not ``awake``."""

    __slots__ = (
        "_chunks", "_ended_minutes", "_levels", "_looked", "_memory", "_minute_base", "_minute_s", "_on_used",
        "_second_base", "_second_s", "_seconds", "_sizes", "_unlooked", "_wall_offset_ms", "awake",
        "minutes",
    )  # fmt: skip

    def __init__(
        self, memory: SecondsMemory, wall_offset_ms: Callable[[], int], on_used: Callable[[], None]
    ) -> None:
        self._memory = memory
        self._wall_offset_ms = wall_offset_ms
        self._on_used = on_used
        self.awake = False  # is it looked at every second?
        self._second_s = self._minute_s = 0  # of what is being counted
        self._second_base = self._minute_base = Totals()  # before it
        self._sizes = _SizesOfMinute()
        self._unlooked: tuple[int, QueueRow] | None = None  # a second that was counted and is to be looked at
        self._seconds = Rows(SECOND_S)
        self._chunks: deque[SecondsChunk] = deque()  # seconds before those
        self._ended_minutes: list[tuple[int, QueueRow]] = []  # counted and to be looked at
        self._looked: Levels | None = None  # last
        self._levels: _LevelsOfMinute | None = None  # if this minute is looked at every second
        self.minutes = Rows(MINUTE_S)
        """Those that are not in a stored chunk."""

    # -- counts ----------------------------------------------------------------------------------------------

    def used(self) -> None:
        if not self.awake:
            self._on_used()

    def pass_time(self, now_ms: int, totals: Totals, sizes: dict[int, int]) -> None:
        second_s = (now_ms + self._wall_offset_ms()) // SECOND
        if second_s == self._second_s:
            return
        if totals != self._second_base:
            self._put_unlooked()
            bounds = (min(sizes), max(sizes)) if sizes else (0, 0)
            self._unlooked = self._second_s, _counted(self._second_base, totals, *bounds)
        if sizes:
            self._sizes.add(sizes)
        minute_s = second_s - second_s % MINUTE_S
        if minute_s != self._minute_s:
            if totals != self._minute_base:
                self._ended_minutes.append((self._minute_s, self._counted_minute(totals, self._sizes)))
                del self._ended_minutes[:-_ENDED_MAX]
            self._minute_s, self._minute_base, self._sizes = minute_s, totals, _SizesOfMinute()
        self._second_s, self._second_base = second_s, totals

    def _counted_minute(self, totals: Totals, sizes: _SizesOfMinute) -> QueueRow:
        sketch = None if sizes.low == sizes.high else sizes.sketch
        return _counted(self._minute_base, totals, sizes.low, sizes.high, sketch)

    # -- looks -----------------------------------------------------------------------------------------------

    def look(self, now_ms: int, found: Levels | None) -> None:
        """Every second, after :meth:`pass_time`: this is what the queue has at the end of the second before."""
        ended_s = (now_ms + self._wall_offset_ms()) // SECOND - 1
        if found is not None:
            begin_s = ended_s - ended_s % MINUTE_S
            if self._levels is None or self._levels.begin_s != begin_s:
                self._levels = _LevelsOfMinute(begin_s, self._looked or found)
            self._levels.look(ended_s + 1, found)
            self._looked = found
        if self._unlooked is not None and self._unlooked[0] != ended_s:
            self._put_unlooked()
        counted, self._unlooked = self._unlooked, None
        if found is not None:
            row = QueueRow() if counted is None else counted[1]
            self._put_second(ended_s, _with_gauges(row, list(found)))
        elif counted is not None:
            self._put_second(*counted)

    def _put_unlooked(self) -> None:
        if self._unlooked is not None:
            self._put_second(*self._unlooked)
            self._unlooked = None

    def _put_second(self, at_s: int, row: QueueRow) -> None:
        seconds = self._seconds
        seconds.add(at_s, row)
        if len(seconds.timed) > _ROWS_PER_CHUNK:
            self._memory.add(self._chunks, SecondsChunk(at_s, pack_rows(seconds.timed[:-1])))
            del seconds.timed[:-1]
            while self._chunks and self._chunks[0].end_s <= at_s - _SECONDS_KEPT_S:
                self._memory.drop_first(self._chunks)

    def end_minute(self, minute_s: int, looks: MinuteLooks) -> list[tuple[int, QueueRow]]:
        """The rows of this minute, which has ended, and of minutes before it that were not taken yet."""
        ended, self._ended_minutes = self._ended_minutes, []
        if not ended or ended[-1][0] != minute_s:
            ended.append((minute_s, QueueRow()))
        gauges: list[Gauge | None] = list(looks.levels or ())
        if self._levels is not None and self._levels.begin_s == minute_s:
            if looks.levels is not None:
                self._levels.end(looks.levels)
            gauges, self._levels = self._levels.gauges(), None
        self._looked = looks.levels or self._looked
        ended[-1] = minute_s, _with_gauges(ended[-1][1], gauges, looks)
        return ended

    # -- reading ---------------------------------------------------------------------------------------------

    def second_rows(self, start_s: int) -> list[TimedRow]:
        """Those from a time on and some before it, with the last one that has ended."""
        chunks = [chunk.packed for chunk in self._chunks if chunk.end_s >= start_s]
        rows = [row for packed in chunks for row in unpack_rows(packed)] + self._seconds.timed
        if self._unlooked is not None:
            rows.append(TimedRow(self._unlooked[0], 1, self._unlooked[1]))
        return rows

    def gathered_rows(self) -> list[TimedRow]:
        """Minutes that are not in a stored chunk."""
        return self._gathered().timed

    def rows_until_now(self, totals: Totals, sizes: dict[int, int], looks: MinuteLooks) -> list[TimedRow]:
        """Includes the minute that has not ended. ``sizes`` counts the messages sent in this second."""
        rows = self._gathered()
        gauges: list[Gauge | None] = list(looks.levels or ())
        if rows.end_s == self._minute_s - MINUTE_S:
            # Nothing was counted in the last minute, and it will be looked at in a moment.
            rows.add(rows.end_s, _with_gauges(QueueRow(), gauges, looks))
        counted = self._counted_minute(totals, self._sizes.with_more(sizes))
        if looks.levels is not None and self._levels is not None and self._levels.begin_s == self._minute_s:
            gauges = self._levels.gauges_with(looks.levels)
        rows.add(self._minute_s, _with_gauges(counted, gauges, looks))
        return rows.timed

    def _gathered(self) -> Rows:
        rows = Rows(MINUTE_S)
        rows.timed = list(self.minutes.timed)
        for at_s, row in self._ended_minutes:
            rows.add(at_s, row)
        return rows

    def forget(self) -> None:
        """The queue is gone."""
        while self._chunks:
            self._memory.drop_first(self._chunks)


def _counted(before: Totals, now: Totals, low: int, high: int, sizes: Sketch | None = None) -> QueueRow:
    sent, received, deleted, empty, duplicates, sent_bytes, processed, processing_ms = (
        after - earlier for after, earlier in zip(now, before, strict=True)
    )
    return QueueRow(
        sent, received, deleted, empty, duplicates, sent_bytes, low, high, sizes, processed, processing_ms
    )


def _with_gauges(row: QueueRow, gauges: list[Gauge | None], looks: MinuteLooks = NO_LOOKS) -> QueueRow:
    visible, in_flight, delayed, groups = gauges or (None, None, None, None)
    return QueueRow(
        row.sent, row.received, row.deleted, row.empty, row.duplicates, row.sent_bytes, row.bytes_min, row.bytes_max,
        row.sizes, row.processed, row.processing_ms, visible, in_flight, delayed, groups, looks.oldest_s, looks.noisy,
    )  # fmt: skip
