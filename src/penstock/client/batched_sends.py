"""Sends entries in batches, for producers and publishers, and repeats requests that fail.

Entries of many tasks share requests (:mod:`penstock.client.batching`); what is on its way is bounded, and senders
wait when there is no room. A request that fails is repeated for a while, each entry by itself where only some of a
batch failed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.client.backoffs import Backoff, Exponential, spread
from penstock.client.batching import Batcher, BatchLimits, PendingSend
from penstock.client.errors import ApiError, Unavailable, api_error, is_final
from penstock.client.limits import MESSAGE_BYTES_MAX
from penstock.client.structs import BatchResult

REQUESTS_MAX = 8
BACKOFF = Exponential(0.1, 2.0, 5.0)
_SUBMITS_IN_A_ROW = 50


E = TypeVar("E")
S = TypeVar("S")

SendBatch = Callable[[list[E]], Awaitable[BatchResult[Any]]]
"""Sends entries in one request. In the result, they have their places as ids: "0", "1", ..."""


@dataclass(frozen=True, kw_only=True)
class SendSettings:
    """Settings of a producer or a publisher, which has their meanings and defaults.

    :raises ValueError: A limit is less than 1, or ``linger_s`` is negative.
    """

    linger_s: float
    messages_max: int
    bytes_max: int
    requests_max: int
    retry_s_max: float
    backoff: Backoff
    batch_groups: bool
    batch_bytes_max: int = MESSAGE_BYTES_MAX

    def __post_init__(self) -> None:
        if min(self.messages_max, self.bytes_max, self.requests_max) < 1 or self.linger_s < 0:
            raise ValueError(
                f"invalid limits messages_max={self.messages_max}, bytes_max={self.bytes_max}, "
                f"requests_max={self.requests_max}, linger_s={self.linger_s}: "
                "expected 1 or more, and 0 or more for linger_s"
            )


class _Request(NamedTuple, Generic[E, S]):
    entry: E
    outcome: asyncio.Future[S]


class BatchedSends(Generic[E, S]):
    """Belongs to the event loop in which it is made."""

    def __init__(self, send_batch: SendBatch[E], settings: SendSettings, *, what: str, ordered: bool) -> None:
        """``what``: what it is called in errors. ``ordered``: entries of a group keep their order."""
        self._send_batch = send_batch
        self._settings = settings
        self._what = what
        self._loop = asyncio.get_running_loop()
        limits = BatchLimits(settings.linger_s, bytes_max=settings.batch_bytes_max)
        self._batcher: Batcher[_Request[E, S]] = Batcher(
            limits, ordered=ordered, batch_groups=settings.batch_groups
        )
        self._room = Room(settings.messages_max, settings.bytes_max)
        self._outcomes: set[asyncio.Future[S]] = set()
        self._requests: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._submits = 0
        self._flushes = 0
        self._is_closed = False

    async def turn(self) -> None:
        """Let others have their turn now and then: a loop of submits must not keep requests from being made."""
        self._submits += 1
        if self._submits % _SUBMITS_IN_A_ROW == 0:
            await asyncio.sleep(0)

    async def submit(self, entry: E, size: int, group: str | None) -> asyncio.Future[S]:
        """Hand an entry over, and wait only while there is no room for it. Raises RuntimeError once it is closed."""
        await self._room.enter(size)
        if self._is_closed:
            self._room.leave(size)
            raise RuntimeError(f"the {self._what} is closed")
        outcome: asyncio.Future[S] = self._loop.create_future()
        message = PendingSend(_Request(entry, outcome), size, group)
        self._outcomes.add(outcome)
        outcome.add_done_callback(lambda done: self._ended(done, size))
        self._batcher.add(message, self._loop.time())
        self._pump()
        return outcome

    async def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each entry is stored or has failed."""
        self._flushes += 1
        try:
            self._pump()
            if self._outcomes:
                await asyncio.wait(self._outcomes)
        finally:
            self._flushes -= 1

    async def aclose(self) -> None:
        """Refuse further entries, and send the rest. If this is cancelled, what is not yet stored is given up."""
        self._is_closed = True
        try:
            await self.flush()
        finally:
            for request in list(self._requests):
                request.cancel()
            for outcome in list(self._outcomes):
                outcome.cancel()
            if self._timer is not None:
                self._timer.cancel()

    # -- requests --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start the requests that can be made now, and come back when there may be another."""
        while len(self._requests) < self._settings.requests_max:
            batch = self._batcher.take(self._loop.time(), flush=self._flushes > 0)
            if not batch:
                self._pump_at(self._batcher.next_due_s())
                return
            wanted = [message for message in batch if not self._is_withdrawn(message)]
            if not wanted:
                continue
            request = self._loop.create_task(self._send(wanted))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            request.add_done_callback(lambda _: self._pump())

    def _is_withdrawn(self, message: PendingSend[_Request[E, S]]) -> bool:
        if message.request.outcome.done():
            self._batcher.settle(message)
            return True
        return False

    def _pump_at(self, due_s: float | None) -> None:
        if self._timer is not None:
            if due_s is not None and self._timer.when() <= due_s and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if due_s is not None:
            self._timer = self._loop.call_at(due_s, self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        self._pump()

    async def _send(self, batch: list[PendingSend[_Request[E, S]]]) -> None:
        for message in batch:
            message.attempts += 1
        try:
            result = await self._send_batch([message.request.entry for message in batch])
        except (ApiError, Unavailable) as error:
            self._refused(batch, error)
        except BaseException as error:  # a bug or a cancelled task: no caller may wait for ever
            for message in batch:
                self._fail(message, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._answered(batch, result)

    def _answered(self, batch: list[PendingSend[_Request[E, S]]], result: BatchResult[Any]) -> None:
        for sent in result.successful:
            message = batch[int(sent.id)]
            self._batcher.settle(message)
            if not message.request.outcome.done():
                message.request.outcome.set_result(sent)
        again: dict[PendingSend[_Request[E, S]], Exception] = {}
        for failed in result.failed:
            message = batch[int(failed.id)]
            error = api_error(failed.code, failed.message, 400 if failed.sender_fault else 500, "")
            if is_final(error):
                self._fail(message, error)
            else:
                again[message] = error
        self._send_again(again)

    def _refused(self, batch: list[PendingSend[_Request[E, S]]], error: ApiError | Unavailable) -> None:
        """The request failed as a whole."""
        if not is_final(error):
            self._send_again(dict.fromkeys(batch, error))
        elif len(batch) > 1 and not _is_of_the_target(error):
            for message in batch:  # one of them is at fault: find out which
                message.alone = True
            self._batcher.retry(batch, due_s=self._loop.time())
        else:
            for message in batch:
                self._fail(message, error)

    def _send_again(self, failed: Mapping[PendingSend[_Request[E, S]], Exception]) -> None:
        """Send entries of one batch again after a pause. Those whose time is over fail."""
        if not failed:
            return
        attempt = max(message.attempts for message in failed)
        due_s = self._loop.time() + spread(self._settings.backoff, attempt, random.random())
        again = []
        for message, error in failed.items():
            if due_s > message.added_s + self._settings.retry_s_max:
                self._fail(message, error)
            else:
                again.append(message)
        self._batcher.retry(again, due_s)

    def _fail(self, message: PendingSend[_Request[E, S]], error: BaseException) -> None:
        self._batcher.settle(message)
        if not message.request.outcome.done():
            if isinstance(error, Exception):
                message.request.outcome.set_exception(error)
            else:
                message.request.outcome.cancel()

    def _ended(self, outcome: asyncio.Future[Any], size: int) -> None:
        self._outcomes.discard(outcome)
        self._room.leave(size)


def _is_of_the_target(error: Exception) -> bool:
    """Whether the error is about the queue or the topic, and not about one of the messages."""
    return isinstance(error, ApiError) and (
        error.is_missing_queue or error.is_missing_topic or error.is_denied
    )


class Room:
    """A bound on what is in memory. Those who wait for room get it in their order; one message always has room."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._messages = 0
        self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self._count(size)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # it got room in the same moment
            else:
                self._admit()  # those behind it may be smaller
            raise

    def leave(self, size: int) -> None:
        self._messages -= 1
        self._bytes -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._count(size)
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        has_room = self._messages < self._messages_max and self._bytes + size <= self._bytes_max
        return has_room or self._messages == 0

    def _count(self, size: int) -> None:
        self._messages += 1
        self._bytes += size
