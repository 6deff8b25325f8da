"""The truth outside the server: what was acknowledged, and what that forbids.

Rule 1: a message whose send was acknowledged is received or still there, until its delete was asked for.
Rule 2: a message whose delete was acknowledged never comes back. An acknowledged delete counts only while the
        receive it belongs to still hides the message: past that SQS promises nothing. A receive of a standard
        queue is written up to 100 ms later, and a crash before that shows the message again: it may be a dead
        letter when its first receiver deletes it. So there only deletes count that follow the receive so soon
        that the server cannot have crashed and started in between.
Rule 3: a FIFO message is handed out only when all before it in its group were deleted, or came before it in the same
        answer.
Rule 4: a FIFO send that is repeated until it is acknowledged makes one message: one id, one sequence number, and
        sequence numbers grow within the group.
Rule 5: no message is there twice.

What the server may have done or not, because the connection broke before its answer, may be either.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, NamedTuple


class Ordered(NamedTuple):
    """The body of a FIFO message: which of its group it is."""

    group: str
    number: int

    @classmethod
    def of(cls, body: str) -> Ordered:
        group, _, number = body.rpartition("-")
        return cls(group, int(number))

    @property
    def body(self) -> str:
        return f"{self.group}-{self.number}"


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.unsure: set[str] = set()  # sent, and it is unknown whether it arrived
        self.deletes_asked: set[str] = set()
        self.deleted: dict[str, float] = {}  # since when the delete is acknowledged
        self.identities: dict[str, tuple[str, str]] = {}  # FIFO body -> message id, sequence number
        self.violations: list[str] = []
        self.counted: Counter[str] = Counter()

    @property
    def backlog(self) -> int:
        return len(self.acknowledged) - len(self.deletes_asked)

    # -- what happened ---------------------------------------------------------------------------------------

    def sent(self, body: str) -> None:
        with self._lock:
            self.acknowledged.add(body)
            self.counted["sent"] += 1

    def maybe_sent(self, body: str) -> None:
        with self._lock:
            self.unsure.add(body)
            self.counted["sends with unknown outcome"] += 1

    def sent_in_order(self, body: str, answer: dict[str, Any]) -> None:
        self.sent(body)
        self._identify(body, answer["MessageId"], answer["SequenceNumber"])

    def delete_asked(self, body: str) -> None:
        with self._lock:
            self.deletes_asked.add(body)

    def delete_acknowledged(self, body: str, at: float) -> None:
        with self._lock:
            self.deleted.setdefault(body, at)
            self.counted["deleted"] += 1

    def received(self, messages: list[dict[str, Any]], asked_at: float) -> None:
        with self._lock:
            for message in messages:
                body = message["Body"]
                self.counted["received"] += 1
                if self.deleted.get(body, asked_at) < asked_at:
                    self._accuse(f"{body} came back after its delete was acknowledged")
                if body not in self.acknowledged | self.unsure:
                    # A send may be received before its acknowledgement is read.
                    self.unsure.add(body)

    def received_in_order(self, messages: list[dict[str, Any]], asked_at: float) -> None:
        self.received(messages, asked_at)
        earlier: set[str] = set()
        for message in messages:
            body, attributes = message["Body"], message["Attributes"]
            self._identify(body, message["MessageId"], attributes["SequenceNumber"])
            this = Ordered.of(body)
            with self._lock:
                for number in range(this.number):
                    before = Ordered(this.group, number).body
                    if before not in self.deletes_asked and before not in earlier:
                        self._accuse(f"{body} overtook {before}")
            earlier.add(body)

    def failed(self, what: str) -> None:
        with self._lock:
            self._accuse(what)

    def _identify(self, body: str, message_id: str, sequence: str) -> None:
        with self._lock:
            known = self.identities.setdefault(body, (message_id, sequence))
            if known != (message_id, sequence):
                self._accuse(f"{body} is two messages: {known} and {(message_id, sequence)}")

    def _accuse(self, what: str) -> None:
        self.violations.append(what)

    # -- the reckoning ---------------------------------------------------------------------------------------

    def settle(self, left: list[str]) -> list[str]:
        """``left`` are the bodies of all messages that were still there at the end. All that is wrong."""
        wrong = list(self.violations)
        wrong += [f"{body} was there {times} times" for body, times in Counter(left).items() if times > 1]
        there = set(left)
        wrong += [f"{body} was lost" for body in sorted(self.acknowledged - self.deletes_asked - there)]
        wrong += [f"{body} was deleted and is there" for body in sorted(self.deleted.keys() & there)]
        wrong += [f"{body} was never sent" for body in sorted(there - self.acknowledged - self.unsure)]
        return wrong + self._sequence_faults()

    def _sequence_faults(self) -> list[str]:
        groups: dict[str, list[tuple[int, int]]] = {}
        for body, (_, sequence) in self.identities.items():
            ordered = Ordered.of(body)
            groups.setdefault(ordered.group, []).append((ordered.number, int(sequence)))
        wrong = []
        for group, numbered in groups.items():
            sequences = [sequence for _, sequence in sorted(numbered)]
            if sequences != sorted(set(sequences)):
                wrong.append(f"the sequence numbers of {group} do not grow")
        return wrong
