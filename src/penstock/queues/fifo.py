"""FIFO queues: exactly once in, in order out, one group at a time.

Rule 1: within a group, messages go out in order, up to the first that is in flight or delayed. So a message in
        flight blocks all behind it, and one behind it that is in flight does not block those before.
Rule 2: a receive takes as many as it can from the first available group, then goes to the next. A group that
        becomes available again stands behind those that wait.
Rule 3: the delay is the queue's, never the message's, and a change of it counts for waiting messages too.
Rule 4: a delete or a change of visibility needs the latest receive, and that the message is still hidden by it.
Rule 5: a send is remembered, see :mod:`penstock.queues.dedup`; a duplicate answers as the first send did.
Rule 6: a repeated ReceiveRequestAttemptId within its window gives the same messages and handles again, hidden
        anew, as long as none of them was deleted or changed since.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import msgspec

from penstock.errors import HandleExpired, MessageNotAvailable, PenstockError
from penstock.queues import dedup
from penstock.queues.lane import Lane
from penstock.queues.message import Counts, Entry, Outgoing, Sent, State
from penstock.queues.queue import Delivery, Queue, Taken
from penstock.queues.reads import ReadGroups
from penstock.queues.receipts import Receipt
from penstock.queues.settings import QueueSettings
from penstock.queues.window import NEVER, Tools
from penstock.store.changes import Changes, DedupRow, EntryRow, QueueRecord


class FifoLane(Lane):
    """A group: its first messages in order, those in flight among them."""

    __slots__ = ("entries", "in_line")

    def __init__(self, group: str | None, loaded_to: int) -> None:
        super().__init__(group, loaded_to)
        self.entries: list[Entry] = []
        self.in_line = False  # stands in the rotation

    def remove(self, entry: Entry) -> int:
        for i, candidate in enumerate(self.entries):
            if candidate is entry:
                del self.entries[i]
                return i
        raise AssertionError("a message is in its group")


class Attempt(NamedTuple):
    until_ms: int
    deliveries: list[Delivery]
    due_ms: int  # until when they are hidden if nobody touched them


class FifoQueue(Queue[FifoLane]):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        super().__init__(record, tools)
        self._rotation: deque[FifoLane] = deque()  # groups whose head can go out, in their order
        self._cursor = 0  # how many of the first group the receive under way has taken
        self._blind = False  # some group cannot go on before it is known what waits behind the frontier
        self._account = record.name.account
        self._dedup_usage = tools.dedup_usage
        self._dedup = dedup.DedupMemory(tools.dedup_usage, record.name.account)
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()

    # -- sending ---------------------------------------------------------------------------------------------

    def check_room(self, messages: int, now_ms: int, changes: Changes) -> None:
        self._forget_sends(now_ms, changes)
        self._dedup_usage.check(self._account, messages)

    def send(
        self, message: Outgoing, now_ms: int, wall_ms: int, changes: Changes
    ) -> tuple[Sent, Entry | None]:
        self._forget_sends(now_ms, changes)
        dedup_id = message.dedup_id or dedup.content_id(message.body)
        per_group = self.settings.dedup_scope == "messageGroup"
        key = self.send_digest(dedup_id, message.group if per_group else None)
        first = self._dedup.find(key, now_ms)
        if first is not None:
            return Sent(self.message_id(first), first), None
        sent, entry = self._new_entry(message, 0, dedup_id, now_ms, wall_ms, changes)
        until_ms = now_ms + self.limits.dedup_window_ms
        self._dedup.remember(key, entry.seq, until_ms)
        changes.dedup.append(DedupRow(self.id, entry.seq, key, until_ms))
        return sent, entry

    def _forget_sends(self, now_ms: int, changes: Changes) -> None:
        upto, rows = self._dedup.forget(now_ms)
        if upto:
            changes.forget_sends(self.id, upto, rows)

    def forget_all_sends(self) -> None:
        self._dedup.clear()

    def recall(self, sends: Sequence[DedupRow]) -> None:
        """The sends that the store remembers, oldest first."""
        self._dedup.recall(sends)

    def arrive(self, entry: Entry, now_ms: int) -> None:
        self._count_newcomer(entry)
        lane = self._lane_for_newcomer(entry, now_ms)
        if lane is None:
            return
        if self._has_room(lane):
            self._keep(entry)
            entry.state = State.READY
            lane.entries.append(entry)
            lane.ready += 1
            lane.loaded_to = entry.position
            self._stand_in_line(lane, now_ms)
        else:
            self._spill(lane, entry)
            self._wants_more(lane)

    # -- receiving -------------------------------------------------------------------------------------------

    def receive_attempt(
        self,
        attempt_id: str,
        count: int,
        visibility_ms: int,
        receives_max: int | None,
        now_ms: int,
        wall_ms: int,
        changes: Changes,
    ) -> Taken:
        """A receive that its caller may repeat after losing the answer."""
        self.advance(now_ms, changes)
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None or attempt.until_ms <= now_ms or not self._untouched(attempt):
            taken = self.receive(count, visibility_ms, receives_max, now_ms, wall_ms, changes)
            attempt = Attempt(
                now_ms + self.limits.attempt_window_ms, taken.deliveries, now_ms + visibility_ms
            )
        else:
            for delivery in attempt.deliveries:
                entry = self.index[delivery.seq]
                self._hide(entry, now_ms + visibility_ms)
                changes.update(self.id, entry)
            attempt = attempt._replace(due_ms=now_ms + visibility_ms)
            taken = Taken(attempt.deliveries, [])
        if taken.deliveries and len(self._attempts) < self.limits.attempts_max:
            # Bodies are read again from the store if the attempt is repeated.
            slim = [msgspec.structs.replace(delivery, content=None) for delivery in attempt.deliveries]
            self._attempts[attempt_id] = attempt._replace(deliveries=slim)
        return taken

    @property
    def remembered_attempts(self) -> int:
        return len(self._attempts)

    def _untouched(self, attempt: Attempt) -> bool:
        entries = [self.index.get(delivery.seq) for delivery in attempt.deliveries]
        return all(
            entry is not None
            and entry.state is State.IN_FLIGHT
            and entry.receives == delivery.receives
            and entry.due_ms == attempt.due_ms
            for entry, delivery in zip(entries, attempt.deliveries, strict=True)
        )

    def _forget_attempts(self, now_ms: int) -> None:
        while self._attempts:
            oldest = next(iter(self._attempts.values()))
            if oldest.until_ms > now_ms:
                return
            self._attempts.popitem(last=False)

    def pass_over(
        self, deliveries: Iterable[Delivery], shut: Container[int], now_ms: int, changes: Changes
    ) -> list[Delivery]:
        deliveries = list(deliveries)
        blocked: dict[str | None, int] = {}  # group -> position from which on it has to wait
        for delivery in deliveries:
            if delivery.seq in shut:
                blocked.setdefault(delivery.group, delivery.position)
        rest = super().pass_over(deliveries, shut, now_ms, changes)
        behind = [delivery for delivery in rest if delivery.position > blocked.get(delivery.group, NEVER)]
        self.take_back(behind, now_ms, changes)
        return [delivery for delivery in rest if delivery not in behind]

    def _start_picking(self) -> None:
        self._cursor = 0

    def _pick(self, now_ms: int) -> Entry | None:
        while self._rotation:
            lane = self._rotation[0]
            entry = lane.entries[self._cursor] if self._cursor < len(lane.entries) else None
            if entry is not None and self._is_next(lane, entry) and self._deliverable(entry, now_ms):
                self._cursor += 1
                self._take_in_hand(lane, entry)
                return entry
            self._leave_line(now_ms)
        return None

    def _end_picking(self, now_ms: int) -> None:
        if self._cursor:
            self._leave_line(now_ms)

    def _leave_line(self, now_ms: int) -> None:
        lane = self._rotation.popleft()
        lane.in_line = False
        self._cursor = 0
        self._stand_in_line(lane, now_ms)
        self._wants_more(lane)
        self._drop_if_empty(lane)

    def _is_next(self, lane: FifoLane, entry: Entry) -> bool:
        """Is nothing of the group before this message that only the store has?

        After a restart those in flight are in memory first, whatever waits before them."""
        if self.unlisted and entry.position > self.frontier:
            return False
        return not lane.spilled or entry.position <= lane.loaded_to

    def _deliverable(self, entry: Entry, now_ms: int) -> bool:
        return entry.state is State.READY and entry.enqueued_ms + self.settings.delay_ms <= now_ms

    def _take_in_hand(self, lane: FifoLane, entry: Entry) -> None:
        entry.state = State.IN_FLIGHT
        lane.ready -= 1
        lane.in_flight += 1
        self.in_flight += 1

    # -- groups ----------------------------------------------------------------------------------------------

    def _new_lane(self, group: str | None, now_ms: int) -> FifoLane:
        return FifoLane(group, self.purged_to)

    def _stand_in_line(self, lane: FifoLane, now_ms: int) -> None:
        """Put the group at the end of the rotation if its head can go out; else wait for what it lacks."""
        if lane.in_line or not lane.entries:
            return
        head = lane.entries[0]
        if head.state is not State.READY:
            return
        if not self._is_next(lane, head):
            self._wants_more(lane)
        elif self._deliverable(head, now_ms):
            lane.in_line = True
            self._rotation.append(lane)
        else:
            self._set_timer(head.enqueued_ms + self.settings.delay_ms, head.seq)

    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        entry.state = State.READY
        self.lanes[entry.group].ready += 1

    def _take_out(self, entry: Entry) -> None:
        self._take_in_hand(self.lanes[entry.group], entry)

    def _leave(self, lane: FifoLane, entry: Entry) -> None:
        i = lane.remove(entry)
        if self._rotation and self._rotation[0] is lane and i < self._cursor:
            self._cursor -= 1

    def _after_flight(self, lane: FifoLane, now_ms: int) -> None:
        self._stand_in_line(lane, now_ms)
        self._wants_more(lane)

    def _wants_more(self, lane: FifoLane) -> None:
        head = lane.entries[0] if lane.entries else None
        if head is not None and head.state is State.READY and not self._is_next(lane, head):
            if lane.spilled and not lane.reading:
                self.hungry[lane.group] = lane
            elif not lane.spilled:
                self._blind = True
        # A locked group can wait; it is read ahead only while memory is plenty.
        elif self.budget.room() or head is None:
            super()._wants_more(lane)

    def _may_list(self) -> bool:
        return self._blind or super()._may_list()

    def apply_groups(
        self, asked: ReadGroups, groups: Iterable[tuple[str | None, int, int]], last: int, now_ms: int
    ) -> None:
        super().apply_groups(asked, groups, last, now_ms)
        if self._blind:
            self._blind = False
            for lane in self.lanes.values():
                self._stand_in_line(lane, now_ms)

    def _admit(self, lane: FifoLane, entries: list[Entry], now_ms: int) -> None:
        lane.ready += len(entries)
        lane.entries += entries
        lane.entries.sort(key=_by_position)  # after a restart, some in flight were there before
        self._stand_in_line(lane, now_ms)

    def _join_in_flight(self, lane: FifoLane, entry: Entry) -> None:
        insort(lane.entries, entry, key=_by_position)

    # -- time and settings -----------------------------------------------------------------------------------

    def advance(self, now_ms: int, changes: Changes) -> None:
        super().advance(now_ms, changes)
        self._forget_sends(now_ms, changes)
        self._forget_attempts(now_ms)

    def next_sweep_ms(self) -> int:
        """Also when the oldest remembered send or receive attempt expires."""
        expires_ms = [super().next_sweep_ms()]
        if (send_ms := self._dedup.next_expiry_ms()) is not None:
            expires_ms.append(send_ms)
        if self._attempts:
            expires_ms.append(next(iter(self._attempts.values())).until_ms)
        return min(expires_ms)

    def _due(self, entry: Entry, due_ms: int, now_ms: int, durable: int) -> None:
        if entry.state is State.READY:
            self._stand_in_line(self.lanes[entry.group], now_ms)
        else:
            super()._due(entry, due_ms, now_ms, durable)

    def _living_timers(self) -> list[tuple[int, int]]:
        timers = [(entry.due_ms, seq) for seq, entry in self.index.items() if entry.state is State.IN_FLIGHT]
        for lane in self.lanes.values():
            if not lane.in_line and lane.entries and lane.entries[0].state is State.READY:
                head = lane.entries[0]
                timers.append((head.enqueued_ms + self.settings.delay_ms, head.seq))
        return timers

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        super().configure(settings, now_ms)
        for lane in self.lanes.values():
            self._stand_in_line(lane, now_ms)

    # -- by receipt handle -----------------------------------------------------------------------------------

    def _held(self, receipt: Receipt, entry: Entry) -> bool:
        return entry.state is State.IN_FLIGHT and entry.receives == receipt.receives

    def _judge_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None if entry is None or self._held(receipt, entry) else HandleExpired()

    def _judge_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None if entry is not None and self._held(receipt, entry) else MessageNotAvailable()

    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        # What only the store has is visible: no receipt holds it. It must not jump its group's order either.
        return Entry(row.seq, row.position, row.group, row.enqueued_ms)

    # -- counting and paging ---------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> Counts | None:
        if not self.settings.delay_ms:
            return self.counts_with(0, now_ms)
        if not self.complete:
            return None
        young = sum(entry.enqueued_ms + self.settings.delay_ms > now_ms for entry in self.index.values())
        return self.counts_with(young, now_ms)

    def counts_with(self, young: int, now_ms: int) -> Counts:
        """``young``: how many are here for less than the delay. Those of them in flight are not delayed."""
        if young and self.in_flight:
            young -= sum(
                entry.state is State.IN_FLIGHT and entry.enqueued_ms + self.settings.delay_ms > now_ms
                for entry in self.index.values()
            )
        delayed = max(0, min(young, self.total - self.in_flight))
        return Counts(self.total - self.in_flight - delayed, self.in_flight, delayed)

    def reset(self) -> None:
        super().reset()
        self._rotation.clear()
        self._blind = False
        self._attempts.clear()
        self._dedup.clear()

    def due_ms_max(self, now_ms: int) -> int:
        return NEVER  # a group is read in order, whatever the state of its messages

    def _nothing_at_hand(self) -> bool:
        return not self._rotation

    def _should_refill(self) -> bool:
        return len(self._rotation) < self.limits.refill_lanes

    def trim(self, durable: int) -> None:
        if self.reading is not None or self.unlisted or self.lookups:
            return
        for lane in self.lanes.values():
            while (
                lane.ready > self._floor(lane)
                and lane.entries[-1].state is State.READY
                and lane.entries[-1].commit <= durable
            ):
                entry = lane.entries.pop()
                lane.ready -= 1
                self._spill(lane, entry)
                lane.loaded_to = entry.position - 1


def _by_position(entry: Entry) -> int:
    return entry.position
