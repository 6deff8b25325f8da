"""Assertions about queues. A failure shows what is and was in the queue: state, receives, body."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from penstock.testing.publications import PublicationSnapshot
from penstock.testing.snapshots import MessageSnapshot, QueueSnapshot, counted

Body = str | re.Pattern[str] | Callable[[str], bool] | dict[str, Any] | list[Any]
"""What a body is compared with: a text, a pattern that is found in it, a function that accepts it, or what its JSON
means."""
Attributes = Mapping[str, str | bytes]
"""Some of the attributes of a message, with their values."""


class QueueAssertions(ABC):
    """A queue is given by its name, its URL or its ARN.

    Assertions are about the messages that have the given ``body``, ``attributes`` and ``group``; without these, about
    all messages of the queue. They return the messages that they found."""

    @abstractmethod
    def snapshot(self, queue: str) -> QueueSnapshot:
        """Look at all messages that are or were in a queue. This changes nothing.

        :param queue: The name, URL or ARN of the queue.
        :returns: The queue at this moment.
        """

    def messages(self, queue: str) -> list[MessageSnapshot]:
        """List what is in a queue: visible, delayed or in flight. This changes nothing.

        :param queue: The name, URL or ARN of the queue.
        :returns: The messages.
        :raises AssertionError: There is no such queue.
        """
        return self.snapshot(queue).present

    def assert_sent(
        self,
        queue: str,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
    ) -> list[MessageSnapshot]:
        """Assert that messages were sent to the queue, whatever became of them.

            broker.assert_sent("orders", {"drink": "latte"}, count=2)

        :param queue: The name, URL or ARN of the queue.
        :param body: The body to look for: a text, a pattern that is found in it, a function that accepts it, or the
            value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer, or there is no such queue.
        """
        __tracebackhide__ = True
        shown, wanted = self.snapshot(queue), Wanted(body, attributes, group)
        found = wanted.among(shown, lambda message: message.sent)
        _check(len(found), count, "message", f"sent to {shown.name}{wanted}", shown)
        return found

    def assert_received(
        self,
        queue: str,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        times: int | None = None,
    ) -> list[MessageSnapshot]:
        """Assert that messages were received from the queue.

        :param queue: The name, URL or ARN of the queue.
        :param body: The body to look for: a text, a pattern that is found in it, a function that accepts it, or the
            value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param times: How many receives are expected in all. By default, at least one.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer receives, or there is no such queue.
        """
        __tracebackhide__ = True
        shown, wanted = self.snapshot(queue), Wanted(body, attributes, group)
        found = wanted.among(shown, lambda message: message.received > 0)
        received = sum(message.received for message in found)
        _check(received, times, "receive", f"from {shown.name}{wanted}", shown)
        return found

    def assert_deleted(
        self,
        queue: str,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
    ) -> list[MessageSnapshot]:
        """Assert that messages were deleted from the queue, as consumers do with what they have processed.

        :param queue: The name, URL or ARN of the queue.
        :param body: The body to look for: a text, a pattern that is found in it, a function that accepts it, or the
            value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer, or there is no such queue.
        """
        __tracebackhide__ = True
        shown, wanted = self.snapshot(queue), Wanted(body, attributes, group)
        found = wanted.among(shown, lambda message: message.state == "deleted")
        _check(len(found), count, "message", f"deleted from {shown.name}{wanted}", shown)
        return found

    def assert_in_dead_letter_queue(
        self,
        queue: str,
        body: Body | None = None,
        *,
        attributes: Attributes | None = None,
        group: str | None = None,
        count: int | None = None,
    ) -> list[MessageSnapshot]:
        """Assert that dead letters of the queue are in its dead-letter queue.

        :param queue: The name, URL or ARN of the queue.
        :param body: The body to look for: a text, a pattern that is found in it, a function that accepts it, or the
            value that its JSON has. By default, any.
        :param attributes: Attributes that the messages must have, with these values. By default, any.
        :param group: The message group. By default, any.
        :param count: How many messages are expected. By default, at least one.
        :returns: The messages that were found.
        :raises AssertionError: There are more or fewer, the queue has no dead-letter queue, or there is no such
            queue.
        """
        __tracebackhide__ = True
        source, wanted = self.snapshot(queue), Wanted(body, attributes, group)
        if source.dead_letter_queue is None:
            problem = f"{source.name} has no dead-letter queue: its RedrivePolicy is not set"
            raise AssertionError(f"{problem}\n{source}")
        shown = self.snapshot(source.dead_letter_queue)
        found = wanted.among(shown, lambda message: message.is_there and message.source == source.name)
        where = f"of {source.name} in its dead-letter queue {shown.name}{wanted}"
        _check(len(found), count, "message", where, shown, source)
        return found

    def assert_empty(self, queue: str) -> None:
        """Assert that nothing is in the queue: no message that is visible, delayed or in flight.

        :param queue: The name, URL or ARN of the queue.
        :raises AssertionError: There are messages, or there is no such queue.
        """
        __tracebackhide__ = True
        shown = self.snapshot(queue)
        _check(len(shown.present), 0, "message", f"in {shown.name}", shown)


class Wanted:
    """Which messages an assertion is about."""

    def __init__(self, body: Body | None, attributes: Attributes | None, group: str | None) -> None:
        self._body = body
        self._attributes = dict(attributes or {})
        self._group = group

    def among(
        self, shown: QueueSnapshot, condition: Callable[[MessageSnapshot], bool]
    ) -> list[MessageSnapshot]:
        return [message for message in shown.messages if condition(message) and self.holds(message)]

    def holds(self, message: MessageSnapshot | PublicationSnapshot) -> bool:
        return (
            _has_body(message.body, self._body)
            and self._attributes.items() <= message.attributes.items()
            and self._group in (None, message.group)
        )

    def __str__(self) -> str:
        texts = []
        if isinstance(self._body, re.Pattern):
            texts.append(f"a body that matches {self._body.pattern!r}")
        elif callable(self._body):
            texts.append(f"a body that {getattr(self._body, '__name__', 'the function')} accepts")
        elif self._body is not None:
            texts.append(f"the body {self._body!r}")
        if self._attributes:
            texts.append(f"the attributes {self._attributes}")
        if self._group is not None:
            texts.append(f"the group {self._group!r}")
        return f" with {' and '.join(texts)}" if texts else ""


def _has_body(body: str, wanted: Body | None) -> bool:
    if wanted is None or isinstance(wanted, str):
        return wanted in (None, body)
    if isinstance(wanted, re.Pattern):
        return wanted.search(body) is not None
    if callable(wanted):
        return bool(wanted(body))
    try:
        return bool(json.loads(body) == wanted)
    except ValueError:
        return False


def _check(
    found: int, wanted: int | None, noun: str, where: str, shown: QueueSnapshot, *also: QueueSnapshot
) -> None:
    """Raises AssertionError unless ``wanted`` were found; None: at least one."""
    __tracebackhide__ = True
    if shown.forgotten and (wanted is not None or not found):
        problem = (
            f"{noun}s {where} cannot be counted: {counted(shown.forgotten, 'message')} before were forgotten"
        )
    elif found != wanted if wanted is not None else not found:
        expected = f"at least 1 {noun}" if wanted is None else counted(wanted, noun)
        problem = f"expected {expected} {where}, found {found}"
    else:
        return
    raise AssertionError("\n".join([problem, *map(str, (shown, *also))]))
