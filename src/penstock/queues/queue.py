"""What both kinds of queue do with messages in the same way: receive, take back, delete, change visibility, move out.

Every decision is made at once, in memory, and adds its changes to a batch; the caller replies when that batch is
durable. A sent message joins the queue by ``arrive`` only then. The two kinds, :mod:`penstock.queues.standard` and
:mod:`penstock.queues.fifo`, say which message is next and what a receipt is good for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.errors import HandleExpired, PenstockError, VisibilityTooLong
from penstock.limits import SECOND, Limits
from penstock.queues.backlog import NEVER, NO_PAUSE, Backlog, Budget, ExpiryPause
from penstock.queues.dead_letters import is_dead_letter
from penstock.queues.deduplication import DedupUsage
from penstock.queues.former_shards import NO_FORMER_SHARDS, FormerShards
from penstock.queues.messages import Delivery, Entry, Hold, ReceiveResult, State, position_of
from penstock.queues.receipts import MessageIds, Receipt
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.changes import Changes, EntryRow

_WITHDRAWN_MS = 60 * SECOND


class Tools(NamedTuple):
    """What the rules need from outside: limits, memory budgets, numbers, ids, digests."""

    limits: Limits
    budget: Budget
    dedup_usage: DedupUsage
    next_number: Callable[[], int]
    message_id: MessageIds
    send_digest: Callable[[str, str | None], bytes]
    former: FormerShards = NO_FORMER_SHARDS
    pause: ExpiryPause = NO_PAUSE


class NotInMemory(Exception):
    """The message is not in memory: the store must be asked before this can be decided.

    The caller counts ``backlog.lookups`` up, waits until all that was decided is durable, reads, decides again with
    the rows it found, and counts down.
    """


Stored = Mapping[int, EntryRow]


class Queue(ABC):
    backlog: Backlog[Any]
    _new_place_after = NEVER  # the number of receives after which a message takes a new place in the queue

    def __init__(self, id: int, settings: QueueSettings, tools: Tools) -> None:
        self.id = id
        self.settings = settings
        self.limits = tools.limits
        self.next_number = tools.next_number
        self.message_id = tools.message_id

    # -- what each kind decides ------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, now_ms: int, changes: Changes, *, exact: bool = False) -> None:
        """Let time pass: what is due by now becomes ready, what is past its retention goes.

        ``exact``: look for expired messages now, even if that was done within the last second."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all messages; ``restore`` fills the memory again."""

    @abstractmethod
    def _pick(self, now_ms: int) -> Entry | None:
        """Take the next message out of its lane; it counts as in flight, without a deadline."""

    @abstractmethod
    def _end_picking(self, now_ms: int) -> None:
        """The last :meth:`_pick` of a receive was made."""

    @abstractmethod
    def _take_out(self, entry: Entry) -> None:
        """Take a ready or delayed message out of the middle; it counts as in flight, without a deadline."""

    @abstractmethod
    def _show(self, entry: Entry, now_ms: int, durable: int) -> None:
        """A message in flight becomes ready."""

    @abstractmethod
    def _forget(self, entry: Entry, now_ms: int, commit: int) -> None:
        """A message in flight leaves this queue with this commit."""

    @abstractmethod
    def _refuse_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        """Why this receipt does not delete this message (None: it is gone already)."""

    @abstractmethod
    def _refuse_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None:
        """Why this receipt does not change the visibility of this message."""

    @abstractmethod
    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        """A message that only the store had, looked up by its receipt."""

    # -- receiving -------------------------------------------------------------------------------------------

    def receive(
        self,
        count: int,
        visibility_ms: int,
        receives_max: int | None,
        now_ms: int,
        wall_ms: int,
        changes: Changes,
        hold: Hold | None = None,
    ) -> ReceiveResult:
        """Hand out up to ``count`` messages. Those received ``receives_max`` times in this queue are dead instead.

        With ``limits.dead_letters_per_turn`` of them the receive ends, and messages may be left that it could hand
        out. ``hold``: who receives, to be kept with them."""
        self.advance(now_ms, changes)
        backlog = self.backlog
        cutoff_ms, in_flight_max = backlog.expiry_cutoff_ms(now_ms), self.limits.in_flight_max
        dead_max, fifo = self.limits.dead_letters_per_turn, self.settings.fifo
        deliveries: list[Delivery] = []
        dead: list[Entry] = []
        shown: list[Entry] = []
        while len(deliveries) < count and backlog.in_flight < in_flight_max:
            entry = self._pick(now_ms)
            if entry is None:
                break
            if entry.enqueued_ms <= cutoff_ms:
                self._forget(entry, now_ms, changes.number)
                changes.expire(self.id, entry)
                continue
            if receives_max is not None and is_dead_letter(entry, receives_max):
                self._forget(entry, now_ms, changes.number)
                dead.append(entry)
                if len(dead) == dead_max:
                    break
                continue
            entry.receives += 1
            if entry.receives >= self._new_place_after:
                entry.position = position_of(self.next_number())
            if not entry.first_received_ms:
                entry.first_received_ms = wall_ms
            # The receiver has the body now; it is read again from the store if the message comes back.
            content, entry.content = entry.content, None
            if content is not None:
                backlog.budget.used -= len(content)
            deliveries.append(Delivery(
                entry.seq, entry.position, entry.receives, entry.first_received_ms, now_ms, entry.group,
                entry.source, content,
            ))  # fmt: skip
            if visibility_ms:
                entry.hold = hold
                entry.due_ms = now_ms + visibility_ms
                backlog.set_timer(entry.due_ms, entry.seq)
                if fifo:
                    changes.update(self.id, entry)
                else:
                    # Most messages are deleted soon. A receive lost in a crash is only one more delivery.
                    changes.update_later(self.id, entry)
            else:
                shown.append(entry)
        self._end_picking(now_ms)
        for entry in shown:
            # Hidden for no time at all: delivered and counted, but not twice in one answer.
            self._show_now(entry, now_ms, changes)
        return ReceiveResult(deliveries, dead)

    def is_set_aside(self, message: Entry | EntryRow) -> bool:
        """SQS: a message of a standard queue that was received three times or more goes behind the others, and the
        age of the oldest message is that of the next one."""
        return message.receives - message.receives_before >= self._new_place_after

    def take_back(self, deliveries: Iterable[Delivery], now_ms: int, changes: Changes) -> None:
        """The receiver never got these: show them again at once, uncounted."""
        for delivery in deliveries:
            entry = self.backlog.undo_receive(delivery)
            if entry is None:
                continue
            if entry.state is State.IN_FLIGHT:
                self._show_now(entry, now_ms, changes)
            else:
                changes.update(self.id, entry)

    def _hide(self, entry: Entry, due_ms: int) -> None:
        """A message in flight stays hidden until then."""
        assert entry.state is State.IN_FLIGHT
        entry.due_ms = due_ms
        self.backlog.set_timer(due_ms, entry.seq)

    def _show_now(self, entry: Entry, now_ms: int, changes: Changes) -> None:
        entry.due_ms = 0
        changes.update(self.id, entry)
        self._show(entry, now_ms, changes.durable)

    # -- by receipt: the caller lets time pass by ``advance`` first, once for many receipts --------------------

    def delete(
        self, receipt: Receipt, now_ms: int, changes: Changes, stored: Stored | None = None
    ) -> PenstockError | None:
        """Raises NotInMemory if the store must be asked first; its answer is then passed as ``stored``."""
        entry = self.backlog.index.get(receipt.seq) or self._look_up(receipt, now_ms, stored)
        refusal = self._refuse_delete(receipt, entry)
        if refusal is None and entry is not None:
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            self._forget(entry, now_ms, changes.number)
            changes.remove(self.id, entry)
        return refusal

    def change_visibility(
        self,
        receipt: Receipt,
        visibility_ms: int,
        now_ms: int,
        changes: Changes,
        stored: Stored | None = None,
    ) -> PenstockError | None:
        """Does the same as :meth:`delete`, but the message stays hidden for the given time from now on."""
        entry = self.backlog.index.get(receipt.seq) or self._look_up(receipt, now_ms, stored)
        refusal = self._refuse_change(receipt, entry)
        if refusal is not None:
            return refusal
        assert entry is not None, "the visibility of a message that is gone cannot be changed"
        # SQS: a message is hidden for at most twelve hours from its receive on.
        if now_ms - receipt.received_ms + visibility_ms > self.limits.visibility_ms_max:
            return VisibilityTooLong()
        if visibility_ms:
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            # The handle proves a receive, which a crash may have undone: hidden and never received would be delayed.
            entry.receives = max(entry.receives, receipt.receives)
            self._hide(entry, now_ms + visibility_ms)
            changes.update(self.id, entry)
        elif entry.state is State.IN_FLIGHT:
            self._show_now(entry, now_ms, changes)
        return None

    def give_up(self, receipt: Receipt, now_ms: int, changes: Changes) -> Entry:
        """The receiver gives the message up, and it leaves this queue. The caller says where it goes.

        Raises HandleExpired if it is not in flight by this receive any more."""
        entry = self.held(receipt)
        if entry is None:
            raise HandleExpired
        self._forget(entry, now_ms, changes.number)
        return entry

    def held(self, receipt: Receipt) -> Entry | None:
        """The message that is in flight by this receive."""
        entry = self.backlog.index.get(receipt.seq)
        return entry if entry is not None and self._is_current(receipt, entry) else None

    def _is_current(self, receipt: Receipt, entry: Entry) -> bool:
        """Whether the message is in flight by this receive."""
        # An operator may have reset the count since: that is as if it had been sent then.
        return (
            entry.state is State.IN_FLIGHT
            and entry.receives == receipt.receives
            and entry.enqueued_ms <= receipt.received_ms
        )

    def _look_up(self, receipt: Receipt, now_ms: int, stored: Stored | None) -> Entry | None:
        """A message that is not in memory."""
        if self.backlog.knows(receipt.seq):
            return None
        if stored is None:
            raise NotInMemory
        row = stored.get(receipt.seq)
        # A purge may have come between the look into the store and this decision.
        return None if row is None or row.position <= self.backlog.purged_to else self._adopt(row, now_ms)

    # -- settings and purge ----------------------------------------------------------------------------------

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        self.settings = settings
        self.backlog.retention_ms = settings.retention_ms

    def redefine(self, record: QueueRecord) -> None:
        """The definition is again what it was before a commit that was refused; memory follows by ``restore``."""
        self.settings = record.settings
        self.backlog.retention_ms = record.settings.retention_ms
        self.backlog.purged_to = record.purged_to

    def purge(self, upto: int) -> None:
        """Void every message up to this position."""
        self.reset()
        self.backlog.holds.clear()
        self.backlog.purged_to = self.backlog.frontier = upto

    # -- moving messages to another queue ----------------------------------------------------------------------

    def withdraw(self, count: int, now_ms: int, changes: Changes) -> list[Entry]:
        """Hide ready messages for a move to another queue: uncounted, and ready again by themselves if it fails."""
        self.advance(now_ms, changes)
        cutoff_ms = self.backlog.expiry_cutoff_ms(now_ms)
        withdrawn: list[Entry] = []
        while len(withdrawn) < count and (entry := self._pick(now_ms)) is not None:
            if entry.enqueued_ms <= cutoff_ms:
                self._forget(entry, now_ms, changes.number)
                changes.expire(self.id, entry)
            else:
                self._hide(entry, now_ms + _WITHDRAWN_MS)
                withdrawn.append(entry)
        self._end_picking(now_ms)
        return withdrawn

    def give_back(self, withdrawn: Iterable[Entry], now_ms: int, changes: Changes) -> None:
        """Give back messages that do not move after all."""
        for entry in withdrawn:
            if entry.state is State.IN_FLIGHT:
                self._show_now(entry, now_ms, changes)

    def let_go(self, entry: Entry, now_ms: int, changes: Changes) -> bool:
        """A withdrawn message leaves this queue; False if it is no longer there. The caller says where it goes."""
        if self.backlog.index.get(entry.seq) is not entry or entry.state is not State.IN_FLIGHT:
            return False
        self._forget(entry, now_ms, changes.number)
        return True
