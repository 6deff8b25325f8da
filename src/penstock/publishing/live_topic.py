"""A topic in memory: its subscriptions, with all that a publication needs of them worked out once.

Most subscriptions of a large topic have a filter, and a message passes few of them. So filters are compiled when a
subscription changes, and indexed: a publication looks at those that its values lead to, not at all of them."""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from penstock.broker.handover import QueueTarget
from penstock.errors import TooMuchWork
from penstock.names import QueueName
from penstock.patterns import (
    Outcome,
    Pattern,
    PatternIndex,
    Subject,
    attributes_subject,
    body_subject,
    compile_pattern,
)
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, SubscriptionState, Topic
from penstock.turns import Steps

log = logging.getLogger("penstock.topics")

QUEUES = "sqs"  # the protocol
BODY_SCOPE, ATTRIBUTES_SCOPE = "MessageBody", "MessageAttributes"


class TopicRoute(msgspec.Struct, frozen=True, eq=False):
    """A confirmed subscription, and what follows from its settings."""

    subscription: Subscription
    target: QueueTarget | None  # None: its endpoint is not a queue
    is_raw: bool
    to_fifo: bool  # its endpoint is a FIFO queue
    dead_letters: QueueName | None

    @classmethod
    def of(cls, subscription: Subscription) -> TopicRoute:
        queue = QueueName.of_arn(subscription.endpoint) if subscription.protocol == QUEUES else None
        arn = subscription.name.arn
        is_raw = subscription.is_raw
        target = None if queue is None else QueueTarget(queue, arn, "" if is_raw else arn)
        to_fifo = queue is not None and queue.name.endswith(".fifo")
        return cls(subscription, target, is_raw, to_fifo, dead_letter_queue(subscription))


def dead_letter_queue(subscription: Subscription) -> QueueName | None:
    text = subscription.attributes.get("RedrivePolicy")
    if not text:
        return None
    return QueueName.of_arn(_decode_redrive(text).deadLetterTargetArn)


class _RedrivePolicy(msgspec.Struct):
    deadLetterTargetArn: str


_decode_redrive = msgspec.json.Decoder(_RedrivePolicy).decode


def filter_of(subscription: Subscription) -> tuple[str, Pattern] | None:
    """The scope of the filter of a subscription and the compiled filter; None if it has none."""
    policy = subscription.attributes.get("FilterPolicy")
    if not policy:
        return None
    scope = subscription.attributes.get("FilterPolicyScope", ATTRIBUTES_SCOPE)
    return scope, compile_pattern(policy, nested=scope == BODY_SCOPE)


class Matched(NamedTuple):
    """Who gets a publication, and how many do not, by the reason."""

    routes: list[TopicRoute]
    filtered: dict[tuple[str, Outcome], int]  # (scope, outcome) -> subscriptions


class LiveTopic:
    """The confirmed subscriptions of one topic. ``version`` changes with each of them."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.version = 0
        self.matching = 0  # publications whose filters are being looked at: then nothing may change
        self._unfiltered: dict[str, TopicRoute] = {}
        self._filtered: dict[str, tuple[_Key, TopicRoute]] = {}
        # A structured message has a body for each protocol, so that filters of bodies are separate for each.
        self._indexes: dict[_Key, PatternIndex[str]] = {}

    def put(self, subscription: Subscription) -> None:
        id = subscription.name.id
        self.remove(id)
        if subscription.state is not SubscriptionState.CONFIRMED:
            return
        route, found = TopicRoute.of(subscription), filter_of(subscription)
        if found is None:
            self._unfiltered[id] = route
            return
        scope, pattern = found
        key = _Key(scope, subscription.protocol if scope == BODY_SCOPE else "")
        self._filtered[id] = key, route
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = PatternIndex()
        index.add(id, pattern)

    def remove(self, id: str) -> None:
        self.version += 1
        self._unfiltered.pop(id, None)
        filtered = self._filtered.pop(id, None)
        if filtered is not None:
            key, _ = filtered
            index = self._indexes[key]
            index.remove(id)
            if not len(index):
                del self._indexes[key]

    def match(self, publication: Publication) -> Steps[Matched]:
        """Who gets a publication. It takes several steps if the message is long."""
        self.matching += 1
        try:
            return (yield from self._match(publication))
        finally:
            self.matching -= 1

    def _match(self, publication: Publication) -> Steps[Matched]:
        routes, filtered = list(self._unfiltered.values()), dict[tuple[str, Outcome], int]()
        subjects: dict[tuple[str, str], Subject] = {}
        for key, index in self._indexes.items():
            # SNS: the filter sees the body that was chosen for the protocol.
            text = publication.text_for(key.protocol) if key.scope == BODY_SCOPE else ""
            subject = subjects.get((key.scope, text))
            if subject is None:
                subject = subjects[key.scope, text] = subject_of(key.scope, text, publication)
            outcome = subject.problem or Outcome.MISMATCH
            try:
                ids = yield from index.matching_steps(subject)
            except TooMuchWork:
                log.warning("a message of the topic %s is too complex for its filters", self.topic.name.arn)
                ids, outcome = [], Outcome.INVALID_BODY
            routes += [self._filtered[id][1] for id in ids]
            if left := len(index) - len(ids):
                filtered[key.scope, outcome] = filtered.get((key.scope, outcome), 0) + left
        return Matched(routes, filtered)


class _Key(NamedTuple):
    scope: str
    protocol: str  # of filters of bodies


def subject_of(scope: str, text: str, publication: Publication) -> Subject:
    """What filters of this scope look at in a message whose text is ``text``."""
    if scope == BODY_SCOPE:
        return body_subject(text)
    attributes = publication.attributes or {}
    return attributes_subject(
        {
            name: (each.type, each.value if isinstance(each.value, str) else None)
            for name, each in attributes.items()
        }
    )
