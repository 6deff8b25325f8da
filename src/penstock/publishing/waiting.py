"""What waits to be delivered: to which subscriber, since when, why it failed last and when it is tried again."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock.broker.inspection import ListingPlace, MessageView, Order
from penstock.broker.questions import ShardQuestion
from penstock.clock import wall_offset
from penstock.errors import FilterInvalid, QueueMissing
from penstock.publishing.deliveries import HTTP_DELIVERIES, MAIL_DELIVERIES, Outbound, group_of
from penstock.publishing.delivery_log import shown_endpoint
from penstock.publishing.queue_jobs import DEAD_LETTERS, REDELIVERIES, QueueMessage
from penstock.publishing.reasons import shown_reason
from penstock.publishing.shard_topics import ShardTopics
from penstock.queues.filters import STATES, MessageFilter
from penstock.topics.names import SubscriptionName, TopicName

if TYPE_CHECKING:
    from penstock.broker.internal_queues import JobKind
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition


_LOOKED_AT_ONCE = 100  # while those of one subscription are looked for
_STATE_NAMES = {state: name for name, state in STATES.items()}


class WaitingPlace(msgspec.Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True):
    """Where a delivery is in the list of all: in the internal queue of a topic and a kind."""

    account: str
    region: str
    home: int
    kind: str
    listing: str = ""  # the place in the queue, as listings have it

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.msgpack.encode(self)).decode()

    @classmethod
    def parse(cls, text: str) -> WaitingPlace:
        """Raises FilterInvalid."""
        try:
            return msgspec.msgpack.decode(urlsafe_b64decode(text.encode("ascii")), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise FilterInvalid("after: write what an answer gave as next") from None


class WaitingDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    place: WaitingPlace  # pages continue behind it
    topic: str  # the ARN
    subscription: str  # the ARN
    protocol: str
    endpoint: str  # without a password
    message_id: str = ""
    kind: str  # of job: what is done
    state: str  # visible, delayed or in_flight
    attempts: int  # so far, with the one under way
    last_error: str = ""
    due_ms: int  # when it is tried again, by the wall clock
    since_ms: int  # when it began to wait, by the wall clock


class WaitingDeliveriesQuestion(ShardQuestion[list[WaitingDelivery]], frozen=True):
    """The first deliveries that wait behind a place. ``account``, ``topic``, ``subscription``: None: of all."""

    kind: ClassVar[str] = "topic-deliveries"
    most: int
    after: WaitingPlace | None = None
    account: str | None = None
    topic: TopicName | None = None
    subscription: str | None = None  # the ARN; then ``topic`` is its topic

    def shards(self, count: int) -> Iterable[int]:
        return range(count) if self.topic is None else (self.topic.home.shard(count),)

    async def answer(self, partition: Partition) -> list[WaitingDelivery]:
        await partition.shard.settled()
        queues = [
            (place, jobs.kind, consumer.queue)
            for jobs in partition.parts.job_queues
            if jobs.kind.name in _DESCRIBED
            for consumer in jobs.consumers
            if consumer.unfinished and self._concerns(place := _place(consumer.queue))
        ]
        found: list[WaitingDelivery] = []
        for place, kind, queue in sorted(queues, key=lambda each: each[0]):
            is_begun = self.after is not None and _of_queue(self.after) == place
            after = self.after.listing if self.after is not None and is_begun else None
            found += await self._list(partition, place, kind, queue, after or None, self.most - len(found))
            if len(found) >= self.most:
                break
        return found

    def _concerns(self, place: WaitingPlace) -> bool:
        if self.account is not None and place.account != self.account:
            return False
        if self.topic is not None and place.home != self.topic.home.hash:
            return False
        return self.after is None or place >= _of_queue(self.after)

    async def _list(
        self,
        partition: Partition,
        place: WaitingPlace,
        kind: JobKind[Any],
        queue: LiveQueue,
        after: str | None,
        most: int,
    ) -> list[WaitingDelivery]:
        """The first deliveries of one queue behind a place in it."""
        found: list[WaitingDelivery] = []
        wanted = self._filter(partition, kind)
        while len(found) < most:
            limit = most - len(found) if self.subscription is None else _LOOKED_AT_ONCE
            try:
                page = await partition.inspection.list(queue, wanted, after=after, limit=limit)
            except QueueMissing:
                break
            described = (_described(partition, place, kind, view) for view in page.messages)
            found += (each for each in described if each is not None and self._shows(each))
            if page.next is None:
                break
            after = page.next
        return found[:most]

    def _filter(self, partition: Partition, kind: JobKind[Any]) -> MessageFilter:
        """What finds the deliveries of one subscription among those of its topic without reading most of them."""
        name = None if self.subscription is None else SubscriptionName.of_arn(self.subscription)
        of = None if name is None else partition.part(ShardTopics).get_subscription(name)
        if of is None or kind is DEAD_LETTERS:
            return MessageFilter()
        return MessageFilter(
            group=of.endpoint if kind is REDELIVERIES else group_of(of.protocol, of.endpoint)
        )

    def _shows(self, delivery: WaitingDelivery) -> bool:
        return self.subscription is None or delivery.subscription == self.subscription

    def merge(self, answers: list[list[WaitingDelivery]]) -> list[WaitingDelivery]:
        # A queue is in one shard, which has listed what is in it in its order.
        return sorted(chain.from_iterable(answers), key=lambda each: _of_queue(each.place))[: self.most]


def _place(queue: LiveQueue) -> WaitingPlace:
    record = queue.record
    return WaitingPlace(record.name.account, record.name.region, record.home, record.internal)


def _of_queue(place: WaitingPlace) -> WaitingPlace:
    return msgspec.structs.replace(place, listing="")


def _described(
    partition: Partition, place: WaitingPlace, kind: JobKind[Any], view: MessageView
) -> WaitingDelivery | None:
    if view.content is None:
        return None
    try:
        stored = kind.decode(view.content.body)
    except (msgspec.DecodeError, RecursionError):
        return None
    row, offset_ms = view.row, wall_offset(partition.shard.clock)
    return _DESCRIBED[kind.name](
        stored.payload,
        {
            "place": msgspec.structs.replace(place, listing=str(ListingPlace.after(Order.POSITION, row))),
            "kind": kind.name,
            "state": _STATE_NAMES[view.state],
            "attempts": stored.tries + row.receives,
            "due_ms": max(row.due_ms, row.enqueued_ms) + offset_ms,
            "since_ms": row.enqueued_ms + offset_ms,
        },
    )


def _of_outbound(of: Outbound, known: dict[str, Any]) -> WaitingDelivery:
    return WaitingDelivery(
        topic=of.subscription.topic.arn,
        subscription=of.subscription.arn,
        protocol=of.protocol,
        endpoint=shown_endpoint(of.endpoint),
        message_id=of.message_id,
        last_error=of.last_error,
        **known,
    )


def _of_queue_message(of: QueueMessage, known: dict[str, Any]) -> WaitingDelivery:
    return WaitingDelivery(
        topic=of.topic.arn,
        subscription=f"{of.topic.arn}:{of.subscription}",
        protocol="sqs",
        endpoint=of.queue.arn,
        last_error=shown_reason(of.reason),
        **known,
    )


_DESCRIBED: dict[str, Callable[[Any, dict[str, Any]], WaitingDelivery]] = {
    HTTP_DELIVERIES.name: _of_outbound,
    MAIL_DELIVERIES.name: _of_outbound,
    REDELIVERIES.name: _of_queue_message,
    DEAD_LETTERS.name: _of_queue_message,
}
