"""Asking endpoints to confirm subscriptions, with a token that only who reads the endpoint gets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.names import QueueName
from penstock.publishing.live_topic import QUEUES
from penstock.topics.envelopes import ConfirmationKind
from penstock.topics.records import Subscription, Topic
from penstock.topics.tokens import RANDOM_BYTES, VALID_MS, make_token

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.publisher import Publisher


class Confirming:
    """Sends the confirmations of one shard, with the open commit."""

    def __init__(self, partition: Partition, publisher: Publisher) -> None:
        self._shard = partition.shard
        self._publisher = publisher

    def subscribed(self, topic: Topic, subscription: Subscription) -> None:
        self._send(ConfirmationKind.SUBSCRIBE, topic, subscription)

    def unsubscribed(self, topic: Topic, subscription: Subscription) -> None:
        self._send(ConfirmationKind.UNSUBSCRIBE, topic, subscription)

    def _send(self, kind: ConfirmationKind, topic: Topic, subscription: Subscription) -> None:
        token = self._token(subscription)
        queue = QueueName.of_arn(subscription.endpoint) if subscription.protocol == QUEUES else None
        if queue is not None:
            self._publisher.queue_jobs.confirm(kind, topic, subscription, queue, token)
        elif kind is ConfirmationKind.SUBSCRIBE:
            self._publisher.deliveries.confirm(topic, subscription, token)
        else:
            self._publisher.deliveries.unsubscribed(topic, subscription, token)

    def _token(self, subscription: Subscription) -> str:
        shard, name = self._shard, subscription.name
        until_ms = shard.clock.wall_ms() + VALID_MS
        return make_token(shard.secret, name.topic.home, name.id, until_ms, os.urandom(RANDOM_BYTES))
