"""Which subscribers do not get their messages, and why. This is kept in memory, for people who look into it: what is
stored with each message that waits is in ``waiting.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import msgspec

from penstock.broker.questions import ShardQuestion
from penstock.publishing.dead_letters import LastFailure
from penstock.publishing.delivery_log import shown_endpoint
from penstock.publishing.failed_attempts import FailedAttempt
from penstock.publishing.shard_topics import ShardTopics
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.records import Subscription

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class FailingSubscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topic: str  # ARNs
    subscription: str
    protocol: str
    endpoint: str  # without a password
    attempt: FailedAttempt | None = (
        None  # the last attempt failed; None: it did not, or its endpoint is a queue
    )
    failure: LastFailure | None = None  # the last message that the subscriber did not get


class FailingSubscriptionsQuestion(ShardQuestion[list[FailingSubscription]], frozen=True):
    """The first subscriptions behind an ARN that do not get their messages. ``topic``: None: of all.
    ``subscription``: this one, if a failure is remembered, even if it has got messages since."""

    kind: ClassVar[str] = "failing subscriptions"
    account: str  # of the topics
    most: int
    after: str = ""
    topic: TopicName | None = None
    subscription: SubscriptionName | None = None

    def shards(self, count: int) -> Iterable[int]:
        topic = self.topic if self.subscription is None else self.subscription.topic
        return range(count) if topic is None else (topic.home.shard(count),)

    async def answer(self, partition: Partition) -> list[FailingSubscription]:
        topics = partition.part(ShardTopics)
        arns = _arns(topics) if self.subscription is None else {self.subscription.arn}
        names = filter(None, map(SubscriptionName.of_arn, arns))
        wanted = sorted((each for each in names if self._concerns(each)), key=lambda each: each.arn)
        found = []
        for name in wanted:
            subscription = topics.get_subscription(name)
            if subscription is None:
                continue
            failing = _failing(topics, subscription)
            if failing.attempt is None and failing.failure is None:
                continue
            found.append(failing)
            if len(found) == self.most:
                break
        return found

    def _concerns(self, name: SubscriptionName) -> bool:
        if name.topic.account != self.account or name.arn <= self.after:
            return False
        return self.topic is None or name.topic == self.topic

    def merge(self, answers: list[list[FailingSubscription]]) -> list[FailingSubscription]:
        return sorted(chain.from_iterable(answers), key=lambda each: each.subscription)[: self.most]


def failing_by_topic(topics: ShardTopics) -> Counter[str]:
    """How many subscriptions of each topic have failures that are remembered, by the ARN of the topic."""
    counts: Counter[str] = Counter()
    for arn in _arns(topics):
        name = SubscriptionName.of_arn(arn)
        if name is not None and topics.get_subscription(name) is not None:
            counts[name.topic.arn] += 1
    return counts


def _arns(topics: ShardTopics) -> set[str]:
    return {*topics.deliveries.failed_attempts.subscriptions, *topics.publisher.undelivered.subscriptions}


def _failing(topics: ShardTopics, subscription: Subscription) -> FailingSubscription:
    arn = subscription.name.arn
    return FailingSubscription(
        topic=subscription.name.topic.arn,
        subscription=arn,
        protocol=subscription.protocol,
        endpoint=shown_endpoint(subscription.endpoint),
        attempt=topics.deliveries.failed_attempts.of(arn),
        failure=topics.publisher.undelivered.failure(arn),
    )
