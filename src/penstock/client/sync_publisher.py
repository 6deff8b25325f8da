"""The publisher for programs without asyncio: the same one, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from penstock.client.batched_sends import REQUESTS_MAX
from penstock.client.publisher import Publisher, PublishOptions
from penstock.client.sending_thread import SendingThread
from penstock.client.structs import BatchResult
from penstock.client.sync_producer import ProducerSettings
from penstock.client.topic_structs import PublishedEntry, PublishedMessage, PublishEntry


class BlockingBatchPublishing(Protocol):
    """The methods of a client that the publisher needs. Several threads call them at a time."""

    def publish_batch(self, topic: str, entries: Iterable[PublishEntry]) -> BatchResult[PublishedEntry]: ...


class PublisherSettings(ProducerSettings, total=False):
    """The parameters of :class:`~penstock.client.publisher.Publisher`."""

    message_bytes_max: int


class SyncPublisher:
    """Publishes values to one topic, in batches, for any number of threads.

    Use it as a context manager, or close it, to publish the rest:

        with SyncClient() as client, SyncPublisher(client, "orders") as publisher:
            publisher.publish({"drink": "latte"}, attributes={"table": 7})
    """

    def __init__(
        self, client: BlockingBatchPublishing, topic: str, **settings: Unpack[PublisherSettings]
    ) -> None:
        """Start the thread that publishes.

        :param client: The client that publishes, from several threads at a time.
        :param topic: The name or the ARN of the topic.
        :param settings: The settings of :class:`Publisher`, with the same defaults.
        :raises ValueError: A setting is invalid.
        """
        self._thread: SendingThread[Publisher] = SendingThread(
            lambda threads: Publisher(_PublishingThreads(client, threads), topic, **settings),
            "publisher",
            requests_max=settings.get("requests_max", REQUESTS_MAX),
        )

    def publish(self, value: Any, **options: Unpack[PublishOptions]) -> PublishedMessage:
        """Publish a message and wait until it is stored.

            published = publisher.publish({"drink": "latte"}, subject="new order", attributes={"table": 7})
            print(published.message_id)

        :param value: The value that becomes the message.
        :param options: As of :meth:`Publisher.publish`.
        :returns: The id of the message.
        :raises EncodeError: A value cannot be a message.
        :raises ValueError: The message has more than ``message_bytes_max`` bytes.
        :raises TypeError: An attribute has a value of another type.
        :raises ApiError: The server refused the message.
        :raises Unavailable: The server could not be reached for ``retry_s_max`` seconds.
        :raises RuntimeError: The publisher is closed.
        """
        return self.submit(value, **options).result()

    def submit(self, value: Any, **options: Unpack[PublishOptions]) -> Future[PublishedMessage]:
        """Hand a message over, and wait only while there is no room for it.

            futures = [publisher.submit({"number": number}) for number in range(1000)]
            for future in futures:
                print(future.result().message_id)

        :param value: The value that becomes the message.
        :param options: As of :meth:`Publisher.publish`.
        :returns: A future with the result once the message is stored, or with the error.
        :raises RuntimeError: The publisher is closed.
        """
        return self._thread.submit(lambda publisher: publisher.submit(value, **options))

    def publish_many(
        self, values: Iterable[Any], **options: Unpack[PublishOptions]
    ) -> list[PublishedMessage | Exception]:
        """Publish messages with the same options, and wait until each is stored or has failed.

            outcomes = publisher.publish_many([{"drink": "latte"}, {"drink": "tea"}], attributes={"table": 7})
            failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]

        :param values: The values that become messages.
        :param options: As of :meth:`Publisher.publish`.
        :returns: For each value, in their order, the id of its message, or the error.
        :raises RuntimeError: The publisher is closed.
        """
        futures = [self.submit(value, **options) for value in values]
        return [_outcome(future) for future in futures]

    def flush(self) -> None:
        """Publish what was submitted so far without lingering, and wait until each message is stored or has failed.

            future = publisher.submit({"drink": "latte"})
            publisher.flush()
            print(future.result().message_id)

        :raises RuntimeError: The publisher is closed.
        """
        self._thread.flush()

    def close(self) -> None:
        """Refuse further messages, publish the rest, and end the thread."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _outcome(future: Future[PublishedMessage]) -> PublishedMessage | Exception:
    try:
        return future.result()
    except Exception as error:
        return error


class _PublishingThreads:
    def __init__(self, client: BlockingBatchPublishing, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def publish_batch(self, topic: str, entries: Iterable[PublishEntry]) -> BatchResult[PublishedEntry]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._client.publish_batch, topic, entries)
