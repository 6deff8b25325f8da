"""Short words for the tests of stores: rows with sensible defaults, and batches that number themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.names import QueueName
from penstock.queues.settings import QueueSettings
from penstock.store.changes import Changes, DedupRow, EntryRow, EntryUpdate, QueueRecord
from penstock.store.port import Mark, Store

T0 = 1_700_000_000_000
FOREVER = 1 << 62


def row(
    seq: int, queue: int = 1, *, position: int | None = None, group: str | None = None, enqueued: int = T0,
    due: int = 0, receives: int = 0, content: bytes | None = None,
) -> EntryRow:  # fmt: skip
    content = b"content %d" % seq if content is None else content
    place = seq if position is None else position
    return EntryRow(seq, queue, place, group, enqueued, due, receives, 0, 0, None, content)


def update_of(entry: EntryRow, **changed: object) -> EntryUpdate:
    kept = {name: getattr(entry, name) for name in EntryUpdate._fields}
    return EntryUpdate(**{**kept, **changed})


def bare(rows: Iterable[EntryRow]) -> list[EntryRow]:
    """As a read without content gives them."""
    return [entry._replace(content=None) for entry in rows]


def queue_record(id: int, name: str = "orders", **more: object) -> QueueRecord:
    return QueueRecord(
        id=id, name=QueueName("000000000000", "eu-west-1", name), settings=QueueSettings(), tags={},
        created_ms=T0, modified_ms=T0, **more,  # type: ignore[arg-type]
    )  # fmt: skip


class Driver:
    """An open store and the number of its next batch."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self.make = make
        self.store = make()
        self.shard = self.store.open()
        self.position = self.shard.position

    def reopen(self) -> None:
        self.store.close()
        self.store = self.make()
        self.shard = self.store.open()
        self.position = self.shard.position

    def batch(
        self,
        *,
        added: Iterable[EntryRow] = (),
        updated: Iterable[EntryUpdate] = (),
        removed: Iterable[int] = (),
        dedup: Iterable[DedupRow] = (),
        **more: object,
    ) -> Changes:
        changes = Changes(self.position + 1, self.position)
        changes.added.extend(added)
        changes.updated.update({update.seq: update for update in updated})
        changes.removed.extend(removed)
        changes.dedup.extend(dedup)
        for name, value in more.items():
            setattr(changes, name, value)
        return changes

    def append(self, **what: object) -> None:
        self.store.append(self.batch(**what), Mark(10**6, T0, T0))  # type: ignore[arg-type]
        self.position += 1

    def all(self, queue: int = 1, after: int = 0) -> list[EntryRow]:
        """Every message of a queue in order, without content."""
        return self.store.expired(queue, after, FOREVER, 10**6)

    def whole(self, queue: int = 1, after: int = 0) -> list[EntryRow]:
        """Every message of a queue in order, with content."""
        rows = self.all(queue, after)
        contents = self.store.contents([entry.seq for entry in rows])
        return [entry._replace(content=contents[entry.seq]) for entry in rows]

    def tidy_up(self, rows_max: int = 100) -> int:
        bites = 1
        while self.store.tidy(rows_max):
            bites += 1
            assert bites < 10_000, "tidying never ends"
        return bites
