"""ListTopics, ListWaitingDeliveries and TestFilterPolicy: topics, what waits for their endpoints, and why a message
passes a filter or not."""

from __future__ import annotations

from typing import Any

from penstock.auth.authorize import Resource
from penstock.errors import TooMuchWork
from penstock.names import Space
from penstock.patterns import (
    JsonTextError,
    Outcome,
    PatternError,
    Subject,
    attributes_subject,
    body_subject,
    compile_pattern,
    explaining_steps,
)
from penstock.publishing.questions import TopicQuestion
from penstock.publishing.shard_topics import ShardTopics
from penstock.publishing.summaries import TopicSummariesQuestion, TopicSummary
from penstock.publishing.waiting import WaitingDeliveriesQuestion, WaitingDelivery, WaitingPlace
from penstock.services.admin.faults import admin_fault, invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import choice_of, limit_of, page_token, read_page_token, wall_time
from penstock.services.admin.structs import MessageAttribute
from penstock.services.admin.topic_structs import (
    DeliveriesRequest,
    DeliveriesResult,
    FilterConditionInfo,
    TestFilterRequest,
    TestFilterResult,
    TopicInfo,
    TopicsRequest,
    TopicsResult,
    WaitingDeliveryInfo,
)
from penstock.topics.names import SubscriptionName, TopicName, is_topic_name
from penstock.wire.service import Call

_TOPICS_DEFAULT, _TOPICS_MAX = 100, 1000
_DELIVERIES_DEFAULT, _DELIVERIES_MAX = 100, 1000
_MESSAGE_LENGTH_MAX = 256 * 1024
_ATTRIBUTES, _BODY = _SCOPES = ("MessageAttributes", "MessageBody")


class SubscriptionOfFilter(Resource, kw_only=True):
    """The subscription whose filter is tested; None: the request has a filter of its own."""

    name: SubscriptionName | None = None
    topics: ShardTopics | None = None  # of its shard


def all_topics(admin: Admin, request: Any, call: Call) -> Resource:
    return topics_of(call.space)


def topics_asked_for(admin: Admin, request: DeliveriesRequest, call: Call) -> Resource:
    """The topic that is named, alone or by a subscription; all topics without one. Raises Fault."""
    name = named_topic(request.topic, call) if request.topic is not None else None
    if request.subscription is not None:
        if name is not None:
            raise admin_fault("InvalidParameter", "Give either topic or subscription.")
        name = subscription_named(request.subscription, call).topic
    return topics_of(call.space) if name is None else Resource(name.arn, name.account)


def topics_of(space: Space) -> Resource:
    return Resource(TopicName(space.account, space.region, "*").arn, space.account)


async def topic_in_account(admin: Admin, text: str, call: Call) -> Resource:
    """A topic, by its name or its ARN, with its policy. Raises Fault."""
    name = TopicName.of_arn(text) or named_topic(text, call)
    is_foreign = call.principal is None and name.account != call.space.account
    topic = None if is_foreign else await admin.broker.ask(TopicQuestion(name))
    if topic is None:
        return Resource(name.arn, name.account)
    return Resource(name.arn, name.account, topic.attributes.get("Policy"), topic.tags)


async def list_topics(admin: Admin, request: TopicsRequest, call: Call) -> TopicsResult:
    """Topics with the number of their subscriptions; in order of their names, in pages."""
    limit = limit_of(request.limit, _TOPICS_DEFAULT, _TOPICS_MAX)
    after = "" if request.after is None else read_page_token(request.after, str)
    # One more than a page, to see whether there is another one.
    question = TopicSummariesQuestion(
        call.space, limit + 1, request.prefix or "", request.contains or "", after
    )
    found = await admin.broker.ask(question)
    page = found[:limit]
    following = page_token(page[-1].name.name) if len(found) > limit else None
    return TopicsResult(topics=[_topic_info(each) for each in page], next=following)


def _topic_info(summary: TopicSummary) -> TopicInfo:
    name = summary.name
    return TopicInfo(
        name=name.name,
        account=name.account,
        region=name.region,
        arn=name.arn,
        kind="fifo" if name.is_fifo else "standard",
        confirmed=summary.confirmed,
        pending=summary.pending,
        deleted=summary.deleted,
        created_at=wall_time(summary.created_ms),
        display_name=summary.display_name or None,
        waiting=summary.waiting,
        failing=summary.failing,
    )


def named_topic(name: str, call: Call) -> TopicName:
    """Raises Fault."""
    if not is_topic_name(name):
        raise invalid("topic", "the name of a topic")
    return TopicName(call.space.account, call.space.region, name)


def subscription_named(arn: str, call: Call) -> SubscriptionName:
    """Raises Fault."""
    name = SubscriptionName.of_arn(arn)
    if name is None:
        raise invalid("subscription", "the ARN of a subscription")
    if call.principal is None and name.topic.account != call.space.account:
        raise no_subscription()
    return name


async def list_waiting_deliveries(admin: Admin, request: DeliveriesRequest, call: Call) -> DeliveriesResult:
    """What waits for which endpoint, with the attempts so far, the last error and the next try; in pages."""
    limit = limit_of(request.limit, _DELIVERIES_DEFAULT, _DELIVERIES_MAX)
    after = None if request.after is None else WaitingPlace.parse(request.after)
    topic = None
    if request.topic is not None:
        topic = named_topic(request.topic, call)
    if request.subscription is not None:
        topic = subscription_named(request.subscription, call).topic
    # One more than a page, to see whether there is another one.
    question = WaitingDeliveriesQuestion(limit + 1, after, call.space.account, topic, request.subscription)
    found = await admin.broker.ask(question)
    page = found[:limit]
    following = str(page[-1].place) if len(found) > limit else None
    now_ms = admin.broker.wall_ms()
    return DeliveriesResult(deliveries=[_delivery_info(each, now_ms) for each in page], next=following)


def _delivery_info(delivery: WaitingDelivery, now_ms: int) -> WaitingDeliveryInfo:
    return WaitingDeliveryInfo(
        topic=delivery.topic,
        subscription=delivery.subscription,
        protocol=delivery.protocol,
        endpoint=delivery.endpoint,
        message_id=delivery.message_id or None,
        state=delivery.state,
        attempt=delivery.attempts,
        due_ms=delivery.due_ms,
        age_ms=max(0, now_ms - delivery.since_ms),
        last_error=delivery.last_error or None,
    )


# -- filters ------------------------------------------------------------------------------------------------------


def filter_to_test(admin: Admin, request: TestFilterRequest, call: Call) -> SubscriptionOfFilter:
    """Raises Fault or NotOwned."""
    if (request.subscription is None) == (request.policy is None):
        raise admin_fault("InvalidParameter", "Give either policy or subscription.")
    if request.subscription is None:
        everything = topics_of(call.space)
        return SubscriptionOfFilter(everything.arn, everything.account)
    if request.scope is not None:
        raise invalid("subscription", "the ARN of a subscription, without a scope")
    name = subscription_named(request.subscription, call)
    return SubscriptionOfFilter(
        name.topic.arn, name.topic.account, name=name, topics=admin.publishing.at(name.topic)
    )


async def test_filter_policy(admin: Admin, request: TestFilterRequest, call: Call) -> TestFilterResult:
    """Say whether a message passes a filter policy, and what each condition finds. Nothing is published."""
    policy, scope = await _policy(request, call.resource)
    if not policy:
        return TestFilterResult(
            matched=True,
            outcome=Outcome.MATCHED.value,
            why="The subscription has no filter policy.",
            conditions=[],
        )
    try:
        pattern = compile_pattern(policy, nested=scope == _BODY)
    except JsonTextError as error:
        raise admin_fault("InvalidParameter", f"The policy is not JSON: {error.reason}") from None
    except PatternError as error:
        raise admin_fault("InvalidParameter", f"The policy cannot be used: {error.reason}") from None
    try:
        steps = explaining_steps(pattern, _subject(request, scope))
        explanation = await admin.broker.turns.run(steps, call.space.account)
    except TooMuchWork:
        raise admin_fault("InvalidParameter", "The message has too many values to compare.") from None
    return TestFilterResult(
        matched=explanation.outcome is Outcome.MATCHED,
        outcome=explanation.outcome.value,
        why=explanation.reason,
        conditions=[
            FilterConditionInfo(
                path=each.path,
                condition=each.condition,
                found=", ".join(each.found),
                passed=each.passed,
                why=each.reason,
            )
            for each in explanation.findings
        ],
    )


async def _policy(request: TestFilterRequest, resource: SubscriptionOfFilter) -> tuple[str, str]:
    """The policy and its scope. Raises Fault."""
    if resource.name is None or resource.topics is None:
        return request.policy or "", choice_of(request.scope, "scope", _SCOPES)
    subscription = resource.topics.get_subscription(resource.name)
    if subscription is None:
        raise no_subscription()
    await resource.topics.settled()
    attributes = subscription.attributes
    return attributes.get("FilterPolicy", ""), attributes.get("FilterPolicyScope", _ATTRIBUTES)


def no_subscription() -> Exception:
    return admin_fault(
        "SubscriptionDoesNotExist", "The subscription does not exist in this account and region."
    )


def _subject(request: TestFilterRequest, scope: str) -> Subject:
    """Raises Fault."""
    texts = [request.body or "", *(each.value for each in (request.attributes or {}).values())]
    if sum(map(len, texts)) > _MESSAGE_LENGTH_MAX:
        raise admin_fault("InvalidParameter", f"A message has at most {_MESSAGE_LENGTH_MAX} characters.")
    if scope == _BODY:
        return body_subject(request.body or "")
    return attributes_subject({name: _typed(each) for name, each in (request.attributes or {}).items()})


def _typed(attribute: MessageAttribute) -> tuple[str, str | None]:
    is_binary = attribute.type.partition(".")[0] == "Binary"
    return attribute.type, None if is_binary else attribute.value
