"""What a decision changes, in the shape a store writes it: one :class:`Changes` is one commit.

Rows are tuples made at the moment of the decision, so that memory may go on while the store writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.names import QueueName
from penstock.queues.settings import QueueSettings

if TYPE_CHECKING:
    from penstock.queues.messages import Entry


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as the store keeps it."""

    id: int
    name: QueueName
    settings: QueueSettings
    tags: dict[str, str]
    created_ms: int
    modified_ms: int
    purged_to: int = 0  # positions up to here were purged: void, whether or not their rows are still there
    purged_ms: int = 0


class MoveTaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: QueueName
    destination: QueueName | None
    rate: int | None
    status: str
    started_ms: int
    to_move: int
    moved: int = 0
    failure: str | None = None
    only_to: frozenset[QueueName] | None = None
    """Where messages may go back to; None: wherever they came from."""
    moves_max: int | None = None
    """How many messages the source held when it began; None: it began before there was such a bound."""


class EntryRow(NamedTuple):
    """A message as the store keeps it. ``content`` is None where a read did not ask for it."""

    seq: int
    queue: int
    position: int
    group: str | None
    enqueued_ms: int
    due_ms: int
    receives: int
    receives_before: int
    first_received_ms: int
    source: str | None
    content: bytes | None


class EntryUpdate(NamedTuple):
    """The changed part of a message: received, hidden, shown, or moved to another queue."""

    seq: int
    queue: int
    position: int
    enqueued_ms: int
    due_ms: int
    receives: int
    receives_before: int
    first_received_ms: int
    source: str | None


class DedupRow(NamedTuple):
    """A send that is remembered: the same digest in the same queue is a duplicate until ``until_ms``."""

    queue: int
    seq: int
    digest: bytes
    until_ms: int


_SHORT_ROWS, _SHORT_BYTES = 512, 256 * 1024
_new = tuple.__new__  # a named tuple's own constructor is Python, and takes twice as long


class Changes:
    """The batch that is being filled. ``number`` is its place in the shard's log; ``durable`` the last one kept."""

    __slots__ = (
        "added", "bytes", "cooldowns", "dedup", "dedup_forgotten", "dropped", "durable", "forgotten_rows",
        "number", "purged", "queues", "removed", "tasks", "updated",
    )  # fmt: skip

    def __init__(self, number: int, durable: int) -> None:
        self.number = number
        self.durable = durable
        self.added: list[EntryRow] = []
        self.bytes = 0  # of the contents among them
        self.updated: dict[int, EntryUpdate] = {}
        self.removed: list[int] = []
        self.dedup: list[DedupRow] = []
        self.dedup_forgotten: dict[int, int] = {}  # queue -> every remembered send up to this seq
        self.forgotten_rows = 0  # how many those are
        self.queues: dict[int, QueueRecord] = {}
        # Queue -> every position up to this one, and its deduplication memory.
        self.purged: dict[int, int] = {}
        self.dropped: list[int] = []  # queues, with all they hold
        self.cooldowns: dict[QueueName, int | None] = {}  # a deleted name and when it may be used again
        self.tasks: dict[str, MoveTaskRecord | None] = {}

    def __bool__(self) -> bool:
        return bool(
            self.added or self.updated or self.removed or self.dedup or self.dedup_forgotten or self.queues
            or self.purged or self.dropped or self.cooldowns or self.tasks
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """Of messages."""
        return len(self.added) + len(self.updated) + len(self.removed)

    @property
    def is_short(self) -> bool:
        """Can it be written quickly, if anything can? Forgotten sends may be a million rows."""
        return self.rows + self.forgotten_rows <= _SHORT_ROWS and self.bytes <= _SHORT_BYTES

    def forget_sends(self, queue: int, upto: int, rows: int) -> None:
        """Remove the remembered sends of a queue up to this seq; about how many rows that are."""
        self.dedup_forgotten[queue] = upto
        self.forgotten_rows += rows

    def add(self, queue: int, entry: Entry) -> None:
        entry.commit = self.number
        self.bytes += len(entry.content or b"")
        self.added.append(_new(EntryRow, (
            entry.seq, queue, entry.position, entry.group, entry.enqueued_ms, entry.due_ms, entry.receives,
            entry.receives_before, entry.first_received_ms, entry.source, entry.content,
        )))  # fmt: skip

    def with_added(self, added: list[EntryRow]) -> Changes:
        """The same batch, but for these rows."""
        twin = Changes(self.number, self.durable)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.added = added
        return twin

    def update(self, queue: int, entry: Entry) -> None:
        entry.commit = self.number
        self.updated[entry.seq] = _new(EntryUpdate, (
            entry.seq, queue, entry.position, entry.enqueued_ms, entry.due_ms, entry.receives,
            entry.receives_before, entry.first_received_ms, entry.source,
        ))  # fmt: skip

    def remove(self, seq: int) -> None:
        self.updated.pop(seq, None)
        self.removed.append(seq)
