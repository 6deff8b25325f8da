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

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Set
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from penstock.limits import SECOND, Limits
from penstock.queues.budget import LANE_BYTES, Budget
from penstock.queues.changes import Changes, EntryRow, QueueRecord
from penstock.queues.ghosts import Ghosts
from penstock.queues.lane import Lane
from penstock.queues.message import Entry, State
from penstock.queues.reads import LaneRead, Read, ReadDelayed, ReadExpired, ReadGroups, ReadWaiting

NEVER = 1 << 62
_SWEEP_PAUSE_MS = SECOND

L = TypeVar("L", bound=Lane)


class Tools(NamedTuple):
    """What the rules need of the outside, passed in: limits, memory, numbers, ids."""

    limits: Limits
    budget: Budget
    next_number: Callable[[], int]
    message_id: Callable[[int], str]


class Restored(NamedTuple):
    """What the store tells of a queue when its memory is filled anew."""

    total: int
    delayed: int
    in_flight: list[EntryRow]
    oldest_ms: int | None


class PagedQueue(ABC, Generic[L]):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        self.id = record.id
        self.settings = record.settings
        self.purged_to = record.purged_to
        self.limits, self.budget, self.next_number, self.message_id = tools
        self.index: dict[int, Entry] = {}
        self.lanes: dict[str | None, L] = {}
        self.hungry: dict[str | None, L] = {}  # lanes that want more from the store, first come first served
        self.total = 0
        self.in_flight = 0
        self.unlisted = False  # are there messages behind the frontier, of which not even the group is known?
        self.frontier = self.purged_to
        self.reading: Read | None = None
        self.coming: Set[int] = frozenset()  # see Rule 6; set before an answer from the store is applied
        self.lookups = 0  # messages being looked up in the store by name, beside the read
        self._unlisted_since_read = False
        self._timers: list[tuple[int, int]] = []
        self._ghosts = Ghosts()
        self._oldest_ms = NEVER  # no message in memory was enqueued before: a bound, exact after each sweep
        self._stored_oldest_ms = NEVER  # the same for messages that only the store has
        self._swept_ms = 0
        # The search for expired messages in the store goes on behind this position, or else it would find those
        # again whose removal is not durable yet.
        self._expired_to = 0
        self._expiry_cut_ms = NEVER

    # -- what each kind of queue decides ---------------------------------------------------------------------

    @abstractmethod
    def _new_lane(self, group: str | None, now_ms: int) -> L: ...

    @abstractmethod
    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        """A message becomes available: put it in its lane (or leave it to the store, if that has the rest)."""

    @abstractmethod
    def _take_out(self, entry: Entry) -> None:
        """Take a waiting or delayed message out of the middle; it counts as in flight, without a deadline."""

    @abstractmethod
    def _after_flight(self, lane: L, now_ms: int) -> None:
        """A message of this lane stopped being in flight, or left."""

    def _leave(self, lane: L, entry: Entry) -> None:
        """A message in hand or in flight leaves its lane."""

    @abstractmethod
    def _admit(self, lane: L, entries: list[Entry], now_ms: int) -> None:
        """Messages read from the store join their lane, in order."""

    @abstractmethod
    def _join_in_flight(self, lane: L, entry: Entry) -> None:
        """A message in flight, read from the store, joins its lane."""

    # -- leaving ---------------------------------------------------------------------------------------------

    def _forget(self, entry: Entry, now_ms: int, changes: Changes) -> None:
        """A message in hand or in flight is no longer in this queue."""
        assert entry.state is State.IN_FLIGHT
        lane = self.lanes[entry.group]
        self._leave(lane, entry)
        self._ghosts.add(entry.seq, changes.number)
        del self.index[entry.seq]
        self.budget.drop(entry.content)
        self.total -= 1
        self.in_flight -= 1
        lane.in_flight -= 1
        entry.state = State.GONE
        self._after_flight(lane, now_ms)
        self._drop_if_empty(lane)

    def _drop_if_empty(self, lane: L) -> None:
        if lane.empty and self.lanes.get(lane.group) is lane:
            del self.lanes[lane.group]
            self.hungry.pop(lane.group, None)
            self.budget.used -= LANE_BYTES

    def purge(self, upto: int) -> None:
        """Every message up to this position is void."""
        self.reset()
        self.purged_to = self.frontier = upto

    def reset(self) -> None:
        """Throw the memory of this queue away."""
        for entry in self.index.values():
            self.budget.drop(entry.content)
            entry.state = State.GONE
        self.budget.used -= LANE_BYTES * len(self.lanes)
        self.index.clear()
        self.lanes.clear()
        self.hungry.clear()
        self._timers.clear()
        self._ghosts.clear()
        self.total = self.in_flight = 0
        self.unlisted = False
        self.reading = None
        self._oldest_ms = self._stored_oldest_ms = self._expiry_cut_ms = NEVER
        self._expired_to = 0

    def _sweep(self, now_ms: int, changes: Changes) -> None:
        """Drop what is past its retention, wherever it is. What only the store has follows by ReadExpired."""
        self._swept_ms = now_ms
        cutoff = now_ms - self.settings.retention_ms
        self._oldest_ms = NEVER
        for entry in list(self.index.values()):
            if entry.enqueued_ms > cutoff:
                self._age(entry.enqueued_ms)
            else:
                if entry.state is not State.IN_FLIGHT:
                    self._take_out(entry)
                self._forget(entry, now_ms, changes)
                changes.remove(entry.seq)

    # -- time ------------------------------------------------------------------------------------------------

    def advance(self, now_ms: int, changes: Changes) -> None:
        """Let time pass: what is due by now becomes available, what is too old goes."""
        while self._timers and self._timers[0][0] <= now_ms:
            due_ms, seq = heapq.heappop(self._timers)
            entry = self.index.get(seq)
            if entry is not None:
                self._due(entry, due_ms, now_ms, changes.durable)
        if self._oldest_ms + self.settings.retention_ms <= now_ms >= self._swept_ms + _SWEEP_PAUSE_MS:
            self._sweep(now_ms, changes)
        if not self.lookups and self.reading is None:
            self._ghosts.lay(changes.durable)

    def refresh(self, now_ms: int, changes: Changes) -> None:
        """Let time pass, and count exactly: no pause between two sweeps."""
        self._swept_ms = 0
        self.advance(now_ms, changes)

    def _due(self, entry: Entry, due_ms: int, now_ms: int, durable: int) -> None:
        if entry.due_ms == due_ms and entry.state is not State.READY:
            self._wake(entry, now_ms, durable)

    def _wake(self, entry: Entry, now_ms: int, durable: int) -> None:
        """A message in flight is available again."""
        assert entry.state is State.IN_FLIGHT
        lane = self.lanes[entry.group]
        self.in_flight -= 1
        lane.in_flight -= 1
        self._show(entry, now_ms, durable)
        self._after_flight(lane, now_ms)
        self._drop_if_empty(lane)

    def _hide(self, entry: Entry, due_ms: int) -> None:
        """A message in hand or in flight stays hidden until then."""
        assert entry.state is State.IN_FLIGHT
        entry.due_ms = due_ms
        self._set_timer(due_ms, entry.seq)

    def next_deadline_ms(self) -> int:
        """When something may become available if nothing else happens; NEVER if nothing can."""
        return self._timers[0][0] if self._timers else NEVER

    def next_sweep_ms(self) -> int:
        """When the oldest message comes of age; NEVER if there is none."""
        oldest = min(self._oldest_ms, NEVER if self.complete else self._stored_oldest_ms)
        if oldest == NEVER:
            return NEVER
        return max(oldest + self.settings.retention_ms, self._swept_ms + _SWEEP_PAUSE_MS)

    def _set_timer(self, due_ms: int, seq: int) -> None:
        heapq.heappush(self._timers, (due_ms, seq))
        # Timers of messages that are gone stay until due; rebuild before they outnumber the living.
        if len(self._timers) > 64 + 2 * len(self.index):
            self._timers = self._living_timers()
            heapq.heapify(self._timers)

    def _living_timers(self) -> list[tuple[int, int]]:
        return [(entry.due_ms, seq) for seq, entry in self.index.items() if entry.state is not State.READY]

    # -- keeping ---------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Is every message of the queue in memory?"""
        return len(self.index) == self.total

    def _lane(self, group: str | None, now_ms: int) -> L:
        lane = self.lanes.get(group)
        if lane is None:
            lane = self.lanes[group] = self._new_lane(group, now_ms)
            self.budget.used += LANE_BYTES
        return lane

    def _count_newcomer(self, entry: Entry) -> None:
        self.total += 1
        self._ghosts.discard(entry.seq)  # a queue may be its own dead-letter queue

    def _lane_for_newcomer(self, entry: Entry, now_ms: int) -> L | None:
        """The lane of a message that just arrived; None if it waits behind the frontier."""
        if not self.unlisted and entry.group not in self.lanes and len(self.lanes) >= self.limits.lanes_max:
            self.unlisted = True
            self.frontier = entry.position - 1
        if self.unlisted and entry.position > self.frontier:
            self._unlisted_since_read = True
            self._only_stored(entry.enqueued_ms)
            return None
        return self._lane(entry.group, now_ms)

    def _has_room(self, lane: L) -> bool:
        if lane.spilled or lane.reading:
            return False
        return lane.ready < self._floor(lane) or (
            lane.ready < self.limits.lane_window_max and self.budget.room()
        )

    def _floor(self, lane: L) -> int:
        """How many a lane may keep in memory whatever the budget says."""
        if lane.group is None:
            return self.limits.lane_floor
        # Few groups may keep enough for one receive each; of many, only the first message of each stays.
        return max(1, min(self.limits.lane_floor, self.limits.groups_floor // len(self.lanes)))

    def _keep(self, entry: Entry) -> None:
        self.index[entry.seq] = entry
        self.budget.keep(entry.content)
        self._age(entry.enqueued_ms)

    def _load(self, row: EntryRow) -> Entry:
        """A stored message comes into memory; its content only if there is room for it."""
        entry = Entry(
            row.seq, row.position, row.group, row.enqueued_ms, row.due_ms, row.receives, row.receives_before,
            row.first_received_ms, row.source, row.content if self.budget.room() else None,
        )  # fmt: skip
        self._keep(entry)
        return entry

    def _spill(self, lane: L, entry: Entry) -> None:
        """From now on only the store has this waiting message."""
        if self.index.pop(entry.seq, None) is not None:
            self.budget.drop(entry.content)
        entry.state = State.GONE
        if not lane.spilled or entry.position <= lane.loaded_to:
            # Whatever of this lane lies before is in memory or gone.
            lane.loaded_to = entry.position - 1
        lane.spill()
        self._only_stored(entry.enqueued_ms)

    def _age(self, enqueued_ms: int) -> None:
        if enqueued_ms < self._oldest_ms:
            self._oldest_ms = enqueued_ms

    def _only_stored(self, enqueued_ms: int) -> None:
        if enqueued_ms < self._stored_oldest_ms:
            self._stored_oldest_ms = enqueued_ms

    # -- paging ----------------------------------------------------------------------------------------------

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
