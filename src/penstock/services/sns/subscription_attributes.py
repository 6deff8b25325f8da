"""The attributes of subscriptions: how each is checked, stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.names import QueueName, is_account, is_region
from penstock.patterns.errors import JsonTextError
from penstock.patterns.json_text import parse_json
from penstock.services.sns.endpoints import PROTOCOLS, is_queue_name, shown_endpoint
from penstock.services.sns.faults import AttributeInvalid
from penstock.services.sns.filter_policy import ATTRIBUTES, POLICY, SCOPE, checked_filter, checked_scope
from penstock.services.sns.limits import REDRIVE_BYTES_MAX
from penstock.services.sns.replay_policy import checked_replay
from penstock.services.sns.topic_attributes import UNKNOWN, boolean
from penstock.topics.delivery_policy import (
    DeliveryPolicyInvalid,
    effective_subscription_policy,
    parse_subscription_policy,
)
from penstock.topics.records import Subscription, SubscriptionState, Topic

RAW, REDRIVE, DELIVERY, ROLE, REPLAY = (
    "RawMessageDelivery",
    "RedrivePolicy",
    "DeliveryPolicy",
    "SubscriptionRoleArn",
    "ReplayPolicy",
)
_TARGET = "deadLetterTargetArn"
_DEFAULTS = {RAW: "false", SCOPE: ATTRIBUTES}


# -- setting ---------------------------------------------------------------------------------------------------


def with_attributes(
    subscription: Subscription, attributes: Mapping[str, str], topic: Topic, now_ms: int
) -> Subscription:
    """Raises AttributeInvalid. The order of the attributes does not matter."""
    scope = attributes.get(SCOPE)
    if scope is not None:
        subscription = _with_scope(subscription, scope, attributes.get(POLICY))
    for name, value in attributes.items():
        if name != SCOPE:
            subscription = subscription.with_attribute(
                name, _checked(subscription, name, value, topic, now_ms)
            )
    return subscription


def _with_scope(subscription: Subscription, scope: str, new_policy: str | None) -> Subscription:
    # SNS: a scope without a policy is remembered. One with a policy has to fit to it.
    scope = checked_scope(scope)
    if new_policy is None:
        checked_filter(subscription.attributes.get(POLICY, ""), scope)
    return subscription.with_attribute(SCOPE, scope)


def _checked(subscription: Subscription, name: str, value: str, topic: Topic, now_ms: int) -> str:
    """The value to store; empty to remove the attribute."""
    match name:
        case "RawMessageDelivery":
            return _raw(subscription, value)
        case "FilterPolicy":
            return checked_filter(value, scope_of(subscription))
        case "RedrivePolicy":
            return _redrive(subscription, value)
        case "DeliveryPolicy" if PROTOCOLS[subscription.protocol].is_http:
            return _delivery(subscription, value)
        case "ReplayPolicy" if topic.name.is_fifo:
            return checked_replay(value, topic, now_ms)
    raise AttributeInvalid(UNKNOWN)


def _raw(subscription: Subscription, value: str) -> str:
    wanted = boolean(RAW, value)
    if wanted and not PROTOCOLS[subscription.protocol].can_be_raw:
        raise AttributeInvalid(
            f"{RAW}: Delivery protocol [{subscription.protocol}] does not support raw message delivery."
        )
    return "true" if wanted else "false"


def _delivery(subscription: Subscription, value: str) -> str:
    try:
        return parse_subscription_policy(value, is_raw=subscription.is_raw) if value else ""
    except DeliveryPolicyInvalid as error:
        raise AttributeInvalid(f"{DELIVERY}: {error.reason}") from None


def _redrive(subscription: Subscription, value: str) -> str:
    if not value:
        return ""
    try:
        if len(value) > REDRIVE_BYTES_MAX:
            raise AttributeInvalid(f"{REDRIVE}: must be at most {REDRIVE_BYTES_MAX} characters long")
        document = parse_json(value)
    except JsonTextError as error:
        raise AttributeInvalid(f"{REDRIVE}: failed to parse JSON. {error.reason}") from None
    if document == {}:
        return ""
    if isinstance(document, dict):
        for name in document:
            if name != _TARGET:
                raise AttributeInvalid(f"{REDRIVE}: invalid JSON. Attribute {name} is unknown.")
    _check_dead_letters(subscription, document.get(_TARGET) if isinstance(document, dict) else None)
    return value


def _check_dead_letters(subscription: Subscription, target: Any) -> None:
    queue = QueueName.of_arn(target) if isinstance(target, str) else None
    # SNS: the dead-letter queue is in the account and region of the subscription.
    is_own = (
        queue is not None
        and queue.arn == target
        and is_account(queue.account)
        and is_region(queue.region)
        and is_queue_name(queue.name)
        and (queue.account, queue.region) == (subscription.owner, subscription.name.topic.region)
    )
    if queue is None or not is_own:
        raise AttributeInvalid(f"{REDRIVE}: {_TARGET} is an invalid arn")
    to_fifo = queue.name.endswith(".fifo")
    if subscription.name.topic.is_fifo and subscription.endpoint.endswith(".fifo") and not to_fifo:
        raise AttributeInvalid(
            f"{REDRIVE}: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
        )


# -- comparing and showing ---------------------------------------------------------------------------------------


def scope_of(subscription: Subscription) -> str:
    return subscription.attributes.get(SCOPE, ATTRIBUTES)


def has_same_attributes(present: Subscription, wanted: Subscription, given: Mapping[str, str]) -> bool:
    """Whether the given attributes have their present values, or the usual ones."""
    before, after = {**_DEFAULTS, **present.attributes}, {**_DEFAULTS, **wanted.attributes}
    return all(before.get(name) == after.get(name) for name in given)


def shown_subscription(
    subscription: Subscription, topic: Topic | None, replay_status: str | None
) -> dict[str, str]:
    attributes = subscription.attributes
    shown = {
        "SubscriptionArn": subscription.name.arn,
        "TopicArn": subscription.name.topic.arn,
        "Owner": subscription.owner,
        "SubscriptionPrincipal": subscription.principal,
        "Protocol": subscription.protocol,
        "Endpoint": shown_endpoint(subscription),
        RAW: "false",
        "PendingConfirmation": _shown_boolean(subscription.state is SubscriptionState.PENDING),
        "ConfirmationWasAuthenticated": _shown_boolean(subscription.is_authenticated),
    }
    shown |= attributes
    shown.pop(SCOPE, None)
    if POLICY in attributes:
        shown[SCOPE] = scope_of(subscription)
    if REPLAY in attributes and replay_status is not None:
        shown["ReplayStatus"] = replay_status
    if PROTOCOLS[subscription.protocol].is_http:
        of_topic = None if topic is None else topic.attributes.get("DeliveryPolicy")
        shown["EffectiveDeliveryPolicy"] = effective_subscription_policy(of_topic, attributes.get(DELIVERY))
    return shown


def _shown_boolean(value: bool) -> str:
    return "true" if value else "false"
