"""An application of handlers: ``app = Worker()``, ``@app.handler("orders")``, and ``penstock worker module:app``."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from penstock.client.client import Client
from penstock.client.codec import Codec
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.failures import OnError
from penstock.client.consumer.handlers import HandlerFunction
from penstock.client.consumer.idempotency import Idempotency
from penstock.client.consumer.middleware import Middleware, log_handled
from penstock.client.consumer.receiving import CannotStart
from penstock.client.consumer.settings import ConsumerSettings, default_worker_name
from penstock.client.queue_names import queue_name

log = logging.getLogger("penstock.worker")

_TASKS_END_S = 1.0
_EMPTY_AFTER_S = 1  # without a message, a queue is empty

F = TypeVar("F", bound=HandlerFunction)
Hook = Callable[[], Any]


class Registered(NamedTuple):
    """A handler, as it was declared."""

    queue: str
    function: HandlerFunction
    codec: Codec | None
    middleware: tuple[Middleware, ...]
    settings: ConsumerSettings


class Worker:
    """The handlers of an application, each for one queue. ``penstock worker`` runs them, or :meth:`run`: the process
    that does is a worker.

    For example:

        app = Worker(concurrency=20)

        @app.handler("orders")
        async def handle(order: Order) -> None: ...
    """

    def __init__(
        self,
        *,
        client: Client | None = None,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        context: str | None = None,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        log_messages: bool = True,
        on_error: OnError | None = None,
        report_failures: bool = True,
        stop_timeout_s: float = 30.0,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        """Prepare an application; nothing is connected yet.

        :param client: The client to use instead of one that the worker makes; it is closed at the end. None by
            default.
        :param endpoint_url: The URL of the server, or ``"aws"`` for Amazon SQS. By default it is found as commands
            and AWS SDKs find it.
        :param region: The AWS region. By default it is found like the endpoint.
        :param profile: The profile of the AWS files to take keys and settings from. By default that
            of the context, or ``AWS_PROFILE``.
        :param context: The context of ``penstock context`` to take the server from. By default the chosen one, if
            there is any.
        :param codec: How bodies become values. By default :class:`JsonCodec`.
        :param middleware: Called around all handlers, the first one outermost. By default, none.
        :param log_messages: Whether a line is logged for each call; True by default.
        :param on_error: Called with each error and the context of its message. None by default.
        :param report_failures: Whether failures are reported to Penstock, which stores them with the message; True by
            default.
        :param stop_timeout_s: How many seconds handlers have to end at a stop; 30 by default.
        :param name: The name of this worker in logs and reports; None (the default): the host and the process id.
        :param settings: Fields of :class:`ConsumerSettings`, for all handlers that do not say otherwise.
        :raises TypeError: A field does not exist.
        :raises ValueError: A setting is invalid.
        """
        self.name = name or default_worker_name()
        self.stop_timeout_s = stop_timeout_s
        self.handlers: dict[str, Registered] = {}
        self._client = client
        self._endpoint = {
            "endpoint_url": endpoint_url,
            "region": region,
            "profile": profile,
            "context": context,
        }
        self._codec = codec
        self._middleware = (*((log_handled,) if log_messages else ()), *middleware)
        self._on_error = on_error
        self._report_failures = report_failures
        self._settings = ConsumerSettings(**settings)
        self._start_hooks: list[Hook] = []
        self._stop_hooks: list[Hook] = []
        self._consumers: list[Consumer] = []
        self._stops: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    # -- what it does ----------------------------------------------------------------------------------------

    def handler(
        self,
        queue: str,
        *,
        codec: Codec | None = None,
        middleware: Sequence[Middleware] = (),
        idempotency: Idempotency | None = None,
        **settings: Any,
    ) -> Callable[[F], F]:
        """Declare the handler of a queue, as a decorator. The function itself stays as it is.

            @app.handler("orders", concurrency=5, retry=RetryPolicy(attempts_max=8))
            async def handle(order: dict, context: MessageContext) -> None:
                print(order["drink"], context.attempt)

        :param queue: The name or the URL of the queue.
        :param codec: How bodies become values. By default the codec of the worker.
        :param middleware: Called around this handler, inside that of the worker. By default, none.
        :param idempotency: Handles each message once. None by default.
        :param settings: Fields of :class:`ConsumerSettings`. By default those of the worker.
        :returns: The decorator.
        :raises ValueError: The queue has a handler, a setting is invalid, or ``idempotency`` is used with batches.
        :raises TypeError: A field does not exist.
        """
        if queue in self.handlers:
            raise ValueError(
                f'the queue "{queue}" has a handler: {self.handlers[queue].function.__qualname__}'
            )
        chosen = replace(self._settings, **settings)
        if idempotency is not None and chosen.batch_size is not None:
            raise ValueError("idempotency is for handlers of single messages: a batch has many keys")
        around = (*middleware, *((idempotency,) if idempotency is not None else ()))

        def register(function: F) -> F:
            self.handlers[queue] = Registered(queue, function, codec or self._codec, around, chosen)
            return function

        return register

    def use(self, *middleware: Middleware) -> None:
        """Add middleware for all handlers, inside what is there, before the start or in an ``on_start`` hook.

            app.use(Metrics())

        :param middleware: The middleware, the first one outermost.
        """
        self._middleware += middleware

    def on_start(self, hook: F) -> F:
        """Register a hook that is called before messages are received, when there is a :attr:`client`.

            @app.on_start
            async def create_queues() -> None:
                await app.client.create_queue("orders")

        :param hook: A function without parameters, which may be async.
        :returns: The hook, so that this can be a decorator.
        """
        self._start_hooks.append(hook)
        return hook

    def on_stop(self, hook: F) -> F:
        """Register a hook that is called after the last handler has ended.

            @app.on_stop
            def report() -> None:
                print("no more orders")

        :param hook: A function without parameters, which may be async. Later hooks are called first.
        :returns: The hook, so that this can be a decorator.
        """
        self._stop_hooks.append(hook)
        return hook

    @property
    def client(self) -> Client:
        """The client while the worker runs, for handlers that send messages. Otherwise it raises RuntimeError."""
        if self._client is None:
            raise RuntimeError("the worker does not run: it has no client yet")
        return self._client

    # -- its life --------------------------------------------------------------------------------------------

    async def serve(
        self,
        *,
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        until_empty: bool = False,
        client: Client | None = None,
        **endpoint: str | None,
    ) -> None:
        """Handle messages until :meth:`stop`.

        In a test:

            await app.serve(client=broker.async_client(), until_empty=True)

        :param queues: Only these, of those that have handlers. By default, all.
        :param concurrency: Replaces what the application says. None by default.
        :param until_empty: Whether to end when no queue has a message that can be received; False by default.
        :param client: The client to use, which is closed at the end. By default that of the application.
        :param endpoint: ``endpoint_url``, ``region``, ``profile`` and ``context`` replace what the application says.
        :raises CannotStart: There is no handler for a queue, or a queue cannot be consumed.
        :raises EndpointError: It is not clear which server is meant.
        :raises ProfileError: The profile cannot be read.
        """
        chosen = self._chosen(queues)
        self._is_stopping = False
        if client is not None:
            self._client = client
        elif self._client is None or any(endpoint.values()):
            given = {name: value for name, value in endpoint.items() if value is not None}
            self._client = Client(**{**self._endpoint, **given})  # type: ignore[arg-type]
        async with self._client:
            try:
                for hook in self._start_hooks:
                    await _call(hook)
                more: dict[str, Any] = {} if concurrency is None else {"concurrency": concurrency}
                if until_empty:
                    more["wait_time_seconds"] = _EMPTY_AFTER_S
                self._consumers = [self._consumer(each, more) for each in chosen]
                for consumer in self._consumers:
                    consumer.on_empty = self._stop_if_empty if until_empty else None
                await self._run_consumers()
            finally:
                for hook in reversed(self._stop_hooks):
                    await _call(hook)
                self._client = None
                self._consumers, self._is_stopping = [], False  # it can serve again, as in tests

    async def stop(self, timeout_s: float | None = None) -> None:
        """Stop all consumers, as :meth:`Consumer.stop` does. Another call with a timeout of 0 ends one that waits.

        :param timeout_s: How many seconds handlers have to end; None (the default): ``stop_timeout_s``.
        """
        self._is_stopping = True
        timeout_s = self.stop_timeout_s if timeout_s is None else timeout_s
        await asyncio.gather(*(consumer.stop(timeout_s) for consumer in self._consumers))

    def run(self, **options: Any) -> signal.Signals | None:
        """Run :meth:`serve` in an event loop of its own, until SIGTERM or SIGINT; a second one interrupts handlers.

            if __name__ == "__main__":
                app.run(queues=["orders"])

        :param options: The parameters of :meth:`serve`.
        :returns: The second signal, if there was one.
        :raises CannotStart: There is no handler for a queue, or a queue cannot be consumed.
        """
        import uvloop

        loop = uvloop.new_event_loop()
        try:
            return loop.run_until_complete(self._serve_until_signal(options))
        finally:
            loop.run_until_complete(_end_tasks())
            loop.close()

    async def _serve_until_signal(self, options: dict[str, Any]) -> signal.Signals | None:
        loop = asyncio.get_running_loop()
        received: list[signal.Signals] = []

        def on_signal(number: signal.Signals) -> None:
            received.append(number)
            text = (
                "interrupting handlers" if received[1:] else "finishing; another signal interrupts handlers"
            )
            log.info(f"{number.name}: {text}")
            self._stops.add(loop.create_task(self.stop(0 if received[1:] else None)))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        try:
            await self.serve(**options)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return received[1] if received[1:] else None

    # -- steps -----------------------------------------------------------------------------------------------

    def _chosen(self, queues: Sequence[str]) -> list[Registered]:
        by_name = {queue_name(queue): each for queue, each in self.handlers.items()}
        for queue in queues:
            if queue_name(queue) not in by_name:
                known = ", ".join(sorted(by_name)) or "none"
                raise CannotStart(f'there is no handler for the queue "{queue}"; handlers are for: {known}')
        if not by_name:
            raise CannotStart("the application has no handlers: declare one with @app.handler(QUEUE)")
        wanted = {queue_name(queue) for queue in queues}
        return [each for name, each in by_name.items() if not wanted or name in wanted]

    def _stop_if_empty(self) -> None:
        """A handler may have sent messages to another queue: all have to be asked after the last one was handled."""
        busy_at = max(consumer.busy_at for consumer in self._consumers)
        if all(consumer.empty_at > busy_at for consumer in self._consumers):
            self._stops.add(asyncio.create_task(self.stop()))

    def _consumer(self, each: Registered, more: dict[str, Any]) -> Consumer:
        try:
            return Consumer(
                self.client,
                each.queue,
                each.function,
                codec=each.codec,
                middleware=(*self._middleware, *each.middleware),
                on_error=self._on_error,
                report_failures=self._report_failures,
                worker=self.name,
                settings=replace(each.settings, **more),
            )
        except TypeError as error:
            raise CannotStart(f'the queue "{each.queue}" has no usable handler: {error}') from error

    async def _run_consumers(self) -> None:
        """Run all consumers until all are stopped. One that fails stops the others."""
        tasks = [asyncio.create_task(consumer.run()) for consumer in self._consumers]
        try:
            if self._is_stopping:  # a signal while hooks ran
                await self.stop(0)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.done() and task.exception() is not None for task in tasks):
                await self.stop()
        except asyncio.CancelledError:
            await self.stop(0)
            raise
        finally:
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


async def _end_tasks() -> None:
    """Cancel the tasks of the application. One that does not end then is left behind."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_TASKS_END_S)
    await asyncio.get_running_loop().shutdown_asyncgens()


async def _call(hook: Hook) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result
