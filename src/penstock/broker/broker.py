"""The broker: decides in memory, commits, replies. The one object that faces talk to.

Every method runs on the loop, decides without waiting, and awaits only what its answer rests on: a queue's memory
being filled, contents being read, the commit being durable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.deliveries import Outlet
from penstock.broker.handles import Handles, Outcomes
from penstock.broker.key_guard import KeyGuard, NoGuard, check_key
from penstock.broker.live_queue import LiveQueue
from penstock.broker.move_tasks import MoveTaskRecord, MoveTasks
from penstock.broker.polls import Polls
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.broker.upkeep import Upkeep
from penstock.broker.waiters import Ask, Caller
from penstock.errors import (
    PurgedRecently,
    TooManyInFlight,
)
from penstock.names import QueueName, Space
from penstock.queues.backlog import Budget
from penstock.queues.dedup import DedupUsage, SendDigests
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Counts, Delivery, Outgoing, Received, Sent, position_of
from penstock.queues.queue import Tools
from penstock.queues.receipts import MessageIds, ReceiptSigner
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.port import Selection

log = logging.getLogger("penstock.broker")


class Recovery(NamedTuple):
    """What a start found."""

    queues: int
    messages: int
    bytes: int


class Broker:
    def __init__(self, shard: Shard, keys: KeyGuard | None = None, dedup_key: bytes | None = None) -> None:
        self.clock = shard.clock
        self.limits = limits = shard.limits
        self.budget = Budget(limits.memory_budget_bytes)
        self._shard = shard
        self._keys = keys or NoGuard()
        ids, digests = MessageIds(shard.secret), SendDigests(dedup_key or shard.secret)
        self.dedup_usage = DedupUsage(limits)
        tools = Tools(limits, self.budget, self.dedup_usage, shard.next_number, ids, digests)
        self._polls = Polls(shard, self._take)
        self._catalogue = Catalogue(shard, tools, self._arrived, self._refused, self._polls.end)
        self._quotas = Quotas(shard, self._catalogue)
        self._keeper = Upkeep(shard, self.budget, self._catalogue, self._polls)
        receipts = ReceiptSigner(shard.secret)
        self._outlet = Outlet(shard, receipts)
        self._handles = Handles(shard, self._keeper, receipts)
        self._moves = MoveTasks(shard, self._catalogue, self._keeper, self._keys)
        held = shard.usage.values()
        messages, size = sum(each.messages for each in held), sum(each.bytes for each in held)
        self.recovery = Recovery(len(self.queues()), messages, size)
        shard.watch(lambda commit: self._keeper.relieve())

    def start(self) -> None:
        """Begin the work that no request asks for: expiry, moves under way, space to give back."""
        self._shard.start()
        self._keeper.start()
        self._moves.start()

    async def stop(self) -> None:
        """End every wait and make all that was decided durable."""
        self._keeper.stop()
        self._moves.stop()
        self.end_polls()
        await self._shard.settled()

    def end_polls(self) -> None:
        """Answer every waiting receive with what there is: nothing."""
        for queue in self._catalogue:
            self._polls.end(queue)

    async def settled(self) -> None:
        await self._shard.settled()

    @property
    def is_full(self) -> bool:
        """Are sends refused because the disk is full?"""
        return self._shard.refuses is not None

    def keys_changed(self) -> None:
        """Keys were disabled or enabled: what memory holds of messages is read again, by way of them."""
        self._keeper.forget_all()

    # -- the catalogue ---------------------------------------------------------------------------------------

    def find(self, name: QueueName) -> LiveQueue:
        return self._catalogue.find(name)

    def queues(self) -> list[LiveQueue]:
        """All, in every account and region."""
        return list(self._catalogue)

    def names(self, space: Space, prefix: str = "") -> list[QueueName]:
        return self._catalogue.names(space, prefix)

    def sources_of(self, name: QueueName) -> list[QueueName]:
        return self._catalogue.sources_of(name)

    async def create(self, name: QueueName, settings: QueueSettings, tags: dict[str, str]) -> LiveQueue:
        self._shard.check_sends()
        self._catalogue.check_rested(name, self.clock.now_ms())
        self._quotas.check_new_queue(name.account)
        wall_ms = self.clock.wall_ms()
        record = QueueRecord(
            id=self._shard.next_number(),
            name=name,
            settings=settings,
            tags=tags,
            created_ms=wall_ms,
            modified_ms=wall_ms,
        )
        queue = self._catalogue.create(record)
        queue.loaded = True  # there is nothing to load
        self._shard.touch(queue)
        await self._shard.settled()
        return queue

    async def configure(self, queue: LiveQueue, settings: QueueSettings) -> None:
        queue.record = msgspec.structs.replace(
            queue.record, settings=settings, modified_ms=self.clock.wall_ms()
        )
        queue.rules.configure(settings, self.clock.now_ms())
        self._polls.serve(queue)
        await self._save(queue)

    async def tag(self, queue: LiveQueue, tags: dict[str, str]) -> None:
        queue.record = msgspec.structs.replace(queue.record, tags=tags)
        await self._save(queue)

    async def _save(self, queue: LiveQueue) -> None:
        self._catalogue.save(queue)
        self._shard.touch(queue)
        await self._shard.settled()

    async def drop(self, queue: LiveQueue) -> None:
        now_ms = self.clock.now_ms()
        self._catalogue.remove(queue, now_ms + self.limits.delete_pause_ms)
        self._polls.end(queue)
        queue.forget()
        self._shard.changes.drop(queue.id)
        self._moves.source_gone(queue)
        self._shard.touch(queue)
        await self._shard.settled()
        self._keeper.tidy()

    async def purge(self, queue: LiveQueue) -> None:
        now_ms = self.clock.now_ms()
        if queue.record.purged_ms and now_ms < queue.record.purged_ms + self.limits.purge_pause_ms:
            raise PurgedRecently(queue.name.name)
        number = self._shard.next_number()
        upto = position_of(number)
        queue.rules.purge(upto)
        queue.void_reads()
        queue.loaded = True  # there is nothing left to load
        queue.record = msgspec.structs.replace(queue.record, purged_to=upto, purged_ms=now_ms)
        self._shard.changes.purge(queue.id, upto, number)
        self._polls.serve(queue)
        await self._save(queue)
        self._keeper.tidy()

    async def counts(self, queue: LiveQueue) -> Counts:
        while True:
            await self._keeper.loaded(queue)
            now_ms, rules = self.clock.now_ms(), queue.rules
            rules.advance(now_ms, self._shard.changes, exact=True)
            self._keeper.changed(queue)
            if queue.paged is not None and rules.counts_lag(now_ms):
                await queue.paged
                continue
            counts = rules.counts(now_ms)
            if counts is not None:
                return counts
            assert isinstance(rules, FifoQueue)
            since_ms = now_ms - rules.settings.delay_ms + 1
            young_ones = Selection(rules.id, rules.backlog.purged_to, enqueued_ms_min=since_ms)
            young = await self._shard.read(partial(self._shard.store.count, young_ones))
            if queue.loaded:
                return rules.counts_with(young, now_ms)

    # -- messages --------------------------------------------------------------------------------------------

    async def send(self, queue: LiveQueue, messages: list[Outgoing]) -> list[Sent]:
        shard = self._shard
        check_key(self._keys, queue)
        if not queue.loaded:
            await self._keeper.loaded(queue)
        shard.check_sends()
        if self._quotas.bounds_messages:
            self._quotas.check_messages(queue.name.account, messages)
        now_ms, wall_ms = self.clock.now_ms(), self.clock.wall_ms()
        answers, entries = queue.rules.send(messages, now_ms, wall_ms, shard.changes)
        shard.joining(queue).extend(entries)
        # A duplicate changes nothing, yet its answer leans on the first send's commit.
        await self._shard.settled()
        return answers

    async def receive(
        self,
        queue: LiveQueue,
        caller: Caller,
        *,
        count: int,
        visibility_ms: int | None,
        wait_ms: int | None,
        attempt_id: str | None,
    ) -> list[Received]:
        check_key(self._keys, queue)
        self._shard.check_not_ended()
        if not queue.loaded:
            await self._keeper.loaded(queue)
        wait_ms = queue.settings.wait_ms if wait_ms is None else wait_ms
        ask = Ask(count, visibility_ms, attempt_id)
        deliveries = self._take(queue, ask)
        if not deliveries:
            if (
                not wait_ms
                and not queue.settings.fifo
                and queue.rules.backlog.in_flight >= self.limits.in_flight_max
            ):
                raise TooManyInFlight
            deliveries = await self._polls.wait(queue, ask, caller, wait_ms)
        if not deliveries:
            if queue.settings.redrive is not None:
                # Whoever gets nothing looks into the dead-letter queue next: what went there is to be found.
                await self._shard.settled()
            return []
        caller.if_unread = partial(self._take_back, queue, deliveries)
        # A FIFO group must stay locked after a crash; on a standard queue a lost mark is only one delivery more.
        durable = self._shard.settled() if queue.settings.fifo else None
        try:
            check_key(self._keys, queue)  # a receive may have waited long
            received = await self._outlet.hand_out(queue, deliveries)
            if durable is not None:
                await durable
        except BaseException:
            self._not_delivered(queue, caller, deliveries)
            raise
        if caller.gone:
            self._not_delivered(queue, caller, deliveries)
            return []
        return received

    def _not_delivered(self, queue: LiveQueue, caller: Caller, deliveries: list[Delivery]) -> None:
        caller.if_unread = None
        self._take_back(queue, deliveries)

    def _take(self, queue: LiveQueue, ask: Ask) -> list[Delivery]:
        """Decide a receive, with the moves to the dead-letter queue that it brings about."""
        now_ms, wall_ms = self.clock.now_ms(), self.clock.wall_ms()
        changes, rules = self._shard.changes, queue.rules
        visibility_ms = rules.settings.visibility_ms if ask.visibility_ms is None else ask.visibility_ms
        redrive = rules.settings.redrive
        target = None if redrive is None else self._catalogue.get(redrive.target)
        receives_max = redrive.receives_max if redrive is not None and target is not None else None
        if ask.attempt_id is not None and isinstance(rules, FifoQueue):
            taken = rules.receive_attempt(
                ask.attempt_id, ask.messages_max, visibility_ms, receives_max, now_ms, wall_ms, changes
            )
        else:
            taken = rules.receive(ask.messages_max, visibility_ms, receives_max, now_ms, wall_ms, changes)
        for entry in taken.dead:
            assert target is not None
            self._moves.bury(entry, queue, target, now_ms)
        if taken.deliveries or taken.dead or changes:
            self._shard.touch(queue)
        self._keeper.page(queue)
        return taken.deliveries

    def _take_back(self, queue: LiveQueue, deliveries: list[Delivery]) -> None:
        if queue.dropped or not queue.loaded:
            return
        queue.rules.take_back(deliveries, self.clock.now_ms(), self._shard.changes)
        self._keeper.changed(queue)

    async def delete(self, queue: LiveQueue, handles: Sequence[str]) -> Outcomes:
        return await self._handles.delete(queue, handles)

    async def change_visibility(self, queue: LiveQueue, changes: Sequence[tuple[str, int]]) -> Outcomes:
        return await self._handles.change_visibility(queue, changes)

    # -- moves between queues --------------------------------------------------------------------------------

    async def start_move(
        self,
        source: LiveQueue,
        destination: LiveQueue | None,
        rate: int | None,
        only_to: frozenset[QueueName] | None = None,
    ) -> MoveTaskRecord:
        await self._keeper.loaded(source)
        task = self._moves.begin(source, destination, rate, only_to)
        await self._shard.settled()
        return task

    def moves(self, source: LiveQueue) -> list[MoveTaskRecord]:
        return self._moves.of(source)

    async def cancel_move(self, source: LiveQueue, task_id: str) -> MoveTaskRecord:
        task = self._moves.cancel(source, task_id)
        await self._shard.settled()
        return task

    # -- after a commit --------------------------------------------------------------------------------------

    def _arrived(self, queue: LiveQueue) -> None:
        self._polls.serve(queue)
        self._keeper.page(queue)

    def _refused(self, queue: LiveQueue) -> None:
        self._keeper.recover(queue)
