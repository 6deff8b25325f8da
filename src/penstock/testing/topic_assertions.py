"""Assertions about topics. A failure shows what was published, and what became of each message."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

from penstock.testing.assertions import Attributes, Body, Wanted
from penstock.testing.http_subscriber import HttpSubscriber
from penstock.testing.publications import PublicationSnapshot, table
from penstock.testing.snapshots import QueueSnapshot, counted

_LOOK_AGAIN_S = 0.005

Endpoint = str | HttpSubscriber
"""A queue, by its name, URL or ARN, or a subscriber of the test."""


class TopicAssertions(ABC):
    """A topic is given by its name or its ARN.

    Assertions are about the messages that have the given ``body``, ``attributes`` and ``group``; without these, about
    all messages that were published to the topic. They return the messages that they found."""

    @abstractmethod
    def publications(self, topic: str) -> list[PublicationSnapshot]:
        """List what was published to a topic, whoever did it.

        :param topic: The name or ARN of the topic.
        :returns: The messages, oldest first.
        :raises AssertionError: There is no such topic.
        """

    @abstractmethod
    def snapshot(self, queue: str) -> QueueSnapshot:
        """Look at all messages that are or were in a queue. This changes nothing.

        :param queue: The name, URL or ARN of the queue.
        :returns: The queue at this moment.
        """

    @abstractmethod
    def _endpoint(self, endpoint: Endpoint) -> str:
        """The endpoint as subscriptions have it."""

    def assert_published(
        self,
        topic: str,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
    ) -> list[PublicationSnapshot]:
        """Assert that messages were published to the topic, whoever got them.

            broker.assert_published("orders", {"drink": "latte"}, count=2)

        :param topic: The name or ARN of the topic.
        :param body: The body to look for: a text, a pattern that is found in it, a function that accepts it, or the
            value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer, or there is no such topic.
        """
        __tracebackhide__ = True
        known, wanted = self.publications(topic), Wanted(body, attributes, group)
        found = [each for each in known if wanted.holds(each)]
        _check(found, count, f"published to {topic}{wanted}", lambda: table(topic, [(k, "") for k in known]))
        return found

    def assert_delivered(
        self,
        topic: str,
        endpoint: Endpoint,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
        timeout: float = 5,
    ) -> list[PublicationSnapshot]:
        """Assert that messages of the topic arrived in a queue, whatever became of them there, or at a subscriber.

            broker.assert_delivered("orders", "kitchen", {"drink": "latte"}, count=1)

        :param topic: The name or ARN of the topic.
        :param endpoint: The queue, by its name, URL or ARN, or the :class:`HttpSubscriber`.
        :param body: The body that was published: a text, a pattern that is found in it, a function that accepts it,
            or the value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :param timeout: How many seconds to wait for a subscriber; 5 by default. Queues have their messages at once.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer, or there is no such topic or queue.
        """
        __tracebackhide__ = True
        wanted, until = Wanted(body, attributes, group), time.monotonic() + timeout
        while True:
            known = self.publications(topic)
            arrived = self._arrived(known, endpoint)
            found = [each for each in known if each.id in arrived and wanted.holds(each)]
            is_late = time.monotonic() >= until or not isinstance(endpoint, HttpSubscriber)
            if len(found) >= (1 if count is None else count) or is_late:
                break
            time.sleep(_LOOK_AGAIN_S)
        place = self._endpoint(endpoint)
        fates = [(each, each.fate(place, is_there=each.id in arrived)) for each in known]
        where = f"delivered by {topic} to {_name(place)}{wanted}"
        _check(found, count, where, lambda: f"{table(topic, fates)}\n{self._shown(endpoint)}")
        return found

    def assert_filtered_out(
        self,
        topic: str,
        endpoint: Endpoint,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
    ) -> list[PublicationSnapshot]:
        """Assert that the filter of a subscription did not choose messages of the topic.

            (message,) = broker.assert_filtered_out("orders", "kitchen", {"drink": "water"})
            print(message.filtered_out)

        :param topic: The name or ARN of the topic.
        :param endpoint: The queue, by its name, URL or ARN, or the :class:`HttpSubscriber`.
        :param body: The body that was published: a text, a pattern that is found in it, a function that accepts it,
            or the value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :returns: The messages that were found; their ``filtered_out`` say why.
        :raises AssertionError: There are more or fewer, or there is no such topic or queue.
        """
        __tracebackhide__ = True
        known, wanted, place = (
            self.publications(topic),
            Wanted(body, attributes, group),
            self._endpoint(endpoint),
        )
        found = [each for each in known if place in each.filtered_out and wanted.holds(each)]
        arrived = self._arrived(known, endpoint)
        fates = [(each, each.fate(place, is_there=each.id in arrived)) for each in known]
        where = f"of {topic} filtered out of {_name(place)}{wanted}"
        _check(found, count, where, lambda: table(topic, fates))
        return found

    # -- what arrived ------------------------------------------------------------------------------------------------

    def _arrived(self, known: list[PublicationSnapshot], endpoint: Endpoint) -> set[str]:
        """The ids of publications that got to an endpoint."""
        from penstock.client.envelopes import find_envelope

        if isinstance(endpoint, HttpSubscriber):
            return {each.message_id for each in endpoint.notifications}
        if "://" in (place := self._endpoint(endpoint)):
            raise AssertionError(
                f"what arrived at {place} is not known: give the HttpSubscriber instead of its URL"
            )
        enveloped, raw = set[str](), Counter[tuple[str, str]]()
        for message in self.snapshot(endpoint).messages:
            envelope = find_envelope(message.body)
            if envelope is not None:
                enveloped.add(envelope.message_id)
            else:
                raw[message.body, _shown_attributes(message.attributes)] += 1
        # A raw message has no id of the topic, so that each accounts for one publication with its content.
        for each in known:
            content = each.text_for("sqs"), _shown_attributes(each.attributes)
            if place in each.chosen and each.id not in enveloped and raw[content]:
                raw[content] -= 1
                enveloped.add(each.id)
        return enveloped

    def _shown(self, endpoint: Endpoint) -> str:
        return str(endpoint) if isinstance(endpoint, HttpSubscriber) else str(self.snapshot(endpoint))


def _shown_attributes(attributes: object) -> str:
    assert isinstance(attributes, dict)
    return repr(sorted(attributes.items()))


def _name(endpoint: str) -> str:
    return endpoint if "://" in endpoint else endpoint.rpartition(":")[2]


def _check(found: list[PublicationSnapshot], count: int | None, where: str, shown: Callable[[], str]) -> None:
    """Raises AssertionError unless ``count`` were found; None: at least one."""
    __tracebackhide__ = True
    if len(found) != count if count is not None else not found:
        expected = "at least 1 message" if count is None else counted(count, "message")
        raise AssertionError(f"expected {expected} {where}, found {len(found)}\n{shown()}")
