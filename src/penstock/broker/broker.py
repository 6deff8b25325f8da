"""The broker: decides in memory, commits, replies. The one object that faces talk to.

Every method runs on the loop, decides without waiting, and awaits only what its answer rests on: a queue's memory
being filled, contents being read, the commit being durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.commits import Batch, Committer
from penstock.broker.deliveries import Outlet
from penstock.broker.handles import Handles, Outcomes
from penstock.broker.key_guard import KeyGuard, NoGuard, check_key
from penstock.broker.live_queue import LiveQueue
from penstock.broker.move_tasks import MoveTasks
from penstock.broker.polls import Polls
from penstock.broker.quotas import Quotas
from penstock.broker.runtime import Runtime, WatchedRuntime
from penstock.broker.space import DiskSpace
from penstock.broker.upkeep import Upkeep
from penstock.broker.waiters import Ask, Caller
from penstock.clock import Clock
from penstock.errors import (
    PurgedRecently,
    StoreBroken,
    StoreError,
    StoreFull,
    StoreLost,
    TooManyInFlight,
)
from penstock.limits import Limits
from penstock.names import QueueName, Space
from penstock.queues.backlog import Budget
from penstock.queues.dedup import DedupUsage, SendDigests
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Counts, Delivery, Entry, Outgoing, Received, Sent, position_of
from penstock.queues.queue import Tools
from penstock.queues.receipts import MessageIds, ReceiptSigner
from penstock.queues.settings import QueueSettings
from penstock.store.changes import MoveTaskRecord, QueueRecord
from penstock.store.port import Shard, Store

log = logging.getLogger("penstock.broker")


class Recovery(NamedTuple):
    """What a start found."""

    queues: int
    messages: int
    bytes: int


class Broker:
    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        clock: Clock,
        limits: Limits,
        shard: Shard,
        on_fatal: Callable[[StoreError], None],
        keys: KeyGuard | None = None,
        dedup_key: bytes | None = None,
    ) -> None:
        runtime = WatchedRuntime(runtime, on_fatal)
        self.clock = clock
        self.limits = limits
        self.budget = Budget(limits.memory_budget_bytes)
        self.recovery = Recovery(len(shard.queues), shard.messages, shard.bytes)
        self._store = store
        self._runtime = runtime
        self._on_fatal = on_fatal
        self._keys = keys or NoGuard()
        self._commits = Committer(store, runtime, clock, shard, self._durable, self._refused)
        ids, digests = MessageIds(shard.secret), SendDigests(dedup_key or shard.secret)
        self.dedup_usage = DedupUsage(limits)
        tools = Tools(limits, self.budget, self.dedup_usage, self._commits.next_number, ids, digests)
        self._catalogue = Catalogue(tools)
        self._catalogue.restore(shard.queues, shard.cooldowns)
        self._space = DiskSpace(store, runtime, clock)
        self._quotas = Quotas(store, runtime, clock, limits, self._commits, self._catalogue)
        self._polls = Polls(runtime, clock, self._take)
        self._keeper = Upkeep(store, runtime, clock, self.budget, self._commits, self._catalogue, self._polls)
        receipts = ReceiptSigner(shard.secret)
        self._outlet = Outlet(store, runtime, receipts)
        self._handles = Handles(store, runtime, clock, self._commits, self._keeper, receipts)
        self._moves = MoveTasks(
            store, runtime, clock, limits, self._commits, self._catalogue, self._keeper, self._space, self._keys,
            shard.tasks,
        )  # fmt: skip

    def start(self) -> None:
        """Begin the work that nobody asks for: expiry, moves under way, space to give back."""
        self._space.start()
        self._quotas.start()
        self._keeper.start()
        self._moves.start()

    async def stop(self) -> None:
        """End every wait and make all that was decided durable."""
        self._keeper.stop()
        self._moves.stop()
        self.end_polls()
        await self._commits.settled()

    def end_polls(self) -> None:
        """Answer every waiting receive with what there is: nothing."""
        for queue in self._catalogue:
            self._polls.end(queue)

    async def settled(self) -> None:
        await self._commits.settled()

    @property
    def is_full(self) -> bool:
        """Are sends refused because the disk is full?"""
        return self._space.is_full

    def keys_changed(self) -> None:
        """Keys were disabled or enabled: what memory holds of messages is read again, by way of them."""
        self._keeper.forget_all()

    # -- the catalogue ---------------------------------------------------------------------------------------

    def find(self, name: QueueName) -> LiveQueue:
        return self._catalogue.find(name)

    def queues(self) -> Iterator[LiveQueue]:
        """All, in every account and region."""
        return iter(self._catalogue)

    def names(self, space: Space, prefix: str = "") -> list[QueueName]:
        return self._catalogue.names(space, prefix)

    def sources_of(self, name: QueueName) -> list[QueueName]:
        return self._catalogue.sources_of(name)

    async def create(self, name: QueueName, settings: QueueSettings, tags: dict[str, str]) -> LiveQueue:
        self._space.check()
        self._catalogue.check_rested(name, self.clock.now_ms())
        self._quotas.check_new_queue(name.account)
        wall_ms = self.clock.wall_ms()
        record = QueueRecord(
            id=self._commits.next_number(),
            name=name,
            settings=settings,
            tags=tags,
            created_ms=wall_ms,
            modified_ms=wall_ms,
        )
        queue = self._catalogue.add(record)
        queue.loaded = True  # there is nothing to load
        if self._catalogue.resting.pop(name, None) is not None:
            self._commits.open.cooldowns[name] = None
        await self._save(queue)
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
        self._commits.open.queues[queue.id] = queue.record
        self._commits.touch(queue)
        await self._commits.settled()

    async def drop(self, queue: LiveQueue) -> None:
        now_ms = self.clock.now_ms()
        self._catalogue.remove(queue)
        self._catalogue.resting[queue.name] = now_ms + self.limits.delete_pause_ms
        self._polls.end(queue)
        queue.forget()
        changes = self._commits.open
        changes.queues.pop(queue.id, None)
        changes.dropped.append(queue.id)
        changes.cooldowns[queue.name] = now_ms + self.limits.delete_pause_ms
        self._moves.source_gone(queue)
        self._commits.touch(queue)
        await self._commits.settled()
        self._keeper.tidy()

    async def purge(self, queue: LiveQueue) -> None:
        now_ms = self.clock.now_ms()
        if queue.record.purged_ms and now_ms < queue.record.purged_ms + self.limits.purge_pause_ms:
            raise PurgedRecently(queue.name.name)
        upto = position_of(self._commits.next_number())
        queue.rules.purge(upto)
        queue.void_reads()
        queue.loaded = True  # there is nothing left to load
        queue.record = msgspec.structs.replace(queue.record, purged_to=upto, purged_ms=now_ms)
        self._commits.open.purged[queue.id] = upto
        self._polls.serve(queue)
        await self._save(queue)
        self._keeper.tidy()

    async def counts(self, queue: LiveQueue) -> Counts:
        while True:
            await self._keeper.loaded(queue)
            now_ms, rules = self.clock.now_ms(), queue.rules
            rules.advance(now_ms, self._commits.open, exact=True)
            self._keeper.changed(queue)
            if queue.paged is not None and rules.counts_lag(now_ms):
                await queue.paged
                continue
            counts = rules.counts(now_ms)
            if counts is not None:
                return counts
            assert isinstance(rules, FifoQueue)
            since_ms = now_ms - rules.settings.delay_ms + 1
            read = partial(self._store.younger, rules.id, rules.backlog.purged_to, since_ms)
            young = await self._runtime.read(read)
            if queue.loaded:
                return rules.counts_with(young, now_ms)

    # -- messages --------------------------------------------------------------------------------------------

    async def send(self, queue: LiveQueue, messages: list[Outgoing]) -> list[Sent]:
        self._space.check()
        check_key(self._keys, queue)
        if self._quotas.bounds_messages:
            await self._quotas.seek(queue.name.account, messages)
        if not queue.loaded:
            await self._keeper.loaded(queue)
        now_ms, wall_ms = self.clock.now_ms(), self.clock.wall_ms()
        self._commits.check_pace(self.limits.uncommitted_bytes_max)
        changes, rules = self._commits.open, queue.rules
        if self._quotas.bounds_messages:
            self._quotas.take(queue.name.account, messages)
        answers, entries = rules.send(messages, now_ms, wall_ms, changes)
        for entry in entries:
            self._commits.arrive(queue, entry)
        # A duplicate changes nothing, yet its answer leans on the first send's commit.
        await self._commits.settled()
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
                await self._commits.settled()
            return []
        caller.if_unread = partial(self._take_back, queue, deliveries)
        # A FIFO group must stay locked after a crash; on a standard queue a lost mark is only one delivery more.
        durable = self._commits.settled() if queue.settings.fifo else None
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
        changes, rules = self._commits.open, queue.rules
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
            self._commits.touch(queue)
        self._keeper.page(queue)
        return taken.deliveries

    def _take_back(self, queue: LiveQueue, deliveries: list[Delivery]) -> None:
        if queue.dropped or not queue.loaded:
            return
        queue.rules.take_back(deliveries, self.clock.now_ms(), self._commits.open)
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
        await self._commits.settled()
        return task

    def moves(self, source: LiveQueue) -> list[MoveTaskRecord]:
        return self._moves.of(source)

    async def cancel_move(self, source: LiveQueue, task_id: str) -> MoveTaskRecord:
        task = self._moves.cancel(source, task_id)
        await self._commits.settled()
        return task

    # -- after a commit --------------------------------------------------------------------------------------

    def _durable(self, batch: Batch) -> None:
        now_ms = self.clock.now_ms()
        arrived: dict[LiveQueue, list[Entry]] = {}
        for queue, entry in batch.arrivals:
            if queue.loaded:
                arrived.setdefault(queue, []).append(entry)
            else:
                queue.outdated = True
        for queue, entries in arrived.items():
            queue.rules.arrive(entries, now_ms)
            self._polls.serve(queue)
            self._keeper.page(queue)
        self._keeper.relieve()

    def _refused(self, error: StoreError, batches: list[Batch]) -> None:
        log.error("the store refused a commit, its requests fail: %s", error)
        if isinstance(error, (StoreBroken, StoreLost)):
            self._on_fatal(error)
            return
        if isinstance(error, StoreFull):
            self._space.full()
        try:
            # Rare, and short: the store is asked here and now, so that no request sees a half-true catalogue.
            gone = self._catalogue.restore(self._store.queues(), self._store.cooldowns())
            self._moves.restore(self._store.tasks())
        except StoreError as broken:
            self._on_fatal(broken)
            return
        for queue in gone:
            self._polls.end(queue)
        for batch in batches:
            for queue in batch.touched:
                queue.forget()
        for queue in self._catalogue:
            self._keeper.recover(queue)
