"""Subscriptions that nobody confirmed, and those that a link has ended, are removed after some days."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.broker.parts import Part
from penstock.errors import NotOwned, StoreError
from penstock.limits import DAY, HOUR
from penstock.promise import run_detached
from penstock.topics.records import Subscription, SubscriptionState
from penstock.topics.tokens import VALID_MS

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.broker.runtime import Timer
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

KEPT_MS = VALID_MS + DAY  # SNS: no token confirms it any more
_LOOK_EVERY_MS = HOUR
_PER_TURN = 200


def ends_ms(subscription: Subscription) -> int | None:
    """When a subscription is removed, by the wall clock; None if it is not."""
    match subscription.state:
        case SubscriptionState.CONFIRMED:
            return None
        case SubscriptionState.PENDING:
            return subscription.created_ms + KEPT_MS
        case SubscriptionState.DELETED:
            return subscription.ended_ms + KEPT_MS


class Unconfirmed(Part):
    def __init__(self, partition: Partition, topics: ShardTopics) -> None:
        self._partition = partition
        self._shard = partition.shard
        self._topics = topics
        self._round: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        if not self._stopped:
            self._round = self._shard.runtime.at(self._shard.clock.now_ms() + _LOOK_EVERY_MS, self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._round is not None:
            self._round.cancel()

    def _look(self) -> None:
        run_detached(self._remove())
        self.start()

    async def _remove(self) -> None:
        now_ms = self._shard.clock.wall_ms()
        try:
            for number, name in enumerate(self._topics.unconfirmed(), 1):
                subscription = self._topics.get_subscription(name)
                end_ms = None if subscription is None else ends_ms(subscription)
                if end_ms is not None and end_ms <= now_ms:
                    self._topics.remove_subscription(name)
                if number % _PER_TURN == 0:
                    await self._partition.turn()
                if self._stopped:
                    return
        except (StoreError, NotOwned) as error:
            log.warning("subscriptions that nobody confirmed are removed later: %s", error)
