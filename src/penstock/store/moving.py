"""How records get to another store: ``penstock migrate`` asks each kind of record where its records go.

A kind says it where it is declared, with one of the functions below or with one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.names import Home, QueueName, shard_of


class StoredRecord(NamedTuple):
    kind: str
    key: str
    data: bytes


class QueuePlace(NamedTuple):
    """Where a queue goes. Its id, and the numbers of its messages, are raised."""

    target: int
    raised_by: int


class Relocation(Protocol):
    """What is known about one shard of the source and where its contents go."""

    @property
    def shards(self) -> int:
        """How many shards the target has."""

    @property
    def fed(self) -> Sequence[int]:
        """The shards of the target that take something of this one."""

    @property
    def fed_alone(self) -> Sequence[int]:
        """The shards of the target that take something of this one and nothing of another one."""

    def queue(self, id: int) -> QueuePlace | None:
        """Returns where a queue goes; None if the queue is gone."""

    def returning(self, task: str) -> int:
        """How many messages of a task go back to their queue, because they never arrived in another shard."""


MovedRecords = Sequence[tuple[int, StoredRecord]]
"""Records, each with its shard of the target."""

Move = Callable[[Relocation, StoredRecord], MovedRecords]


def by_home(to: Relocation, record: StoredRecord) -> MovedRecords:
    """The key begins with the home of what the record is about (:class:`penstock.names.Home`)."""
    return [(Home.of_key(record.key).shard(to.shards), record)]


def by_queue(queue_of: Callable[[StoredRecord], QueueName]) -> Move:
    """The record goes to the shard of the queue that it is about."""
    return lambda to, record: [(shard_of(queue_of(record), to.shards), record)]


def to_all_fed(to: Relocation, record: StoredRecord) -> MovedRecords:
    """The record is about the shard, and holds for each that takes something of it."""
    return [(index, record) for index in to.fed]


def to_fed_alone(to: Relocation, record: StoredRecord) -> MovedRecords:
    """The record is about numbers of the shard, which mean something only where they are not mixed with others."""
    return [(index, record) for index in to.fed_alone]


def left_out(to: Relocation, record: StoredRecord) -> MovedRecords:
    """The target makes its own."""
    return []
