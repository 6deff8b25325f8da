"""The producer for programs without asyncio: the same one, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self, TypedDict, Unpack

from penstock.client.backoffs import Backoff
from penstock.client.batched_sends import REQUESTS_MAX
from penstock.client.codec import Codec
from penstock.client.producer import Producer, SendOptions
from penstock.client.sending_thread import SendingThread
from penstock.client.structs import BatchResult, SendEntry, SentEntry, SentMessage
from penstock.client.trace_header import trace_attributes


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
        self._thread: SendingThread[Producer] = SendingThread(
            lambda threads: Producer(_InThreads(client, threads), queue, **settings),
            "producer",
            requests_max=settings.get("requests_max", REQUESTS_MAX),
        )

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
        options.setdefault("message_system_attributes", trace_attributes())  # of this thread
        return self._thread.submit(lambda producer: producer.submit(value, **options))

    def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each message is stored or has failed.

            future = producer.submit({"drink": "latte"})
            producer.flush()
            print(future.result().message_id)

        :raises RuntimeError: The producer is closed.
        """
        self._thread.flush()

    def close(self) -> None:
        """Refuse further messages, send the rest, and end the thread."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _InThreads:
    def __init__(self, client: BlockingBatchSender, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry]
    ) -> BatchResult[SentEntry]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._client.send_message_batch, queue_url, entries)
