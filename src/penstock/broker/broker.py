"""The broker: the one object that services call. It puts the parts together and changes the catalogue.

Every method runs on the loop, decides without waiting, and awaits only what its answer rests on.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.editing import Editing
from penstock.broker.encryption import KeyGuard, NoGuard
from penstock.broker.live_queue import LiveQueue, Outcomes, QueueContext
from penstock.broker.move_tasks import MoveTaskRecord, MoveTasks
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.broker.upkeep import Upkeep
from penstock.broker.waiting import Ask, Client
from penstock.errors import PurgedRecently
from penstock.names import QueueName, Space
from penstock.queues.backlog import Budget
from penstock.queues.dedup import DedupUsage, SendDigests
from penstock.queues.messages import Counts, Outgoing, Received, Sent, position_of
from penstock.queues.queue import Tools
from penstock.queues.receipts import MessageIds, ReceiptSigner
from penstock.queues.settings import QueueRecord, QueueSettings


class Recovery(NamedTuple):
    """What a start found."""

    queues: int
    messages: int
    bytes: int


class Broker:
    def __init__(self, shard: Shard, keys: KeyGuard | None = None, dedup_key: bytes | None = None) -> None:
        """``dedup_key``: keys the digests of sends, where messages are encrypted."""
        self.clock = shard.clock
        self.limits = limits = shard.limits
        self.budget = Budget(limits.memory_budget_bytes)
        self.dedup_usage = DedupUsage(limits)
        self._shard = shard
        tools = Tools(
            limits, self.budget, self.dedup_usage, shard.next_number, MessageIds(shard.secret),
            SendDigests(dedup_key or shard.secret),
        )  # fmt: skip
        context = QueueContext(shard, tools, ReceiptSigner(shard.secret), keys or NoGuard())
        self._catalogue = catalogue = Catalogue(context)
        self.by_name: Mapping[QueueName, LiveQueue] = catalogue.by_name
        self._quotas = quotas = Quotas(shard, catalogue)
        context.deliver, context.exists = catalogue.deliver, catalogue.exists
        context.check_quota = quotas.check_messages if quotas.bounds_messages else None
        self._upkeep = Upkeep(shard, self.budget, catalogue)
        self._moves = MoveTasks(shard, catalogue)
        self.editing = Editing(shard)
        usage = shard.usage.values()
        messages, size = sum(each.messages for each in usage), sum(each.bytes for each in usage)
        self.recovery = Recovery(len(self.queues()), messages, size)
        shard.watch(lambda commit: self._upkeep.relieve_memory())

    def start(self) -> None:
        """Begin the work that no request asks for: expiry, move tasks under way, cleanup."""
        self._shard.start()
        self._upkeep.start()
        self._moves.start()

    async def stop(self) -> None:
        """End every wait and make all that was decided durable."""
        self._upkeep.stop()
        self._moves.stop()
        self.end_polls()
        self._shard.write_later()
        await self._shard.settled()

    def end_polls(self) -> None:
        """Answer every waiting receive with nothing."""
        for queue in self._catalogue:
            queue.waiting.end()

    async def settled(self) -> None:
        """Wait until everything decided so far is durable."""
        await self._shard.settled()

    @property
    def sends_refused(self) -> str | None:
        """Why sends are refused at present, such as a full disk; None if they are accepted."""
        return self._shard.refuses

    def keys_changed(self) -> None:
        """Keys were disabled or enabled: messages in memory are read again from the store, which checks the keys."""
        self._upkeep.reload_all()

    # -- queues ----------------------------------------------------------------------------------------------

    def find(self, name: QueueName) -> LiveQueue:
        """Raises QueueMissing."""
        return self._catalogue.find(name)

    def queues(self) -> list[LiveQueue]:
        """Those of all accounts and regions."""
        return list(self._catalogue)

    def names(self, space: Space, prefix: str = "") -> list[QueueName]:
        return self._catalogue.names(space, prefix)

    def sources_of(self, name: QueueName) -> list[QueueName]:
        """The queues that name this one as their dead-letter queue."""
        return self._catalogue.sources_of(name)

    async def create(self, name: QueueName, settings: QueueSettings, tags: dict[str, str]) -> LiveQueue:
        self._shard.check_sends()
        self._catalogue.check_name_free(name, self.clock.now_ms())
        self._quotas.check_new_queue(name.account)
        wall_ms = self.clock.wall_ms()
        queue = self._catalogue.create(
            QueueRecord(
                id=self._shard.next_number(),
                name=name,
                settings=settings,
                tags=tags,
                created_ms=wall_ms,
                modified_ms=wall_ms,
            )
        )
        await self._shard.settled()
        return queue

    async def configure(self, queue: LiveQueue, settings: QueueSettings) -> None:
        record = msgspec.structs.replace(queue.record, settings=settings, modified_ms=self.clock.wall_ms())
        self._catalogue.save(queue, record)
        queue.configure(settings, self.clock.now_ms())
        await self._shard.settled()

    async def tag(self, queue: LiveQueue, tags: dict[str, str]) -> None:
        self._catalogue.save(queue, msgspec.structs.replace(queue.record, tags=tags))
        await self._shard.settled()

    async def drop(self, queue: LiveQueue) -> None:
        self._catalogue.remove(queue, self.clock.now_ms())
        self._moves.source_deleted(queue)
        await self._shard.settled()
        self._upkeep.maintain()

    async def purge(self, queue: LiveQueue) -> None:
        now_ms = self.clock.now_ms()
        # SQS: one purge per minute.
        if queue.record.purged_ms and now_ms < queue.record.purged_ms + self.limits.purge_pause_ms:
            raise PurgedRecently(queue.name.name)
        number = self._shard.next_number()
        upto = position_of(number)
        self._catalogue.save(queue, msgspec.structs.replace(queue.record, purged_to=upto, purged_ms=now_ms))
        self._shard.changes.purge(queue.id, upto, number)
        queue.purge(upto, now_ms)
        await self._shard.settled()
        self._upkeep.maintain()

    # -- messages --------------------------------------------------------------------------------------------

    def send(self, queue: LiveQueue, messages: list[Outgoing]) -> Coroutine[Any, None, list[Sent]]:
        return queue.send(messages)

    def receive(
        self,
        queue: LiveQueue,
        caller: Client,
        *,
        count: int,
        visibility_ms: int | None,
        wait_ms: int | None,
        attempt_id: str | None,
    ) -> Coroutine[Any, None, list[Received]]:
        return queue.receive(Ask(count, visibility_ms, attempt_id), caller, wait_ms)

    def delete(self, queue: LiveQueue, handles: Sequence[str]) -> Coroutine[Any, None, Outcomes]:
        return queue.delete(handles)

    def change_visibility(
        self, queue: LiveQueue, changes: Sequence[tuple[str, int]]
    ) -> Coroutine[Any, None, Outcomes]:
        return queue.change_visibility(changes)

    def counts(self, queue: LiveQueue) -> Coroutine[Any, None, Counts]:
        return queue.counts()

    # -- move tasks ------------------------------------------------------------------------------------------

    async def start_move(
        self,
        source: LiveQueue,
        destination: LiveQueue | None,
        rate: int | None,
        only_to: frozenset[QueueName] | None = None,
    ) -> MoveTaskRecord:
        await source.memory.load()
        task = self._moves.begin(source, destination, rate, only_to)
        await self._shard.settled()
        # On the next turn of the loop: the answer to this request comes first.
        self._shard.runtime.soon(lambda: self._moves.run(task.id))
        return task

    def moves(self, source: LiveQueue) -> list[MoveTaskRecord]:
        return self._moves.of(source)

    async def cancel_move(self, source: LiveQueue, task_id: str) -> MoveTaskRecord:
        task = self._moves.cancel(source, task_id)
        await self._shard.settled()
        return task
