"""Internal queues: durable work that the server does in the background, such as the actions of alarms.

What waits durably is a queue. A job is a message in an internal queue, with the rules of any other: it is in flight
while it is worked on, so that a crash makes it visible again; its receive count says how often it was tried; it is
hidden between two tries; its retention is its greatest age. Jobs of one group are done one after the other, in their
order.

Each account and region has a queue of its own for each kind of job, so that one account never waits for another. The
queues belong to the shard that the work is about, and count for the quota of their account. The SQS API cannot see
them, the admin API lists them.

A new kind of work is a :class:`JobKind`, a handler, and what is to be done when it is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.broker.queue_figures import QueueFigures
from penstock.broker.waiting import Ask
from penstock.errors import JobFailed, PenstockError, QueueMissing, StoreClosed, StoreError
from penstock.limits import DAY, HOUR, SECOND
from penstock.names import Home, Space
from penstock.promise import run_detached
from penstock.queues.messages import Received
from penstock.queues.settings import QueueSettings
from penstock.store.port import LAST

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.broker")

T = TypeVar("T")

_WAIT_MS = HOUR
_PAUSE_AFTER_ERROR_MS = SECOND


class JobKind(Generic[T]):
    """A kind of work: its limits, and how long it waits between two tries."""

    def __init__(
        self,
        name: str,
        payload: type[T],
        *,
        pauses_ms: tuple[int, ...],
        visibility_ms: int,
        running_max: int = 8,
        waiting_max: int = 10_000,
        age_ms_max: int = 4 * DAY,
    ) -> None:
        """``name``: as operators see it. ``pauses_ms``: between two tries; there is one try more than pauses.
        ``visibility_ms``: a job whose process died is tried again after this time. ``running_max``: jobs of one
        account at a time. ``waiting_max``: jobs of all accounts in a shard; with more, an account that has more than
        its share gets no further ones."""
        self.name = name
        self.pauses_ms = pauses_ms
        self.visibility_ms = visibility_ms
        self.running_max = running_max
        self.waiting_max = waiting_max
        self.settings = QueueSettings(fifo=True, visibility_ms=visibility_ms, retention_ms=age_ms_max)
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(payload)

    def encode(self, payload: T) -> str:
        return self._encoder.encode(payload).decode()

    def decode(self, body: str) -> T:
        return self._decoder.decode(body)


class Job(Generic[T]):
    """A job that is being worked on."""

    def __init__(self, queue: LiveQueue, message: Received, payload: T) -> None:
        self.id = message.content.id  # the same at each try
        self.payload = payload
        self.attempt = message.receives
        self.is_done = False
        self._queue = queue
        self._handle = message.handle

    def done(self) -> None:
        """Remove the job with the open commit. A handler calls this beside the changes that are its work, or leaves
        it to the caller."""
        self.is_done = self._queue.settle(self._handle, None)

    def put_off(self, pause_ms: int) -> None:
        """Try it again later."""
        self._queue.settle(self._handle, pause_ms)


class InternalQueuePlace(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, order=True
):
    """Where an internal queue is in the list of all."""

    kind: str
    account: str
    region: str


class InternalQueueStatus(msgspec.Struct, frozen=True, array_like=True):
    """What operators see of an internal queue, or of those that a space has for one kind in several shards."""

    place: InternalQueuePlace
    waiting: int
    running: int
    put_off: int  # among the waiting: they were tried in vain, and wait for the next try
    oldest_age_ms: int | None  # as FigureReader.oldest defines it

    def __add__(self, other: InternalQueueStatus) -> InternalQueueStatus:
        ages = [age for age in (self.oldest_age_ms, other.oldest_age_ms) if age is not None]
        return InternalQueueStatus(
            self.place,
            self.waiting + other.waiting,
            self.running + other.running,
            self.put_off + other.put_off,
            max(ages, default=None),
        )


class InternalQueuesQuestion(ShardQuestion[list[InternalQueueStatus]], frozen=True):
    """The first internal queues behind a place that are not empty, of all accounts."""

    kind: ClassVar[str] = "internal-queues"
    rows_max: int = LAST
    after: InternalQueuePlace | None = None

    async def answer(self, partition: Partition) -> list[InternalQueueStatus]:
        await partition.shard.settled()
        consumers = [
            consumer
            for part in partition.parts
            for jobs in part.job_queues
            for consumer in jobs.consumers
            if consumer.waiting and (self.after is None or consumer.place > self.after)
        ]
        found: list[InternalQueueStatus] = []
        for consumer in sorted(consumers, key=lambda each: each.place):
            status = await consumer.status(partition)
            if status is not None:
                found.append(status)
            if len(found) == self.rows_max:
                break
        return found

    def merge(self, answers: list[list[InternalQueueStatus]]) -> list[InternalQueueStatus]:
        by_place: dict[InternalQueuePlace, InternalQueueStatus] = {}
        for status in chain.from_iterable(answers):
            known = by_place.get(status.place)
            by_place[status.place] = status if known is None else known + status
        return [by_place[place] for place in sorted(by_place)[: self.rows_max]]


class JobQueues(Part, Generic[T]):
    """The internal queues of one kind in one shard, and the work on them."""

    def __init__(
        self,
        partition: Partition,
        kind: JobKind[T],
        handle: Callable[[Job[T]], Coroutine[Any, None, None]],
        give_up: Callable[[Job[T], str], None],
    ) -> None:
        """``handle`` does a job; it raises JobFailed if that is not possible, now or at all, and StoreError if it may
        have been done. ``give_up`` is called with the reason when it is not tried again, with the commit open that
        removes the job."""
        self.kind = kind
        self._handle = handle
        self._give_up = give_up
        self._shard = partition.shard
        self._catalogue = partition.catalogue
        self._delivery = partition.delivery
        self._stopped = False
        self._consumers: dict[LiveQueue, _JobConsumer[T]] = {}
        for queue in self._catalogue.internal(kind.name):
            self._consumers[queue] = _JobConsumer(self, queue)

    def start(self) -> None:
        for consumer in self._consumers.values():
            consumer.wake()

    def stop(self) -> None:
        self._stopped = True

    @property
    def job_queues(self) -> Sequence[JobQueues[T]]:
        return (self,)

    @property
    def consumers(self) -> Iterable[_JobConsumer[T]]:
        return self._consumers.values()

    @property
    def stopped(self) -> bool:
        return self._stopped or self._shard.released or self._shard.ended is not None

    def add(self, home: Home, space: Space, group: str, payload: T) -> bool:
        """Add a job with the open commit; it is worked on when that is durable. ``home``: what the work is about.
        Returns False if too many wait already."""
        consumer = self._consumer(home, space)
        if self._has_too_many(consumer):
            return False
        self._delivery.enqueue(consumer.queue, self.kind.encode(payload), group)
        consumer.waiting += 1
        self._shard.open_commit.when_durable.append(lambda _: consumer.wake())
        return True

    def _consumer(self, home: Home, space: Space) -> _JobConsumer[T]:
        queue = self._catalogue.internal_queue(self.kind.name, space)
        if queue is None:
            queue = self._catalogue.create_internal(self.kind.name, space, home, self.kind.settings)
        consumer = self._consumers.get(queue)
        if consumer is None:
            consumer = self._consumers[queue] = _JobConsumer(self, queue)
        return consumer

    def _has_too_many(self, consumer: _JobConsumer[T]) -> bool:
        waiting = [each.waiting for each in self._consumers.values() if each.waiting]
        share = self.kind.waiting_max // max(1, len(waiting))
        return sum(waiting) >= self.kind.waiting_max and consumer.waiting >= share

    async def handle(self, job: Job[T]) -> None:
        """Do a job, or decide what becomes of it. Raises StoreError: then it is tried again later."""
        pauses_ms = self.kind.pauses_ms
        try:
            await self._handle(job)
        except JobFailed as failure:
            if self.stopped:
                raise StoreClosed("the shard is closed") from None
            if failure.can_repeat and job.attempt <= len(pauses_ms):
                job.put_off(pauses_ms[job.attempt - 1])
            else:
                self._give_up(job, str(failure))
                job.done()
        else:
            if self.stopped and not job.is_done:
                raise StoreClosed("the shard is closed")
            if not job.is_done:
                job.done()
        await self._shard.settled()

    def pause_after_error(self) -> Any:
        return self._shard.pause(_PAUSE_AFTER_ERROR_MS)


class _Taker:
    """Who receives the jobs: a client that never disconnects."""

    gone = False
    on_gone: Callable[[], None] | None = None
    if_unread: Callable[[], None] | None = None


class _JobConsumer(Generic[T]):
    """Takes the jobs of one internal queue, some at a time."""

    def __init__(self, jobs: JobQueues[T], queue: LiveQueue) -> None:
        self.queue = queue
        usage = queue.shard.usage.get(queue.id)
        self.waiting = 0 if usage is None else usage.messages  # and running
        self._jobs = jobs
        self._running = 0
        self._taking = False

    @property
    def place(self) -> InternalQueuePlace:
        return InternalQueuePlace(self._jobs.kind.name, self.queue.name.account, self.queue.name.region)

    async def status(self, partition: Partition) -> InternalQueueStatus | None:
        """Returns None if the queue is empty."""
        oldest_ms = await partition.figures.oldest([self.queue])
        try:
            counts = await self.queue.counts()
        except QueueMissing:
            return None
        # A job that was put off is in flight, as one that runs is.
        running = min(self._running, counts.in_flight)
        waiting = counts.visible + counts.in_flight - running
        if not running + waiting:
            return None
        now_ms = partition.shard.clock.now_ms()
        age_ms = QueueFigures(self.queue, now_ms, oldest_ms=oldest_ms.get(self.queue)).age_ms
        return InternalQueueStatus(self.place, waiting, running, counts.in_flight - running, age_ms)

    def wake(self) -> None:
        self._count()
        if not self._taking and self.waiting and self._running < self._jobs.kind.running_max:
            self._taking = True
            run_detached(self._take())

    def _count(self) -> None:
        if self.queue.memory.loaded:
            self.waiting = self.queue.rules.backlog.total

    async def _take(self) -> None:
        jobs, queue = self._jobs, self.queue
        try:
            while self.waiting and self._running < jobs.kind.running_max and not jobs.stopped:
                try:
                    ask = Ask(1, jobs.kind.visibility_ms, None)
                    for message in await queue.receive(ask, _Taker(), _WAIT_MS):
                        self._running += 1
                        run_detached(self._do(message))
                    self._count()
                except PenstockError as error:
                    if jobs.stopped or queue.deleted:
                        return
                    log.warning("jobs of the kind %s wait: %s", jobs.kind.name, error)
                    await jobs.pause_after_error()
        finally:
            self._taking = False

    async def _do(self, message: Received) -> None:
        jobs = self._jobs
        try:
            payload = jobs.kind.decode(message.content.body)
            await jobs.handle(Job(self.queue, message, payload))
        except StoreError as error:
            if not jobs.stopped:
                log.warning("a job of the kind %s is tried again later: %s", jobs.kind.name, error)
        finally:
            self._running -= 1
            if not jobs.stopped:
                self.wake()
