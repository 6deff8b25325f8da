"""What the handlers of SNS need, and what a request acts on: a topic, a subscription of one.

On a secured server a topic that does not exist is a resource like any other, so that authorization comes before the
answer that it does not exist. On an open server the topics of other accounts do not exist. Actions on subscriptions
are authorized on the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.auth.authorize import Resource
from penstock.broker.encryption import KeyGuard, NoGuard
from penstock.errors import QuotaReached
from penstock.publishing.errors import SubscriptionMissing, TopicMissing
from penstock.publishing.stored_bytes import bytes_of
from penstock.services.sns.faults import invalid, no_value, sns_fault
from penstock.services.sns.limits import ENDPOINT_LENGTH_MAX, PROTOCOL_LENGTH_MAX, SnsLimits
from penstock.services.sns.mobile_records import MOBILE_QUESTIONS, ShardMobile
from penstock.services.sns.outbox import UnsentAddition
from penstock.services.sns.structs import (
    ConfirmSubscriptionRequest,
    OnSubscription,
    OnTopic,
    SubscribeRequest,
    UnsubscribeRequest,
)
from penstock.services.sns.validation import is_signed, subscription_name, topic_name
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.records import Subscription, Topic
from penstock.topics.tokens import token_home
from penstock.wire.service import Action, Call

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.publishing.publishing import Publishing
    from penstock.publishing.shard_topics import ShardTopics

NOTHING: Mapping[str, Any] = MappingProxyType({})

Stored = Topic | Subscription


class Sns:
    """What the handlers need."""

    def __init__(
        self,
        publishing: Publishing,
        broker: Broker,
        actions: Mapping[str, Action],
        keys: KeyGuard | None = None,
        limits: SnsLimits | None = None,
    ) -> None:
        """Must be made before the first shard of the broker is opened. ``actions``: the rows, for handlers that need
        further permissions. ``keys``: guards the keys that topics name."""
        self.publishing = publishing
        self.broker = broker
        self.actions = actions
        self.keys = keys or NoGuard()
        self.limits = limits or SnsLimits()
        broker.extend(
            lambda partition: ShardMobile(partition, self.limits), (*MOBILE_QUESTIONS, UnsentAddition)
        )

    def check_room(self, topics: ShardTopics, before: Stored | None, after: Stored) -> None:
        """Raise QuotaReached if a topic or subscription would make an account have too many bytes."""
        most = self.limits.topic_bytes_max
        account = after.name.account if isinstance(after, Topic) else after.owner
        used = topics.stored_bytes(account) - (0 if before is None else bytes_of(before))
        more = bytes_of(after)
        # What becomes smaller always fits.
        if used + more > most and (before is None or more > bytes_of(before)):
            raise QuotaReached("bytes of topics and subscriptions", most)

    def mobile(self, account: str) -> ShardMobile:
        """Where the platform applications and phone numbers of an account are. Raises NotOwned."""
        partition = self.broker.partition(ShardMobile.home(account).shard(self.broker.shards))
        partition.shard.check_not_ended()
        return partition.part(ShardMobile)


class TopicResource(Resource, kw_only=True):
    name: TopicName
    topics: ShardTopics  # of its shard

    @property
    def topic(self) -> Topic:
        """Raises TopicMissing."""
        return self.topics.find(self.name)


class SubscriptionResource(Resource, kw_only=True):
    """A subscription, which is authorized as its topic."""

    name: SubscriptionName
    topics: ShardTopics

    @property
    def found(self) -> Subscription | None:
        return self.topics.get_subscription(self.name)

    @property
    def subscription(self) -> Subscription:
        """Raises SubscriptionMissing."""
        return self.topics.find_subscription(self.name)


def all_topics(sns: Sns, request: Any, call: Call) -> Resource:
    return Resource(TopicName(call.space.account, call.space.region, "*").arn, call.space.account)


def topic_resource(
    sns: Sns,
    name: TopicName,
    call: Call,
    *,
    request_tags: Mapping[str, str] = NOTHING,
    tag_keys: tuple[str, ...] = (),
    keys: Mapping[str, str] = NOTHING,
) -> TopicResource:
    """Raises TopicMissing or NotOwned."""
    if call.principal is None and name.account != call.space.account:
        raise TopicMissing
    topics = sns.publishing.at(name)
    topic = topics.get(name)
    return TopicResource(
        name.arn,
        name.account,
        # The policy of a topic that has none of its own allows nothing to those who call.
        None if topic is None else topic.attributes.get("Policy"),
        NOTHING if topic is None else topic.tags,
        request_tags,
        tag_keys,
        keys,
        name=name,
        topics=topics,
    )


def topic_of_arn(sns: Sns, request: OnTopic, call: Call) -> TopicResource:
    """The resource of every action whose request has a TopicArn. Raises Fault, TopicMissing or NotOwned."""
    return topic_resource(sns, topic_name(request.TopicArn, call), call)


def topic_to_subscribe(sns: Sns, request: SubscribeRequest, call: Call) -> TopicResource:
    name = topic_name(request.TopicArn, call)
    protocol, endpoint = request.Protocol, request.Endpoint or ""
    if protocol is None:
        raise no_value("Protocol")
    if len(protocol) > PROTOCOL_LENGTH_MAX:
        raise unknown_protocol(protocol)
    if len(endpoint) > ENDPOINT_LENGTH_MAX:
        raise invalid("Endpoint")
    keys = {"sns:protocol": protocol, "sns:endpoint": endpoint}
    return topic_resource(sns, name, call, keys=keys)


def unknown_protocol(protocol: str) -> Exception:
    return invalid(f"Amazon SNS does not support this protocol string: {protocol}")


# -- subscriptions -----------------------------------------------------------------------------------------------


def subscription_of_arn(sns: Sns, request: OnSubscription, call: Call) -> SubscriptionResource:
    """A subscription for those who read and change its attributes: it is its subscriber's."""
    name = subscription_name(request.SubscriptionArn, call)
    topics = sns.publishing.at(name.topic)
    subscription = topics.get_subscription(name)
    owner = name.topic.account if subscription is None else subscription.owner
    if call.principal is None and owner != call.space.account:
        raise SubscriptionMissing
    return SubscriptionResource(name.topic.arn, owner, name=name, topics=topics)


def subscription_to_end(sns: Sns, request: UnsubscribeRequest, call: Call) -> SubscriptionResource:
    """SNS: the subscriber and the owner of the topic may unsubscribe, and whoever follows the link in a message."""
    name = subscription_name(request.SubscriptionArn, call)
    topics = sns.publishing.at(name.topic)
    subscription = topics.get_subscription(name)
    account, owner = call.space.account, name.topic.account
    if subscription is not None and account != owner:
        owner = subscription.owner
    if call.principal is None and is_signed(call) and account != owner:
        raise SubscriptionMissing
    return SubscriptionResource(name.topic.arn, owner, name=name, topics=topics)


def subscription_of_token(sns: Sns, request: ConfirmSubscriptionRequest, call: Call) -> SubscriptionResource:
    """SNS: the token alone decides, whichever topic is named. Who has it was sent it, so that no policy of the topic
    is asked."""
    try:
        topic_name(request.TopicArn, call)
    except Exception:
        raise invalid("Topic") from None
    if request.Token is None:
        raise no_value("Token")
    home = token_home(request.Token)
    if home is None:
        raise sns_fault("InvalidParameterException", "Invalid token")
    topics = sns.publishing.at_home(home)
    name = topics.subscription_of_token(request.Token)
    return SubscriptionResource(name.topic.arn, call.space.account, name=name, topics=topics)
