"""What the shards are asked about topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from penstock.broker.handover import SentFor
from penstock.broker.questions import ShardQuestion
from penstock.names import Space
from penstock.publishing.shard_topics import PublishAnswer, ShardTopics
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, Topic

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class TopicQuestion(ShardQuestion[Topic | None], frozen=True):
    """A topic; None if it does not exist."""

    kind: ClassVar[str] = "topic"
    name: TopicName

    def shards(self, count: int) -> Iterable[int]:
        return (self.name.home.shard(count),)

    async def answer(self, partition: Partition) -> Topic | None:
        topics = partition.part(ShardTopics)
        found = topics.get(self.name)
        await topics.settled()
        return found


class TopicsQuestion(ShardQuestion[list[str]], frozen=True):
    """The first ARNs of topics of an account beyond one, in order."""

    kind: ClassVar[str] = "topics"
    space: Space
    after: str
    most: int

    async def answer(self, partition: Partition) -> list[str]:
        topics = partition.part(ShardTopics)
        found = topics.names(self.space, self.after, self.most)
        await topics.settled()
        return found

    def merge(self, answers: list[list[str]]) -> list[str]:
        return sorted(chain.from_iterable(answers))[: self.most]


class SubscriptionsQuestion(ShardQuestion[list[Subscription]], frozen=True):
    """The first subscriptions that an account owns beyond an ARN, in order of their ARNs."""

    kind: ClassVar[str] = "subscriptions"
    space: Space
    after: str
    most: int

    async def answer(self, partition: Partition) -> list[Subscription]:
        topics = partition.part(ShardTopics)
        found = topics.owned_by(self.space, self.after, self.most)
        await topics.settled()
        return found

    def merge(self, answers: list[list[Subscription]]) -> list[Subscription]:
        return sorted(chain.from_iterable(answers), key=lambda each: each.name.arn)[: self.most]


class TopicCountQuestion(ShardQuestion[int], frozen=True):
    """How many standard or FIFO topics an account has."""

    kind: ClassVar[str] = "topic count"
    space: Space
    fifo: bool

    async def answer(self, partition: Partition) -> int:
        return partition.part(ShardTopics).count_topics(self.space, fifo=self.fifo)

    def merge(self, answers: list[int]) -> int:
        return sum(answers)


class PublishQuestion(ShardQuestion[PublishAnswer], frozen=True):
    """Publishes a message of another part of the server, such as an alarm. If the answer is lost it may have been
    published: whoever repeats the question publishes it again."""

    kind: ClassVar[str] = "publish"
    waits: ClassVar[bool] = False
    topic: TopicName
    publication: Publication
    sent_for: SentFor
    base_url: str

    def shards(self, count: int) -> Iterable[int]:
        return (self.topic.home.shard(count),)

    async def answer(self, partition: Partition) -> PublishAnswer:
        return await partition.part(ShardTopics).publish_for(
            self.topic, self.publication, self.sent_for, self.base_url
        )
