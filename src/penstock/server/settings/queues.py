"""Queues declared in the config file: the tables ``[queues.NAME]``.

Attributes have their AWS names; ``tags``, ``dead_letter`` and ``fifo`` are shorthands. Values are validated by the
SQS service itself. Everything is checked before anything is created, so tables can stand in any order, dead-letter
queues can form cycles, and a start that is refused leaves no queue behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import QueueDeletedRecently
from penstock.names import QueueName, Space
from penstock.queues.settings import QueueDefinition, QueueRecord, QueueSettings
from penstock.server.settings.declared import DeclarationError, attribute_text, is_fifo, read_tags
from penstock.services.sqs.attributes import SETTABLE, with_attributes
from penstock.services.sqs.redrive import check_redrive_target
from penstock.services.sqs.tags import merged
from penstock.services.sqs.validation import check_queue_name
from penstock.wire.service import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue

_SHORTHANDS = ("dead_letter", "fifo", "tags")
_DOCUMENTS = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")


class DeadLetter(NamedTuple):
    queue: str
    receives_max: int


class DeclaredQueue(NamedTuple):
    name: str
    attributes: dict[str, str]
    tags: dict[str, str]
    dead_letter: DeadLetter | None

    @property
    def fifo(self) -> bool:
        return "FifoQueue" in self.attributes

    def all_attributes(self, space: Space) -> dict[str, str]:
        """Returns the attributes with ``dead_letter`` written out as a RedrivePolicy."""
        if self.dead_letter is None:
            return self.attributes
        target = QueueName(space.account, space.region, self.dead_letter.queue)
        policy = {"deadLetterTargetArn": target.arn, "maxReceiveCount": self.dead_letter.receives_max}
        return self.attributes | {"RedrivePolicy": json.dumps(policy)}


def check_queues(
    queues: Sequence[DeclaredQueue], space: Space, existing: Mapping[QueueName, QueueRecord] | None = None
) -> None:
    """Raises DeclarationError. ``existing``: the queues of the store. None: they are not known, and a dead-letter
    queue that is not declared may be one of them."""
    found, known = existing or {}, existing is not None
    _plan(queues, space, existing=found.get, is_known=lambda name: known)


async def declare_queues(broker: Broker, queues: Sequence[DeclaredQueue], space: Space) -> int:
    """Create what is missing, change what differs, in the shards of this process: all of a shard in one commit, or
    none. Returns how many were created or changed. Raises DeclarationError before anything is changed, or
    PenstockError."""
    plans = [plan for plan in _plan(queues, space, broker.by_name.get, broker.owns) if broker.owns(plan.name)]
    try:
        # No quota: it would need all shards, and a shard is served only when its declared queues exist.
        return await broker.define(plans)
    except QueueDeletedRecently:
        raise DeclarationError("one of them was deleted less than a minute ago: try again") from None


def _plan(
    queues: Sequence[DeclaredQueue],
    space: Space,
    existing: Callable[[QueueName], LiveQueue | QueueRecord | None],
    is_known: Callable[[QueueName], bool],
) -> list[QueueDefinition]:
    """``is_known``: whether ``existing`` can tell if this queue exists."""
    plans: dict[QueueName, QueueDefinition] = {}
    for queue in queues:
        name = QueueName(space.account, space.region, queue.name)
        found = existing(name)
        with _naming(queue):
            check_queue_name(queue.name, fifo=queue.fifo)
            settings = QueueSettings(fifo=queue.fifo) if found is None else found.settings
            settings = with_attributes(settings, queue.all_attributes(space), name, new=found is None)
            tags = merged({} if found is None else found.tags, queue.tags, queue.name)
        plans[name] = QueueDefinition(name, settings, tags)
    for queue, plan in zip(queues, plans.values(), strict=True):
        policy, redrive = queue.all_attributes(space).get("RedrivePolicy"), plan.settings.redrive
        if policy is None or redrive is None:
            continue
        target = plans.get(redrive.target) or existing(redrive.target)
        if target is not None or is_known(redrive.target):
            with _naming(queue):
                target_settings = None if target is None else target.settings
                check_redrive_target(target_settings, redrive, policy, plan.name, fifo=queue.fifo)
    return list(plans.values())


@contextmanager
def _naming(queue: DeclaredQueue) -> Iterator[None]:
    try:
        yield
    except Fault as fault:
        raise DeclarationError(f"invalid queue queues.{queue.name}: {fault.message}") from None


def read_queues(tables: object) -> tuple[DeclaredQueue, ...]:
    """Raises DeclarationError."""
    if not isinstance(tables, dict):
        raise DeclarationError("invalid value for queues: expected one table [queues.NAME] for each queue")
    return tuple(_read_queue(name, table) for name, table in tables.items())


def _read_queue(name: str, table: object) -> DeclaredQueue:
    path = f"queues.{name}"
    if not isinstance(table, dict):
        raise DeclarationError(f"invalid value for {path}: expected a table [queues.{name}]")
    attributes: dict[str, str] = {}
    for key, value in table.items():
        if key in SETTABLE:
            attributes[key] = attribute_text(path, key, value, is_document=key in _DOCUMENTS)
        elif key not in _SHORTHANDS:
            raise DeclarationError(f'unknown setting "{key}" in [{path}]', key, (*SETTABLE, *_SHORTHANDS))
    if is_fifo("queue", name, table.get("fifo"), attributes.get("FifoQueue")):
        attributes["FifoQueue"] = "true"
    else:
        attributes.pop("FifoQueue", None)
    dead_letter = _dead_letter(path, table["dead_letter"]) if "dead_letter" in table else None
    if dead_letter is not None and "RedrivePolicy" in attributes:
        raise DeclarationError(f"{path} has both dead_letter and RedrivePolicy: remove one of them")
    return DeclaredQueue(name, attributes, read_tags(path, table.get("tags", {})), dead_letter)


def _dead_letter(path: str, value: object) -> DeadLetter:
    known = {"queue", "max_receives"}
    if isinstance(value, dict):
        unknown = next((key for key in value if key not in known), None)
        if unknown is not None:
            raise DeclarationError(f'unknown setting "{unknown}" in {path}.dead_letter', unknown, known)
        queue, receives = value.get("queue"), value.get("max_receives")
        if isinstance(queue, str) and queue and isinstance(receives, int) and not isinstance(receives, bool):
            return DeadLetter(queue, receives)
    raise DeclarationError(
        f'invalid value for {path}.dead_letter: expected a table such as {{queue = "NAME", max_receives = 3}}'
    )
