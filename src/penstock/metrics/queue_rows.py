"""What is kept of a queue for each second or minute: one row for all its metrics, packed into chunks.

A row costs some tens of bytes in memory and, packed with its neighbours, about ten in the store. Rows that are like
the one before, as those of a queue that is not used, cost nothing: they are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from penstock.metrics.buckets import Bucket, Sketch, sketch_key
from penstock.metrics.chunks import ChunkForm, TimedRow, decompressed, rows_between
from penstock.metrics.series import MINUTE_S, SECOND_S, Point, merged_points
from penstock.turns import Steps

Gauge = int | tuple[int, int, float]
"""A number that was the same all the time, or the least, the greatest and the average."""


class NoisyGroups(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The message groups of a standard queue that have too much of it, and what of the queue is theirs.

    Their own messages are no longer read: ``quiet`` replaces them. They keep their places in the stored form."""

    groups: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    quiet_oldest_s: int | None = None  # when the oldest message of all other groups came
    quiet: tuple[int, int, int] | None = None  # visible, in flight and delayed messages of all other groups


class QueueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a second or a minute. It is stored as a msgpack array: the order of the fields is the stored
    format. New ones come last, with a default."""

    sent: int = 0
    received: int = 0
    deleted: int = 0
    empty: int = 0  # receives without a message
    duplicates: int = 0
    sent_bytes: int = 0
    bytes_min: int = 0
    bytes_max: int = 0
    # Of sent messages; None: all have the same size, or it is a row of a second, which has no distribution.
    sizes: Sketch | None = None
    processed: int = 0  # messages that were deleted after a receive, and how long they were held in all
    processing_ms: int = 0
    visible: Gauge | None = None  # None: it was not looked at
    in_flight: Gauge | None = None
    delayed: Gauge | None = None
    groups: Gauge | None = None  # with messages in flight; only of a FIFO queue
    # When the oldest message came, by the wall clock; None: there is none, or it was not looked at.
    oldest_s: int | None = None
    noisy: NoisyGroups | None = None  # None: its messages have no groups

    def merged(self, later: QueueRow) -> QueueRow:
        """Merges two rows of the same second or minute, of which two processes have seen parts."""
        sizes = None
        if self.sent and later.sent:
            both = _sizes(self)
            both.merge(_sizes(later))
            sizes = both.sketch
        return QueueRow(
            self.sent + later.sent,
            self.received + later.received,
            self.deleted + later.deleted,
            self.empty + later.empty,
            self.duplicates + later.duplicates,
            self.sent_bytes + later.sent_bytes,
            min(self.bytes_min, later.bytes_min)
            if self.sent and later.sent
            else self.bytes_min or later.bytes_min,
            max(self.bytes_max, later.bytes_max),
            sizes or self.sizes or later.sizes,
            self.processed + later.processed,
            self.processing_ms + later.processing_ms,
            _merged_gauge(self.visible, later.visible),
            _merged_gauge(self.in_flight, later.in_flight),
            _merged_gauge(self.delayed, later.delayed),
            _merged_gauge(self.groups, later.groups),
            self.oldest_s if later.oldest_s is None and not later.is_looked_at else later.oldest_s,
            later.noisy or self.noisy,
        )

    @property
    def is_looked_at(self) -> bool:
        """Whether None as the time of its oldest message means that it has none."""
        return self.visible is not None

    @property
    def is_empty(self) -> bool:
        return self.visible == self.in_flight == self.delayed == 0


def _merged_gauge(one: Gauge | None, other: Gauge | None) -> Gauge | None:
    if one is None or other is None or one == other:
        return other if one is None else one
    (low, high, mean), (other_low, other_high, other_mean) = _parts(one), _parts(other)
    return min(low, other_low), max(high, other_high), (mean + other_mean) / 2


def extended(gauge: Gauge | None, level: int | None) -> Gauge | None:
    """A number that has this level now."""
    if gauge is None or level is None or gauge == level:
        return gauge
    low, high, mean = _parts(gauge)
    return min(low, level), max(high, level), mean


def _parts(gauge: Gauge) -> tuple[int, int, float]:
    return (gauge, gauge, gauge) if isinstance(gauge, int) else gauge


TimedQueueRow = TimedRow[QueueRow]


def rows_within(minutes: Iterable[TimedQueueRow], start_s: int, end_s: int) -> Iterator[TimedQueueRow]:
    """The rows of minutes that begin in [start, end)."""
    for at_s, times, row in minutes:
        passed = max(0, -((at_s - start_s) // MINUTE_S))
        wanted = min(times, -((at_s - end_s) // MINUTE_S)) - passed
        if wanted > 0:
            yield TimedRow(at_s + passed * MINUTE_S, wanted, row)


class Rows:
    """The last rows of a queue, in the order in which they came."""

    __slots__ = ("bucket_s", "timed")

    def __init__(self, bucket_s: int) -> None:
        self.bucket_s = bucket_s
        self.timed: list[TimedQueueRow] = []

    @property
    def end_s(self) -> int:
        """When the last bucket ends; 0 if there is none."""
        if not self.timed:
            return 0
        last = self.timed[-1]
        return last.at_s + last.times * self.bucket_s

    def add(self, at_s: int, row: QueueRow) -> bool:
        """Add a row; one of the last bucket is merged with that. Returns False if it is as the one of the bucket
        before."""
        if self.timed:
            last, end_s = self.timed[-1], self.end_s
            if at_s == end_s and row == last.row:
                self.timed[-1] = TimedRow(last.at_s, last.times + 1, row)
                return False
            if at_s == end_s - self.bucket_s:
                self.timed.pop()
                if last.times > 1:
                    self.timed.append(last._replace(times=last.times - 1))
                row = last.row.merged(row)
        self.timed.append(TimedRow(at_s, 1, row))
        return True

    def extend(self, timed: list[TimedQueueRow]) -> None:
        """Later rows, of which the first may be of the bucket of the last one here."""
        if not timed:
            return
        first, *others = timed
        self.add(first.at_s, first.row)
        if first.times > 1:
            self.timed.append(TimedRow(first.at_s + self.bucket_s, first.times - 1, first.row))
        self.timed += others


_decode_former = msgspec.msgpack.Decoder(list[tuple[int, int, QueueRow]]).decode


class QueueChunks(ChunkForm[QueueRow]):
    def merged(self, present: QueueRow, later: QueueRow) -> QueueRow:
        return present.merged(later)

    def copied(self, row: QueueRow) -> QueueRow:
        return row

    def to_stored(self, row: QueueRow) -> QueueRow:
        return row

    def from_stored(self, stored: QueueRow) -> QueueRow:
        return stored

    def read_former(self, packed: bytes) -> list[TimedQueueRow]:
        """Each row has its whole time."""
        return [TimedRow(*timed) for timed in _decode_former(decompressed(packed))]


QUEUE_CHUNKS = QueueChunks(QueueRow)


# -- metrics -------------------------------------------------------------------------------------------------


def _counted(number: int) -> Bucket:
    """Makes a bucket of a number of events. No events are one zero: it is known that there were none."""
    return Bucket.of(1.0, number) if number else Bucket.of(0.0)


def _gauged(gauge: Gauge | None) -> Bucket | None:
    """One value: their average, so that buckets with more looks at the queue do not count more than others."""
    if gauge is None:
        return None
    low, high, mean = _parts(gauge)
    return Bucket(1.0, float(mean), float(low), float(high), None if low == high else {sketch_key(mean): 1.0})


def _quiet(row: QueueRow, place: int) -> Bucket | None:
    return None if row.noisy is None or row.noisy.quiet is None else _gauged(row.noisy.quiet[place])


def _sizes(row: QueueRow) -> Bucket:
    sketch = None if row.bytes_min == row.bytes_max or row.sizes is None else dict(row.sizes)
    return Bucket(float(row.sent), float(row.sent_bytes), float(row.bytes_min), float(row.bytes_max), sketch)


def _aged(oldest_s: int | None, end_s: int) -> Bucket | None:
    """The age of a message at the end of a bucket; None for a bucket that ends before the message came."""
    return None if oldest_s is None or oldest_s > end_s else Bucket.of(float(end_s - oldest_s))


def _processing(row: QueueRow) -> Bucket | None:
    """The processing times of a row, of which only the average is known."""
    return Bucket.of(row.processing_ms / 1000 / row.processed, row.processed) if row.processed else None


Kind = Literal["count", "gauge", "sample"]
"""Events that are counted; a number that holds until it changes; values of single messages."""
Look = Literal["levels", "oldest", "noisy"]
"""What has to be found out about a queue for the present value of a metric."""
ALL_LOOKS: frozenset[Look] = frozenset({"levels", "oldest", "noisy"})


class QueueMetric(NamedTuple):
    name: str
    published_as: str  # by CloudWatch; "" if not at all
    unit: str
    of: Callable[[QueueRow, int], Bucket | None]
    """Returns the value of a row, whose bucket ends at the given time; None if there is no value."""
    help: str
    kind: Kind
    looks: tuple[Look, ...] = ()
    hides_zero: bool = False
    """CloudWatch: it has no value as long as there is nothing to count."""
    is_age: bool = False

    @property
    def statistic(self) -> str:
        """The one that is usually wanted."""
        return _STATISTICS[self.kind]


_STATISTICS: dict[Kind, str] = {"count": "Sum", "gauge": "Maximum", "sample": "Average"}
METRICS = (  # Hours are stored by the places in this list: new metrics come last.
    QueueMetric("sent", "NumberOfMessagesSent", "Count", lambda row, end_s: _counted(row.sent),
                "messages that clients sent", "count"),
    QueueMetric("received", "NumberOfMessagesReceived", "Count", lambda row, end_s: _counted(row.received),
                "messages returned by receives", "count"),
    QueueMetric("deleted", "NumberOfMessagesDeleted", "Count", lambda row, end_s: _counted(row.deleted),
                "deletes with a valid receipt handle", "count"),
    QueueMetric("empty_receives", "NumberOfEmptyReceives", "Count", lambda row, end_s: _counted(row.empty),
                "receives that returned no message", "count"),
    QueueMetric("sent_bytes", "SentMessageSize", "Bytes", lambda row, end_s: _sizes(row) if row.sent else None,
                "size of the sent messages", "sample"),
    QueueMetric("visible", "ApproximateNumberOfMessagesVisible", "Count", lambda row, end_s: _gauged(row.visible),
                "messages that can be received", "gauge", ("levels",)),
    QueueMetric("in_flight", "ApproximateNumberOfMessagesNotVisible", "Count",
                lambda row, end_s: _gauged(row.in_flight), "messages received and not deleted", "gauge",
                ("levels",), hides_zero=True),
    QueueMetric("delayed", "ApproximateNumberOfMessagesDelayed", "Count", lambda row, end_s: _gauged(row.delayed),
                "messages sent with a delay that has not passed", "gauge", ("levels",), hides_zero=True),
    QueueMetric("oldest_age", "ApproximateAgeOfOldestMessage", "Seconds",
                lambda row, end_s: _aged(row.oldest_s, end_s), "age of the oldest message", "gauge",
                ("levels", "oldest"), is_age=True),
    QueueMetric("groups_in_flight", "ApproximateNumberOfGroupsWithInflightMessages", "Count",
                lambda row, end_s: _gauged(row.groups), "message groups of a FIFO queue with messages in flight",
                "gauge", ("levels",)),
    QueueMetric("duplicates", "NumberOfDeduplicatedSentMessages", "Count",
                lambda row, end_s: _counted(row.duplicates), "sends to a FIFO queue that were duplicates", "count",
                hides_zero=True),
    QueueMetric("noisy_groups", "ApproximateNumberOfNoisyGroups", "Count",
                lambda row, end_s: None if row.noisy is None else _gauged(row.noisy.groups),
                "message groups that hold up others of a fair queue", "gauge", ("noisy",)),
    QueueMetric("quiet_visible", "ApproximateNumberOfMessagesVisibleInQuietGroups", "Count",
                lambda row, end_s: _quiet(row, 0),
                "messages that can be received, without noisy groups", "gauge", ("levels", "noisy")),
    QueueMetric("quiet_in_flight", "ApproximateNumberOfMessagesNotVisibleInQuietGroups", "Count",
                lambda row, end_s: _quiet(row, 1),
                "messages in flight, without noisy groups", "gauge", ("levels", "noisy")),
    QueueMetric("quiet_delayed", "ApproximateNumberOfMessagesDelayedInQuietGroups", "Count",
                lambda row, end_s: _quiet(row, 2),
                "delayed messages, without noisy groups", "gauge", ("levels", "noisy")),
    QueueMetric("quiet_oldest_age", "ApproximateAgeOfOldestMessageInQuietGroups", "Seconds",
                lambda row, end_s: None if row.noisy is None else _aged(row.noisy.quiet_oldest_s, end_s),
                "age of the oldest message, without noisy groups", "gauge", ("noisy",), is_age=True),
    QueueMetric("processing_time", "", "Seconds", lambda row, end_s: _processing(row),
                "from a receive to the delete of the message", "sample"),
)  # fmt: skip

QUEUE_METRICS = {metric.name: metric for metric in METRICS}
PUBLISHED_METRICS = {metric.published_as: metric for metric in METRICS if metric.published_as}
"""The metrics that CloudWatch shows, by their names there."""


_ROWS_PER_PAUSE = 64


def points_of(
    metric: QueueMetric, rows: Iterable[tuple[int, QueueRow]], bucket_s: int, until_s: int
) -> Iterator[Point | None]:
    """The buckets of one metric. ``until_s``: the present time, at which the last bucket may not have ended. None: a
    pause among rows without a value."""
    for number, (begin_s, row) in enumerate(rows):
        bucket = metric.of(row, min(begin_s + bucket_s, until_s))
        if bucket is not None:
            yield begin_s, bucket
        elif not number % _ROWS_PER_PAUSE:
            yield None


SHORT_HELD_S = 2 * MINUTE_S
"""Rows are read from this long before a time, to know which values are held then: its minute and the previous one."""


def short_points(
    metric: QueueMetric,
    seconds: Iterable[tuple[int, QueueRow]],
    minutes: Sequence[TimedQueueRow],
    start_s: int,
    end_s: int,
    period_s: int,
    now_s: int,
) -> Steps[list[Point]]:
    """Periods of less than a minute: from the seconds that are kept, and where there are none, from the minutes.

    Seconds are kept while a queue is used. What is not used does not change: a gauge holds its value, and nothing is
    counted. What was held when a period began is a value of it, too. A queue that was not active has no value before
    its first second. A minute whose seconds are gone, and in which something was counted or a number of messages
    changed, has no values: a peak in it must not fire an alarm again. The seconds and minutes of
    :data:`SHORT_HELD_S` before ``start_s`` tell what was held when the first period began."""
    last: dict[int, QueueRow] = {}  # of each period
    first_s: dict[int, int] = {}  # the first second of each period that was looked at
    minutes_seen: set[int] = set()

    def noted() -> Iterator[Point | None]:
        for number, (at_s, row) in enumerate(seconds):
            bucket = metric.of(row, min(at_s + SECOND_S, now_s))
            if bucket is not None or (metric.is_age and row.is_empty):
                period = at_s - (at_s - start_s) % period_s
                last[period] = row
                first_s.setdefault(period, at_s)
                minutes_seen.add(at_s - at_s % MINUTE_S)
            if bucket is not None:
                yield at_s, bucket
            elif not number % _ROWS_PER_PAUSE:
                yield None

    found = dict((yield from merged_points(noted(), start_s, end_s, period_s)))
    from_s = start_s - SHORT_HELD_S // period_s * period_s
    held: QueueRow | None = None
    before: tuple[int, QueueRow] | None = None  # the minute before, and its row
    for at_s, row in rows_between(minutes, MINUTE_S, from_s - MINUTE_S, end_s):
        is_first = before is None or at_s != before[0] + MINUTE_S
        if before is None or is_first:
            held = None
        elif before[0] not in minutes_seen:
            # No seconds of that minute are known. If the value changed in it, its last value is not known either.
            held = before[1] if _is_steady(metric.of(before[1], at_s)) else None
        before = at_s, row
        is_seen = at_s in minutes_seen
        at_first_s = max(from_s, at_s + (start_s - at_s) % period_s)
        for begin_s in range(at_first_s, min(end_s, at_s + MINUTE_S, now_s + 1), period_s):
            end_of_period_s = min(begin_s + period_s, now_s)
            if begin_s in last:
                if metric.kind == "gauge" and begin_s >= start_s:
                    if held is not None and first_s[begin_s] > begin_s:
                        _merge_point(found, begin_s, metric.of(held, first_s[begin_s]))
                    if metric.is_age:
                        _merge_point(found, begin_s, metric.of(last[begin_s], end_of_period_s))
                held = last[begin_s]
                continue
            if begin_s < start_s:
                continue
            bucket = None if held is None else metric.of(held, end_of_period_s)
            # The queue may have been created within the first minute, so only the end of that minute is known.
            is_known = metric.is_age or not is_first or begin_s + period_s >= at_s + MINUTE_S
            if not is_seen and is_known and (bucket is None or not metric.is_age):
                bucket = metric.of(row, end_of_period_s)
            if metric.kind == "gauge":
                if bucket is not None and _is_steady(bucket):
                    found[begin_s] = bucket
            elif metric.kind == "count" and bucket is not None and (is_seen or bucket.max == 0):
                found[begin_s] = Bucket.of(0.0)
            yield
    return sorted(found.items(), key=lambda point: point[0])


def _is_steady(bucket: Bucket | None) -> bool:
    return bucket is None or bucket.min == bucket.max


def _merge_point(found: dict[int, Bucket], begin_s: int, bucket: Bucket | None) -> None:
    if bucket is not None and begin_s in found:
        found[begin_s].merge(bucket)
    elif bucket is not None:
        found[begin_s] = bucket


def applies_to(metric: QueueMetric, *, fifo: bool) -> bool:
    """Whether a queue of this kind can have the metric at all."""
    if metric.name in ("groups_in_flight", "duplicates"):
        return fifo
    return not fifo or not metric.name.startswith(("noisy", "quiet"))
