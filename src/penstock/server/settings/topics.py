"""Topics declared in the config file: the tables ``[topics.NAME]``, each with its subscriptions.

Attributes have their AWS names; ``tags`` and ``fifo`` are shorthands, and ``queue``, ``filter`` and others of a
subscription. Values are validated by the SNS service itself, before anything is created.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.client.topic_names import Subscriber, is_arn, read_subscriber
from penstock.names import QueueName, Space
from penstock.server.settings.declared import (
    DeclarationError,
    attribute_text,
    is_fifo,
    json_text,
    read_tags,
)
from penstock.services.sns.filter_policy import ATTRIBUTES, BODY, POLICY, SCOPE
from penstock.services.sns.subscription_attributes import DELIVERY, RAW, REDRIVE
from penstock.services.sns.topic_attributes import ARCHIVE, FIFO
from penstock.services.sns.topic_attributes import SETTABLE as TOPIC_ATTRIBUTES

SUBSCRIPTION_ATTRIBUTES = (RAW, POLICY, SCOPE, REDRIVE, DELIVERY)
_DOCUMENTS = (ARCHIVE, DELIVERY, POLICY, "Policy", REDRIVE)
_OF_TOPICS = ("fifo", "subscriptions", "tags")
_OF_SUBSCRIPTIONS = {  # shorthand: the attribute in its place
    "raw": RAW,
    "filter": POLICY,
    "filter_scope": SCOPE,
    "dead_letter_queue": REDRIVE,
}
_ENDPOINTS = ("queue", "endpoint", "protocol")
_SCOPES = {"attributes": ATTRIBUTES, "body": BODY}
_ENDPOINT_EXPECTED = (
    'expected a URL, "mailto:ADDRESS", "sms:NUMBER" or an ARN; or protocol = "email-json" beside an address'
)


class DeclaredSubscription(NamedTuple):
    subscriber: Subscriber  # of "sqs": the name of a queue, or its ARN
    attributes: dict[str, str]
    dead_letter_queue: str | None = None  # its name, or its ARN

    @property
    def shown(self) -> str:
        protocol, endpoint = self.subscriber
        return f"queue {endpoint}" if protocol == "sqs" else f"{protocol} {endpoint}"

    def queues(self, space: Space) -> Iterator[QueueName]:
        """The queues that the subscription sends to."""
        protocol, endpoint = self.subscriber
        for queue in (endpoint if protocol == "sqs" else None, self.dead_letter_queue):
            name = None if queue is None else QueueName.of_arn(_queue_arn(queue, space))
            if name is not None:
                yield name

    def endpoint(self, space: Space) -> str:
        """The endpoint as SNS takes it."""
        protocol, endpoint = self.subscriber
        return _queue_arn(endpoint, space) if protocol == "sqs" else endpoint

    def all_attributes(self, space: Space) -> dict[str, str]:
        """Returns the attributes with ``dead_letter_queue`` written out as a RedrivePolicy."""
        if self.dead_letter_queue is None:
            return self.attributes
        target = {"deadLetterTargetArn": _queue_arn(self.dead_letter_queue, space)}
        return self.attributes | {REDRIVE: json.dumps(target)}


class DeclaredTopic(NamedTuple):
    name: str
    attributes: dict[str, str]
    tags: dict[str, str]
    subscriptions: tuple[DeclaredSubscription, ...]


def _queue_arn(queue: str, space: Space) -> str:
    return queue if is_arn(queue) else QueueName(space.account, space.region, queue).arn


# -- reading ------------------------------------------------------------------------------------------------------


def read_topics(tables: object) -> tuple[DeclaredTopic, ...]:
    """Raises DeclarationError."""
    if not isinstance(tables, dict):
        raise DeclarationError("invalid value for topics: expected one table [topics.NAME] for each topic")
    return tuple(_read_topic(name, table) for name, table in tables.items())


def _read_topic(name: str, table: object) -> DeclaredTopic:
    path = f"topics.{name}"
    if not isinstance(table, dict):
        raise DeclarationError(f"invalid value for {path}: expected a table [topics.{name}]")
    attributes: dict[str, str] = {}
    for key, value in table.items():
        if key in TOPIC_ATTRIBUTES:
            attributes[key] = attribute_text(path, key, value, is_document=key in _DOCUMENTS)
        elif key not in _OF_TOPICS:
            known = (*TOPIC_ATTRIBUTES, *_OF_TOPICS)
            raise DeclarationError(f'unknown setting "{key}" in [{path}]', key, known)
    if is_fifo("topic", name, table.get("fifo"), attributes.get(FIFO)):
        attributes[FIFO] = "true"
    else:
        attributes.pop(FIFO, None)
    subscriptions = table.get("subscriptions", [])
    if not isinstance(subscriptions, list):
        raise DeclarationError(
            f"invalid value for {path}.subscriptions: expected one [[{path}.subscriptions]] for each subscription"
        )
    read = [_read_subscription(path, number, each) for number, each in enumerate(subscriptions, 1)]
    _check_once(path, read)
    return DeclaredTopic(name, attributes, read_tags(path, table.get("tags", {})), tuple(read))


def _check_once(path: str, subscriptions: list[DeclaredSubscription]) -> None:
    seen: set[Subscriber] = set()
    for each in subscriptions:
        if each.subscriber in seen:
            raise DeclarationError(f"{path} has two subscriptions of {each.shown}: remove one of them")
        seen.add(each.subscriber)


def _read_subscription(topic: str, number: int, table: object) -> DeclaredSubscription:
    path = f"{topic}.subscriptions[{number}]"
    if not isinstance(table, dict):
        raise DeclarationError(f"invalid value for {path}: expected a table [[{topic}.subscriptions]]")
    known = (*_ENDPOINTS, *_OF_SUBSCRIPTIONS, *SUBSCRIPTION_ATTRIBUTES)
    if (unknown := next((key for key in table if key not in known), None)) is not None:
        raise DeclarationError(f'unknown setting "{unknown}" in {path}', unknown, known)
    for shorthand, attribute in _OF_SUBSCRIPTIONS.items():
        if shorthand in table and attribute in table:
            raise DeclarationError(f"{path} has both {shorthand} and {attribute}: remove one of them")
    attributes = {
        key: attribute_text(path, key, value, is_document=key in _DOCUMENTS)
        for key, value in table.items()
        if key in SUBSCRIPTION_ATTRIBUTES
    }
    attributes |= _shorthands(path, table)
    target = table.get("dead_letter_queue")
    if target is not None and not (isinstance(target, str) and target):
        raise DeclarationError(
            f"invalid value {target} for {path}.dead_letter_queue: expected the name of a queue"
        )
    return DeclaredSubscription(_subscriber(path, table), attributes, target)


def _shorthands(path: str, table: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    raw, scope = table.get("raw"), table.get("filter_scope")
    if raw is not None:
        if not isinstance(raw, bool):
            raise DeclarationError(f"invalid value {raw} for {path}.raw: expected true or false")
        found[RAW] = "true" if raw else "false"
    match table.get("filter"):
        case None:
            pass
        case str(text):
            found[POLICY] = text
        case dict(policy):
            found[POLICY] = json_text(path, "filter", policy)
        case other:
            raise DeclarationError(
                f"invalid value {other} for {path}.filter: expected a table, or JSON as text"
            )
    if scope is not None:
        if scope not in _SCOPES:
            raise DeclarationError(
                f'invalid value {scope} for {path}.filter_scope: expected "attributes" or "body"'
            )
        found[SCOPE] = _SCOPES[str(scope)]
    return found


def _subscriber(path: str, table: Mapping[str, object]) -> Subscriber:
    """Reads ``queue``, or ``endpoint`` and perhaps ``protocol``."""
    queue, endpoint, protocol = (table.get(key) for key in _ENDPOINTS)
    if (queue is None) == (endpoint is None):
        raise DeclarationError(f"{path} needs either queue or endpoint")
    if queue is not None:
        if not isinstance(queue, str) or not queue or protocol is not None:
            raise DeclarationError(
                f"invalid value {queue} for {path}.queue: expected the name of a queue, no protocol"
            )
        return Subscriber("sqs", queue)
    if isinstance(endpoint, str) and isinstance(protocol, str) and endpoint and protocol:
        read = read_subscriber(endpoint)
        return Subscriber(protocol, endpoint if read is None or is_arn(endpoint) else read.endpoint)
    subscriber = read_subscriber(endpoint) if isinstance(endpoint, str) and protocol is None else None
    if subscriber is None:
        raise DeclarationError(f"invalid value {endpoint} for {path}.endpoint: {_ENDPOINT_EXPECTED}")
    return subscriber
