"""The contract between the broker and whatever keeps its data.

A store is blocking and knows no rules: it appends commits to the journal of a shard, and reads back what they left.
Calls may come from two threads at once: one that appends and maintains, one that reads; a read sees whole commits
only. Reads are ordered by position, age or due time and paged by what was read last, which a table of any engine can
serve. The contract suite in ``tests/store`` runs against every store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.metrics.histogram import Histogram
from penstock.store.changes import Changes, DedupRow, EntryRow, LogRow

CONTENT_BYTES_PER_READ = 2 * 1024 * 1024
"""A read of many messages brings the content of the first ones, up to about this many bytes in all."""

LAST = (1 << 63) - 1
"""No number, position or time is beyond this one."""


UNFINISHED = "unfinished_migration"
"""A shard with a record of this kind is being filled from another store, and is not complete: it must not serve."""


class Mark(NamedTuple):
    """What a shard remembers beside its journal, written with every commit."""

    next_number: int  # the next number to give out: never one that was given before
    now_ms: int
    wall_ms: int


class JournalEnd(NamedTuple):
    """The last commit of a shard's journal, and who owns the shard."""

    number: int
    owner: bytes


class Usage(NamedTuple):
    """How much a queue holds."""

    messages: int
    bytes: int  # of contents, before encryption


class ShardState(NamedTuple):
    """What opening a shard finds."""

    end: JournalEnd  # its owner is this process now
    mark: Mark
    secret: bytes  # 32 random bytes made once per shard: it signs receipt handles, and more
    records: dict[str, dict[str, bytes]]  # by kind and key
    usage: dict[int, Usage]  # by queue


class Order(Enum):
    """Messages of the same time are in order of position."""

    POSITION = "position"
    AGE = "age"  # oldest first
    DUE = "due"  # soonest first; only messages that are or were hidden until a time


class Selection(NamedTuple):
    """Which messages of a queue, whatever state they are in; everything that is not named is left open."""

    queue: int
    after: int = 0  # positions beyond this one: the purge mark, or the last position of the page before
    due_ms_min: int = 0
    due_ms_max: int = LAST
    enqueued_ms_min: int = 0
    enqueued_ms_max: int = LAST
    received: bool | None = None  # whether it was ever received


class Cursor(NamedTuple):
    """Where a page in order of age or due time ended: that time and the position of its last message."""

    time_ms: int
    position: int


class GroupCount(NamedTuple):
    group: str | None
    messages: int
    first_position: int


class OutdatedMessages(NamedTuple):
    """Messages that are not encrypted as their queue wants it today, as a store that encrypts finds them."""

    last: int | None  # the last seq that was checked; None: there are no more
    checked: int
    messages: list[EntryRow]  # decrypted
    unreadable: int  # outdated, and cannot be decrypted


class StoreStatus(NamedTuple):
    """How the engine is, as far as it can tell."""

    refuses: str | None = None  # why it takes no new messages for the time being
    free_bytes: int | None = None  # where the data lives
    used_bytes: int | None = None
    is_away: bool = False  # it cannot be reached: nothing can be read or written
    log_bytes: int | None = None  # written before it is brought into the data
    sync_times: Histogram | None = None  # of the disk


class Store(Protocol):
    """The store of one shard. Purged messages may still be in it: readers of a queue pass its purge mark."""

    def open(self) -> ShardState:
        """Take the shard for this process, or raise StoreRefused with what to do about it."""

    def close(self) -> None: ...

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        """Make one commit durable as number ``changes.number``, whole or not at all.

        Returns the seqs of replacements that were skipped because the message is gone or has another version.
        Raises StoreLost if the number is taken: the shard is another's. StoreUnknown if it cannot be known whether
        the commit was made: ``end`` settles it. StoreBroken after a failed fsync. Every other StoreError means that
        nothing was done; of these, StoreFull passes when there is space again, and DataRefused means that the store
        cannot hold something in this commit. An empty commit is one, too."""

    @property
    def syncs_late(self) -> bool:
        """Whether a failure of the machine can lose commits that were made. Then ``sync`` brings them to the disk."""

    def sync(self) -> None:
        """Return when no failure of the machine can lose the commits that were made before. No append runs at the
        same time. Raises StoreBroken if the sync fails."""

    def end(self) -> JournalEnd:
        """The last commit there is. If it is ours and has our number, a commit of unknown outcome was made.

        It may raise StoreLost if another process has taken the shard: then it stays unknown here."""

    def records(self, kind: str) -> Mapping[str, bytes]:
        """All records of a kind, by key."""

    def log(self, kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        """The entries of a log beyond a position, in order."""

    def select(
        self,
        which: Selection,
        order: Order = Order.POSITION,
        *,
        after: Cursor | None = None,
        rows_max: int,
    ) -> list[EntryRow]:
        """Messages in an order, without content. ``after``: the rest of a listing by age or due time."""

    def lane(
        self,
        which: Selection,
        group: str | None,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        """One group's messages (None: those without a group) in order of position, with content.

        Large contents come along up to ``content_bytes_max`` in all; rows beyond have None, see ``contents``."""

    def groups(self, which: Selection, rows_max: int) -> tuple[list[GroupCount], int]:
        """Counts the first ``rows_max`` messages by group, in the order of the groups' first messages. Also returns
        the last position that was read (``which.after`` itself if there was none)."""

    def count(self, which: Selection) -> int: ...

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        """Returns those of these messages that are in the queue beyond a position, without content."""

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]: ...

    def scan(self, after: int, upto: int, rows_max: int, content_bytes_max: int) -> list[EntryRow]:
        """Messages of all queues in order of seq, each with its content: those beyond ``after``, up to ``upto``,
        without what was purged or dropped.

        A page ends with ``rows_max`` messages or about ``content_bytes_max`` bytes; an empty one is the end."""

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = LAST) -> list[DedupRow]:
        """The sends a queue still remembers, oldest first: those with a seq beyond ``after``."""

    def usage(self, queue: int | None = None) -> dict[int, Usage]:
        """Returns how much each queue that is not empty holds, or only one queue. Every commit updates these figures,
        so that nothing is counted here."""

    def maintain(self, rows_max: int) -> bool:
        """Do a bounded piece of housekeeping, such as removing void rows; True if there is more. No append runs at
        the same time."""

    def status(self) -> StoreStatus: ...


class StoreSite(Protocol):
    """Where shards live: a directory or a database. It stores how many there are, chosen when it is made."""

    shards: int
    guarantees: str  # one line for the operator: what a failure of the machine or the database can lose
    # A commit may run on the event loop: it waits for a disk of this machine, not for a network.
    is_local: bool

    def open(self) -> None:
        """Make or check the site, and read the number of its shards. Raises StoreRefused with what to do."""

    def shard(self, index: int) -> Store:
        """The store of one shard, not opened."""

    def close(self) -> None: ...
