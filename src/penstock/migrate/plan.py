"""The converted configuration: settings, queues, topics, and a note for everything that could not be carried over.

The reader of a format fills a plan and then validates it: each value is checked by the code that reads it at a start,
and what that code refuses becomes a note with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from penstock.names import Space
from penstock.server.settings.config import Config, settings
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.queues import check_queues, read_queues

Scalar = str | int | bool

EVERY_INTERFACE = (
    'it listened on every interface; Penstock listens on loopback unless host = "0.0.0.0" is set'
)


class ImportFailure(Exception):
    """One line for the operator: why the file cannot be read."""


@dataclass
class PlannedQueue:
    name: str
    attributes: dict[str, Scalar] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    dead_letter: tuple[str, int] | None = None  # the queue, and how many receives
    notes: list[str] = field(default_factory=list)

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    def read_redrive(self, policy: object) -> None:
        """Reads a redrive policy as SQS has it, as JSON text or a table."""
        try:
            fields = json.loads(policy) if isinstance(policy, str) else policy
        except (ValueError, RecursionError):
            fields = None
        match fields:
            case {"deadLetterTargetArn": str() as target, "maxReceiveCount": int() | str() as receives} if (
                str(receives).isdecimal() and len(str(receives)) < 10
            ):
                self.dead_letter = (target.rpartition(":")[2], int(receives))
            case _:
                shown = " ".join(str(policy).split())[:200]
                self.notes.append(
                    f"RedrivePolicy = {shown} was left out: it does not name deadLetterTargetArn and maxReceiveCount"
                )


@dataclass
class PlannedTopic:
    name: str
    attributes: dict[str, Scalar] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    subscriptions: list[dict[str, Scalar]] = field(default_factory=list)  # as tables of the config file
    notes: list[str] = field(default_factory=list)


@dataclass
class Plan:
    settings: dict[str, Scalar] = field(default_factory=dict)
    queues: dict[str, PlannedQueue] = field(default_factory=dict)
    topics: dict[str, PlannedTopic] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def losses(self) -> int:
        named: list[PlannedQueue | PlannedTopic] = [*self.queues.values(), *self.topics.values()]
        return len(self.notes) + sum(len(each.notes) for each in named)

    def set(self, setting: str, value: Scalar, origin: str) -> None:
        """Carry a setting over, or note why that is not possible."""
        type_ = settings()[setting].type
        try:
            type_.parse(value)
        except ValueError:
            self.notes.append(f"{origin} = {value} was left out: {setting} must be {type_.expected}")
        else:
            self.settings[setting] = value

    def validate(self) -> None:
        """Keep only what a start would accept."""
        space = Space(
            str(self.settings.get("account", Config.account)), str(self.settings.get("region", Config.region))
        )
        for queue in list(self.queues.values()):
            check: _Check = partial(_refused, queue.name, space)
            if (reason := check({})) is not None:
                del self.queues[queue.name]
                self.notes.append(f'the queue "{queue.name}" was left out: {reason}')
                continue
            _validate_attributes(queue, check)
        for queue in self.queues.values():
            self._validate_dead_letter(queue, space)
        for topic in list(self.topics.values()):
            check = partial(_topic_refused, topic.name, space)
            if (reason := check({})) is not None:
                del self.topics[topic.name]
                self.notes.append(f'the topic "{topic.name}" was left out: {reason}')
                continue
            _validate_attributes(topic, check)
            _validate_subscriptions(topic, check)

    def _validate_dead_letter(self, queue: PlannedQueue, space: Space) -> None:
        if queue.dead_letter is None:
            return
        name, receives = queue.dead_letter
        target = self.queues.get(name)
        if target is None:
            reason: str | None = "there is no such queue in the file"
        elif target.fifo != queue.fifo:
            reason = "the dead-letter queue of a FIFO queue must be FIFO, that of a standard queue standard"
        else:
            reason = _refused(queue.name, space, {"dead_letter": {"queue": name, "max_receives": receives}})
        if reason is not None:
            queue.dead_letter = None
            queue.notes.append(
                f'its dead-letter queue "{name}" after {receives} receives was left out: {reason}'
            )


_Check = Callable[[Mapping[str, object]], str | None]
"""Why a start would refuse this queue or topic with these settings."""


def _validate_attributes(named: PlannedQueue | PlannedTopic, refused: _Check) -> None:
    if refused({**named.attributes, "tags": named.tags}) is None:
        return
    for name, value in list(named.attributes.items()):
        if (reason := refused({name: value})) is not None:
            del named.attributes[name]
            named.notes.append(f"{name} = {value} was left out: {reason}")
    for key, text in list(named.tags.items()):
        if (reason := refused({"tags": {key: text}})) is not None:
            del named.tags[key]
            named.notes.append(f'the tag "{key}" was left out: {reason}')


_WHERE = ("queue", "endpoint", "protocol")


def _validate_subscriptions(topic: PlannedTopic, refused: _Check) -> None:
    accepted: list[dict[str, Scalar]] = []
    for table in topic.subscriptions:
        if refused({"subscriptions": [*accepted, table]}) is None:
            accepted.append(table)
            continue
        bare = {key: value for key, value in table.items() if key in _WHERE}
        shown = bare.get("queue") or bare.get("endpoint")
        if (reason := refused({"subscriptions": [*accepted, bare]})) is not None:
            topic.notes.append(f'the subscription of "{shown}" was left out: {reason}')
            continue
        for key, value in table.items():
            if key in bare:
                continue
            if (reason := refused({"subscriptions": [{**bare, key: value}]})) is None:
                bare[key] = value
            else:
                topic.notes.append(f'{key} = {value} of the subscription of "{shown}" was left out: {reason}')
        accepted.append(bare)
    topic.subscriptions = accepted


def _refused(name: str, space: Space, table: Mapping[str, object]) -> str | None:
    """Why a start would refuse this queue with these settings."""
    try:
        check_queues(read_queues({name: dict(table)}), space)
    except DeclarationError as error:
        return str(error).removeprefix(f"invalid queue queues.{name}: ")  # the note names the queue already
    return None


def _topic_refused(name: str, space: Space, table: Mapping[str, object]) -> str | None:
    """Why a start would refuse this topic with these settings."""
    from penstock.server.settings.topic_plans import check_topics
    from penstock.server.settings.topics import read_topics

    try:
        check_topics(read_topics({name: dict(table)}), space)
    except DeclarationError as error:
        return str(error).removeprefix(f"invalid topic topics.{name}: ")
    return None
