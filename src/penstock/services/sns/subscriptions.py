"""Subscribe, Unsubscribe, and the actions on attributes and lists of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import msgspec

from penstock.errors import QuotaReached
from penstock.publishing.questions import SubscriptionsQuestion
from penstock.publishing.shard_topics import ShardTopics
from penstock.services.sns.endpoints import PROTOCOLS, check_endpoint, queue_of, shown_endpoint
from penstock.services.sns.faults import (
    AttributeInvalid,
    authorization_error,
    invalid,
    invalid_attributes,
    no_value,
)
from penstock.services.sns.filter_policy import POLICY
from penstock.services.sns.limits import (
    LARGE_MESSAGE_SUBSCRIPTIONS_MAX,
    MESSAGE_BYTES_MAX,
    PAGE_SIZE,
)
from penstock.services.sns.mobile_records import DeviceEndpointQuestion, EndpointName
from penstock.services.sns.resources import Sns, SubscriptionResource, TopicResource, unknown_protocol
from penstock.services.sns.structs import (
    GetSubscriptionAttributesRequest,
    GetSubscriptionAttributesResult,
    ListedSubscription,
    ListSubscriptionsByTopicRequest,
    ListSubscriptionsByTopicResult,
    ListSubscriptionsRequest,
    ListSubscriptionsResult,
    SetSubscriptionAttributesRequest,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeRequest,
)
from penstock.services.sns.subscription_attributes import (
    has_same_attributes,
    shown_subscription,
    with_attributes,
)
from penstock.services.sns.topic_attributes import message_bytes_max
from penstock.services.sns.validation import is_signed, read_token, write_token
from penstock.topics.names import SubscriptionName
from penstock.topics.records import Subscription, SubscriptionState, Topic
from penstock.wire.service import Call

_PENDING = "pending confirmation"
_LISTED = {
    SubscriptionState.PENDING: "PendingConfirmation",
    SubscriptionState.DELETED: "Deleted",
}  # in lists, in place of the ARN


# -- Subscribe -------------------------------------------------------------------------------------------------


async def subscribe(sns: Sns, request: SubscribeRequest, call: Call) -> SubscribeResult:
    resource: TopicResource = call.resource
    topics = resource.topics
    protocol, endpoint = request.Protocol or "", request.Endpoint
    if protocol not in PROTOCOLS:
        raise unknown_protocol(protocol)
    await _check_endpoint(sns, topics.find(resource.name), protocol, endpoint, call)
    assert endpoint is not None
    # Another request may have changed the topic while another shard was asked.
    topic = resource.topic
    wanted = _wanted(sns, topic, protocol, endpoint, request.Attributes or {}, call)
    present = topics.subscription_to(topic.name, protocol, endpoint)
    if present is None:
        _check_room(sns, topics, topic, wanted)
        subscription = wanted
        topics.put_subscription(wanted)
    else:
        subscription = _again(topics, present, wanted, request.Attributes or {})
    if wanted.state is SubscriptionState.PENDING:
        topics.send_confirmation(subscription)
    await topics.settled()
    shows_arn = subscription.state is SubscriptionState.CONFIRMED or request.ReturnSubscriptionArn
    return SubscribeResult(SubscriptionArn=subscription.name.arn if shows_arn else _PENDING)


async def _check_endpoint(sns: Sns, topic: Topic, protocol: str, endpoint: str | None, call: Call) -> None:
    """Raises Fault if the topic cannot have this endpoint."""
    check_endpoint(topic, protocol, endpoint)
    assert endpoint is not None
    row, account = PROTOCOLS[protocol], call.space.account
    if row.is_http and not await sns.publishing.endpoints.may_subscribe(account, protocol, endpoint):
        raise invalid("Unreachable Endpoint")
    if protocol == "application":
        await _check_device(sns, endpoint, call)


async def _check_device(sns: Sns, endpoint: str, call: Call) -> None:
    name = EndpointName.of_arn(endpoint)
    is_own = name is not None and name.application.account == call.space.account
    if name is None or not is_own or await sns.broker.ask(DeviceEndpointQuestion(name)) is None:
        raise invalid(f"Endpoint Reason: Endpoint does not exist for endpoint {endpoint}")


def _wanted(
    sns: Sns, topic: Topic, protocol: str, endpoint: str, attributes: Mapping[str, str], call: Call
) -> Subscription:
    """The subscription as it is asked for. Raises Fault."""
    now_ms = sns.broker.wall_ms()
    queue = queue_of(endpoint) if protocol == "sqs" else None
    # SNS: a queue of another account is asked, and so are people and servers.
    is_confirmed = PROTOCOLS[protocol].is_confirmed and (queue is None or queue.account == call.space.account)
    subscription = Subscription(
        name=SubscriptionName(topic.name, str(uuid4())),
        protocol=protocol,
        endpoint=endpoint,
        owner=call.space.account,
        principal=_principal(call),
        created_ms=now_ms,
        state=SubscriptionState.CONFIRMED if is_confirmed else SubscriptionState.PENDING,
        is_authenticated=is_confirmed,
        base_url=call.base_url,
    )
    try:
        return with_attributes(subscription, attributes, topic, now_ms)
    except AttributeInvalid as error:
        raise invalid_attributes(str(error)) from None


def _principal(call: Call) -> str:
    principal = call.principal
    if principal is None:
        return f"arn:aws:iam::{call.space.account}:root"
    arn: str = principal.role_arn or principal.arn
    return arn


def _again(
    topics: ShardTopics, present: Subscription, wanted: Subscription, attributes: Mapping[str, str]
) -> Subscription:
    """What a second Subscribe with the same endpoint finds. Raises Fault."""
    if not has_same_attributes(present, wanted, attributes):
        raise invalid_attributes("Subscription already exists with different attributes")
    if present.state is not SubscriptionState.PENDING:
        return present
    if wanted.state is SubscriptionState.PENDING:
        # It waits for as long as for the first confirmation.
        asked_again: Subscription = msgspec.structs.replace(present, created_ms=wanted.created_ms)
        topics.put_subscription(asked_again)
        return asked_again
    # The owner of the topic has asked for it, and now the owner of the queue has subscribed.
    confirmed: Subscription = msgspec.structs.replace(
        present,
        state=SubscriptionState.CONFIRMED,
        owner=wanted.owner,
        principal=wanted.principal,
        is_authenticated=True,
    )
    topics.put_subscription(confirmed)
    return confirmed


def _check_room(sns: Sns, topics: ShardTopics, topic: Topic, wanted: Subscription) -> None:
    """Raises QuotaReached."""
    limits = sns.limits
    most = limits.fifo_subscriptions_max if topic.name.is_fifo else limits.subscriptions_max
    if message_bytes_max(topic) > MESSAGE_BYTES_MAX:
        most = min(most, LARGE_MESSAGE_SUBSCRIPTIONS_MAX)
    counts = topics.counts(topic.name)
    if sum(counts) >= most:
        raise QuotaReached("subscriptions", most)
    _check_filters(sns, topics, None, wanted)
    sns.check_room(topics, None, wanted)


def _check_filters(sns: Sns, topics: ShardTopics, present: Subscription | None, wanted: Subscription) -> None:
    """Raises QuotaReached if a new filter is one too many."""
    if POLICY not in wanted.attributes or (present is not None and POLICY in present.attributes):
        return
    if topics.filters_of(wanted.name.topic) >= sns.limits.filters_max:
        raise QuotaReached("filter policies", sns.limits.filters_max)


# -- Unsubscribe -----------------------------------------------------------------------------------------------


async def unsubscribe(sns: Sns, request: UnsubscribeRequest, call: Call) -> None:
    resource: SubscriptionResource = call.resource
    subscription = resource.found
    if subscription is not None:
        _end(sns, resource.topics, subscription, call)
    await resource.topics.settled()


def _end(sns: Sns, topics: ShardTopics, subscription: Subscription, call: Call) -> None:
    """SNS: only what its owner has signed ends a subscription. Otherwise it can be restored for a while."""
    if subscription.state is SubscriptionState.PENDING:
        raise invalid(
            "SubscriptionArn Reason: Cannot unsubscribe a subscription that is pending confirmation"
        )
    if is_signed(call) and call.space.account == subscription.owner:
        topics.remove_subscription(subscription.name)
        return
    if subscription.is_protected and not is_signed(call):
        raise authorization_error("This subscription may only be deleted by an authorized user.")
    if subscription.state is SubscriptionState.CONFIRMED:
        ended: Subscription = msgspec.structs.replace(
            subscription, state=SubscriptionState.DELETED, ended_ms=sns.broker.wall_ms()
        )
        topics.put_subscription(ended)
        topics.send_unsubscribed(ended)


# -- attributes ------------------------------------------------------------------------------------------------


async def get_subscription_attributes(
    sns: Sns, request: GetSubscriptionAttributesRequest, call: Call
) -> GetSubscriptionAttributesResult:
    resource: SubscriptionResource = call.resource
    topics, subscription = resource.topics, resource.subscription
    status = topics.replay_status(subscription.name)
    await topics.settled()
    shown = shown_subscription(subscription, topics.get(subscription.name.topic), status)
    return GetSubscriptionAttributesResult(Attributes=shown)


async def set_subscription_attributes(
    sns: Sns, request: SetSubscriptionAttributesRequest, call: Call
) -> None:
    resource: SubscriptionResource = call.resource
    topics, subscription = resource.topics, resource.subscription
    if request.AttributeName is None:
        raise no_value("AttributeName")
    given = {request.AttributeName: request.AttributeValue or ""}
    topic = topics.find(subscription.name.topic)
    changed = with_attributes(subscription, given, topic, sns.broker.wall_ms())
    _check_filters(sns, topics, subscription, changed)
    sns.check_room(topics, subscription, changed)
    topics.put_subscription(changed)
    await topics.settled()


# -- lists -----------------------------------------------------------------------------------------------------


async def list_subscriptions(
    sns: Sns, request: ListSubscriptionsRequest, call: Call
) -> ListSubscriptionsResult:
    after = read_token(request.NextToken, "subscriptions")
    found = await sns.broker.ask(SubscriptionsQuestion(call.space, after, PAGE_SIZE + 1))
    page, token = _page(found, "subscriptions")
    return ListSubscriptionsResult(Subscriptions=page, NextToken=token)


async def list_subscriptions_by_topic(
    sns: Sns, request: ListSubscriptionsByTopicRequest, call: Call
) -> ListSubscriptionsByTopicResult:
    resource: TopicResource = call.resource
    topic = resource.topic.name
    after = read_token(request.NextToken, topic.arn)
    found = resource.topics.subscriptions_of(topic, after, PAGE_SIZE + 1)
    await resource.topics.settled()
    page, token = _page(found, topic.arn)
    return ListSubscriptionsByTopicResult(Subscriptions=page, NextToken=token)


def _page(found: list[Subscription], listed: str) -> tuple[list[ListedSubscription], str | None]:
    page = found[:PAGE_SIZE]
    token = write_token(listed, page[-1].name.arn) if len(found) > PAGE_SIZE else None
    return [_listed(each) for each in page], token


def _listed(subscription: Subscription) -> ListedSubscription:
    return ListedSubscription(
        TopicArn=subscription.name.topic.arn,
        Protocol=subscription.protocol,
        SubscriptionArn=_LISTED.get(subscription.state, subscription.name.arn),
        Owner=subscription.owner,
        Endpoint=shown_endpoint(subscription),
    )
