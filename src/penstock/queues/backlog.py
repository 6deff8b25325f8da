"""The backlog of a queue: which of its messages are in memory, what the store has, and what is past its retention.

A queue may hold millions of messages; memory holds some of them. Messages are kept in *lanes*, one per message group
and one (``None``) for messages without a group. A lane has its first messages in memory; at most ``stored`` more are
in the store only, all behind the position ``loaded_to``. Lanes and not one slice of the whole queue, so that a large
group does not push the others out of memory. A queue with very many groups knows only the first of them: behind the
position ``frontier`` not even the groups are known (``unlisted``). (SQS itself looks only at the first 120,000
messages of a FIFO queue for available groups.)

    a message that is    | is in memory                 | if only the store has it
    ---------------------+------------------------------+---------------------------------------------
    sent, not durable    | no, see ``arriving``         | a read leaves it out: it is added on arrival
    ready                | ``index`` and its lane       | behind ``loaded_to`` or behind ``frontier``
    delayed              | ``index`` and a timer        | due at or after ``delayed_from_ms``
    in flight            | ``index`` and a timer        | never: all of them are in memory
    removed, not durable | ``_removed``                 | a read leaves it out

Memory and store stay in step by three invariants:

- A message is left to the store only when its last change is durable, so that a read finds it as it is.
- One read at a time. Rows that memory knows already, or that were removed meanwhile, are left out.
- ``Lane.stored`` is an upper bound. Too high is corrected by the next read that comes back short; too low would leave
  a message unread for ever.

Nothing here reads a clock or does IO: times are arguments, and :mod:`penstock.queues.paging` names what to read.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Set
from typing import Generic, NamedTuple, TypeVar

import msgspec

from penstock.limits import SECOND, Limits
from penstock.queues.messages import Delivery, Entry, Hold, State
from penstock.store.changes import EntryRow, RecordKind
from penstock.store.moving import to_all_fed

NEVER = 1 << 62
ENTRY_BYTES = 320  # an entry with its places in index and lane, measured
LANE_BYTES = 480  # a lane with its places in the queue, measured
_SWEEP_PAUSE_MS = SECOND


class Budget:
    """Counts the bytes that all queues keep in memory. It refuses nothing: a lane keeps a few messages in any case.

    The deduplication memory is counted separately (:class:`penstock.queues.deduplication.DedupUsage`). It cannot be
    given back before it expires: as part of this budget it would push every other queue's messages out of
    memory."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def has_room(self) -> bool:
        return self.used < self.bytes_max


class Restored(NamedTuple):
    """What the store says of a queue when its memory is filled."""

    total: int
    delayed: int
    in_flight: list[EntryRow]
    oldest_ms: int | None


class Lane:
    """The messages of one group: counts of those in memory, and what the store has more."""

    __slots__ = ("group", "in_flight", "loaded_to", "reading", "ready", "stored", "stored_since_read")

    def __init__(self, group: str | None, loaded_to: int) -> None:
        self.group = group
        self.ready = 0  # in memory
        self.in_flight = 0
        self.stored = 0  # at most this many more are ready in the store only
        self.stored_since_read = 0
        self.loaded_to = loaded_to
        self.reading = False

    @property
    def empty(self) -> bool:
        return not (self.ready or self.in_flight or self.stored or self.reading)


class ExpiryPause(msgspec.Struct, frozen=True):
    """Only messages that were past their retention before it began expire until it ends.

    The pause begins at a start after a long time by the clock, which may be wrong now or was wrong then: an operator
    can still raise the retention of the queues."""

    since_ms: int = 0
    until_ms: int = 0

    @classmethod
    def at_start(cls, pause_ms: int, last_ms: int, now_ms: int, before: ExpiryPause | None) -> ExpiryPause:
        """``last_ms``: when the shard was last written. ``before``: the pause that began at an earlier start; it
        begins again if it had not ended then."""
        if before is not None and last_ms < before.until_ms:
            return cls(before.since_ms, now_ms + pause_ms)
        if 0 < last_ms < now_ms - pause_ms:
            return cls(last_ms, now_ms + pause_ms)
        return NO_PAUSE


NO_PAUSE = ExpiryPause()
EXPIRY_PAUSES = RecordKind("expiry_pause", ExpiryPause, to_all_fed)
L = TypeVar("L", bound=Lane)


class Backlog(Generic[L]):
    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        retention_ms: int,
        purged_to: int,
        new_lane: Callable[[str | None, int, int], L],
        pause: ExpiryPause,
    ) -> None:
        """``new_lane(group, loaded_to, now_ms)`` makes a lane of the queue's own kind."""
        self.limits = limits
        self.budget = budget
        self.retention_ms = retention_ms
        self.purged_to = purged_to  # everything up to this position was purged
        self._new_lane = new_lane
        self._pause = pause
        self.index: dict[int, Entry] = {}
        # Of messages in flight, by seq, while memory is thrown away and loaded again.
        self.holds: dict[int, Hold] = {}
        self.lanes: dict[str | None, L] = {}
        # Lanes that need more from the store, first come first served.
        self.to_refill: dict[str | None, L] = {}
        self.total = 0
        self.in_flight = 0
        self.delayed = 0
        self.delayed_in_memory = 0
        self.delayed_from_ms = NEVER  # delayed messages that only the store has are due at or after this time
        self.unlisted = False  # whether there may be messages behind the frontier
        self.frontier = purged_to
        # A heap of (due_ms, seq); an item is void if the entry has another due time.
        self.timers: list[tuple[int, int]] = []
        self.reading = False  # whether a read is under way
        self.arriving: Set[int] = frozenset()  # messages that may be durable before the queue knows them
        self.lookups = 0  # messages being looked up in the store by seq, beside the read
        self._removed: set[int] = set()  # left memory, and the store may still show them
        self._removed_order: deque[tuple[int, int]] = deque()  # (commit, seq)
        self.unlisted_since_read = False
        self.delayed_since_read_ms = NEVER
        self.delayed_rows_max = limits.refill_rows
        self._oldest_ms = NEVER  # no message in memory was enqueued before: exact after each sweep
        self.stored_oldest_ms = NEVER  # the same for messages that only the store has
        self._swept_ms = 0
        # The search for expired messages in the store goes on behind this position, because those found before are
        # still there until their removal is durable.
        self.expired_to = 0
        self.expired_cutoff_ms = NEVER

    # -- arriving --------------------------------------------------------------------------------------------

    def add(self, entry: Entry, now_ms: int) -> L | None:
        """Count a message that becomes ready on arrival, and keep it if there is room; otherwise its state is GONE.

        Returns its lane; None if it is behind the frontier."""
        self.total += 1
        if self._removed:
            self._removed.discard(entry.seq)  # a queue may be its own dead-letter queue
        lane = self.lanes.get(entry.group)
        if lane is None and not self.unlisted and len(self.lanes) >= self.limits.lanes_max:
            self.unlisted = True
            self.frontier = entry.position - 1
        if self.unlisted and entry.position > self.frontier:
            self.unlisted_since_read = True
            self._only_stored(entry.enqueued_ms)
            return None
        if lane is None:
            lane = self.lane(entry.group, now_ms)
        budget = self.budget
        has_room = not (lane.stored or lane.reading) and (
            lane.ready < self.limits.lane_window_max
            if budget.used < budget.bytes_max
            else lane.ready < self._floor(lane)
        )
        if has_room:
            self._keep(entry)
            entry.state = State.READY
            lane.loaded_to = entry.position
        else:
            self.leave_to_store(lane, entry)
        return lane

    def add_delayed(self, entry: Entry) -> None:
        """Count a message that is delayed on arrival, and keep it if there is room."""
        self.total += 1
        self.delayed += 1
        self._removed.discard(entry.seq)
        window_max = self.limits.delayed_window_max
        if self.delayed_from_ms == NEVER and self.delayed_in_memory < window_max and self.budget.has_room():
            self._keep(entry)
            self.keep_delayed(entry)
        else:
            self.delayed_from_ms = min(self.delayed_from_ms, entry.due_ms)
            self.delayed_since_read_ms = min(self.delayed_since_read_ms, entry.due_ms)
            self._only_stored(entry.enqueued_ms)

    def keep_delayed(self, entry: Entry) -> None:
        """A delayed message is in memory: its timer makes it ready."""
        entry.state = State.DELAYED
        self.delayed_in_memory += 1
        self.set_timer(entry.due_ms, entry.seq)

    def lane(self, group: str | None, now_ms: int) -> L:
        lane = self.lanes.get(group)
        if lane is None:
            lane = self.lanes[group] = self._new_lane(group, self.purged_to, now_ms)
            self.budget.used += LANE_BYTES
        return lane

    def load(self, row: EntryRow) -> Entry:
        """Keep a message that was read from the store."""
        # Attributes of a named tuple, one by one, take longer than all else here.
        (
            seq, _, position, group, enqueued_ms, due_ms, receives, receives_before, first_received_ms, source,
            content, size, version,
        ) = row  # fmt: skip
        entry = Entry(
            seq, position, group, enqueued_ms, due_ms, receives, receives_before, first_received_ms, source, content,
            size, version,
        )  # fmt: skip
        self._keep(entry)
        return entry

    def _keep(self, entry: Entry) -> None:
        budget, content = self.budget, entry.content
        if content is not None and budget.used >= budget.bytes_max:
            content = entry.content = None  # the store has it
        self.index[entry.seq] = entry
        budget.used += ENTRY_BYTES if content is None else ENTRY_BYTES + len(content)
        if entry.enqueued_ms < self._oldest_ms:
            self._oldest_ms = entry.enqueued_ms

    # -- leaving ---------------------------------------------------------------------------------------------

    def remove(self, entry: Entry, commit: int) -> L:
        """A message in flight leaves the queue with this commit. Returns its lane."""
        assert entry.state is State.IN_FLIGHT
        lane = self.lanes[entry.group]
        seq = entry.seq
        self._removed.add(seq)
        self._removed_order.append((commit, seq))
        del self.index[seq]
        self.budget.used -= ENTRY_BYTES if entry.content is None else ENTRY_BYTES + len(entry.content)
        self.total -= 1
        self.in_flight -= 1
        lane.in_flight -= 1
        entry.state = State.GONE
        return lane

    def mark_removed(self, seq: int, commit: int) -> None:
        """Reads leave this message out until the commit is durable."""
        self._removed.add(seq)
        self._removed_order.append((commit, seq))

    def drop_if_empty(self, lane: L) -> None:
        if lane.empty and self.lanes.get(lane.group) is lane:
            del self.lanes[lane.group]
            self.to_refill.pop(lane.group, None)
            self.budget.used -= LANE_BYTES

    def leave_to_store(self, lane: L, entry: Entry) -> None:
        """Leave this ready message to the store alone."""
        if self.index.pop(entry.seq, None) is not None:
            self.budget.used -= ENTRY_BYTES + len(entry.content or b"")
        entry.state = State.GONE
        if not lane.stored or entry.position <= lane.loaded_to:
            # Everything of this lane before it is in memory or gone.
            lane.loaded_to = entry.position - 1
        lane.stored += 1
        lane.stored_since_read += 1
        self._only_stored(entry.enqueued_ms)

    def _only_stored(self, enqueued_ms: int) -> None:
        if enqueued_ms < self.stored_oldest_ms:
            self.stored_oldest_ms = enqueued_ms

    def undo_receive(self, delivery: Delivery) -> Entry | None:
        """The message as if it had not been received; None if something happened to it since."""
        entry = self.index.get(delivery.seq)
        if entry is None or entry.receives != delivery.receives:
            return None
        entry.receives -= 1
        if not entry.receives:
            entry.first_received_ms = 0
        if entry.content is None and delivery.content is not None:
            entry.content = delivery.content
            self.budget.used += len(delivery.content)
        return entry

    def reset(self) -> None:
        """Forget everything; :meth:`restore` fills the memory again."""
        for entry in self.index.values():
            self.budget.used -= ENTRY_BYTES + len(entry.content or b"")
            if entry.hold is not None and entry.state is State.IN_FLIGHT:
                self.holds[entry.seq] = entry.hold
            entry.state = State.GONE
        self.budget.used -= LANE_BYTES * len(self.lanes)
        self.index.clear()
        self.lanes.clear()
        self.to_refill.clear()
        self.timers.clear()
        self._removed.clear()
        self._removed_order.clear()
        self.total = self.in_flight = self.delayed = self.delayed_in_memory = 0
        self.unlisted = self.reading = False
        self.delayed_from_ms = self._oldest_ms = self.stored_oldest_ms = self.expired_cutoff_ms = NEVER
        self.expired_to = 0

    def restore(self, restored: Restored, now_ms: int) -> list[tuple[L, Entry]]:
        """Fill the empty memory of a queue: messages in flight now, with their lanes; the rest by reads."""
        assert not self.index
        self.total = restored.total
        self.delayed = restored.delayed
        self.unlisted = restored.total > restored.delayed + len(restored.in_flight)
        self.frontier = self.purged_to
        if restored.delayed:
            self.delayed_from_ms = now_ms + 1
        if restored.oldest_ms is not None:
            self.stored_oldest_ms = restored.oldest_ms
        loaded = []
        for row in restored.in_flight:
            entry, lane = self.load(row), self.lane(row.group, now_ms)
            entry.state = State.IN_FLIGHT
            entry.hold = self.holds.get(row.seq)
            lane.in_flight += 1
            self.in_flight += 1
            self.set_timer(row.due_ms, row.seq)
            loaded.append((lane, entry))
        self.holds.clear()
        return loaded

    # -- timers and retention --------------------------------------------------------------------------------

    def set_timer(self, due_ms: int, seq: int) -> None:
        heapq.heappush(self.timers, (due_ms, seq))
        # Void timers stay until due; rebuild before they outnumber the others.
        if len(self.timers) > 64 + 2 * len(self.index):
            waiting = (entry for entry in self.index.values() if entry.state is not State.READY)
            self.timers = [(entry.due_ms, entry.seq) for entry in waiting]
            heapq.heapify(self.timers)

    def expiry_cutoff_ms(self, now_ms: int) -> int:
        """Messages enqueued at or before this time are past their retention."""
        if now_ms < self._pause.until_ms:
            now_ms = self._pause.since_ms
        return now_ms - self.retention_ms

    def expired(self, now_ms: int, pause: bool = True) -> list[Entry]:
        """Messages in memory that are past their retention; the queue removes them.

        Looking through all of memory pauses a second between two runs. In the pause, a receive passes over expired
        messages by itself. Those that only the store has are found by ReadExpired."""
        cutoff_ms = self.expiry_cutoff_ms(now_ms)
        if self._oldest_ms > cutoff_ms or (pause and now_ms < self._swept_ms + _SWEEP_PAUSE_MS):
            return []
        self._swept_ms = now_ms
        expired = [entry for entry in self.index.values() if entry.enqueued_ms <= cutoff_ms]
        younger = (entry.enqueued_ms for entry in self.index.values() if entry.enqueued_ms > cutoff_ms)
        self._oldest_ms = min(younger, default=NEVER)
        return expired

    def next_expiry_ms(self) -> int:
        """When the oldest message passes its retention; NEVER if there is none."""
        oldest_ms = min(self._oldest_ms, NEVER if self.complete else self.stored_oldest_ms)
        if oldest_ms == NEVER:
            return NEVER
        expires_ms, pause = oldest_ms + self.retention_ms, self._pause
        if pause.since_ms < expires_ms < pause.until_ms:
            expires_ms = pause.until_ms
        return max(expires_ms, self._swept_ms + _SWEEP_PAUSE_MS)

    def stored_expired(self, now_ms: int) -> bool:
        """Whether messages are past their retention that only the store has."""
        oldest_ms = self.stored_oldest_ms
        return oldest_ms != NEVER and oldest_ms <= self.expiry_cutoff_ms(now_ms) and not self.complete

    def forget_removed(self, durable: int) -> None:
        """Forget removals up to this commit. Does nothing while a read is under way that may have begun before it."""
        order = self._removed_order
        if not self.reading and not self.lookups:
            while order and order[0][0] <= durable:
                self._removed.discard(order.popleft()[1])

    # -- memory and store ------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether every message of the queue is in memory."""
        return len(self.index) == self.total

    def is_new(self, row: EntryRow) -> bool:
        """Whether this row of a read is a message that memory does not have and should have."""
        seq = row[0]
        return not (seq in self.index or seq in self._removed or seq in self.arriving)

    def knows(self, seq: int) -> bool:
        """Whether memory can say if this message is in the queue."""
        return seq in self.index or len(self.index) == self.total or seq in self._removed

    def wants_more(self, lane: L) -> None:
        """Refill this lane by one of the next reads, if it has more in the store and little in memory."""
        if lane.stored and not lane.reading and lane.ready < self._low_water(lane):
            self.to_refill[lane.group] = lane

    def _floor(self, lane: L) -> int:
        """How many messages a lane may keep in memory whatever the budget says."""
        if lane.group is None:
            return self.limits.lane_floor
        # With few groups, enough for one receive from each; with many, only the first message of each.
        return max(1, min(self.limits.lane_floor, self.limits.groups_floor // len(self.lanes)))

    def _low_water(self, lane: L) -> int:
        """A lane with fewer messages in memory is refilled; over the budget, only if it is about to run out."""
        if not self.budget.has_room():
            return (self._floor(lane) + 1) // 2
        return max(10, self.limits.refill_rows // (4 * len(self.lanes)))

    def excess(self, lane: L) -> int:
        """How many messages a lane has in memory beyond its floor."""
        return lane.ready - self._floor(lane)

    @property
    def may_trim(self) -> bool:
        """Whether messages may be left to the store: not while the answer of a read may contradict it."""
        return not (self.reading or self.unlisted or self.lookups)
