"""A broker for taskiq::

    from penstock.client.adapters.taskiq import TaskiqBroker

    broker = TaskiqBroker("tasks")

A message is deleted when taskiq acknowledges its task, and kept hidden until then, however long that takes. The label
``delay`` of a task is in seconds, and may be of any length.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from penstock.client.adapters import needs
from penstock.client.adapters.deliveries import Deliveries, Delivery
from penstock.client.adapters.queues import UsedQueues, delay_options
from penstock.client.client import Client

with needs("taskiq"):
    from taskiq import AckableMessage, AsyncBroker, AsyncResultBackend, BrokerMessage


class TaskiqBroker(AsyncBroker):
    """A taskiq broker whose tasks go to a queue of Penstock or Amazon SQS.

    The label ``queue`` of a task names another queue. Missing queues are created, with a dead-letter queue each:

        broker = TaskiqBroker(endpoint_url="http://localhost:9324")

        @broker.task(queue="mails")
        async def send(address: str) -> None: ...
    """

    def __init__(
        self,
        queue: str = "taskiq",
        *,
        held_max: int = 100,
        result_backend: AsyncResultBackend[Any] | None = None,
        **client_options: Any,
    ) -> None:
        """Prepare a broker; nothing is connected yet.

        :param queue: The queue of tasks without the label; ``"taskiq"`` by default.
        :param held_max: How many messages a worker has at most; 100 by default. Use ``--max-async-tasks`` of the
            worker, or a little more.
        :param result_backend: Where taskiq keeps results. None (the default): they are dropped.
        :param client_options: Parameters of :class:`~penstock.client.Client`, such as ``endpoint_url``.
        """
        super().__init__(result_backend)
        self._queue = queue
        self._held_max = held_max
        self._client_options = client_options
        self._client: Client | None = None
        self._queues = UsedQueues(client_options)
        self._listening: list[Deliveries] = []

    async def startup(self) -> None:
        if self._client is None:
            self._client = Client(**self._client_options)
        await super().startup()

    async def shutdown(self) -> None:
        for deliveries in self._listening:
            await deliveries.close()
        self._listening.clear()
        await super().shutdown()
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def kick(self, message: BrokerMessage) -> None:
        try:
            body = message.message.decode()
        except UnicodeDecodeError:
            text = "a message is not text: use a serializer that writes text, such as JSONSerializer"
            raise ValueError(text) from None
        url = await self._queues.url(str(message.labels.get("queue", self._queue)))
        await self._started.send_message(url, body, **delay_options(float(message.labels.get("delay", 0))))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        received: asyncio.Queue[Delivery | BaseException] = asyncio.Queue()
        deliveries = Deliveries(
            self._started, await self._queues.url(self._queue), received.put_nowait, held_max=self._held_max
        )
        deliveries.start(received.put_nowait)
        self._listening.append(deliveries)
        try:
            while True:
                found = await received.get()
                if isinstance(found, BaseException):
                    raise found
                yield AckableMessage(data=found.message.body.encode(), ack=found.done)
        finally:
            # taskiq finishes what it has been given, and then calls shutdown.
            deliveries.stop_receiving()
            while not received.empty():
                if isinstance(found := received.get_nowait(), Delivery):
                    found.give_back()

    @property
    def _started(self) -> Client:
        if self._client is None:
            raise RuntimeError("the broker is not started: await broker.startup() first")
        return self._client
