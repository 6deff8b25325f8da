"""ListFailingSubscriptions and ListRecentMessages: who does not get the messages of a topic, and with which messages
people find out why."""

from __future__ import annotations

from penstock.auth.authorize import Resource
from penstock.errors import DeliveryDenied, TooMuchWork
from penstock.patterns import matching_steps
from penstock.publishing.dead_letters import LastFailure
from penstock.publishing.failed_attempts import FailedAttempt
from penstock.publishing.failing import FailingSubscription, FailingSubscriptionsQuestion
from penstock.publishing.live_topic import BODY_SCOPE, filter_of, subject_of
from penstock.publishing.reasons import shown_reason
from penstock.publishing.recent import Recent
from penstock.publishing.shard_topics import ShardTopics
from penstock.services.admin.faults import admin_fault
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import limit_of, page_token, read_page_token, wall_time
from penstock.services.admin.structs import MessageAttribute
from penstock.services.admin.topic_structs import (
    FailedAttemptInfo,
    FailingRequest,
    FailingResult,
    FailingSubscriptionInfo,
    RecentMessageInfo,
    RecentRequest,
    RecentResult,
    UndeliveredInfo,
)
from penstock.services.admin.topics import named_topic, no_subscription, subscription_named
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.records import Subscription
from penstock.wire.service import Call

_FAILING_DEFAULT, _FAILING_MAX = 100, 1000


class TopicOrSubscription(Resource, kw_only=True):
    """A topic whose messages are shown, or that of a subscription."""

    name: TopicName | None = None
    subscription: SubscriptionName | None = None
    topics: ShardTopics | None = None  # of its shard


def topic_or_subscription(admin: Admin, request: RecentRequest, call: Call) -> TopicOrSubscription:
    """Raises Fault or NotOwned."""
    if (request.topic is None) == (request.subscription is None):
        raise admin_fault("InvalidParameter", "Give either topic or subscription.")
    subscription = None if request.subscription is None else subscription_named(request.subscription, call)
    name = named_topic(request.topic or "", call) if subscription is None else subscription.topic
    return TopicOrSubscription(
        name.arn, name.account, name=name, subscription=subscription, topics=admin.publishing.at(name)
    )


async def list_failing_subscriptions(admin: Admin, request: FailingRequest, call: Call) -> FailingResult:
    """Subscriptions that did not get a message, or whose last attempt failed; in pages."""
    limit = limit_of(request.limit, _FAILING_DEFAULT, _FAILING_MAX)
    after = "" if request.after is None else read_page_token(request.after, str)
    topic = None if request.topic is None else named_topic(request.topic, call)
    subscription = None if request.subscription is None else subscription_named(request.subscription, call)
    # One more than a page, to see whether there is another one.
    found = await admin.broker.ask(
        FailingSubscriptionsQuestion(call.space.account, limit + 1, after, topic, subscription)
    )
    page = found[:limit]
    following = page_token(page[-1].subscription) if len(found) > limit else None
    return FailingResult(subscriptions=[_failing_info(each) for each in page], next=following)


def _failing_info(failing: FailingSubscription) -> FailingSubscriptionInfo:
    return FailingSubscriptionInfo(
        topic=failing.topic,
        subscription=failing.subscription,
        protocol=failing.protocol,
        endpoint=failing.endpoint,
        attempt=None if failing.attempt is None else _attempt_info(failing.attempt),
        undelivered=None if failing.failure is None else _undelivered_info(failing.failure),
    )


def _attempt_info(attempt: FailedAttempt) -> FailedAttemptInfo:
    return FailedAttemptInfo(
        at=wall_time(attempt.at_ms),
        reason=attempt.reason,
        number=attempt.number,
        since=wall_time(attempt.since_ms),
    )


def _undelivered_info(failure: LastFailure) -> UndeliveredInfo:
    return UndeliveredInfo(
        at=wall_time(failure.at_ms),
        reason=shown_reason(failure.reason),
        count=failure.count,
        dead_letter_queue=failure.went_to or None,
        is_denied=DeliveryDenied.__name__ in failure.reason or None,
    )


# -- recent messages ----------------------------------------------------------------------------------------------


async def list_recent_messages(admin: Admin, request: RecentRequest, call: Call) -> RecentResult:
    """The last messages of a topic that are remembered, the latest first. For a subscription: as it gets them, and
    whether they pass its filter."""
    resource: TopicOrSubscription = call.resource
    assert resource.name is not None and resource.topics is not None
    topics, subscription = resource.topics, None
    if topics.get(resource.name) is None:
        raise admin_fault("TopicDoesNotExist", "The topic does not exist in this account and region.")
    if resource.subscription is not None:
        subscription = topics.get_subscription(resource.subscription)
        if subscription is None:
            raise no_subscription()
    recent = topics.publisher.recent.of(resource.name)
    return RecentResult(messages=[await _recent_info(admin, each, subscription, call) for each in recent])


async def _recent_info(
    admin: Admin, recent: Recent, subscription: Subscription | None, call: Call
) -> RecentMessageInfo:
    publication = recent.publication
    return RecentMessageInfo(
        id=recent.id,
        published_at=wall_time(recent.published_ms),
        body=publication.message if subscription is None else publication.text_for(subscription.protocol),
        attributes={
            name: MessageAttribute(type=type, value=value)
            for name, (type, value) in recent.attributes.items()
        },
        subject=publication.subject,
        group=publication.group,
        passes=None if subscription is None else await _passes(admin, recent, subscription, call),
    )


async def _passes(admin: Admin, recent: Recent, subscription: Subscription, call: Call) -> bool:
    found = filter_of(subscription)
    if found is None:
        return True
    scope, pattern = found
    text = recent.publication.text_for(subscription.protocol) if scope == BODY_SCOPE else ""
    subject = subject_of(scope, text, recent.publication)
    if subject.problem is not None:
        return False
    try:
        return await admin.broker.turns.run(matching_steps(pattern, subject), call.space.account)
    except TooMuchWork:  # publishing filters it out for the same reason
        return False
