"""Publishes values to one topic, in batches.

``await publisher.publish(value)`` returns when the server has stored the message. How batches are made and repeated
is in :mod:`penstock.client.batched_sends`.

On a standard topic a message can be delivered twice, if the answer to a request was lost. On a FIFO topic its
deduplication id prevents that, and the messages of a group keep the order in which they were submitted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, TypedDict, Unpack

from penstock.client.backoffs import Backoff
from penstock.client.batched_sends import BACKOFF, REQUESTS_MAX, BatchedSends, SendSettings
from penstock.client.batching import message_size
from penstock.client.codec import Codec, JsonCodec
from penstock.client.limits import PUBLISHED_BYTES_MAX
from penstock.client.structs import BatchResult
from penstock.client.topic_structs import (
    PublishedEntry,
    PublishedMessage,
    PublishEntry,
    TopicMessageAttributes,
    to_topic_attribute,
)

_DEFAULT = "default"  # SNS: the text for protocols that have none of their own


class BatchPublishing(Protocol):
    """The methods of a client that a publisher needs."""

    async def publish_batch(
        self, topic: str, entries: Iterable[PublishEntry]
    ) -> BatchResult[PublishedEntry]: ...


class PublishOptions(TypedDict, total=False):
    """Options of Publish."""

    subject: str | None
    attributes: TopicMessageAttributes | None
    group: str | None
    dedup_id: str | None
    structure: Mapping[str, Any] | None


class Publisher:
    """Publishes values to one topic, in batches.

    It belongs to the event loop in which it is made. Use it as a context manager, or close it, to publish the rest:

        async with Client() as client, Publisher(client, "orders") as publisher:
            await publisher.publish({"drink": "latte"}, attributes={"table": 7})
    """

    def __init__(
        self,
        client: BatchPublishing,
        topic: str,
        *,
        codec: Codec | None = None,
        linger_s: float = 0.005,
        messages_max: int = 10_000,
        bytes_max: int = 64 * 1024 * 1024,
        message_bytes_max: int = PUBLISHED_BYTES_MAX,
        requests_max: int = REQUESTS_MAX,
        retry_s_max: float = 60.0,
        backoff: Backoff = BACKOFF,
        batch_groups: bool = False,
    ) -> None:
        """Prepare to publish; there is no request yet.

        :param client: The client that publishes.
        :param topic: The name or the ARN of the topic.
        :param codec: How values become messages. By default :class:`JsonCodec`.
        :param linger_s: How long a message waits for others to share its request; 0.005 seconds by default.
        :param messages_max: How many messages may be submitted and not yet stored; 10,000 by default. Then those who
            publish wait.
        :param bytes_max: The same in bytes; 64 MiB by default.
        :param message_bytes_max: How many bytes a message may have with its attributes, which is what a batch may
            have, too; 262,144 by default. Raise it for a topic with another ``MaximumMessageSize``.
        :param requests_max: How many requests run at the same time; 8 by default.
        :param retry_s_max: How many seconds a message is tried before it fails; 60 by default.
        :param backoff: The pause after each failed attempt. By default 0.1 seconds, doubled each time, up to 5, of
            which half is random.
        :param batch_groups: Whether messages of one FIFO group may share a request; False by default. It needs a
            server on which a single entry of a batch fails only for good, such as Penstock.
        :raises ValueError: A limit is less than 1, or ``linger_s`` is negative.
        """
        settings = SendSettings(
            linger_s=linger_s,
            messages_max=messages_max,
            bytes_max=bytes_max,
            requests_max=requests_max,
            retry_s_max=retry_s_max,
            backoff=backoff,
            batch_groups=batch_groups,
            batch_bytes_max=message_bytes_max,
        )
        self._client = client
        self._topic = topic
        self._codec = codec or JsonCodec()
        self._message_bytes_max = message_bytes_max
        self._sends: BatchedSends[PublishEntry, PublishedMessage] = BatchedSends(
            self._publish_batch, settings, what="publisher", ordered=topic.endswith(".fifo")
        )

    async def publish(self, value: Any, **options: Unpack[PublishOptions]) -> PublishedMessage:
        """Publish a message and wait until it is stored.

            published = await publisher.publish({"drink": "latte"}, subject="new order", attributes={"table": 7})
            print(published.message_id)

        :param value: The value that becomes the message.
        :param options: ``subject``, for emails and in envelopes. ``attributes`` by name, which filters look at:
            texts, numbers, bytes, lists of texts, numbers and booleans, or :class:`MessageAttribute`. ``group`` and
            ``dedup_id``: the message group and the deduplication id, on a FIFO topic. ``structure``: by protocol
            (``sqs``, ``email``, ...), the values that its subscribers get instead. None of them is set by default.
        :returns: The id of the message.
        :raises EncodeError: A value cannot be a message.
        :raises ValueError: The message has more than ``message_bytes_max`` bytes.
        :raises TypeError: An attribute has a value of another type.
        :raises ApiError: The server refused the message.
        :raises Unavailable: The server could not be reached for ``retry_s_max`` seconds.
        :raises RuntimeError: The publisher is closed.
        """
        outcome = await self.submit(value, **options)
        return await outcome

    async def submit(self, value: Any, **options: Unpack[PublishOptions]) -> asyncio.Future[PublishedMessage]:
        """Hand a message over, and wait only while there is no room for it.

            futures = [await publisher.submit({"number": number}) for number in range(1000)]
            for published in await asyncio.gather(*futures):
                print(published.message_id)

        Cancelling the future withdraws a message that is not yet in a request.

        :param value: The value that becomes the message.
        :param options: As of :meth:`publish`.
        :returns: A future with the result once the message is stored, or with the error: :class:`ApiError` if the
            server refused the message, :class:`Unavailable` if it could not be reached for ``retry_s_max`` seconds.
        :raises EncodeError: A value cannot be a message.
        :raises ValueError: The message has more than ``message_bytes_max`` bytes.
        :raises TypeError: An attribute has a value of another type.
        :raises RuntimeError: The publisher is closed.
        """
        await self._sends.turn()
        entry = self._entry(value, options)
        size = message_size(entry.message, entry.message_attributes)  # type: ignore[arg-type]
        if size > self._message_bytes_max:
            raise ValueError(
                f"the message has {size} bytes with its attributes, but at most {self._message_bytes_max} can be "
                "published: store the content elsewhere, and publish where it is"
            )
        return await self._sends.submit(entry, size, entry.message_group_id)

    async def publish_many(
        self, values: Iterable[Any], **options: Unpack[PublishOptions]
    ) -> list[PublishedMessage | Exception]:
        """Publish messages with the same options, and wait until each is stored or has failed.

            outcomes = await publisher.publish_many([{"drink": "latte"}, {"drink": "tea"}], attributes={"table": 7})
            failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]

        :param values: The values that become messages.
        :param options: As of :meth:`publish`.
        :returns: For each value, in their order, the id of its message, or the error.
        :raises RuntimeError: The publisher is closed.
        """
        outcomes = [await self._submitted(value, options) for value in values]
        found = await asyncio.gather(*outcomes, return_exceptions=True)
        return [_result(each) for each in found]

    async def _submitted(self, value: Any, options: PublishOptions) -> asyncio.Future[PublishedMessage]:
        """The same as :meth:`submit`, with the error of a value that cannot be published in the future."""
        try:
            return await self.submit(value, **options)
        except (TypeError, ValueError) as error:
            failed: asyncio.Future[PublishedMessage] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    async def flush(self) -> None:
        """Publish what was submitted so far without lingering, and wait until each message is stored or has failed.

        future = await publisher.submit({"drink": "latte"})
        await publisher.flush()
        print(future.result().message_id)
        """
        await self._sends.flush()

    async def aclose(self) -> None:
        """Refuse further messages, and publish the rest. If this is cancelled, what is not yet stored is given up."""
        await self._sends.aclose()

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _entry(self, value: Any, options: PublishOptions) -> PublishEntry:
        encoded = self._codec.encode(value)
        given = {**encoded.attributes, **(options.get("attributes") or {})}
        structure = options.get("structure")
        return PublishEntry(
            message=encoded.body if structure is None else self._structured(encoded.body, structure),
            subject=options.get("subject"),
            message_structure=None if structure is None else "json",
            message_attributes={name: to_topic_attribute(name, each) for name, each in given.items()} or None,
            message_group_id=options.get("group"),
            message_deduplication_id=options.get("dedup_id"),
        )

    def _structured(self, default: str, structure: Mapping[str, Any]) -> str:
        texts = {protocol: self._codec.encode(value).body for protocol, value in structure.items()}
        return json.dumps({_DEFAULT: default, **texts}, ensure_ascii=False)

    async def _publish_batch(self, entries: list[PublishEntry]) -> BatchResult[PublishedEntry]:
        return await self._client.publish_batch(self._topic, entries)


def _result(found: PublishedMessage | BaseException) -> PublishedMessage | Exception:
    """Raises what ends a program."""
    if isinstance(found, BaseException) and not isinstance(found, Exception):
        raise found
    return found
