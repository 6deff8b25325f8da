"""The namespace in which clients of CloudWatch read the metrics of topics, and how they are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.monitoring.measured import ServiceNamespace
from penstock.monitoring.reading import ShardMetrics
from penstock.patterns import Outcome
from penstock.topics.names import TopicName

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

PUBLISHED = "NumberOfMessagesPublished"
PUBLISH_SIZE = "PublishSize"
DELIVERED = "NumberOfNotificationsDelivered"
FAILED = "NumberOfNotificationsFailed"
FILTERED_OUT = "NumberOfNotificationsFilteredOut"
FILTERED_BY_ATTRIBUTES = f"{FILTERED_OUT}-MessageAttributes"
FILTERED_BY_BODY = f"{FILTERED_OUT}-MessageBody"
# These three do not add to the plain one.
FILTERED_WITHOUT_ATTRIBUTES = f"{FILTERED_OUT}-NoMessageAttributes"
FILTERED_BY_INVALID_ATTRIBUTES = f"{FILTERED_OUT}-InvalidAttributes"
FILTERED_BY_INVALID_BODY = f"{FILTERED_OUT}-InvalidMessageBody"
REDRIVEN = "NumberOfNotificationsRedrivenToDlq"
REDRIVE_FAILED = "NumberOfNotificationsFailedToRedriveToDlq"
ARCHIVED = "NumberOfMessagesArchiveProcessing"
ARCHIVED_BYTES = "NumberOfBytesArchiveProcessing"
IN_ARCHIVE = "ApproximateNumberOfMessagesArchived"
BYTES_IN_ARCHIVE = "ApproximateNumberOfBytesArchived"
REPLAY_DELIVERED = "NumberOfReplayedNotificationsDelivered"
REPLAY_FAILED = "NumberOfReplayedNotificationsFailed"

DIMENSION = "TopicName"

_COUNTS = (
    PUBLISHED, DELIVERED, FAILED, FILTERED_OUT, FILTERED_BY_ATTRIBUTES, FILTERED_BY_BODY,
    FILTERED_WITHOUT_ATTRIBUTES, FILTERED_BY_INVALID_ATTRIBUTES, FILTERED_BY_INVALID_BODY, REDRIVEN, REDRIVE_FAILED,
    ARCHIVED, IN_ARCHIVE, REPLAY_DELIVERED, REPLAY_FAILED,
)  # fmt: skip

NAMESPACE = ServiceNamespace(
    "AWS/SNS",
    {
        **dict.fromkeys(_COUNTS, "Count"),
        PUBLISH_SIZE: "Bytes",
        ARCHIVED_BYTES: "None",
        BYTES_IN_ARCHIVE: "None",
    },
)


_FILTERED = {
    Outcome.NO_ATTRIBUTES: FILTERED_WITHOUT_ATTRIBUTES,
    Outcome.INVALID_ATTRIBUTES: FILTERED_BY_INVALID_ATTRIBUTES,
    Outcome.INVALID_BODY: FILTERED_BY_INVALID_BODY,
}


class TopicTotals:
    """What was counted of a topic since this process has it."""

    __slots__ = ("delivered", "failed", "filtered", "published", "redriven")

    def __init__(self) -> None:
        self.published = self.delivered = self.failed = self.filtered = self.redriven = 0

    def add(self, other: TopicTotals) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NO_TOTALS = TopicTotals()


class TopicMetrics:
    """Counts what happens to the messages of the topics of one shard. It is called when that is durable."""

    def __init__(self, partition: Partition, exists: Callable[[TopicName], bool] = lambda name: True) -> None:
        """``exists``: whether there is such a topic; others have no totals."""
        self._measured = partition.part(ShardMetrics).measured
        self._exists = exists
        self._totals: dict[TopicName, TopicTotals] = {}

    def totals(self, topic: TopicName) -> TopicTotals:
        return self._totals.get(topic, _NO_TOTALS)

    def forget(self, topic: TopicName) -> None:
        """A topic is deleted: one with the same name begins anew."""
        self._totals.pop(topic, None)

    def published(self, topic: TopicName, messages: int, size: int) -> None:
        """One request has published messages with this many bytes together."""
        self._total(topic).published += messages
        # SNS: a batch is one sample.
        self._add(topic, PUBLISHED, messages)
        self._add(topic, PUBLISH_SIZE, size)

    def delivered(self, topic: TopicName, count: int = 1) -> None:
        # SNS: a success is also a sample of 0 of those that failed.
        if count:
            self._total(topic).delivered += count
            self._add(topic, DELIVERED, 1, count)
            self._add(topic, FAILED, 0, count)

    def failed(self, topic: TopicName) -> None:
        """An attempt of an HTTP endpoint, or all attempts of another subscriber."""
        self._total(topic).failed += 1
        self._add(topic, FAILED, 1)

    def filtered(self, topic: TopicName, subscriptions: Mapping[tuple[str, Outcome], int]) -> None:
        """``subscriptions``: that did not get a message, by the scope of their filters and the reason."""
        for (scope, outcome), count in subscriptions.items():
            self._total(topic).filtered += count
            # SNS: what is filtered out is also a sample of 0 of those that failed.
            self._add(topic, FAILED, 0, count)
            special = _FILTERED.get(outcome)
            if special is not None:
                self._add(topic, special, 1, count)
            else:
                self._add(topic, FILTERED_OUT, 1, count)
                self._add(topic, f"{FILTERED_OUT}-{scope}", 1, count)

    def redriven(self, topic: TopicName, *, failed: bool) -> None:
        """A dead-letter queue took a message, or did not."""
        self._total(topic).redriven += not failed
        self._add(topic, REDRIVE_FAILED if failed else REDRIVEN, 1)

    def archived(self, topic: TopicName, messages: int, size: int) -> None:
        self._add(topic, ARCHIVED, messages)
        self._add(topic, ARCHIVED_BYTES, size)

    def in_archive(self, topic: TopicName, messages: int, size: int) -> None:
        """The archive has so many messages, which take so many bytes."""
        self._add(topic, IN_ARCHIVE, messages)
        self._add(topic, BYTES_IN_ARCHIVE, size)

    def replayed(self, topic: TopicName, *, failed: bool) -> None:
        self._add(topic, REPLAY_FAILED if failed else REPLAY_DELIVERED, 1)

    def _total(self, topic: TopicName) -> TopicTotals:
        found = self._totals.get(topic)
        if found is None:
            found = TopicTotals()
            if self._exists(topic):
                self._totals[topic] = found
        return found

    def _add(self, topic: TopicName, metric: str, value: float, count: float = 1.0) -> None:
        self._measured.add(topic.space, NAMESPACE, metric, ((DIMENSION, topic.name),), value, count)
