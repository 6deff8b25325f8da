"""Standard queues: at least once, oldest first as far as possible, fair between tenants."""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heappop
from operator import attrgetter
from typing import Any

from penstock.errors import MessageNotAvailable, PenstockError
from penstock.queues import paging
from penstock.queues.backlog import NEVER, Backlog, Restored
from penstock.queues.fairness import Fairness, NoisyTenants, TenantLane
from penstock.queues.messages import (
    Content,
    Counts,
    Entry,
    Outgoing,
    Sent,
    State,
    encode_content,
)
from penstock.queues.queue import Queue, Tools
from penstock.queues.receipts import Receipt
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.changes import POSITION_GAP, Changes, EntryRow
from penstock.turns import Steps, in_pieces

_ENTRIES_PER_STEP = 2000


class StandardQueue(Queue):
    def __init__(self, record: QueueRecord, tools: Tools) -> None:
        super().__init__(record.id, record.settings, tools)
        self.backlog: Backlog[TenantLane] = Backlog(
            tools.limits,
            tools.budget,
            record.settings.retention_ms,
            record.purged_to,
            TenantLane,
            tools.pause,
        )
        self._fairness = Fairness(tools.limits, record.settings.group_in_flight_max)
        # SQS: a message that was received several times goes behind those that wait, so that it does not block them.
        self._new_place_after = tools.limits.new_place_after_receives

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        super().configure(settings, now_ms)
        self._fairness.in_flight_max = settings.group_in_flight_max

    def redefine(self, record: QueueRecord) -> None:
        super().redefine(record)
        self._fairness.in_flight_max = record.settings.group_in_flight_max

    # -- sending ---------------------------------------------------------------------------------------------

    def send(
        self, messages: list[Outgoing], now_ms: int, wall_ms: int, changes: Changes
    ) -> tuple[list[Sent], list[Entry]]:
        """Decide a send. The entries join by :meth:`arrive` once the commit is durable."""
        sent, entries = [], []
        for message in messages:
            # SQS: a delay is fixed at the send: the message's own, otherwise the queue's at that time.
            delay_ms = self.settings.delay_ms if message.delay_ms is None else message.delay_ms
            number = self.next_number()
            id = self.message_id(number)
            content = Content(id, message.body, message.sender, wall_ms, message.attributes, message.trace)
            entry = Entry(
                number, number * POSITION_GAP, message.group, now_ms, now_ms + delay_ms if delay_ms else 0,
                content=encode_content(content),
            )  # fmt: skip
            changes.add(self.id, entry)
            sent.append(Sent(id))
            entries.append(entry)
        return sent, entries

    def arrive(self, entries: list[Entry], now_ms: int) -> None:
        backlog = self.backlog
        for entry in entries:
            if entry.position <= backlog.purged_to:
                continue  # purged while it was on its way
            if entry.due_ms > now_ms or entry.due_ms >= backlog.delayed_from_ms:
                backlog.add_delayed(entry)
                continue
            lane = backlog.add(entry, now_ms)
            if lane is None:
                continue
            lane.last_sent_ms = now_ms
            if entry.state is State.READY:
                lane.put(entry)
                self._fairness.offer(lane)
            else:
                backlog.wants_more(lane)

    # -- receiving -------------------------------------------------------------------------------------------

    def _pick(self, now_ms: int) -> Entry | None:
        backlog = self.backlog
        lane = self._fairness.choose(backlog.lanes, backlog.in_flight, now_ms)
        if lane is None:
            return None
        entry = lane.pop()
        lane.in_flight += 1
        backlog.in_flight += 1
        entry.state = State.IN_FLIGHT
        self._fairness.offer(lane)
        if lane.stored:
            backlog.wants_more(lane)
        return entry

    def _end_picking(self, now_ms: int) -> None:
        pass

    def _take_out(self, entry: Entry) -> None:
        backlog = self.backlog
        lane = backlog.lane(entry.group, entry.enqueued_ms)
        if entry.state is State.DELAYED:
            backlog.delayed -= 1
            backlog.delayed_in_memory -= 1
        else:
            lane.take_out(entry)
            self._fairness.offer(lane)
            backlog.wants_more(lane)
        entry.state = State.IN_FLIGHT
        lane.in_flight += 1
        backlog.in_flight += 1

    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        assert entry.state is State.IN_FLIGHT
        lane = self.backlog.lanes[entry.group]
        self.backlog.in_flight -= 1
        lane.in_flight -= 1
        self._make_ready(entry, now_ms, durable)
        if self.settings.group_in_flight_max:
            self._fairness.offer(lane)  # it may be full no longer

    def _make_ready(self, entry: Entry, now_ms: int, durable: int) -> None:
        """A message that comes back takes its place by position; or it is left to the store, if that has the rest."""
        backlog = self.backlog
        lane = backlog.lane(entry.group, now_ms)
        if (
            # It waits behind messages that only the store has,
            lane.stored
            and entry.position > lane.loaded_to
            # and the reads to come will find it there.
            and entry.commit <= durable
            and not backlog.reading
            and not backlog.lookups
            and entry.due_ms < backlog.delayed_from_ms
        ):
            backlog.leave_to_store(lane, entry)
        else:
            self._put(lane, entry)

    def _put(self, lane: TenantLane, entry: Entry) -> None:
        entry.state = State.READY
        lane.put(entry)
        self._fairness.offer(lane)

    def _forget(self, entry: Entry, now_ms: int, commit: int) -> None:
        lane = self.backlog.remove(entry, commit)
        if lane.empty:
            self._fairness.forget(lane)
            self.backlog.drop_if_empty(lane)
        elif self.settings.group_in_flight_max:
            self._fairness.offer(lane)  # it may be full no longer

    # -- receipts: valid for as long as the message lives ----------------------------------------------------

    def _refuse_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return None

    def _refuse_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        return MessageNotAvailable() if entry is None else None

    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        backlog, entry = self.backlog, self.backlog.load(row)
        if not row.receives and row.due_ms >= backlog.delayed_from_ms:
            # Hidden by a receive that was not durable before a crash: it counts as delayed.
            backlog.keep_delayed(entry)
        else:
            self._put(backlog.lane(entry.group, now_ms), entry)
        return entry

    # -- time and settings -----------------------------------------------------------------------------------

    def advance(self, now_ms: int, changes: Changes, *, exact: bool = False) -> None:
        backlog = self.backlog
        while backlog.timers and backlog.timers[0][0] <= now_ms:
            due_ms, seq = heappop(backlog.timers)
            entry = backlog.index.get(seq)
            if entry is None or entry.due_ms != due_ms:
                continue
            if entry.state is State.IN_FLIGHT:
                self._show(entry, now_ms, changes.durable)
            elif entry.state is State.DELAYED:
                backlog.delayed -= 1
                backlog.delayed_in_memory -= 1
                self._make_ready(entry, now_ms, changes.durable)
        for entry in backlog.expired(now_ms, pause=not exact):
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            self._forget(entry, now_ms, changes.number)
            changes.expire(self.id, entry)
        backlog.forget_removed(changes.durable)

    def next_deadline_ms(self) -> int:
        """When something may become ready if nothing else happens; NEVER if nothing can."""
        timers = self.backlog.timers
        return min(timers[0][0] if timers else NEVER, self.backlog.delayed_from_ms)

    def next_expiry_ms(self) -> int:
        """When :meth:`advance` has something to expire."""
        return self.backlog.next_expiry_ms()

    # -- counting and paging ---------------------------------------------------------------------------------

    def counts(self, now_ms: int) -> Counts:
        backlog = self.backlog
        visible = backlog.total - backlog.in_flight - backlog.delayed
        return Counts(visible, backlog.in_flight, backlog.delayed)

    @property
    def has_tenants(self) -> bool:
        """Whether messages have groups."""
        lanes = self.backlog.lanes
        return len(lanes) > (None in lanes)

    def noisy_groups(self, now_ms: int) -> int | None:
        """How many tenants are noisy; None if no message has a group."""
        return len(self._fairness.noisy(now_ms)) if self.has_tenants else None

    def noisy_tenants(
        self, now_ms: int, came_ms: Callable[[Entry], int] = attrgetter("enqueued_ms")
    ) -> Steps[NoisyTenants]:
        """What noisy tenants have at this moment, although the walk over the messages may pause. What only the store
        has of delayed messages does not count. ``came_ms``: when a message came into the queue, not before it was
        sent."""
        index, noisy = self.backlog.index, dict(self._fairness.noisy(now_ms))
        ready = sum(tenant.ready for tenant in noisy.values())
        in_flight = sum(tenant.in_flight for tenant in noisy.values())
        stored = sum(tenant.stored for tenant in noisy.values())
        counted = NoisyTenants(len(noisy), ready + stored, in_flight)
        # The walk ends with the last of the messages that are quiet or delayed.
        wanted = len(index) - ready - in_flight
        return self._with_others(counted, noisy, list(index.values()) if wanted else [], wanted, came_ms)

    def _with_others(
        self,
        counted: NoisyTenants,
        noisy: Container[str | None],
        entries: list[Entry],
        wanted: int,
        came_ms: Callable[[Entry], int],
    ) -> Steps[NoisyTenants]:
        delayed, quiet_oldest_ms = 0, NEVER
        for piece in in_pieces(entries, _ENTRIES_PER_STEP):
            for entry in piece:
                if entry.group not in noisy:
                    wanted -= 1
                    if entry.enqueued_ms < quiet_oldest_ms and not self.is_set_aside(entry):
                        quiet_oldest_ms = min(quiet_oldest_ms, came_ms(entry))
                elif entry.state is State.DELAYED:
                    wanted -= 1
                    delayed += 1
                if not wanted:
                    break
            if not wanted:
                break
            yield
        return counted._replace(
            delayed=delayed, quiet_oldest_ms=None if quiet_oldest_ms == NEVER else quiet_oldest_ms
        )

    def counts_lag(self, now_ms: int) -> bool:
        """Whether something has come due or expired in the store that the counts do not know yet."""
        return self.backlog.stored_expired(now_ms) or self.backlog.delayed_from_ms <= now_ms

    def next_read(self, now_ms: int) -> paging.Read | None:
        backlog = self.backlog
        if paging.nothing_to_read(backlog, now_ms):
            return None
        ready = len(backlog.index) - backlog.in_flight - backlog.delayed_in_memory
        # What noisy or full tenants have at hand does not count, or they would keep the others in the store.
        refill = ready - self._fairness.passed_over < self.limits.lane_window_max
        return paging.next_read(
            backlog,
            now_ms,
            due_ms_max=min(now_ms, backlog.delayed_from_ms - 1),
            at_hand=ready > self._fairness.full_ready,
            refill=refill,
            list_more=False,
        )

    def apply(self, read: paging.Read, answer: Any, now_ms: int, changes: Changes) -> None:
        """The store's answer to :meth:`next_read`."""
        backlog = self.backlog
        if isinstance(read, paging.ReadWaiting):
            for lane, entries in paging.apply_waiting(backlog, read, answer):
                lane.put_all(entries)
                self._fairness.offer(lane)
                backlog.wants_more(lane)
                backlog.drop_if_empty(lane)
        elif isinstance(read, paging.ReadGroups):
            for lane in paging.apply_groups(backlog, read, answer, now_ms):
                backlog.wants_more(lane)
        elif isinstance(read, paging.ReadDelayed):
            paging.apply_delayed(backlog, read, answer)
        else:
            paging.apply_expired(backlog, read, answer, changes)

    def restore(self, restored: Restored, now_ms: int) -> None:
        self.backlog.restore(restored, now_ms)

    def reset(self) -> None:
        self.backlog.reset()
        self._fairness.clear()

    def trim(self, durable: int) -> None:
        """Give memory back: leave all but the floor of each lane to the store."""
        backlog = self.backlog
        if not backlog.may_trim:
            return
        for lane in backlog.lanes.values():
            while backlog.excess(lane) > 0 and (entry := lane.last()) is not None:
                if entry.commit > durable or entry.due_ms >= backlog.delayed_from_ms:
                    break
                lane.pop_last()
                backlog.leave_to_store(lane, entry)
