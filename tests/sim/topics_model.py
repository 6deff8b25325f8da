"""What the subscribers of a topic must get, in the plainest words: who wanted a message while it was decided on, and
whether its queue took messages then.

Written from the behaviour of Amazon SNS, not from the broker. What a client was not told is not known here: then all
that may be counts as possible, and only what holds in each case is demanded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.limits import MINUTE
from penstock.promise import Promise
from penstock.publishing.publisher import Published
from penstock.topics.names import SubscriptionName, TopicName
from sim.cluster_history import succeeded

DEDUP_WINDOW_MS = 5 * MINUTE

Scope = Literal["MessageAttributes", "MessageBody"]
Mood = Literal["takes", "full", "denies", "missing"]
"""Whether a queue takes messages: ``full`` is a refusal for now."""


@dataclass(frozen=True)
class Settings:
    """The settings of a subscription that exists and is confirmed."""

    raw: bool = False
    scope: Scope | None = None  # of the filter, which wants messages of the kind x
    dead_letters: bool = True

    def wants(self, message: Message) -> bool:
        return self.scope is None or message.kind == "x"


Possible = frozenset[Settings | None]
"""What the settings of a subscription may be; None: it does not exist."""


@dataclass(eq=False)
class Subscriber:
    """An endpoint that subscribes to a topic, and ends that, and subscribes again, under one ARN."""

    name: SubscriptionName
    endpoint: str  # the short name of a queue, or a URL
    is_queue: bool
    dead: str  # the short name of the queue of its dead letters
    possible: Possible = frozenset([Settings()])
    was_refused: bool = False  # whether its queue ever refused messages
    replays: int = 0  # that were begun
    last_replay: set[Message] | None = None  # what it must bring; None: that is not known

    @property
    def topic(self) -> TopicName:
        return self.name.topic


@dataclass
class Attempt:
    """A request to publish a message: clients repeat it if they get no answer."""

    outcome: Promise[list[Published]]
    place: int  # in the batch
    began_ms: int
    floor: int  # the greatest sequence number of the topic that was answered before
    life: int  # of the process that was asked
    ended_ms: int | None = None

    @property
    def answer(self) -> Published | None:
        return self.outcome.result()[self.place] if succeeded(self.outcome) else None


@dataclass(eq=False)
class Message:
    topic: TopicName
    id: str
    kind: str
    group: str | None  # of FIFO topics
    dedup_id: str | None
    attempts: list[Attempt] = field(default_factory=list)
    seen: set[Published] = field(default_factory=set)  # its ids and numbers, as subscribers see them
    # Of each subscriber: what its settings may have been while the message was decided on, and since it began.
    decided_with: dict[Subscriber, Possible] = field(default_factory=dict)
    since: dict[Subscriber, Possible] = field(default_factory=dict)
    # Of each queue, while the message was on its way there.
    moods: dict[str, set[Mood]] = field(default_factory=dict)
    arrived: set[str] = field(default_factory=set)  # queues that had it when their mood changed
    restarts: int = 0  # of the process of its topic, since it began
    later_window: bool = False  # its deduplication id was used long before

    @property
    def text(self) -> str:
        return json.dumps({"id": self.id, "kind": self.kind})

    @property
    def answers(self) -> list[Published]:
        return [answer for each in self.attempts if (answer := each.answer) is not None]

    @property
    def is_acknowledged(self) -> bool:
        return bool(self.answers)

    @property
    def identities(self) -> set[Published]:
        """The ids and numbers under which it was published, as far as they are known."""
        return {*self.answers, *self.seen}

    @property
    def sequence(self) -> int | None:
        numbers = [int(each.sequence) for each in self.identities if each.sequence is not None]
        return min(numbers, default=None)

    @property
    def is_one(self) -> bool:
        """Whether all its attempts surely are one message."""
        ends = [each.ended_ms for each in self.attempts]
        if len(ends) == 1:
            return True
        began_ms = min(each.began_ms for each in self.attempts)
        return all(end is not None and end < began_ms + DEDUP_WINDOW_MS for end in ends)

    def note(self, envelope: Envelope) -> None:
        if not envelope.is_raw:
            self.seen.add(Published(envelope.fields["MessageId"], envelope.fields.get("SequenceNumber")))

    # -- what happens to it ------------------------------------------------------------------------------------

    def is_open(self, life: int) -> bool:
        """Whether it may still be decided. ``life``: of the process of its topic."""
        return any(not each.outcome.done and each.life == life for each in self.attempts)

    def begin(self, subscriber: Subscriber) -> None:
        """An attempt begins, with the subscriber as it is."""
        is_decided = bool(self.identities)
        for known in (self.since,) if is_decided else (self.decided_with, self.since):
            known[subscriber] = known.get(subscriber, frozenset()) | subscriber.possible

    def changed(self, subscriber: Subscriber, life: int) -> None:
        if subscriber in self.since:
            self.since[subscriber] |= subscriber.possible
            if self.is_open(life):
                self.decided_with[subscriber] |= subscriber.possible

    # -- what follows ------------------------------------------------------------------------------------------

    def may_reach(self, subscriber: Subscriber) -> bool:
        return any(each is not None and each.wants(self) for each in self.decided_with[subscriber])

    def must_reach(self, subscriber: Subscriber) -> bool:
        """Somehow: as a dead letter at least."""
        wanted = all(each is not None and each.wants(self) for each in self.decided_with[subscriber])
        return wanted and self.is_acknowledged

    def may_be_refused(self, subscriber: Subscriber) -> bool:
        """Whether it may have become a dead letter, or have been lost without a dead-letter queue."""
        if not subscriber.is_queue:
            return True
        moods = self.moods[subscriber.endpoint]
        # SNS: a standard topic tries again while a queue is full; a FIFO topic would break the order.
        return bool(moods & {"denies", "missing"}) or ("full" in moods and self.topic.is_fifo)

    def always_has_dead_letters(self, subscriber: Subscriber) -> bool:
        return all(each is not None and each.dead_letters for each in self.since[subscriber])

    def may_have_dead_letters(self, subscriber: Subscriber) -> bool:
        return any(each is not None and each.dead_letters for each in self.since[subscriber])

    def may_be(self, subscriber: Subscriber, *, raw: bool) -> bool:
        """Whether the subscriber may get it in this form. An HTTP endpoint gets the form of the time of the try."""
        possible = (self.decided_with if subscriber.is_queue else self.since)[subscriber]
        return any(each is not None and each.raw == raw for each in possible)


class Envelope:
    """What a subscriber got: a message as it was published, or in an envelope."""

    def __init__(self, body: str) -> None:
        read: dict[str, Any] = json.loads(body)
        self.is_raw = "id" in read
        self.text = body if self.is_raw else read["Message"]
        self.id: str = json.loads(self.text)["id"]
        self.fields = {} if self.is_raw else read

    @property
    def is_replayed(self) -> bool:
        return self.fields.get("Replayed") == "true"
