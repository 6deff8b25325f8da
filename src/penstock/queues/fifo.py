"""FIFO queues: exactly once in, in order out, one group at a time.

Within a group, messages go out in order up to the first that is in flight or delayed: a message in flight blocks all
behind it, and one that is in flight does not block those before it. Groups that can go on stand in a rotation.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from penstock.errors import HandleExpired, MessageNotAvailable, PenstockError
from penstock.queues import paging
from penstock.queues.backlog import NEVER, Backlog, Lane, Restored
from penstock.queues.deduplication import DedupMemory, content_id
from penstock.queues.messages import (
    Content,
    Counts,
    Delivery,
    Entry,
    Hold,
    Outgoing,
    ReceiveResult,
    Sent,
    State,
    encode_content,
)
from penstock.queues.queue import Queue, Tools
from penstock.queues.receipts import Receipt
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.changes import POSITION_GAP, Changes, DedupRow, EntryRow


class GroupLane(Lane):
    """A message group: its first messages in order, those in flight among them."""

    __slots__ = ("delayed_until_ms", "entries", "in_rotation")

    def __init__(self, group: str | None, loaded_to: int, now_ms: int) -> None:
        super().__init__(group, loaded_to)
        self.entries: list[Entry] = []
        self.in_rotation = False
        self.delayed_until_ms = 0  # the time of the timer for its first message


class Attempt(NamedTuple):
    """A receive that can be repeated under its ReceiveRequestAttemptId."""

    until_ms: int
    deliveries: list[Delivery]
    due_ms: int  # until when the messages are hidden if nothing happened to them


class FifoQueue(Queue):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        super().__init__(record.id, record.settings, tools)
        self.backlog: Backlog[GroupLane] = Backlog(
            tools.limits, tools.budget, record.settings.retention_ms, record.purged_to, GroupLane, tools.pause
        )
        self.dedup = DedupMemory(tools.dedup_usage, record.name.account)
        self._former = tools.former
        self._send_digest = tools.former.send_digests(record.id) or tools.send_digest
        self._rotation: deque[GroupLane] = deque()  # groups whose first message can go out, in their order
        self._picked = 0  # how many messages of the first group the receive under way has picked
        # A group cannot go on before it is known what waits behind the frontier.
        self._blocked_by_frontier = False
        self._delayed_heads: list[tuple[int, str | None]] = []  # a heap of (due_ms, group)
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()
        self.groups_in_flight = 0  # with messages in flight

    # -- sending ---------------------------------------------------------------------------------------------

    def send(
        self, messages: list[Outgoing], now_ms: int, wall_ms: int, changes: Changes
    ) -> tuple[list[Sent], list[Entry]]:
        """Decide a send. The entries join by :meth:`arrive` once the commit is durable. Raises DedupFull."""
        self._forget_sends(now_ms, changes)
        self.dedup.check_room(len(messages))
        sent, entries = [], []
        for message in messages:
            # SQS: without a deduplication id, the SHA-256 of the body stands for it; attributes do not count.
            dedup_id = message.dedup_id or content_id(message.body)
            one, is_new = self._number(dedup_id, message.group, now_ms, changes)
            sent.append(one)
            if not is_new:
                continue
            number = one.sequence
            assert number is not None, "it is new"
            content = Content(
                one.id, message.body, message.sender, wall_ms, message.attributes, message.trace, dedup_id
            )
            # SQS: the delay is the queue's, never the message's, and a change of it counts for waiting messages too.
            entry = Entry(
                number, number * POSITION_GAP, message.group, now_ms, content=encode_content(content)
            )
            changes.add(self.id, entry)
            entries.append(entry)
        return sent, entries

    def admit(self, dedup_id: str, group: str | None, now_ms: int, changes: Changes) -> tuple[Sent, bool]:
        """Decide whether a message is new, and remember it, without storing it: of a FIFO topic, which passes its
        messages on. Returns the number and the id of the first message, and whether this is it. Raises DedupFull."""
        self._forget_sends(now_ms, changes)
        self.dedup.check_room(1)
        return self._number(dedup_id, group, now_ms, changes)

    def _number(self, dedup_id: str, group: str | None, now_ms: int, changes: Changes) -> tuple[Sent, bool]:
        """The number and the id of a message, or those of the first one that it repeats; and whether it is new."""
        per_group = self.settings.dedup_scope == "messageGroup"
        digest = self._send_digest(dedup_id, group if per_group else None)
        first = self.dedup.find(digest, now_ms)
        if first is not None:
            # SQS: a duplicate answers as the first send did.
            return self._former.first_send(first) or Sent(self.message_id(first), first), False
        number = self.next_number()
        until_ms = now_ms + self.limits.dedup_window_ms
        self.dedup.remember(digest, number, until_ms)
        changes.dedup.append(DedupRow(self.id, number, digest, until_ms))
        return Sent(self.message_id(number), number), True

    def _forget_sends(self, now_ms: int, changes: Changes) -> None:
        upto, rows = self.dedup.forget(now_ms)
        if upto:
            changes.forget_sends(self.id, upto, rows)

    def arrive(self, entries: list[Entry], now_ms: int) -> None:
        backlog = self.backlog
        for entry in entries:
            if entry.position <= backlog.purged_to:
                continue  # purged while it was on its way
            lane = backlog.add(entry, now_ms)
            if lane is None:
                continue
            if entry.state is State.READY:
                lane.entries.append(entry)
                lane.ready += 1
                self._rotate_in(lane, now_ms)
            else:
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
        hold: Hold | None = None,
    ) -> ReceiveResult:
        """A receive that its caller may repeat after losing the answer.

        SQS: a repeated ReceiveRequestAttemptId gives the same messages and handles again, hidden again, as long as
        none of them was deleted or changed since."""
        self.advance(now_ms, changes)
        attempt = self._attempts.pop(attempt_id, None)
        due_ms = now_ms + visibility_ms
        if attempt is None or attempt.until_ms <= now_ms or not self._is_untouched(attempt):
            result = self.receive(count, visibility_ms, receives_max, now_ms, wall_ms, changes, hold)
            attempt = Attempt(now_ms + self.limits.attempt_window_ms, result.deliveries, due_ms)
        else:
            for delivery in attempt.deliveries:
                entry = self.backlog.index[delivery.seq]
                self._hide(entry, due_ms)
                entry.hold = hold
                changes.update(self.id, entry)
            attempt = attempt._replace(due_ms=due_ms)
            result = ReceiveResult(attempt.deliveries, [])
        if result.deliveries and len(self._attempts) < self.limits.attempts_max:
            # Bodies are read again from the store if the attempt is repeated.
            slim = [msgspec.structs.replace(delivery, content=None) for delivery in attempt.deliveries]
            self._attempts[attempt_id] = attempt._replace(deliveries=slim)
        return result

    def _is_untouched(self, attempt: Attempt) -> bool:
        entries = [self.backlog.index.get(delivery.seq) for delivery in attempt.deliveries]
        return all(
            entry is not None
            and entry.state is State.IN_FLIGHT
            and entry.receives == delivery.receives
            and entry.due_ms == attempt.due_ms
            for entry, delivery in zip(entries, attempt.deliveries, strict=True)
        )

    def _pick(self, now_ms: int) -> Entry | None:
        # SQS: a receive takes as many as it can from the first available group, then from the next.
        while self._rotation:
            lane = self._rotation[0]
            entry = lane.entries[self._picked] if self._picked < len(lane.entries) else None
            if entry is not None and self._can_go_out(lane, entry, now_ms):
                self._picked += 1
                self._take_out(entry)
                return entry
            self._end_turn(now_ms)
        return None

    def _end_picking(self, now_ms: int) -> None:
        if self._picked:
            self._end_turn(now_ms)

    def _end_turn(self, now_ms: int) -> None:
        """The first group goes behind the others if it still has a message that can go out."""
        lane = self._rotation.popleft()
        lane.in_rotation = False
        self._picked = 0
        self._rotate_in(lane, now_ms)
        self._wants_more(lane)
        self.backlog.drop_if_empty(lane)

    def _can_go_out(self, lane: GroupLane, entry: Entry, now_ms: int) -> bool:
        return (
            entry.state is State.READY
            and self._is_next(lane, entry)
            and entry.enqueued_ms + self.settings.delay_ms <= now_ms
        )

    def _is_next(self, lane: GroupLane, entry: Entry) -> bool:
        """Whether no message of the group that only the store has is before this one."""
        return not (self._follows_stored(lane, entry) or self._is_behind_frontier(entry))

    def _follows_stored(self, lane: GroupLane, entry: Entry) -> bool:
        """Whether the store may have a message of the group before this one.

        It may after a restart or an edit: both fill memory with those in flight first, whatever waits before them."""
        return lane.stored > 0 and entry.position > lane.loaded_to + 1

    def _is_behind_frontier(self, entry: Entry) -> bool:
        return self.backlog.unlisted and entry.position > self.backlog.frontier

    def _rotate_in(self, lane: GroupLane, now_ms: int) -> None:
        """Put the group at the end of the rotation if its first message can go out."""
        if lane.in_rotation or not lane.entries:
            return
        head = lane.entries[0]
        if head.state is not State.READY:
            return
        if not self._is_next(lane, head):
            self._wants_more(lane)
            return
        due_ms = head.enqueued_ms + self.settings.delay_ms
        if due_ms <= now_ms:
            lane.in_rotation = True
            self._rotation.append(lane)
        elif lane.delayed_until_ms != due_ms:
            lane.delayed_until_ms = due_ms
            heappush(self._delayed_heads, (due_ms, lane.group))

    def _take_out(self, entry: Entry) -> None:
        lane = self.backlog.lanes[entry.group]
        entry.state = State.IN_FLIGHT
        lane.ready -= 1
        lane.in_flight += 1
        self.backlog.in_flight += 1
        if lane.in_flight == 1:
            self.groups_in_flight += 1

    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        assert entry.state is State.IN_FLIGHT
        lane = self.backlog.lanes[entry.group]
        entry.state = State.READY
        self.backlog.in_flight -= 1
        lane.in_flight -= 1
        if not lane.in_flight:
            self.groups_in_flight -= 1
        lane.ready += 1
        self._rotate_in(lane, now_ms)
        self._wants_more(lane)

    def _forget(self, entry: Entry, now_ms: int, commit: int) -> None:
        lane = self.backlog.remove(entry, commit)
        if not lane.in_flight:
            self.groups_in_flight -= 1
        place = next(i for i, candidate in enumerate(lane.entries) if candidate is entry)
        del lane.entries[place]
        if place < self._picked and self._rotation[0] is lane:
            self._picked -= 1
        self._rotate_in(lane, now_ms)
        self._wants_more(lane)
        self.backlog.drop_if_empty(lane)

    # -- receipts: only the latest receive's, and only while the message is hidden by it ---------------------

    def _refuse_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None if entry is None or self._is_current(receipt, entry) else HandleExpired()

    def _refuse_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None if entry is not None and self._is_current(receipt, entry) else MessageNotAvailable()

    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        # Only judged by its receipt, which is not current: what only the store has is visible.
        return Entry(row.seq, row.position, row.group, row.enqueued_ms)

    # -- time and settings -----------------------------------------------------------------------------------

    def advance(self, now_ms: int, changes: Changes, *, exact: bool = False) -> None:
        backlog = self.backlog
        while backlog.timers and backlog.timers[0][0] <= now_ms:
            due_ms, seq = heappop(backlog.timers)
            entry = backlog.index.get(seq)
            if entry is not None and entry.due_ms == due_ms and entry.state is State.IN_FLIGHT:
                self._show(entry, now_ms, changes.durable)
        while self._delayed_heads and self._delayed_heads[0][0] <= now_ms:
            lane = backlog.lanes.get(heappop(self._delayed_heads)[1])
            if lane is not None:
                lane.delayed_until_ms = 0
                self._rotate_in(lane, now_ms)
        for entry in backlog.expired(now_ms, pause=not exact):
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            self._forget(entry, now_ms, changes.number)
            changes.expire(self.id, entry)
        backlog.forget_removed(changes.durable)
        self._forget_sends(now_ms, changes)
        while self._attempts and next(iter(self._attempts.values())).until_ms <= now_ms:
            self._attempts.popitem(last=False)

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        super().configure(settings, now_ms)
        for lane in self.backlog.lanes.values():
            self._rotate_in(lane, now_ms)

    def next_deadline_ms(self) -> int:
        """When something may become ready if nothing else happens; NEVER if nothing can."""
        timers, heads = self.backlog.timers, self._delayed_heads
        return min(timers[0][0] if timers else NEVER, heads[0][0] if heads else NEVER)

    def next_expiry_ms(self) -> int:
        """When :meth:`advance` has something to expire: a message, a remembered send or a receive attempt."""
        expires_ms = [self.backlog.next_expiry_ms()]
        if (send_ms := self.dedup.next_expiry_ms()) is not None:
            expires_ms.append(send_ms)
        if self._attempts:
            expires_ms.append(next(iter(self._attempts.values())).until_ms)
        return min(expires_ms)

    # -- counting and paging ---------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> Counts | None:
        """None if the store must be asked how many messages are younger than the delay: then ``counts_with``."""
        if not self.settings.delay_ms:
            return self.counts_with(0, now_ms)
        if not self.backlog.complete:
            return None
        entries = self.backlog.index.values()
        young = sum(entry.enqueued_ms + self.settings.delay_ms > now_ms for entry in entries)
        return self.counts_with(young, now_ms)

    def counts_with(self, young: int, now_ms: int) -> Counts:
        """``young`` messages are younger than the delay. Those of them in flight are not delayed."""
        backlog = self.backlog
        if young and backlog.in_flight:
            young -= sum(
                entry.state is State.IN_FLIGHT and entry.enqueued_ms + self.settings.delay_ms > now_ms
                for entry in backlog.index.values()
            )
        delayed = max(0, min(young, backlog.total - backlog.in_flight))
        return Counts(backlog.total - backlog.in_flight - delayed, backlog.in_flight, delayed)

    def counts_lag(self, now_ms: int) -> bool:
        """Whether something has expired in the store that the counts do not know yet."""
        return self.backlog.stored_expired(now_ms)

    def next_read(self, now_ms: int) -> paging.Read | None:
        if paging.nothing_to_read(self.backlog, now_ms):
            return None
        return paging.next_read(
            self.backlog,
            now_ms,
            due_ms_max=NEVER,  # a group is read in order, whatever the state of its messages
            at_hand=bool(self._rotation),
            refill=len(self._rotation) < self.limits.refill_lanes,
            list_more=self._blocked_by_frontier,
        )

    def _wants_more(self, lane: GroupLane) -> None:
        """Ask for what the group needs from the store: a message before its first in memory, or its next ones.

        A first message in flight is not a reason to wait: it does not block those before it."""
        head = lane.entries[0] if lane.entries else None
        if head is None:
            self.backlog.wants_more(lane)
        elif self._follows_stored(lane, head):
            if not lane.reading:
                self.backlog.to_refill[lane.group] = lane
        elif self._is_behind_frontier(head):
            self._blocked_by_frontier = True
        # A group that is blocked can wait; it is read ahead only while there is memory.
        elif self.backlog.budget.has_room():
            self.backlog.wants_more(lane)

    def apply(self, read: paging.Read, answer: Any, now_ms: int, changes: Changes) -> None:
        """The store's answer to :meth:`next_read`."""
        backlog = self.backlog
        if isinstance(read, paging.ReadWaiting):
            for lane, entries in paging.apply_waiting(backlog, read, answer):
                lane.ready += len(entries)
                lane.entries += entries
                lane.entries.sort(key=_position)  # after a restart, some in flight were there before
                self._rotate_in(lane, now_ms)
                self._wants_more(lane)
                backlog.drop_if_empty(lane)
        elif isinstance(read, paging.ReadGroups):
            for lane in paging.apply_groups(backlog, read, answer, now_ms):
                self._wants_more(lane)
            if self._blocked_by_frontier:
                self._blocked_by_frontier = False
                for lane in backlog.lanes.values():
                    self._rotate_in(lane, now_ms)
                    self._wants_more(lane)
        else:
            assert isinstance(read, paging.ReadExpired), "no message of a FIFO queue has a delay of its own"
            paging.apply_expired(backlog, read, answer, changes)

    def restore(self, restored: Restored, now_ms: int) -> None:
        for lane, entry in self.backlog.restore(restored, now_ms):
            insort(lane.entries, entry, key=_position)
        for lane in self.backlog.lanes.values():
            self._wants_more(lane)
        self.groups_in_flight = sum(lane.in_flight > 0 for lane in self.backlog.lanes.values())

    def recall(self, sends: Sequence[DedupRow]) -> None:
        """The sends that the store remembers, oldest first."""
        self.dedup.recall(sends)

    def reset(self) -> None:
        self.backlog.reset()
        self._rotation.clear()
        self._picked = 0
        self._blocked_by_frontier = False
        self._delayed_heads.clear()
        self._attempts.clear()
        self.dedup.clear()
        self.groups_in_flight = 0

    def trim(self, durable: int) -> None:
        """Give memory back: leave all but the floor of each lane to the store."""
        backlog = self.backlog
        if not backlog.may_trim:
            return
        for lane in backlog.lanes.values():
            while (
                backlog.excess(lane) > 0
                and lane.entries[-1].state is State.READY
                and lane.entries[-1].commit <= durable
            ):
                entry = lane.entries.pop()
                lane.ready -= 1
                backlog.leave_to_store(lane, entry)


def _position(entry: Entry) -> int:
    return entry.position
