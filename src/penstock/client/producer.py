"""Sends values to one queue, in batches.

``await producer.send(value)`` returns when the server has stored the message. How batches are made and repeated is in
:mod:`penstock.client.batched_sends`.

On a standard queue a message can arrive twice, if the answer to a request was lost. On a FIFO queue its deduplication
id prevents that, and the messages of a group keep the order in which they were submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, TypedDict, Unpack

from penstock.client.backoffs import Backoff
from penstock.client.batched_sends import BACKOFF, REQUESTS_MAX, BatchedSends, SendSettings
from penstock.client.batching import message_size
from penstock.client.codec import Codec, JsonCodec
from penstock.client.structs import AttributeValue, BatchResult, SendEntry, SentEntry, SentMessage
from penstock.client.trace_header import trace_attributes


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
        backoff: Backoff = BACKOFF,
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
        self._client = client
        self._queue = queue
        self._codec = codec or JsonCodec()
        settings = SendSettings(
            linger_s=linger_s,
            messages_max=messages_max,
            bytes_max=bytes_max,
            requests_max=requests_max,
            retry_s_max=retry_s_max,
            backoff=backoff,
            batch_groups=batch_groups,
        )
        self._sends: BatchedSends[SendEntry, SentMessage] = BatchedSends(
            self._send_batch, settings, what="producer", ordered=queue.endswith(".fifo")
        )

    async def _send_batch(self, entries: list[SendEntry]) -> BatchResult[SentEntry]:
        return await self._client.send_message_batch(self._queue, entries)

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
        await self._sends.turn()
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
        return await self._sends.submit(entry, size, entry.message_group_id)

    async def flush(self) -> None:
        """Send what was submitted so far without lingering, and wait until each message is stored or has failed.

        future = await producer.submit({"drink": "latte"})
        await producer.flush()
        print(future.result().message_id)
        """
        await self._sends.flush()

    async def aclose(self) -> None:
        """Refuse further messages, and send the rest. If this is cancelled, what is not yet stored is given up."""
        await self._sends.aclose()

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
