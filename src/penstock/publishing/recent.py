"""The last messages of each topic, in memory: with them people find out why a subscriber did not get a message.

They are forgotten when the server stops, and when a topic has many or all topics of a shard have large ones."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import count

import msgspec

from penstock.publishing.queue_jobs import text_attributes
from penstock.queues.messages import bytes_sent
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication

RECENT_MAX = 10  # of each topic
_BYTES_MAX = 4 * 1024 * 1024  # of all topics of a shard
_OVERHEAD = 1000  # what a small message takes in memory


class Recent(msgspec.Struct, frozen=True):
    """A message that was published."""

    id: str
    published_ms: int  # by the wall clock
    publication: Publication

    @property
    def size(self) -> int:
        publication = self.publication
        texts = sum(map(len, (publication.by_protocol or {}).values())) + len(publication.subject or "")
        return bytes_sent(publication.message, publication.attributes) + texts + _OVERHEAD

    @property
    def attributes(self) -> dict[str, tuple[str, str]]:
        """Each with its type; bytes are in base64."""
        return text_attributes(self.publication.attributes or {})


class RecentMessages:
    """The last messages of the topics of one shard."""

    def __init__(self) -> None:
        self._numbers = count()
        self._of_topic: dict[TopicName, deque[int]] = {}
        self._messages: OrderedDict[int, tuple[TopicName, Recent]] = OrderedDict()  # the oldest first
        self._bytes = 0

    def of(self, topic: TopicName) -> list[Recent]:
        """The latest first."""
        return [self._messages[number][1] for number in reversed(self._of_topic.get(topic, ()))]

    def add(self, topic: TopicName, message: Recent) -> None:
        numbers = self._of_topic.setdefault(topic, deque())
        number = next(self._numbers)
        numbers.append(number)
        self._messages[number] = topic, message
        self._bytes += message.size
        if len(numbers) > RECENT_MAX:
            self._drop(numbers[0])
        while self._bytes > _BYTES_MAX:
            self._drop(next(iter(self._messages)))

    def forget(self, topic: TopicName) -> None:
        for number in list(self._of_topic.get(topic, ())):
            self._drop(number)

    def _drop(self, number: int) -> None:
        topic, message = self._messages.pop(number)
        self._bytes -= message.size
        numbers = self._of_topic[topic]
        # Messages are dropped in the order in which they came, of a topic and of all.
        assert numbers[0] == number
        numbers.popleft()
        if not numbers:
            del self._of_topic[topic]
