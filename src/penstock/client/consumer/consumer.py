"""Receives the messages of one queue, keeps them hidden, has them handled, and settles them.

A message is deleted after its handler returned, and only if it was still this worker's. Nothing else ends it: after a
failure, a crash or a stop, the queue delivers it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from penstock.client.client import Client
from penstock.client.codec import Codec, JsonCodec
from penstock.client.consumer.claims import Claim, HeldClaims
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.failures import Failures, OnError
from penstock.client.consumer.giving_up import DeadLetters, FailureReports
from penstock.client.consumer.handlers import Handler, HandlerFunction, batch_outcomes
from penstock.client.consumer.middleware import Middleware, call_through
from penstock.client.consumer.opening import Opener
from penstock.client.consumer.receiving import Receiver
from penstock.client.consumer.schedule import (
    Ahead,
    FifoSchedule,
    Schedule,
    StandardSchedule,
)
from penstock.client.consumer.settings import ConsumerSettings, default_worker_name
from penstock.client.consumer.settling import Settling
from penstock.client.limits import ENTRIES_MAX

log = logging.getLogger("penstock.worker")

_CANCELLED_S = 1.0  # at a stop: how long handlers have to end after they were cancelled
_GIVE_BACK_S = 5.0  # at a stop: how long the server has to answer


class Interrupted(Exception):
    """A handler did not end: its message was lost, or the consumer stopped. No failure of the message."""


class Call:
    """A call of the handler that is under way."""

    def __init__(self, context: MessageContext, task: asyncio.Task[Any]) -> None:
        self.context = context
        self._task = task

    def interrupt(self, *, cancel: bool) -> None:
        self.context.claim_lost.set()
        if cancel:
            self._task.cancel()


class Consumer:
    """Receives the messages of one queue and calls a handler for each, or for batches of them.

    For example:

        async def handle(order: dict, context: MessageContext) -> None:
            print(order["drink"], context.attempt)

        async with Client() as client:
            await Consumer(client, "orders", handle, concurrency=20).run()
    """

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
        """Prepare to consume; there is no request yet.

        :param client: The client that receives and deletes.
        :param queue: The name or the URL of the queue.
        :param function: The handler: a function or a coroutine function. Its annotations say what bodies are read as.
        :param codec: How bodies become values. By default :class:`JsonCodec`.
        :param middleware: Called around the handler, the first one outermost. By default, none.
        :param on_error: Called with each error and the context of its message. None by default.
        :param report_failures: Whether failures are reported to Penstock, which stores them with the message; True by
            default.
        :param worker: The name of this consumer in reports; None (the default): the host and the process id.
        :param settings: How the queue is consumed; None (the default): made from ``more``.
        :param more: Fields of :class:`ConsumerSettings`, if there are no ``settings``.
        :raises TypeError: The handler cannot be called with a message, or a field does not exist.
        :raises ValueError: A setting is invalid.
        :raises RuntimeError: Signatures are to be checked, and the package ``cryptography`` is not installed.
        """
        self.queue = queue
        self.settings = settings or ConsumerSettings(**more)
        self.worker = worker or default_worker_name()
        self.handler = Handler(function, codec or JsonCodec(), is_batch=self.settings.batch_size is not None)
        self.busy_at = self.empty_at = float("-inf")
        """When it last had messages, and when it last asked for some and got none."""
        self.on_empty: Callable[[], None] | None = None
        """A function that is called when the consumer has no messages and gets none."""
        self._client = client
        self._middleware = middleware
        self._on_error = on_error
        self._report_failures = report_failures
        self._opener = Opener(self.settings, client)
        self._receiver = Receiver(client, queue, self.settings)
        self._is_fifo = queue.endswith(".fifo")
        self._calls: dict[Claim, Call] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._requests: set[asyncio.Task[None]] = set()  # heartbeats, and messages that are given back
        self._batch_timer: asyncio.TimerHandle | None = None
        self._has_room = asyncio.Event()
        self._claims_changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_running = False
        self._stopped = asyncio.Event()
        self._stop_s = 0.0
        self._stop_sooner = asyncio.Event()

    # -- start and stop --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Receive and handle messages until :meth:`stop`.

        :raises CannotStart: The queue cannot be consumed.
        """
        self._is_running = True
        try:
            visibility_s = await self._receiver.visibility_s()
            if visibility_s is not None:
                self._set_up(visibility_s)
                await self._consume()
        finally:
            self._is_running = False
            self._stopped.set()

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Stop receiving, return what waits to the queue, and let handlers end.

            running = asyncio.create_task(consumer.run())
            await asyncio.sleep(60)
            await consumer.stop(timeout_s=10)
            await running

        Another call with a timeout of 0 ends one that waits.

        :param timeout_s: How many seconds handlers have to end; 30 by default. Messages of the others are returned.
        """
        if not self._stopping.is_set():
            self._stop_s = timeout_s
            self._stopping.set()
            self._receiver.close()
        elif timeout_s <= 0:
            self._stop_sooner.set()
        if self._is_running:
            await self._stopped.wait()

    def _set_up(self, visibility_s: int) -> None:
        client, queue, settings = self._client, self.queue, self.settings
        size = settings.messages_per_call
        self._visibility_s = visibility_s
        self._claims = HeldClaims(visibility_s, settings.processing_s_max, heartbeat=settings.heartbeat)
        self._ahead = Ahead(visibility_s, settings.prefetch)
        self._schedule: Schedule = (
            FifoSchedule(settings.concurrency, self._ahead, size)
            if self._is_fifo
            else StandardSchedule(settings.concurrency, self._ahead, size, settings.batch_wait_s)
        )
        # With those that are being deleted: a server that does not delete must not fill the memory.
        self._held_max = 2 * settings.concurrency * (size + settings.prefetch) + ENTRIES_MAX
        self._settling = Settling(client, queue, self._claims)
        dead_letters = DeadLetters(client, queue, self._settling, self._claims)
        reports = FailureReports(client, queue, self.worker) if self._report_failures else None
        self._failures = Failures(settings, self._settling, dead_letters, reports, self._on_error)
        threads = 1 if self.handler.is_async else settings.concurrency
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-handler")
        about = {"queue": queue, "handler": self.handler.name, "concurrency": settings.concurrency}
        log.info("consuming", extra={**about, "visibility_timeout": visibility_s})

    async def _consume(self) -> None:
        receiving = asyncio.create_task(self._receive_all())
        hiding = asyncio.create_task(self._keep_hidden())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([receiving, hiding, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:  # also if this task is cancelled
            stopping.cancel()
            await self._shut_down(receiving)
            hiding.cancel()
            outcomes = await asyncio.gather(receiving, hiding, return_exceptions=True)
            self._pool.shutdown(wait=False, cancel_futures=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _shut_down(self, receiving: asyncio.Task[None]) -> None:
        log.info("stopping", extra={"queue": self.queue, "running": len(self._handling)})
        given_back = self._settling.given_back
        self._stopping.set()
        self._receiver.close()
        self._has_room.set()
        await asyncio.wait([receiving])
        await self._give_back_now(self._schedule.drain())
        await self._wait_for_handlers()
        if self._handling:
            log.warning("interrupting handlers", extra={"queue": self.queue, "running": len(self._handling)})
            for call in set(self._calls.values()):
                call.interrupt(cancel=True)
            await asyncio.wait(self._handling, timeout=_CANCELLED_S)
        for task in self._handling:
            task.cancel()
        # What is still here: of handlers that do not end, and what could not be deleted.
        await self._give_back_now(self._claims.all()[::-1])
        for request in self._requests:
            request.cancel()
        given_back = self._settling.given_back - given_back
        log.info("stopped", extra={"queue": self.queue, "given_back": given_back})

    async def _wait_for_handlers(self) -> None:
        """Wait until all have ended, the time is up, or another stop is in a hurry."""
        sooner = asyncio.create_task(self._stop_sooner.wait())
        end = asyncio.get_running_loop().time() + self._stop_s
        while (
            self._handling and not sooner.done() and (left_s := end - asyncio.get_running_loop().time()) > 0
        ):
            await asyncio.wait([*self._handling, sooner], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        sooner.cancel()

    async def _give_back_now(self, claims: list[Claim]) -> None:
        """Give back these messages, and wait for those that are already being given back. A server that does not
        answer cannot keep a stop waiting."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK_S):
                await self._settling.give_back(claims)
                await asyncio.gather(*self._requests, return_exceptions=True)

    # -- receiving -------------------------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            wanted = self._schedule.wanted(loop.time())
            count = min(wanted, self._held_max - len(self._claims), ENTRIES_MAX)
            if count <= 0:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            asked_at = loop.time()
            messages = await self._receiver.receive(count)
            if messages:
                self.busy_at = now = loop.time()
                self._schedule.add([self._claims.take(message, now) for message in messages], now)
                self._claims_changed.set()
                self._start_handlers()
            elif messages is not None and not self._claims:
                self.empty_at = asked_at
                if self.on_empty is not None:
                    self.on_empty()

    # -- keeping messages hidden -----------------------------------------------------------------------------

    async def _keep_hidden(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            for claim in self._claims.ended(now):
                self._lost(claim)
            due = self._claims.due(now)
            # Until there is an answer: one that never comes must not keep others, or a second try, waiting.
            self._claims.not_extended([claim for claim, _ in due], now)
            for start in range(0, len(due), ENTRIES_MAX):
                self._request(self._extend(due[start : start + ENTRIES_MAX], now))
            self._claims_changed.clear()
            try:
                async with asyncio.timeout_at(self._claims.next_at()):
                    await self._claims_changed.wait()
            except TimeoutError:
                pass

    async def _extend(self, due: list[tuple[Claim, int]], now: float) -> None:
        for claim in await self._settling.extend(due, now):
            self._lost(claim)

    def _extend_more(self, claim: Claim, seconds: float) -> None:
        """The handler asked for it."""
        self._claims.extend(claim, seconds, asyncio.get_running_loop().time())
        self._claims_changed.set()

    def _lost(self, claim: Claim) -> None:
        call = self._calls.get(claim)
        about = {"queue": self.queue, "message_id": claim.message.message_id, "running": call is not None}
        log.warning("a message was lost: its visibility timeout ended", extra=about)
        if call is not None:
            call.interrupt(cancel=self.handler.is_async)
        self._request(self._settling.give_back(self._schedule.lost(claim)))
        self._has_room.set()

    def _request(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Make a request in the background."""
        task = asyncio.create_task(coroutine)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    # -- handling --------------------------------------------------------------------------------------------

    def _start_handlers(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._stopping.is_set():
            return
        loop = asyncio.get_running_loop()
        while (claims := self._schedule.start(loop.time())) is not None:
            task = asyncio.create_task(self._work(claims))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)
        if (start_at := self._schedule.start_at()) != float("inf"):
            self._batch_timer = loop.call_at(start_at, self._start_handlers)

    async def _work(self, claims: list[Claim]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for claim in claims:
            self._claims.begin(claim, started)
        outcomes = await self._handle(claims)
        self._ahead.observe((loop.time() - started) / len(claims))
        try:
            if self._is_fifo:
                await self._settle_in_order(claims, outcomes)
            else:
                self._finish(claims)
                await asyncio.gather(*map(self._settle, claims, outcomes))
        except Exception:  # an error of ours: nothing keeps the messages hidden any longer
            log.exception("cannot settle messages: they will be delivered again", extra={"queue": self.queue})
            for claim in claims:
                self._claims.release(claim)
        self.busy_at = loop.time()
        self._has_room.set()

    async def _handle(self, claims: list[Claim]) -> list[BaseException | None]:
        """Handle messages. Returns for each the error that it failed with, or None."""
        outcomes: list[BaseException | None] = []
        values = []
        for claim in claims:
            try:
                claim.opened = await self._opener.open(claim.message)
                if claim.is_lost:
                    raise Interrupted
                values.append(self.handler.decode(claim.opened))
                outcomes.append(None)
            except Exception as error:
                outcomes.append(error)
        readable = [claim for claim, outcome in zip(claims, outcomes, strict=True) if outcome is None]
        context = self._context(readable or claims, values)
        task = asyncio.create_task(self._call(context, outcomes[0]))
        call = Call(context, task)
        self._calls.update((claim, call) for claim in claims)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            for claim in claims:
                del self._calls[claim]
        handled = iter(self._outcomes_of(task, context, len(readable)))
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

    def _context(self, claims: list[Claim], values: list[Any]) -> MessageContext:
        return MessageContext(self.queue, self.worker, claims, values, self._visibility_s, self._extend_more)

    def _outcomes_of(
        self, task: asyncio.Task[Any], context: MessageContext, count: int
    ) -> list[BaseException | None]:
        if task.cancelled():
            # Else it is an error of the handler: something that it waits for was cancelled.
            return [Interrupted() if context.claim_lost.is_set() else asyncio.CancelledError()] * count
        if (error := task.exception()) is not None:
            return [error] * count
        if self.settings.batch_size is None:
            return [None] * count
        try:
            return batch_outcomes(task.result(), count)
        except TypeError as wrong:
            return [wrong] * count

    def _finish(self, claims: list[Claim], *, failed: bool = False) -> list[Claim]:
        given_back = self._schedule.finish(claims, asyncio.get_running_loop().time(), failed=failed)
        self._has_room.set()
        self._start_handlers()
        return given_back

    # -- settling --------------------------------------------------------------------------------------------

    async def _settle_in_order(self, claims: list[Claim], outcomes: list[BaseException | None]) -> None:
        """Settles the messages of one group: those before the first failure are done, the others given back."""
        done = next((place for place, error in enumerate(outcomes) if error is not None), len(claims))
        deleted = await asyncio.gather(*(self._settling.delete(claim) for claim in claims[:done]))
        done = deleted.index(False) if False in deleted else done
        rest = self._finish(claims, failed=done < len(claims))
        if done < len(claims):
            self._receiver.abort()  # it would get all that is given back now
            await self._settling.give_back([*rest, *reversed(claims[done + 1 :])])
            await self._settle(claims[done], outcomes[done])

    async def _settle(self, claim: Claim, error: BaseException | None) -> None:
        if claim.is_lost:
            return
        if error is None:
            await self._settling.delete(claim)
        elif isinstance(error, Interrupted):
            await self._settling.give_back([claim])
        else:
            await self._failures.settle(claim, error, self._context([claim], []))
