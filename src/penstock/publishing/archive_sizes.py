"""How large the archives of topics are, measured once an hour.

The store knows how much each queue holds without counting, so that one read tells the sizes of all archives of a
shard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.broker.parts import Part
from penstock.errors import StoreError
from penstock.limits import HOUR
from penstock.promise import run_detached
from penstock.publishing.topic_queue import archive_days

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.broker.runtime import Timer
    from penstock.publishing.namespace import TopicMetrics
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

_PER_TURN = 500


class ArchiveSizes(Part):
    """Measures the archives of the topics of one shard at each full hour."""

    def __init__(self, partition: Partition, topics: ShardTopics, metrics: TopicMetrics) -> None:
        self._partition = partition
        self._shard = partition.shard
        self._topics = topics
        self._metrics = metrics
        self._round: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        if not self._stopped:
            clock = self._shard.clock
            rest_ms = HOUR - clock.wall_ms() % HOUR
            self._round = self._shard.runtime.at(clock.now_ms() + rest_ms, self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._round is not None:
            self._round.cancel()

    def _look(self) -> None:
        run_detached(self._measure())
        self.start()

    async def _measure(self) -> None:
        names = self._topics.fifo_names()
        if not names:
            return
        try:
            usage = await self._shard.read(self._shard.store.usage)
        except StoreError as error:
            log.warning("the archives of topics are measured later: %s", error)
            return
        for number, name in enumerate(names, 1):
            if self._stopped:
                return
            topic = self._topics.get(name)
            if topic is not None and archive_days(topic):
                queue = self._topics.queues.find(name)
                used = None if queue is None else usage.get(queue.id)
                held = (0, 0) if used is None else (used.messages, used.bytes)
                self._metrics.in_archive(name, *held)
            if number % _PER_TURN == 0:
                await self._partition.turn()
