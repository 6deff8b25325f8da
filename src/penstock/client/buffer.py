"""Receives messages in advance, for programs that take them one by one at their own pace.

A message that waits here is hidden from all others, so what waits is bounded, and a message is handed out only while
enough of its visibility timeout is left. One that waited too long goes back to the queue, and so do all on close.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from penstock.client.backoffs import Exponential, spread
from penstock.client.errors import ApiError, Unavailable, is_final
from penstock.client.limits import ENTRIES_MAX
from penstock.client.structs import BatchResult, DoneEntry, Message, VisibilityEntry

_BACKOFF = Exponential(0.5, 2.0, 20.0)
_log = logging.getLogger(__name__)


class _Buffered(NamedTuple):
    message: Message
    until_s: float  # hidden from others


class MessageBuffer:
    """The rules, with time as an argument. Room is reserved before messages are asked for."""

    def __init__(self, messages_max: int, left_s_min: float) -> None:
        self._messages_max = messages_max
        self._left_s_min = left_s_min
        self._waiting: deque[_Buffered] = deque()
        self._reserved = 0

    def reserve(self) -> int:
        """How many to ask for now; 0 if there is no room."""
        count = max(0, min(ENTRIES_MAX, self._messages_max - len(self._waiting) - self._reserved))
        self._reserved += count
        return count

    def add(self, messages: Iterable[Message], until_s: float, *, reserved: int) -> None:
        self._reserved -= reserved
        self._waiting.extend(_Buffered(message, until_s) for message in messages)

    def take(self, now_s: float) -> Message | None:
        """The first that can still be handled."""
        for place, waiting in enumerate(self._waiting):
            if not self._ran_down(waiting, now_s):
                del self._waiting[place]
                return waiting.message
        return None

    def run_down(self, now_s: float) -> list[Message]:
        """Remove those that have waited too long. The ones that are still hidden are to be given back, last first."""
        old = [waiting for waiting in self._waiting if self._ran_down(waiting, now_s)]
        self._waiting = deque(waiting for waiting in self._waiting if not self._ran_down(waiting, now_s))
        return [waiting.message for waiting in reversed(old) if waiting.until_s > now_s]

    def next_run_down_s(self) -> float:
        return min((waiting.until_s for waiting in self._waiting), default=float("inf")) - self._left_s_min

    def drain(self, now_s: float) -> list[Message]:
        """Remove all. The ones that are still hidden are to be given back, last first."""
        all_waiting, self._waiting = self._waiting, deque()
        return [waiting.message for waiting in reversed(all_waiting) if waiting.until_s > now_s]

    def _ran_down(self, waiting: _Buffered, now_s: float) -> bool:
        return waiting.until_s - now_s < self._left_s_min


class MessageSource(Protocol):
    """The methods of a client that a receiver needs."""

    async def receive_message(
        self,
        queue_url: str,
        *,
        max_number_of_messages: int,
        wait_time_seconds: int,
        visibility_timeout: int,
        message_attribute_names: Sequence[str],
        message_system_attribute_names: Sequence[str],
    ) -> list[Message]: ...

    async def change_message_visibility_batch(
        self, queue_url: str, entries: Iterable[VisibilityEntry]
    ) -> BatchResult[DoneEntry]: ...

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str]) -> dict[str, str]: ...


class BufferedReceiver:
    """Receives messages in advance, so that the next one is at hand.

    The program deletes the messages. Use it as a context manager: it receives from then on, and at the end it returns
    what was not taken:

        async with BufferedReceiver(client, "orders") as receiver:
            async for message in receiver:
                await client.delete_message("orders", message.receipt_handle)
    """

    def __init__(
        self,
        client: MessageSource,
        queue: str,
        *,
        messages_max: int = 20,
        visibility_timeout: int | None = None,
        left_s_min: float | None = None,
        polls: int = 1,
        wait_time_seconds: int = 20,
    ) -> None:
        """Prepare to receive; there is no request yet.

        :param client: The client that receives.
        :param queue: The name or the URL of the queue.
        :param messages_max: How many messages wait in memory at most; 20 by default.
        :param visibility_timeout: How many seconds messages are hidden; None (the default): as the queue says.
        :param left_s_min: How much of that time is left at least of a message that is handed out; None (the default):
            half of it. A message with less is returned to the queue.
        :param polls: How many receives run at the same time; 1 by default.
        :param wait_time_seconds: How long the server waits for messages; 20 by default.
        :raises ValueError: A limit is less than 1. Entering the context raises it if ``left_s_min`` is negative or
            not less than the visibility timeout.
        """
        if min(messages_max, polls) < 1:
            raise ValueError(f"invalid limits {messages_max=}, {polls=}: expected 1 or more")
        self._client = client
        self._queue = queue
        self._messages_max = messages_max
        self._visibility_s = visibility_timeout
        self._left_s_min = left_s_min
        self._polls = polls
        self._wait_s = wait_time_seconds
        self._changed = asyncio.Event()  # replaced by another one with each change
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if self._visibility_s is None:
            found = await self._client.get_queue_attributes(self._queue, ["VisibilityTimeout"])
            self._visibility_s = int(found["VisibilityTimeout"])
        left_s_min = self._visibility_s / 2 if self._left_s_min is None else self._left_s_min
        if not 0 <= left_s_min < self._visibility_s:
            raise ValueError(
                f"invalid value {left_s_min:g} for left_s_min: expected less than the visibility timeout, "
                f"which is {self._visibility_s} seconds"
            )
        self._buffer = MessageBuffer(self._messages_max, left_s_min)
        upkeep = self._upkeep(self._visibility_s - left_s_min)
        work = [upkeep, *(self._poll(self._visibility_s) for _ in range(self._polls))]
        self._tasks = [self._loop.create_task(part) for part in work]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._give_back(self._buffer.drain(self._loop.time()))

    async def receive(self) -> Message:
        """Wait for the next message.

            message = await receiver.receive()
            await client.delete_message("orders", message.receipt_handle)

        :returns: The message, with all its attributes.
        :raises ApiError: The queue cannot be received from.
        :raises RuntimeError: The receiver was not started.
        """
        if not self._tasks:
            raise RuntimeError("not started: use it as a context manager")
        while True:
            if self._failure is not None:
                raise self._failure
            message = self._buffer.take(self._loop.time())
            if message is not None:
                self._change()
                return message
            await self._changed.wait()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            yield await self.receive()

    # -- what it does meanwhile ------------------------------------------------------------------------------

    async def _poll(self, visibility_s: int) -> None:
        failures = 0
        while True:
            count = await self._reserve()
            received: list[Message] = []
            try:
                received = await self._client.receive_message(
                    self._queue,
                    max_number_of_messages=count,
                    wait_time_seconds=self._wait_s,
                    visibility_timeout=visibility_s,
                    message_attribute_names=["All"],
                    message_system_attribute_names=["All"],
                )
                failures = 0
            except (ApiError, Unavailable) as error:
                if is_final(error):
                    raise
                failures += 1
                _log.warning("cannot receive from %s: %s", self._queue, error)
            finally:
                self._buffer.add(received, self._loop.time() + visibility_s, reserved=count)
                self._change()
            if failures:
                await asyncio.sleep(spread(_BACKOFF, failures, random.random()))

    async def _reserve(self) -> int:
        while not (count := self._buffer.reserve()):
            await self._changed.wait()
        return count

    async def _upkeep(self, wait_s_max: float) -> None:
        """Give back what has waited too long. No message that arrives now has before ``wait_s_max``."""
        while True:
            now_s = self._loop.time()
            await self._give_back(self._buffer.run_down(now_s))
            self._change()
            await asyncio.sleep(min(self._buffer.next_run_down_s() - now_s, wait_s_max))

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._failure = task.exception()
            self._change()

    async def _give_back(self, messages: list[Message]) -> None:
        """Make them visible. If that fails they become visible later."""
        for start in range(0, len(messages), ENTRIES_MAX):
            entries = [
                VisibilityEntry(message.receipt_handle, 0)
                for message in messages[start : start + ENTRIES_MAX]
            ]
            try:
                await self._client.change_message_visibility_batch(self._queue, entries)
            except (ApiError, Unavailable) as error:
                _log.warning("cannot give messages back to %s: %s", self._queue, error)
