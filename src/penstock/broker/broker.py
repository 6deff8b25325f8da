"""The broker: the one object that services call. It finds the shard of a queue and changes what exists.

A queue belongs to one of a fixed number of shards (:func:`penstock.names.shard_of`). This process owns some of them,
and answers only for their queues: everything else raises NotOwned, always before anything was decided. What bounds
the memory and the accounts of a process is shared by all its shards.

Every method runs on the loop, decides without waiting, and awaits only what its answer rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Any

from penstock.broker.delivery import MayDeliver
from penstock.broker.encryption import KeyGuard, NoGuard
from penstock.broker.handover import Handover
from penstock.broker.history import MessageHistory
from penstock.broker.internal_queue_status import InternalQueuesQuestion
from penstock.broker.live_queue import LiveQueue
from penstock.broker.other_shards import (
    CountQuestion,
    DefinitionQuestion,
    NamesQuestion,
    SourcesQuestion,
)
from penstock.broker.outbox import PageSlots
from penstock.broker.partition import PartFactory, Partition, Recovery, Shared
from penstock.broker.questions import A, LocalShards, OtherShards, OwnedShards, ShardQuestion
from penstock.broker.queue_meter import SecondsMemory
from penstock.broker.queue_series import SeriesQuery
from penstock.broker.quotas import OtherProcesses, Quotas
from penstock.broker.shard import Shard
from penstock.broker.summaries import (
    StatusQuestion,
    SummariesQuestion,
    TargetsQuestion,
    TasksQuestion,
    TotalsQuestion,
)
from penstock.broker.upkeep import MemoryRelief
from penstock.clock import Clock, SystemClock
from penstock.errors import NotOwned, QueueMissing, QuotaReached, StoreError
from penstock.limits import Limits
from penstock.names import QueueName, shard_of
from penstock.promise import start
from penstock.queues.backlog import Budget
from penstock.queues.deduplication import DedupUsage
from penstock.queues.settings import QueueDefinition, QueueSettings
from penstock.turns import Turns


class Broker:
    """The queues of all shards that this process owns."""

    def __init__(
        self,
        limits: Limits,
        shards: int = 1,
        keys: KeyGuard | None = None,
        dedup_key: bytes | None = None,
        usage: OtherProcesses | None = None,
        turns: Turns | None = None,
        clock: Clock | None = None,
        others: Callable[[OwnedShards], OtherShards] = LocalShards,
        may_deliver: MayDeliver | None = None,
    ) -> None:
        """``shards``: how many there are in all. ``dedup_key``: keys the digests of sends, where messages are
        encrypted. ``usage``: what accounts hold in other processes, for the quotas. ``turns``: of long work;
        without, it is done at once. ``clock``: what :meth:`wall_ms` shows where no shard is open. ``others``: makes
        what asks all shards, with those that this process owns. ``may_deliver``: whether the policy of a queue lets
        a service send to it; without, policies are not enforced."""
        self._clock = clock or SystemClock()
        self.limits = limits
        self.turns = turns or Turns()
        self.shards = shards
        self.budget = Budget(limits.memory_budget_bytes)
        self.dedup_usage = DedupUsage(limits)
        self.history = MessageHistory(limits.history_events_max, limits.history_ms_max)
        self._quotas = Quotas(limits, usage)
        by_name: dict[QueueName, LiveQueue] = {}
        self.by_name: Mapping[QueueName, LiveQueue] = by_name  # all queues of owned shards
        self.owned_shards = OwnedShards(self.partition, shards)
        self._others = others(self.owned_shards)
        self._partitions: dict[int, Partition] = {}
        relief = MemoryRelief(self.budget, lambda: chain(*(each.catalogue for each in self.partitions)))
        self._shared = Shared(
            by_name=by_name,
            budget=self.budget,
            relief=relief,
            dedup_usage=self.dedup_usage,
            quotas=self._quotas,
            keys=keys or NoGuard(),
            dedup_key=dedup_key,
            shards=shards,
            others=self._others,
            slots=PageSlots(),
            history=self.history,
            seconds=SecondsMemory(limits.metrics_seconds_bytes),
            turns=self.turns,
            may_deliver=may_deliver,
        )
        self.questions: list[type[ShardQuestion[Any]]] = [
            DefinitionQuestion, NamesQuestion, SourcesQuestion, CountQuestion, Handover, SummariesQuestion,
            TotalsQuestion, TargetsQuestion, TasksQuestion, StatusQuestion, SeriesQuery, InternalQueuesQuestion,
        ]  # fmt: skip
        """What other processes may ask about the shards of this one."""
        self._part_factories: list[PartFactory] = []
        self._closing: dict[int, Partition] = {}  # make their last changes durable

    # -- shards ----------------------------------------------------------------------------------------------

    def extend(self, make: PartFactory, questions: Iterable[type[ShardQuestion[Any]]] = ()) -> None:
        """Add a part to every shard, which answers these questions. Call this before the links to other processes are
        made and the first shard is opened."""
        assert not self._partitions
        self._part_factories.append(make)
        self.questions += questions

    async def ask(self, question: ShardQuestion[A], shards: Iterable[int] | None = None) -> A:
        """Ask shards, and return what they say together. ``shards``: None for those that the question is about.
        Raises Unreachable."""
        assert type(question) in self.questions, "other processes could not answer it"
        return await self._others.ask(question, shards)

    def wall_ms(self) -> int:
        """The time that clients see, of whichever shard: one that a test controls, if there is such a clock."""
        for partition in self._partitions.values():
            return partition.shard.clock.wall_ms()
        return self._clock.wall_ms()

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of the shards that this process owns."""
        return list(self._partitions.values())

    @property
    def owned(self) -> Set[int]:
        return self._partitions.keys()

    def open_shard(self, shard: Shard) -> None:
        """Serve the queues of a shard, and begin the work on it that no request asks for."""
        assert shard.index not in self._partitions and shard.index < self.shards
        partition = self._partitions[shard.index] = Partition(shard, self._shared, self._part_factories)
        partition.start()

    async def close_shard(self, index: int) -> None:
        """Give a shard back: its waiting receives end with no messages, and everything decided is made durable."""
        partition = self._closing[index] = self._partitions.pop(index)
        try:
            await partition.close()
        finally:
            del self._closing[index]

    def drop_shard(self, index: int) -> None:
        """A shard was lost, or may have been: nothing is answered from its memory and nothing more is written."""
        if (partition := self._partitions.pop(index, None)) is not None:
            partition.abandon()
        elif (partition := self._closing.get(index)) is not None:
            partition.finish()

    async def stop(self) -> None:
        """End every wait and make all that was decided durable."""
        # All of them at once: while one ends, the others begin nothing new.
        stopping = [start(partition.stop()) for partition in self._partitions.values()]
        failures = []
        for stopped in stopping:
            try:
                await stopped
            except StoreError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def end_polls(self) -> None:
        """Answer every waiting receive with nothing."""
        for partition in self._partitions.values():
            partition.end_polls()

    async def settled(self) -> None:
        """Wait until everything decided so far is durable."""
        for partition in list(self._partitions.values()):
            await partition.shard.settled()

    @property
    def recovery(self) -> Recovery:
        """What the shards contained when they were opened."""
        found = [partition.recovery for partition in self._partitions.values()]
        return Recovery(*map(sum, zip(*found, strict=True))) if found else Recovery(0, 0, 0)

    @property
    def sends_refused(self) -> str | None:
        """Why sends are refused at present, such as a full disk, or why the last commit was; None if they are
        accepted."""
        shards = [partition.shard for partition in self._partitions.values()]
        reasons = (reason for shard in shards for reason in (shard.refuses, shard.refused_commit))
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def is_away(self) -> bool:
        """Whether the database of a shard cannot be reached: then requests of all kinds are refused."""
        return any(partition.shard.is_away for partition in self._partitions.values())

    def change_limits(self, limits: Limits) -> None:
        """Use other quotas, another memory budget, and other pauses after a purge or a delete. What bounds the memory
        of a single queue stays as it was."""
        self.limits = limits
        self.budget.bytes_max = limits.memory_budget_bytes
        self._quotas.limits = limits
        for partition in self._partitions.values():
            partition.shard.limits = limits

    def keys_changed(self) -> None:
        """Keys were disabled or enabled: messages in memory are read again from the store, which checks the keys."""
        for partition in self._partitions.values():
            partition.reload_queues()

    def check_owned(self, name: QueueName) -> None:
        """A queue was not found here. Raises NotOwned if it can exist elsewhere."""
        self.partition(shard_of(name, self.shards))

    def owns(self, name: QueueName) -> bool:
        return shard_of(name, self.shards) in self._partitions

    def partition(self, index: int) -> Partition:
        """Raises NotOwned."""
        partition = self._partitions.get(index)
        if partition is None or partition.shard.may_have_new_owner():
            raise NotOwned(index)
        return partition

    def partition_of(self, queue: LiveQueue) -> Partition:
        """Raises NotOwned or QueueMissing."""
        queue.check_present()
        return self._partitions[queue.shard.index]

    # -- queues ----------------------------------------------------------------------------------------------

    def find(self, name: QueueName) -> LiveQueue:
        """Raises QueueMissing or NotOwned."""
        queue = self.by_name.get(name)
        if queue is None:
            self.check_owned(name)
            raise QueueMissing
        return queue

    def queues(self) -> list[LiveQueue]:
        """The queues of all accounts and regions."""
        return list(self.by_name.values())

    @property
    def keeps_metrics(self) -> bool:
        return self.limits.metrics_bytes_max > 0

    async def create(
        self, name: QueueName, settings: QueueSettings, tags: dict[str, str], *, has_quota: bool = True
    ) -> LiveQueue:
        """The new queue; or the one of that name that was created while other shards were asked. Without a quota none
        is asked."""
        queues_max = self.limits.quota_queues if has_quota else 0
        queues = await self.ask(CountQuestion(name.account)) if queues_max else 0
        if (existing := self.by_name.get(name)) is not None:
            await existing.shard.settled()
            return existing
        partition = self.partition(shard_of(name, self.shards))
        partition.check_new(name)
        if queues_max and queues >= queues_max:
            raise QuotaReached("queues", queues_max)
        queue = partition.create(name, settings, tags)
        await partition.shard.settled()
        return queue

    async def define(self, wanted: Sequence[QueueDefinition]) -> int:
        """Create queues and change existing ones, all of a shard in one commit. Returns how many were created or
        changed. Raises NotOwned or PenstockError before anything was decided, or StoreError: then the queues of at
        least one shard are as they were."""
        partitions = {each.name: self.partition(shard_of(each.name, self.shards)) for each in wanted}
        changed = []
        for each in wanted:
            queue = self.by_name.get(each.name)
            if queue is None:
                partitions[each.name].check_new(each.name)
            if queue is None or (queue.settings, queue.tags) != (each.settings, each.tags):
                changed.append((each, queue))
        for each, queue in changed:
            partition = partitions[each.name]
            if queue is None:
                partition.create(each.name, each.settings, each.tags)
            else:
                partition.change(queue, each.settings, each.tags)
        for shard in {partitions[each.name].shard for each, _ in changed}:
            await shard.settled()
        return len(changed)

    async def configure(self, queue: LiveQueue, settings: QueueSettings) -> None:
        self.partition_of(queue).change(queue, settings, queue.tags)
        await queue.shard.settled()

    async def tag(self, queue: LiveQueue, tags: dict[str, str]) -> None:
        self.partition_of(queue).change(queue, queue.settings, tags)
        await queue.shard.settled()

    async def drop(self, queue: LiveQueue) -> None:
        partition = self.partition_of(queue)
        partition.delete(queue)
        await queue.shard.settled()

    async def clear(self, account: str) -> int:
        """Delete all queues of an account, and let their names be used again at once. Returns how many there were.
        What services keep for the account goes, too. It is for tests, in a process that owns all shards."""
        queues = [queue for queue in self.queues() if queue.name.account == account]
        for queue in queues:
            self.partition_of(queue).delete(queue)
        for partition in self._partitions.values():
            partition.catalogue.end_cooldowns_of(account)
            partition.parts.clear(account)
        await self.settled()
        return len(queues)

    async def purge(self, queue: LiveQueue) -> None:
        """Raises PurgedRecently."""
        self.partition_of(queue).purge(queue)
        await queue.shard.settled()
