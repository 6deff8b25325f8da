"""Queues alone: the rules without broker, store and commits to wait for, on a clock that tests turn.

Every change is durable at once. Rows are kept in a dictionary: reads are answered from it, and :meth:`Queues.reload`
fills the memory of all queues again, as after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.errors import PenstockError
from penstock.limits import Limits
from penstock.names import QueueName
from penstock.queues.backlog import Budget, Restored
from penstock.queues.deduplication import DedupUsage, SendDigests
from penstock.queues.fifo import FifoQueue
from penstock.queues.former_shards import FormerShard, FormerShards
from penstock.queues.messages import (
    Counts,
    Delivery,
    Outgoing,
    Received,
    Sent,
    decode_content,
    sequence_of,
)
from penstock.queues.paging import Read, ReadDelayed, ReadExpired, ReadGroups
from penstock.queues.queue import NotInMemory, Tools
from penstock.queues.receipts import MessageIds, Receipt, ReceiptSigner
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.queues.standard import StandardQueue
from penstock.store.changes import Changes, DedupRow, EntryRow
from penstock.testing.clock import ManualClock

SECRET = b"s" * 32


def outgoing(body: str, **more: Any) -> Outgoing:
    return Outgoing(body=body, sender="AIDATEST", **more)


class Queues:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.clock = ManualClock()
        self.budget = Budget(limits.memory_budget_bytes)
        self.dedup_usage = DedupUsage(limits)
        self.rows: dict[int, EntryRow] = {}
        self.sends: list[DedupRow] = []
        self._records: dict[str, QueueRecord] = {}
        self._queues: dict[str, StandardQueue | FifoQueue] = {}
        self._receipts = ReceiptSigner(SECRET)
        self._number = 0
        self._changes = Changes(1, 0)
        self._tools = Tools(
            limits, self.budget, self.dedup_usage, self._next_number, MessageIds(SECRET), SendDigests(SECRET)
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    # -- queues ----------------------------------------------------------------------------------------------

    def create(self, name: str, *, account: str = "000000000000", **settings: Any) -> None:
        fifo = name.endswith(".fifo")
        record = QueueRecord(
            id=self._next_number(),
            name=QueueName(account, "eu-west-1", name),
            settings=QueueSettings(fifo=fifo, **settings),
            tags={},
            created_ms=0,
            modified_ms=0,
        )
        self._records[name] = record
        self._queues[name] = (FifoQueue if fifo else StandardQueue)(record, self._tools)

    def migrate(self, secret: bytes) -> None:
        """Changes the secret, as a migration to another store does."""
        former = FormerShards([FormerShard(1, self._number + 1, 0, 0, SECRET, ids_from=0)])
        self._tools = self._tools._replace(
            message_id=MessageIds(secret), send_digest=SendDigests(secret), former=former
        )
        for name, record in self._records.items():
            self._queues[name] = type(self._queues[name])(record, self._tools)
        self.reload()

    def rules(self, name: str) -> StandardQueue | FifoQueue:
        return self._queues[name]

    def configure(self, name: str, **changed: Any) -> None:
        rules = self._queues[name]
        rules.configure(msgspec.structs.replace(rules.settings, **changed), self.now_ms)

    def purge(self, name: str) -> None:
        rules, upto = self._queues[name], self._tools.next_number()
        rules.purge(max((row.position for row in self.rows.values()), default=upto))
        self.rows = {seq: row for seq, row in self.rows.items() if row.queue != rules.id}
        self.sends = [send for send in self.sends if send.queue != rules.id]

    def reload(self) -> None:
        """Throw all memory away and fill it again from what is durable."""
        for rules in self._queues.values():
            rules.reset()
            now_ms, rows = self.now_ms, self._rows_of(rules.id)
            hidden = [row for row in rows if row.due_ms > now_ms]
            fifo = isinstance(rules, FifoQueue)
            restored = Restored(
                total=len(rows),
                delayed=0 if fifo else sum(not row.receives for row in hidden),
                in_flight=[row for row in hidden if row.receives],
                oldest_ms=min((row.enqueued_ms for row in rows), default=None),
            )
            rules.restore(restored, now_ms)
            if isinstance(rules, FifoQueue):
                live = [send for send in self.sends if send.queue == rules.id and send.until_ms > now_ms]
                rules.dedup.recall(live)
            self._page(rules)

    # -- messages --------------------------------------------------------------------------------------------

    def send(self, name: str, body: str, **more: Any) -> Sent:
        return self.send_messages(name, outgoing(body, **more))[0]

    def send_all(self, name: str, *bodies: str, **more: Any) -> list[Sent]:
        return self.send_messages(name, *[outgoing(body, **more) for body in bodies])

    def send_messages(self, name: str, *messages: Outgoing) -> list[Sent]:
        rules = self._queues[name]
        sent, entries = rules.send(list(messages), self.now_ms, self.clock.wall_ms(), self._changes)
        self._commit()
        rules.arrive(entries, self.now_ms)
        self._page(rules)
        return sent

    def receive(
        self,
        name: str,
        count: int = 10,
        *,
        visibility_ms: int | None = None,
        receives_max: int | None = None,
        attempt_id: str | None = None,
    ) -> list[Received]:
        rules = self._queues[name]
        visibility_ms = rules.settings.visibility_ms if visibility_ms is None else visibility_ms
        more = (count, visibility_ms, receives_max, self.now_ms, self.clock.wall_ms())
        while True:
            if attempt_id is not None and isinstance(rules, FifoQueue):
                taken = rules.receive_attempt(attempt_id, *more, self._changes)
            else:
                taken = rules.receive(*more, self._changes)
            self._commit()
            if not self._page(rules) or taken.deliveries:
                return [self._received(rules, delivery) for delivery in taken.deliveries]

    def _received(self, rules: StandardQueue | FifoQueue, delivery: Delivery) -> Received:
        content = delivery.content or self.rows[delivery.seq].content
        assert content is not None
        receipt = Receipt(rules.id, delivery.seq, delivery.receives, delivery.received_ms)
        return Received(
            content=decode_content(content),
            handle=self._receipts.handle(receipt),
            receives=delivery.receives,
            first_received_ms=delivery.first_received_ms,
            group=delivery.group,
            sequence=sequence_of(delivery.position) if rules.settings.fifo else None,
            source=delivery.source,
        )

    def bodies(self, name: str, count: int = 10, **more: Any) -> list[str]:
        return [message.content.body for message in self.receive(name, count, **more)]

    def drain(self, name: str, **more: Any) -> list[str]:
        """All that can be received, in the order in which it comes."""
        bodies: list[str] = []
        while found := self.bodies(name, **more):
            bodies += found
        return bodies

    def drain_up_to(self, name: str, count: int, **more: Any) -> list[Received]:
        """Receives up to this many messages, in as many receives as it takes."""
        received: list[Received] = []
        while len(received) < count and (found := self.receive(name, count - len(received), **more)):
            received += found
        return received

    def delete(self, name: str, *messages: Received) -> None:
        """Delete by receipt; raises the first refusal."""
        rules = self._queues[name]
        self._raise_first([self._by_receipt(rules, message, rules.delete) for message in messages])

    def change(self, name: str, message: Received, visibility_ms: int) -> None:
        rules = self._queues[name]
        self._raise_first([self._by_receipt(rules, message, rules.change_visibility, visibility_ms)])

    def _by_receipt(self, rules: Any, message: Received, decide: Any, *more: int) -> PenstockError | None:
        receipt = self._receipts.read(message.handle, rules.id)
        rules.advance(self.now_ms, self._changes)
        try:
            refusal = decide(receipt, *more, self.now_ms, self._changes)
        except NotInMemory:
            self._commit()
            refusal = decide(receipt, *more, self.now_ms, self._changes, self.rows)
        self._commit()
        self._page(rules)
        return refusal  # type: ignore[no-any-return]

    @staticmethod
    def _raise_first(refusals: Iterable[PenstockError | None]) -> None:
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    def counts(self, name: str) -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        rules = self._queues[name]
        rules.advance(self.now_ms, self._changes, exact=True)
        self._commit()
        while self._page(rules) and rules.counts_lag(self.now_ms):
            pass
        counts: Counts | None = rules.counts(self.now_ms)
        if counts is None:
            assert isinstance(rules, FifoQueue)
            young_ms = self.now_ms - rules.settings.delay_ms
            young = sum(row.enqueued_ms > young_ms for row in self._rows_of(rules.id))
            counts = rules.counts_with(young, self.now_ms)
        return counts.visible, counts.in_flight, counts.delayed

    # -- what the broker and the store do otherwise ------------------------------------------------------------

    def _commit(self) -> None:
        changes = self._changes
        changes.write_later()
        for row in changes.added:
            self.rows[row.seq] = row
        for update in changes.updated.values():
            self.rows[update.seq] = self.rows[update.seq]._replace(**update._asdict())
        for seq in changes.removed:
            self.rows.pop(seq, None)
        self.sends += changes.dedup
        for queue, upto in changes.dedup_forgotten.items():
            self.sends = [send for send in self.sends if send.queue != queue or send.seq > upto]
        self._changes = Changes(changes.number + 1, changes.number)

    def _page(self, rules: StandardQueue | FifoQueue) -> bool:
        """Answer all reads that the queue wants; False if it wants none."""
        read_something = False
        while (read := rules.next_read(self.now_ms)) is not None:
            read_something = True
            rules.apply(read, self._answer(rules, read), self.now_ms, self._changes)
            rules.advance(self.now_ms, self._changes)
            self._commit()
        return read_something

    def _answer(self, rules: StandardQueue | FifoQueue, read: Read) -> Any:
        rows = self._rows_of(rules.id)
        if isinstance(read, ReadGroups):
            waiting = [row for row in rows if row.position > read.after and row.due_ms <= read.due_ms_max]
            groups: dict[str | None, list[EntryRow]] = {}
            for row in waiting[: read.rows_max]:
                groups.setdefault(row.group, []).append(row)
            last = waiting[: read.rows_max][-1].position if waiting else read.after
            return [(group, len(of), of[0].position) for group, of in groups.items()], last
        if isinstance(read, ReadDelayed):
            delayed = [row for row in rows if not row.receives and row.due_ms >= read.due_ms_min]
            return sorted(delayed, key=lambda row: (row.due_ms, row.seq))[: read.rows_max]
        if isinstance(read, ReadExpired):
            expired = [
                row for row in rows if row.position > read.after and row.enqueued_ms <= read.enqueued_ms_max
            ]
            return expired[: read.rows_max], min((row.enqueued_ms for row in rows), default=None)
        return [
            [
                row for row in rows
                if row.group == lane.group and row.position > lane.after and row.due_ms <= read.due_ms_max
            ][: lane.rows_max]
            for lane in read.lanes
        ]  # fmt: skip

    def _rows_of(self, queue: int) -> list[EntryRow]:
        return sorted((row for row in self.rows.values() if row.queue == queue), key=lambda row: row.position)
