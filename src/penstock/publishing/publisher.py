"""Publishing: who gets a message, in what form, decided in one commit.

A publication goes through four steps. It gets its number and its time. The filters say who gets it. If somebody gets
an envelope it is signed, and the memory of the queues that belong to this shard is loaded. Then everything is decided
at once: queues of this shard get the message with the open commit, queues of other shards through the outbox, and all
other subscribers through jobs. If a subscription changes before the last step, the filters are asked again.

Many queues get one content: it is stored once for each other shard, and only the link that ends a subscription
differs. Messages of a FIFO topic are numbered in the last step, so that their order is the order of the commits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.broker.delivery import Refusal
from penstock.broker.shard import Commit
from penstock.patterns import Outcome
from penstock.publishing.archive import Archived, archived
from penstock.publishing.dead_letters import Undelivered
from penstock.publishing.deliveries import Deliveries
from penstock.publishing.live_topic import LiveTopic, Matched, Route
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
from penstock.publishing.recent import Recent, RecentMessages
from penstock.queues.deduplication import content_id
from penstock.queues.messages import Outgoing, bytes_sent
from penstock.topics.envelopes import notification_parts
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Notice, Publication
from penstock.topics.records import Topic

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition
    from penstock.publishing.publishing import Publishing
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

_RAW_ATTRIBUTES_MAX = 10  # SQS: a message has at most ten attributes
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
        self.metrics = TopicMetrics(partition)
        self.recent = RecentMessages()
        self.queue_jobs = QueueJobs(
            partition, self._signer, self._delivered_late, self._not_delivered, self._redriven
        )
        self.undelivered = Undelivered(partition, topics, self.queue_jobs, self.metrics)
        self.deliveries = Deliveries(
            partition, publishing.endpoints, topics.route_of, self.undelivered.notice
        )
        self._delivery.on_refused(TOPIC_SERVICE, self._refused)

    async def publish(
        self, name: TopicName, publications: Sequence[Publication], base_url: str
    ) -> list[Published]:
        """Raises TopicMissing, DedupFull, QuotaReached, NotOwned or StoreError."""
        drafts = [self._draft(name, each, base_url) for each in publications]
        while True:
            live = await self._topics.live(name)
            version = live.version
            matched = [await self._turns.run(live.match(each), name.account) for each in publications]
            queue = await self._topics.queues.ready(live.topic) if name.is_fifo else None
            if queue is None:
                for draft, who in zip(drafts, matched, strict=True):
                    await self._sign(live.topic, draft, who)
            await self._delivery.prepare(
                route.target for who in matched for route in who.routes if route.target
            )
            if not self._topics.is_current(live) or live.version != version:
                continue  # a subscription has changed meanwhile
            if queue is None or (queue.memory.loaded and not queue.deleted):
                break
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        shard.check_sends()
        if queue is not None:
            self._topics.queues.check_room(queue, live.topic, len(drafts))
        published = [
            self._decide(live, draft, who, queue) for draft, who in zip(drafts, matched, strict=True)
        ]
        size = sum(_size(each) for each in publications)
        shard.open_commit.when_durable.append(lambda _: self.metrics.published(name, len(publications), size))
        # The answer to a duplicate rests on the commit of the first message.
        await shard.settled()
        return published

    # -- before the decision -----------------------------------------------------------------------------------------

    def _draft(self, name: TopicName, publication: Publication, base_url: str) -> _Draft:
        id = "" if name.is_fifo else self._message_id(self._ids(self._shard.next_number()))
        return _Draft(publication, base_url, id, self._shard.clock.wall_ms(), {})

    def _message_id(self, id: str) -> str:
        # SNS: the ids of publications are UUIDs of version 5.
        return f"{id[:14]}5{id[15:]}"

    async def _sign(self, topic: Topic, draft: _Draft, who: Matched) -> None:
        """Sign the texts that somebody gets in an envelope."""
        version = topic.signature_version
        for protocol in dict.fromkeys(r.subscription.protocol for r in who.routes if not r.is_raw):
            text = draft.publication.text_for(protocol)
            if (version, text) not in draft.signatures:
                await self._signer.ready()
                signed = self._signer.signed(draft.notice(topic, protocol), version)
                draft.signatures[version, text] = signed.signature
                draft.certificate_url = signed.certificate_url

    # -- the decision, in the open commit ----------------------------------------------------------------------------

    def _decide(self, live: LiveTopic, draft: _Draft, who: Matched, queue: LiveQueue | None) -> Published:
        topic = live.topic
        if queue is not None:
            published, is_new = self._admit(topic, draft, queue)
            if not is_new:
                return published
        else:
            published = Published(draft.id)
        delivered = self._to_queues(topic, draft, [route for route in who.routes if route.target])
        for route in who.routes:
            if route.target is None:
                self._notify(topic, draft, route)
        recent = Recent(draft.id, draft.published_ms, draft.publication)
        self._shard.open_commit.when_durable.append(
            partial(self._durable, topic.name, recent, delivered, who.filtered)
        )
        for watcher in self._watchers:
            watcher(topic, draft.publication, published, who.routes)
        return published

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
        sent, is_new = self._topics.queues.admit(
            queue,
            topic,
            dedup_id,
            publication.group,
            partial(archived, publication, draft.published_ms, draft.base_url),
        )
        assert sent.sequence is not None
        draft.id, draft.sequence = self._message_id(sent.id), str(_SEQUENCE_BASE + sent.sequence)
        return Published(draft.id, draft.sequence), is_new

    def _to_queues(self, topic: Topic, draft: _Draft, routes: Iterable[Route]) -> int:
        """Returns how many queues got the message, or have it on its way to them."""
        forms: dict[tuple[bool, bool], list[Route]] = {}
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
            for refusal in refusals:
                self._refused(refusal)
            delivered += len(targets) - len(refusals)
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

    def _notify(self, topic: Topic, draft: _Draft, route: Route) -> None:
        """A subscriber that is no queue gets a job."""
        subscription = route.subscription
        notice = draft.notice(topic, subscription.protocol, subscription.name.arn)
        if not self.deliveries.notify(topic, subscription, notice):
            self.undelivered.notice(notice, "too many messages wait to be delivered")

    def send_again(
        self, topic: Topic, route: Route, publication: Publication, archived: Archived, id: str, number: int
    ) -> bool:
        """Send an archived message of a FIFO topic to one subscription. ``id``, ``number``: of the message in the
        archive. Returns False if its queue does not take it."""
        draft = _Draft(publication, archived.base_url, self._message_id(id), archived.published_ms, {})
        draft.sequence, draft.is_replayed = str(_SEQUENCE_BASE + number), True
        return self._to_queues(topic, draft, [route]) > 0

    # -- queues that do not take a message, with the open commit -----------------------------------------------------

    def _refused(self, refusal: Refusal) -> None:
        name = SubscriptionName.of_arn(refusal.target.token)
        assert name is not None, "the token is the ARN of the subscription"
        if refusal.message is None:
            self.undelivered.lost(name, refusal.reason)
            return
        message = QueueMessage.of(name.topic, name.id, refusal.target.queue, refusal.message, refusal.reason)
        if name.topic.is_fifo or not is_temporary(refusal.reason) or not self.queue_jobs.send(message):
            self.undelivered.message(name, message, refusal.reason)

    def _delivered_late(self, message: QueueMessage) -> None:
        self._shard.open_commit.when_durable.append(lambda _: self.metrics.delivered(message.topic, 1))

    def _not_delivered(self, message: QueueMessage, reason: str) -> None:
        self.undelivered.message(SubscriptionName(message.topic, message.subscription), message, reason)

    def _redriven(self, message: QueueMessage, reason: str | None) -> None:
        self.undelivered.redriven(message, reason)


def _size(publication: Publication) -> int:
    # SNS: the subject does not count.
    return bytes_sent(publication.message, publication.attributes)
