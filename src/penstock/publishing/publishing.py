"""The topics of all shards of a process: the one object that services call.

A topic lives in one shard. If another process owns it, NotOwned is raised, always before anything was decided, so
that the request can be passed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.broker.handover import SentFor
from penstock.broker.questions import ShardQuestion
from penstock.errors import JobFailed, NotOwned, StoreError
from penstock.names import Home
from penstock.publishing.failing import FailingSubscriptionsQuestion
from penstock.publishing.live_topic import TopicRoute
from penstock.publishing.publisher import Published
from penstock.publishing.questions import (
    PublishQuestion,
    SubscriptionsQuestion,
    TopicCountQuestion,
    TopicQuestion,
    TopicsQuestion,
)
from penstock.publishing.replay import REPLAYS
from penstock.publishing.shard_topics import ShardPublishing, ShardTopics
from penstock.publishing.signing import SIGNING_KEYS
from penstock.publishing.summaries import TopicSummariesQuestion
from penstock.publishing.unsent import UNSENT, UnsentDeletion, UnsentQuestion
from penstock.publishing.waiting import WaitingDeliveriesQuestion
from penstock.store.changes import RecordKind
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import SUBSCRIPTIONS, TOPICS, Topic

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.publishing.deliveries import Endpoints
    from penstock.publishing.signing import Signer


KINDS: tuple[RecordKind[Any], ...] = (TOPICS, SUBSCRIPTIONS, REPLAYS, UNSENT, SIGNING_KEYS)
"""All kinds of records."""

MayPublish = Callable[[Topic, SentFor], bool]
"""Whether the policy of a topic lets a service publish to it."""

Watcher = Callable[[Topic, Publication, Published, Sequence[TopicRoute]], None]
"""Called with a message that is published, before it is durable, and the subscriptions that filters chose."""


class Publishing:
    def __init__(
        self,
        broker: Broker,
        endpoints: Endpoints,
        signer: Signer,
        base_url: Callable[[], str],
        may_publish: MayPublish | None = None,
    ) -> None:
        """This must be constructed before the first shard of the broker is opened. ``base_url``: with which links
        begin in messages that no client publishes. ``may_publish``: without, no policies are enforced."""
        self.endpoints = endpoints
        self.signer = signer
        self.turns = broker.turns
        self.may_publish = may_publish
        self.watchers: list[Watcher] = []
        self._base_url = base_url
        self._broker = broker
        questions: list[type[ShardQuestion[Any]]] = [
            TopicsQuestion, SubscriptionsQuestion, TopicCountQuestion, PublishQuestion, WaitingDeliveriesQuestion,
            UnsentQuestion, UnsentDeletion, TopicSummariesQuestion, TopicQuestion, FailingSubscriptionsQuestion,
        ]  # fmt: skip
        broker.extend(lambda partition: ShardPublishing(partition, self), questions)

    def at(self, name: TopicName) -> ShardTopics:
        """Where a topic lives. Raises NotOwned."""
        return self.at_home(name.home)

    def at_home(self, home: Home) -> ShardTopics:
        """Raises NotOwned."""
        partition = self._broker.partition(home.shard(self._broker.shards))
        partition.shard.check_not_ended()
        return partition.part(ShardTopics)

    async def publish_for(self, name: TopicName, publication: Publication, source: SentFor) -> None:
        """Publish a message of another service of the server, wherever the topic lives. It may be published twice if
        the process that owns the topic dies. Raises JobFailed."""
        question = PublishQuestion(name, publication, source, self._base_url())
        try:
            answer = await self._broker.ask(question)
        except (StoreError, NotOwned) as error:
            raise JobFailed(f"the topic cannot be reached: {error}", can_repeat=True) from None
        if answer.refused:
            raise JobFailed(answer.refused, can_repeat=answer.can_repeat)
