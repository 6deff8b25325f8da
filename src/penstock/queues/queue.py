"""What can be done with a queue, whatever its kind: send, receive, delete, hide, take back, move.

Every decision is made at once, in memory, and leaves its changes in a batch; the caller replies when that batch is
durable. A sent message joins the queue by :meth:`Queue.arrive` only then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import msgspec

from penstock.errors import PenstockError, VisibilityTooLong
from penstock.limits import SECOND
from penstock.queues.message import Content, Counts, Entry, Outgoing, Sent, State, encode_content
from penstock.queues.paged import PagedQueue
from penstock.queues.receipts import Receipt
from penstock.queues.settings import QueueSettings
from penstock.queues.window import L
from penstock.store.changes import Changes, EntryRow

_HOLD_MS = 60 * SECOND


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message handed out: what the receiver is told, and what is needed to take it back."""

    seq: int
    position: int
    receives: int
    first_received_ms: int
    received_ms: int
    group: str | None
    source: str | None
    content: bytes | None  # None: only the store has it


class Taken(NamedTuple):
    deliveries: list[Delivery]
    dead: list[Entry]  # received too often: to be moved to the dead-letter queue


class Unknown(Exception):
    """The message is not in memory: the store must be asked before this can be decided.

    The asker counts ``lookups`` up, waits until all that was decided is durable, reads, decides, counts down.
    """


Stored = Mapping[int, EntryRow]


class Queue(PagedQueue[L]):
    # -- what each kind of queue decides ---------------------------------------------------------------------

    def check_room(self, messages: int, now_ms: int, changes: Changes) -> None:
        """Raise if so many more cannot be sent; after this, no send of them is refused."""

    @abstractmethod
    def send(
        self, message: Outgoing, now_ms: int, wall_ms: int, changes: Changes
    ) -> tuple[Sent, Entry | None]:
        """Decide a send. The entry, if there is one, joins by :meth:`arrive` once its commit is durable."""

    @abstractmethod
    def arrive(self, entry: Entry, now_ms: int) -> None: ...

    @abstractmethod
    def _pick(self, now_ms: int) -> Entry | None:
        """Take the next message in hand: it counts as in flight, without a deadline."""

    def _start_picking(self) -> None:
        """A receive begins."""

    def _end_picking(self, now_ms: int) -> None:
        """It has taken what it takes."""

    @abstractmethod
    def _judge_delete(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None: ...

    @abstractmethod
    def _judge_change(self, receipt: Receipt, entry: Entry | None) -> PenstockError | None: ...

    @abstractmethod
    def counts(self, now_ms: int) -> Counts | None:
        """Exact counts; None if the store must be asked how many messages are still delayed."""

    @abstractmethod
    def trim(self, durable: int) -> None:
        """Give memory back: keep only the floor of each lane."""

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        self.settings = settings

    def _new_entry(
        self,
        message: Outgoing,
        due_ms: int,
        dedup_id: str | None,
        now_ms: int,
        wall_ms: int,
        changes: Changes,
    ) -> tuple[Sent, Entry]:
        number = self.next_number()
        id = self.message_id(number)
        content = Content(
            id, message.body, message.sender, wall_ms, message.attributes, message.trace, dedup_id
        )  # fmt: skip
        entry = Entry(number, number, message.group, now_ms, due_ms, content=encode_content(content))
        changes.add(self.id, entry)
        return Sent(id, number if self.settings.fifo else None), entry

    # -- receiving -------------------------------------------------------------------------------------------

    def receive(
        self,
        count: int,
        visibility_ms: int,
        receives_max: int | None,
        now_ms: int,
        wall_ms: int,
        changes: Changes,
    ) -> Taken:
        """Hand out up to ``count`` messages. Those received ``receives_max`` times in this queue die instead."""
        self.advance(now_ms, changes)
        deliveries: list[Delivery] = []
        dead: list[Entry] = []
        shown: list[Entry] = []
        self._start_picking()
        while len(deliveries) < count and self.in_flight < self.limits.in_flight_max:
            entry = self._pick_living(now_ms, changes)
            if entry is None:
                break
            if receives_max is not None and entry.receives - entry.receives_before >= receives_max:
                self._forget(entry, now_ms, changes)
                dead.append(entry)
                continue
            deliveries.append(self._deliver(entry, now_ms, wall_ms))
            if visibility_ms:
                self._hide(entry, now_ms + visibility_ms)
                changes.update(self.id, entry)
            else:
                shown.append(entry)
        self._end_picking(now_ms)
        for entry in shown:
            # Hidden for no time at all: delivered and counted, yet not twice in one answer.
            self._show_now(entry, now_ms, changes)
        return Taken(deliveries, dead)

    def _pick_living(self, now_ms: int, changes: Changes) -> Entry | None:
        """The next message that is not past its retention."""
        while (entry := self._pick(now_ms)) is not None:
            if entry.enqueued_ms + self.settings.retention_ms > now_ms:
                return entry
            self._forget(entry, now_ms, changes)
            changes.remove(entry.seq)
        return None

    def _deliver(self, entry: Entry, now_ms: int, wall_ms: int) -> Delivery:
        entry.receives += 1
        if not entry.first_received_ms:
            entry.first_received_ms = wall_ms
        # The receiver has the body now; it is read again from the store if the message comes back.
        content, entry.content = entry.content, None
        if content is not None:
            self.budget.used -= len(content)
        return Delivery(
            entry.seq, entry.position, entry.receives, entry.first_received_ms, now_ms, entry.group,
            entry.source, content,
        )  # fmt: skip

    def _show_now(self, entry: Entry, now_ms: int, changes: Changes) -> None:
        entry.due_ms = 0
        changes.update(self.id, entry)
        self._wake(entry, now_ms, changes.durable)

    def take_back(self, deliveries: Iterable[Delivery], now_ms: int, changes: Changes) -> None:
        """The receiver never got these: show them again at once, uncounted."""
        for delivery in deliveries:
            entry = self._uncounted(delivery)
            if entry is None:
                continue
            if entry.state is State.IN_FLIGHT:
                self._show_now(entry, now_ms, changes)
            else:
                changes.update(self.id, entry)

    def pass_over(
        self, deliveries: Iterable[Delivery], shut: Container[int], now_ms: int, changes: Changes
    ) -> list[Delivery]:
        """Those in ``shut`` cannot be handed out: uncounted, and hidden for a while so that others come first.

        Answers the rest. After a restart they are tried again at once: the store does not know of the while."""
        rest = []
        for delivery in deliveries:
            if delivery.seq not in shut:
                rest.append(delivery)
            elif (entry := self._uncounted(delivery)) is not None:
                entry.due_ms = 0
                changes.update(self.id, entry)
                if entry.state is not State.IN_FLIGHT:
                    self._take_out(entry)
                self._hide(entry, now_ms + _HOLD_MS)
        return rest

    def _uncounted(self, delivery: Delivery) -> Entry | None:
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

    def withdraw(self, count: int, now_ms: int, changes: Changes) -> list[Entry]:
        """Hold waiting messages for a move to another queue: uncounted, and back by themselves if it fails."""
        self.advance(now_ms, changes)
        held: list[Entry] = []
        self._start_picking()
        while len(held) < count and (entry := self._pick_living(now_ms, changes)) is not None:
            self._hide(entry, now_ms + _HOLD_MS)
            held.append(entry)
        self._end_picking(now_ms)
        return held

    def give_back(self, held: Iterable[Entry], now_ms: int, changes: Changes) -> None:
        """End a hold whose messages do not move after all."""
        for entry in held:
            if entry.state is State.IN_FLIGHT:
                self._show_now(entry, now_ms, changes)

    def let_go(self, entry: Entry, now_ms: int, changes: Changes) -> bool:
        """A held message leaves for good; False if it is no longer there."""
        if self.index.get(entry.seq) is not entry or entry.state is not State.IN_FLIGHT:
            return False
        self._forget(entry, now_ms, changes)
        changes.remove(entry.seq)
        return True

    # -- by receipt handle: of many handles at once, so whoever asks lets time pass by ``advance`` first --------

    def delete(
        self, receipt: Receipt, now_ms: int, changes: Changes, stored: Stored | None = None
    ) -> PenstockError | None:
        """Raises Unknown if the store must be asked first; its answer is then given as ``stored``."""
        entry = self._find(receipt, now_ms, stored)
        refusal = self._judge_delete(receipt, entry)
        if refusal is None and entry is not None:
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            self._forget(entry, now_ms, changes)
            changes.remove(entry.seq)
        return refusal

    def change_visibility(
        self,
        receipt: Receipt,
        visibility_ms: int,
        now_ms: int,
        changes: Changes,
        stored: Stored | None = None,
    ) -> PenstockError | None:
        entry = self._find(receipt, now_ms, stored)
        refusal = self._judge_change(receipt, entry)
        if refusal is not None:
            return refusal
        assert entry is not None, "a change is judged possible only for a message that is there"
        # SQS: from the receive on, a message is hidden for twelve hours in all at the most.
        if now_ms - receipt.received_ms + visibility_ms > self.limits.visibility_ms_max:
            return VisibilityTooLong()
        if visibility_ms:
            if entry.state is not State.IN_FLIGHT:
                self._take_out(entry)
            self._hide(entry, now_ms + visibility_ms)
            changes.update(self.id, entry)
        elif entry.state is State.IN_FLIGHT:
            self._show_now(entry, now_ms, changes)
        return None

    def _find(self, receipt: Receipt, now_ms: int, stored: Stored | None) -> Entry | None:
        entry = self.index.get(receipt.seq)
        if entry is not None or self.complete or receipt.seq in self._ghosts:
            return entry
        if stored is None:
            raise Unknown
        row = stored.get(receipt.seq)
        # A purge may have come between the look into the store and this decision.
        return None if row is None or row.position <= self.purged_to else self._adopt(row, now_ms)

    @abstractmethod
    def _adopt(self, row: EntryRow, now_ms: int) -> Entry:
        """A waiting message that only the store had."""
