"""The metrics of one queue in memory: rows of seconds for up to three hours, rows of minutes until they are stored.

Counts come from :class:`penstock.broker.queue_metrics.QueueMetrics`, what is looked at (how many messages are visible
and so on) from :mod:`penstock.broker.metering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from penstock.broker.queue_figures import Levels, OldestMessage
from penstock.broker.queue_metrics import Totals
from penstock.limits import SECOND
from penstock.metrics.buckets import Sketch, sketch_key
from penstock.metrics.budget import MetricBudget
from penstock.metrics.chunks import CHUNK_BYTES, rows_between
from penstock.metrics.queue_rows import (
    QUEUE_CHUNKS,
    Gauge,
    NoisyGroups,
    QueueRow,
    Rows,
    TimedQueueRow,
    extended,
)
from penstock.metrics.series import MINUTE_S, SECOND_S, kept_s
from penstock.store.port import LAST

_SECONDS_KEPT_S = kept_s(SECOND_S)
_ROWS_PER_CHUNK = 60
_CHUNK_S = 30 * 60  # a chunk with fewer rows, because they repeat, has this many seconds
ROW_BYTES = 320  # of a row that is an object
_SIZE_BYTES = 60  # of each size in it
_ENDED_MINUTES_MAX = 60


class MinuteLooks(NamedTuple):
    """What is looked at once a minute."""

    levels: Levels | None  # None: not known at present
    oldest_s: int | None  # when the oldest message came, by the wall clock
    noisy: NoisyGroups | None


NO_LOOKS = MinuteLooks(None, None, None)


class SecondRows:
    """The rows of seconds of one queue, in the order in which they came. Those of the last minutes are objects, of
    which repeated ones are counted, and all others are packed. A chunk is known by its number: they are counted."""

    __slots__ = ("_open", "_packed", "_packed_bytes", "open_number")

    def __init__(self) -> None:
        self._open = Rows(SECOND_S)
        self._packed: dict[int, tuple[int, int, bytes]] = {}  # when it begins, when it ends, and its rows
        self._packed_bytes = 0
        self.open_number = 0

    @property
    def size(self) -> int:
        """About how many bytes of memory the rows take."""
        return self._packed_bytes + len(self._open.timed) * ROW_BYTES

    def add(self, at_s: int, row: QueueRow) -> bool:
        """True if it is the first row of a chunk."""
        timed = self._open.timed
        if timed and (len(timed) >= _ROWS_PER_CHUNK or not 0 <= at_s - timed[0].at_s < _CHUNK_S):
            packed = QUEUE_CHUNKS.pack(timed)
            self._packed[self.open_number] = timed[0].at_s, self._open.end_s, packed
            self._packed_bytes += len(packed) + CHUNK_BYTES
            self.open_number += 1
            self._open = Rows(SECOND_S)
        is_first = not self._open.timed
        self._open.add(at_s, row)
        return is_first

    def taken(self, start_s: int, end_s: int) -> Iterator[tuple[int, QueueRow]]:
        """Returns the rows of [start, end) at the time of the call, one chunk after the other."""
        packed = [
            data for begin_s, until_s, data in self._packed.values() if begin_s < end_s and until_s > start_s
        ]
        chunks = chain(map(QUEUE_CHUNKS.readable, packed), [list(self._open.timed)])
        return chain.from_iterable(rows_between(timed, SECOND_S, start_s, end_s) for timed in chunks)

    def numbers(self) -> list[int]:
        """Returns the numbers of the chunks with rows."""
        return [*self._packed, *([self.open_number] if self._open.timed else [])]

    def drop(self, number: int) -> None:
        if number == self.open_number:
            self._open = Rows(SECOND_S)
        else:
            self._packed_bytes -= len(self._packed.pop(number)[2]) + CHUNK_BYTES


class SecondsMemory:
    """Bounds the bytes that seconds of all queues take: the oldest of the account that has the most go first."""

    def __init__(self, bytes_max: int) -> None:
        self._budget = MetricBudget(bytes_max)
        # The chunks of each account and when they begin, in the order in which they began.
        self._chunks: dict[str, dict[tuple[SecondRows, int], int]] = {}

    def add(self, account: str, seconds: SecondRows, at_s: int, row: QueueRow) -> None:
        """Adds a row to the seconds of a queue."""
        size_before = seconds.size
        if seconds.add(at_s, row):
            self._chunks.setdefault(account, {})[seconds, seconds.open_number] = at_s
        self._budget.add(account, seconds.size - size_before)
        while self._budget.is_spent:
            largest = self._budget.largest
            self._drop(largest, *next(iter(self._chunks[largest])))

    def trim(self, now_s: int) -> None:
        """Remove what is kept no longer, also of queues that are not used any more. This is called once a minute."""
        before_s = now_s - _SECONDS_KEPT_S - _CHUNK_S
        for account, chunks in list(self._chunks.items()):
            old = takewhile(lambda chunk: chunk[1] < before_s, list(chunks.items()))
            for place, _ in old:
                self._drop(account, *place)

    def forget(self, account: str, seconds: SecondRows) -> None:
        """The queue is gone."""
        for number in seconds.numbers():
            self._drop(account, seconds, number)

    def _drop(self, account: str, seconds: SecondRows, number: int) -> None:
        size_before = seconds.size
        seconds.drop(number)
        self._budget.add(account, seconds.size - size_before)
        chunks = self._chunks[account]
        del chunks[seconds, number]
        if not chunks:
            del self._chunks[account]


class _Level:
    """One number over the seconds of a minute: it holds from one look to the next."""

    __slots__ = ("_area", "_high", "_last", "_low")

    def __init__(self, level: int) -> None:
        self._low = self._high = self._last = level
        self._area = 0

    def look(self, level: int, held_s: int) -> None:
        """``held_s``: seconds since the previous look."""
        self._area += held_s * self._last
        self._last = level
        if level < self._low:
            self._low = level
        elif level > self._high:
            self._high = level

    def gauge(self, seconds: int, rest_s: int) -> Gauge:
        """``rest_s``: seconds from the last look to the end of the period."""
        area = self._area + rest_s * self._last
        return self._low if self._low == self._high else (self._low, self._high, area / seconds)


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

    def gauges(self, at_end: Levels | None = None) -> list[Gauge | None]:
        """``at_end``: what was found last, of a minute that was not looked at until its end."""
        end_s = self.begin_s + MINUTE_S
        rest_s = end_s - self._looked_s if at_end is not None else 0
        seconds = max(1, self._looked_s + rest_s - self.begin_s)
        gauges = [None if level is None else level.gauge(seconds, rest_s) for level in self._levels]
        if at_end is None or not rest_s:
            return gauges
        return [extended(gauge, level) for gauge, level in zip(gauges, at_end, strict=True)]

    def gauges_with(self, present: Levels) -> list[Gauge | None]:
        """The gauges up to now, while the minute has not ended."""
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


class QueueMeter:
    """Counts what happens to one queue, and collects its seconds and minutes."""

    __slots__ = (
        "_account", "_ended_minutes", "_ended_s", "_in_commit", "_in_commit_bytes", "_in_commit_from", "_levels",
        "_memory", "_minute_base", "_minute_s", "_minutes_budget", "_on_used", "_second_base", "_second_s",
        "_seconds", "_sizes", "_stored_to_s", "_unlooked", "_wall_offset_ms", "awake", "last", "minutes",
        "minutes_bytes", "oldest", "recent_from",
    )  # fmt: skip

    def __init__(
        self,
        account: str,
        memory: SecondsMemory,
        minutes_budget: MetricBudget,
        wall_offset_ms: Callable[[], int],
        on_used: Callable[[], None],
    ) -> None:
        """``account``: of the queue. ``memory``: of the seconds of all queues. ``minutes_budget``: for the minutes of
        all queues that are not stored. ``wall_offset_ms``: what is added to a time of the broker's clock to get that
        of the wall clock. ``on_used`` is called when a queue is used that is not ``awake``."""
        self._account = account
        self._memory = memory
        self._minutes_budget = minutes_budget
        self._wall_offset_ms = wall_offset_ms
        self._on_used = on_used
        self.awake = False  # whether it is looked at every second
        self.oldest: OldestMessage | None = None  # that a read of the store found last
        self._second_s = self._minute_s = 0  # of what is being counted
        self._second_base = self._minute_base = Totals()  # before it
        self._sizes = _SizesOfMinute()
        self._unlooked: tuple[int, QueueRow] | None = None  # a second that was counted and is to be looked at
        self._seconds = SecondRows()
        self._ended_minutes: list[tuple[int, QueueRow]] = []  # counted and to be looked at
        self._ended_s: int | None = None  # the last minute that was taken
        # Of minutes that are looked at in seconds, by their beginning, until end_minute takes them.
        self._levels: dict[int, _LevelsOfMinute] = {}
        self.last = NO_LOOKS
        """What was found last."""
        self.minutes = Rows(MINUTE_S)
        """The minutes that are in no chunk."""
        self.minutes_bytes = 0
        """About how many bytes of memory they take."""
        self.recent_from = 0
        """The position of the first recent entry that has some of them."""
        # Those before them, in a chunk of a commit whose outcome is not known.
        self._in_commit = Rows(MINUTE_S)
        self._in_commit_from = self._in_commit_bytes = 0
        self._stored_to_s = 0  # where the rows end that this process has stored in chunks

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
                del self._ended_minutes[:-_ENDED_MINUTES_MAX]
            self._minute_s, self._minute_base, self._sizes = minute_s, totals, _SizesOfMinute()
        self._second_s, self._second_base = second_s, totals

    def _counted_minute(self, totals: Totals, sizes: _SizesOfMinute) -> QueueRow:
        sketch = None if sizes.low == sizes.high else sizes.sketch
        return _counted(self._minute_base, totals, sizes.low, sizes.high, sketch)

    # -- looks -----------------------------------------------------------------------------------------------

    def look(
        self, now_ms: int, found: Levels | None, oldest_s: int | None, *, knows_oldest: bool = True
    ) -> None:
        """Take what the queue has at the end of the second before. This is called every second, after
        :meth:`pass_time`. ``knows_oldest``: False if ``oldest_s`` is what was found earlier."""
        ended_s = (now_ms + self._wall_offset_ms()) // SECOND - 1
        if found is not None:
            begin_s = ended_s - ended_s % MINUTE_S
            levels = self._levels.get(begin_s)
            if levels is None:
                levels = self._levels[begin_s] = _LevelsOfMinute(begin_s, self.last.levels or found)
                while len(self._levels) > _ENDED_MINUTES_MAX:
                    del self._levels[min(self._levels)]
            levels.look(ended_s + 1, found)
            self.last = MinuteLooks(found, oldest_s, self.last.noisy)
        if self._unlooked is not None and self._unlooked[0] != ended_s:
            self._put_unlooked()
        counted, self._unlooked = self._unlooked, None
        if found is not None:
            row = QueueRow() if counted is None else counted[1]
            self._put_second(ended_s, _with_gauges(row, list(found), MinuteLooks(found, oldest_s, None)))
        elif counted is not None:
            self._put_second(*counted)

    def _put_unlooked(self) -> None:
        if self._unlooked is not None:
            self._put_second(*self._unlooked)
            self._unlooked = None

    def _put_second(self, at_s: int, row: QueueRow) -> None:
        self._memory.add(self._account, self._seconds, at_s, row)

    def end_minute(
        self, minute_s: int, looks: MinuteLooks, before_s: int | None = None
    ) -> list[tuple[int, QueueRow]]:
        """The rows of this minute, which has ended, and of minutes before it that were not taken yet. ``before_s``:
        the minute in which the queues of the shard were looked at last. If this queue was one of them, its numbers
        hold from then on."""
        held_from_s = minute_s
        if before_s is not None and before_s == self._ended_s:
            held_from_s = max(before_s + MINUTE_S, minute_s - _ENDED_MINUTES_MAX * MINUTE_S)
        rows = self._ended_rows(minute_s, looks, held_from_s)
        self._ended_s = minute_s
        self._ended_minutes = []
        self._levels = {begin_s: levels for begin_s, levels in self._levels.items() if begin_s > minute_s}
        self.last = looks._replace(levels=looks.levels or self.last.levels)
        return rows

    def _ended_rows(
        self, minute_s: int, looks: MinuteLooks, held_from_s: int = LAST
    ) -> list[tuple[int, QueueRow]]:
        """The rows of minutes that ended and were not taken yet. ``looks``: what the queue has at the end of the last
        one, which is ``minute_s``. ``held_from_s``: minutes from then on that were not looked at are as the last look
        was, if nothing happened in them."""
        counted = dict(self._ended_minutes)
        found: list[tuple[int, QueueRow]] = []
        for at_s in sorted(
            {
                *counted,
                *(begin_s for begin_s in self._levels if begin_s <= minute_s),
                *range(held_from_s, minute_s, MINUTE_S),
                minute_s,
            }
        ):
            row, levels = counted.get(at_s, QueueRow()), self._levels.get(at_s)
            at_end = looks if at_s == minute_s else NO_LOOKS
            if at_end is NO_LOOKS and levels is None and at_s not in counted:
                at_end = self.last
            gauges: list[Gauge | None] = list(at_end.levels or ())
            if levels is not None:
                gauges = levels.gauges(at_end.levels)
            found.append((at_s, _with_gauges(row, gauges, at_end)))
        return found

    # -- reading ---------------------------------------------------------------------------------------------

    def second_rows(self, start_s: int, end_s: int) -> Iterator[tuple[int, QueueRow]]:
        """Returns the seconds of [start, end), with the last one that has ended."""
        unlooked = [] if self._unlooked is None else [self._unlooked]
        return chain(self._seconds.taken(start_s, end_s), unlooked)

    @property
    def minutes_from_s(self) -> int:
        """The time from which no stored chunk has minutes. The minute before may be in a chunk and here, in parts."""
        minutes = self._in_commit.timed or self.minutes.timed
        return max(minutes[0].at_s + MINUTE_S, self._stored_to_s) if minutes else LAST

    def begin_chunk(self) -> None:
        """Note that all minutes are in a chunk of the open commit."""
        assert not self._in_commit.timed
        self._in_commit, self.minutes = self.minutes, Rows(MINUTE_S)
        self._in_commit_from = self.recent_from
        self._in_commit_bytes, self.minutes_bytes = self.minutes_bytes, 0

    @property
    def takes_minutes(self) -> bool:
        """Whether there is memory for another minute: if not, accounts that have less than their share have it."""
        budget = self._minutes_budget
        return not (budget.is_spent and budget.is_above_share(self._account))

    def add_minute(self, at_s: int, row: QueueRow, recent_from: int) -> bool:
        """Adds a minute that has ended and is in an entry of this position. Returns False if it is as the one
        before."""
        if not self.minutes.timed:
            self.recent_from = recent_from
        is_new = self.minutes.add(at_s, row)
        if is_new:
            self._count_minutes(_row_bytes(row))
        return is_new

    def restore_minutes(self, minutes: Rows, recent_from: int) -> None:
        """Set the minutes that are in recent entries and in no chunk. The first is in the entry of this position."""
        self.minutes, self.recent_from = minutes, recent_from
        self._count_minutes(sum(_row_bytes(timed.row) for timed in minutes.timed))

    def _count_minutes(self, size: int) -> None:
        self.minutes_bytes += size
        self._minutes_budget.add(self._account, size)

    def end_chunk(self, *, is_durable: bool) -> None:
        """The outcome of this commit is known."""
        rows, self._in_commit = self._in_commit, Rows(MINUTE_S)
        size, self._in_commit_bytes = self._in_commit_bytes, 0
        if is_durable:
            self._stored_to_s = max(self._stored_to_s, rows.end_s)
            self._minutes_budget.add(self._account, -size)
        else:
            self.minutes_bytes += size
            rows.extend(self.minutes.timed)
            self.minutes, self.recent_from = rows, self._in_commit_from

    def gathered_rows(self, *, with_taken: bool = True) -> list[TimedQueueRow]:
        """Minutes that are not in a stored chunk. ``with_taken``: also those that :meth:`end_minute` has taken."""
        rows = self._gathered(with_taken=with_taken)
        for at_s, row in self._ended_minutes:
            rows.add(at_s, row)
        return rows.timed

    def rows_until_now(
        self, totals: Totals, sizes: dict[int, int], looks: MinuteLooks, *, with_taken: bool = True
    ) -> list[TimedQueueRow]:
        """Includes the minute that has not ended. ``sizes`` counts the messages sent in this second. ``with_taken``:
        as above."""
        rows = self._gathered(with_taken=with_taken)
        ended_s = self._minute_s - MINUTE_S
        is_waiting = self._ended_minutes or any(begin_s <= ended_s for begin_s in self._levels)
        if is_waiting or (self.minutes.end_s or self._in_commit.end_s) == ended_s:
            for at_s, row in self._ended_rows(ended_s, looks):
                rows.add(at_s, row)
        counted = self._counted_minute(totals, self._sizes.with_more(sizes))
        gauges: list[Gauge | None] = list(looks.levels or ())
        levels = self._levels.get(self._minute_s)
        if looks.levels is not None and levels is not None:
            gauges = levels.gauges_with(looks.levels)
        rows.add(self._minute_s, _with_gauges(counted, gauges, looks))
        return rows.timed

    def _gathered(self, *, with_taken: bool) -> Rows:
        rows = Rows(MINUTE_S)
        if with_taken:
            rows.extend(self._in_commit.timed)
            rows.extend(self.minutes.timed)
        return rows

    def forget(self) -> None:
        """The queue is gone."""
        self._memory.forget(self._account, self._seconds)
        self._minutes_budget.add(self._account, -self.minutes_bytes - self._in_commit_bytes)
        self.minutes_bytes = self._in_commit_bytes = 0


def _row_bytes(row: QueueRow) -> int:
    return ROW_BYTES + len(row.sizes or ()) * _SIZE_BYTES


def _counted(before: Totals, now: Totals, low: int, high: int, sizes: Sketch | None = None) -> QueueRow:
    sent, received, deleted, empty, duplicates, sent_bytes, processed, processing_ms = (
        after - earlier for after, earlier in zip(now, before, strict=True)
    )
    return QueueRow(
        sent, received, deleted, empty, duplicates, sent_bytes, low, high, sizes, processed, processing_ms
    )


def looked_row(looks: MinuteLooks) -> QueueRow:
    """A row of the present second: what was looked at, and no counts."""
    return _with_gauges(QueueRow(), list(looks.levels or ()), looks)


def _with_gauges(row: QueueRow, gauges: list[Gauge | None], looks: MinuteLooks = NO_LOOKS) -> QueueRow:
    visible, in_flight, delayed, groups = gauges or (None, None, None, None)
    return QueueRow(
        row.sent, row.received, row.deleted, row.empty, row.duplicates, row.sent_bytes, row.bytes_min, row.bytes_max,
        row.sizes, row.processed, row.processing_ms, visible, in_flight, delayed, groups, looks.oldest_s, looks.noisy,
    )  # fmt: skip
