"""Requests over queues: send a message, and wait for the response to it.

A request is an ordinary message that says where its response goes, in the message attribute ``ResponseQueueUrl``. A
consumer with a :class:`Responder` answers with what its handler returns. If it dies before, the request is delivered
again and another consumer answers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import uuid4

from penstock.client.backoffs import Exponential, spread
from penstock.client.client import Client
from penstock.client.codec import Codec, DecodeError, JsonCodec
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.middleware import CallNext
from penstock.client.consumer.retry import GiveUp
from penstock.client.errors import ApiError, QueueDoesNotExist, Unavailable, is_final
from penstock.client.limits import ENTRIES_MAX, WAIT_S_MAX
from penstock.client.queue_names import queue_name
from penstock.client.reply_queues import QUEUE_PREFIX, VIRTUAL_NAME, ReplyQueue, VirtualQueue, sweep
from penstock.client.structs import AttributeValue, Message
from penstock.client.trace_header import trace_attributes

RESPONSE_URL = "ResponseQueueUrl"  # message attribute of a request
ERROR = "ResponseError"  # message attribute of a response: the request cannot be answered
_ERROR_CHARACTERS = 500
_BACKOFF = Exponential(0.2, 2.0, 10.0)
_log = logging.getLogger(__name__)


class RequestRefused(Exception):
    """The responder gave the request up: its text says why."""


class _Waiting(NamedTuple):
    host_url: str
    response: asyncio.Future[Message]


class RequestSender:
    """Sends requests and waits for their responses.

    One is enough for a process. Responses come to a queue of its own, which it creates for the first request and
    deletes at the end. Use it as a context manager:

        async with Client() as client, RequestSender(client) as sender:
            price = await sender.request("prices", {"drink": "latte"}, expected=Price)
    """

    def __init__(
        self,
        client: Client,
        *,
        codec: Codec | None = None,
        queue_prefix: str = QUEUE_PREFIX,
        idle_s: float = 300.0,
    ) -> None:
        """Prepare to send; there is no request yet.

        While it runs, it also deletes the reply queues of processes that are gone.

        :param client: The client that sends and receives.
        :param codec: How values become bodies and back; :class:`JsonCodec` by default.
        :param queue_prefix: What the names of reply queues begin with; ``__RequesterClientQueues__`` by default.
        :param idle_s: Others delete the reply queue if this process sent no heartbeat for this many seconds; 300 by
            default.
        :raises ValueError: ``idle_s`` is less than 1.
        """
        if idle_s < 1:
            raise ValueError(f"invalid value {idle_s} for idle_s: expected 1 or more seconds")
        self._client = client
        self._codec = codec or JsonCodec()
        self._queue_prefix = queue_prefix
        self._idle_s = idle_s
        self._replies = ReplyQueue(client, queue_prefix, idle_s)
        self._waiting: dict[str, _Waiting] = {}
        self._has_requests = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.late_responses = 0
        """How many came after their request had timed out, and were dropped."""

    async def __aenter__(self) -> Self:
        self._start(self._receive())
        self._start(self._replies.beat())
        self._start(sweep(self._client, self._queue_prefix, self._idle_s, self._replies))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            waiting.response.cancel()
        await self._replies.delete()

    async def request(
        self,
        queue: str,
        value: Any,
        *,
        expected: Any = Any,
        timeout_s: float = 30.0,
        message_attributes: Mapping[str, AttributeValue] | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
    ) -> Any:
        """Send a request and wait for its response.

            price = await sender.request("prices", {"drink": "latte"}, expected=float, timeout_s=5)

        :param queue: The name or the URL of the queue that requests go to.
        :param value: The value that becomes the body.
        :param expected: The type to read the response as. By default any JSON.
        :param timeout_s: How many seconds to wait for the response; 30 by default.
        :param message_attributes: Attributes of the request. None by default.
        :param message_group_id: The message group, on a FIFO queue. None by default.
        :param message_deduplication_id: The deduplication id, on a FIFO queue. None by default.
        :returns: The value of the response.
        :raises TimeoutError: There was no response in time.
        :raises RequestRefused: The responder gave the request up.
        :raises EncodeError: The value cannot be a body.
        :raises DecodeError: The response is not of the expected type.
        :raises RuntimeError: The sender was not started.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        if not self._tasks:
            raise RuntimeError("not started: use it as a context manager")
        encoded = self._codec.encode(value)
        attributes = {**encoded.attributes, **(message_attributes or {})}
        name = uuid4().hex
        try:
            async with asyncio.timeout(timeout_s):
                host_url = await self._replies.ensure()
                response = self._expect(name, host_url)
                await self._client.send_message(
                    queue,
                    encoded.body,
                    message_attributes={**attributes, RESPONSE_URL: VirtualQueue(host_url, name).url},
                    message_system_attributes=trace_attributes(),
                    message_group_id=message_group_id,
                    message_deduplication_id=message_deduplication_id,
                )
                message = await response
        except TimeoutError:
            raise TimeoutError(f"no response from {queue_name(queue)} within {timeout_s:g} seconds") from None
        finally:
            self._waiting.pop(name, None)
        refusal = message.message_attributes.get(ERROR)
        if refusal is not None:
            raise RequestRefused(refusal.string_value)
        return self._codec.decode(message.body, expected, message.text_attributes)

    # -- responses -------------------------------------------------------------------------------------------

    def _expect(self, name: str, host_url: str) -> asyncio.Future[Message]:
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[name] = _Waiting(host_url, response)
        self._has_requests.set()
        return response

    async def _receive(self) -> None:
        """Receive while requests wait."""
        failures = 0
        while True:
            if not self._waiting:
                self._has_requests.clear()
            await self._has_requests.wait()
            host_url = await self._replies.ensure()
            try:
                messages = await self._client.receive_message(
                    host_url,
                    max_number_of_messages=ENTRIES_MAX,
                    wait_time_seconds=WAIT_S_MAX,
                    message_attribute_names=["All"],
                )
            except QueueDoesNotExist:
                self._replies.forget(host_url)
                self._lose(host_url)
            except (ApiError, Unavailable) as error:
                failures += 1
                _log.warning("cannot receive responses: %s", error)
                await asyncio.sleep(spread(_BACKOFF, failures, random.random()))
            else:
                failures = 0
                for message in messages:
                    self._dispatch(message)
                if messages:
                    self._start(self._delete(host_url, messages))

    def _dispatch(self, message: Message) -> None:
        name = message.message_attributes.get(VIRTUAL_NAME)
        waiting = None if name is None else self._waiting.pop(name.string_value or "", None)
        if waiting is None or waiting.response.done():
            self.late_responses += 1
        else:
            waiting.response.set_result(message)

    def _lose(self, host_url: str) -> None:
        """Fail the requests whose reply queue was deleted, because this process sent no heartbeat for too long."""
        for waiting in self._waiting.values():
            if waiting.host_url == host_url and not waiting.response.done():
                waiting.response.set_exception(
                    Unavailable("the reply queue was deleted: send the request again")
                )

    async def _delete(self, host_url: str, messages: list[Message]) -> None:
        """Delete messages. If that fails they are received once more, as late responses, or expire."""
        try:
            await self._client.delete_message_batch(
                host_url, [message.receipt_handle for message in messages]
            )
        except (ApiError, Unavailable) as error:
            _log.warning("cannot delete responses: %s", error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("requests do not get responses any more", exc_info=error)


class Responder:
    """Answers requests. As middleware of a consumer it sends what the handler returned; then the request is deleted.

        Consumer(client, "prices", handle, middleware=[Responder(client)])

    A handler that raises :class:`GiveUp`, and a body that cannot be read, are answered with an error. Messages that
    are not requests are left alone.
    """

    def __init__(
        self, client: Client, *, codec: Codec | None = None, queue_prefix: str = QUEUE_PREFIX
    ) -> None:
        """Prepare to answer.

        :param client: The client that sends responses.
        :param codec: How values become bodies. By default :class:`JsonCodec`.
        :param queue_prefix: Responses go only to queues whose names begin with it, because a request comes from
            anyone who may send one; ``__RequesterClientQueues__`` by default.
        """
        self._client = client
        self._codec = codec or JsonCodec()
        self._queue_prefix = queue_prefix

    async def __call__(self, context: MessageContext, call_next: CallNext) -> Any:
        """Call the handler and answer with what it returned.

        :param context: The context of the request.
        :param call_next: The handler, or the next middleware.
        :returns: What the handler returned.
        :raises EncodeError: The value cannot be a body.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        try:
            value = await call_next()
        except (GiveUp, DecodeError) as error:
            await self.refuse(context.message, str(error))
            raise
        if not context.is_duplicate:
            await self.respond(context.message, value)
        return value

    async def respond(self, request: Message, value: Any) -> bool:
        """Answer a request.

            for message in await client.receive_message("prices", message_attribute_names=["All"]):
                await responder.respond(message, 4.2)
                await client.delete_message("prices", message.receipt_handle)

        :param request: The message of the request.
        :param value: The value that becomes the body of the response.
        :returns: False if no response is expected, or the requester waits no longer.
        :raises EncodeError: The value cannot be a body.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        body, attributes = self._codec.encode(value)
        return await self._send(request, body, attributes)

    async def refuse(self, request: Message, reason: str) -> bool:
        """Let a request fail with :class:`RequestRefused`.

            await responder.refuse(message, "there is no such drink")

        :param request: The message of the request.
        :param reason: The text of the error; 500 characters of it are sent.
        :returns: False if no response is expected, or the requester waits no longer.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        text = reason[:_ERROR_CHARACTERS] or "refused"
        return await self._send(request, text, {ERROR: text})

    async def _send(self, request: Message, body: str, attributes: Mapping[str, AttributeValue]) -> bool:
        url = request.text_attributes.get(RESPONSE_URL)
        if url is None:
            return False
        target = VirtualQueue.of(url)
        if not queue_name(target.host_url).startswith(self._queue_prefix):
            _log.warning(
                "no response to the queue %s: it has not the prefix of reply queues", target.host_url
            )
            return False
        name = {} if target.name is None else {VIRTUAL_NAME: target.name}
        try:
            await self._client.send_message(
                target.host_url,
                body,
                message_attributes={**attributes, **name},
                message_system_attributes=trace_attributes(),
            )
        except ApiError as error:
            if not is_final(error):
                raise
            _log.info("no response to the queue %s: %s", target.host_url, error)
            return False
        return True
