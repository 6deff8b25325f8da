"""A partition: one shard that this process owns, with everything of the broker that belongs to it alone.

A shard can be given back while requests come in. From then on its queues are not found, and everything that has not
been decided yet is refused with NotOwned, so that it can be passed on to the next owner. What was decided before is
made durable and answered here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from penstock.broker.bulk_tasks import BulkTasks
from penstock.broker.catalogue import Catalogue
from penstock.broker.delivery import MayDeliver, QueueDelivery
from penstock.broker.editing import Editing
from penstock.broker.encryption import KeyGuard
from penstock.broker.failures import Failures
from penstock.broker.history import MessageHistory, ShardHistory
from penstock.broker.inbox import Inbox
from penstock.broker.inspection import Inspection
from penstock.broker.live_queue import LiveQueue, QueueContext
from penstock.broker.metering import Metering
from penstock.broker.move_tasks import MoveTasks
from penstock.broker.outbox import Outbox, PageSlots
from penstock.broker.parts import Part, PartList
from penstock.broker.questions import OtherShards
from penstock.broker.queue_figures import FigureReader
from penstock.broker.queue_meter import SecondsMemory
from penstock.broker.quotas import Quotas, ShardUsage
from penstock.broker.shard import Shard
from penstock.broker.upkeep import MemoryRelief, Upkeep
from penstock.errors import NotOwned, PenstockError, StoreClosed
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.backlog import EXPIRY_PAUSES, Budget, ExpiryPause
from penstock.queues.deduplication import DedupUsage, SendDigests
from penstock.queues.former_shards import FORMER_SHARDS, FormerShards
from penstock.queues.queue import Tools
from penstock.queues.receipts import MESSAGE_ID_FORMS, OWN_IDS, MessageIdForm, MessageIds, ReceiptSigner
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.turns import Turns

P = TypeVar("P")

_PAUSE_KEY = "pause"


class Recovery(NamedTuple):
    """What opening a shard found."""

    queues: int
    messages: int
    bytes: int


class Shared(NamedTuple):
    """What all partitions of a process share."""

    by_name: dict[QueueName, LiveQueue]
    budget: Budget
    relief: MemoryRelief
    dedup_usage: DedupUsage
    quotas: Quotas
    keys: KeyGuard
    dedup_key: bytes | None  # keys the digests of sends, where messages are encrypted
    shards: int  # how many there are in all
    others: OtherShards
    slots: PageSlots
    history: MessageHistory
    seconds: SecondsMemory
    turns: Turns
    may_deliver: MayDeliver | None  # None: no policies are enforced


PartFactory = Callable[["Partition"], Part]


class Partition:
    """The parts of one shard, how they are connected, and the steps in which it is given back."""

    def __init__(self, shard: Shard, shared: Shared, more_parts: Sequence[PartFactory] = ()) -> None:
        """``more_parts``: makes those of services, last and in order. They may use all parts before them."""
        self.shard = shard
        self._shared = shared
        migrated = [each for _, each in shard.table(FORMER_SHARDS)]
        former = FormerShards(migrated, keyed_by_shard=shared.dedup_key is None)
        self.message_ids = ids = _message_ids(shard, former)
        pause = _expiry_pause(shard)
        tools = Tools(
            limits=shard.limits,
            budget=shared.budget,
            dedup_usage=shared.dedup_usage,
            next_number=shard.next_number,
            message_id=ids,
            send_digest=SendDigests(shared.dedup_key or shard.secret),
            former=former,
            pause=pause,
        )
        receipts = ReceiptSigner(shard.secret, shard.index, former.read if migrated else None)
        self.figures = FigureReader(shard, shared.turns)
        keeps_metrics = shard.limits.metrics_bytes_max > 0
        self.metering = (
            Metering(shard, self.figures, shared.seconds, shared.shards, shared.turns)
            if keeps_metrics
            else None
        )
        quotas = shared.quotas
        self.failures = failures = Failures(shard)
        outbox = Outbox(shard, shared.by_name, shared.shards, shared.others, shared.slots, failures)
        self.delivery = delivery = QueueDelivery(
            shard, shared.by_name, outbox, shared.keys, quotas, failures, shared.may_deliver
        )
        check_quota = quotas.check_messages if quotas.bounds_messages else None
        context = QueueContext(
            shard=shard,
            tools=tools,
            receipts=receipts,
            keys=shared.keys,
            history=shared.history,
            metering=self.metering,
            delivery=delivery,
            check_quota=check_quota,
        )
        self.catalogue = catalogue = Catalogue(context, shared.by_name)
        self.inbox = Inbox(shard, delivery)
        history = ShardHistory(shard, shared.history)
        upkeep = Upkeep(shard, catalogue, self.figures, failures, history, pause)
        self.moves = MoveTasks(shard, catalogue, delivery, shared.others)
        self.editing = Editing(shard, delivery, quotas, shared.history)
        self.inspection = Inspection(shard, ids)
        self.bulk_tasks = BulkTasks(shard, catalogue, delivery, self.inspection, self.editing)
        usage = shard.usage.values()
        messages, size = sum(each.messages for each in usage), sum(each.bytes for each in usage)
        self.recovery = Recovery(len(catalogue), messages, size)
        shard.watch(shared.relief.relieve)
        usage_part = ShardUsage(shard, catalogue, quotas)
        parts = [history, usage_part, upkeep, self.metering, outbox, self.moves, self.bulk_tasks]
        self.parts = PartList([part for part in parts if part is not None])
        for make in more_parts:
            self.parts.append(make(self))

    def part(self, kind: type[P]) -> P:
        """The part of this kind."""
        return self.parts.find(kind)

    def turn(self) -> Promise[None]:
        """Returns a promise that is resolved when the events at hand are done and another piece of long work may be
        done: of all shards of the process one has its turn at a time."""
        return self._shared.turns.pause(self.shard.runtime.soon)

    def start(self) -> None:
        """Begin the work that no request asks for: expiry, tasks under way, cleanup."""
        self.shard.start()
        self.parts.start()

    # -- definitions of queues, in the open commit --------------------------------------------------------------

    def check_new(self, name: QueueName) -> None:
        """Raises StoreError or QueueDeletedRecently if a queue of this name cannot be created now."""
        self.shard.check_sends()
        self.catalogue.check_name_free(name, self.shard.clock.now_ms())

    def create(self, name: QueueName, settings: QueueSettings, tags: dict[str, str]) -> LiveQueue:
        clock = self.shard.clock
        wall_ms = clock.wall_ms()
        queue = self.catalogue.create(
            QueueRecord(
                id=self.shard.next_number(),
                name=name,
                settings=settings,
                tags=tags,
                created_ms=wall_ms,
                modified_ms=wall_ms,
            )
        )
        queue.metrics.turn(clock.now_ms())
        return queue

    def change(self, queue: LiveQueue, settings: QueueSettings, tags: dict[str, str]) -> None:
        clock, record = self.shard.clock, msgspec.structs.replace(queue.record, tags=tags)
        if settings != queue.settings:
            record = msgspec.structs.replace(record, settings=settings, modified_ms=clock.wall_ms())
        self.catalogue.save(queue, record)
        queue.configure(settings, clock.now_ms())

    def delete(self, queue: LiveQueue) -> None:
        self.catalogue.remove(queue, self.shard.clock.now_ms())
        self.parts.queue_deleted(queue)

    def purge(self, queue: LiveQueue) -> None:
        """Raises PurgedRecently."""
        self.catalogue.purge(queue, self.shard.clock.now_ms())
        self.parts.queue_purged(queue)

    def reload_queues(self) -> None:
        """Throw all memory of queues away and load it again for waiting receives."""
        for queue in self.catalogue:
            queue.memory.forget()
            queue.memory.reload()

    # -- stop and giving back --------------------------------------------------------------------------------

    def end_polls(self, error: PenstockError | None = None) -> None:
        """Answer every waiting receive with nothing, or with this error."""
        for queue in self.catalogue:
            queue.waiting.end(error)

    async def stop(self) -> None:
        """End every wait and make all that was decided durable. What is decided later, by work that was waiting for a
        read, is refused: no one waits for that, and the store is closed."""
        self.parts.stop()
        self.end_polls()
        await self.parts.prepare_flush()
        self.shard.write_later()
        self.parts.flush()
        try:
            await self.shard.settled()
            await self.shard.settled()  # the first one may have brought more, such as a count of what it did
        finally:
            if self.shard.ended is None:
                self.shard.finish(StoreClosed("the server stops"))

    async def close(self) -> None:
        """Give the shard back. Returns when everything decided is durable or was refused, and nothing more will be
        decided: then the caller closes the store."""
        # A poll gets an empty answer, as SQS may give at any time: its client polls again, at the next owner.
        queues = self._release(None)
        for queue in queues:
            while queue.waiting:
                await self.shard.turn()
        await self.parts.prepare_flush()
        self.parts.flush()
        await self.shard.drained()
        self._forget(queues)
        self.finish()

    def abandon(self) -> None:
        """The shard is or may be another's: nothing more is made durable."""
        queues = self._release(NotOwned(self.shard.index))
        self.finish()
        self._forget(queues)

    def finish(self) -> None:
        """Try no commit any more."""
        if self.shard.ended is None:
            self.shard.finish(StoreClosed("the shard belongs to another process now"))

    def _release(self, poll_error: PenstockError | None) -> list[LiveQueue]:
        self.shard.released = True
        self.parts.stop()
        queues = list(self.catalogue)
        for queue in queues:
            if not queue.record.internal:
                del self._shared.by_name[queue.name]
        self.end_polls(poll_error)
        return queues

    def _forget(self, queues: list[LiveQueue]) -> None:
        self.parts.forget()
        for queue in queues:
            queue.memory.forget()


def _message_ids(shard: Shard, former: FormerShards) -> MessageIds:
    """The ids of a shard's messages. Where an earlier release has given numbers out, a record keeps which."""

    def undone(key: str, record: MessageIdForm | None) -> None:
        if record is None and not shard.released:
            forms.put(OWN_IDS, form, can_wait=True)

    forms = shard.table(MESSAGE_ID_FORMS, undone)
    stored = forms.get(OWN_IDS)
    form = stored or MessageIdForm(shard.numbers_to)
    if stored is None:
        forms.put(OWN_IDS, form, can_wait=True)
    return MessageIds(shard.secret, form.first, former.number_of)


def _expiry_pause(shard: Shard) -> ExpiryPause:
    """Returns the pause of expiry at this start. It is stored, because the operator who sees a wrong clock will stop
    the server and start it again."""
    pauses = shard.table(EXPIRY_PAUSES)
    pause_ms, now_ms = shard.limits.expiry_pause_ms, shard.clock.now_ms()
    pause = ExpiryPause.at_start(pause_ms, shard.last_ms, now_ms, pauses.get(_PAUSE_KEY))
    if pause.until_ms > now_ms:
        pauses.put(_PAUSE_KEY, pause, can_wait=True)
    return pause
