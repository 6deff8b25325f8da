"""Queues declared in the config file: the tables ``[queues.NAME]``.

Attributes have their AWS names; ``tags``, ``dead_letter`` and ``fifo`` are spelt the way people do. Values
are checked by the rules of the SQS face itself, before anything is started. The order of the tables does not
matter: queues are made first, and only then told where their dead letters go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.names import QueueName, Space
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.attributes import SETTABLE, with_attributes
from penstock.services.sqs.queues import declare_queue
from penstock.services.sqs.tags import merged
from penstock.services.sqs.validation import check_queue_name
from penstock.wire.registry import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

_SUGAR = ("dead_letter", "fifo", "tags")
_DOCUMENTS = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")


class DeclaredQueueError(Exception):
    """One line; ``unknown`` and ``known`` let whoever shows it suggest the nearest name."""

    def __init__(self, message: str, unknown: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.unknown = unknown
        self.known = tuple(known)


class DeadLetter(NamedTuple):
    queue: str
    receives_max: int


class DeclaredQueue(NamedTuple):
    name: str
    attributes: dict[str, str]
    tags: dict[str, str]
    dead_letter: DeadLetter | None

    def redrive(self, space: Space) -> dict[str, str]:
        """The attribute that says where its dead letters go, if they go anywhere."""
        if self.dead_letter is not None:
            target = QueueName(space.account, space.region, self.dead_letter.queue)
            policy = {"deadLetterTargetArn": target.arn, "maxReceiveCount": self.dead_letter.receives_max}
            return {"RedrivePolicy": json.dumps(policy)}
        return {name: value for name, value in self.attributes.items() if name == "RedrivePolicy"}

    def plain(self) -> dict[str, str]:
        """All other attributes."""
        return {name: value for name, value in self.attributes.items() if name != "RedrivePolicy"}

    def check(self, space: Space) -> None:
        """Raises DeclaredQueueError with SQS's own reason."""
        name = QueueName(space.account, space.region, self.name)
        fifo = "FifoQueue" in self.attributes
        try:
            check_queue_name(self.name, fifo=fifo)
            with_attributes(QueueSettings(fifo=fifo), self.plain() | self.redrive(space), name, new=True)
            merged({}, self.tags, self.name)
        except Fault as fault:
            raise DeclaredQueueError(f"queues.{self.name} is not right: {fault.message}") from None


def read_queues(tables: object) -> tuple[DeclaredQueue, ...]:
    """Raises DeclaredQueueError."""
    if not isinstance(tables, dict):
        raise DeclaredQueueError("queues is not right: write one table [queues.NAME] for each queue")
    return tuple(_read_queue(name, table) for name, table in tables.items())


async def declare_all(broker: Broker, queues: Iterable[DeclaredQueue], space: Space) -> None:
    """Make what is missing, change what differs. Dead letters last: a cycle, or a queue that names itself, is
    as fine as any order. Raises Fault or PenstockError."""
    queues = tuple(queues)
    for queue in queues:
        name = QueueName(space.account, space.region, queue.name)
        await declare_queue(broker, name, queue.plain(), queue.tags)
    for queue in queues:
        redrive = queue.redrive(space)
        if redrive:
            await declare_queue(broker, QueueName(space.account, space.region, queue.name), redrive, {})


def _read_queue(name: str, table: object) -> DeclaredQueue:
    path = f"queues.{name}"
    if not isinstance(table, dict):
        raise DeclaredQueueError(f"{path} is not right: write it as a table [queues.{name}]")
    attributes: dict[str, str] = {}
    for key, value in table.items():
        if key in SETTABLE:
            attributes[key] = _attribute(path, key, value)
        elif key not in _SUGAR:
            raise DeclaredQueueError(f'unknown setting "{key}" in [{path}]', key, (*SETTABLE, *_SUGAR))
    if _fifo(name, table.get("fifo"), attributes.get("FifoQueue")):
        attributes["FifoQueue"] = "true"
    else:
        attributes.pop("FifoQueue", None)
    dead_letter = _dead_letter(path, table["dead_letter"]) if "dead_letter" in table else None
    if dead_letter is not None and "RedrivePolicy" in attributes:
        raise DeclaredQueueError(f"{path} has both dead_letter and RedrivePolicy: give one of them")
    return DeclaredQueue(name, attributes, _tags(path, table.get("tags", {})), dead_letter)


def _attribute(path: str, key: str, value: object) -> str:
    """As SQS has it: all attributes are text."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case dict() if key in _DOCUMENTS:
            return json.dumps(value)
    allowed = "text, a whole number, true or false" + (" or a table" if key in _DOCUMENTS else "")
    raise DeclaredQueueError(f"{path}.{key} = {value} is not right: give {allowed}")


def _fifo(name: str, sugar: object, attribute: str | None) -> bool:
    if isinstance(sugar, dict):
        raise DeclaredQueueError(f'queues.{name}.fifo is a table: write [queues."{name}.fifo"] with quotes')
    if sugar is not None and not isinstance(sugar, bool):
        raise DeclaredQueueError(f"queues.{name}.fifo = {sugar} is not right: give true or false")
    wanted = attribute.lower() == "true" if attribute is not None else sugar
    named = name.endswith(".fifo")
    if wanted is not None and wanted != named:
        raise DeclaredQueueError(
            f'queues.{name} is not right: FIFO queues, and only they, are named "….fifo"'
        )
    return named


def _dead_letter(path: str, value: object) -> DeadLetter:
    known = {"queue", "max_receives"}
    if isinstance(value, dict):
        unknown = next((key for key in value if key not in known), None)
        if unknown is not None:
            raise DeclaredQueueError(f'unknown setting "{unknown}" in {path}.dead_letter', unknown, known)
        queue, receives = value.get("queue"), value.get("max_receives")
        if isinstance(queue, str) and queue and isinstance(receives, int) and not isinstance(receives, bool):
            return DeadLetter(queue, receives)
    raise DeclaredQueueError(
        f'{path}.dead_letter is not right: give {{queue = "NAME", max_receives = 3}} with your own values'
    )


def _tags(path: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise DeclaredQueueError(
            f'{path}.tags is not right: give a table of text such as {{team = "billing"}}'
        )
    return dict(value)
