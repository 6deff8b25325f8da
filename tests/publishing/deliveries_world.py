"""Shards with deliveries of topics and nothing else of topics: endpoints answer as a test says."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any

import msgspec

from penstock.broker.broker import Broker
from penstock.monitoring.monitoring import Monitoring
from penstock.promise import Promise
from penstock.publishing.deliveries import Deliveries, Endpoints
from penstock.publishing.email_delivery import MailFailed, MailServer
from penstock.publishing.http_delivery import HttpAnswer, HttpMessage
from penstock.publishing.namespace import NAMESPACE, TopicMetrics
from penstock.publishing.signing import Protection, Signer
from penstock.publishing.unsent import UnsentDeletion, UnsentQuestion
from penstock.publishing.waiting import WaitingDeliveriesQuestion
from penstock.services import cloudwatch
from penstock.testing.runtime import SimulatedRuntime
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Notice
from penstock.topics.records import Subscription, SubscriptionState, Topic
from support.shards import ShardsWorld
from support.world import ROOMY

ACCOUNT, REGION = "000000000000", "eu-west-1"
BASE = "http://localhost:9324"
OK = HttpAnswer(200, "OK")
SERVER = MailServer.parse("smtp://mail.example.com", "topics@example.com")


class FakeHttp:
    """Endpoints that answer with what a test has put there, the last one again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[HttpAnswer]] = {}
        self.hanging: dict[str, Promise[None]] = {}
        self.posted: list[tuple[str, HttpMessage]] = []
        self.times_ms: list[int] = []
        self.now_ms: Callable[[], int] = lambda: 0
        self.under_way = 0
        self.under_way_max = 0

    async def may_subscribe(self, account: str, endpoint: str) -> bool:
        return "forbidden" not in endpoint

    async def post(self, account: str, endpoint: str, message: HttpMessage) -> HttpAnswer:
        self.posted.append((endpoint, message))
        self.times_ms.append(self.now_ms())
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        if endpoint in self.hanging:
            await self.hanging[endpoint]
        self.under_way -= 1
        answers = self.answers.get(endpoint, [OK])
        return answers.pop(0) if len(answers) > 1 else answers[0]


class FakeMail:
    def __init__(self) -> None:
        self.server: MailServer | None = None
        self.failures: list[MailFailed] = []
        self.sent: list[EmailMessage] = []

    async def send(self, account: str, mail: EmailMessage) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(mail)


class DeliveriesWorld(ShardsWorld):
    def __init__(self, shards: int = 1, protection: Protection | None = None) -> None:
        self.http, self.mail = FakeHttp(), FakeMail()
        self.protection = protection
        self.topics: dict[TopicName, Topic] = {}
        self.subscriptions: dict[SubscriptionName, Subscription] = {}
        self.failed: list[tuple[Notice, str]] = []
        self.number = 0
        super().__init__(ROOMY, shards=shards)
        self.http.now_ms = self.clock.now_ms

    def _open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.broker = Broker(self.limits, self.shards, clock=self.clock)
        self.monitoring = Monitoring(
            self.broker, cloudwatch.CloudWatchTexts(is_secured=False), self._never, self._never, [NAMESPACE]
        )
        self.signer = Signer(self.broker, self.protection)
        self.endpoints = Endpoints(self.http, self.mail, self.signer)
        self.broker.extend(
            lambda partition: Deliveries(
                partition, self.endpoints, self.find, self._failed, TopicMetrics(partition)
            ),
            [UnsentQuestion, UnsentDeletion, WaitingDeliveriesQuestion],
        )
        self.counted: list[tuple[str, float, float]] = []
        self.stores = {}
        for index in range(self.shards):
            self.open_shard(index)

    async def _never(self, *_: Any) -> None:
        raise AssertionError

    def find(self, name: SubscriptionName) -> tuple[Topic, Subscription] | None:
        topic, subscription = self.topics.get(name.topic), self.subscriptions.get(name)
        return None if topic is None or subscription is None else (topic, subscription)

    def _failed(self, notice: Notice, reason: str) -> None:
        self.failed.append((notice, reason))

    # -- topics ----------------------------------------------------------------------------------------------

    def topic(self, name: str = "news", account: str = ACCOUNT, **attributes: str) -> Topic:
        topic = Topic(name=TopicName(account, REGION, name), created_ms=0, attributes=attributes)
        self.topics[topic.name] = topic
        return topic

    def subscribe(
        self,
        topic: Topic,
        endpoint: str = "https://hooks.example.com/a",
        state: SubscriptionState = SubscriptionState.CONFIRMED,
        **attributes: str,
    ) -> Subscription:
        self.number += 1
        protocol = "email" if "@" in endpoint and "://" not in endpoint else endpoint.partition(":")[0]
        subscription = Subscription(
            name=SubscriptionName(topic.name, str(uuid.UUID(int=self.number, version=4))),
            protocol=protocol,
            endpoint=endpoint.removeprefix("sms:"),
            owner=topic.name.account,
            created_ms=0,
            state=state,
            base_url=BASE,
            attributes=attributes,
        )
        self.subscriptions[subscription.name] = subscription
        return subscription

    def change_subscription(self, subscription: Subscription, **changed: Any) -> Subscription:
        changed_one = msgspec.structs.replace(subscription, **changed)
        self.subscriptions[subscription.name] = changed_one
        return changed_one

    # -- deliveries ------------------------------------------------------------------------------------------

    def deliveries(self, topic: Topic) -> Deliveries:
        return self.broker.partition(topic.name.home.shard(self.shards)).part(Deliveries)

    def notice(self, topic: Topic, subscription: Subscription, text: str = "hello", **more: Any) -> Notice:
        self.number += 1
        return Notice(
            message_id=f"00000000-0000-5000-8000-{self.number:012d}",
            topic_arn=topic.name.arn,
            subscription_arn=subscription.name.arn,
            text=text,
            published_ms=self.clock.wall_ms(),
            base_url=BASE,
            **more,
        )

    def notify(self, topic: Topic, subscription: Subscription, text: str = "hello", **more: Any) -> bool:
        """Begun: :meth:`run` or :meth:`advance` goes on with it."""
        notice = self.notice(topic, subscription, text, **more)
        return self.deliveries(topic).notify(topic, subscription, notice)

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.http.posted]

    def posted_bodies(self) -> list[str]:
        return [message.body.decode() for _, message in self.http.posted]

    def ask(self, question: Any) -> Any:
        return self.do(self.broker.ask(question))


class Counted:
    """What is counted from now on, by the name of the metric: each value, as often as it was counted."""

    def __init__(self, monkeypatch: Any) -> None:
        self.values: dict[str, list[float]] = {}

        def add(
            metrics: TopicMetrics, topic: TopicName, metric: str, value: float, count: float = 1.0
        ) -> None:
            self.values.setdefault(metric, []).extend([value] * int(count))

        monkeypatch.setattr(TopicMetrics, "_add", add)
