"""A broker for Dramatiq::

    import dramatiq
    from penstock.client.adapters.dramatiq import DramatiqBroker

    dramatiq.set_broker(DramatiqBroker())

Messages are kept hidden while they are in the memory of a worker, however long an actor takes. One that fails after
its retries goes to the dead-letter queue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any

from penstock.client.adapters import needs
from penstock.client.adapters.deliveries import Deliveries, Delivery
from penstock.client.adapters.queues import delay_options, ensure_queue
from penstock.client.client import Client
from penstock.client.credentials import ProfileError
from penstock.client.errors import ApiError, Unavailable
from penstock.client.sync import SyncClient

with needs("dramatiq"):
    from dramatiq.broker import Broker, Consumer, MessageProxy
    from dramatiq.errors import ConnectionClosed, DecodeError, QueueNotFound
    from dramatiq.message import Message
    from dramatiq.middleware import Middleware

_log = logging.getLogger(__name__)


class DramatiqBroker(Broker):
    """A Dramatiq broker whose queues are on Penstock or Amazon SQS.

    Missing queues are created, with a dead-letter queue each:

        dramatiq.set_broker(DramatiqBroker(endpoint_url="http://localhost:9324"))
    """

    def __init__(
        self, *, queue_prefix: str = "", middleware: list[Middleware] | None = None, **client_options: Any
    ) -> None:
        """Prepare a broker; nothing is connected yet.

        :param queue_prefix: Comes before the names of all queues; empty by default.
        :param middleware: Middleware of Dramatiq. None (the default): that which Dramatiq uses by default.
        :param client_options: Parameters of :class:`~penstock.client.SyncClient`, such as ``endpoint_url``.
        """
        super().__init__(middleware)
        self._prefix = queue_prefix
        self._client_options = client_options
        self._client = SyncClient(**client_options)
        self._urls: dict[str, str] = {}

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue. It is created when it is first used, so that actors can be imported without a server."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Message, *, delay: int | None = None) -> Message:
        """Send a message. ``delay`` is in milliseconds, and of any length."""
        url = self._url(message.queue_name)
        self.emit_before("enqueue", message, delay)
        self._client.send_message(url, message.encode().decode(), **delay_options((delay or 0) / 1000))
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> Consumer:
        return _Consumer(self._client, self._client_options, self._url(queue_name), prefetch, timeout / 1000)

    def flush(self, queue_name: str) -> None:
        """Purge the queue, which SQS allows once a minute."""
        self._client.purge_queue(self._url(queue_name))

    def flush_all(self) -> None:
        for name in self.queues:
            self.flush(name)

    def close(self) -> None:
        self._client.close()

    def _url(self, queue_name: str) -> str:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        if queue_name not in self._urls:
            try:
                self._urls[queue_name] = ensure_queue(self._client, self._prefix + queue_name)
            except Unavailable as error:
                raise ConnectionClosed(error) from error
        return self._urls[queue_name]


class _Proxy(MessageProxy):
    def __init__(self, delivery: Delivery) -> None:
        super().__init__(Message.decode(delivery.message.body.encode()))
        self.delivery = delivery


class _Consumer(Consumer):
    """Dramatiq asks for messages in a thread; an event loop in another one receives them and keeps them hidden.

    Actors may end after the consumer was closed, which gave their messages back: a lost connection replaces it while
    they run. What is done is deleted then, too."""

    def __init__(
        self,
        broker_client: SyncClient,
        client_options: dict[str, Any],
        url: str,
        held_max: int,
        timeout_s: float,
    ) -> None:
        self._broker_client = broker_client
        self._url = url
        self._received: SimpleQueue[Delivery | BaseException] = SimpleQueue()
        self._timeout_s = timeout_s
        self._client = Client(**client_options)
        self._deliveries = Deliveries(self._client, url, self._received.put, held_max=held_max)
        self._loop = asyncio.new_event_loop()
        self._loop.call_soon(self._deliveries.start, self._received.put)
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-receive", daemon=True)
        self._thread.start()

    def __next__(self) -> _Proxy | None:
        try:
            found = self._received.get(timeout=self._timeout_s)
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        try:
            return _Proxy(found)
        except DecodeError as error:
            found.give_up(f"not a message of Dramatiq: {error}")
            return None

    def ack(self, message: _Proxy) -> None:
        if not message.delivery.done():
            self._delete(message)

    def nack(self, message: _Proxy) -> None:
        if not message.delivery.give_up(f"{message.actor_name} failed"):
            _log.warning("%s failed after its message was given back: it runs again", message.actor_name)

    def requeue(self, messages: Iterable[_Proxy]) -> None:
        for message in messages:
            message.delivery.give_back()

    def close(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _delete(self, message: _Proxy) -> None:
        try:
            self._broker_client.delete_message(self._url, message.delivery.message.receipt_handle)
        except (ApiError, Unavailable, ProfileError) as error:
            _log.warning("%s is done, but its message may run again: %s", message.actor_name, error)

    async def _stop(self) -> None:
        await self._deliveries.close()
        await self._client.close()
