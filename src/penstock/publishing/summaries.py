"""Topics at a glance: how many subscriptions each has, in pages."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, ClassVar

import msgspec

from penstock.broker.questions import ShardQuestion
from penstock.names import Space
from penstock.publishing.deliveries import DELIVERY_KINDS
from penstock.publishing.failing import failing_by_topic
from penstock.publishing.queue_jobs import DEAD_LETTERS, REDELIVERIES
from penstock.publishing.shard_topics import ShardTopics
from penstock.topics.names import TopicName

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

_COUNTED_PER_TURN = 100
_WAITING_KINDS = frozenset(kind.name for kind in (*DELIVERY_KINDS, REDELIVERIES, DEAD_LETTERS))


class TopicSummary(msgspec.Struct, frozen=True, array_like=True):
    name: TopicName
    created_ms: int
    display_name: str
    confirmed: int  # subscriptions
    pending: int
    deleted: int
    waiting: int = (
        0  # messages on their way to endpoints that are no queues, or to queues that did not take them
    )
    failing: int = 0  # subscriptions whose failures are remembered


class TopicSummariesQuestion(ShardQuestion[list[TopicSummary]], frozen=True):
    """The first topics of an account beyond a name, in order of their names."""

    kind: ClassVar[str] = "topic summaries"
    space: Space
    topics_max: int
    prefix: str = ""
    contains: str = ""
    after: str = ""

    async def answer(self, partition: Partition) -> list[TopicSummary]:
        topics = partition.part(ShardTopics)
        await topics.settled()
        found: list[TopicSummary] = []
        waiting, failing = _waiting_by_home(partition), failing_by_topic(topics)
        for number, name in enumerate(islice(self._wanted(topics), self.topics_max), 1):
            if (summary := _summary(topics, name, waiting[name.home.hash], failing[name.arn])) is not None:
                found.append(summary)
            if number % _COUNTED_PER_TURN == 0:
                await partition.turn()
        return found

    def _wanted(self, topics: ShardTopics) -> list[TopicName]:
        names = map(TopicName.of_arn, topics.names(self.space, "", sys.maxsize))
        return sorted(
            name
            for name in names
            if name is not None
            and name.name > self.after
            and name.name.startswith(self.prefix)
            and self.contains in name.name
        )

    def merge(self, answers: list[list[TopicSummary]]) -> list[TopicSummary]:
        return sorted(chain.from_iterable(answers), key=lambda each: each.name)[: self.topics_max]


def _summary(topics: ShardTopics, name: TopicName, waiting: int, failing: int) -> TopicSummary | None:
    """None if the topic was deleted meanwhile."""
    topic = topics.get(name)
    if topic is None:
        return None
    counts = topics.counts(name)
    display_name = topic.attributes.get("DisplayName", "")
    return TopicSummary(
        name,
        topic.created_ms,
        display_name,
        counts.confirmed,
        counts.pending,
        counts.deleted,
        waiting,
        failing,
    )


def _waiting_by_home(partition: Partition) -> Counter[int]:
    """How many jobs of topics are unfinished, by the place where their topic lives."""
    counts: Counter[int] = Counter()
    for jobs in partition.parts.job_queues:
        if jobs.kind.name in _WAITING_KINDS:
            for consumer in jobs.consumers:
                counts[consumer.queue.record.home] += consumer.unfinished
    return counts
