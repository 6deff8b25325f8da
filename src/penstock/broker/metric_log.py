"""Rows of minutes in the store: of all queues together at first, then in chunks of each queue.

Once a minute one entry is added to the log ``recent``, with what the minute brought of all queues of the shard. The
rows of a queue are also gathered in memory and go to a log of its own, in chunks of up to an hour: these are read by
time, and hold weeks in little space. After a crash, the recent entries give back what was in no chunk yet.

With each chunk of minutes goes what they are of their hours, to a second log of the queue: these are kept for longer.

Positions in these logs are times of the shard's clock, so that entries are truncated and found by time.

Accounts share the space. If there is too little, the oldest of the account that has the most goes: first of its
hours, and of its minutes when it has no hours any more.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.broker.shard import Commit, Shard
from penstock.limits import DAY, HOUR, SECOND
from penstock.metrics.chunks import ChunkForm, TimedRow, decompressed
from penstock.metrics.queue_hours import HOUR_CHUNKS, HourRow, hours_of
from penstock.metrics.queue_rows import QUEUE_CHUNKS, QueueRow, Rows, TimedQueueRow, rows_within
from penstock.metrics.series import HOUR_S, MINUTE_S, kept_s
from penstock.store.changes import LogRow, RecordKind
from penstock.store.moving import left_out
from penstock.store.port import LAST, Store
from penstock.turns import Steps

R = TypeVar("R")

log = logging.getLogger("penstock.broker")

METRICS_LOG = "metrics"
HOURS_LOG = "metrics-hours"
_RECENT = "recent"
_KEPT_MS = kept_s(MINUTE_S) * SECOND
_BLOCK_MS = 4 * HOUR
_HOURS_KEPT_MS = kept_s(HOUR_S) * SECOND
_HOURS_BLOCK_MS = 5 * DAY
_ROW_BYTES = 60  # of a row of a log, around its data
_ENTRIES_PER_READ = 100
_CHUNKS_MORE = 3  # than hours are read at a time
_ENTRY_BYTES_MAX = 256 * 1024 * 1024  # unpacked


class MetricsState(msgspec.Struct, frozen=True):
    """What is stored of an account."""

    position: int = 0  # of the last entries; only under the key _STATE
    stored: dict[int, int] = {}  # bytes of chunks, by blocks of four hours
    gone_to: int = 0  # everything up to this position goes, of each queue with its next chunk
    hours: dict[int, int] = {}  # bytes of hours, by blocks of five days
    hours_gone_to: int = 0


METRICS_STATE = RecordKind("metrics", MetricsState, left_out)
_STATE = "state"
"""The record that is about all accounts: what earlier releases have stored is counted there. All others are known by
their accounts."""
_NOTHING = MetricsState()


class RecentEntry(msgspec.Struct, frozen=True, array_like=True):
    """The rows of one minute, by queue id."""

    minute_s: int
    rows: list[tuple[int, int, QueueRow]] = []  # queue, minute, row
    same: list[int] = []  # whose row of this minute is that of the minute before
    stored: list[int] = []  # whose rows are all in chunks now
    used_ms: dict[int, int] = {}  # when queues were used last; only at a stop


class PlacedEntry(NamedTuple):
    """An entry and its position in the log, which it has even if it is written later."""

    position: int
    entry: RecentEntry


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RecentEntry).decode


class Gathered(NamedTuple):
    """What recent entries say together, by queue: rows that are in no chunk, and when it was used last."""

    rows: dict[int, Rows]
    # By the broker's clock; only of queues whose last use is known from a stop and that have no rows since then.
    used_ms: dict[int, int]
    first: dict[int, int]  # the position of the first entry with these rows
    position: int  # of the last entry

    def add(self, entry: RecentEntry, position: int) -> None:
        """Adds the next entry."""
        for id, at_s, row in entry.rows:
            if id not in self.rows:
                self.rows[id] = Rows(MINUTE_S)
                self.first[id] = position
            self.rows[id].add(at_s, row)
        for id in entry.same:
            rows = self.rows.get(id)
            if rows is not None and rows.timed:
                rows.add(entry.minute_s, rows.timed[-1].row)
        for id in entry.stored:
            self.rows.pop(id, None)
        for id in (*(id for id, _, _ in entry.rows), *entry.same):
            self.used_ms.pop(id, None)
        self.used_ms.update(entry.used_ms)


class PackedChunk(NamedTuple):
    """Rows of a queue."""

    minutes: bytes
    hours: bytes  # what the minutes are of their hours


def packed_chunks(chunks: Mapping[int, list[TimedQueueRow]], until_s: int) -> Steps[dict[int, PackedChunk]]:
    """``chunks``: by queue id. ``until_s``: when the last minute ended, if that was early."""
    found: dict[int, PackedChunk] = {}
    for id, rows in chunks.items():
        hours = yield from hours_of(rows, until_s)
        found[id] = PackedChunk(QUEUE_CHUNKS.pack(rows), HOUR_CHUNKS.pack(hours))
        yield
    return found


class StoredRows(NamedTuple):
    """What is stored of a queue: hours, and the minutes of all other times."""

    minutes: Rows
    hours: dict[int, HourRow]


class _RowsQuery(NamedTuple):
    queue: int
    start_s: int
    end_s: int
    period_s: int
    hours_from_s: int  # no part of an hour from here on was removed
    minutes_from_s: int  # no minute from here on was removed
    until: int  # the first position that is not read
    offset_ms: int  # of the wall clock


Settled = Callable[[bool], None]
"""A function that is called when the outcome of a commit is known, with whether it is durable. That may be later than
its requests were refused, so that whoever waits for the commit does not know it."""


class MetricLog:
    def __init__(self, shard: Shard, shards: int) -> None:
        """``shards``: how many share the space for metrics."""
        self._shard = shard
        self._shards = shards
        self._state = shard.table(METRICS_STATE, self._undone)
        # By position: what was written by commits whose outcome is not known, and who wants to know it.
        self._open: dict[int, Settled] = {}
        self._accounts: dict[int, str] = {}  # of queues, by their id
        self._full_block = self._trimmed_block = -1
        self._entry_position = 0

    def add(self, queue: int, account: str) -> None:
        """A queue, which may have chunks from now on."""
        self._accounts[queue] = account

    def leave(self, queue: int) -> None:
        """The queue does not exist any more."""
        del self._accounts[queue]

    def next_entry_position(self) -> int:
        """A position for an entry, behind all others."""
        written = (self._state.get(_STATE) or _NOTHING).position
        self._entry_position = max(self._entry_position + 1, written + 1, self._shard.clock.now_ms())
        return self._entry_position

    # -- in the open commit ----------------------------------------------------------------------------------

    def write(
        self,
        entries: Sequence[PlacedEntry],
        chunks: Mapping[int, PackedChunk],
        recent_from: int,
        settled: Settled | None = None,
    ) -> None:
        """``chunks``: all gathered rows of some queues, by id. They are read when the open commit is durable; without
        ``settled`` by another process only: this one has them in memory until it ends. ``recent_from``: the position
        of the first entry with rows that are in no chunk. Those before it go."""
        changes, now_ms = self._shard.changes, self._shard.clock.now_ms()
        position = max((self._state.get(_STATE) or _NOTHING).position + 1, now_ms)
        self._open[position] = settled or (lambda is_durable: None)
        if settled is not None:
            self._shard.open_commit.when_durable.append(partial(self._durable, position))
        sizes: Counter[str] = Counter()
        hour_sizes: Counter[str] = Counter()
        for id, chunk in chunks.items():
            sizes[self._accounts[id]] += len(chunk.minutes) + _ROW_BYTES
            hour_sizes[self._accounts[id]] += len(chunk.hours) + _ROW_BYTES
        full, full_of_hours = self._make_room(position, sizes, hour_sizes)
        for id, chunk in chunks.items():
            if self._accounts[id] not in full:
                changes.logs.append(LogRow(METRICS_LOG, str(id), position, chunk.minutes))
            if self._accounts[id] not in full_of_hours:
                changes.logs.append(LogRow(HOURS_LOG, str(id), position, chunk.hours))
            changes.truncated[METRICS_LOG, str(id)] = self._gone_to(id, position)
            changes.truncated[HOURS_LOG, str(id)] = self._hours_gone_to(id, position)
        for at, entry in entries:
            changes.logs.append(LogRow(METRICS_LOG, _RECENT, at, zlib.compress(_encode(entry))))
        changes.truncated[METRICS_LOG, _RECENT] = min(recent_from, entries[0].position) - 1
        self._change(_STATE, position=max(position, entries[-1].position))

    def _durable(self, position: int, _: Commit) -> None:
        self._open.pop(position)(True)

    def _undone(self, key: str, state: MetricsState | None) -> None:
        """A commit was refused, and what was written since this state."""
        if key == _STATE:
            position = (state or _NOTHING).position
            for refused in [each for each in self._open if each > position]:
                self._open.pop(refused)(False)

    def _change(self, account: str, **changed: Any) -> None:
        self._state.put(account, msgspec.structs.replace(self._state.get(account) or _NOTHING, **changed))

    def _gone_to(self, queue: int, position: int) -> int:
        """Returns the position up to which everything of a queue goes."""
        states = (self._state.get(key) or _NOTHING for key in (_STATE, self._accounts[queue]))
        return max(position - _KEPT_MS, *(state.gone_to for state in states))

    def _hours_gone_to(self, queue: int, position: int) -> int:
        state = self._state.get(self._accounts[queue]) or _NOTHING
        return max(position - _HOURS_KEPT_MS, state.hours_gone_to)

    def _make_room(
        self, position: int, sizes: Mapping[str, int], hour_sizes: Mapping[str, int]
    ) -> tuple[Set[str], Set[str]]:
        """Count more bytes of some accounts. The oldest blocks of the account that has the most go until all
        of them have room. Returns the accounts whose minutes have none, not even those of a few hours, and those
        whose hours have none."""
        present, present_hours = position // _BLOCK_MS, position // _HOURS_BLOCK_MS
        if self._trimmed_block != present:
            self._trimmed_block = present
            self._trim(position)
        bytes_max = self._shard.limits.metrics_bytes_max // self._shards
        for account, size in hour_sizes.items():
            blocks = (self._state.get(account) or _NOTHING).hours
            self._change(account, hours={**blocks, present_hours: blocks.get(present_hours, 0) + size})
        states = dict(self._state)
        changed: set[str] = set()
        used = Counter(sizes)
        for account, state in states.items():
            used[account] += sum(state.stored.values()) + sum(state.hours.values())
        most = [(-size, account) for account, size in used.items()]
        heapify(most)
        too_many = used.total() - bytes_max
        full: set[str] = set()
        full_of_hours: set[str] = set()
        while too_many > 0 and most:
            size, account = heappop(most)
            state = states.get(account, _NOTHING)
            if state.hours:
                oldest = min(state.hours)
                freed = state.hours[oldest]
                rest = {block: size for block, size in state.hours.items() if block != oldest}
                gone_to = min(position, (oldest + 1) * _HOURS_BLOCK_MS - 1)
                states[account] = msgspec.structs.replace(state, hours=rest, hours_gone_to=gone_to)
                changed.add(account)
                if oldest == present_hours:
                    full_of_hours.add(account)
            elif (
                min(state.stored, default=present) == present
                and sizes.get(account, 0)
                and account not in full
            ):
                full.add(account)
                freed = sizes[account]
            elif state.stored:
                oldest = min(state.stored)
                freed = state.stored[oldest]
                rest = {block: size for block, size in state.stored.items() if block != oldest}
                gone_to = min(position, (oldest + 1) * _BLOCK_MS) - 1
                states[account] = msgspec.structs.replace(state, stored=rest, gone_to=gone_to)
                changed.add(account)
            else:
                continue
            too_many -= freed
            heappush(most, (size + freed, account))
        for account in changed:
            self._state.put(account, states[account])
        for account in sizes.keys() - full:
            blocks = (self._state.get(account) or _NOTHING).stored
            self._change(account, stored={**blocks, present: blocks.get(present, 0) + sizes[account]})
        if full and self._full_block != present:
            self._full_block = present
            log.warning(
                "metrics of queues of %d accounts are not stored for some hours: there are too many for metrics_size",
                len(full),
            )
        return full, full_of_hours

    def _trim(self, position: int) -> None:
        """Count no more what is too old."""
        before, hours_before = position - _KEPT_MS, position - _HOURS_KEPT_MS
        for account, state in self._state:
            kept = {block: size for block, size in state.stored.items() if (block + 1) * _BLOCK_MS > before}
            hours = {
                block: size
                for block, size in state.hours.items()
                if (block + 1) * _HOURS_BLOCK_MS > hours_before
            }
            is_past = state.gone_to <= before and state.hours_gone_to <= hours_before
            if not kept and not hours and is_past and account != _STATE:
                self._state.remove(account)
            elif len(kept) < len(state.stored) or len(hours) < len(state.hours):
                self._change(account, stored=kept, hours=hours)

    def forget(self, queues: Iterable[int]) -> None:
        """Forget these queues, which are deleted."""
        for id in queues:
            self._shard.changes.truncated[METRICS_LOG, str(id)] = LAST
            self._shard.changes.truncated[HOURS_LOG, str(id)] = LAST

    def sweep(self, queues: Iterable[int]) -> None:
        """Remove what is too old of queues that are not used any more, and so have no new chunks."""
        truncated, now_ms = self._shard.changes.truncated, self._shard.clock.now_ms()
        for id in queues:
            truncated.setdefault((METRICS_LOG, str(id)), self._gone_to(id, now_ms))
            truncated.setdefault((HOURS_LOG, str(id)), self._hours_gone_to(id, now_ms))

    # -- reading ---------------------------------------------------------------------------------------------

    async def gathered(self) -> Gathered:
        """What was in no chunk when the shard was closed or its process died."""
        found = await self._shard.read(partial(read_gathered, self._shard.store))
        self._entry_position = max(self._entry_position, found.position)
        return found

    @property
    def known_to(self) -> int:
        """The position before which the outcome of all commits is known."""
        return min(self._open, default=LAST)

    async def read(
        self, queue: int, start_s: int, end_s: int, period_s: int, gathered_from_s: int, offset_ms: int
    ) -> StoredRows:
        """What is stored of the buckets of a queue that begin in [start, end). ``gathered_from_s``: from then on no
        minute is in a chunk. ``offset_ms``: of the wall clock."""
        now_ms = self._shard.clock.now_ms()
        wanted = _RowsQuery(
            queue,
            start_s,
            min(end_s, gathered_from_s),
            period_s,
            _next_hour_s(self._hours_gone_to(queue, now_ms) + offset_ms),
            _next_hour_s(self._gone_to(queue, now_ms) + offset_ms),
            self.known_to,
            offset_ms,
        )
        if wanted.start_s >= wanted.end_s:
            return StoredRows(Rows(MINUTE_S), {})
        return await self._shard.read(partial(_read_rows, self._shard.store, wanted))


def _next_hour_s(wall_ms: int) -> int:
    """Returns when the first hour begins that starts at this time or later."""
    return -(-wall_ms // HOUR) * HOUR_S


# -- in the thread that reads --------------------------------------------------------------------------------


def read_gathered(store: Store) -> Gathered:
    found = Gathered({}, {}, {}, -1)
    while page := store.log(METRICS_LOG, _RECENT, found.position, _ENTRIES_PER_READ):
        for row in page:
            try:
                found.add(_decode(decompressed(row.data, _ENTRY_BYTES_MAX)), row.position)
            except ValueError as error:
                log.warning("a minute of metrics cannot be read and is left out: %s", error)
        found = found._replace(position=page[-1].position)
    return found


def read_log(
    store: Store, queue: int, after: int, chunks_per_read: int = _ENTRIES_PER_READ, kind: str = METRICS_LOG
) -> Iterator[LogRow]:
    """The stored chunks of a queue beyond a position. ``kind``: of minutes or of hours."""
    while page := store.log(kind, str(queue), after, chunks_per_read):
        yield from page
        after = page[-1].position


def _read_rows(store: Store, wanted: _RowsQuery) -> StoredRows:
    minutes, hours = Rows(MINUTE_S), dict[int, HourRow]()
    has_hours = wanted.period_s % HOUR_S == 0
    times = _times_of_hours(store, wanted) if has_hours else []
    if times:
        for hour_s, _, row in _timed(store, HOUR_CHUNKS, HOURS_LOG, wanted, times[0][0], times[-1][1]):
            if any(begin_s <= hour_s < end_s for begin_s, end_s in times):
                present = hours.get(hour_s)
                hours[hour_s] = row if present is None else HOUR_CHUNKS.merged(present, row)
    begin_s = max(wanted.start_s, wanted.minutes_from_s) if has_hours else wanted.start_s
    for hours_begin_s, hours_end_s in [*times, (wanted.end_s, wanted.end_s)]:
        if begin_s < hours_begin_s:
            timed = _timed(store, QUEUE_CHUNKS, METRICS_LOG, wanted, begin_s, hours_begin_s)
            minutes.extend(list(rows_within(timed, begin_s, hours_begin_s)))
        begin_s = max(begin_s, hours_end_s)
    return StoredRows(minutes, hours)


def _times_of_hours(store: Store, wanted: _RowsQuery) -> list[tuple[int, int]]:
    """The times of which hours are read and not their minutes, in order."""
    start_s, end_s, period_s = wanted.start_s, wanted.end_s, wanted.period_s
    from_s = max(_next_hour_s(start_s * SECOND), wanted.hours_from_s)
    found: list[tuple[int, int]] = []
    if from_s < min(end_s, wanted.minutes_from_s):
        found.append((from_s, min(_next_hour_s(end_s * SECOND), wanted.minutes_from_s)))
        from_s = found[0][1]
    if from_s < end_s:
        # Chunks of earlier releases have no hours.
        for first in store.log(HOURS_LOG, str(wanted.queue), -1, 1):
            from_s = max(from_s, _next_hour_s(first.position + wanted.offset_ms))
            for hour_s in range(from_s, end_s - HOUR_S + 1, HOUR_S):
                if (hour_s - start_s) % period_s > period_s - HOUR_S:
                    continue  # a part of it is in the next period
                if found and found[-1][1] == hour_s:
                    found[-1] = found[-1][0], hour_s + HOUR_S
                else:
                    found.append((hour_s, hour_s + HOUR_S))
    return found


def _timed(
    store: Store, form: ChunkForm[R], kind: str, wanted: _RowsQuery, start_s: int, end_s: int
) -> Iterator[TimedRow[R]]:
    """The rows of chunks that may have some from a time to another."""
    # A chunk is stored after its last row. An hour more, because the wall clock may have been set since.
    after_ms = start_s * SECOND - wanted.offset_ms - HOUR - abs(wanted.offset_ms)
    # Most chunks have the rows of an hour.
    chunks_per_read = min(_ENTRIES_PER_READ, (end_s - start_s) // HOUR_S + _CHUNKS_MORE)
    for stored in read_log(store, wanted.queue, after_ms, chunks_per_read, kind):
        if stored.position >= wanted.until:
            break
        chunk = form.readable(stored.data)
        yield from chunk
        if chunk and chunk[0].at_s > end_s + HOUR_S:
            break
