"""What a FIFO queue must do, in the plainest words: messages in a list, in order, each with its few facts.

Written from the behaviour of Amazon SQS, not from the broker.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from penstock.limits import DAY, HOUR, MINUTE, SECOND

VISIBILITY_MAX = 12 * HOUR
DEDUP_WINDOW = 5 * MINUTE


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
    group: str
    dedup_id: str
    sequence: int = 0
    enqueued_ms: int = 0
    due_ms: int = 0
    receives: int = 0
    receives_before: int = 0
    first_received_ms: int = 0
    source: str | None = None


@dataclass
class Rules:
    delay_ms: int = 0
    visibility_ms: int = 30 * SECOND
    retention_ms: int = 4 * DAY
    receives_max: int | None = None


@dataclass
class Remembered:
    id: str
    sequence: int
    until_ms: int


class FifoModel:
    def __init__(self, queues: list[str], per_group: tuple[str, ...] = ()) -> None:
        self.per_group = per_group
        self.messages: list[Message] = []  # of all queues; those of one queue are in its order
        self.rules = {queue: Rules() for queue in queues}
        self.purged_ms: dict[str, int] = {}
        self.sends: dict[tuple[str, str], Remembered] = {}

    def snapshot(self) -> FifoModel:
        return copy.deepcopy(self)

    def forget_expired(self, now_ms: int) -> None:
        self.messages = [
            message
            for message in self.messages
            if message.enqueued_ms + self.rules[message.queue].retention_ms > now_ms
        ]

    def of(self, queue: str) -> list[Message]:
        return [message for message in self.messages if message.queue == queue]

    def is_delayed(self, message: Message, now_ms: int) -> bool:
        """SQS: the delay is the queue's as it is now, also for messages that wait already."""
        return message.due_ms <= now_ms < message.enqueued_ms + self.rules[message.queue].delay_ms

    def open_run(self, queue: str, group: str, now_ms: int) -> list[Message]:
        """What can be received of a group: in order, up to the first in flight or delayed."""
        run = []
        for message in self.of(queue):
            if message.group == group:
                if message.due_ms > now_ms or self.is_delayed(message, now_ms):
                    break
                run.append(message)
        return run

    def groups(self, queue: str) -> list[str]:
        return sorted({message.group for message in self.of(queue)})

    def is_doomed(self, message: Message) -> bool:
        receives_max = self.rules[message.queue].receives_max
        return receives_max is not None and message.receives - message.receives_before >= receives_max

    def counts(self, queue: str, now_ms: int) -> tuple[int, int, int]:
        messages = self.of(queue)
        in_flight = sum(message.due_ms > now_ms for message in messages)
        delayed = sum(self.is_delayed(message, now_ms) for message in messages)
        return len(messages) - in_flight - delayed, in_flight, delayed

    def remembered_as(self, message: Message) -> tuple[str, str]:
        """Returns what identifies the send: the queue and the deduplication id, with the group where deduplication is
        per group."""
        per_group = message.queue in self.per_group
        return message.queue, f"{message.group} {message.dedup_id}" if per_group else message.dedup_id

    def duplicate(self, message: Message, now_ms: int) -> Remembered | None:
        first = self.sends.get(self.remembered_as(message))
        return first if first is not None and now_ms < first.until_ms else None

    def send(self, message: Message, now_ms: int) -> None:
        """It is remembered at once; it arrives when it is acknowledged."""
        message.enqueued_ms = now_ms
        sent = Remembered(message.id, message.sequence, now_ms + DEDUP_WINDOW)
        self.sends[self.remembered_as(message)] = sent

    def receive(self, message: Message, visibility_ms: int | None, now_ms: int) -> None:
        visibility_ms = self.rules[message.queue].visibility_ms if visibility_ms is None else visibility_ms
        message.receives += 1
        message.first_received_ms = message.first_received_ms or now_ms
        message.due_ms = now_ms + visibility_ms

    def dead_letter(self, message: Message, queue: str, source: str, now_ms: int) -> None:
        self.messages.remove(message)
        message.queue = queue
        message.source = source
        message.receives_before = message.receives
        message.due_ms = 0
        message.enqueued_ms = now_ms  # SQS: on FIFO, retention begins again
        self.messages.append(message)

    def find(self, given: GivenHandle) -> Message | None:
        """A handle reaches the message only in the queue that gave it."""
        for message in self.of(given.queue):
            if message.body == given.body:
                return message
        return None

    def holds(self, given: GivenHandle, message: Message, now_ms: int) -> bool:
        is_hidden = message.due_ms > now_ms and message.receives == given.receives
        return is_hidden and given.received_ms >= message.enqueued_ms  # else an operator has reset it since

    def is_current(self, given: GivenHandle, now_ms: int) -> bool:
        message = self.find(given)
        return message is not None and self.holds(given, message, now_ms)

    def delete(self, given: GivenHandle, now_ms: int) -> str:
        message = self.find(given)
        if message is None:
            return "ok"
        if not self.holds(given, message, now_ms):
            return "expired"
        self.messages.remove(message)
        return "ok"

    def change(self, given: GivenHandle, visibility_ms: int, now_ms: int) -> str:
        message = self.find(given)
        if message is None or not self.holds(given, message, now_ms):
            return "gone"
        if now_ms - given.received_ms + visibility_ms > VISIBILITY_MAX:
            return "too long"
        message.due_ms = now_ms + visibility_ms
        return "ok"

    def purge(self, queue: str, now_ms: int) -> None:
        self.messages = [message for message in self.messages if message.queue != queue]
        self.sends = {key: sent for key, sent in self.sends.items() if key[0] != queue}
        self.purged_ms[queue] = now_ms
