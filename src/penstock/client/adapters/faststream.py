"""A broker for FastStream::

    from faststream import FastStream
    from penstock.client.adapters.faststream import FastStreamBroker

    broker = FastStreamBroker()
    app = FastStream(broker)

    @broker.subscriber("orders")
    async def handle(order: dict) -> None: ...

What an error means is decided by the acknowledgement policy of FastStream. By default the message is retried, as the
settings of the consumer say; ``REJECT_ON_ERROR`` moves it to the dead-letter queue at once.

FastStream has no public interface for brokers: this is for the versions that the extra installs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from penstock.client.adapters import needs
from penstock.client.adapters.queues import DelayEarlyMessages, UsedQueues, delay_options
from penstock.client.client import Client
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.giving_up import reason_of
from penstock.client.consumer.retry import GiveUp, Retry
from penstock.client.errors import ApiError, Unavailable
from penstock.client.structs import Message

with needs("faststream"):
    from faststream._internal.broker import BrokerUsecase
    from faststream._internal.configs import (
        BrokerConfig,
        PublisherSpecificationConfig,
        PublisherUsecaseConfig,
        SubscriberSpecificationConfig,
        SubscriberUsecaseConfig,
    )
    from faststream._internal.constants import EMPTY
    from faststream._internal.context.repository import ContextRepo
    from faststream._internal.di import FastDependsConfig
    from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
    from faststream._internal.endpoint.publisher.fake import FakePublisher
    from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
    from faststream._internal.endpoint.subscriber.call_item import CallsCollection
    from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
    from faststream._internal.logger.logging import get_broker_logger
    from faststream._internal.parser import DefaultCodec
    from faststream._internal.producer import ProducerProto
    from faststream.exceptions import FeatureNotSupportedException
    from faststream.message import AckStatus, StreamMessage, decode_message
    from faststream.middlewares import AckPolicy
    from faststream.response import PublishCommand, PublishType
    from faststream.specification import schema
    from faststream.specification.asyncapi.utils import resolve_payloads

_GRACEFUL_S = 15.0
_CONTENT_TYPE, _CORRELATION_ID, _REPLY_TO = "content-type", "correlation_id", "reply_to"


# -- messages --------------------------------------------------------------------------------------------------------


class Received:
    """A message, and what FastStream has decided about it."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.decision: AckStatus | None = None
        self.delay_s: float | None = None  # before the next attempt
        self.error: BaseException | None = None

    def raise_outcome(self) -> None:
        """Raises what the outcome means for the consumer; returns if the message is done."""
        match self.decision:
            case AckStatus.ACKED:
                return
            case AckStatus.REJECTED:
                raise GiveUp(reason_of(self.error) if self.error else "it was rejected") from self.error
            case AckStatus.NACKED if self.error is not None and self.delay_s is None:
                raise self.error
            case AckStatus.NACKED:
                raise Retry("it was not acknowledged", after=self.delay_s) from self.error
        raise Retry("it was neither acknowledged nor rejected") from self.error


class FastStreamMessage(StreamMessage[Received]):
    """``nack``: it is delivered again, after this many seconds or as the retry policy says. ``reject``: to the
    dead-letter queue."""

    async def ack(self) -> None:
        await super().ack()
        self.raw_message.decision = self.committed

    async def nack(self, delay: float | None = None) -> None:
        await super().nack()
        self.raw_message.decision, self.raw_message.delay_s = self.committed, delay

    async def reject(self) -> None:
        await super().reject()
        self.raw_message.decision = self.committed


async def parse_message(received: Received) -> FastStreamMessage:
    headers = received.message.text_attributes
    return FastStreamMessage(
        raw_message=received,
        body=received.message.body.encode(),
        headers=headers,
        reply_to=headers.get(_REPLY_TO, ""),
        content_type=headers.get(_CONTENT_TYPE),
        message_id=received.message.message_id,
        correlation_id=headers.get(_CORRELATION_ID),
    )


async def decode(message: StreamMessage[Received]) -> Any:
    return decode_message(message)


# -- sending ---------------------------------------------------------------------------------------------------------


class QueueCommand(PublishCommand):
    """Adds what a queue can do: a delay in seconds, and the ids of FIFO queues."""

    delay: float = 0.0
    group: str | None = None
    deduplication_id: str | None = None


class QueueProducer(ProducerProto[PublishCommand]):
    def __init__(self, queues: UsedQueues, serializer: Any) -> None:
        self._parser = parse_message
        self._decoder = decode
        self.codec = DefaultCodec()
        self._queues = queues
        self._serializer = serializer
        self.client: Client | None = None

    async def publish(self, cmd: PublishCommand) -> str:
        """Returns the message id."""
        if self.client is None:
            raise RuntimeError("the broker is not connected: await broker.connect() first")
        payload, content_type = await self.codec.encode(cmd.body, self._serializer)
        given = {
            _CONTENT_TYPE: content_type, _CORRELATION_ID: cmd.correlation_id, _REPLY_TO: cmd.reply_to,
            **(cmd.headers or {}),
        }  # fmt: skip
        attributes = {name: str(value) for name, value in given.items() if value not in (None, "")}
        options = delay_options(getattr(cmd, "delay", 0.0), attributes)
        sent = await self.client.send_message(
            await self._queues.url(cmd.destination),
            payload.decode(),
            message_group_id=getattr(cmd, "group", None),
            message_deduplication_id=getattr(cmd, "deduplication_id", None),
            **options,
        )
        return sent.message_id

    async def request(self, cmd: PublishCommand) -> Any:
        raise FeatureNotSupportedException(_NO_REQUESTS)

    async def publish_batch(self, cmd: PublishCommand) -> Any:
        raise FeatureNotSupportedException("batches are not supported: publish messages one by one")


_NO_REQUESTS = "requests are not supported: use penstock.client.RequestSender"


class _ReplyPublisher(FakePublisher):
    def __init__(self, producer: ProducerProto[Any], queue: str) -> None:
        super().__init__(producer=producer)
        self._queue = queue

    def patch_command(self, cmd: PublishCommand) -> PublishCommand:
        cmd = super().patch_command(cmd)
        cmd.destination = self._queue
        return cmd


class QueuePublisher(PublisherUsecase):
    def __init__(self, config: Any, specification: Any, queue: str) -> None:
        super().__init__(config, specification)
        self._queue = queue

    async def publish(
        self, message: Any, /, *, correlation_id: str | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        cmd = QueueCommand(
            message, headers=headers, correlation_id=correlation_id, _publish_type=PublishType.PUBLISH
        )
        return await self._publish(cmd, _extra_middlewares=())

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[Any]) -> Any:
        cmd.destination = f"{self._outer_config.prefix}{self._queue}"
        return await self._basic_publish(
            cmd, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares
        )

    async def request(self, message: Any, /, *, correlation_id: str | None = None) -> Any:
        raise FeatureNotSupportedException(_NO_REQUESTS)


# -- receiving -------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class QueueSubscriberConfig(SubscriberUsecaseConfig):
    queue: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ack_policy(self) -> AckPolicy:
        chosen = self._outer_config.ack_policy if self._ack_policy is EMPTY else self._ack_policy
        return AckPolicy.NACK_ON_ERROR if chosen is EMPTY else chosen


class QueueSubscriber(SubscriberUsecase[Received]):
    def __init__(self, config: QueueSubscriberConfig, specification: Any, calls: Any) -> None:
        config.parser, config.decoder = parse_message, decode
        super().__init__(config, specification, calls)
        self._queue = config.queue
        self._settings = config.settings
        self._consumer: Consumer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await super().start()
        if self.calls:
            client, queues = self._outer_config.producer.client, self._outer_config.queues
            url = await queues.url(f"{self._outer_config.prefix}{self._queue}")
            self._consumer = Consumer(
                client, url, self._handle, middleware=[DelayEarlyMessages(lambda: client)], **self._settings
            )
            self._running = asyncio.create_task(self._consumer.run())
            self._running.add_done_callback(self._ended)
        self._post_start()

    async def stop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop(self._outer_config.graceful_timeout or _GRACEFUL_S)
            self._consumer = None
        await super().stop()

    async def process_message(self, msg: Received) -> Any:
        try:
            return await super().process_message(msg)
        except Exception as error:
            msg.error = error
            raise

    async def get_one(self, *, timeout: float = 5) -> FastStreamMessage | None:  # noqa: ASYNC109
        raise FeatureNotSupportedException(_NOT_ONE)

    def __aiter__(self) -> AsyncIterator[FastStreamMessage]:
        raise FeatureNotSupportedException(_NOT_ONE)

    def get_log_context(self, message: StreamMessage[Received] | None) -> dict[str, str]:
        return {"queue": self._queue, "message_id": getattr(message, "message_id", "")}

    async def _handle(self, message: Message) -> None:
        received = Received(message)
        await self.consume(received)
        received.raise_outcome()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(None, f"the queue cannot be consumed: {error}", exc_info=error)

    def _make_response_publisher(self, message: StreamMessage[Received]) -> Iterable[Any]:
        return (_ReplyPublisher(self._outer_config.producer, message.reply_to),)


_NOT_ONE = "single messages are not supported here: use penstock.client.BufferedReceiver"


# -- the broker ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class QueueBrokerConfig(BrokerConfig):
    queues: UsedQueues = field(default_factory=lambda: UsedQueues({}))


class FastStreamBroker(BrokerUsecase[Received, Client, QueueBrokerConfig]):
    """A FastStream broker whose subscribers and publishers use queues of Penstock or Amazon SQS.

    Missing queues are created, with a dead-letter queue each:

        broker = FastStreamBroker(endpoint_url="http://localhost:9324")

        @broker.subscriber("orders")
        async def handle(order: Order) -> None: ...
    """

    _connection: Client | None

    def __init__(
        self,
        *,
        middlewares: Sequence[Any] = (),
        dependencies: Sequence[Any] = (),
        routers: Iterable[Any] = (),
        ack_policy: AckPolicy = EMPTY,
        graceful_timeout: float = _GRACEFUL_S,
        apply_types: bool = True,
        logger: Any = EMPTY,
        **client_options: Any,
    ) -> None:
        """Prepare a broker; nothing is connected yet.

        :param middlewares: Middleware of FastStream, around all subscribers and publishers. By default, none.
        :param dependencies: Dependencies of all subscribers. By default, none.
        :param routers: Routers to include. By default, none.
        :param ack_policy: When messages are acknowledged, unless a subscriber says otherwise. By default that of
            FastStream.
        :param graceful_timeout: At a stop, how many seconds handlers have to end; 15 by default. Then their messages
            are given back.
        :param apply_types: Whether arguments of handlers are validated and converted by their types; True by default.
        :param logger: The logger of the broker; None logs nothing. By default that of FastStream.
        :param client_options: Parameters of :class:`~penstock.client.Client`, such as ``endpoint_url``.
        """
        self._client_options = client_options
        queues = UsedQueues(client_options)
        types = FastDependsConfig(use_fastdepends=apply_types, context=ContextRepo())
        config = QueueBrokerConfig(
            queues=queues,
            producer=QueueProducer(queues, types._serializer),
            broker_middlewares=middlewares,
            broker_dependencies=dependencies,
            ack_policy=ack_policy,
            graceful_timeout=graceful_timeout,
            logger=make_logger_state(logger=logger, log_level=20, default_storage_cls=_LoggerStorage),
            fd_config=types,
            extra_context={"broker": self},
        )
        about = schema.BrokerSpec(
            url=[client_options.get("endpoint_url") or "http://127.0.0.1:9324"], protocol="sqs",
            protocol_version=None, description=None, tags=[], security=None,
        )  # fmt: skip
        super().__init__(config=config, specification=about, routers=routers)

    def subscriber(  # type: ignore[override,unused-ignore]
        self, queue: str, *, ack_policy: AckPolicy = EMPTY, title: str | None = None, **settings: Any
    ) -> QueueSubscriber:
        """``settings``: of the consumer, such as ``concurrency`` and ``retry``: fields of ConsumerSettings."""
        calls: Any = CallsCollection()
        config = QueueSubscriberConfig(
            queue=queue, settings=settings, _ack_policy=ack_policy, _outer_config=self.config
        )
        about = SubscriberSpecificationConfig(title_=title, description_=None)
        made = QueueSubscriber(config, _SubscriberSchema(self.config, about, calls, queue), calls)
        super().subscriber(made)
        return made

    def publisher(self, queue: str, *, title: str | None = None, schema_: Any = None) -> QueuePublisher:  # type: ignore[override,unused-ignore]
        about = PublisherSpecificationConfig(title_=title, description_=None, schema_=schema_)
        made = QueuePublisher(
            PublisherUsecaseConfig(_outer_config=self.config),
            _PublisherSchema(self.config, about, queue),
            queue,
        )
        super().publisher(made)
        return made

    async def publish(  # type: ignore[override,unused-ignore]
        self,
        message: Any,
        queue: str,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        delay: float = 0.0,
        group: str | None = None,
        deduplication_id: str | None = None,
    ) -> str:
        """Returns the message id. ``delay``: seconds, of any length. ``group``, ``deduplication_id``: FIFO."""
        cmd = QueueCommand(
            message, destination=queue, headers=headers, reply_to=reply_to, _publish_type=PublishType.PUBLISH,
            correlation_id=correlation_id or self.config.id_generator(),
        )  # fmt: skip
        cmd.delay, cmd.group, cmd.deduplication_id = delay, group, deduplication_id
        sent: str = await self._basic_publish(cmd, producer=self.config.producer)
        return sent

    async def request(self, message: Any, queue: str, /, timeout: float = 0.5) -> Any:  # noqa: ASYNC109
        raise FeatureNotSupportedException(_NO_REQUESTS)

    async def start(self) -> None:
        await self.connect()
        await super().start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        await super().stop(exc_type, exc_val, exc_tb)
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
            self.config.producer.client = None

    async def ping(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                await (await self.connect()).list_queues(max_results=1)
        except (ApiError, Unavailable, TimeoutError):
            return False
        return True

    async def _connect(self) -> Client:
        client = self.config.producer.client = Client(**self._client_options)
        return client


class _LoggerStorage(DefaultLoggerStorage):
    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Does nothing: log columns are not aligned to the names of subscribers."""

    def get_logger(self, *, context: ContextRepo) -> Any:
        if (found := self._get_logger_ref()) is None:
            form = "%(asctime)s %(levelname)-8s - %(queue)s | %(message_id)s - %(message)s"
            found = get_broker_logger(
                name="penstock", default_context={"queue": ""}, message_id_ln=36, fmt=form, context=context,
                log_level=self.logger_log_level,
            )  # fmt: skip
            self._logger_ref.add(found)
        return found


# -- AsyncAPI --------------------------------------------------------------------------------------------------------


class _SubscriberSchema(SubscriberSpecification):
    def __init__(self, outer: Any, config: Any, calls: Any, queue: str) -> None:
        super().__init__(outer, config, calls)
        self._queue = queue

    @property
    def channel_labels(self) -> list[str]:
        return [f"{self._outer_config.prefix}{self._queue}"]

    def get_schema(self) -> dict[str, Any]:
        return {
            self.name: schema.SubscriberSpec(
                address=self.channel_labels[0],
                description=self.description,
                operation=_operation(self.name, resolve_payloads(self.get_payloads())),
                bindings=None,
            )
        }


class _PublisherSchema(PublisherSpecification):
    def __init__(self, outer: Any, config: Any, queue: str) -> None:
        super().__init__(outer, config)
        self._queue = queue

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self._outer_config.prefix}{self._queue}:Publisher"

    def get_schema(self) -> dict[str, Any]:
        return {
            self.name: schema.PublisherSpec(
                address=f"{self._outer_config.prefix}{self._queue}",
                description=self.config.description_,
                operation=_operation(self.name, resolve_payloads(self.get_payloads(), "Publisher")),
                bindings=None,
            )
        }


def _operation(name: str, payload: Any) -> Any:
    return schema.Operation(message=schema.Message(title=f"{name}:Message", payload=payload), bindings=None)
