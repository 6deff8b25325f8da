"""What standard and FIFO queues share: a window of the queue in memory, the rest in the store.

A queue is a set of lanes: one per message group, one (``None``) for messages without a group. Each lane keeps its
first messages in memory and knows whether there may be more in the store, behind its ``loaded_to`` position.
Rules that keep memory and store in step:

Rule 1: a message that is in flight is always in memory; only waiting and delayed ones may be spilled.
Rule 2: a message is spilled only when its last change is durable, so that a read from the store tells the truth.
Rule 3: one read at a time. What a read brings is checked against memory: known messages are skipped, and so are
        ghosts (see :mod:`penstock.queues.ghosts`).
Rule 4: a queue with too many groups lists only the first ones; the rest lie behind ``frontier`` and are listed
        when others are done. (SQS itself looks at the first 120,000 messages only.)
Rule 5: retention is checked whenever a message would be handed out, and swept when the oldest comes of age.
Rule 6: a message that is on its way into the queue may be in the store before the queue knows of it. A read leaves
        such a message out; it joins when it arrives.

Nothing here reads a clock or waits: times are arguments, and ``next_read`` names what to fetch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from penstock.queues.message import Entry, State
from penstock.queues.reads import LaneRead, Read, ReadDelayed, ReadExpired, ReadGroups, ReadWaiting
from penstock.queues.window import NEVER, L, Window
from penstock.store.changes import Changes, EntryRow


class Restored(NamedTuple):
    """What the store tells of a queue when its memory is filled anew."""

    total: int
    delayed: int
    in_flight: list[EntryRow]
    oldest_ms: int | None


class PagedQueue(Window[L]):
    @abstractmethod
    def _admit(self, lane: L, entries: list[Entry], now_ms: int) -> None:
        """Messages read from the store join their lane, in order."""

    @abstractmethod
    def _join_in_flight(self, lane: L, entry: Entry) -> None:
        """A message in flight, read from the store, joins its lane."""

    def restore(self, restored: Restored, now_ms: int) -> None:
        """Fill the empty memory of this queue from the store: what is in flight now, the rest by reads."""
        assert not self.index
        self.total = restored.total
        self.unlisted = restored.total > restored.delayed + len(restored.in_flight)
        self.frontier = self.purged_to
        if restored.oldest_ms is not None:
            self._stored_oldest_ms = restored.oldest_ms
        for row in restored.in_flight:
            entry = self._load(row)
            entry.state = State.IN_FLIGHT
            lane = self._lane(row.group, now_ms)
            lane.in_flight += 1
            self.in_flight += 1
            self._join_in_flight(lane, entry)
            self._hide(entry, row.due_ms)

    def next_read(self, now_ms: int) -> Read | None:
        """What should be fetched now, if anything; the answer comes back by one of the ``apply`` methods."""
        if self.reading is None:
            self.reading = (
                self._read_delayed(now_ms)
                or (self._read_waiting(now_ms) if self._nothing_at_hand() else None)
                or self._read_groups(now_ms)
                or self._read_waiting(now_ms)
                or self._read_expired(now_ms)
            )
            return self.reading
        return None

    def due_ms_max(self, now_ms: int) -> int:
        """Up to which due time a stored message counts as waiting."""
        return now_ms

    def _read_delayed(self, now_ms: int) -> ReadDelayed | None:
        return None

    def _read_groups(self, now_ms: int) -> ReadGroups | None:
        if not self.unlisted or not self._may_list():
            return None
        self._unlisted_since_read = False
        return ReadGroups(self.frontier, self.due_ms_max(now_ms), self.limits.listed_rows)

    def _may_list(self) -> bool:
        return len(self.lanes) < self.limits.lanes_max

    def _read_waiting(self, now_ms: int) -> ReadWaiting | None:
        if not self.hungry or not self._should_refill():
            return None
        lanes = list(islice(self.hungry.values(), self.limits.refill_lanes))
        for lane in lanes:
            del self.hungry[lane.group]
            lane.start_read()
        rows_in_all = self.limits.refill_rows if self.budget.room() else self.limits.refill_rows // 8
        rows_max = max(16, rows_in_all // len(lanes))
        return ReadWaiting(
            [LaneRead(lane.group, lane.loaded_to, rows_max) for lane in lanes], self.due_ms_max(now_ms)
        )

    @abstractmethod
    def _nothing_at_hand(self) -> bool:
        """Could a receive be answered from memory?"""

    @abstractmethod
    def _should_refill(self) -> bool:
        """Is so little at hand that hungry lanes should be fed?"""

    def _read_expired_due(self, now_ms: int) -> bool:
        return not self.complete and self._stored_oldest_ms + self.settings.retention_ms <= now_ms

    def _read_expired(self, now_ms: int) -> ReadExpired | None:
        if not self._read_expired_due(now_ms):
            return None
        cut_ms = now_ms - self.settings.retention_ms
        self._expiry_cut_ms = min(self._expiry_cut_ms, cut_ms)
        return ReadExpired(self._expired_to, cut_ms, self.limits.refill_rows)

    def apply_groups(
        self, asked: ReadGroups, groups: Iterable[tuple[str | None, int, int]], last: int, now_ms: int
    ) -> None:
        """Groups found beyond the frontier, first first, up to position ``last``."""
        self.reading = None
        rows = 0
        for group, count, first_position in groups:
            rows += count
            lane = self._lane(group, now_ms)
            if not lane.spilled and not lane.reading:
                lane.loaded_to = first_position - 1
            lane.spilled += count
            lane.spilled_since_read += count
            self._wants_more(lane)
        self.frontier = last
        self.unlisted = rows >= asked.rows_max or self._unlisted_since_read

    def apply_waiting(self, answers: Iterable[tuple[LaneRead, list[EntryRow]]], now_ms: int) -> None:
        self.reading = None
        for asked, rows in answers:
            lane = self.lanes[asked.group]
            entries = [self._load(row) for row in rows if self._is_news(row)]
            lane.end_read(rows[-1].position if rows else None, len(entries), len(rows) < asked.rows_max)
            self._admit(lane, entries, now_ms)
            self._wants_more(lane)
            self._drop_if_empty(lane)

    def apply_expired(
        self, asked: ReadExpired, rows: list[EntryRow], oldest_ms: int | None, changes: Changes
    ) -> None:
        self.reading = None
        for row in rows:
            if self._is_news(row):
                self.total -= 1
                self._ghosts.add(row.seq, changes.number)
                changes.remove(row.seq)
                self._vanished(row)
        if len(rows) < asked.rows_max:
            # Those just removed may still be the oldest in the store: what is left is younger than the cut.
            floor = self._expiry_cut_ms + 1
            self._stored_oldest_ms = NEVER if oldest_ms is None else max(oldest_ms, floor)
            self._expired_to, self._expiry_cut_ms = 0, NEVER
        else:
            self._expired_to = rows[-1].position

    def _is_news(self, row: EntryRow) -> bool:
        return not (row.seq in self.index or row.seq in self._ghosts or row.seq in self.coming)

    def counts_lag(self, now_ms: int) -> bool:
        """Has something come due or of age in the store that the counts do not know yet?"""
        return self._read_expired_due(now_ms)

    def _vanished(self, row: EntryRow) -> None:
        """A message left that never was in memory."""

    def _wants_more(self, lane: L) -> None:
        if lane.spilled and not lane.reading and lane.ready < self._low_water(lane):
            self.hungry[lane.group] = lane

    def _low_water(self, lane: L) -> int:
        """With how few in memory a lane reads more. Over the budget only when it is about to run dry."""
        if not self.budget.room():
            return (self._floor(lane) + 1) // 2
        return max(10, self.limits.refill_rows // (4 * len(self.lanes)))
