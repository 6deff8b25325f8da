"""What one commit changes, in the shape a store writes it.

A commit carries three kinds of changes: rows of messages, which queues page through; records, each a few bytes under
a kind and a key (queue definitions, move tasks, and whatever a service keeps); and appends to logs, which are read in
order and truncated by position. Rows are tuples made at the moment of the decision, so that memory may go on while
the store writes.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from penstock.store.moving import Move

T = TypeVar("T")

POSITION_GAP = 1 << 20
"""Positions of neighbours are so far apart: there is room to put one message before another."""


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
    size: int = 0  # of the content before encryption
    version: int = 1  # counts how often it was edited


class MessageEntry(Protocol):
    """What the rules know of a message in memory, and a commit writes of it."""

    seq: int
    position: int
    group: str | None
    enqueued_ms: int
    due_ms: int
    receives: int
    receives_before: int
    first_received_ms: int
    source: str | None
    content: bytes | None
    size: int
    version: int
    commit: int  # number of the commit that carries its last change


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


class Replacement(NamedTuple):
    """An edit of a message, which keeps its id. Skipped if the message is gone or has another version."""

    seq: int
    queue: int
    content: bytes | None  # None: as it is
    if_version: int
    version: int
    size: int
    group: str | None
    grown_by: int = 0  # by how much the size differs from before


class DedupRow(NamedTuple):
    """A send that is remembered: the same digest in the same queue is a duplicate until ``until_ms``."""

    queue: int
    seq: int
    digest: bytes
    until_ms: int


class LogRow(NamedTuple):
    """One entry of a log. ``position`` is given by the log's owner and only ever grows."""

    kind: str
    key: str
    position: int
    data: bytes


class Purge(NamedTuple):
    """Everything of a queue up to here is void: messages by position, remembered sends by seq."""

    position: int
    seq: int


class RecordKind(Generic[T]):
    """A kind of record: its name in the store, the struct that its owner keeps, stored as JSON, and how its records
    get to another store."""

    def __init__(self, name: str, struct: type[T], move: Move) -> None:
        self.name = name
        self.move = move
        self.encode = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder(struct).decode


_SHORT_ROWS, _SHORT_BYTES = 512, 256 * 1024
_NOT_DURABLE = 1 << 62  # more than the number of any commit
LaterUpdates = dict[int, tuple[int, MessageEntry]]
_new = tuple.__new__  # a named tuple's own constructor is Python, and takes twice as long


class Changes:
    """The changes of one commit. ``number`` is its place in the shard's journal; ``durable`` is the last one on disk.

    Order within a commit: dropped and purged first, then added, updated, replaced, removed, then the rest.
    """

    __slots__ = (
        "added", "bytes", "counts", "dedup", "dedup_forgotten", "dropped", "durable", "expired", "forgotten_rows",
        "later", "logs", "number", "purged", "records", "removed", "replaced", "truncated", "updated",
    )  # fmt: skip

    def __init__(self, number: int, durable: int, later: LaterUpdates | None = None) -> None:
        """``later``: updates that were put off, by seq; shared by all commits of a shard."""
        self.number = number
        self.durable = durable
        self.later = {} if later is None else later
        self.added: list[EntryRow] = []
        self.bytes = 0  # of the contents among them
        self.updated: dict[int, EntryUpdate] = {}
        self.removed: list[int] = []
        self.expired: list[int] = []  # those of the removed that were past their retention
        self.replaced: dict[int, Replacement] = {}  # by seq
        self.purged: dict[int, Purge] = {}  # by queue
        self.dropped: list[int] = []  # queues, with all they hold
        # Queue -> messages and bytes that this commit adds to what the queue holds; after a purge, what it holds.
        self.counts: dict[int, list[int]] = {}
        self.dedup: list[DedupRow] = []
        self.dedup_forgotten: dict[int, int] = {}  # queue -> every remembered send up to this seq
        self.forgotten_rows = 0  # how many sends that is about
        self.records: dict[tuple[str, str], bytes | None] = {}  # (kind, key) -> the record; None: removed
        self.logs: list[LogRow] = []
        self.truncated: dict[tuple[str, str], int] = {}  # (kind, key) -> entries up to this position go

    def __bool__(self) -> bool:
        return bool(
            self.added or self.updated or self.removed or self.records or self.dedup or self.dedup_forgotten
            or self.purged or self.dropped or self.replaced or self.logs or self.truncated
        )  # fmt: skip

    @property
    def rows(self) -> int:
        """How many messages it touches."""
        return len(self.added) + len(self.updated) + len(self.removed)

    @property
    def is_short(self) -> bool:
        """Whether it can be written quickly, if anything can. Forgotten sends may be thousands."""
        rows = len(self.added) + len(self.updated) + len(self.removed) + self.forgotten_rows
        return rows <= _SHORT_ROWS and self.bytes <= _SHORT_BYTES

    # -- messages --------------------------------------------------------------------------------------------

    def add(self, queue: int, entry: MessageEntry) -> None:
        """A new message, with its content."""
        content = entry.content
        assert content is not None, "a new message comes with its content"
        entry.commit = self.number
        size = entry.size = len(content)
        self.bytes += size
        self.added.append(_new(EntryRow, (
            entry.seq, queue, entry.position, entry.group, entry.enqueued_ms, entry.due_ms, entry.receives,
            entry.receives_before, entry.first_received_ms, entry.source, content, size, entry.version,
        )))  # fmt: skip
        count = self.counts.get(queue)
        if count is None:
            self.counts[queue] = [1, size]
        else:
            count[0] += 1
            count[1] += size

    def add_row(self, row: EntryRow) -> None:
        """A message as another store kept it."""
        self.added.append(row)
        self.bytes += row.size
        self._count(row.queue, 1, row.size)

    def update(self, queue: int, entry: MessageEntry) -> None:
        """A message was received, hidden or shown."""
        entry.commit = self.number
        if self.later:
            self.later.pop(entry.seq, None)
        self.updated[entry.seq] = _new(EntryUpdate, (
            entry.seq, queue, entry.position, entry.enqueued_ms, entry.due_ms, entry.receives,
            entry.receives_before, entry.first_received_ms, entry.source,
        ))  # fmt: skip

    def update_later(self, queue: int, entry: MessageEntry) -> None:
        """A change that a crash may undo: a later commit carries it, unless the message is removed before."""
        entry.commit = _NOT_DURABLE
        self.later[entry.seq] = queue, entry

    def write_later(self) -> None:
        """This commit carries the updates that were put off."""
        later = list(self.later.values())
        self.later.clear()
        for queue, entry in later:
            self.update(queue, entry)

    def move(self, source: int, target: int, entry: MessageEntry) -> None:
        """A message leaves one queue for another, with its new position."""
        self.update(target, entry)
        self._count(source, -1, -entry.size)
        self._count(target, 1, entry.size)

    def remove(self, queue: int, entry: MessageEntry | EntryRow) -> None:
        seq = entry.seq
        self.updated.pop(seq, None)
        if self.later:
            self.later.pop(seq, None)
        self.removed.append(seq)
        count = self.counts.get(queue)
        if count is None:
            self.counts[queue] = [-1, -entry.size]
        else:
            count[0] -= 1
            count[1] -= entry.size

    def expire(self, queue: int, entry: MessageEntry | EntryRow) -> None:
        self.expired.append(entry.seq)
        self.remove(queue, entry)

    def edit(self, row: EntryRow, entry: MessageEntry, content: bytes | None = None) -> None:
        """The message that was read as ``row`` is ``entry`` from now on, under the next version.

        ``content``: the new content, if it changes; ``entry`` then gets its size."""
        self.update(row.queue, entry)
        self.replace(row._replace(group=entry.group), content, row.version + 1)
        if content is not None:
            entry.size = len(content)

    def replace(self, row: EntryRow, content: bytes | None, version: int) -> None:
        """Another content or group for the message that was read as ``row``, if that is still its version.

        ``row`` has the queue and the group that the message has after this commit. ``version`` is one more for an
        edit, and the same where only the encryption of the content differs."""
        pending = self.replaced.get(row.seq)
        size = row.size if content is None or version == row.version else len(content)
        if pending is not None and pending.version > version:
            if pending.content is None:  # an edit in the same commit that is not about the content
                self.replaced[row.seq] = pending._replace(content=content)
            return  # else the content that was read for re-encryption is outdated
        if content is None and pending is not None:
            content = pending.content
        self.replaced[row.seq] = Replacement(
            row.seq, row.queue, content, row.version, version, size, row.group, size - row.size
        )
        self.bytes += len(content or b"")

    def purge(self, queue: int, position: int, seq: int) -> None:
        """Everything that the queue holds by now is void; so is what this commit added to it until now."""
        self.purged[queue] = Purge(position, seq)
        self.counts[queue] = [0, 0]

    def drop(self, queue: int) -> None:
        self.dropped.append(queue)
        self.counts.pop(queue, None)

    def forget_sends(self, queue: int, upto: int, rows: int) -> None:
        """Let a queue forget its remembered sends up to a seq. ``rows`` is how many they are."""
        self.dedup_forgotten[queue] = upto
        self.forgotten_rows += rows

    def _count(self, queue: int, messages: int, size: int) -> None:
        count = self.counts.setdefault(queue, [0, 0])
        count[0] += messages
        count[1] += size

    def with_contents(self, added: list[EntryRow], replaced: dict[int, Replacement]) -> Changes:
        """The same commit with these contents."""
        twin = Changes(self.number, self.durable)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.added = added
        twin.replaced = replaced
        return twin
