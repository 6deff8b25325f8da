"""What declared topics come to: each is checked, compared with the one that exists, and created or changed.

A topic and its subscriptions live in one shard, so that the process that owns the shard declares them. Everything is
checked before anything is changed, and what belongs to one shard is one commit. Subscriptions that are no longer
declared stay, as queues do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import msgspec

from penstock.errors import NotOwned
from penstock.names import QueueName, Space, partition_of
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.topics import DeclaredSubscription, DeclaredTopic
from penstock.services.sns.endpoints import PROTOCOLS, check_endpoint, queue_of
from penstock.services.sns.faults import AttributeInvalid, invalid
from penstock.services.sns.structs import Tag, TagResourceRequest
from penstock.services.sns.subscription_attributes import with_attributes as with_subscription_attributes
from penstock.services.sns.topic_attributes import CONTENT_DEDUP
from penstock.services.sns.topic_attributes import with_attributes as with_topic_attributes
from penstock.services.sns.validation import CONSTRAINTS, has_too_many, tag_map
from penstock.topics.names import SubscriptionName, TopicName, is_topic_name
from penstock.topics.records import Subscription, SubscriptionState, Topic
from penstock.wire.service import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.publishing.publishing import Publishing
    from penstock.publishing.shard_topics import ShardTopics

# Endpoints of others are made by clients, or cannot be reached.
_PROTOCOLS = ("sqs", "http", "https", "email", "email-json", "sms")
_NAME_EXPECTED = (
    "expected up to 256 letters, digits, hyphens and underscores; the name of a FIFO topic ends in .fifo"
)


class _SubscriptionPlan(NamedTuple):
    before: Subscription | None
    wanted: Subscription


class _TopicPlan(NamedTuple):
    before: Topic | None
    wanted: Topic
    subscriptions: list[_SubscriptionPlan]

    @property
    def changes(self) -> int:
        """The number of topics and subscriptions that are created or changed."""
        return (self.before != self.wanted) + sum(each.before != each.wanted for each in self.subscriptions)


def check_topics(topics: Sequence[DeclaredTopic], space: Space) -> None:
    """Raises DeclarationError. What exists is not known here."""
    for topic in topics:
        _plan(topic, _name(topic, space), None, 0, "")


def missing_queues(
    topics: Sequence[DeclaredTopic], space: Space, existing: Mapping[QueueName, object]
) -> Iterator[str]:
    """Yields a line for each queue of the account that a subscription names and that does not exist. SNS takes such a
    subscription, because the queue may be created later."""
    for topic in topics:
        for number, subscription in enumerate(topic.subscriptions, 1):
            for queue in subscription.queues(space):
                if queue.space == space and queue not in existing:
                    yield (
                        f'the queue "{queue.name}" of {_path(topic, number)} does not exist and is not declared: its '
                        "messages would be lost"
                    )


async def declare_topics(
    broker: Broker, publishing: Publishing, topics: Sequence[DeclaredTopic], space: Space, base_url: str
) -> int:
    """Create what is missing and change what differs, in the shards of this process: all of a shard in one commit,
    or none. Returns how many topics and subscriptions were created or changed. ``base_url``: with which links in
    messages begin. Raises DeclarationError before anything is changed, or PenstockError."""
    plans: list[tuple[ShardTopics, _TopicPlan]] = []
    for topic in topics:
        name = _name(topic, space)
        try:
            shard = publishing.at(name)
        except NotOwned:
            continue
        plans.append((shard, _plan(topic, name, shard, broker.wall_ms(), base_url)))
    for shard, plan in plans:
        _apply(shard, plan)
    for shard in dict.fromkeys(shard for shard, _ in plans):
        await shard.settled()
    return sum(plan.changes for _, plan in plans)


def _apply(shard: ShardTopics, plan: _TopicPlan) -> None:
    if plan.wanted != plan.before:
        shard.put_topic(plan.wanted)
    for before, wanted in plan.subscriptions:
        if wanted != before:
            shard.put_subscription(wanted)
        # An endpoint that did not answer then gets another link. The owner of an address is asked once.
        if wanted.state is SubscriptionState.PENDING and (
            before is None or PROTOCOLS[wanted.protocol].is_http
        ):
            shard.send_confirmation(wanted)


# -- plans --------------------------------------------------------------------------------------------------------


def _name(topic: DeclaredTopic, space: Space) -> TopicName:
    if not is_topic_name(topic.name):
        raise DeclarationError(f"invalid topic topics.{topic.name}: {_NAME_EXPECTED}")
    return TopicName(space.account, space.region, topic.name)


def _plan(
    topic: DeclaredTopic, name: TopicName, shard: ShardTopics | None, now_ms: int, base_url: str
) -> _TopicPlan:
    """``shard``: where the topic lives; None: it is not known whether it exists. Raises DeclarationError."""
    before = None if shard is None else shard.get(name)
    wanted = _new_topic(name, now_ms) if before is None else before
    with _naming(f"invalid topic topics.{topic.name}"):
        wanted = with_topic_attributes(wanted, topic.attributes, now_ms)
        wanted = _tagged(wanted, topic.tags)
    subscriptions = []
    for number, each in enumerate(topic.subscriptions, 1):
        with _naming(f"invalid subscription {_path(topic, number)}"):
            subscriptions.append(_subscription_plan(each, wanted, shard, now_ms, base_url))
    return _TopicPlan(before, wanted, subscriptions)


def _path(topic: DeclaredTopic, number: int) -> str:
    return f"topics.{topic.name}.subscriptions[{number}]"


@contextmanager
def _naming(what: str) -> Iterator[None]:
    try:
        yield
    except Fault as fault:
        raise DeclarationError(f"{what}: {_plain(fault.message)}") from None
    except AttributeInvalid as error:
        raise DeclarationError(f"{what}: {_plain(str(error))}") from None


def _plain(text: str) -> str:
    """The text of an error of SNS as one line. What the parser of AWS says of itself comes after a line break."""
    return text.removeprefix("Invalid parameter: ").removeprefix("Invalid parameter: ").partition("\n")[0]


def _new_topic(name: TopicName, now_ms: int) -> Topic:
    # SNS: every FIFO topic shows this attribute.
    attributes = {CONTENT_DEDUP: "false"} if name.is_fifo else {}
    return Topic(name=name, created_ms=now_ms, attributes=attributes)


def _tagged(topic: Topic, tags: Mapping[str, str]) -> Topic:
    """Adds tags. Raises Fault if they are invalid."""
    listed = [Tag(Key=key, Value=value) for key, value in tags.items()]
    CONSTRAINTS.check(TagResourceRequest(ResourceArn=topic.name.arn, Tags=listed))
    merged = {**topic.tags, **tag_map(listed)}
    if has_too_many(merged):
        raise invalid("Tags Reason: a topic has at most 50 tags")
    tagged: Topic = msgspec.structs.replace(topic, tags=merged)
    return tagged


def _subscription_plan(
    declared: DeclaredSubscription, topic: Topic, shard: ShardTopics | None, now_ms: int, base_url: str
) -> _SubscriptionPlan:
    """Raises Fault or AttributeInvalid."""
    space, protocol = topic.name.space, declared.subscriber.protocol
    endpoint = declared.endpoint(space)
    if protocol not in _PROTOCOLS:
        raise invalid(f"{protocol} cannot be declared: expected one of {', '.join(_PROTOCOLS)}")
    check_endpoint(topic, protocol, endpoint)
    before = None if shard is None else shard.subscription_to(topic.name, protocol, endpoint)
    wanted = before or _new_subscription(topic.name, protocol, endpoint, now_ms, base_url)
    wanted = with_subscription_attributes(wanted, declared.all_attributes(space), topic, now_ms)
    return _SubscriptionPlan(before, wanted)


def _new_subscription(
    topic: TopicName, protocol: str, endpoint: str, now_ms: int, base_url: str
) -> Subscription:
    queue = queue_of(endpoint) if protocol == "sqs" else None
    is_own = queue is None or queue.account == topic.account
    is_confirmed = PROTOCOLS[protocol].is_confirmed and is_own
    return Subscription(
        name=SubscriptionName(topic, str(uuid4())),
        protocol=protocol,
        endpoint=endpoint,
        owner=topic.account,
        principal=f"arn:{partition_of(topic.region)}:iam::{topic.account}:root",
        created_ms=now_ms,
        state=SubscriptionState.CONFIRMED if is_confirmed else SubscriptionState.PENDING,
        is_authenticated=is_confirmed,
        base_url=base_url,
    )
