"""Standard queues: at least once, oldest first as far as possible, fair between tenants.

Rule 1: messages are handed out in order of position; a message that comes back takes its old place.
Rule 2: from the third receive on a message takes a new place, behind all that wait at that moment.
Rule 3: a delay is fixed at the send: the message's own, else the queue's at that time.
Rule 4: a receipt handle works for as long as the message lives: an expired or superseded one still deletes and
        still changes the visibility.
Rule 5: tenants (message groups) are served fairly, see :mod:`penstock.queues.fairness`; they never lock.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from penstock.errors import MessageNotAvailable, PenstockError
from penstock.limits import SECOND
from penstock.queues.fairness import Fairness, Tenant
from penstock.queues.message import Counts, Entry, Outgoing, Sent, State
from penstock.queues.paged import Restored
from penstock.queues.queue import Delivery, Queue
from penstock.queues.reads import ReadDelayed
from penstock.queues.receipts import Receipt
from penstock.queues.window import NEVER, Tools
from penstock.store.changes import Changes, EntryRow, QueueRecord

_READ_AHEAD_MS = 2 * SECOND


class StandardLane(Tenant):
    """Waiting messages of one tenant: newcomers in order, and those that came back, by position.

    A message taken out of the middle leaves its place behind, counted in ``_void`` and passed over when its turn
    comes: to look for it would cost more the longer the lane is."""

    __slots__ = ("_void", "fresh", "returned")

    def __init__(self, group: str | None, loaded_to: int, now_ms: int) -> None:
        super().__init__(group, loaded_to, now_ms)
        self.fresh: deque[Entry] = deque()
        self.returned: list[tuple[int, int, Entry]] = []
        self._void: dict[int, int] = {}  # seq -> how many places it left behind

    @property
    def head_position(self) -> int | None:
        self._pass_over_void()
        if self._returned_first():
            return self.returned[0][0]
        return self.fresh[0].position if self.fresh else None

    def put(self, entry: Entry) -> None:
        if not self.fresh or entry.position > self.fresh[-1].position:
            self.fresh.append(entry)
        else:
            heappush(self.returned, (entry.position, entry.seq, entry))
        self.ready += 1

    def pop(self) -> Entry:
        if self._void:
            self._pass_over_void()
        self.ready -= 1
        if self.returned and self._returned_first():
            return heappop(self.returned)[2]
        return self.fresh.popleft()

    def pop_last(self) -> Entry:
        """The newest of the newcomers."""
        self.ready -= 1
        return self.fresh.pop()

    def last(self) -> Entry | None:
        while self.fresh and self._is_void(self.fresh[-1].seq):
            self.fresh.pop()
        return self.fresh[-1] if self.fresh else None

    def take_out(self, entry: Entry) -> None:
        self.ready -= 1
        self._void[entry.seq] = self._void.get(entry.seq, 0) + 1
        if len(self._void) > 64 + self.ready:
            self.fresh = deque(waiting for waiting in self.fresh if not self._is_void(waiting.seq))
            self.returned = [item for item in self.returned if not self._is_void(item[1])]
            heapify(self.returned)

    def _returned_first(self) -> bool:
        return bool(self.returned) and (not self.fresh or self.returned[0][0] < self.fresh[0].position)

    def _pass_over_void(self) -> None:
        while self._void and self.fresh and self._is_void(self.fresh[0].seq):
            self.fresh.popleft()
        while self._void and self.returned and self._is_void(self.returned[0][1]):
            heappop(self.returned)

    def _is_void(self, seq: int) -> bool:
        """Is this place left behind? It is asked once for each place, which then goes."""
        left = self._void.get(seq)
        if left is None:
            return False
        if left == 1:
            del self._void[seq]
        else:
            self._void[seq] = left - 1
        return True


class StandardQueue(Queue[StandardLane]):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        super().__init__(record, tools)
        self.delayed = 0
        self._delayed_in_memory = 0
        # Delayed messages page too: those that only the store has are all due at or after this time.
        self._asleep_from_ms = NEVER
        self._asleep_since_read_ms = NEVER
        self._asleep_rows_max = self.limits.refill_rows
        self._fairness: Fairness[StandardLane] = Fairness(self.limits)

    # -- sending ---------------------------------------------------------------------------------------------

    def send(
        self, message: Outgoing, now_ms: int, wall_ms: int, changes: Changes
    ) -> tuple[Sent, Entry | None]:
        delay_ms = self.settings.delay_ms if message.delay_ms is None else message.delay_ms
        return self._new_entry(message, now_ms + delay_ms if delay_ms else 0, None, now_ms, wall_ms, changes)

    def arrive(self, entry: Entry, now_ms: int) -> None:
        self._count_newcomer(entry)
        if entry.due_ms > now_ms or entry.due_ms >= self._asleep_from_ms:
            self._delay(entry)
            return
        lane = self._lane_for_newcomer(entry, now_ms)
        if lane is None:
            return
        lane.last_sent_ms = now_ms
        if self._has_room(lane):
            self._keep(entry)
            self._put(lane, entry)
            lane.loaded_to = entry.position
        else:
            self._spill(lane, entry)
            self._wants_more(lane)

    def _delay(self, entry: Entry) -> None:
        self.delayed += 1
        window = self.limits.asleep_window_max
        if self._asleep_from_ms == NEVER and self._delayed_in_memory < window and self.budget.room():
            self._keep(entry)
            self._let_sleep(entry)
        else:
            self._asleep_from_ms = min(self._asleep_from_ms, entry.due_ms)
            self._asleep_since_read_ms = min(self._asleep_since_read_ms, entry.due_ms)
            self._only_stored(entry.enqueued_ms)

    def _let_sleep(self, entry: Entry) -> None:
        """A delayed message is in memory: it is shown when its time comes."""
        entry.state = State.DELAYED
        self._delayed_in_memory += 1
        self._set_timer(entry.due_ms, entry.seq)

    # -- lanes -----------------------------------------------------------------------------------------------

    def _new_lane(self, group: str | None, now_ms: int) -> StandardLane:
        return StandardLane(group, self.purged_to, now_ms)

    def _put(self, lane: StandardLane, entry: Entry) -> None:
        entry.state = State.READY
        lane.put(entry)
        self._fairness.offer(lane)

    def _pick(self, now_ms: int) -> Entry | None:
        lane = self._fairness.choose(self.lanes, self.in_flight, now_ms)
        if lane is None:
            return None
        entry = lane.pop()
        lane.in_flight += 1
        self.in_flight += 1
        entry.state = State.IN_FLIGHT
        self._fairness.offer(lane)
        self._wants_more(lane)
        return entry

    def _deliver(self, entry: Entry, now_ms: int, wall_ms: int) -> Delivery:
        if entry.receives + 1 >= self.limits.tired_after_receives:
            entry.position = self.next_number()
        return super()._deliver(entry, now_ms, wall_ms)

    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        lane = self._lane(entry.group, now_ms)
        if self._belongs_to_store(lane, entry, durable):
            self._spill(lane, entry)
        else:
            self._put(lane, entry)

    def _belongs_to_store(self, lane: StandardLane, entry: Entry, durable: int) -> bool:
        """Does it wait behind what only the store has, and will a read find it there?"""
        if not lane.spilled or entry.position <= lane.loaded_to:
            return False
        reads_under_way = self.reading is not None or self.lookups
        return not reads_under_way and entry.commit <= durable and entry.due_ms < self._asleep_from_ms

    def _take_out(self, entry: Entry) -> None:
        lane = self._lane(entry.group, entry.enqueued_ms)
        if entry.state is State.DELAYED:
            self.delayed -= 1
            self._delayed_in_memory -= 1
        else:
            lane.take_out(entry)
            self._fairness.offer(lane)
            self._wants_more(lane)
        entry.state = State.IN_FLIGHT
        lane.in_flight += 1
        self.in_flight += 1

    def _after_flight(self, lane: StandardLane, now_ms: int) -> None:
        if not lane.in_flight and lane.empty:
            self._fairness.forget(lane)

    def _admit(self, lane: StandardLane, entries: list[Entry], now_ms: int) -> None:
        for entry in entries:
            self._put(lane, entry)

    def _join_in_flight(self, lane: StandardLane, entry: Entry) -> None:
        pass  # a standard lane holds only what waits

    # -- time ------------------------------------------------------------------------------------------------

    def _due(self, entry: Entry, due_ms: int, now_ms: int, durable: int) -> None:
        if entry.state is State.DELAYED:
            self.delayed -= 1
            self._delayed_in_memory -= 1
            self._show(entry, now_ms, durable)
        else:
            super()._due(entry, due_ms, now_ms, durable)

    # -- by receipt handle -----------------------------------------------------------------------------------

    def _judge_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None

    def _judge_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return MessageNotAvailable() if entry is None else None

    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        entry = self._load(row)
        if not row.receives and row.due_ms >= self._asleep_from_ms:
            # Hidden by a receive whose mark was lost in a crash: it counts as delayed.
            self._let_sleep(entry)
        else:
            self._put(self._lane(entry.group, now_ms), entry)
        return entry

    # -- counting and paging ---------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> Counts:
        return Counts(self.total - self.in_flight - self.delayed, self.in_flight, self.delayed)

    def reset(self) -> None:
        super().reset()
        self.delayed = self._delayed_in_memory = 0
        self._asleep_from_ms = NEVER
        self._fairness.clear()

    def restore(self, restored: Restored, now_ms: int) -> None:
        super().restore(restored, now_ms)
        self.delayed = restored.delayed
        if self.delayed:
            self._asleep_from_ms = now_ms + 1

    def due_ms_max(self, now_ms: int) -> int:
        return min(now_ms, self._asleep_from_ms - 1)

    def next_deadline_ms(self) -> int:
        return min(super().next_deadline_ms(), self._asleep_from_ms)

    def _nothing_at_hand(self) -> bool:
        return len(self.index) == self.in_flight + self._delayed_in_memory

    def _should_refill(self) -> bool:
        # What noisy tenants have at hand does not count, or they would keep the quiet ones in the store.
        ready = len(self.index) - self.in_flight - self._delayed_in_memory - self._fairness.noisy_ready
        return ready < self.limits.lane_window_max

    def _read_delayed(self, now_ms: int) -> ReadDelayed | None:
        if self._asleep_from_ms == NEVER:
            return None
        few = self._delayed_in_memory <= self.limits.asleep_window_max // 4
        if not few and self._asleep_from_ms > now_ms + _READ_AHEAD_MS:
            return None
        self._asleep_since_read_ms = NEVER
        return ReadDelayed(self._asleep_from_ms, self._asleep_rows_max)

    def apply_delayed(self, asked: ReadDelayed, rows: list[EntryRow]) -> None:
        self.reading = None
        news = [row for row in rows if self._is_news(row)]
        for row in news:
            self._let_sleep(self._load(row))
        full = len(rows) == asked.rows_max
        self._asleep_from_ms = min(rows[-1].due_ms if full else NEVER, self._asleep_since_read_ms)
        # Thousands can be due in the same millisecond: then the next read starts there again, and looks further.
        self._asleep_rows_max = (
            asked.rows_max * 2 if full and not news else self.limits.asleep_window_max // 2
        )

    def counts_lag(self, now_ms: int) -> bool:
        return super().counts_lag(now_ms) or self._asleep_from_ms <= now_ms

    def _vanished(self, row: EntryRow) -> None:
        if not row.receives and row.due_ms >= self._asleep_from_ms:
            self.delayed -= 1

    def trim(self, durable: int) -> None:
        if self.reading is not None or self.unlisted or self.lookups:
            return
        for lane in self.lanes.values():
            while lane.ready > self._floor(lane) and (entry := lane.last()) is not None:
                if entry.commit > durable or entry.due_ms >= self._asleep_from_ms:
                    break
                lane.pop_last()
                self._spill(lane, entry)
                lane.loaded_to = min(lane.loaded_to, entry.position - 1)
