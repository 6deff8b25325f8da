"""Paging: what a queue should read from the store next, and what its answer changes in the backlog.

The theory is in :mod:`penstock.queues.backlog`. The rules only name a read; the broker does it in another thread and
hands the answer back. Most urgent first: delayed messages that come due, lanes if nothing is at hand, groups behind
the frontier, lanes ahead of need, expired messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from penstock.limits import SECOND
from penstock.queues.backlog import NEVER, Backlog, L
from penstock.queues.messages import Entry
from penstock.store.changes import Changes, EntryRow

_DELAYED_READ_AHEAD_MS = 2 * SECOND


class ReadGroups(NamedTuple):
    """Which groups there are behind a position, and how many messages of each."""

    after: int
    due_ms_max: int
    rows_max: int


class LaneRead(NamedTuple):
    group: str | None
    after: int
    rows_max: int


class ReadWaiting(NamedTuple):
    """The next messages of some lanes."""

    lanes: list[LaneRead]
    due_ms_max: int


class ReadDelayed(NamedTuple):
    """The delayed messages that come due next."""

    due_ms_min: int
    rows_max: int


class ReadExpired(NamedTuple):
    """Messages past their retention that are not in memory, and when the oldest of all was enqueued."""

    after: int
    enqueued_ms_max: int
    rows_max: int


Read = ReadGroups | ReadWaiting | ReadDelayed | ReadExpired


def nothing_to_read(backlog: Backlog[L], now_ms: int) -> bool:
    """A cheap test that is true after most decisions: nothing is needed from the store, or a read is under way."""
    return backlog.reading or not (
        backlog.to_refill
        or backlog.unlisted
        or backlog.delayed_from_ms != NEVER
        or (backlog.stored_oldest_ms != NEVER and backlog.stored_expired(now_ms))
    )


def next_read(
    backlog: Backlog[L], now_ms: int, *, due_ms_max: int, at_hand: bool, refill: bool, list_more: bool
) -> Read | None:
    """Decide what to read now; the answer comes back by one of the ``apply`` functions.

    ``due_ms_max``: up to which due time a stored message counts as ready. ``at_hand``: whether a receive can be
    answered from memory. ``refill``: whether lanes should be refilled. ``list_more``: list more groups even if there
    are many already."""
    read = (
        _read_delayed(backlog, now_ms)
        or (_read_waiting(backlog, due_ms_max) if refill and not at_hand else None)
        or _read_groups(backlog, due_ms_max, list_more)
        or (_read_waiting(backlog, due_ms_max) if refill else None)
        or _read_expired(backlog, now_ms)
    )
    backlog.reading = read is not None
    return read


def _read_delayed(backlog: Backlog[L], now_ms: int) -> ReadDelayed | None:
    if backlog.delayed_from_ms == NEVER:
        return None
    few = backlog.delayed_in_memory <= backlog.limits.delayed_window_max // 4
    if not few and backlog.delayed_from_ms > now_ms + _DELAYED_READ_AHEAD_MS:
        return None
    backlog.delayed_since_read_ms = NEVER
    return ReadDelayed(backlog.delayed_from_ms, backlog.delayed_rows_max)


def _read_groups(backlog: Backlog[L], due_ms_max: int, list_more: bool) -> ReadGroups | None:
    if not backlog.unlisted or not (list_more or len(backlog.lanes) < backlog.limits.lanes_max):
        return None
    backlog.unlisted_since_read = False
    return ReadGroups(backlog.frontier, due_ms_max, backlog.limits.listed_rows)


def _read_waiting(backlog: Backlog[L], due_ms_max: int) -> ReadWaiting | None:
    if not backlog.to_refill:
        return None
    limits = backlog.limits
    lanes = list(islice(backlog.to_refill.values(), limits.refill_lanes))
    for lane in lanes:
        del backlog.to_refill[lane.group]
        lane.reading = True
        lane.stored_since_read = 0
    rows_in_all = limits.refill_rows if backlog.budget.has_room() else limits.refill_rows // 8
    rows_max = max(16, rows_in_all // len(lanes))
    return ReadWaiting([LaneRead(lane.group, lane.loaded_to, rows_max) for lane in lanes], due_ms_max)


def _read_expired(backlog: Backlog[L], now_ms: int) -> ReadExpired | None:
    if not backlog.stored_expired(now_ms):
        return None
    cutoff_ms = backlog.expiry_cutoff_ms(now_ms)
    backlog.expired_cutoff_ms = min(backlog.expired_cutoff_ms, cutoff_ms)
    return ReadExpired(backlog.expired_to, cutoff_ms, backlog.limits.refill_rows)


def apply_groups(
    backlog: Backlog[L],
    asked: ReadGroups,
    found: tuple[Iterable[tuple[str | None, int, int]], int],
    now_ms: int,
) -> list[L]:
    """Add what was found behind the frontier: (group, count, first position) in order, and the last position looked
    at."""
    backlog.reading = False
    groups, last = found
    rows, lanes = 0, []
    for group, count, first_position in groups:
        rows += count
        lane = backlog.lane(group, now_ms)
        if not lane.stored and not lane.reading:
            lane.loaded_to = first_position - 1
        lane.stored += count
        lane.stored_since_read += count
        lanes.append(lane)
    backlog.frontier = last
    backlog.unlisted = rows >= asked.rows_max or backlog.unlisted_since_read
    return lanes


def apply_waiting(
    backlog: Backlog[L], asked: ReadWaiting, answers: Sequence[list[EntryRow]]
) -> list[tuple[L, list[Entry]]]:
    """The rows of each lane that was asked for. Returns the messages that are new to memory."""
    backlog.reading = False
    loaded = []
    for lane_read, rows in zip(asked.lanes, answers, strict=True):
        lane = backlog.lanes[lane_read.group]
        entries = [backlog.load(row) for row in rows if backlog.is_new(row)]
        lane.reading = False
        if rows and rows[-1].position > lane.loaded_to:
            lane.loaded_to = rows[-1].position
        short = len(rows) < lane_read.rows_max  # there are no more behind them
        lane.stored = lane.stored_since_read if short else max(1, lane.stored - len(entries))
        loaded.append((lane, entries))
    return loaded


def apply_delayed(backlog: Backlog[L], asked: ReadDelayed, rows: list[EntryRow]) -> None:
    backlog.reading = False
    new = [row for row in rows if backlog.is_new(row)]
    for row in new:
        backlog.keep_delayed(backlog.load(row))
    full = len(rows) == asked.rows_max
    backlog.delayed_from_ms = min(rows[-1].due_ms if full else NEVER, backlog.delayed_since_read_ms)
    # Thousands can be due in the same millisecond: then the next read starts there again, and reads further.
    backlog.delayed_rows_max = (
        asked.rows_max * 2 if full and not new else backlog.limits.delayed_window_max // 2
    )


def apply_expired(
    backlog: Backlog[L], asked: ReadExpired, found: tuple[list[EntryRow], int | None], changes: Changes
) -> None:
    """Remove expired messages that only the store has. ``found``: those, and when the oldest of all was enqueued."""
    backlog.reading = False
    rows, oldest_ms = found
    for row in rows:
        if backlog.is_new(row):
            backlog.total -= 1
            backlog.mark_removed(row.seq, changes.number)
            changes.expire(row.queue, row)
            if not row.receives and row.due_ms >= backlog.delayed_from_ms:
                backlog.delayed -= 1
    if len(rows) < asked.rows_max:
        # Those just removed may still be the oldest in the store: what is left is younger than the cutoff.
        floor_ms = backlog.expired_cutoff_ms + 1
        backlog.stored_oldest_ms = NEVER if oldest_ms is None else max(oldest_ms, floor_ms)
        backlog.expired_to, backlog.expired_cutoff_ms = 0, NEVER
    else:
        backlog.expired_to = rows[-1].position
