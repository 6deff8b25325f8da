"""Internal queues: durable work that the server does in the background, such as the actions of alarms.

What waits durably is a queue. A job is a message in an internal queue, with the rules of any other: it is in flight
while it is worked on, so that a crash makes it visible again, and its receive count says how often it was tried.
Kinds of jobs with an order have FIFO queues, in which the jobs of one group are done one after the other and a job is
hidden between two tries. The jobs of other kinds are independent of each other: between two tries they are delayed
messages, of which memory has the next ones only.

Each account and region has queues of its own for each kind of job, one for each home of what the jobs are about, so
that one account never waits for another and a queue is moved with what it is about. They count for the quota of their
account. The SQS API cannot see them, the admin API lists them.

A new kind of work is a :class:`JobKind`, a handler, and what is to be done when it is given up.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from penstock.backoff import backoff
from penstock.broker.delivery import Again
from penstock.broker.internal_queue_status import InternalQueuePlace, InternalQueueStatus
from penstock.broker.parts import Part
from penstock.broker.queue_figures import QueueFigures
from penstock.broker.runtime import Timer
from penstock.broker.waiting import Ask
from penstock.errors import JobFailed, JobLost, NotOwned, PenstockError, QueueMissing, StoreClosed, StoreError
from penstock.limits import DAY, HOUR, SECOND
from penstock.names import Home, Space
from penstock.promise import Promise, run_detached
from penstock.queues.messages import Received
from penstock.queues.settings import QueueSettings

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition
    from penstock.broker.shard import Commit

log = logging.getLogger("penstock.broker")

T = TypeVar("T")

_WAIT_MS = HOUR
_PAUSE_AFTER_ERROR_MS, _PAUSE_AFTER_ERROR_MS_MAX = SECOND, 30 * SECOND
_HELD_MARGIN_MS = 100  # what is decided in one turn of the loop takes less
_INTERRUPTED_MAX = 3  # how often crashes and moves of the shard may interrupt a job beyond its tries
_HIDDEN_MS_MAX = 11 * HOUR  # SQS: a message is hidden for at most twelve hours from its receive on
_IDLE_MS = HOUR  # an internal queue that was empty for this long is deleted
_RETENTION_MS = 100 * 365 * DAY  # jobs do not expire: one that waits too long is given up when it is taken


class _StoredJob(msgspec.Struct, Generic[T], frozen=True, array_like=True):
    """The body of a message. The order of the fields is the stored format: new ones come last, with a default."""

    tries: int  # before it joined the queue again; its receives come on top of them
    due_ms: int  # when it was to be done first, by the broker's clock
    payload: T
    version: int = 1  # of this form and of that of the payload


class JobKind(Generic[T]):
    """A kind of work: its limits, and how long it waits between two tries."""

    def __init__(
        self,
        name: str,
        payload: type[T],
        *,
        pauses_ms: tuple[int, ...],
        visibility_ms: int,
        ordered: bool = True,
        tries_max: int | None = None,
        running_max: int = 8,
        running_per_group_max: int = 2,
        waiting_max: int = 10_000,
        age_ms_max: int = 4 * DAY,
    ) -> None:
        """``name``: as operators see it. ``pauses_ms``: between two tries; there is one try more than pauses.
        ``visibility_ms``: a job whose process died is tried again after this time. ``ordered``: whether jobs of a
        group are done one after the other; a job that is tried again later then blocks its group until it is done.
        ``tries_max``: where handlers choose the pauses; by default one more than ``pauses_ms``. Crashes and moves of
        the shard may interrupt a job some times more.

        ``running_max``: jobs of one account in a shard at a time. ``running_per_group_max``: jobs of one group in a
        queue at a time, if they have no order. ``waiting_max``: jobs of all accounts in a shard; with more, an
        account that has more than its share gets no further ones. ``age_ms_max``: a job that is older is given up,
        not tried."""
        self.name = name
        self.pauses_ms = pauses_ms
        self.visibility_ms = visibility_ms
        self.ordered = ordered
        self.tries_max = len(pauses_ms) + 1 if tries_max is None else tries_max
        self.running_max = running_max
        self.waiting_max = waiting_max
        self.age_ms_max = age_ms_max
        self.settings = QueueSettings(
            fifo=ordered,
            visibility_ms=visibility_ms,
            retention_ms=_RETENTION_MS,
            group_in_flight_max=0 if ordered else running_per_group_max,
        )
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(_StoredJob[payload])  # type: ignore[valid-type]

    def encode(self, payload: T, due_ms: int, tries: int = 0) -> str:
        return self._encoder.encode(_StoredJob(tries, due_ms, payload)).decode()

    def decode(self, body: str) -> _StoredJob[T]:
        return self._decoder.decode(body)

    def pause_ms(self, failure: JobFailed, attempt: int) -> int | None:
        """Returns the pause before the next try, or None if the job is given up."""
        if not failure.can_repeat:
            return None
        if failure.pause_ms is not None:
            return failure.pause_ms if attempt < self.tries_max else None
        return self.pauses_ms[attempt - 1] if attempt <= len(self.pauses_ms) else None


class Job(Generic[T]):
    """A job that is being worked on. Until it is decided what becomes of it, its visibility timeout is
    extended."""

    def __init__(self, consumer: _JobConsumer[T], message: Received, stored: _StoredJob[T]) -> None:
        self.id = message.content.id  # the same at each try
        self.payload = stored.payload
        self.due_ms = stored.due_ms
        self.attempt = stored.tries + message.receives
        self.is_decided = False
        self._begun_ms = consumer.queue.shard.clock.now_ms()
        self._consumer = consumer
        self._queue = consumer.queue
        self._message = message
        self._timer: Timer | None = None

    async def confirm(self) -> None:
        """Wait until it can be decided what becomes of the job, and check that. A handler calls this before it
        decides something durable after it has waited for something else. Raises as :meth:`check_held`."""
        await self._queue.memory.load()
        self.check_held()
        self.is_decided = False  # what was decided before was in a commit that the store refused

    def check_held(self) -> None:
        """Raises JobLost if the job is another try's: then this one must not decide anything. Raises StoreClosed if
        nothing can be decided any more, because the server stops or gives the shard back."""
        if self._consumer.jobs.stopped:
            raise StoreClosed("the shard is closed")
        queue = self._queue
        if not queue.memory.loaded or queue.deleted:
            raise JobLost
        if queue.held(self._message.handle, _HELD_MARGIN_MS) is None:
            raise JobLost

    def done(self) -> None:
        """Remove the job with the open commit. A handler calls this beside the changes that are its work, or leaves
        it to the caller. Raises as :meth:`check_held`."""
        self.check_held()
        if not self._queue.settle(self._message.handle, None):
            raise JobLost
        self.is_decided = True

    def put_off(self, pause_ms: int, *, was_tried: bool = True) -> None:
        """Try it again later: a job of a kind with an order at most eleven hours after this try began. ``was_tried``:
        False: its time has not come, which is not counted as a try; only for kinds without an order. Raises as
        :meth:`check_held`."""
        assert was_tried or not self._consumer.jobs.kind.ordered
        self.check_held()
        queue, message, kind = self._queue, self._message, self._consumer.jobs.kind
        if kind.ordered:
            worked_ms = queue.shard.clock.now_ms() - self._begun_ms
            hidden_ms = max(0, min(pause_ms, _HIDDEN_MS_MAX - worked_ms))
            if not queue.settle(message.handle, hidden_ms):
                raise JobLost
        else:
            entry = queue.held(message.handle, 0)
            assert entry is not None, "it was just held"
            body = kind.encode(self.payload, self.due_ms, self.attempt - (not was_tried))
            again = Again(self.id, entry.enqueued_ms)
            if not queue.settle(message.handle, None):
                raise JobLost
            self._consumer.add(body, message.group, pause_ms, again)
        self.is_decided = True

    # -- its visibility timeout ------------------------------------------------------------------------------

    def start_extending(self) -> None:
        """Extend the visibility timeout when half of it has passed, so that no other try begins meanwhile."""
        runtime, clock = self._queue.shard.runtime, self._queue.shard.clock
        due_ms = clock.now_ms() + self._consumer.jobs.kind.visibility_ms // 2
        self._timer = runtime.at(due_ms, lambda: run_detached(self._extend()))

    def stop_extending(self) -> None:
        """Stop, because the try has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _extend(self) -> None:
        queue, handle, jobs = self._queue, self._message.handle, self._consumer.jobs
        try:
            await queue.memory.load()
        except PenstockError as error:
            log.debug("a job of the kind %s could not be extended yet: %s", jobs.kind.name, error)
        if self._timer is None or jobs.stopped or queue.deleted:
            return
        if queue.memory.loaded and not self.is_decided:
            if queue.held(handle, 0) is None:
                return
            if not queue.settle(handle, jobs.kind.visibility_ms):
                log.warning(
                    "a try of a job of the kind %s takes too long: another one begins", jobs.kind.name
                )
                return
        self.start_extending()


class _Account(Generic[T]):
    """What an account has in the internal queues of one kind in a shard."""

    def __init__(self) -> None:
        self.unfinished = 0  # jobs that wait or run
        self.running = 0
        self.consumers: deque[_JobConsumer[T]] = deque()  # of its regions and homes; they take turns


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
        self.shard = partition.shard
        self.delivery = partition.delivery
        self._catalogue = partition.catalogue
        self._stopped = False
        self._round: Timer | None = None
        self._consumers: dict[LiveQueue, _JobConsumer[T]] = {}
        self._accounts: dict[str, _Account[T]] = {}
        self._unfinished = self._accounts_with_jobs = 0
        for queue in self._catalogue.internal(kind.name):
            self._consume(queue)

    def start(self) -> None:
        for consumer in self._consumers.values():
            queue, settings = consumer.queue, self.kind.settings
            if queue.settings != settings and queue.settings.fifo == settings.fifo:  # of another release
                self._catalogue.save(queue, msgspec.structs.replace(queue.record, settings=settings))
                queue.configure(settings, self.shard.clock.now_ms())
            consumer.wake()
        self._set_round()

    def stop(self) -> None:
        self._stopped = True
        if self._round is not None:
            self._round.cancel()

    @property
    def job_queues(self) -> Sequence[JobQueues[T]]:
        return (self,)

    @property
    def consumers(self) -> Iterable[_JobConsumer[T]]:
        return self._consumers.values()

    @property
    def stopped(self) -> bool:
        return self._stopped or self.shard.released or self.shard.ended is not None

    def add(self, home: Home, space: Space, group: str | None, payload: T, delay_ms: int = 0) -> bool:
        """Add a job with the open commit; it is worked on when that is durable, or ``delay_ms`` later. ``home``: what
        the work is about. Returns False if too many wait already.

        ``group``: if the kind has an order, what has that order, otherwise what it is a job for, such as an address,
        or None. Only kinds without an order have delays."""
        assert not (self.kind.ordered and (delay_ms or group is None)), (
            "an order needs a group, and no delays"
        )
        account = self._accounts.get(space.account)
        if account is not None and self._has_too_many(account):
            return False
        due_ms = self.shard.clock.now_ms() + delay_ms
        self._consumer(home, space).add(self.kind.encode(payload, due_ms), group, delay_ms)
        return True

    # -- queues ----------------------------------------------------------------------------------------------

    def _consumer(self, home: Home, space: Space) -> _JobConsumer[T]:
        queue = self._catalogue.internal_queue(self.kind.name, space, home)
        if queue is None:
            queue = self._catalogue.create_internal(self.kind.name, space, home, self.kind.settings)
        return self._consumers.get(queue) or self._consume(queue)

    def _consume(self, queue: LiveQueue) -> _JobConsumer[T]:
        account = self._accounts.setdefault(queue.name.account, _Account())
        consumer = self._consumers[queue] = _JobConsumer(self, queue, account)
        account.consumers.append(consumer)
        consumer.count()
        return consumer

    def drop(self, consumer: _JobConsumer[T]) -> None:
        """Remove the consumer of a queue that does not exist any more."""
        if self._consumers.pop(consumer.queue, None) is not None:
            self.count(consumer.account, -consumer.unfinished)
            consumer.account.consumers.remove(consumer)
            if not consumer.account.consumers:
                del self._accounts[consumer.queue.name.account]

    def _set_round(self) -> None:
        self._round = self.shard.runtime.at(self.shard.clock.now_ms() + _IDLE_MS, self._delete_idle)

    def _delete_idle(self) -> None:
        """Delete the queues that have been empty since the last time."""
        for consumer in list(self._consumers.values()):
            if consumer.queue.deleted:
                self.drop(consumer)
            elif consumer.was_used:
                consumer.was_used = bool(consumer.unfinished)
            elif consumer.is_empty:
                self.drop(consumer)
                self._catalogue.remove(consumer.queue, self.shard.clock.now_ms())
        self._set_round()

    # -- limits ----------------------------------------------------------------------------------------------

    def count(self, account: _Account[T], more: int) -> None:
        """Count jobs of an account that are there now and were not before."""
        before, account.unfinished = account.unfinished, account.unfinished + more
        self._unfinished += more
        self._accounts_with_jobs += (account.unfinished > 0) - (before > 0)

    def _has_too_many(self, account: _Account[T]) -> bool:
        if self._unfinished < self.kind.waiting_max:
            return False
        return account.unfinished >= max(1, self.kind.waiting_max // max(1, self._accounts_with_jobs))

    def has_room(self, account: _Account[T]) -> bool:
        return account.running < self.kind.running_max and not self.stopped

    # -- work ------------------------------------------------------------------------------------------------

    async def handle(self, job: Job[T]) -> None:
        """Do a job, or decide what becomes of it. Raises StoreError: then nothing was decided, or it cannot be known.
        Raises JobLost: another try has it."""
        await job.confirm()
        failure = self._not_tried(job)
        if failure is None:
            try:
                await self._handle(job)
            except JobFailed as error:
                # Its frames hold the job, and one of them holds it: such a cycle would keep the payload for long.
                failure = error.with_traceback(None)
            except (StoreError, NotOwned, JobLost):
                raise
            except Exception as error:
                if self.stopped:
                    raise StoreClosed("the shard is closed") from None
                log.exception("a job of the kind %s failed with an unexpected error", self.kind.name)
                failure = JobFailed(f"an internal error: {type(error).__name__}", can_repeat=True)
        if not job.is_decided:
            await job.confirm()
            self._decide(job, failure)
        await self.shard.settled()

    def _not_tried(self, job: Job[T]) -> JobFailed | None:
        """Why a job is given up before it is tried."""
        if self.shard.clock.now_ms() - job.due_ms > self.kind.age_ms_max:
            return JobFailed("it has waited for too long")
        if job.attempt > self.kind.tries_max + _INTERRUPTED_MAX:
            log.error("a job of the kind %s is given up after %d tries", self.kind.name, job.attempt - 1)
            return JobFailed("all tries were interrupted")
        return None

    def _decide(self, job: Job[T], failure: JobFailed | None) -> None:
        """The end of a try, with the open commit."""
        pause_ms = None if failure is None else self.kind.pause_ms(failure, job.attempt)
        if pause_ms is not None:
            job.put_off(pause_ms)
            return
        job.done()
        if failure is not None:
            try:
                self._give_up(job, str(failure))
            except Exception:
                log.exception("giving up a job of the kind %s failed", self.kind.name)


class _Taker:
    """Who receives the jobs: a client that disconnects when its account has no room for another job."""

    def __init__(self) -> None:
        self.gone = False
        self.on_gone: Callable[[], None] | None = None
        self.if_unread: Callable[[], None] | None = None


class _JobConsumer(Generic[T]):
    """Takes the jobs of one internal queue, some at a time."""

    def __init__(self, jobs: JobQueues[T], queue: LiveQueue, account: _Account[T]) -> None:
        self.jobs = jobs
        self.queue = queue
        self.account = account
        self.unfinished = 0  # jobs that wait or run
        self.was_used = True  # lately
        usage = queue.shard.usage.get(queue.id)
        self._stored = 0 if usage is None else usage.messages
        self._coming: dict[Commit, int] = {}  # jobs that join with a commit
        self._running = 0
        self._taking = False
        self._taker = _Taker()

    @property
    def place(self) -> InternalQueuePlace:
        name = self.queue.name
        return InternalQueuePlace(self.jobs.kind.name, name.account, name.region)

    @property
    def is_empty(self) -> bool:
        """Whether the queue holds no job and none is coming. False if that is not known, because its memory is not
        loaded."""
        if not self.queue.memory.loaded or self.queue.rules.backlog.total:
            return False
        return not (self._coming or self._running or self._taking)

    async def status(self, partition: Partition) -> InternalQueueStatus | None:
        """Returns None if the queue is empty."""
        oldest_ms = await partition.figures.oldest([self.queue])
        try:
            counts = await self.queue.counts()
        except QueueMissing:
            return None
        # A job that was put off is in flight, as one that runs is, or delayed.
        running = min(self._running, counts.in_flight)
        put_off = counts.in_flight - running + counts.delayed
        if not counts.visible + put_off + running:
            return None
        now_ms = partition.shard.clock.now_ms()
        age_ms = QueueFigures(self.queue, now_ms, oldest_ms=oldest_ms.get(self.queue)).age_ms
        return InternalQueueStatus(self.place, counts.visible + put_off, running, put_off, age_ms)

    # -- counting --------------------------------------------------------------------------------------------

    def add(self, body: str, group: str | None, delay_ms: int, again: Again | None = None) -> None:
        """A job joins the queue with the open commit."""
        commit = self.jobs.shard.open_commit
        self.jobs.delivery.enqueue(self.queue, body, group, delay_ms, again)
        is_first = commit not in self._coming
        self._coming[commit] = self._coming.get(commit, 0) + 1
        if is_first:
            commit.when_durable.append(self._durable)
            commit.done.on_done(partial(self._joined, commit))  # at once, if its outcome is not known in time
        self.was_used = True
        self.count()

    def _joined(self, commit: Commit, done: Promise[None]) -> None:
        """A commit with new jobs is durable or was refused."""
        coming = self._coming.pop(commit)
        if not done.failed and not self.queue.memory.loaded:
            self._stored += coming  # until it is counted
        self.wake()

    def _durable(self, commit: Commit) -> None:
        if commit.done.failed:
            run_detached(self._recount())

    async def _recount(self) -> None:
        """A commit that counted as refused was made after all: its jobs are in memory when that is loaded again."""
        await self.jobs.shard.pause(1)
        self._stored = max(1, self._stored)
        self.wake()

    def count(self) -> None:
        if self.queue.memory.loaded:
            self._stored = self.queue.rules.backlog.total
        unfinished = self._stored + sum(self._coming.values())
        self.jobs.count(self.account, unfinished - self.unfinished)
        self.unfinished = unfinished

    # -- taking ----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if self.queue.deleted:
            self.jobs.drop(self)
            return
        self.count()
        if not self._taking and self.unfinished and self.jobs.has_room(self.account):
            self._taking = True
            run_detached(self._take())

    async def _take(self) -> None:
        jobs, queue = self.jobs, self.queue
        ask = Ask(1, jobs.kind.visibility_ms, None)
        try:
            while jobs.has_room(self.account):
                try:
                    await queue.memory.load()
                    self.count()
                    if jobs.stopped or not self.unfinished:
                        return
                    for message in await queue.receive(ask, self._taker, _WAIT_MS):
                        self._begin(message)
                except PenstockError as error:
                    if jobs.stopped or queue.deleted:
                        return
                    log.warning("jobs of the kind %s wait: %s", jobs.kind.name, error)
                    await jobs.shard.pause(_PAUSE_AFTER_ERROR_MS)
                except Exception:
                    if jobs.stopped or queue.deleted:
                        return
                    # Otherwise the jobs of this queue would wait until the next one is added.
                    log.exception("jobs of the kind %s wait", jobs.kind.name)
                    await jobs.shard.pause(_PAUSE_AFTER_ERROR_MS)
        finally:
            self._taking = False

    def _begin(self, message: Received) -> None:
        jobs, account = self.jobs, self.account
        if not jobs.has_room(account):  # another queue of the account was served in the same turn
            if self._taker.if_unread is not None and not jobs.stopped:
                self._taker.if_unread()
            return
        self.was_used = True
        self._running += 1
        account.running += 1
        if not jobs.has_room(account):
            for other in account.consumers:
                other.stop_waiting()
        run_detached(self._do(message))

    def stop_waiting(self) -> None:
        if self._taker.on_gone is not None:
            self._taker.on_gone()

    async def _do(self, message: Received) -> None:
        jobs = self.jobs
        try:
            await self._work(message)
        except JobLost:
            log.info("a try of a job of the kind %s ends: another try has it", jobs.kind.name)
        except PenstockError as error:
            if not jobs.stopped:
                log.warning("a job of the kind %s is tried again later: %s", jobs.kind.name, error)
        except Exception:
            self._end()
            raise
        self._end()  # not in a finally clause: a broker that the garbage collector frees begins nothing new

    def _end(self) -> None:
        jobs, account = self.jobs, self.account
        was_full = account.running >= jobs.kind.running_max
        self._running -= 1
        account.running -= 1
        if jobs.stopped:
            return
        if was_full and len(account.consumers) > 1:
            account.consumers.rotate(-1)
            for other in list(account.consumers):
                if other.unfinished:
                    other.wake()
        self.wake()

    async def _work(self, message: Received) -> None:
        jobs, kind, shard = self.jobs, self.jobs.kind, self.jobs.shard
        if not kind.ordered:
            # The receive is durable before the work begins: a job that ends the process counts as tried.
            shard.write_later()
            await shard.settled(self.queue)
        try:
            stored = kind.decode(message.content.body)
        except (msgspec.DecodeError, RecursionError) as error:
            log.error("a job of the kind %s is dropped, it cannot be read: %s", kind.name, error)
            self.queue.settle(message.handle, None)
            await shard.settled()
            return
        job, failures = Job(self, message, stored), 0
        job.start_extending()
        try:
            while True:
                try:
                    await jobs.handle(job)
                    return
                except StoreError as error:
                    if jobs.stopped:
                        return
                    failures += 1
                    log.warning("a job of the kind %s waits for the store: %s", kind.name, error)
                await shard.pause(int(backoff(failures, _PAUSE_AFTER_ERROR_MS, _PAUSE_AFTER_ERROR_MS_MAX)))
        finally:
            job.stop_extending()
