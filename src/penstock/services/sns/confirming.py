"""ConfirmSubscription, by a client or by a link that someone follows."""

from __future__ import annotations

import msgspec

from penstock.publishing.errors import SubscriptionMissing
from penstock.publishing.shard_topics import ShardTopics
from penstock.services.sns.faults import authorization_error
from penstock.services.sns.resources import Sns, SubscriptionResource
from penstock.services.sns.structs import ConfirmSubscriptionRequest, ConfirmSubscriptionResult
from penstock.services.sns.validation import is_signed
from penstock.topics.records import Subscription, SubscriptionState
from penstock.wire.service import Call


async def confirm_subscription(
    sns: Sns, request: ConfirmSubscriptionRequest, call: Call
) -> ConfirmSubscriptionResult:
    resource: SubscriptionResource = call.resource
    topics, subscription = resource.topics, resource.subscription
    protects = (request.AuthenticateOnUnsubscribe or "").lower() == "true"
    if protects:
        _check_confirmer(subscription, call)
    if subscription.state is SubscriptionState.DELETED:
        _check_not_replaced(topics, subscription)
    if subscription.state is not SubscriptionState.CONFIRMED or protects:
        confirmed: Subscription = msgspec.structs.replace(
            subscription,
            state=SubscriptionState.CONFIRMED,
            ended_ms=0,
            is_authenticated=subscription.is_authenticated or is_signed(call),
            is_protected=subscription.is_protected or protects,
        )
        topics.put_subscription(confirmed)
    await topics.settled()
    return ConfirmSubscriptionResult(SubscriptionArn=subscription.name.arn)


def _check_not_replaced(topics: ShardTopics, subscription: Subscription) -> None:
    """Raises SubscriptionMissing if the endpoint has subscribed again, so that it does not get everything twice."""
    if topics.subscription_to(subscription.name.topic, subscription.protocol, subscription.endpoint):
        raise SubscriptionMissing


def _check_confirmer(subscription: Subscription, call: Call) -> None:
    """Raises Fault. SNS: only the subscriber can keep others from following the link that ends the subscription."""
    if subscription.is_protected:
        raise authorization_error("Subscription already confirmed")
    if not is_signed(call) or call.space.account != subscription.owner:
        raise authorization_error(
            "To disallow anonymous unsubscription, subscriber and confirmer IDs must match"
        )
