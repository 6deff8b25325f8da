"""The attributes of topics: how each is checked, stored and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from penstock.clock import iso_time
from penstock.limits import DAY, SECOND
from penstock.patterns.errors import JsonTextError
from penstock.patterns.json_text import parse_json
from penstock.publishing.shard_topics import SubscriptionCounts
from penstock.services.sns.faults import AttributeInvalid
from penstock.services.sns.limits import (
    ARCHIVE_DAYS_MAX,
    ARCHIVE_LENGTH_MAX,
    DISPLAY_NAME_LENGTH_MAX,
    KMS_KEY_LENGTH_MAX,
    MESSAGE_BYTES_MAX,
    TOPIC_MESSAGE_BYTES_MAX,
    TOPIC_MESSAGE_BYTES_MIN,
)
from penstock.services.sns.topic_policy import checked_policy
from penstock.services.sns.validation import has_control_characters
from penstock.topics.delivery_policy import DeliveryPolicyInvalid, effective_topic_policy, parse_topic_policy
from penstock.topics.policy import default_policy
from penstock.topics.records import Topic

UNKNOWN = "AttributeName"
FIFO, CONTENT_DEDUP, SCOPE, ARCHIVE = (
    "FifoTopic",
    "ContentBasedDeduplication",
    "FifoThroughputScope",
    "ArchivePolicy",
)
MESSAGE_SIZE = "MaximumMessageSize"
_FIFO_ONLY = (FIFO, CONTENT_DEDUP, SCOPE, ARCHIVE)
_SCOPES = ("Topic", "MessageGroup")
_FEEDBACK = tuple(
    f"{protocol}{which}"
    for protocol in ("HTTP", "Firehose", "Lambda", "Application", "SQS")
    for which in ("SuccessFeedbackRoleArn", "FailureFeedbackRoleArn", "SuccessFeedbackSampleRate")
)
_ROLE = re.compile(r"arn:[a-z-]+:iam::[0-9]{12}:role/[\x21-\x7e]{1,512}")
_DIGITS = re.compile(r"[0-9]{1,10}")
_RETENTION = "MessageRetentionPeriod"


# -- setting ---------------------------------------------------------------------------------------------------


def with_attribute(topic: Topic, name: str, value: str, now_ms: int) -> Topic:
    """Raises AttributeInvalid."""
    if name in _FIFO_ONLY and not topic.name.is_fifo:
        raise AttributeInvalid(UNKNOWN)
    if name == FIFO:
        if not boolean(name, value):
            raise AttributeInvalid(f"{name}: Modifying topic type is not supported")
        return topic
    if name == SCOPE:
        return topic.with_attribute(name, _throughput_scope(value, topic.attributes.get(name)))
    if name == ARCHIVE:
        return _with_archive(topic, value, now_ms)
    check = _CHECKS.get(name)
    if check is None:
        raise AttributeInvalid(UNKNOWN)
    return topic.with_attribute(name, check(name, value))


def with_attributes(topic: Topic, attributes: Mapping[str, str], now_ms: int) -> Topic:
    """Raises AttributeInvalid."""
    for name, value in attributes.items():
        topic = with_attribute(topic, name, value, now_ms)
    return topic


def boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise AttributeInvalid(f"{name}: Invalid value [{value}]. Must be true or false.")
    return value.lower() == "true"


def _content_dedup(name: str, value: str) -> str:
    return "true" if boolean(name, value) else "false"


def _throughput_scope(value: str, present: str | None) -> str:
    if value not in _SCOPES:
        raise AttributeInvalid(f"Invalid {SCOPE}: {value}")
    # SNS: the scope of deduplication can become narrower, and not wider again.
    if present == _SCOPES[1] and value == _SCOPES[0]:
        raise AttributeInvalid(f"Modifying {SCOPE} from {present} to {value} is not supported")
    return value


def _with_archive(topic: Topic, value: str, now_ms: int) -> Topic:
    # Terraform takes an archive away with an empty text.
    document = _json(value) if value else {}
    if document == {}:
        without: Topic = msgspec.structs.replace(topic.with_attribute(ARCHIVE, ""), archived_from_ms=0)
        return without
    if not isinstance(document, dict) or set(document) != {_RETENTION}:
        raise AttributeInvalid(f"{ARCHIVE}: JSON is missing required fields")
    days = document[_RETENTION]
    text = str(days) if isinstance(days, int | str) and not isinstance(days, bool) else ""
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= ARCHIVE_DAYS_MAX:
        raise AttributeInvalid(f"{ARCHIVE}: {_RETENTION} value is invalid")
    # SNS: another retention does not restart the archive, and the policy is shown as it was given.
    archived: Topic = msgspec.structs.replace(
        topic.with_attribute(ARCHIVE, value), archived_from_ms=topic.archived_from_ms or now_ms
    )
    return archived


def _json(value: str) -> object:
    try:
        if len(value) > ARCHIVE_LENGTH_MAX:
            raise JsonTextError("too long")
        parsed: object = parse_json(value)
    except JsonTextError:
        raise AttributeInvalid(f"{ARCHIVE}: Unable to parse JSON") from None
    return parsed


def _display_name(name: str, value: str) -> str:
    if len(value) > DISPLAY_NAME_LENGTH_MAX or has_control_characters(value.replace("\t", " ")):
        raise AttributeInvalid(name)
    return value


def _policy(name: str, value: str) -> str:
    return checked_policy(value)


def _delivery_policy(name: str, value: str) -> str:
    try:
        return parse_topic_policy(value) if value else ""
    except DeliveryPolicyInvalid as error:
        raise AttributeInvalid(f"{name}: {error.reason}") from None


def _key(name: str, value: str) -> str:
    # SNS: the key is looked up when it is used, not when it is named.
    if len(value) > KMS_KEY_LENGTH_MAX or has_control_characters(value):
        raise AttributeInvalid(name)
    return value


def _signature_version(name: str, value: str) -> str:
    if value not in ("1", "2"):
        raise AttributeInvalid(f"{name}: Invalid value [{value}]. Must be 1 or 2.")
    return value


def _tracing(name: str, value: str) -> str:
    if value not in ("PassThrough", "Active"):
        raise AttributeInvalid(f"Invalid tracing config value: {value}")
    return value


def _message_size(name: str, value: str) -> str:
    is_number = _DIGITS.fullmatch(value) is not None
    if not is_number or not TOPIC_MESSAGE_BYTES_MIN <= int(value) <= TOPIC_MESSAGE_BYTES_MAX:
        raise AttributeInvalid(
            f"{name}: Invalid value [{value}]. "
            f"Must be between {TOPIC_MESSAGE_BYTES_MIN} and {TOPIC_MESSAGE_BYTES_MAX}."
        )
    return str(int(value))


def _feedback(name: str, value: str) -> str:
    if not value:
        return ""
    if name.endswith("Arn"):
        if not _ROLE.fullmatch(value):
            raise AttributeInvalid(f"{name}: Invalid value [{value}]. Must be the ARN of a role.")
        return value
    if not _DIGITS.fullmatch(value) or int(value) > 100:
        raise AttributeInvalid(f"{name}: Invalid value [{value}]. Must be between 0 and 100.")
    return str(int(value))


_CHECKS: Mapping[str, Callable[[str, str], str]] = {
    "Policy": _policy,
    "DisplayName": _display_name,
    CONTENT_DEDUP: _content_dedup,
    "DeliveryPolicy": _delivery_policy,
    "KmsMasterKeyId": _key,
    "SignatureVersion": _signature_version,
    "TracingConfig": _tracing,
    MESSAGE_SIZE: _message_size,
    **dict.fromkeys(_FEEDBACK, _feedback),
}
"""What returns the value to store, or raises AttributeInvalid. An empty value removes the attribute."""

SETTABLE = (*_FIFO_ONLY, *(name for name in _CHECKS if name not in _FIFO_ONLY))


# -- showing ---------------------------------------------------------------------------------------------------


def message_bytes_max(topic: Topic) -> int:
    return int(topic.attributes.get(MESSAGE_SIZE, MESSAGE_BYTES_MAX))


def policy_of(topic: Topic) -> str:
    return topic.attributes.get("Policy") or default_policy(topic.name)


def shown_topic(topic: Topic, counts: SubscriptionCounts, now_ms: int) -> dict[str, str]:
    shown = {
        "TopicArn": topic.name.arn,
        "Owner": topic.name.account,
        "Policy": policy_of(topic),
        "DisplayName": "",
        "EffectiveDeliveryPolicy": effective_topic_policy(topic.attributes.get("DeliveryPolicy")),
        "SubscriptionsConfirmed": str(counts.confirmed),
        "SubscriptionsPending": str(counts.pending),
        "SubscriptionsDeleted": str(counts.deleted),
    }
    if topic.name.is_fifo:
        shown[FIFO] = "true"
    shown |= topic.attributes
    if ARCHIVE in topic.attributes:
        shown["BeginningArchiveTime"] = _iso_ms(archive_begin_ms(topic, now_ms))
    return shown


def archive_begin_ms(topic: Topic, now_ms: int) -> int:
    policy = msgspec.json.decode(topic.attributes[ARCHIVE])
    return max(topic.archived_from_ms, now_ms - int(policy[_RETENTION]) * DAY)


def _iso_ms(ms: int) -> str:
    seconds, milliseconds = divmod(ms, SECOND)
    return f"{iso_time(seconds)[:-1]}.{milliseconds:03d}Z"
