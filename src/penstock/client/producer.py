"""Sends values to one queue, in batches.

``await producer.send(value)`` returns when the server has stored the message. Messages of many tasks share requests
(:mod:`penstock.client.batching`); what is on its way is bounded, and senders wait when there is no room. A request
that fails is repeated for a while, each message by itself where only some of a batch failed.

On a standard queue a message can arrive twice, if the answer to a request was lost. On a FIFO queue its deduplication
id prevents that, and the messages of a group keep the order in which they were submitted.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

from penstock.client.backoffs import Backoff, Exponential, spread
from penstock.client.batching import Batcher, BatchLimits, PendingSend, message_size
from penstock.client.codec import Codec, JsonCodec
from penstock.client.errors import ApiError, Unavailable, api_error, is_final
from penstock.client.structs import AttributeValue, BatchResult, SendEntry, SentEntry, SentMessage
from penstock.client.trace_header import trace_attributes

REQUESTS_MAX = 8
_SUBMITS_IN_A_ROW = 50
_BACKOFF = Exponential(0.1, 2.0, 5.0)


class BatchSender(Protocol):
    """The methods of a client that a producer needs."""

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry]
    ) -> BatchResult[SentEntry]: ...


class SendOptions(TypedDict, total=False):
    """Options of SendMessage. Without system attributes, the message carries the current trace."""

    delay_seconds: int | None
    message_attributes: Mapping[str, AttributeValue] | None
    message_system_attributes: Mapping[str, AttributeValue] | None
    message_group_id: str | None
    message_deduplication_id: str | None


class _Request(NamedTuple):
    entry: SendEntry
    outcome: asyncio.Future[SentMessage]


_Pending = PendingSend[_Request]


class Producer:
    """Sends values to one queue, in batches.

    It belongs to the event loop in which it is made. Use it as a context manager, or close it, to send the rest:

        async with Client() as client, Producer(client, "orders") as producer:
            await producer.send({"drink": "latte"})
    """

    def __init__(
        self,
        client: BatchSender,
        queue: str,
        *,
        codec: Codec | None = None,
        linger_s: float = 0.005,
        messages_max: int = 10_000,
        bytes_max: int = 64 * 1024 * 1024,
        requests_max: int = REQUESTS_MAX,
        retry_s_max: float = 60.0,
        backoff: Backoff = _BACKOFF,
        batch_groups: bool = False,
    ) -> None:
        """Prepare to send; there is no request yet.

        :param client: The client that sends.
        :param queue: The name or the URL of the queue.
        :param codec: How values become bodies. By default :class:`JsonCodec`.
        :param linger_s: How long a message waits for others to share its request; 0.005 seconds by default.
        :param messages_max: How many messages may be submitted and not yet stored; 10,000 by default. Then senders
            wait.
        :param bytes_max: The same in bytes; 64 MiB by default.
        :param requests_max: How many requests run at the same time; 8 by default.
        :param retry_s_max: How many seconds a message is tried before it fails; 60 by default.
        :param backoff: The pause after each failed attempt. By default 0.1 seconds, doubled each time, up to 5, of
            which half is random.
        :param batch_groups: Whether messages of one FIFO group may share a request; False by default. It needs a
            server on which a single entry of a batch fails only for good, such as Penstock.
        :raises ValueError: A limit is less than 1, or ``linger_s`` is negative.
        """
        if min(messages_max, bytes_max, requests_max) < 1 or linger_s < 0:
            raise ValueError(
                f"invalid limits {messages_max=}, {bytes_max=}, {requests_max=}, {linger_s=}: "
                "expected 1 or more, and 0 or more for linger_s"
            )
        self._client = client
        self._queue = queue
        self._codec = codec or JsonCodec()
        self._requests_max = requests_max
        self._retry_s_max = retry_s_max
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        is_fifo = queue.endswith(".fifo")
        self._batcher: Batcher[_Request] = Batcher(
            BatchLimits(linger_s), ordered=is_fifo, batch_groups=batch_groups
        )
        self._room = Room(messages_max, bytes_max)
        self._outcomes: set[asyncio.Future[SentMessage]] = set()
        self._requests: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._submits = 0
        self._flushes = 0
        self._is_closed = False

    async def send(self, value: Any, **options: Unpack[SendOptions]) -> SentMessage:
        """Send a message and wait until it is stored.

            sent = await producer.send({"drink": "latte"}, delay_seconds=5)
            print(sent.message_id)

        :param value: The value that becomes the body.
        :param options: Like the parameters of :meth:`Client.send_message`: ``delay_seconds``, ``message_attributes``,
            ``message_system_attributes``, ``message_group_id``, ``message_deduplication_id``. None of them is set by
            default.
        :returns: The id of the message.
        :raises EncodeError: The value cannot be a body.
        :raises ApiError: The server refused the message.
        :raises Unavailable: The server could not be reached for ``retry_s_max`` seconds.
        :raises RuntimeError: The producer is closed.
        """
        outcome = await self.submit(value, **options)
        return await outcome

    async def submit(self, value: Any, **options: Unpack[SendOptions]) -> asyncio.Future[SentMessage]:
        """Hand a message over, and wait only while there is no room for it.

            futures = [await producer.submit({"number": number}) for number in range(1000)]
            for sent in await asyncio.gather(*futures):
                print(sent.message_id)

        Cancelling the future withdraws a message that is not yet in a request.

        :param value: The value that becomes the body.
        :param options: As of :meth:`send`. Without system attributes the message carries the current trace.
        :returns: A future with the result once the message is stored, or with the error: :class:`ApiError` if the
            server refused the message, :class:`Unavailable` if it could not be reached for ``retry_s_max`` seconds.
        :raises EncodeError: The value cannot be a body.
        :raises RuntimeError: The producer is closed.
        """
        self._submits += 1
        if self._submits % _SUBMITS_IN_A_ROW == 0:
            await asyncio.sleep(0)  # a loop of submits must not keep requests from being made
        encoded = self._codec.encode(value)
        system_attributes = (
            options["message_system_attributes"]
            if "message_system_attributes" in options
            else trace_attributes()
        )
        entry = SendEntry(
            body=encoded.body,
            delay_seconds=options.get("delay_seconds"),
            message_attributes={**encoded.attributes, **(options.get("message_attributes") or {})} or None,
            message_system_attributes=dict(system_attributes) if system_attributes else None,
            message_group_id=options.get("message_group_id"),
            message_deduplication_id=options.get("message_deduplication_id"),
        )
        size = message_size(entry.body, entry.message_attributes)
        await self._room.enter(size)
        if self._is_closed:
            self._room.leave(size)
            raise RuntimeError("the producer is closed")
        outcome: asyncio.Future[SentMessage] = self._loop.create_future()
        message = PendingSend(_Request(entry, outcome), size, entry.message_group_id)
        self._outcomes.add(outcome)
        outcome.add_done_callback(lambda done: self._ended(done, size))
        self._batcher.add(message, self._loop.time())
        self._pump()
        return outcome

    async def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each message is stored or has failed.

        future = await producer.submit({"drink": "latte"})
        await producer.flush()
        print(future.result().message_id)
        """
        self._flushes += 1
        try:
            self._pump()
            if self._outcomes:
                await asyncio.wait(self._outcomes)
        finally:
            self._flushes -= 1

    async def aclose(self) -> None:
        """Refuse further messages, and send the rest. If this is cancelled, what is not yet stored is given up."""
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

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- requests --------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start the requests that can be made now, and come back when there may be another."""
        while len(self._requests) < self._requests_max:
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

    def _is_withdrawn(self, message: _Pending) -> bool:
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

    async def _send(self, batch: list[_Pending]) -> None:
        for message in batch:
            message.attempts += 1
        try:
            result = await self._client.send_message_batch(
                self._queue, [message.request.entry for message in batch]
            )
        except (ApiError, Unavailable) as error:
            self._refused(batch, error)
        except BaseException as error:  # a bug or a cancelled task: no caller may wait for ever
            for message in batch:
                self._fail(message, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._answered(batch, result)

    def _answered(self, batch: list[_Pending], result: BatchResult[SentEntry]) -> None:
        for sent in result.successful:
            message = batch[int(sent.id)]
            self._batcher.settle(message)
            if not message.request.outcome.done():
                message.request.outcome.set_result(sent)
        again: dict[_Pending, Exception] = {}
        for failed in result.failed:
            message = batch[int(failed.id)]
            error = api_error(failed.code, failed.message, 400 if failed.sender_fault else 500, "")
            if is_final(error):
                self._fail(message, error)
            else:
                again[message] = error
        self._send_again(again)

    def _refused(self, batch: list[_Pending], error: ApiError | Unavailable) -> None:
        """The request failed as a whole."""
        if not is_final(error):
            self._send_again(dict.fromkeys(batch, error))
        elif len(batch) > 1 and not _is_of_the_queue(error):
            for message in batch:  # one of them is at fault: find out which
                message.alone = True
            self._batcher.retry(batch, due_s=self._loop.time())
        else:
            for message in batch:
                self._fail(message, error)

    def _send_again(self, failed: Mapping[_Pending, Exception]) -> None:
        """Send messages of one batch again after a pause. Those whose time is over fail."""
        if not failed:
            return
        attempt = max(message.attempts for message in failed)
        due_s = self._loop.time() + spread(self._backoff, attempt, random.random())
        again = []
        for message, error in failed.items():
            if due_s > message.added_s + self._retry_s_max:
                self._fail(message, error)
            else:
                again.append(message)
        self._batcher.retry(again, due_s)

    def _fail(self, message: _Pending, error: BaseException) -> None:
        self._batcher.settle(message)
        if not message.request.outcome.done():
            if isinstance(error, Exception):
                message.request.outcome.set_exception(error)
            else:
                message.request.outcome.cancel()

    def _ended(self, outcome: asyncio.Future[SentMessage], size: int) -> None:
        self._outcomes.discard(outcome)
        self._room.leave(size)


def _is_of_the_queue(error: Exception) -> bool:
    """Whether the error is about the queue, and not about one of the messages."""
    return isinstance(error, ApiError) and (error.is_missing_queue or error.is_denied)


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
