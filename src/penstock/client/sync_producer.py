"""The producer for programs without asyncio: the same one, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack

from penstock.client.codec import Codec
from penstock.client.consumer.retry import Backoff
from penstock.client.producer import REQUESTS_MAX, Producer, SendOptions
from penstock.client.structs import BatchResult, SendEntry, SentEntry, SentMessage

T = TypeVar("T")


class BlockingBatchSender(Protocol):
    """What it needs of a client, which is called by several threads at a time."""

    def send_message_batch(self, queue_url: str, entries: Iterable[SendEntry]) -> BatchResult[SentEntry]: ...


class ProducerSettings(TypedDict, total=False):
    """As of :class:`~penstock.client.producer.Producer`."""

    codec: Codec
    linger_s: float
    messages_max: int
    bytes_max: int
    requests_max: int
    retry_s_max: float
    backoff: Backoff
    batch_groups: bool


class SyncProducer:
    """For any number of threads. Use it as a context manager, or close it, to send the rest."""

    def __init__(self, client: BlockingBatchSender, queue: str, **settings: Unpack[ProducerSettings]) -> None:
        self._threads = ThreadPoolExecutor(settings.get("requests_max", REQUESTS_MAX), "penstock-producer")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-producer", daemon=True)
        self._thread.start()

        async def make() -> Producer:
            return Producer(_InThreads(client, self._threads), queue, **settings)

        self._producer = self._run(make()).result()

    def send(self, value: Any, **options: Unpack[SendOptions]) -> SentMessage:
        """Send a message and wait until it is stored."""
        return self._run(self._producer.send(value, **options)).result()

    def submit(self, value: Any, **options: Unpack[SendOptions]) -> Future[SentMessage]:
        """Wait for room only. The future has the result once the message is stored, or the error."""
        return self._run(self._submit(value, options)).result()

    def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each message is stored or has failed."""
        self._run(self._producer.flush()).result()

    def close(self) -> None:
        """Refuse further messages, and send the rest."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._producer.aclose()).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _submit(self, value: Any, options: SendOptions) -> Future[SentMessage]:
        outcome = await self._producer.submit(value, **options)

        async def result() -> SentMessage:
            return await outcome

        return self._run(result())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed():
            coroutine.close()
            raise RuntimeError("the producer is closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class _InThreads:
    def __init__(self, client: BlockingBatchSender, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry]
    ) -> BatchResult[SentEntry]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._client.send_message_batch, queue_url, entries)
