"""Receives the messages of one queue, keeps them hidden, has them handled, and settles them.

A message is deleted after its handler returned, and only if it was still this worker's. Nothing else ends it: after a
failure, a crash or a stop, the queue delivers it again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import random
from typing import Any

from penstock.client.client import Client
from penstock.client.codec import Codec, JsonCodec
from penstock.client.consumer.context import MessageContext, attempt_of
from penstock.client.consumer.giving_up import DeadLetters, FailureReports, GaveUp
from penstock.client.consumer.handlers import Handler, HandlerFunction, batch_outcomes
from penstock.client.consumer.leases import HeldLeases, Lease
from penstock.client.consumer.middleware import Middleware, call_through
from penstock.client.consumer.retry import Retry, spread
from penstock.client.consumer.schedule import (
    RECEIVE_MAX,
    Ahead,
    FifoSchedule,
    Job,
    Schedule,
    StandardSchedule,
)
from penstock.client.consumer.settings import ConsumerSettings, default_worker_name
from penstock.client.consumer.settling import Settling
from penstock.client.errors import (
    ApiError,
    ChecksumMismatch,
    Forbidden,
    QueueDoesNotExist,
    Unavailable,
    is_final,
)
from penstock.client.structs import Message

log = logging.getLogger("penstock.worker")

_VISIBILITY_S = 30  # if the queue may not be asked
_PAUSE_S, _PAUSE_S_MAX = 0.5, 30.0  # after an error of the server
_QUICK_S = 0.5  # an empty answer to a long poll that comes sooner is followed by a pause, too
_LAST_ANSWER_S = 0.05  # at a stop: within this a busy queue answers the last receive
_CANCELLED_S = 1.0  # at a stop: so long handlers have to end after they were cancelled

OnError = Callable[[BaseException, MessageContext], Any]


class CannotStart(Exception):
    """The queue cannot be consumed; the text says what to do."""


class Interrupted(Exception):
    """A handler that did not end: its message was lost, or the consumer stopped. No failure of the message."""


class Call:
    """A call of the handler that is under way."""

    def __init__(self, job: Job, context: MessageContext, task: asyncio.Task[Any]) -> None:
        self.job = job
        self.context = context
        self.task = task


class Consumer:
    """``async with Client() as client: await Consumer(client, "orders", handle).run()``"""

    def __init__(
        self,
        client: Client,
        queue: str,
        function: HandlerFunction,
        *,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        on_error: OnError | None = None,
        report_failures: bool = True,
        worker: str | None = None,
        settings: ConsumerSettings | None = None,
        **more: Any,
    ) -> None:
        """``more``: fields of ConsumerSettings, where there are no ``settings``. ``worker``: its name in reports.
        Raises TypeError or ValueError."""
        self.queue = queue
        self.settings = settings or ConsumerSettings(**more)
        self.worker = worker or default_worker_name()
        self.handler = Handler(function, codec or JsonCodec(), is_batch=self.settings.batch_size is not None)
        self._client = client
        self._middleware = middleware
        self._on_error = on_error
        self._reports = FailureReports(client, queue, self.worker) if report_failures else None
        self._is_fifo = queue.endswith(".fifo")
        self._calls: dict[Lease, Call] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._requests: set[asyncio.Task[None]] = set()  # heartbeats, and messages that are given back
        self._batch_timer: asyncio.TimerHandle | None = None
        self._has_room = asyncio.Event()
        self._end_receive = asyncio.Event()
        self._leases_changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_running = False
        self._stopped = asyncio.Event()
        self._stop_s = 0.0
        self._stop_sooner = asyncio.Event()

    # -- start and stop --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until :meth:`stop`. Raises CannotStart."""
        self._is_running = True
        try:
            visibility_s = self.settings.visibility_timeout or await self._visibility_of_queue()
            if visibility_s is not None:
                self._set_up(visibility_s)
                await self._consume()
        finally:
            self._is_running = False
            self._stopped.set()

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Receive no more, give back what waits, let handlers end within so many seconds, and give back the rest.

        Another call with a timeout of 0 ends one that waits."""
        if not self._stopping.is_set():
            self._stop_s = timeout_s
            self._stopping.set()
            self._has_room.set()
            self._end_receive.set()
        elif timeout_s <= 0:
            self._stop_sooner.set()
        if self._is_running:
            await self._stopped.wait()

    def _set_up(self, visibility_s: int) -> None:
        settings, size = self.settings, self.settings.messages_per_call
        self._leases = HeldLeases(visibility_s, settings.processing_s_max, heartbeat=settings.heartbeat)
        self._visibility_s = visibility_s
        self._ahead = Ahead(visibility_s, settings.prefetch)
        self._schedule: Schedule = (
            FifoSchedule(settings.concurrency, self._ahead, size)
            if self._is_fifo
            else StandardSchedule(settings.concurrency, self._ahead, size, settings.batch_wait_s)
        )
        # With those that are being deleted: a server that does not delete must not fill the memory.
        self._held_max = 2 * settings.concurrency * (size + settings.prefetch) + RECEIVE_MAX
        self._settling = Settling(self._client, self.queue, self._leases)
        self._dead_letters = DeadLetters(self._client, self.queue, self._settling, self._leases)
        threads = 1 if self.handler.is_async else settings.concurrency
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-handler")
        about = {"queue": self.queue, "handler": self.handler.name, "concurrency": settings.concurrency}
        log.info("consuming", extra={**about, "visibility_timeout": visibility_s})

    async def _visibility_of_queue(self) -> int | None:
        """None: it was stopped before there was an answer."""
        pause_s = _PAUSE_S
        while not self._stopping.is_set():
            try:
                attributes = await self._client.get_queue_attributes(self.queue, ["VisibilityTimeout"])
            except QueueDoesNotExist as error:
                text = f'there is no queue "{self.queue}" ({error}): create it, or check endpoint and region'
                raise CannotStart(text) from None
            except (ApiError, Unavailable) as error:
                if isinstance(error, Forbidden) and error.is_denied:
                    return _VISIBILITY_S
                if is_final(error):
                    raise CannotStart(f'the queue "{self.queue}" cannot be used: {error}') from None
                log.warning("waiting for the server", extra=self._about(error))
                await self._pause(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S_MAX)
            else:
                seconds = int(attributes.get("VisibilityTimeout", _VISIBILITY_S))
                if not seconds:
                    text = f'the visibility timeout of the queue "{self.queue}" is 0: give the handler one'
                    raise CannotStart(text)
                return seconds
        return None

    async def _consume(self) -> None:
        receiving = asyncio.create_task(self._receive_all())
        hiding = asyncio.create_task(self._keep_hidden())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([receiving, hiding, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:  # also if this task is cancelled
            self._stopping.set()
            stopping.cancel()
            await self._shut_down(receiving)
            hiding.cancel()
            outcomes = await asyncio.gather(receiving, hiding, return_exceptions=True)
            self._pool.shutdown(wait=False, cancel_futures=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _shut_down(self, receiving: asyncio.Task[None]) -> None:
        log.info("stopping", extra={"queue": self.queue, "running": len(self._jobs)})
        given_back = self._settling.given_back
        self._has_room.set()
        self._end_receive.set()
        await asyncio.wait([receiving])
        await self._settling.give_back(self._schedule.drain())
        await self._wait_for_jobs()
        if self._jobs:
            log.warning("interrupting handlers", extra={"queue": self.queue, "running": len(self._jobs)})
            for call in set(self._calls.values()):
                call.context.lease_lost.set()
                call.task.cancel()
            await asyncio.wait(self._jobs, timeout=_CANCELLED_S)
        for job in self._jobs:
            job.cancel()
        # What is still here: of handlers that do not end, and what could not be deleted.
        await self._settling.give_back(self._leases.all()[::-1])
        await asyncio.gather(*self._requests, return_exceptions=True)
        given_back = self._settling.given_back - given_back
        log.info("stopped", extra={"queue": self.queue, "given_back": given_back})

    async def _wait_for_jobs(self) -> None:
        """Until all have ended, the time is up, or another stop is in a hurry."""
        sooner = asyncio.create_task(self._stop_sooner.wait())
        end = asyncio.get_running_loop().time() + self._stop_s
        while self._jobs and not sooner.done() and (left_s := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait([*self._jobs, sooner], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        sooner.cancel()

    async def _pause(self, seconds: float) -> None:
        """Shorter if the consumer stops."""
        try:
            async with asyncio.timeout(seconds * (1 - random() / 4)):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # -- receiving -------------------------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), 0.0
        while not self._stopping.is_set():
            now = loop.time()
            count = min(self._schedule.wanted(now), self._held_max - len(self._leases), RECEIVE_MAX)
            if count <= 0:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            try:
                messages = await self._receive(count)
            except (ApiError, Unavailable, ChecksumMismatch) as error:
                pause_s = min(max(_PAUSE_S, pause_s * 2), _PAUSE_S_MAX)
                level = logging.ERROR if is_final(error) else logging.WARNING
                log.log(level, "cannot receive messages: trying again", extra=self._about(error))
                await self._pause(pause_s)
                continue
            if pause_s:
                log.info("receiving messages again", extra={"queue": self.queue})
            pause_s = 0.0
            now, asked_at = loop.time(), now
            if messages:
                self._schedule.add([self._leases.take(message, now) for message in messages], now)
                self._leases_changed.set()
                self._start_jobs()
            elif self.settings.poll_interval_s:
                await self._pause(self.settings.poll_interval_s)
            elif now - asked_at < _QUICK_S and not self._end_receive.is_set():
                await self._pause(_QUICK_S)  # a server that stops, or a proxy that does not wait

    async def _receive(self, count: int) -> list[Message]:
        """Nothing if it is ended before there is an answer: by a stop, or because fewer messages are wanted now."""
        receive = asyncio.create_task(
            self._client.receive_message(
                self.queue,
                max_number_of_messages=count,
                wait_time_seconds=self.settings.wait_time_seconds,
                visibility_timeout=self._visibility_s,
                message_attribute_names=["All"],
                message_system_attribute_names=["All"],
            )
        )
        self._end_receive.clear()
        ended = asyncio.create_task(self._end_receive.wait())
        try:
            await asyncio.wait([receive, ended], return_when=asyncio.FIRST_COMPLETED)
            if not receive.done():
                # Messages of an answer that is on its way would be hidden for nothing.
                await asyncio.wait([receive], timeout=_LAST_ANSWER_S)
        finally:
            ended.cancel()
            receive.cancel()
        try:
            return await receive
        except asyncio.CancelledError:
            if receive.cancelled():
                return []
            raise

    # -- keeping messages hidden -----------------------------------------------------------------------------

    async def _keep_hidden(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            for lease in self._leases.ended(now):
                self._lost(lease)
            due = self._leases.due(now)
            # Until there is an answer: one that never comes must not keep others, or a second try, waiting.
            self._leases.not_extended([lease for lease, _ in due], now)
            for start in range(0, len(due), RECEIVE_MAX):
                self._request(self._extend(due[start : start + RECEIVE_MAX], now))
            self._leases_changed.clear()
            try:
                async with asyncio.timeout_at(self._leases.next_at()):
                    await self._leases_changed.wait()
            except TimeoutError:
                pass

    async def _extend(self, due: list[tuple[Lease, int]], now: float) -> None:
        for lease in await self._settling.extend(due, now):
            self._lost(lease)

    def _extend_more(self, lease: Lease, seconds: float) -> None:
        """The handler asked for it."""
        self._leases.extend(lease, seconds, asyncio.get_running_loop().time())
        self._leases_changed.set()

    def _lost(self, lease: Lease) -> None:
        call = self._calls.get(lease)
        about = {"queue": self.queue, "message_id": lease.message.message_id, "running": call is not None}
        log.warning("a message was lost: its visibility timeout ended", extra=about)
        if call is not None:
            call.context.lease_lost.set()
            if self.handler.is_async:
                call.task.cancel()
        self._request(self._settling.give_back(self._schedule.lost(lease)))
        self._has_room.set()

    def _request(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Made in the background."""
        task = asyncio.create_task(coroutine)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    # -- handling --------------------------------------------------------------------------------------------

    def _start_jobs(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set() and (job := self._schedule.start(loop.time())) is not None:
            task = asyncio.create_task(self._work(job))
            self._jobs.add(task)
            task.add_done_callback(self._jobs.discard)
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if (start_at := self._schedule.start_at()) != float("inf"):
            self._batch_timer = loop.call_at(start_at, self._start_jobs)

    async def _work(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for lease in job:
            self._leases.begin(lease, started)
        outcomes = await self._handle(job)
        self._ahead.observe((loop.time() - started) / len(job))
        if self._is_fifo:
            await self._settle_in_order(job, outcomes)
        else:
            self._finish(job)
            await asyncio.gather(*map(self._settle, job, outcomes))
        self._has_room.set()

    async def _handle(self, job: Job) -> list[BaseException | None]:
        """For each message the error that it failed with, or None."""
        outcomes: list[BaseException | None] = []
        values = []
        for lease in job:
            try:
                values.append(self.handler.decode(lease.message))
                outcomes.append(None)
            except Exception as error:
                outcomes.append(error)
        readable = [lease for lease, outcome in zip(job, outcomes, strict=True) if outcome is None]
        context = self._context(readable or job, values)
        task = asyncio.create_task(self._call(context, outcomes[0]))
        call = Call(job, context, task)
        self._calls.update((lease, call) for lease in job)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            for lease in job:
                del self._calls[lease]
        handled = iter(self._outcomes_of(task, len(readable)))
        return [next(handled) if outcome is None else outcome for outcome in outcomes]

    async def _call(self, context: MessageContext, unreadable: BaseException | None) -> Any:
        async def handler() -> Any:
            if not context.values:
                assert unreadable is not None
                raise unreadable
            return await self.handler.call(context.values, context, self._pool)

        try:
            return await call_through(self._middleware, context, handler)
        except SystemExit as error:  # it would end the event loop
            raise RuntimeError(f"the handler raised SystemExit: {error}") from error

    def _context(self, job: Job, values: list[Any]) -> MessageContext:
        return MessageContext(self.queue, self.worker, job, values, self._visibility_s, self._extend_more)

    def _outcomes_of(self, task: asyncio.Task[Any], count: int) -> list[BaseException | None]:
        if task.cancelled():
            return [Interrupted()] * count
        if (error := task.exception()) is not None:
            return [error] * count
        if self.settings.batch_size is None:
            return [None] * count
        try:
            return batch_outcomes(task.result(), count)
        except TypeError as wrong:
            return [wrong] * count

    def _finish(self, job: Job, *, failed: bool = False) -> list[Lease]:
        given_back = self._schedule.finish(job, asyncio.get_running_loop().time(), failed=failed)
        self._has_room.set()
        self._start_jobs()
        return given_back

    # -- settling --------------------------------------------------------------------------------------------

    async def _settle_in_order(self, job: Job, outcomes: list[BaseException | None]) -> None:
        """Of one group: what is done before the first failure counts, and what follows it is given back."""
        done = next((place for place, error in enumerate(outcomes) if error is not None), len(job))
        deleted = await asyncio.gather(*(self._settling.delete(lease) for lease in job[:done]))
        done = deleted.index(False) if False in deleted else done
        rest = self._finish(job, failed=done < len(job))
        if done < len(job):
            self._end_receive.set()  # it would get all that is given back now
            await self._settling.give_back([*rest, *reversed(job[done + 1 :])])
            await self._settle(job[done], outcomes[done])

    async def _settle(self, lease: Lease, error: BaseException | None) -> None:
        if lease.is_lost:
            return
        if error is None:
            await self._settling.delete(lease)
        elif isinstance(error, Interrupted):
            await self._settling.give_back([lease])
        else:
            await self._failed(lease, error)

    async def _failed(self, lease: Lease, error: BaseException) -> None:
        pause_s = self.settings.retry.pause_s(error, attempt_of(lease.message), random())
        if self._reports is not None and not (isinstance(error, Retry) and error.is_silent):
            await self._reports.send(lease.message, error)
        if self._on_error is not None:
            await self._tell(lease, error)
        if pause_s is None:
            await self._give_up(lease, error)
        else:
            await self._settling.hide(lease, pause_s, asyncio.get_running_loop().time())

    async def _tell(self, lease: Lease, error: BaseException) -> None:
        assert self._on_error is not None
        context = self._context([lease], [])
        try:
            result = self._on_error(error, context)
            if inspect.isawaitable(result):
                await result
        except Exception:
            context.logger.exception("on_error failed")

    async def _give_up(self, lease: Lease, error: BaseException) -> None:
        about = {"queue": self.queue, "message_id": lease.message.message_id}
        if self.settings.delete_on_give_up:
            if await self._settling.delete(lease):
                log.warning("gave a message up: deleted", extra=about)
            return
        now = asyncio.get_running_loop().time()
        try:
            outcome = await self._dead_letters.move(lease, now)
        except (ApiError, Unavailable) as failure:
            log.warning(
                "cannot move a message to the dead-letter queue: it is retried",
                extra=about | {"reason": str(failure)},
            )
        else:
            if outcome is GaveUp.MOVED:
                log.warning("gave a message up: moved to the dead-letter queue", extra=about)
            if outcome is not GaveUp.IMPOSSIBLE:
                return
            log.error(
                "cannot give a message up: the queue has no dead-letter queue. It is retried", extra=about
            )
        pause_s = spread(self.settings.retry.backoff, attempt_of(lease.message), random())
        await self._settling.hide(lease, pause_s, now)

    def _about(self, error: Exception) -> dict[str, str]:
        return {"queue": self.queue, "reason": str(error)}
