"""A client of SQS, SNS and the admin API, for Penstock and for Amazon SQS.

Names are imported when they are first used, so that commands start without what they do not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.backoffs import Backoff as Backoff
    from penstock.client.backoffs import Constant as Constant
    from penstock.client.backoffs import Exponential as Exponential
    from penstock.client.buffer import BufferedReceiver as BufferedReceiver
    from penstock.client.client import Client as Client
    from penstock.client.codec import DecodeError as DecodeError
    from penstock.client.codec import EncodeError as EncodeError
    from penstock.client.codec import JsonCodec as JsonCodec
    from penstock.client.consumer.consumer import Consumer as Consumer
    from penstock.client.consumer.context import MessageContext as MessageContext
    from penstock.client.consumer.idempotency import Idempotency as Idempotency
    from penstock.client.consumer.idempotency import IdempotencyStore as IdempotencyStore
    from penstock.client.consumer.idempotency_stores import MemoryKeys as MemoryKeys
    from penstock.client.consumer.idempotency_stores import RedisKeys as RedisKeys
    from penstock.client.consumer.idempotency_stores import SqliteKeys as SqliteKeys
    from penstock.client.consumer.metrics import Metrics as Metrics
    from penstock.client.consumer.middleware import CallNext as CallNext
    from penstock.client.consumer.middleware import Middleware as Middleware
    from penstock.client.consumer.middleware import log_handled as log_handled
    from penstock.client.consumer.receiving import CannotStart as CannotStart
    from penstock.client.consumer.retry import GIVE_UP as GIVE_UP
    from penstock.client.consumer.retry import GiveUp as GiveUp
    from penstock.client.consumer.retry import Retry as Retry
    from penstock.client.consumer.retry import RetryPolicy as RetryPolicy
    from penstock.client.consumer.settings import ConsumerSettings as ConsumerSettings
    from penstock.client.consumer.tracing import Tracing as Tracing
    from penstock.client.consumer.worker import Worker as Worker
    from penstock.client.credentials import KeySource as KeySource
    from penstock.client.credentials import ProfileError as ProfileError
    from penstock.client.credentials import SigningKeys as SigningKeys
    from penstock.client.endpoint import EndpointError as EndpointError
    from penstock.client.envelopes import Envelope as Envelope
    from penstock.client.envelopes import read_envelope as read_envelope
    from penstock.client.errors import ApiError as ApiError
    from penstock.client.errors import ChecksumMismatch as ChecksumMismatch
    from penstock.client.errors import Forbidden as Forbidden
    from penstock.client.errors import InvalidReceiptHandle as InvalidReceiptHandle
    from penstock.client.errors import QueueDoesNotExist as QueueDoesNotExist
    from penstock.client.errors import Throttled as Throttled
    from penstock.client.errors import TopicDoesNotExist as TopicDoesNotExist
    from penstock.client.errors import Unavailable as Unavailable
    from penstock.client.large_payloads import LargePayloads as LargePayloads
    from penstock.client.payload_stores import DirectoryStore as DirectoryStore
    from penstock.client.payload_stores import PayloadError as PayloadError
    from penstock.client.payload_stores import S3Store as S3Store
    from penstock.client.producer import Producer as Producer
    from penstock.client.publisher import Publisher as Publisher
    from penstock.client.request_response import RequestRefused as RequestRefused
    from penstock.client.request_response import RequestSender as RequestSender
    from penstock.client.request_response import Responder as Responder
    from penstock.client.retries import Retries as Retries
    from penstock.client.signatures import SignatureInvalid as SignatureInvalid
    from penstock.client.signatures import SignatureVerifier as SignatureVerifier
    from penstock.client.structs import AttributeValue as AttributeValue
    from penstock.client.structs import BatchResult as BatchResult
    from penstock.client.structs import DeleteEntry as DeleteEntry
    from penstock.client.structs import DoneEntry as DoneEntry
    from penstock.client.structs import FailedEntry as FailedEntry
    from penstock.client.structs import Message as Message
    from penstock.client.structs import MessageAttribute as MessageAttribute
    from penstock.client.structs import MoveTask as MoveTask
    from penstock.client.structs import Notification as Notification
    from penstock.client.structs import QueuePage as QueuePage
    from penstock.client.structs import SendEntry as SendEntry
    from penstock.client.structs import SentEntry as SentEntry
    from penstock.client.structs import SentMessage as SentMessage
    from penstock.client.structs import VisibilityEntry as VisibilityEntry
    from penstock.client.sync import SyncClient as SyncClient
    from penstock.client.sync_producer import SyncProducer as SyncProducer
    from penstock.client.sync_publisher import SyncPublisher as SyncPublisher
    from penstock.client.topic_structs import PublishedEntry as PublishedEntry
    from penstock.client.topic_structs import PublishedMessage as PublishedMessage
    from penstock.client.topic_structs import PublishEntry as PublishEntry
    from penstock.client.topic_structs import Subscription as Subscription
    from penstock.client.topic_structs import SubscriptionPage as SubscriptionPage
    from penstock.client.topic_structs import TopicPage as TopicPage
    from penstock.client.webhooks import Webhook as Webhook
    from penstock.client.webhooks import WebhookKind as WebhookKind
    from penstock.client.webhooks import confirm_subscription as confirm_subscription
    from penstock.client.webhooks import parse_webhook as parse_webhook
    from penstock.client.webhooks import verify_webhook as verify_webhook

_MODULES = {
    "client": ("Client",),
    "sync": ("SyncClient",),
    "producer": ("Producer",),
    "sync_producer": ("SyncProducer",),
    "buffer": ("BufferedReceiver",),
    "codec": ("DecodeError", "EncodeError", "JsonCodec"),
    "consumer.consumer": ("Consumer",),
    "consumer.context": ("MessageContext",),
    "consumer.idempotency": ("Idempotency", "IdempotencyStore",),
    "consumer.idempotency_stores": ("MemoryKeys", "RedisKeys", "SqliteKeys",),
    "consumer.metrics": ("Metrics",),
    "consumer.middleware": ("CallNext", "Middleware", "log_handled",),
    "consumer.receiving": ("CannotStart",),
    "backoffs": ("Backoff", "Constant", "Exponential"),
    "consumer.retry": ("GIVE_UP", "GiveUp", "Retry", "RetryPolicy"),
    "consumer.settings": ("ConsumerSettings",),
    "consumer.tracing": ("Tracing",),
    "consumer.worker": ("Worker",),
    "credentials": ("KeySource", "ProfileError", "SigningKeys"),
    "endpoint": ("EndpointError",),
    "errors": (
        "ApiError", "ChecksumMismatch", "Forbidden", "InvalidReceiptHandle", "QueueDoesNotExist", "Throttled",
        "TopicDoesNotExist", "Unavailable",
    ),
    "large_payloads": ("LargePayloads",),
    "payload_stores": ("DirectoryStore", "PayloadError", "S3Store"),
    "request_response": ("RequestRefused", "RequestSender", "Responder"),
    "retries": ("Retries",),
    "structs": (
        "AttributeValue", "BatchResult", "DeleteEntry", "DoneEntry", "FailedEntry", "Message", "MessageAttribute",
        "MoveTask", "Notification", "QueuePage", "SendEntry", "SentEntry", "SentMessage", "VisibilityEntry",
    ),
    "envelopes": ("Envelope", "read_envelope",),
    "publisher": ("Publisher",),
    "sync_publisher": ("SyncPublisher",),
    "signatures": ("SignatureInvalid", "SignatureVerifier",),
    "topic_structs": (
        "PublishEntry", "PublishedEntry", "PublishedMessage", "Subscription", "SubscriptionPage", "TopicPage",
    ),
    "webhooks": (
        "Webhook", "WebhookKind", "confirm_subscription", "parse_webhook", "verify_webhook",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = list(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # for which a name that does not exist would be Any

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
