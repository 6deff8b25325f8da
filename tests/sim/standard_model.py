"""What a standard queue must do, in the plainest words: a list of messages, each with its few facts.

Written from the behaviour of Amazon SQS, not from the broker: no windows, no indexes, no commits.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from penstock.limits import DAY, HOUR, SECOND

VISIBILITY_MAX = 12 * HOUR


@dataclass
class Held:
    """A receipt handle that somebody was given."""

    body: str
    queue: str
    handle: str
    received_ms: int


@dataclass
class Letter:
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


@dataclass
class Rules:
    delay_ms: int = 0
    visibility_ms: int = 30 * SECOND
    retention_ms: int = 4 * DAY
    receives_max: int | None = None  # then to the dead-letter queue


class StandardModel:
    def __init__(self, queues: list[str]) -> None:
        self.letters: list[Letter] = []
        self.rules = {queue: Rules() for queue in queues}
        self.purged_ms: dict[str, int] = {}

    def snapshot(self) -> StandardModel:
        return copy.deepcopy(self)

    def forget_expired(self, now_ms: int) -> None:
        self.letters = [
            letter
            for letter in self.letters
            if letter.enqueued_ms + self.rules[letter.queue].retention_ms > now_ms
        ]

    def of(self, queue: str) -> list[Letter]:
        return [letter for letter in self.letters if letter.queue == queue]

    def available(self, queue: str, now_ms: int) -> list[Letter]:
        """What can be received, or dies by being received once more."""
        return [letter for letter in self.of(queue) if letter.due_ms <= now_ms]

    def doomed(self, queue: str, now_ms: int) -> list[Letter]:
        receives_max = self.rules[queue].receives_max
        if receives_max is None:
            return []
        return [
            letter
            for letter in self.available(queue, now_ms)
            if letter.receives - letter.receives_before >= receives_max
        ]

    def counts(self, queue: str, now_ms: int) -> tuple[int, int, int]:
        hidden = [letter for letter in self.of(queue) if letter.due_ms > now_ms]
        delayed = sum(letter.delayed for letter in hidden)
        return len(self.of(queue)) - len(hidden), len(hidden) - delayed, delayed

    def send(self, letter: Letter, delay_ms: int, now_ms: int) -> None:
        letter.enqueued_ms = now_ms
        letter.due_ms = now_ms + delay_ms
        self.letters.append(letter)

    def receive(self, letter: Letter, visibility_ms: int | None, now_ms: int) -> None:
        visibility_ms = self.rules[letter.queue].visibility_ms if visibility_ms is None else visibility_ms
        letter.receives += 1
        letter.first_received_ms = letter.first_received_ms or now_ms
        letter.due_ms = now_ms + visibility_ms
        letter.delayed = False

    def bury(self, letter: Letter, queue: str, source: str) -> None:
        letter.queue = queue
        letter.source = source
        letter.receives_before = letter.receives
        letter.due_ms = 0

    def find(self, held: Held) -> Letter | None:
        """A handle reaches the message only in the queue that gave it."""
        for letter in self.of(held.queue):
            if letter.body == held.body:
                return letter
        return None

    def delete(self, held: Held) -> None:
        letter = self.find(held)
        if letter is not None:
            self.letters.remove(letter)

    def change(self, held: Held, visibility_ms: int, now_ms: int) -> str:
        """What the broker must say: ok, gone, or too long."""
        letter = self.find(held)
        if letter is None:
            return "gone"
        if now_ms - held.received_ms + visibility_ms > VISIBILITY_MAX:
            return "too long"
        # SQS: the handle of an expired receive hides the message anew; showing what is visible changes nothing.
        letter.due_ms = now_ms + visibility_ms
        letter.delayed = False
        return "ok"

    def purge(self, queue: str, now_ms: int) -> None:
        self.letters = [letter for letter in self.letters if letter.queue != queue]
        self.purged_ms[queue] = now_ms
