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
class Held:
    """A receipt handle that somebody was given."""

    body: str
    queue: str
    handle: str
    received_ms: int
    receives: int


@dataclass
class Letter:
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
        self.letters: list[Letter] = []  # of all queues; those of one queue are in its order
        self.rules = {queue: Rules() for queue in queues}
        self.purged_ms: dict[str, int] = {}
        self.sends: dict[tuple[str, str], Remembered] = {}

    def snapshot(self) -> FifoModel:
        return copy.deepcopy(self)

    def forget_expired(self, now_ms: int) -> None:
        self.letters = [
            letter
            for letter in self.letters
            if letter.enqueued_ms + self.rules[letter.queue].retention_ms > now_ms
        ]

    def of(self, queue: str) -> list[Letter]:
        return [letter for letter in self.letters if letter.queue == queue]

    def is_delayed(self, letter: Letter, now_ms: int) -> bool:
        """SQS: the delay is the queue's as it is now, also for messages that wait already."""
        return letter.due_ms <= now_ms < letter.enqueued_ms + self.rules[letter.queue].delay_ms

    def open_run(self, queue: str, group: str, now_ms: int) -> list[Letter]:
        """What can be received of a group: in order, up to the first in flight or delayed."""
        run = []
        for letter in self.of(queue):
            if letter.group == group:
                if letter.due_ms > now_ms or self.is_delayed(letter, now_ms):
                    break
                run.append(letter)
        return run

    def groups(self, queue: str) -> list[str]:
        return sorted({letter.group for letter in self.of(queue)})

    def is_doomed(self, letter: Letter) -> bool:
        receives_max = self.rules[letter.queue].receives_max
        return receives_max is not None and letter.receives - letter.receives_before >= receives_max

    def counts(self, queue: str, now_ms: int) -> tuple[int, int, int]:
        letters = self.of(queue)
        in_flight = sum(letter.due_ms > now_ms for letter in letters)
        delayed = sum(self.is_delayed(letter, now_ms) for letter in letters)
        return len(letters) - in_flight - delayed, in_flight, delayed

    def remembered_as(self, letter: Letter) -> tuple[str, str]:
        """By queue; where deduplication is per group, by group too."""
        per_group = letter.queue in self.per_group
        return letter.queue, f"{letter.group} {letter.dedup_id}" if per_group else letter.dedup_id

    def duplicate(self, letter: Letter, now_ms: int) -> Remembered | None:
        first = self.sends.get(self.remembered_as(letter))
        return first if first is not None and now_ms < first.until_ms else None

    def send(self, letter: Letter, now_ms: int) -> None:
        """It is remembered at once; it arrives when it is acknowledged."""
        letter.enqueued_ms = now_ms
        sent = Remembered(letter.id, letter.sequence, now_ms + DEDUP_WINDOW)
        self.sends[self.remembered_as(letter)] = sent

    def receive(self, letter: Letter, visibility_ms: int | None, now_ms: int) -> None:
        visibility_ms = self.rules[letter.queue].visibility_ms if visibility_ms is None else visibility_ms
        letter.receives += 1
        letter.first_received_ms = letter.first_received_ms or now_ms
        letter.due_ms = now_ms + visibility_ms

    def bury(self, letter: Letter, queue: str, source: str, now_ms: int) -> None:
        self.letters.remove(letter)
        letter.queue = queue
        letter.source = source
        letter.receives_before = letter.receives
        letter.due_ms = 0
        letter.enqueued_ms = now_ms  # SQS: on FIFO, retention begins anew
        self.letters.append(letter)

    def find(self, held: Held) -> Letter | None:
        """A handle reaches the message only in the queue that gave it."""
        for letter in self.of(held.queue):
            if letter.body == held.body:
                return letter
        return None

    def holds(self, held: Held, letter: Letter, now_ms: int) -> bool:
        return letter.receives == held.receives and letter.due_ms > now_ms

    def is_held(self, held: Held, now_ms: int) -> bool:
        letter = self.find(held)
        return letter is not None and self.holds(held, letter, now_ms)

    def delete(self, held: Held, now_ms: int) -> str:
        letter = self.find(held)
        if letter is None:
            return "ok"
        if not self.holds(held, letter, now_ms):
            return "expired"
        self.letters.remove(letter)
        return "ok"

    def change(self, held: Held, visibility_ms: int, now_ms: int) -> str:
        letter = self.find(held)
        if letter is None or not self.holds(held, letter, now_ms):
            return "gone"
        if now_ms - held.received_ms + visibility_ms > VISIBILITY_MAX:
            return "too long"
        letter.due_ms = now_ms + visibility_ms
        return "ok"

    def purge(self, queue: str, now_ms: int) -> None:
        self.letters = [letter for letter in self.letters if letter.queue != queue]
        self.sends = {key: sent for key, sent in self.sends.items() if key[0] != queue}
        self.purged_ms[queue] = now_ms
