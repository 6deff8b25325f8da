"""A broker of several shards with topics, on simulated time. Stores are real; they can refuse, fail and crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.handover import SentFor
from penstock.broker.live_queue import LiveQueue
from penstock.limits import Limits
from penstock.monitoring.monitoring import Monitoring
from penstock.names import QueueName, Space
from penstock.publishing.namespace import NAMESPACE
from penstock.publishing.publisher import Published
from penstock.publishing.publishing import Publishing
from penstock.publishing.shard_topics import ShardTopics
from penstock.publishing.signing import Signer
from penstock.queues.messages import Attribute
from penstock.services.cloudwatch import CloudWatchTexts
from penstock.testing.runtime import SimulatedRuntime
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, SubscriptionState, Topic
from publishing.endpoints import FakeEndpoints
from support.shards import SHARDS, ShardsWorld
from support.world import ROOMY, name_of

BASE_URL = "http://localhost:9324"
NEWS = "news"


class PublishingWorld(ShardsWorld):
    def __init__(
        self,
        limits: Limits = ROOMY,
        choose: Callable[[int], int] = lambda choices: 0,
        shards: int = SHARDS,
        may_deliver: Callable[[LiveQueue, SentFor], bool] | None = None,
    ) -> None:
        self.may_deliver = may_deliver
        self.endpoints = FakeEndpoints()
        super().__init__(limits, choose, shards)

    def _open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.broker = Broker(self.limits, self.shards, clock=self.clock, may_deliver=self.may_deliver)
        # Topics count their metrics there.
        Monitoring(self.broker, CloudWatchTexts(is_secured=False), _no_post, _no_publish, [NAMESPACE])
        signer = Signer(self.broker)
        self.publishing = Publishing(self.broker, self.endpoints.made(signer), signer, lambda: BASE_URL)
        self.stores = {}
        for index in range(self.shards):
            self.open_shard(index)

    # -- topics --------------------------------------------------------------------------------------------------

    def topics(self, topic: TopicName) -> ShardTopics:
        return self.publishing.at(topic)

    def topic(self, short: str = NEWS, **attributes: str) -> TopicName:
        queue = name_of("any")
        name = TopicName(queue.account, queue.region, short)
        topics = self.topics(name)
        topics.put_topic(Topic(name=name, created_ms=self.clock.wall_ms(), attributes=attributes))
        self.do(topics.settled())
        return name

    def subscribe(
        self,
        topic: TopicName,
        endpoint: str,
        protocol: str = "sqs",
        state: SubscriptionState = SubscriptionState.CONFIRMED,
        **attributes: str,
    ) -> Subscription:
        """``endpoint``: the short name of a queue, or what the protocol has."""
        topics = self.topics(topic)
        number = sum(topics.counts(topic))
        id = f"00000000-0000-4000-8000-{number:012d}"
        subscription = Subscription(
            name=SubscriptionName(topic, id),
            protocol=protocol,
            endpoint=name_of(endpoint).arn if protocol == "sqs" else endpoint,
            owner=topic.account,
            created_ms=self.clock.wall_ms(),
            state=state,
            base_url=BASE_URL,
            attributes=attributes,
        )
        topics.put_subscription(subscription)
        self.do(topics.settled())
        return subscription

    def publish(self, topic: TopicName, message: str, **more: Any) -> Published:
        (published,) = self.publish_all(topic, publication(message, **more))
        return published

    def publish_all(self, topic: TopicName, *publications: Publication) -> list[Published]:
        topics = self.topics(topic)
        return self.do(topics.publish(topics.find(topic), publications, BASE_URL))

    # -- queues --------------------------------------------------------------------------------------------------

    def queues(self, ending: str = "") -> list[str]:
        """A queue of each shard."""
        names = [self.name(f"q{shard}-", shard, ending) for shard in range(self.shards)]
        for short in names:
            self.create(short)
        return names

    def taken(self, short: str) -> list[str]:
        """All bodies in a queue, in order. They are deleted."""
        bodies: list[str] = []
        while found := self.receive(short):
            bodies += [message.content.body for message in found]
            self.delete(short, *found)
        return bodies

    def texts(self, short: str) -> list[str]:
        """The texts of the envelopes in a queue, in order. They are deleted."""
        return [json.loads(body)["Message"] for body in self.taken(short)]

    def metrics(self, topic: TopicName) -> dict[str, float]:
        """How often each metric of a topic was counted, with its values added up."""
        gathered: dict[str, float] = {}
        for partition in self.broker.partitions:
            measured = partition.part(_measured())
            for (space, _, name, dimensions), datum in measured._gathered.items():
                if space == topic.space and dimensions == (("TopicName", topic.name),):
                    gathered[name] = gathered.get(name, 0) + datum.bucket.sum
        return gathered


def _measured() -> type[Any]:
    from penstock.monitoring.measured import MeasuredMetrics

    return MeasuredMetrics


def publication(message: str, **more: Any) -> Publication:
    attributes = more.pop("attributes", None)
    if attributes is not None:
        attributes = {
            name: each if isinstance(each, Attribute) else Attribute("String", each)
            for name, each in attributes.items()
        }
    return Publication(message=message, attributes=attributes, **more)


def queue_name(short: str) -> QueueName:
    return name_of(short)


def space() -> Space:
    return name_of("any").space


async def _no_post(account: str, url: str, body: str) -> None:
    raise AssertionError("there are no alarms")


async def _no_publish(topic: str, alarm: str, account: str, subject: str, body: str) -> None:
    raise AssertionError("there are no alarms")
