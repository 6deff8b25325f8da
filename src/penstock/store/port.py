"""The contract between the broker and whatever keeps its data.

A store is blocking and knows no rules: it appends batches of changes to a shard's log, and reads back what
they left. Calls may come from two threads at once: one that appends, one that reads; a read sees whole
batches only. The contract suite in ``tests/store`` runs against every store.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple, Protocol

from penstock.names import QueueName
from penstock.store.changes import Changes, DedupRow, EntryRow, MoveTaskRecord, QueueRecord

CONTENT_BYTES_PER_READ = 2 * 1024 * 1024
"""A read of many messages brings the content of the first ones, up to about so many bytes in all."""


SCARCE_BYTES = 32 * 1024 * 1024
"""With no more than this free where the data lives, the last of it is for what somebody waits for."""


class Mark(NamedTuple):
    """What a shard remembers beside its log position, written with every batch."""

    next_number: int  # the next seq or position to give out: never one that was given before
    now_ms: int
    wall_ms: int


class Shard(NamedTuple):
    """What opening a shard tells."""

    position: int  # the number of the last batch; the next is one more
    mark: Mark
    secret: bytes  # 32 random bytes made once per shard: it signs receipt handles, and more
    queues: list[QueueRecord]
    cooldowns: dict[QueueName, int]
    tasks: list[MoveTaskRecord]
    seals: frozenset[bytes]  # see remember_seals
    messages: int
    bytes: int  # what the data takes on the disk


class Tally(NamedTuple):
    """How many messages of a queue sleep, and how many there are in all, beyond its purge mark."""

    total: int
    in_flight: int  # due later than asked, received
    delayed: int  # due later than asked, never received


class Usage(NamedTuple):
    """How much a queue holds beyond its purge mark."""

    messages: int
    bytes: int  # of contents, as they are stored


class GroupCount(NamedTuple):
    group: str | None
    count: int  # type: ignore[assignment]  # a tuple has a method of that name; nobody calls it here
    first_position: int


class Head(NamedTuple):
    """How a message's content begins."""

    seq: int
    queue: int
    size: int
    start: bytes


class Resealed(NamedTuple):
    """What a look at some messages brought."""

    last: int | None  # the last seq looked at; None: there are no more
    looked_at: int
    contents: list[tuple[int, bytes]]  # sealed anew, to be written
    unreadable: int  # outdated, and cannot be opened


class Store(Protocol):
    """Every read leaves out what lies at or before its ``after`` position."""

    def open(self) -> Shard:
        """Take the shard for this process, or raise StoreRefused with what to do about it."""

    def close(self) -> None: ...

    def append(self, changes: Changes, mark: Mark) -> None:
        """Make one batch durable as number ``changes.number``, whole or not at all.

        Order within a batch: dropped and purged first, then added, updated, removed, the rest.
        Raises StoreLost if that number is taken, StoreFull, StoreBroken after a failed fsync,
        else StoreError.
        """

    def queues(self) -> list[QueueRecord]:
        """All queues, as at open; for throwing away what a refused batch left in memory."""

    def cooldowns(self) -> dict[QueueName, int]: ...

    def tasks(self) -> list[MoveTaskRecord]: ...

    def tally(self, queue: int, after: int, now_ms: int) -> Tally: ...

    def groups(self, queue: int, after: int, due_ms_max: int, rows_max: int) -> tuple[list[GroupCount], int]:
        """Of the first ``rows_max`` messages after a position and due by then: how many in each group, first
        first, and the last position looked at (``after`` itself if there was none)."""

    def waiting(
        self,
        queue: int,
        group: str | None,
        after: int,
        due_ms_max: int,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        """One group's messages (None: those without a group) in order of position.

        Large contents come along up to ``content_bytes_max`` in all; rows beyond have None, see ``contents``."""

    def delayed(self, queue: int, after: int, due_ms_min: int, rows_max: int) -> list[EntryRow]:
        """Messages never received, due at or after a time, soonest first (then by seq), without content."""

    def in_flight(self, queue: int, after: int, due_ms_min: int) -> list[EntryRow]:
        """Messages received and due at or after a time, in order of position, without content."""

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        """Those of these messages that are in the queue, without content."""

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]: ...

    def expired(self, queue: int, after: int, enqueued_ms_max: int, rows_max: int) -> list[EntryRow]:
        """Messages enqueued at or before a time, in order of position, without content."""

    def oldest_ms(self, queue: int, after: int) -> int | None:
        """When the oldest message was enqueued."""

    def younger(self, queue: int, after: int, enqueued_ms_min: int) -> int:
        """How many messages were enqueued at or after a time."""

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = -1) -> list[DedupRow]:
        """The sends a queue still remembers, oldest first: those with a seq beyond ``after``; -1 rows means all."""

    def heads(self, after: int, upto: int, rows_max: int, bytes_max: int) -> list[Head]:
        """How the contents of all messages begin, in order of seq: those beyond ``after``, up to ``upto``."""

    def rewrite(self, contents: Sequence[tuple[int, bytes]]) -> None:
        """Put other bytes in place of these contents, where the messages are still there; they mean the same.

        Durable and whole, as an append is, but no batch of the log: nothing that was decided changes."""

    def remember_seals(self, seals: Set[bytes]) -> None:
        """From now on encrypted contents may begin so, and in no other way. Durable; told again at open.

        For whoever encrypts: to know at a start, without looking at all messages, which keys it must have."""

    def usage(self) -> dict[int, Usage]:
        """What each queue holds that holds something. For the thread that appends: the first call counts, which takes
        as long as there is much; then the store keeps count, and others are quick."""

    def tidy(self, rows_max: int) -> bool:
        """Remove a bite of what purged and dropped queues left and give space back; True if there is more."""

    def free_bytes(self) -> int | None:
        """Space left where the data lives; None if unknown."""

    def release_reserve(self) -> None:
        """Give up the space that was set aside, so that receives and deletes can go on on a full disk."""

    def restore_reserve(self) -> bool:
        """Set that space aside again; False if there is not enough."""
