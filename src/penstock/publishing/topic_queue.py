"""What a FIFO topic remembers: the messages of the last five minutes, and its archive. It is an internal FIFO queue.

The rules of deduplication are those of FIFO queues, with the same memory, limits and storage. A topic without an
archive only remembers that a message was published; a topic with one stores its messages in the queue, where they
expire with the retention of the archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.limits import DAY
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Entry, Outgoing, Sent
from penstock.queues.settings import QueueSettings
from penstock.topics.names import TopicName
from penstock.topics.records import Topic

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

KIND = "topic"


class ArchivePolicy(msgspec.Struct):
    MessageRetentionPeriod: int | str

    @property
    def days(self) -> int:
        return int(self.MessageRetentionPeriod)


_decode_policy = msgspec.json.Decoder(ArchivePolicy).decode


def archive_days(topic: Topic) -> int:
    """Returns how many days a topic keeps its messages; 0: it has no archive."""
    policy = topic.attributes.get("ArchivePolicy")
    return _decode_policy(policy).days if policy and policy != "{}" else 0


class Admitted(NamedTuple):
    sent: Sent
    is_new: bool
    archived_bytes: int = 0  # what the message takes in the archive; 0: it is not archived


class TopicQueues:
    """The internal queues of the FIFO topics of one shard."""

    def __init__(self, partition: Partition) -> None:
        self._shard = partition.shard
        self._catalogue = partition.catalogue

    def find(self, name: TopicName) -> LiveQueue | None:
        return self._catalogue.internal_queue(KIND, name.space, name.home)

    def configure(self, topic: Topic) -> None:
        """The settings of a topic have changed, with the open commit."""
        queue = self.find(topic.name)
        if queue is None:
            return
        settings = _settings(topic)
        if settings != queue.settings:
            record = msgspec.structs.replace(queue.record, settings=settings)
            self._catalogue.save(queue, record)
            queue.configure(settings, self._shard.clock.now_ms())

    def delete(self, name: TopicName) -> None:
        """A topic is deleted, with the open commit."""
        queue = self.find(name)
        if queue is not None:
            self._catalogue.remove(queue, self._shard.clock.now_ms())

    async def ready(self, topic: Topic) -> LiveQueue:
        """The queue of a FIFO topic, with its memory loaded. It is made when it is first needed."""
        queue = self.find(topic.name)
        if queue is None:
            queue = self._catalogue.create_internal(KIND, topic.name.space, topic.name.home, _settings(topic))
        await queue.memory.load()
        return queue

    def check_room(self, queue: LiveQueue, messages: int) -> None:
        """Raises DedupFull if so many messages cannot be remembered."""
        rules = queue.rules
        assert isinstance(rules, FifoQueue)
        rules.dedup.check_room(messages)

    def admit(
        self, queue: LiveQueue, topic: Topic, dedup_id: str, group: str, stored: Callable[[], str]
    ) -> Admitted:
        """Number a message and remember it, with the open commit. ``stored``: makes what the archive keeps, if the
        topic has one. Raises DedupFull or QuotaReached."""
        now_ms = self._shard.clock.now_ms()
        rules = queue.rules
        assert isinstance(rules, FifoQueue)
        if not archive_days(topic):
            sent, is_new = rules.admit(dedup_id, group, now_ms, self._shard.changes)
            self._shard.touch(queue)
            return Admitted(sent, is_new)
        message = Outgoing(body=stored(), sender="", group=group, dedup_id=dedup_id)
        entries: list[Entry]
        (sent,), entries = queue.decide_send([message], now_ms)
        return Admitted(sent, bool(entries), sum(len(entry.content or b"") for entry in entries))


def _settings(topic: Topic) -> QueueSettings:
    per_group = topic.attributes.get("FifoThroughputScope") == "MessageGroup"
    return QueueSettings(
        fifo=True,
        retention_ms=max(1, archive_days(topic)) * DAY,
        dedup_scope="messageGroup" if per_group else "queue",
    )
