"""Replays: a subscription of a FIFO topic gets messages of the archive again.

A replay is a job that sends one page of the archive, and makes a job of the next page in the same commit. So a crash
repeats nothing and loses nothing. What a replay sends goes to its subscription only, if that is a queue, passes its
filter, and says that it was replayed. Messages that are published meanwhile are not held back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.broker.inspection import MessageView
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.parts import Part
from penstock.errors import TooMuchWork
from penstock.limits import DAY, SECOND
from penstock.patterns import matching_steps
from penstock.publishing.archive import read_archived
from penstock.publishing.live_topic import BODY_SCOPE, TopicRoute, filter_of, subject_of
from penstock.queues.filters import MessageFilter
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.topics.names import SubscriptionName
from penstock.topics.records import Subscription, SubscriptionState, Topic
from penstock.turns import Steps, Turns

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.publisher import Publisher
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

PENDING, IN_PROGRESS, COMPLETED, FAILED = "Pending", "In progress", "Completed", "Failed"
POLICY = "ReplayPolicy"

_PAGE = 100
_BYTES_PER_PAGE = 4 * 1024 * 1024


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The last replay of a subscription, as it is stored."""

    subscription: SubscriptionName
    id: str  # another replay of the same subscription has another id
    status: str


REPLAYS = RecordKind("topic-replay", Replay, by_home)


class ReplayPage(msgspec.Struct, frozen=True, kw_only=True):
    """A job: the next page of a replay."""

    subscription: SubscriptionName
    id: str
    from_ms: int  # by the wall clock, as all times here
    until_ms: int
    after: str | None = None  # where in the archive the page begins


REPLAY_PAGES = JobKind(
    "topic-replays", ReplayPage, pauses_ms=(SECOND, 10 * SECOND), visibility_ms=30 * SECOND, tries_max=60,
    running_max=2, age_ms_max=7 * DAY,
)  # fmt: skip


class ReplayPolicy(msgspec.Struct):
    """The policy of a subscription, which is valid."""

    StartingPoint: str
    EndingPoint: str | None = None

    @classmethod
    def of(cls, subscription: Subscription) -> ReplayPolicy | None:
        text = subscription.attributes.get(POLICY)
        return _decode_policy(text) if text and text != "{}" else None


_decode_policy = msgspec.json.Decoder(ReplayPolicy).decode


def _wall_ms(text: str) -> int:
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * SECOND)


class Replays(Part):
    """The replays of the topics of one shard."""

    def __init__(self, partition: Partition, topics: ShardTopics, publisher: Publisher, turns: Turns) -> None:
        self._shard = partition.shard
        self._turns = turns
        self._inspection = partition.inspection
        self._delivery = partition.delivery
        self._topics = topics
        self._publisher = publisher
        self._table = partition.shard.table(REPLAYS)
        self._jobs = JobQueues(partition, REPLAY_PAGES, self._send_page, self._give_up)

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return (self._jobs,)

    def start(self) -> None:
        self._jobs.start()

    def stop(self) -> None:
        self._jobs.stop()

    def status(self, name: SubscriptionName) -> str | None:
        """Returns None if the subscription has no replay."""
        replay = self._table.get(_key(name))
        return None if replay is None else replay.status

    # -- with the open commit ----------------------------------------------------------------------------------------

    def changed(self, before: Subscription | None, subscription: Subscription) -> None:
        """A subscription was made or changed: a new policy begins a replay, and without one there is none."""
        policy = ReplayPolicy.of(subscription)
        if policy is None:
            self.removed(subscription.name)
            return
        if before is not None and before.attributes.get(POLICY) == subscription.attributes[POLICY]:
            return
        now_ms, id = self._shard.clock.wall_ms(), str(self._shard.next_number())
        until_ms = now_ms if policy.EndingPoint is None else min(now_ms, _wall_ms(policy.EndingPoint))
        page = ReplayPage(
            subscription=subscription.name, id=id, from_ms=_wall_ms(policy.StartingPoint), until_ms=until_ms
        )
        self._put(subscription.name, id, PENDING if self._add(page) else FAILED)

    def removed(self, name: SubscriptionName) -> None:
        if self._table.get(_key(name)) is not None:
            self._table.remove(_key(name))

    def _put(self, name: SubscriptionName, id: str, status: str) -> None:
        self._table.put(_key(name), Replay(subscription=name, id=id, status=status))

    def _add(self, page: ReplayPage) -> bool:
        topic = page.subscription.topic
        return self._jobs.add(topic.home, topic.space, page.subscription.id, page)

    # -- work --------------------------------------------------------------------------------------------------------

    async def _send_page(self, job: Job[ReplayPage]) -> None:
        page = job.payload
        found = self._still_wanted(page)
        if found is None:
            return
        topic, subscription = found
        queue = self._topics.queues.find(topic.name)
        if queue is None:
            self._end(job, page, COMPLETED)
            return
        await queue.memory.load()
        listed = await self._inspection.list(
            queue, MessageFilter(), after=page.after, limit=_PAGE, size_max=_BYTES_PER_PAGE
        )
        route = TopicRoute.of(subscription)
        passing = await self._turns.run(_passing(subscription, listed.messages), topic.name.account)
        if route.target is not None:
            await self._delivery.prepare([route.target])
        await job.confirm()
        if self._still_wanted(page) is None:
            return
        last_ms = page.from_ms
        for view in listed.messages:
            last_ms = max(last_ms, self._replay(topic, route, page, view, passes=view.row.seq in passing))
        if listed.next is None or last_ms > page.until_ms:
            self._end(job, page, COMPLETED)
            return
        self._put(page.subscription, page.id, IN_PROGRESS)
        if self._add(msgspec.structs.replace(page, after=listed.next)):
            job.done()
        else:
            self._end(job, page, FAILED)

    def _still_wanted(self, page: ReplayPage) -> tuple[Topic, Subscription] | None:
        """The topic and the subscription, unless another replay has taken the place of this one."""
        replay = self._table.get(_key(page.subscription))
        found = self._topics.route_of(page.subscription)
        if (
            replay is None
            or replay.id != page.id
            or found is None
            or found[1].state is not SubscriptionState.CONFIRMED
        ):
            return None
        return found

    def _replay(
        self, topic: Topic, route: TopicRoute, page: ReplayPage, view: MessageView, *, passes: bool
    ) -> int:
        """Send one message again, if it is one of those that are wanted. Returns when it was published."""
        if view.content is None:
            self._count(topic, failed=True)
            return page.from_ms
        archived = read_archived(view.content.body)
        if not page.from_ms <= archived.published_ms <= page.until_ms:
            return archived.published_ms
        if passes:
            # A FIFO queue remembers the id under which it got the message first.
            of = f"{page.subscription.id}\n{page.id}\n{view.content.id}"
            publication = archived.publication(view.row.group, sha256(of.encode()).hexdigest())
            sent = self._publisher.send_again(
                topic, route, publication, archived, view.content.id, view.row.seq
            )
            self._count(topic, failed=not sent)
        return archived.published_ms

    def _count(self, topic: Topic, *, failed: bool) -> None:
        name, metrics = topic.name, self._publisher.metrics
        self._shard.open_commit.when_durable.append(lambda _: metrics.replayed(name, failed=failed))

    def _end(self, job: Job[ReplayPage], page: ReplayPage, status: str) -> None:
        self._put(page.subscription, page.id, status)
        job.done()

    def _give_up(self, job: Job[ReplayPage], reason: str) -> None:
        page = job.payload
        if self._still_wanted(page) is not None:
            self._put(page.subscription, page.id, FAILED)


def _passing(subscription: Subscription, messages: Sequence[MessageView]) -> Steps[set[int]]:
    """The numbers of the messages that pass the filter of a subscription."""
    found, passing = filter_of(subscription), set[int]()
    for view in messages:
        if found is None:
            passing.add(view.row.seq)
        elif view.content is not None:
            scope, pattern = found
            publication = read_archived(view.content.body).publication(None, None)
            text = publication.text_for(subscription.protocol) if scope == BODY_SCOPE else ""
            subject = subject_of(scope, text, publication)
            yield
            try:
                if subject.problem is None and (yield from matching_steps(pattern, subject)):
                    passing.add(view.row.seq)
            except TooMuchWork:
                arn = subscription.name.arn
                log.warning("a replayed message is too complex for the filter of subscription %s", arn)
    return passing


def _key(name: SubscriptionName) -> str:
    return name.topic.home.key(name.arn)
