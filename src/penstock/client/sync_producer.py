"""The producer for programs without asyncio: the same one, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypedDict, Unpack

from penstock.client.backoffs import Backoff
from penstock.client.codec import Codec
from penstock.client.producer import REQUESTS_MAX, Producer, SendOptions
from penstock.client.structs import BatchResult, SendEntry, SentEntry, SentMessage
from penstock.client.trace_header import trace_attributes

_STEPS_MAX = 100


class BlockingBatchSender(Protocol):
    """The methods of a client that the producer needs. Several threads call them at a time."""

    def send_message_batch(self, queue_url: str, entries: Iterable[SendEntry]) -> BatchResult[SentEntry]: ...


class ProducerSettings(TypedDict, total=False):
    """The parameters of :class:`~penstock.client.producer.Producer`."""

    codec: Codec
    linger_s: float
    messages_max: int
    bytes_max: int
    requests_max: int
    retry_s_max: float
    backoff: Backoff
    batch_groups: bool


class SyncProducer:
    """Sends values to one queue, in batches, for any number of threads.

    Use it as a context manager, or close it, to send the rest:

        with SyncClient() as client, SyncProducer(client, "orders") as producer:
            producer.send({"drink": "latte"})
    """

    def __init__(self, client: BlockingBatchSender, queue: str, **settings: Unpack[ProducerSettings]) -> None:
        """Start the thread that sends.

        :param client: The client that sends, from several threads at a time.
        :param queue: The name or the URL of the queue.
        :param settings: The settings of :class:`Producer`, with the same defaults.
        :raises ValueError: A setting is invalid.
        """
        self._steps: Queue[_Step | None] = Queue(_STEPS_MAX)  # None: there are no more
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_idle = False
        self._loop = asyncio.new_event_loop()
        threads = ThreadPoolExecutor(settings.get("requests_max", REQUESTS_MAX), "penstock-producer")
        started: Future[None] = Future()
        work = self._work(started, threads, lambda: Producer(_InThreads(client, threads), queue, **settings))
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(work,), daemon=True)
        self._thread.start()
        started.result()

    def send(self, value: Any, **options: Unpack[SendOptions]) -> SentMessage:
        """Send a message and wait until it is stored.

            sent = producer.send({"drink": "latte"}, delay_seconds=5)
            print(sent.message_id)

        :param value: The value that becomes the body.
        :param options: As of :meth:`Producer.send`.
        :returns: The id of the message.
        :raises EncodeError: The value cannot be a body.
        :raises ApiError: The server refused the message.
        :raises Unavailable: The server could not be reached for ``retry_s_max`` seconds.
        :raises RuntimeError: The producer is closed.
        """
        return self.submit(value, **options).result()

    def submit(self, value: Any, **options: Unpack[SendOptions]) -> Future[SentMessage]:
        """Hand a message over, and wait only while there is no room for it.

            futures = [producer.submit({"number": number}) for number in range(1000)]
            for future in futures:
                print(future.result().message_id)

        :param value: The value that becomes the body.
        :param options: As of :meth:`Producer.send`. Without system attributes the message carries the thread's trace.
        :returns: A future with the result once the message is stored, or with the error.
        :raises RuntimeError: The producer is closed.
        """
        result: Future[SentMessage] = Future()
        options.setdefault("message_system_attributes", trace_attributes())  # of this thread

        async def submit(producer: Producer) -> None:
            outcome = await producer.submit(value, **options)
            outcome.add_done_callback(lambda done: _copy(done, result))

        self._hand_over(_Step(submit, result))
        return result

    def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each message is stored or has failed.

            future = producer.submit({"drink": "latte"})
            producer.flush()
            print(future.result().message_id)

        :raises RuntimeError: The producer is closed.
        """
        result: Future[None] = Future()

        async def flush(producer: Producer) -> None:
            await producer.flush()
            result.set_result(None)

        self._hand_over(_Step(flush, result))
        result.result()

    def close(self) -> None:
        """Refuse further messages, send the rest, and end the thread."""
        if not self._is_closed:
            self._hand_over(None)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hand_over(self, step: _Step | None) -> None:
        """Waits if too many are on their way."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the producer is closed")
            self._is_closed = step is None
            self._steps.put(step)
            if self._is_idle:
                self._is_idle = False
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- in the other thread ---------------------------------------------------------------------------------

    async def _work(
        self, started: Future[None], threads: ThreadPoolExecutor, make: Callable[[], Producer]
    ) -> None:
        self._wake = asyncio.Event()
        with threads:
            try:
                made = make()
                started.set_result(None)
            except Exception as error:
                started.set_exception(error)
                return
            async with made as producer:
                while (step := await self._next_step()) is not None:
                    if not step.result.set_running_or_notify_cancel():
                        continue
                    try:
                        await step.run(producer)
                    except Exception as error:
                        step.result.set_exception(error)

    async def _next_step(self) -> _Step | None:
        while self._steps.empty():
            self._is_idle = True  # a thread looks at it after it has handed over, so nothing is missed
            if self._steps.empty():
                await self._wake.wait()
            self._wake.clear()
        return self._steps.get_nowait()


class _Step(NamedTuple):
    run: Callable[[Producer], Awaitable[None]]
    result: Future[Any]


def _copy(done: asyncio.Future[SentMessage], result: Future[SentMessage]) -> None:
    if done.cancelled():
        result.set_exception(RuntimeError("the producer is closed"))
    elif (error := done.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(done.result())


class _InThreads:
    def __init__(self, client: BlockingBatchSender, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry]
    ) -> BatchResult[SentEntry]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._client.send_message_batch, queue_url, entries)
