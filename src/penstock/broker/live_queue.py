"""A live queue: the rules of one queue at work, with its memory, its waiting receives and its receipts.

A decision is made at once, in memory. :meth:`LiveQueue.decided` follows every one of them: it serves waiting
receives, adds the changes to the open commit, and reads ahead what the rules want from the store. A reply awaits only
what it rests on: memory being loaded, contents being read, the commit being durable.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.encryption import KeyGuard
from penstock.broker.history import (
    DEAD_LETTERED,
    DELETED,
    EXTENDED,
    RECEIVED,
    RELEASED,
    SENT,
    EventKind,
    History,
    Holder,
    MessageHistory,
    holder_of,
)
from penstock.broker.metering import Metering
from penstock.broker.queue_memory import QueueMemory
from penstock.broker.queue_metrics import QueueMetrics
from penstock.broker.shard import Shard
from penstock.broker.waiting import Ask, Client, WaitingReceives
from penstock.errors import (
    HandleInvalid,
    NotOwned,
    NotPossible,
    PenstockError,
    QueueMissing,
    StoreClosed,
    TooManyInFlight,
)
from penstock.names import QueueName, Requester
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import (
    UNDECODABLE,
    Counts,
    Delivery,
    Entry,
    Hold,
    Outgoing,
    Received,
    Sent,
    decode_content_quickly,
    sequence_of,
)
from penstock.queues.queue import NotInMemory, Tools
from penstock.queues.receipts import Receipt, ReceiptSigner
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.queues.standard import StandardQueue
from penstock.store.port import Selection

if TYPE_CHECKING:
    from penstock.broker.delivery import QueueDelivery

log = logging.getLogger("penstock.broker")

Outcomes = list[PenstockError | None]
"""The outcomes for several receipt handles, in their order; None where the action was done."""

CheckQuota = Callable[[str, Sequence[Outgoing]], None]
"""Raises QuotaReached if an account cannot send these messages."""

_NOT_DELIVERED = "the response could not be delivered"


class QueueContext(NamedTuple):
    """What all live queues of a shard share."""

    shard: Shard
    tools: Tools
    receipts: ReceiptSigner
    keys: KeyGuard
    history: MessageHistory
    metering: Metering | None  # None: no metrics are kept
    delivery: QueueDelivery
    check_quota: CheckQuota | None  # None: there are no quotas


class LiveQueue:
    __slots__ = (
        "_context", "_note", "_record", "_shard", "arn", "deleted", "id", "memory", "metrics",
        "name", "rules", "settings", "waiting",
    )  # fmt: skip

    def __init__(self, record: QueueRecord, context: QueueContext) -> None:
        self.record = record
        self._context = context
        self._shard = shard = context.shard
        kind = FifoQueue if record.settings.fifo else StandardQueue
        self.rules: StandardQueue | FifoQueue = kind(record, context.tools)
        self.waiting = WaitingReceives(shard, self._decide_receive, self._due)
        self.memory = QueueMemory(shard, self)
        self.metrics = QueueMetrics()
        if context.metering is not None and not record.internal:
            context.metering.add(self)
        # Called through local variables only: `self._note(…)` would be looked up by every call, without a cache.
        self._note = context.history.note if context.history.events_max and not record.internal else None
        self.deleted = False

    @property
    def record(self) -> QueueRecord:
        return self._record

    @record.setter
    def record(self, record: QueueRecord) -> None:
        self._record = record
        # These are needed with every message.
        self.id: int = record.id
        self.name: QueueName = record.name
        self.arn: str = record.name.arn
        self.settings: QueueSettings = record.settings

    @property
    def shard(self) -> Shard:
        return self._shard

    @property
    def tags(self) -> dict[str, str]:
        return self.record.tags

    @property
    def created_ms(self) -> int:
        return self.record.created_ms

    @property
    def modified_ms(self) -> int:
        return self.record.modified_ms

    @property
    def holds_messages(self) -> bool:
        """Whether it certainly does: of a queue that is not in memory yet it is not known."""
        return self.memory.loaded and self.rules.backlog.total > 0

    def check_key(self) -> None:
        """Raises KeyUnavailable if the queue names an encryption key that cannot be used."""
        key = self.settings.encryption_key
        if key is not None:
            self._context.keys.check(self.name.space, key)

    def check_present(self) -> None:
        """Raises NotOwned or QueueMissing: the shard may have been given back, or the queue deleted, since it was
        found."""
        self._shard.check_owned()
        if self.deleted:
            raise QueueMissing

    # -- after a decision ------------------------------------------------------------------------------------

    def decided(self, now_ms: int) -> None:
        """Do what follows every decision on this queue: serve waiting receives, persist, read ahead."""
        shard, waiting, loaded = self._shard, self.waiting, self.memory.loaded
        if loaded and (waiting.long_polls or waiting.short_polls):
            waiting.serve(now_ms)
        changes = shard.changes
        if changes:
            shard.touch(self)
        if changes.later:
            shard.touch_later(self)
        if not loaded:
            return
        self.memory.read_ahead(now_ms)
        if waiting.short_polls and not self.rules.backlog.reading and not waiting.paused:
            waiting.end_short_polls()
        if waiting.long_polls or waiting.short_polls:
            waiting.set_timer(self.rules.next_deadline_ms())

    def _due(self) -> None:
        self.decided(self._shard.clock.now_ms())

    # -- sending ---------------------------------------------------------------------------------------------

    async def send(self, messages: list[Outgoing], requester: Requester | None = None) -> list[Sent]:
        if not self.memory.loaded or self.settings.encryption_key is not None:
            await self.prepare()
        shard = self._shard
        shard.check_sends()
        now_ms = shard.clock.now_ms()
        answers, entries = self.decide_send(messages, now_ms)
        # A duplicate changes nothing, but its answer rests on the first send's commit.
        await shard.settled(self)
        self.count_sent(messages, answers, entries, now_ms, requester)
        return answers

    async def prepare(self) -> None:
        """Wait until messages can be sent to this queue. Raises KeyUnavailable, QueueMissing or NotOwned."""
        self.check_key()
        await self.memory.load()

    def decide_send(
        self, messages: list[Outgoing], now_ms: int, check_quota: CheckQuota | None = None
    ) -> tuple[list[Sent], list[Entry]]:
        """New messages join the queue with the open commit; duplicates do not. The queue has been prepared, and the
        shard accepts sends. ``check_quota``: that of a decision about many queues. Raises QuotaReached or DedupFull:
        then nothing is decided."""
        shard, check_quota = self._shard, check_quota or self._context.check_quota
        if check_quota is not None:
            check_quota(self.name.account, messages)
        answers, entries = self.rules.send(messages, now_ms, shard.clock.wall_ms(), shard.changes)
        shard.joining(self).extend(entries)
        return answers, entries

    def count_sent(
        self,
        messages: list[Outgoing],
        answers: list[Sent],
        entries: list[Entry],
        now_ms: int,
        requester: Requester | None,
        cause: str | None = None,
    ) -> None:
        """A decided send is durable: it goes into the metrics and the history."""
        metrics, note = self.metrics, self._note
        if now_ms >= metrics.second_ends_ms:
            metrics.turn(now_ms)
        metrics.sent += len(entries)
        if len(entries) < len(messages):
            metrics.duplicates += len(messages) - len(entries)
            messages = _new_ones(messages, answers, entries)
        sizes = metrics.sizes
        for message in messages:
            sizes[message.size] = sizes.get(message.size, 0) + 1
        if note is not None:
            index, queue = self._shard.index, self.id
            for entry in entries:
                note((index, entry.seq, now_ms, SENT, requester, cause, queue))

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        """A commit that concerns this queue is durable; these messages join it."""
        if arrived:
            # However they arrive, the queue is used: sends, dead letters, moved messages, those of other shards.
            self.metrics.use(now_ms)
            if self.memory.accepts_arrivals():
                self.rules.arrive(arrived, now_ms)
                self.decided(now_ms)

    def refused(self) -> None:
        """A commit that concerns this queue was refused: what memory has decided since is wrong."""
        self.memory.forget()
        self.memory.reload()

    # -- receiving -------------------------------------------------------------------------------------------

    async def receive(self, ask: Ask, caller: Client, wait_ms: int | None) -> list[Received]:
        shard, settings = self._shard, self.settings
        if settings.encryption_key is not None:
            self.check_key()
        shard.check_not_ended()
        if not self.memory.loaded:
            await self.memory.load()
        wait_ms = settings.wait_ms if wait_ms is None else wait_ms
        now_ms = shard.clock.now_ms()
        deliveries = [] if self.waiting.paused else self._decide_receive(ask, now_ms)
        self.decided(now_ms)
        if not deliveries:
            deliveries = await self._wait(ask, caller, wait_ms)
        left = ask.left
        if not deliveries:
            self.metrics.use(shard.clock.now_ms())  # it may have waited
            self.metrics.empty += 1
            if settings.redrive is not None:
                # A client that receives nothing may look into the dead-letter queue next.
                await shard.settled(self)
            if left is not None:
                await self._context.delivery.arrived(left)
            return []
        caller.if_unread = partial(self._take_back, deliveries)
        # A FIFO group must stay blocked after a crash; on a standard queue a lost mark is only one more delivery.
        # Dead letters are in their queue when the answer leaves.
        durable = shard.settled(self) if settings.fifo or left is not None else None
        try:
            if settings.encryption_key is not None:
                self.check_key()  # the receive may have waited long
            received = await self._hand_out(deliveries)
            if durable is not None:
                await durable
                if left is not None:
                    await self._context.delivery.arrived(left)
        except (Exception, CancelledError):
            caller.if_unread = None
            self._take_back(deliveries)
            raise
        if caller.gone:
            caller.if_unread = None
            self._take_back(deliveries)
            return []
        metrics, at_ms = self.metrics, deliveries[0].received_ms
        if at_ms >= metrics.second_ends_ms:
            metrics.turn(at_ms)
        metrics.received += len(received)
        return received

    async def _wait(self, ask: Ask, caller: Client, wait_ms: int) -> list[Delivery]:
        backlog = self.rules.backlog
        if not wait_ms:
            if not self.settings.fifo and backlog.in_flight >= self._shard.limits.in_flight_max:
                raise TooManyInFlight
            if not backlog.reading and not self.waiting.paused:
                return []
        if caller.gone or self._shard.released or self._shard.ended is not None:
            return []  # those that waited were answered when the shard was given back or the server stopped
        answer = self.waiting.wait(ask, caller, wait_ms)
        self.waiting.set_timer(self.rules.next_deadline_ms())
        return await answer

    def _decide_receive(self, ask: Ask, now_ms: int) -> list[Delivery]:
        """Decide a receive, with the moves to the dead-letter queue that it causes."""
        shard, rules, settings = self._shard, self.rules, self.settings
        wall_ms = shard.clock.wall_ms()
        visibility_ms = settings.visibility_ms if ask.visibility_ms is None else ask.visibility_ms
        hold = Hold(ask.requester, now_ms, now_ms + visibility_ms)
        redrive = settings.redrive
        receives_max = None
        if redrive is not None and self._context.delivery.exists(redrive.target):
            receives_max = redrive.receives_max
        if ask.attempt_id is not None and isinstance(rules, FifoQueue):
            deliveries, dead = rules.receive_attempt(
                ask.attempt_id,
                ask.messages_max,
                visibility_ms,
                receives_max,
                now_ms,
                wall_ms,
                shard.changes,
                hold,
            )
        else:
            deliveries, dead = rules.receive(
                ask.messages_max, visibility_ms, receives_max, now_ms, wall_ms, shard.changes, hold
            )
        if deliveries:
            self._note_receive(deliveries, ask.requester, visibility_ms, now_ms)
        for entry in dead:
            assert redrive is not None
            ask.left = self._context.delivery.dead_letter(entry, self, redrive.target, now_ms)
            shard.open_commit.noted.append((entry.seq, DEAD_LETTERED, f"to {redrive.target.name}"))
        if len(dead) == shard.limits.dead_letters_per_turn:
            self.waiting.pause()
        return deliveries

    def _note_receive(
        self, deliveries: list[Delivery], requester: Requester | None, visibility_ms: int, now_ms: int
    ) -> None:
        note = self._note
        if note is not None:
            index, queue = self._shard.index, self.id
            for delivery in deliveries:
                note((index, delivery.seq, now_ms, RECEIVED, requester, visibility_ms, queue))

    async def _hand_out(self, deliveries: list[Delivery]) -> list[Received]:
        """Find the contents and make the handles. Raises KeyUnavailable if one message cannot be decrypted.

        SQS: then the whole receive fails. A damaged message counts as received and is left out, so that it becomes a
        dead letter or expires, and keeps no others waiting."""
        shard, sign, fifo = self._shard, self._context.receipts.handle, self.settings.fifo
        missing = [delivery.seq for delivery in deliveries if delivery.content is None]
        contents = await shard.read(partial(shard.store.contents, missing)) if missing else {}
        received = []
        for delivery in deliveries:
            stored = delivery.content or contents.get(delivery.seq)
            receipt = Receipt(self.id, delivery.seq, delivery.receives, delivery.received_ms)
            try:
                content = None if stored is None else decode_content_quickly(stored)
            except UNDECODABLE as error:
                content = None
                log.error(
                    "the content of message %d is damaged: it cannot be decoded: %s", delivery.seq, error
                )
            if content is None:
                if self.record.internal:
                    # A job does not expire, and this one could never be done.
                    log.error("a job of the kind %s is dropped, it cannot be read", self.record.internal)
                    self.settle(sign(receipt), None)
                continue
            received.append(Received(
                content, sign(receipt), delivery.receives, delivery.first_received_ms,
                delivery.group, sequence_of(delivery.position) if fifo else None, delivery.source,
            ))  # fmt: skip
        return received

    def _take_back(self, deliveries: list[Delivery]) -> None:
        """The client did not get these messages."""
        if self.memory.loaded and not self.deleted:
            now_ms = self._shard.clock.now_ms()
            self.rules.take_back(deliveries, now_ms, self._shard.changes)
            for delivery in deliveries:
                self.note(delivery.seq, RELEASED, None, _NOT_DELIVERED)
            self.decided(now_ms)

    # -- by receipt handle -----------------------------------------------------------------------------------

    async def delete(self, handles: Sequence[str], requester: Requester | None = None) -> Outcomes:
        return await self._apply_handles(handles, None, requester)

    async def change_visibility(
        self, changes: Sequence[tuple[str, int]], requester: Requester | None = None
    ) -> Outcomes:
        """``changes``: handles, each with the milliseconds to hide its message for."""
        return await self._apply_handles(
            [handle for handle, _ in changes], [hide_ms for _, hide_ms in changes], requester
        )

    async def dead_letter(self, handle: str, seq: int, requester: Requester | None = None) -> QueueName:
        """The receiver of this message sends it to the dead-letter queue. Returns the name of that queue when the
        message is there. Raises NotPossible, HandleInvalid, or HandleExpired if the receiver does not hold it any
        more."""
        if not self.memory.loaded:
            await self.memory.load()
        shard, redrive = self._shard, self.settings.redrive
        receipt = self._context.receipts.read(handle, self.id)
        if receipt.seq != seq:
            raise HandleInvalid
        if redrive is None or not self._context.delivery.exists(redrive.target):
            raise NotPossible("the queue has no dead-letter queue")
        now_ms = shard.clock.now_ms()
        self.rules.advance(now_ms, shard.changes)
        entry = self.rules.give_up(receipt, now_ms, shard.changes)
        left = self._context.delivery.dead_letter(entry, self, redrive.target, now_ms)
        self.decided(now_ms)
        await shard.settled(self)
        await self._context.delivery.arrived(left)
        self.note(seq, DEAD_LETTERED, requester, f"to {redrive.target.name}")
        return redrive.target

    def held(self, handle: str, margin_ms: int) -> Entry | None:
        """The message, if its receiver holds it and will for so long. Memory is loaded."""
        shard, receipt = self._shard, self._context.receipts.read(handle, self.id)
        now_ms = shard.clock.now_ms()
        self.rules.advance(now_ms, shard.changes)
        entry = self.rules.held(receipt)
        return entry if entry is not None and entry.due_ms > now_ms + margin_ms else None

    def settle(self, handle: str, hide_ms: int | None) -> bool:
        """Delete a message with the open commit, or hide it for the given time. Returns False if that cannot be
        decided now: another receiver has it, or memory does not know it."""
        shard, receipt = self._shard, self._context.receipts.read(handle, self.id)
        if not self.memory.loaded or self.deleted:
            return False
        now_ms = shard.clock.now_ms()
        self.rules.advance(now_ms, shard.changes)
        try:
            if hide_ms is None:
                outcome = self.rules.delete(receipt, now_ms, shard.changes)
            else:
                outcome = self.rules.change_visibility(receipt, hide_ms, now_ms, shard.changes)
        except NotInMemory:
            return False
        self.decided(now_ms)
        return outcome is None

    async def _apply_handles(
        self, handles: Sequence[str], hide_ms: Sequence[int] | None, requester: Requester | None
    ) -> Outcomes:
        """One outcome per handle: an invalid one does not affect the others of its batch."""
        if not self.memory.loaded:
            await self.memory.load()
        shard, rules, read = self._shard, self.rules, self._context.receipts.read
        now_ms = shard.clock.now_ms()
        rules.advance(now_ms, shard.changes)
        outcomes: Outcomes = []
        unknown: list[tuple[int, Receipt]] = []
        changed: list[tuple[int, int]] = []  # messages, and for how long they are hidden now
        received_ms: dict[int, int] = {}  # of those to be deleted
        removed = shard.changes.removed
        removed_before = len(removed)
        for i, handle in enumerate(handles):
            outcome: PenstockError | None = None
            try:
                receipt = read(handle, self.id)
                if hide_ms is None:
                    received_ms[receipt.seq] = receipt.received_ms
                    outcome = rules.delete(receipt, now_ms, shard.changes)
                else:
                    outcome = rules.change_visibility(receipt, hide_ms[i], now_ms, shard.changes)
                    if outcome is None:
                        changed.append((receipt.seq, hide_ms[i]))
            except PenstockError as error:
                outcome = error
            except NotInMemory:
                unknown.append((i, receipt))
            outcomes.append(outcome)
        deleted = removed[removed_before:]
        self.decided(now_ms)
        if unknown:
            deleted += await self._apply_unknown(unknown, hide_ms, outcomes, changed)
        await shard.settled(self)
        if hide_ms is None:
            self._count_deleted(outcomes.count(None), deleted, received_ms, now_ms, requester)
        if changed:
            self._note_changed(changed, requester)
        return outcomes

    def _count_deleted(
        self,
        requests: int,
        deleted: list[int],
        received_ms: dict[int, int],
        now_ms: int,
        requester: Requester | None,
    ) -> None:
        """``requests``: those that succeeded; SQS counts those of messages that were deleted already, too."""
        metrics, note = self.metrics, self._note
        if now_ms >= metrics.second_ends_ms:
            metrics.turn(now_ms)
        metrics.deleted += requests
        metrics.processed += len(deleted)
        for seq in deleted:
            metrics.processing_ms += now_ms - received_ms[seq]
        if note is not None:
            index, queue = self._shard.index, self.id
            for seq in deleted:
                note((index, seq, now_ms, DELETED, requester, None, queue))

    async def _apply_unknown(
        self,
        unknown: list[tuple[int, Receipt]],
        hide_ms: Sequence[int] | None,
        outcomes: Outcomes,
        changed: list[tuple[int, int]],
    ) -> list[int]:
        """Decide with what the store says of these messages. Returns those that were deleted."""
        shard, rules = self._shard, self.rules
        rules.backlog.lookups += 1
        try:
            await shard.settled(self)
            seqs = [receipt.seq for _, receipt in unknown]
            rows = await shard.read(partial(shard.store.lookup, self.id, rules.backlog.purged_to, seqs))
            try:
                await self.memory.load()
            except NotOwned:
                # A part of the request may be done: it must not be passed on.
                raise StoreClosed("the shard belongs to another process now") from None
            stored = {row.seq: row for row in rows}
            now_ms = shard.clock.now_ms()
            rules.advance(now_ms, shard.changes)
            removed = shard.changes.removed
            removed_before = len(removed)
            for i, receipt in unknown:
                if hide_ms is None:
                    outcomes[i] = rules.delete(receipt, now_ms, shard.changes, stored)
                else:
                    outcomes[i] = rules.change_visibility(receipt, hide_ms[i], now_ms, shard.changes, stored)
                    if outcomes[i] is None:
                        changed.append((receipt.seq, hide_ms[i]))
            deleted = removed[removed_before:]
        finally:
            rules.backlog.lookups -= 1
        self.decided(now_ms)
        return deleted

    def _note_changed(self, changed: list[tuple[int, int]], requester: Requester | None) -> None:
        """The visibility of these messages was changed."""
        for seq, hide_ms in changed:
            self.note(seq, EXTENDED if hide_ms else RELEASED, requester, hide_ms or None)
            entry = self.rules.backlog.index.get(seq)
            if entry is not None and (hold := entry.hold) is not None:
                entry.hold = Hold(hold.requester, hold.since_ms, entry.due_ms, hold.extended + 1)

    # -- looking -----------------------------------------------------------------------------------------------

    def note(
        self, seq: int, event: EventKind, requester: Requester | None = None, detail: int | str | None = None
    ) -> None:
        """Record in the history what has happened to a message of the queue, durably."""
        shard, note = self._shard, self._note
        if note is not None:
            note((shard.index, seq, shard.clock.now_ms(), event, requester, detail, self.id))

    def history(self, seq: int, *, gone: bool = False) -> History:
        """Returns what happened to a message that is in this queue, or with ``gone``, to one that was in it."""
        shard = self._shard
        return self._context.history.of(shard.index, seq, shard.clock, self.id if gone else None)

    def holder(self, seq: int) -> Holder | None:
        return holder_of(self.rules.backlog.index.get(seq), self._shard.clock)

    # -- counting and purging --------------------------------------------------------------------------------

    async def counts(self, *, is_use: bool = False) -> Counts:
        """``is_use``: a client asks, by which the queue counts as in use."""
        shard, rules = self._shard, self.rules
        if is_use:
            self.metrics.used_ms = shard.clock.now_ms()
        while True:
            await self.memory.load()
            now_ms = shard.clock.now_ms()
            rules.advance(now_ms, shard.changes, exact=True)
            self.decided(now_ms)
            if self.memory.read_done is not None and rules.counts_lag(now_ms):
                await self.memory.read_done
                continue
            counts = rules.counts(now_ms)
            if counts is not None:
                return counts
            assert isinstance(rules, FifoQueue)
            since_ms = now_ms - rules.settings.delay_ms + 1
            younger = Selection(self.id, rules.backlog.purged_to, enqueued_ms_min=since_ms)
            young = await shard.read(partial(shard.store.count, younger))
            if self.memory.loaded:
                return rules.counts_with(young, now_ms)

    def configure(self, settings: QueueSettings, now_ms: int) -> None:
        self.rules.configure(settings, now_ms)
        self.decided(now_ms)

    def purge(self, upto: int, now_ms: int) -> None:
        """Void every message up to this position."""
        self.rules.purge(upto)
        self.memory.emptied()
        self.decided(now_ms)


def _new_ones(messages: list[Outgoing], answers: list[Sent], entries: list[Entry]) -> list[Outgoing]:
    """The messages that became entries, which are in the same order; the others were duplicates."""
    found: list[Outgoing] = []
    for message, answer in zip(messages, answers, strict=True):
        if len(found) < len(entries) and answer.sequence == entries[len(found)].seq:
            found.append(message)
    return found
