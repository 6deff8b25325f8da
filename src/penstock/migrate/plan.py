"""The converted configuration: settings, queues, and a note for everything that could not be carried over.

The reader of a format fills a plan and then validates it: each value is checked by the code that reads it at a start,
and what that code refuses becomes a note with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.names import Space
from penstock.server.settings.config import Config, settings
from penstock.server.settings.queues import DeclaredQueueError, check_queues, read_queues

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


@dataclass
class Plan:
    settings: dict[str, Scalar] = field(default_factory=dict)
    queues: dict[str, PlannedQueue] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def losses(self) -> int:
        return len(self.notes) + sum(len(queue.notes) for queue in self.queues.values())

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
            if (reason := _refused(queue.name, {}, space)) is not None:
                del self.queues[queue.name]
                self.notes.append(f'the queue "{queue.name}" was left out: {reason}')
                continue
            _validate_attributes(queue, space)
        for queue in self.queues.values():
            self._validate_dead_letter(queue, space)

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
            reason = _refused(queue.name, {"dead_letter": {"queue": name, "max_receives": receives}}, space)
        if reason is not None:
            queue.dead_letter = None
            queue.notes.append(
                f'its dead-letter queue "{name}" after {receives} receives was left out: {reason}'
            )


def _validate_attributes(queue: PlannedQueue, space: Space) -> None:
    if _refused(queue.name, {**queue.attributes, "tags": queue.tags}, space) is None:
        return
    for name, value in list(queue.attributes.items()):
        if (reason := _refused(queue.name, {name: value}, space)) is not None:
            del queue.attributes[name]
            queue.notes.append(f"{name} = {value} was left out: {reason}")
    for key, text in list(queue.tags.items()):
        if (reason := _refused(queue.name, {"tags": {key: text}}, space)) is not None:
            del queue.tags[key]
            queue.notes.append(f'the tag "{key}" was left out: {reason}')


def _refused(name: str, table: Mapping[str, object], space: Space) -> str | None:
    """Why a start would refuse this queue with these settings."""
    try:
        check_queues(read_queues({name: dict(table)}), space)
    except DeclaredQueueError as error:
        return str(error).removeprefix(f"invalid queue queues.{name}: ")  # the note names the queue already
    return None
