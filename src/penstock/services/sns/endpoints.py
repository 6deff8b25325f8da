"""The protocols of subscriptions, one row each: which endpoints each has, and how a subscription is confirmed."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from penstock.names import QueueName, is_account, is_region
from penstock.services.sns.faults import invalid, no_value, sns_fault
from penstock.services.sns.limits import EMAIL_LENGTH_MAX, MESSAGE_BYTES_MAX, PHONE_LENGTH_MAX
from penstock.services.sns.mobile_records import EndpointName
from penstock.services.sns.topic_attributes import message_bytes_max
from penstock.services.sns.validation import has_control_characters
from penstock.topics.records import Subscription, Topic

_FIFO = ".fifo"
_QUEUE = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
# SNS: digits, with one separator between two of them.
_PHONE = re.compile(r"\+?[0-9](?:[-/.]?[0-9])*")
_EMAIL = re.compile(r"[^@\s<>()\[\]\\,;:\"]+@[^@\s<>()\[\]\\,;:\"]+")
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|[0-9a-fA-F:.]{2,45}")
_PASSWORD = re.compile(r"^(https?://[^/:@?#]*:)[^/@?#]*@")


class Protocol(msgspec.Struct, frozen=True):
    check: Callable[[str], None]
    """Raises Fault if the text is no endpoint of the protocol."""
    is_confirmed: bool = False
    """The endpoint need not confirm a subscription, if it belongs to the account that subscribes."""
    can_be_raw: bool = False
    is_http: bool = False
    takes_large: bool = False  # messages of more than 256 KiB
    missing: str = ""  # what this server lacks for it; empty: nothing


def is_queue_name(name: str) -> bool:
    return _QUEUE.fullmatch(name) is not None


def queue_of(endpoint: str) -> QueueName | None:
    """The queue of an ARN, which need not exist; None if no queue can have it."""
    queue = QueueName.of_arn(endpoint)
    if queue is None or queue.arn != endpoint or not is_queue_name(queue.name):
        return None
    return queue if is_account(queue.account) and is_region(queue.region) else None


def _queue(endpoint: str) -> None:
    if queue_of(endpoint) is None:
        raise invalid("SQS endpoint ARN")


def is_phone_number(text: str) -> bool:
    return len(text) <= PHONE_LENGTH_MAX and _PHONE.fullmatch(text) is not None


def _phone(endpoint: str) -> None:
    if not is_phone_number(endpoint):
        raise sns_fault("InvalidParameterException", f"Invalid SMS endpoint: {endpoint}")


def _email(endpoint: str) -> None:
    is_known = len(endpoint) <= EMAIL_LENGTH_MAX and _EMAIL.fullmatch(endpoint)
    if not is_known or has_control_characters(endpoint):
        raise invalid("Email address")


def _http(scheme: str) -> Callable[[str], None]:
    def check(endpoint: str) -> None:
        if not endpoint.lower().startswith(f"{scheme}://"):
            raise invalid("Endpoint must match the specified protocol")
        try:
            url = urlsplit(endpoint)
            host, _ = url.hostname or "", url.port
        except ValueError:
            raise invalid("Endpoint") from None
        if (
            not endpoint.isascii()
            or not endpoint.isprintable()
            or " " in endpoint
            or not _HOST.fullmatch(host)
        ):
            raise invalid("Endpoint")
        if scheme == "http" and "@" in url.netloc:
            raise invalid(
                "Endpoint Reason: Please use HTTPS for subscriptions that contain inline credentials"
            )

    return check


def _application(endpoint: str) -> None:
    if EndpointName.of_arn(endpoint) is None:
        raise invalid("Application endpoint ARN")


def _anything(endpoint: str) -> None:
    pass


PROTOCOLS = {
    "sqs": Protocol(_queue, is_confirmed=True, can_be_raw=True, takes_large=True),
    "http": Protocol(_http("http"), can_be_raw=True, is_http=True),
    "https": Protocol(_http("https"), can_be_raw=True, is_http=True),
    "email": Protocol(_email),
    "email-json": Protocol(_email),
    "sms": Protocol(_phone, is_confirmed=True),
    "application": Protocol(_application, is_confirmed=True),
    "lambda": Protocol(_anything, is_confirmed=True, missing="functions"),
    "firehose": Protocol(_anything, is_confirmed=True, can_be_raw=True, missing="delivery streams"),
}


def is_fifo(endpoint: str) -> bool:
    return endpoint.endswith(_FIFO)


def check_endpoint(topic: Topic, protocol: str, endpoint: str | None) -> None:
    """Raises Fault if no subscription of the topic can have this endpoint."""
    row = PROTOCOLS[protocol]
    if topic.name.is_fifo and protocol != "sqs":
        raise invalid(f"Invalid protocol type: {protocol}")
    if not endpoint:
        raise no_value("Endpoint")
    row.check(endpoint)
    if row.missing:
        raise invalid(f"Protocol Reason: this server has no {row.missing} that {protocol} endpoints could be")
    if protocol == "sqs" and is_fifo(endpoint) and not topic.name.is_fifo:
        # SNS says the first words twice.
        raise invalid(
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
        )
    if message_bytes_max(topic) > MESSAGE_BYTES_MAX and not row.takes_large:
        raise invalid(f"Protocol Reason: only queues get messages of more than {MESSAGE_BYTES_MAX} bytes")


def shown_endpoint(subscription: Subscription) -> str:
    """SNS: a password in a URL is not shown."""
    if not PROTOCOLS[subscription.protocol].is_http:
        return subscription.endpoint
    return _PASSWORD.sub(r"\1****@", subscription.endpoint)
