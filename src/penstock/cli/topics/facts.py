"""What is known about topics and their subscriptions, and how they are found by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from penstock.cli.failure import Breakdown
from penstock.cli.groups import did_you_mean
from penstock.cli.queues.facts import queue_arn
from penstock.cli.target import Target
from penstock.client.api import ApiError, ApiSession, Json, Unavailable
from penstock.client.credentials import PLACEHOLDER_KEYS
from penstock.client.queue_names import queue_name
from penstock.client.topic_names import Subscriber, is_arn, topic_name

_PAGE = 1000
_STATES = {"PendingConfirmation": "pending", "Deleted": "deleted"}  # in place of an ARN


def list_topics(target: Target, prefix: str = "", page: int | None = None) -> Iterator[Json]:
    """All topics; Penstock tells how many subscriptions each has. ``page``: how many are needed."""
    if target.uses_admin:
        query: Json = {"prefix": prefix or None, "limit": min(page or _PAGE, _PAGE)}
        try:
            yield from target.admin_pages("/topics", "topics", query)
            return
        except ApiError as error:
            if not error.is_denied or not target.endpoint.has_keys:
                raise
            target.uses_admin = False
            target.out.note(f"Showing what SNS tells, without counts. {error.message}")
    for arn in topic_arns(target):
        name = topic_name(arn)
        if name.startswith(prefix):
            yield {"name": name, "arn": arn, "kind": "fifo" if name.endswith(".fifo") else "standard"}


def topic_arns(target: Target) -> Iterator[str]:
    return (topic["TopicArn"] for topic in sns_pages(target, "ListTopics", "Topics"))


def sns_pages(target: Target, action: str, member: str, **members: Any) -> Iterator[Json]:
    """The elements of all pages of a list of SNS."""
    token = None
    while True:
        page = target.sns(action, **members, NextToken=token)
        yield from page.get(member) or ()
        token = page.get("NextToken")
        if token is None:
            return


def topic_arn(target: Target, topic: str) -> str:
    """Returns the ARN of a topic given by name or ARN. SNS finds no topic by its name, but all topics of an account
    in a region have ARNs that begin alike."""
    if is_arn(topic):
        return topic
    try:
        listed = target.sns("ListTopics").get("Topics") or []
    except ApiError as error:
        if error.is_denied:
            raise Breakdown(f'{error} Without ListTopics, give the ARN of "{topic}".') from None
        raise
    if not listed:
        raise no_topic(target, topic)
    return f"{listed[0]['TopicArn'].rpartition(':')[0]}:{topic}"


def about_topic(target: Target, action: str, topic: str, arn: str | None = None, **members: Any) -> Json:
    """Perform an action on a topic given by name or ARN. ``arn``: its ARN, if that is known. Raises Breakdown if
    there is no such topic."""
    try:
        return target.sns(action, TopicArn=arn or topic_arn(target, topic), **members)
    except ApiError as error:
        if error.is_missing_topic:
            raise no_topic(target, topic) from None
        raise


def check_topic(target: Target, topic: str, arn: str | None = None) -> None:
    """Raises Breakdown if there is no such topic, as far as the user may look. ``arn``: its ARN, if that is known."""
    try:
        about_topic(target, "GetTopicAttributes", topic, arn)
    except ApiError as error:
        if not error.is_denied:
            raise


def no_topic(target: Target, topic: str) -> Breakdown:
    """Says where it was looked for, and names a topic that is like the missing one."""
    hint = ""
    with suppress(ApiError, Unavailable):
        hint = did_you_mean(topic_name(topic), [topic_name(arn) for arn in topic_arns(target)])
    return Breakdown(f'there is no topic "{topic}" in {target.endpoint.place}{hint}')


def subscriptions_of(target: Target, topic: str) -> list[Json]:
    """The subscriptions of a topic with what SNS tells about each in its list, and its state."""
    arn = topic_arn(target, topic)
    try:
        listed = list(sns_pages(target, "ListSubscriptionsByTopic", "Subscriptions", TopicArn=arn))
    except ApiError as error:
        if error.is_missing_topic:
            raise no_topic(target, topic) from None
        raise
    return [
        {
            "protocol": each["Protocol"],
            "endpoint": each.get("Endpoint", ""),
            "owner": each.get("Owner", ""),
            "state": _STATES.get(each["SubscriptionArn"], "confirmed"),
            **({"arn": each["SubscriptionArn"]} if is_arn(each["SubscriptionArn"]) else {}),
        }
        for each in listed
    ]


def subscription_facts(target: Target, arn: str) -> dict[str, str]:
    """The attributes of a subscription. Raises Breakdown if there is no such subscription."""
    try:
        return dict(target.sns("GetSubscriptionAttributes", SubscriptionArn=arn).get("Attributes") or {})
    except ApiError as error:
        if error.is_missing_topic:
            raise Breakdown(f'there is no subscription "{arn}" in {target.endpoint.place}') from None
        raise


def unsubscribe_signed(target: Target, arn: str) -> None:
    """End a subscription at once. SNS: without a signature, its endpoint is asked whether it agrees."""
    endpoint = target.endpoint
    if endpoint.credentials is not None:
        target.sns("Unsubscribe", SubscriptionArn=arn)
        return
    region = arn.split(":")[3]
    with closing(ApiSession.of(endpoint._replace(region=region, credentials=PLACEHOLDER_KEYS))) as session:
        session.sns("Unsubscribe", SubscriptionArn=arn)


def endpoint_of(target: Target, subscriber: Subscriber) -> str:
    """The endpoint as SNS takes it: the ARN of a queue that was given by its name. Raises Breakdown if there is no
    such queue."""
    if subscriber.protocol == "sqs":
        return queue_arn(target, subscriber.endpoint)
    return subscriber.endpoint


def subscription_arn(target: Target, topic: str, subscriber: Subscriber | None) -> str:
    """The ARN of a subscription, which is given itself, or as a topic and an endpoint. Raises Breakdown."""
    if subscriber is None:
        if topic.count(":") < 6:
            raise Breakdown(
                f'"{topic}" is not the ARN of a subscription: give one, or a topic and an endpoint'
            )
        return topic
    listed = (each for each in subscriptions_of(target, topic) if each["state"] != "deleted")
    found = [each for each in listed if _is_same(each, subscriber)]
    if not found:
        raise Breakdown(f'{shown_endpoint(*subscriber)} is not subscribed to "{topic_name(topic)}"')
    if "arn" not in found[0]:
        raise Breakdown(
            f"the subscription of {shown_endpoint(*subscriber)} is pending: its endpoint has to confirm it first,"
            ' with the link that was sent to it, or is in "penstock topic outbox" if there is no mail server'
        )
    return str(found[0]["arn"])


def _is_same(subscription: Json, subscriber: Subscriber) -> bool:
    if subscriber.protocol == "sqs" and subscription["protocol"] == "sqs":
        given, found = subscriber.endpoint, str(subscription["endpoint"])
        return given == found if is_arn(given) else queue_name(found) == queue_name(given)
    protocols = {subscriber.protocol, *(("email-json",) if subscriber.protocol == "email" else ())}
    return subscription["protocol"] in protocols and subscription["endpoint"] == subscriber.endpoint


def shown_endpoint(protocol: str, endpoint: str) -> str:
    """Shows an endpoint in the form in which commands take it."""
    match protocol:
        case "sqs":
            return f"queue:{queue_name(endpoint)}"
        case "email" | "email-json":
            return f"mailto:{endpoint}"
        case "sms":
            return f"sms:{endpoint}"
    return endpoint
