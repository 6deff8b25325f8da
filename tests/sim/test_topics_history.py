"""Random lives of topics with subscribers in three shards, with crashes and faults at any step, and bugs in them.

Whatever happens, nothing that was acknowledged is lost, nothing comes that was not published or not wanted, and each
queue gets a message once. Messages of a FIFO topic come in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from penstock.broker import partition
from penstock.broker.delivery import Refusal
from penstock.broker.handover import QueueTarget
from penstock.broker.outbox import Outbox
from penstock.broker.shard import SETTLED, Commit
from penstock.promise import Promise
from penstock.publishing import live_topic, publisher, shard_topics
from penstock.publishing.dead_letters import Undelivered
from penstock.publishing.live_topic import LiveTopic, TopicRoute
from penstock.publishing.publisher import Published, Publisher
from penstock.publishing.queue_jobs import QueueJobs, QueueMessage, is_temporary
from penstock.publishing.shard_topics import ShardTopics
from penstock.publishing.topic_queue import Admitted, TopicQueues
from penstock.queues.messages import Outgoing
from penstock.store.changes import Changes
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, Topic
from sim.cluster_history import assert_found
from sim.topics_history import (
    ArchiveTopicsHistory,
    CrowdedTopicsHistory,
    FifoTopicsHistory,
    StandardTopicsHistory,
    TopicsHistory,
)
from support.generated import HISTORIES


class TestStandardTopicsHistory(StandardTopicsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestCrowdedTopicsHistory(CrowdedTopicsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestFifoTopicsHistory(FifoTopicsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestArchiveTopicsHistory(ArchiveTopicsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


# -- bugs that the histories must find -----------------------------------------------------------------------


class _NeverWaits:
    """A shard that says at once that everything is durable."""

    def __init__(self, shard: Any) -> None:
        self._shard = shard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shard, name)

    def settled(self) -> Promise[None]:
        return SETTLED


class HastyPublisher(Publisher):
    """Answers before the commit."""

    async def publish(
        self, name: TopicName, publications: Sequence[Publication], base_url: str
    ) -> list[Published]:
        self._shard: Any = _NeverWaits(self._topics._shard)
        return await super().publish(name, publications, base_url)


class ForgetfulQueues(TopicQueues):
    """Remembers deduplication ids in memory only."""

    def admit(
        self, queue: Any, topic: Topic, dedup_id: str, group: str, stored: Callable[[], str]
    ) -> Admitted:
        shard = self._shard
        sent, is_new = queue.rules.admit(dedup_id, group, shard.clock.now_ms(), Changes(0, 0, {}))
        shard.touch(queue)
        return Admitted(sent, is_new)


class RepeatingPublisher(Publisher):
    """Delivers duplicates again, under the number of the first message."""

    def _admit(self, topic: Topic, draft: Any, queue: Any) -> tuple[Published, bool]:
        published, _ = super()._admit(topic, draft, queue)
        return published, True


class CarelessUndelivered(Undelivered):
    """Drops what a queue does not take."""

    def _to_dead_letters(
        self, name: SubscriptionName, subscription: Subscription | None, message: Outgoing, reason: str
    ) -> None:
        self._note(name, reason, "")


class SilentUndelivered(Undelivered):
    """Says nothing of what is lost."""

    def _note(self, name: SubscriptionName, reason: str, went_to: str) -> None:
        """It should be remembered."""


class CarelessQueueJobs(QueueJobs):
    """Forgets dead letters that a queue of another shard does not take for now."""

    def bury(self, message: QueueMessage) -> bool:
        return True


class LinklessRoute(TopicRoute, frozen=True, eq=False):
    """Sends a message without the link that ends the subscription."""

    @classmethod
    def of(cls, subscription: Subscription) -> TopicRoute:
        route = TopicRoute.of(subscription)
        target = route.target and QueueTarget(route.target.queue, route.target.token)
        return msgspec.structs.replace(route, target=target)


class MixedOutbox(Outbox):
    """Gives two queues of a shard the links of each other."""

    def add(self, message: Any, cause: Any, targets: Sequence[QueueTarget], *more: Any, **named: Any) -> Any:
        links = [target.insertion for target in reversed(targets)]
        mixed = [
            QueueTarget(target.queue, target.token, link) for target, link in zip(targets, links, strict=True)
        ]
        return super().add(message, cause, mixed, *more, **named)


class LaxTopics(ShardTopics):
    """Ignores filters when it compiles a topic."""

    def _compile(self, live: LiveTopic, arns: list[str]) -> Any:
        put = live.put
        live.put = lambda each: put(each.with_attribute("FilterPolicy", ""))  # type: ignore[method-assign, assignment]
        yield from super()._compile(live, arns)
        live.put = put  # type: ignore[method-assign]


class StaleTopics(ShardTopics):
    """Does not look whether subscriptions have changed while it compiled them."""

    async def live(self, name: TopicName) -> LiveTopic:
        while (live := self._compiled.get(name)) is None:
            live = LiveTopic(self.find(name))
            arns = list(self._topic_of(name).arns)
            await self._turns.run(self._compile(live, arns), name.account)
            self._compiled[name] = live
        return live


class LatePublisher(Publisher):
    """Adds the jobs of HTTP endpoints when the commit is durable, not with it."""

    def _notify(self, topic: Topic, draft: Any, route: TopicRoute) -> None:
        notify = super()._notify

        def later(commit: Commit) -> None:
            notify(topic, draft, route)

        self._shard.open_commit.when_durable.append(later)


class BackwardPublisher(Publisher):
    """Publishes a batch from its end."""

    async def publish(
        self, name: TopicName, publications: Sequence[Publication], base_url: str
    ) -> list[Published]:
        return (await super().publish(name, publications[::-1], base_url))[::-1]


class StubbornPublisher(Publisher):
    """Tries a message of a FIFO topic again when its queue is full, so that later ones overtake it."""

    def _refused(self, refusal: Refusal) -> None:
        name = SubscriptionName.of_arn(refusal.target.token)
        assert name is not None and refusal.message is not None
        message = QueueMessage.of(name.topic, name.id, refusal.target.queue, refusal.message, refusal.reason)
        if is_temporary(refusal.reason):
            self.queue_jobs.send(message)
        else:
            super()._refused(refusal)


PLANTED: list[tuple[type[TopicsHistory], Any, str, type, str]] = [
    (StandardTopicsHistory, shard_topics, "Publisher", HastyPublisher, "lost"),
    (FifoTopicsHistory, shard_topics, "Publisher", HastyPublisher, "lost|several ids"),
    (FifoTopicsHistory, shard_topics, "TopicQueues", ForgetfulQueues, "several ids|twice"),
    (FifoTopicsHistory, shard_topics, "Publisher", RepeatingPublisher, "twice"),
    (StandardTopicsHistory, publisher, "Undelivered", CarelessUndelivered, "lost"),
    (FifoTopicsHistory, publisher, "Undelivered", CarelessUndelivered, "lost"),
    (StandardTopicsHistory, publisher, "Undelivered", SilentUndelivered, "silently"),
    (StandardTopicsHistory, publisher, "QueueJobs", CarelessQueueJobs, "lost"),
    (StandardTopicsHistory, live_topic, "TopicRoute", LinklessRoute, "link of another"),
    (StandardTopicsHistory, partition, "Outbox", MixedOutbox, "link of another"),
    (StandardTopicsHistory, shard_topics, "ShardTopics", LaxTopics, "not wanted"),
    (StandardTopicsHistory, shard_topics, "ShardTopics", StaleTopics, "lost|not wanted|wrong form"),
    (StandardTopicsHistory, shard_topics, "Publisher", LatePublisher, "lost"),
    (FifoTopicsHistory, shard_topics, "Publisher", BackwardPublisher, "batch is out of order"),
    (FifoTopicsHistory, shard_topics, "Publisher", StubbornPublisher, "out of order|took messages"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "module", "name", "bug", "found"),
    PLANTED,
    ids=[f"{bug.__name__} {history.ending}".strip() for history, _, _, bug, _ in PLANTED],
)
def test_a_planted_bug_is_found(
    history: type[TopicsHistory],
    module: Any,
    name: str,
    bug: type,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, bug)
    assert_found(history, found)
