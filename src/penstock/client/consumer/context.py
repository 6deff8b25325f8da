"""What a handler and the middleware around it know about the messages that they work on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.client.consumer.claims import Claim
from penstock.client.structs import Message

log = logging.getLogger("penstock.worker")


class MessageContext:
    """The context of one call, for the handler and its middleware.

    ``messages`` are the messages of the call: one, or a batch. ``message`` and ``attempt`` are of the first of them.
    ``values`` are what the bodies were read as; there are none if the only body cannot be read. ``queue`` is the
    queue as it was given, ``worker`` the name of the worker, ``visibility_timeout`` how many seconds messages are
    hidden. ``claim_lost`` is set when a message is not this worker's any more, or has to be returned: a handler in a
    thread should look at it and end, since nothing that it does counts any more. An ``async`` handler is cancelled.
    ``is_duplicate`` is set when the handler was not called, because an earlier delivery was handled.

        @app.handler("orders")
        async def handle(order: Order, context: MessageContext) -> None:
            if context.attempt > 1:
                log.warning("order %s is tried again", context.message.message_id)
    """

    def __init__(
        self,
        queue: str,
        worker: str,
        job: list[Claim],
        values: list[Any],
        visibility_timeout: int,
        extend: Callable[[Claim, float], None],
    ) -> None:
        """A consumer makes one for each call of the handler.

        :param queue: The queue, as it was given.
        :param worker: The name of the worker.
        :param job: The messages and how long they are this worker's.
        :param values: What the bodies were read as.
        :param visibility_timeout: How many seconds messages are hidden.
        :param extend: What moves the deadline of a message.
        """
        self.queue = queue
        self.worker = worker
        self.values = values
        self.visibility_timeout = visibility_timeout
        self.messages: tuple[Message, ...] = tuple(claim.opened for claim in job)
        self.claim_lost = threading.Event()
        self.is_duplicate = False
        self.logger = logging.LoggerAdapter(
            log, {"queue": queue, "message_id": self.message.message_id, "attempt": self.attempt}
        )
        self._claims = job
        self._extend = extend
        self._loop = asyncio.get_running_loop()

    @property
    def lease_lost(self) -> threading.Event:
        """The name of ``claim_lost`` in the version before; the next one does not have it."""
        return self.claim_lost

    @property
    def message(self) -> Message:
        """The first message of the call."""
        return self.messages[0]

    @property
    def value(self) -> Any:
        """The value that the body of the first message was read as."""
        return self.values[0]

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 for the first. It is the receive count, which grows with every delivery."""
        return attempt_of(self.message)

    @property
    def deadline(self) -> datetime:
        """The time until which the messages are this worker's, as long as the server can be reached."""
        left_s = min(claim.end_at for claim in self._claims) - self._loop.time()
        return datetime.now(UTC) + timedelta(seconds=left_s)

    def extend(self, seconds: float) -> None:
        """Move the deadline. This can be called from any thread, and does not wait.

        SQS keeps a message hidden for twelve hours in all.

            @app.handler("videos")
            def transcode(name: str, context: MessageContext) -> None:
                context.extend(2 * 3600)
                print("transcoding", name)

        :param seconds: The deadline is at least this many seconds from now.
        :raises ValueError: ``seconds`` is not more than 0.
        """
        if not seconds > 0:
            raise ValueError(f"invalid value {seconds} for seconds: expected more than 0")
        if self.claim_lost.is_set():
            return
        for claim in self._claims:
            self._loop.call_soon_threadsafe(self._extend, claim, seconds)

    def attribute(self, name: str) -> Any:
        """Read a message attribute of the first message.

            tenant = context.attribute("tenant") or "default"

        :param name: The name of the attribute.
        :returns: Its value, or None if the message has no such attribute.
        """
        found = self.message.message_attributes.get(name)
        return None if found is None else found.value


def attempt_of(message: Message) -> int:
    return max(1, message.receive_count)
