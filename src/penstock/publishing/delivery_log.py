"""The delivery status of topics: a log line for each attempt, if the topic has a role for that.

Amazon writes these records to a log group of CloudWatch Logs, whose role the topic names. Here they are lines of the
server's log with the same content. What was in a message is never logged.
"""

from __future__ import annotations

import logging
from hashlib import md5
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5
from zlib import crc32

import msgspec

from penstock.clock import iso_time
from penstock.limits import SECOND
from penstock.topics.publication import Notice
from penstock.topics.records import Subscription, Topic

log = logging.getLogger("penstock.topics")

# The beginning of the names of a topic's attributes, by protocol.
_PREFIXES = {
    "http": "HTTP", "https": "HTTP", "sqs": "SQS", "application": "Application", "lambda": "Lambda",
    "firehose": "Firehose",
}  # fmt: skip


class LoggedMessage(NamedTuple):
    """What is logged of a message."""

    id: str  # empty: it is not known any more
    md5: str
    published_ms: int  # by the wall clock; 0: it is not known any more

    @classmethod
    def of(cls, notice: Notice) -> LoggedMessage:
        return cls(notice.message_id, text_md5(notice.text), notice.published_ms)


def text_md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


class DeliveryAttempt(NamedTuple):
    """One attempt to deliver a message."""

    number: int  # from 1
    succeeded: bool
    status: int  # as HTTP has it; 0: there was no answer
    response: str  # of the endpoint, or why there is none
    dwell_ms: int  # from the publication to the end of the attempt


def log_attempt(
    topic: Topic, subscription: Subscription, notice: Notice | None, attempt: DeliveryAttempt
) -> None:
    """Log an attempt, if the topic wants that. ``notice``: None for a confirmation."""
    if is_wanted(topic, subscription.protocol, attempt, "" if notice is None else notice.message_id):
        write_record(topic, subscription, None if notice is None else LoggedMessage.of(notice), attempt)


def write_record(
    topic: Topic, subscription: Subscription, message: LoggedMessage | None, attempt: DeliveryAttempt
) -> None:
    """Log an attempt. ``message``: None for a confirmation."""
    name = topic.name
    group = f"sns/{name.region}/{name.account}/{name.name}"
    log.info(
        "delivery of topic %s %s",
        name.name,
        "succeeded" if attempt.succeeded else "failed",
        extra={
            "log_group": group if attempt.succeeded else f"{group}/Failure",
            "record": msgspec.json.encode(record(topic, subscription, message, attempt)).decode(),
        },
    )


def record(
    topic: Topic, subscription: Subscription, message: LoggedMessage | None, attempt: DeliveryAttempt
) -> dict[str, Any]:
    """Returns what Amazon logs of an attempt."""
    notification: dict[str, Any] = {}
    redrive = subscription.attributes.get("RedrivePolicy")
    delivery_of = f"{subscription.name.arn} {attempt.number} {attempt.dwell_ms}"
    if message is not None:
        notification["messageMD5Sum"] = message.md5
        if message.id:
            notification["messageId"] = message.id
        delivery_of += f" {message.id or message.md5}"
    notification["topicArn"] = topic.name.arn
    if message is not None and message.published_ms:
        notification["timestamp"] = _time(message.published_ms)
    delivery: dict[str, Any] = {
        "deliveryId": str(uuid5(NAMESPACE_OID, delivery_of)),
        "destination": _destination(subscription),
        "providerResponse": attempt.response,
        "dwellTimeMs": attempt.dwell_ms,
    }
    # SNS: the first attempt has no number, and one without an answer has no status.
    if attempt.number > 1:
        delivery["attempts"] = attempt.number
    if attempt.status:
        delivery["statusCode"] = attempt.status
    if redrive and message is not None:
        delivery["redrivePolicy"] = msgspec.json.decode(redrive)
    status = "SUCCESS" if attempt.succeeded else "FAILURE"
    return {"notification": notification, "delivery": delivery, "status": status}


def is_wanted(topic: Topic, protocol: str, attempt: DeliveryAttempt, message_id: str) -> bool:
    """Whether the topic has a role for an attempt, and its rate chooses this one."""
    prefix, succeeded = _PREFIXES.get(protocol), attempt.succeeded
    if prefix is None:
        return False
    kind = "Success" if succeeded else "Failure"
    if not topic.attributes.get(f"{prefix}{kind}FeedbackRoleArn"):
        return False
    # SNS: a role without a rate logs every success.
    rate = topic.attributes.get(f"{prefix}SuccessFeedbackSampleRate") if succeeded else None
    if not rate:
        return True
    sampled = f"{message_id} {attempt.number}"
    return crc32(sampled.encode()) % 100 < int(rate)


def _time(wall_ms: int) -> str:
    """2026-09-22 20:34:05.915"""
    day, _, second = iso_time(wall_ms // SECOND)[:-1].partition("T")
    return f"{day} {second}.{wall_ms % SECOND:03d}"


def _destination(subscription: Subscription) -> str:
    return shown_endpoint(subscription.endpoint)


def shown_endpoint(endpoint: str) -> str:
    """An endpoint as it may be shown: SNS shows stars instead of the password of a URL."""
    scheme, separator, rest = endpoint.partition("://")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    if not separator or not at:
        return endpoint
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{':****' if colon else ''}@{host}{slash}{path}"
