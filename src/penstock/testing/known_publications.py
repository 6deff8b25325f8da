"""What was published to the topics of a broker, and whom the filters chose, for the assertions of tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.patterns import Subject, explain
from penstock.publishing.live_topic import BODY_SCOPE, TopicRoute, filter_of, subject_of
from penstock.publishing.publisher import Published
from penstock.publishing.publishing import Publishing
from penstock.testing.publications import PublicationSnapshot
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, SubscriptionState, Topic

PUBLICATIONS_MAX = 10_000
BYTES_MAX = 100 * 1024 * 1024
_SUBSCRIPTIONS_MAX = 1000  # of one topic, that are looked at
_FINDINGS_MAX = 5


class KnownPublication(NamedTuple):
    topic: TopicName
    id: str
    publication: Publication
    chosen: tuple[str, ...]  # endpoints
    others: tuple[Subscription, ...]

    @property
    def size(self) -> int:
        return len(self.publication.message)

    def snapshot(self) -> PublicationSnapshot:
        given = self.publication
        return PublicationSnapshot(
            id=self.id,
            topic=self.topic.name,
            body=given.message,
            bodies=dict(given.by_protocol or {}),
            subject=given.subject,
            attributes={name: each.value for name, each in (given.attributes or {}).items()},
            group=given.group,
            chosen=self.chosen,
            filtered_out={each.endpoint: _why(each, given) for each in self.others},
        )


class KnownPublications:
    """The latest publications. Everything is called on the loop of the broker."""

    def __init__(self, publications_max: int = PUBLICATIONS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._publications_max = publications_max
        self._bytes_max = bytes_max
        self._known: deque[KnownPublication] = deque()
        self._bytes = 0

    def follow(self, publishing: Publishing) -> None:
        """Learn of everything that is published from now on."""

        def noted(
            topic: Topic, given: Publication, published: Published, routes: Sequence[TopicRoute]
        ) -> None:
            records = publishing.at(topic.name).subscriptions_of(topic.name, "", _SUBSCRIPTIONS_MAX)
            chosen = {route.subscription.name for route in routes}
            others = (each for each in records if each.name not in chosen)
            endpoints = tuple(route.subscription.endpoint for route in routes)
            self._add(
                KnownPublication(topic.name, published.message_id, given, endpoints, _confirmed(others))
            )

        publishing.watchers.append(noted)

    def of_topic(self, arn_or_name: str) -> list[KnownPublication]:
        """Returns what was published to a topic, oldest first."""
        return [each for each in self._known if arn_or_name in (each.topic.arn, each.topic.name)]

    def topics(self) -> set[str]:
        """The names of topics to which something was published."""
        return {each.topic.name for each in self._known}

    def clear(self) -> None:
        self._known.clear()
        self._bytes = 0

    def _add(self, known: KnownPublication) -> None:
        self._known.append(known)
        self._bytes += known.size
        while len(self._known) > self._publications_max or self._bytes > self._bytes_max:
            self._bytes -= self._known.popleft().size


def _confirmed(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    return tuple(each for each in subscriptions if each.state is SubscriptionState.CONFIRMED)


def _why(subscription: Subscription, publication: Publication) -> str:
    """Why a filter did not choose a message, in words."""
    found = filter_of(subscription)
    if found is None:
        return "it was subscribed after the message was published"
    scope, pattern = found
    text = publication.text_for(subscription.protocol) if scope == BODY_SCOPE else ""
    return _in_words(scope, pattern, subject_of(scope, text, publication))


def _in_words(scope: str, pattern: object, subject: Subject) -> str:
    try:
        explanation = explain(pattern, subject)  # type: ignore[arg-type]
    except PenstockError as error:
        return f"the filter could not be applied: {error}"
    lines = [f"{explanation.reason} (the scope of the filter is {scope})"]
    failed = [each for each in explanation.findings if not each.passed]
    for each in failed[:_FINDINGS_MAX]:
        values = ", ".join(each.found) or "nothing"
        lines.append(f"{each.path}: {each.condition} does not accept {values}: {each.reason}")
    if len(failed) > _FINDINGS_MAX:
        lines.append(f"({len(failed) - _FINDINGS_MAX} more conditions did not pass)")
    return "\n".join(lines)
