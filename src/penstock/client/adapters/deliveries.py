"""Messages of a consumer for a framework that calls the handlers itself.

The consumer keeps each message hidden until the framework has settled it: done, given up, or given back. What is not
settled when the process ends or is killed is delivered again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from penstock.client.adapters.queues import DelayEarlyMessages
from penstock.client.client import Client
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.retry import GiveUp, Retry
from penstock.client.limits import VISIBILITY_S_MAX
from penstock.client.structs import Message

_SETTLE_S_MAX = 10.0  # at the end: for the requests about messages that are settled


class Delivery:
    """Its methods can be called in any thread, and only the first call counts."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._loop = asyncio.get_running_loop()
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self._lock = threading.Lock()
        self._is_settled = False

    def done(self) -> bool:
        """Delete the message. Returns False if it was settled before, such as by the close of its queue, which gives
        it back."""
        return self._settle(lambda: self._settled.set_result(None))

    def give_up(self, reason: str) -> bool:
        """Move the message to the dead-letter queue. Returns False if it was settled before."""
        return self._settle(lambda: self._settled.set_exception(GiveUp(reason)))

    def give_back(self) -> bool:
        """Make the message visible at once. Returns False if it was settled before."""
        return self._settle(lambda: self._settled.set_exception(Retry(after=0)))

    async def settled(self) -> None:
        """Ends as a handler would: it returns or raises."""
        await self._settled

    def _settle(self, change: Callable[[], Any]) -> bool:
        with self._lock:
            if self._is_settled:
                return False
            self._is_settled = True
        try:
            self._loop.call_soon_threadsafe(lambda: None if self._settled.done() else change())
        except RuntimeError:  # the loop is closed
            return False
        return True


class Deliveries:
    """Receives the messages of one queue, from :meth:`start` to :meth:`close`, in one event loop."""

    def __init__(
        self,
        client: Client,
        queue: str,
        deliver: Callable[[Delivery], Any],
        *,
        held_max: int,
        **settings: Any,
    ) -> None:
        """``deliver`` is called in the event loop. ``held_max``: how many messages may wait for the framework or be
        worked on. ``settings``: fields of ConsumerSettings."""
        self._deliver = deliver
        self._open: set[Delivery] = set()
        self._consumer = Consumer(
            client, queue, self._hold, middleware=[DelayEarlyMessages(lambda: client)], concurrency=held_max,
            prefetch=0, **settings,
        )  # fmt: skip
        self._running: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def start(self, failed: Callable[[BaseException], Any]) -> None:
        """``failed`` is called if the queue cannot be consumed."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                failed(error)

        self._running = asyncio.create_task(self._consumer.run())
        self._running.add_done_callback(ended)

    def stop_receiving(self) -> None:
        """Stop receiving. What was delivered stays with the framework until it is settled."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._consumer.stop(VISIBILITY_S_MAX))

    async def close(self) -> None:
        """Stop, and give back what is not settled."""
        self.stop_receiving()
        assert self._stopping is not None
        await asyncio.sleep(0)  # nothing is delivered from here on
        for delivery in self._open:
            delivery.give_back()
        await asyncio.wait([self._stopping], timeout=_SETTLE_S_MAX)
        await self._consumer.stop(0)

    async def _hold(self, message: Message) -> None:
        delivery = Delivery(message)
        self._open.add(delivery)
        try:
            self._deliver(delivery)
            await delivery.settled()
        finally:
            self._open.discard(delivery)
