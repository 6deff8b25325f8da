"""What a standard queue must do, in the plainest words: a list of messages, each with its few facts.

Written from the behaviour of Amazon SQS, not from the broker: no windows, no indexes, no commits.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from penstock.limits import DAY, HOUR, SECOND

VISIBILITY_MAX = 12 * HOUR


@dataclass
class GivenHandle:
    """A receipt handle that a receiver got."""

    body: str
    queue: str
    handle: str
    received_ms: int
    receives: int


@dataclass
class Message:
    body: str
    id: str
    queue: str
    group: str | None
    enqueued_ms: int = 0
    due_ms: int = 0
    receives: int = 0
    receives_before: int = 0
    first_received_ms: int = 0
    source: str | None = None
    delayed: bool = True  # hidden because it was sent so
    stored: Message | None = None  # as the store knows it: a receive is written a little later


@dataclass
class Rules:
    delay_ms: int = 0
    visibility_ms: int = 30 * SECOND
    retention_ms: int = 4 * DAY
    receives_max: int | None = None  # then to the dead-letter queue


class StandardModel:
    def __init__(self, queues: list[str]) -> None:
        self.messages: list[Message] = []
        self.rules = {queue: Rules() for queue in queues}
        self.purged_ms: dict[str, int] = {}

    def snapshot(self) -> StandardModel:
        return copy.deepcopy(self)

    def forget_expired(self, now_ms: int) -> None:
        self.messages = [
            message
            for message in self.messages
            if message.enqueued_ms + self.rules[message.queue].retention_ms > now_ms
        ]

    def of(self, queue: str) -> list[Message]:
        return [message for message in self.messages if message.queue == queue]

    def available(self, queue: str, now_ms: int) -> list[Message]:
        """What can be received, or dies by being received once more."""
        return [message for message in self.of(queue) if message.due_ms <= now_ms]

    def doomed(self, queue: str, now_ms: int) -> list[Message]:
        receives_max = self.rules[queue].receives_max
        if receives_max is None:
            return []
        return [
            message
            for message in self.available(queue, now_ms)
            if message.receives - message.receives_before >= receives_max
        ]

    def counts(self, queue: str, now_ms: int) -> tuple[int, int, int]:
        hidden = [message for message in self.of(queue) if message.due_ms > now_ms]
        delayed = sum(message.delayed for message in hidden)
        return len(self.of(queue)) - len(hidden), len(hidden) - delayed, delayed

    def send(self, message: Message, delay_ms: int, now_ms: int) -> None:
        message.enqueued_ms = now_ms
        message.due_ms = now_ms + delay_ms
        message.stored = replace(message)
        self.messages.append(message)

    def receive(self, message: Message, visibility_ms: int | None, now_ms: int) -> None:
        visibility_ms = self.rules[message.queue].visibility_ms if visibility_ms is None else visibility_ms
        message.receives += 1
        message.first_received_ms = message.first_received_ms or now_ms
        message.due_ms = now_ms + visibility_ms
        message.delayed = False

    def dead_letter(self, message: Message, queue: str, source: str) -> None:
        message.queue = queue
        message.source = source
        message.receives_before = message.receives
        message.due_ms = 0

    def find(self, given: GivenHandle) -> Message | None:
        """A handle reaches the message only in the queue that gave it."""
        for message in self.of(given.queue):
            if message.body == given.body:
                return message
        return None

    def delete(self, given: GivenHandle) -> None:
        message = self.find(given)
        if message is not None:
            self.messages.remove(message)

    def change(self, given: GivenHandle, visibility_ms: int, now_ms: int) -> str:
        """What the broker must say: ok, gone, or too long."""
        message = self.find(given)
        if message is None:
            return "gone"
        if now_ms - given.received_ms + visibility_ms > VISIBILITY_MAX:
            return "too long"
        # SQS: the handle of an expired receive hides the message again; showing what is visible changes nothing.
        message.due_ms = now_ms + visibility_ms
        message.delayed = False
        if visibility_ms:  # the handle proves a receive that a crash may have undone
            message.receives = max(message.receives, given.receives)
        return "ok"

    def purge(self, queue: str, now_ms: int) -> None:
        self.messages = [message for message in self.messages if message.queue != queue]
        self.purged_ms[queue] = now_ms
