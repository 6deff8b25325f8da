"""Publishing: who gets a message, and in what form.

A publication goes through four steps. It gets its number and its time. The filters say who gets it. If somebody gets
an envelope it is signed, and the memory of the queues that belong to this shard is loaded. Then everything is decided
at once: queues of this shard get the message with the open commit, queues of other shards through the outbox, and all
other subscribers through jobs. If a subscription changes before the last step, the filters are asked again.

Many queues get one content: it is stored once for each other shard, and only the link that ends a subscription
differs. Messages of a FIFO topic are numbered in the last step, so that their order is the order of the commits.

Of very many subscribers of a standard topic some get the message with further commits, so that no turn of the loop
takes long. The client is answered when all of them are durable."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.broker.delivery import Refusal
from penstock.broker.shard import Commit
from penstock.patterns import Outcome
from penstock.promise import Promise
from penstock.publishing.archive import Archived, archived
from penstock.publishing.dead_letters import Undelivered
from penstock.publishing.deliveries import Deliveries
from penstock.publishing.live_topic import LiveTopic, Matched, TopicRoute
from penstock.publishing.namespace import TopicMetrics
from penstock.publishing.queue_jobs import (
    SENDER,
    TOPIC_SERVICE,
    QueueJobs,
    QueueMessage,
    is_temporary,
    sent_for,
    text_attributes,
)
from penstock.publishing.queue_log import QueueLog, is_logged
from penstock.publishing.recent import Recent, RecentMessages
from penstock.publishing.topic_queue import archive_days
from penstock.queues.deduplication import content_id
from penstock.queues.messages import Outgoing, bytes_sent
from penstock.topics.envelopes import notification_parts
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Notice, Publication
from penstock.topics.records import Topic
from penstock.turns import Steps, finished, in_pieces

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition
    from penstock.publishing.publishing import Publishing
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

_QUEUES_MAX = 1000  # that get a message with one commit; those of other shards cost little
_OF_BATCH_MAX, _OF_BATCH_MIN = 500, 50  # of a batch: all its messages together, and each of them at least
_OTHERS_MAX = (
    20  # for which a copy is stored with that commit: of endpoints, and of queues that refuse the message
)
_SORTED_AT_ONCE = 1000
_RAW_ATTRIBUTES_MAX = 10  # SQS: a message has at most ten attributes
_ARCHIVED_OVERHEAD = 1000  # bytes in the store beside the body of a message, at most
_SEQUENCE_BASE = 10_000_000_000_000_000_000  # SNS: sequence numbers have twenty digits, always


class Published(NamedTuple):
    message_id: str
    sequence: str | None = None  # FIFO topics


class _Draft(msgspec.Struct):
    """A publication on its way to a decision."""

    publication: Publication
    base_url: str
    id: str  # of a FIFO topic, it gets one when it is decided
    published_ms: int
    # By the version of the signature, which the topic may change meanwhile, and the text: a structured message has
    # several.
    signatures: dict[tuple[str, str], str] = {}
    certificate_url: str = ""
    sequence: str | None = None
    is_replayed: bool = False
    refusals: list[Refusal] = []
    """Queues that do not take it, as long as it is not decided what becomes of it."""

    def notice(self, topic: Topic, protocol: str, subscription_arn: str = "") -> Notice:
        """What the subscribers of a protocol are told."""
        publication = self.publication
        text = publication.text_for(protocol)
        return Notice(
            message_id=self.id,
            topic_arn=topic.name.arn,
            subscription_arn=subscription_arn,
            text=text,
            published_ms=self.published_ms,
            base_url=self.base_url,
            subject=publication.subject,
            # SNS: a structured message does not show its number.
            sequence=None if publication.by_protocol is not None else self.sequence,
            attributes=text_attributes(publication.attributes) if publication.attributes else None,
            signature=self.signatures.get((topic.signature_version, text), ""),
            signature_version=topic.signature_version,
            certificate_url=self.certificate_url,
            group=publication.group,
            dedup_id=publication.dedup_id,
            is_replayed=self.is_replayed,
            trace=publication.trace,
        )


class _Recipients(NamedTuple):
    """Who gets a publication, in order of how."""

    matched: Matched
    queues: list[TopicRoute]
    others: list[TopicRoute]
    signed: list[str]  # the protocols of which somebody gets an envelope

    def has_more(self, room: int) -> bool:
        return len(self.queues) > room or len(self.others) > _OTHERS_MAX


def _recipients(matched: Matched) -> Steps[_Recipients]:
    queues: list[TopicRoute] = []
    others: list[TopicRoute] = []
    signed: dict[str, None] = {}
    for routes in in_pieces(matched.routes, _SORTED_AT_ONCE):
        for route in routes:
            (others if route.target is None else queues).append(route)
            if not route.is_raw:
                signed[route.subscription.protocol] = None
        yield
    return _Recipients(matched, queues, others, list(signed))


class Publisher:
    """Publishes to the topics of one shard."""

    def __init__(self, partition: Partition, publishing: Publishing, topics: ShardTopics) -> None:
        self._shard = partition.shard
        self._delivery = partition.delivery
        self._ids = partition.message_ids
        self._signer = publishing.signer
        self._turns = publishing.turns
        self._watchers = publishing.watchers
        self._topics = topics
        self.metrics = TopicMetrics(partition, lambda name: topics.get(name) is not None)
        self.recent = RecentMessages()
        self._log = QueueLog(partition, topics.route_of)
        self.queue_jobs = QueueJobs(
            partition, self._signer, self._delivered_late, self._not_delivered, self._redriven,
            self._log.attempted,
        )  # fmt: skip
        self.undelivered = Undelivered(partition, topics, self.queue_jobs, self.metrics)
        self.deliveries = Deliveries(
            partition, publishing.endpoints, topics.route_of, self.undelivered.notice, self.metrics,
            self.undelivered.succeeded,
        )  # fmt: skip
        self._delivery.on_refused(TOPIC_SERVICE, self._refused)

    async def publish(
        self, name: TopicName, publications: Sequence[Publication], base_url: str
    ) -> list[Published]:
        """Raises TopicMissing, DedupFull, QuotaReached, NotOwned or StoreError."""
        drafts = [self._draft(name, each, base_url) for each in publications]
        room = sys.maxsize if name.is_fifo else _room(len(publications))
        while True:
            live = await self._topics.live(name)
            version = live.version
            matched = [await self._match(live, each) for each in publications]
            queue = await self._topics.queues.ready(live.topic) if name.is_fifo else None
            if queue is None and any(who.signed for who in matched):
                await self._signer.ready()
                await self._turns.run(self._sign(live.topic, drafts, matched), name.account)
            await self._delivery.prepare(
                route.target for who in matched for route in who.queues[:room] if route.target
            )
            if not self._topics.is_current(live) or live.version != version:
                continue  # a subscription has changed meanwhile
            if queue is None or (queue.memory.loaded and not queue.deleted):
                break
        shard = self._shard
        self._check()
        if queue is not None:
            self._topics.queues.check_room(queue, len(drafts))
            self._check_archive(live.topic, drafts)
        self._check_jobs(name, publications, matched)
        published = [
            self._decide(live, draft, who, queue, room) for draft, who in zip(drafts, matched, strict=True)
        ]
        size = sum(_size(each) for each in publications)
        shard.open_commit.when_durable.append(lambda _: self.metrics.published(name, len(publications), size))
        topic = live.topic  # signed as it is now
        # The answer to a duplicate rests on the commit of the first message.
        commits = {shard.settled(): None}
        for draft, who in zip(drafts, matched, strict=True):
            if draft.refusals or who.has_more(room):
                await self._turns.run(self._to_the_others(topic, draft, who, room, commits), name.account)
        for commit in commits:  # the store may refuse one of them, and write those behind it
            await commit
        return published

    # -- before the decision -----------------------------------------------------------------------------------------

    def _draft(self, name: TopicName, publication: Publication, base_url: str) -> _Draft:
        id = "" if name.is_fifo else self._message_id(self._ids(self._shard.next_number()))
        return _Draft(publication, base_url, id, self._shard.clock.wall_ms(), {})

    def _message_id(self, id: str) -> str:
        # SNS: the ids of publications are UUIDs of version 5.
        return f"{id[:14]}5{id[15:]}"

    async def _match(self, live: LiveTopic, publication: Publication) -> _Recipients:
        account = live.topic.name.account
        matched = await self._turns.run(live.match(publication), account)
        steps = _recipients(matched)
        if len(matched.routes) <= _SORTED_AT_ONCE:
            return finished(steps)
        return await self._turns.run(steps, account)

    def _sign(self, topic: Topic, drafts: Sequence[_Draft], matched: Sequence[_Recipients]) -> Steps[None]:
        """Sign the texts that somebody gets in an envelope. A batch of structured messages has dozens of them."""
        version = topic.signature_version
        for draft, who in zip(drafts, matched, strict=True):
            for protocol in who.signed:
                text = draft.publication.text_for(protocol)
                if (version, text) not in draft.signatures:
                    signed = self._signer.signed(draft.notice(topic, protocol), version)
                    draft.signatures[version, text] = signed.signature
                    draft.certificate_url = signed.certificate_url
                    yield

    def _check_archive(self, topic: Topic, drafts: Sequence[_Draft]) -> None:
        """Raises QuotaReached if the archive has no room for all of these: then none is published."""
        if archive_days(topic):
            bodies = (archived(each.publication, each.published_ms, each.base_url) for each in drafts)
            size = sum(len(body.encode()) + _ARCHIVED_OVERHEAD for body in bodies)
            self._delivery.check_jobs(topic.name.account, len(drafts), size)

    def _check_jobs(
        self, name: TopicName, publications: Sequence[Publication], matched: Sequence[_Recipients]
    ) -> None:
        """Raises QuotaReached. Each subscriber that is no queue gets a job with a copy of the message."""
        jobs = sum(len(who.others) for who in matched)
        if jobs:
            size = sum(len(who.others) * _size(each) for each, who in zip(publications, matched, strict=True))
            self._delivery.check_jobs(name.account, jobs, size)

    # -- the decision, in the open commit ----------------------------------------------------------------------------

    def _decide(
        self, live: LiveTopic, draft: _Draft, who: _Recipients, queue: LiveQueue | None, room: int
    ) -> Published:
        """``room``: how many queues get it with this commit."""
        topic = live.topic
        if queue is not None:
            published, is_new = self._admit(topic, draft, queue)
            if not is_new:
                return published
        else:
            published = Published(draft.id)
        delivered = self._to_queues(topic, draft, who.queues[:room])
        for route in who.others[:_OTHERS_MAX]:
            self._notify(topic, draft, route)
        self._refuse(draft, sys.maxsize if queue is not None else _OTHERS_MAX)
        recent = Recent(draft.id, draft.published_ms, draft.publication)
        self._shard.open_commit.when_durable.append(
            partial(self._durable, topic.name, recent, delivered, who.matched.filtered)
        )
        for watcher in self._watchers:
            watcher(topic, draft.publication, published, who.matched.routes)
        return published

    def _to_the_others(
        self, topic: Topic, draft: _Draft, who: _Recipients, room: int, commits: dict[Promise[None], None]
    ) -> Steps[None]:
        """Those who are too many for one commit get the message with the next ones, which are added to ``commits``.
        If one of these is refused, the client is told so, and publishes again what some have got."""
        is_begun = False
        for _ in self._in_steps(topic, draft, who, room):
            if is_begun:  # the open commit has the last step
                commits[self._shard.settled()] = None
            is_begun = True
            yield
        commits[self._shard.settled()] = None

    def _in_steps(self, topic: Topic, draft: _Draft, who: _Recipients, room: int) -> Steps[None]:
        yield from self._refuse_in_steps(draft)
        for some in in_pieces(who.queues[room:], room):
            yield
            self._check()
            delivered = self._to_queues(topic, draft, some)
            count = partial(self._count_delivered, topic.name, delivered)
            self._shard.open_commit.when_durable.append(count)
            yield from self._refuse_in_steps(draft)
        for route in who.others[_OTHERS_MAX:]:
            yield
            self._check()
            if self._topics.get_subscription(route.subscription.name) is not None:
                self._notify(topic, draft, route)

    def _refuse(self, draft: _Draft, most: int) -> None:
        """Decide what becomes of the message for some of the queues that do not take it."""
        some, draft.refusals = draft.refusals[:most], draft.refusals[most:]
        for refusal in some:
            self._refused(refusal)

    def _refuse_in_steps(self, draft: _Draft) -> Steps[None]:
        while draft.refusals:
            yield
            self._check()
            self._refuse(draft, 1)

    def _count_delivered(self, name: TopicName, delivered: int, commit: Commit) -> None:
        self.metrics.delivered(name, delivered)

    def _check(self) -> None:
        """Raises NotOwned or StoreError if nothing can be stored now."""
        self._shard.check_not_ended()
        self._shard.check_owned()
        self._shard.check_sends()

    def _durable(
        self,
        name: TopicName,
        message: Recent,
        delivered: int,
        filtered: Mapping[tuple[str, Outcome], int],
        commit: Commit,
    ) -> None:
        self.recent.add(name, message)
        self.metrics.delivered(name, delivered)
        self.metrics.filtered(name, filtered)

    def _admit(self, topic: Topic, draft: _Draft, queue: LiveQueue) -> tuple[Published, bool]:
        """Number a message of a FIFO topic, if it is not a duplicate."""
        publication = draft.publication
        # SNS: without a deduplication id, the SHA-256 of the message as it was published stands for it.
        dedup_id = publication.dedup_id or content_id(publication.message)
        draft.publication = publication = msgspec.structs.replace(publication, dedup_id=dedup_id)
        assert publication.group is not None, "checked before"
        draft.published_ms = self._shard.clock.wall_ms()  # in the order of the archive
        sent, is_new, size = self._topics.queues.admit(
            queue,
            topic,
            dedup_id,
            publication.group,
            partial(archived, publication, draft.published_ms, draft.base_url),
        )
        if size:
            self._shard.open_commit.when_durable.append(lambda _: self.metrics.archived(topic.name, 1, size))
        assert sent.sequence is not None
        draft.id, draft.sequence = self._message_id(sent.id), str(_SEQUENCE_BASE + sent.sequence)
        return Published(draft.id, draft.sequence), is_new

    def _to_queues(self, topic: Topic, draft: _Draft, routes: Iterable[TopicRoute]) -> int:
        """Returns how many queues got the message, or have it on its way to them. The refusals of the others are
        noted in the draft."""
        forms: dict[tuple[bool, bool], list[TopicRoute]] = {}
        for route in routes:
            forms.setdefault((route.is_raw, route.to_fifo), []).append(route)
        delivered = 0
        for (is_raw, to_fifo), same in forms.items():
            message = self._message(topic, draft, is_raw=is_raw, to_fifo=to_fifo)
            targets = [route.target for route in same if route.target is not None]
            if is_raw and len(message.attributes or ()) > _RAW_ATTRIBUTES_MAX:
                refusals = [Refusal(each, message, "TooManyAttributes") for each in targets]
            else:
                source = f"the topic {topic.name.name}"
                refusals = self._delivery.decide(
                    message, targets, TOPIC_SERVICE, source, topic.name.account, sent_for(topic.name)
                )
            draft.refusals += refusals
            if is_logged(topic):
                self._log.decided(topic, draft.notice(topic, "sqs"), same, refusals)
            delivered += len(targets) - len(refusals)
            if self.undelivered.subscriptions:
                refused = {each.target.token for each in refusals}
                for target in targets:
                    if target.token not in refused:
                        self.undelivered.succeeded(target.token)
        return delivered

    def _message(self, topic: Topic, draft: _Draft, *, is_raw: bool, to_fifo: bool) -> Outgoing:
        publication = draft.publication
        # SNS: a standard queue gets the group of a message of a standard topic, but nothing of a FIFO topic.
        has_ids = to_fifo or not topic.name.is_fifo
        body, insert_at = publication.text_for("sqs"), None
        if not is_raw:
            before, after = notification_parts(draft.notice(topic, "sqs"))
            body, insert_at = before + after, len(before)
        return Outgoing(
            body=body,
            sender=SENDER,
            attributes=publication.attributes if is_raw else None,
            trace=publication.trace,
            group=publication.group if has_ids else None,
            dedup_id=publication.dedup_id if to_fifo else None,
            insert_at=insert_at,
        )

    def _notify(self, topic: Topic, draft: _Draft, route: TopicRoute) -> None:
        """A subscriber that is no queue gets a job."""
        subscription = route.subscription
        notice = draft.notice(topic, subscription.protocol, subscription.name.arn)
        if not self.deliveries.notify(topic, subscription, notice):
            self.undelivered.notice(notice, "too many messages wait to be delivered")

    def send_again(
        self,
        topic: Topic,
        route: TopicRoute,
        publication: Publication,
        archived: Archived,
        id: str,
        number: int,
    ) -> bool:
        """Send an archived message of a FIFO topic to one subscription. ``id``, ``number``: of the message in the
        archive. Returns False if its queue does not take it."""
        draft = _Draft(publication, archived.base_url, self._message_id(id), archived.published_ms, {})
        draft.sequence, draft.is_replayed = str(_SEQUENCE_BASE + number), True
        delivered = self._to_queues(topic, draft, [route])
        self._refuse(draft, sys.maxsize)
        return delivered > 0

    # -- queues that do not take a message, with the open commit -----------------------------------------------------

    def _refused(self, refusal: Refusal) -> None:
        name = SubscriptionName.of_arn(refusal.target.token)
        assert name is not None, "the token is the ARN of the subscription"
        if refusal.was_on_its_way:
            self._log.refused(name, refusal)
        if refusal.message is None:
            self.undelivered.lost(name, refusal.reason)
            return
        message = QueueMessage.of(name.topic, name.id, refusal.target.queue, refusal.message, refusal.reason)
        message = msgspec.structs.replace(message, was_counted=refusal.was_on_its_way)
        if name.topic.is_fifo or not is_temporary(refusal.reason) or not self.queue_jobs.send(message):
            self.undelivered.message(name, message, refusal.reason)

    def _delivered_late(self, message: QueueMessage) -> None:
        self.undelivered.succeeded(SubscriptionName(message.topic, message.subscription).arn)
        if not message.was_counted:
            self._shard.open_commit.when_durable.append(lambda _: self.metrics.delivered(message.topic, 1))

    def _not_delivered(self, message: QueueMessage, reason: str) -> None:
        self.undelivered.message(SubscriptionName(message.topic, message.subscription), message, reason)

    def _redriven(self, message: QueueMessage, reason: str | None) -> None:
        self.undelivered.redriven(message, reason)


def _room(messages: int) -> int:
    """Returns how many queues get each message of a standard topic with one commit."""
    return _QUEUES_MAX if messages == 1 else max(_OF_BATCH_MIN, _OF_BATCH_MAX // messages)


def _size(publication: Publication) -> int:
    # SNS: the subject does not count.
    return bytes_sent(publication.message, publication.attributes)
