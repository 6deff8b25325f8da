"""What a queue holds in memory: messages by name, lanes, counters, timers, and how messages come to leave it.

The rest of the queue is in the store; how the two are kept in step is told in :mod:`penstock.queues.paged`.
Nothing here reads a clock or waits: times are arguments.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from typing import Generic, NamedTuple, TypeVar

from penstock.limits import SECOND, Limits
from penstock.queues.budget import LANE_BYTES, Budget
from penstock.queues.dedup import DedupUsage
from penstock.queues.ghosts import Ghosts
from penstock.queues.lane import Lane
from penstock.queues.message import Entry, State
from penstock.queues.reads import Read
from penstock.store.changes import Changes, EntryRow, QueueRecord

NEVER = 1 << 62
_SWEEP_PAUSE_MS = SECOND

L = TypeVar("L", bound=Lane)


class Tools(NamedTuple):
    """What the rules need of the outside, passed in: limits, memory, numbers, ids, digests."""

    limits: Limits
    budget: Budget
    dedup_usage: DedupUsage
    next_number: Callable[[], int]
    message_id: Callable[[int], str]
    send_digest: Callable[[str, str | None], bytes]


class Window(ABC, Generic[L]):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        self.id = record.id
        self.settings = record.settings
        self.purged_to = record.purged_to
        self.limits, self.budget, _, self.next_number, self.message_id, self.send_digest = tools
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
        if not lane.in_flight:
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
        """A stored message is in memory from now on; its content only if there is room for it."""
        if not self.budget.room():
            entry.content = None
        self.index[entry.seq] = entry
        self.budget.keep(entry.content)
        self._age(entry.enqueued_ms)

    def _load(self, row: EntryRow) -> Entry:
        entry = Entry(
            row.seq, row.position, row.group, row.enqueued_ms, row.due_ms, row.receives, row.receives_before,
            row.first_received_ms, row.source, row.content,
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
