"""Short words for the tests of stores: rows with sensible defaults, and commits that number themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.store.changes import Changes, DedupRow, EntryRow, EntryUpdate, Purge, Replacement
from penstock.store.port import LAST, Mark, Order, Selection, Store

T0 = 1_700_000_000_000


def row(
    seq: int, queue: int = 1, *, position: int | None = None, group: str | None = None, enqueued: int = T0,
    due: int = 0, receives: int = 0, content: bytes | None = None, version: int = 1,
) -> EntryRow:  # fmt: skip
    content = b"content %d" % seq if content is None else content
    place = seq if position is None else position
    return EntryRow(
        seq, queue, place, group, enqueued, due, receives, 0, 0, None, content, len(content), version
    )


def update_of(entry: EntryRow, **changed: object) -> EntryUpdate:
    kept = {name: getattr(entry, name) for name in EntryUpdate._fields}
    return EntryUpdate(**{**kept, **changed})


def bare(rows: Iterable[EntryRow]) -> list[EntryRow]:
    """Returns the rows that a read without content gives."""
    return [entry._replace(content=None) for entry in rows]


class Driver:
    """An open store and the number of its last commit."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self.make = make
        self.store = make()
        self.state = self.store.open()
        self.number = self.state.end.number
        self._known: dict[int, EntryRow] = {}

    def reopen(self) -> None:
        self.store.close()
        self.store = self.make()
        self.state = self.store.open()
        self.number = self.state.end.number

    def commit(
        self,
        *,
        added: Iterable[EntryRow] = (),
        updated: Iterable[EntryUpdate] = (),
        removed: Iterable[int] = (),
        dedup: Iterable[DedupRow] = (),
        purged: Mapping[int, int] = {},
        dropped: Iterable[int] = (),
        replaced: Iterable[Replacement] = (),
        **more: object,
    ) -> Changes:
        """``purged``: here positions and seqs are the same numbers."""
        changes = Changes(self.number + 1, self.number)
        changes.added.extend(added)
        changes.updated.update({update.seq: update for update in updated})
        changes.removed.extend(removed)
        changes.dedup.extend(dedup)
        changes.purged.update({queue: Purge(upto, upto) for queue, upto in purged.items()})
        changes.dropped.extend(dropped)
        changes.replaced.update({each.seq: each for each in replaced})
        changes.counts.update(self._counts(changes))
        for name, value in more.items():
            setattr(changes, name, value)
        return changes

    def _counts(self, changes: Changes) -> dict[int, list[int]]:
        """What the broker counts as it decides: messages and bytes that queues gain or lose."""
        known, counts = dict(self._known), {queue: [0, 0] for queue in changes.purged}

        def count(entry: EntryRow | None, sign: int) -> None:
            if entry is not None:
                counted = counts.setdefault(entry.queue, [0, 0])
                counted[0] += sign
                counted[1] += sign * entry.size

        for seq, entry in list(known.items()):
            purge = changes.purged.get(entry.queue)
            if entry.queue in changes.dropped or (purge is not None and entry.position <= purge.position):
                del known[seq]
        for queue in changes.purged:
            for entry in [each for each in known.values() if each.queue == queue]:
                count(entry, 1)  # a purge takes all counts away, and these stay
        for entry in changes.added:
            purge = changes.purged.get(entry.queue)
            if purge is None or entry.position > purge.position:
                known[entry.seq] = entry
                count(entry, 1)
        for update in changes.updated.values():
            if (entry := known.get(update.seq)) is not None and entry.queue != update.queue:  # type: ignore[assignment]
                count(entry, -1)
                known[update.seq] = entry._replace(queue=update.queue, position=update.position)
                count(known[update.seq], 1)
        for seq in changes.removed:
            count(known.pop(seq, None), -1)
        self._next_known = known
        return counts

    def append(self, **what: object) -> frozenset[int]:
        changes = self.commit(**what)  # type: ignore[arg-type]
        skipped = self.store.append(changes, Mark(10**6, T0, T0))
        self._known = self._next_known
        self.number += 1
        return frozenset(skipped)

    def know_all(self) -> None:
        """Count on from what another has stored."""
        self._known = {entry.seq: entry for entry in self.store.scan(0, LAST, LAST, LAST)}

    def all(self, queue: int = 1, after: int = 0) -> list[EntryRow]:
        """Every message of a queue in order, without content."""
        return self.store.select(Selection(queue, after), rows_max=LAST)

    def whole(self, queue: int = 1, after: int = 0) -> list[EntryRow]:
        """Every message of a queue in order, with content."""
        rows = self.all(queue, after)
        contents = self.store.contents([entry.seq for entry in rows])
        return [entry._replace(content=contents[entry.seq]) for entry in rows]

    def total(self, queue: int = 1, after: int = 0) -> int:
        return self.store.count(Selection(queue, after))

    def oldest_ms(self, queue: int, after: int) -> int | None:
        rows = self.store.select(Selection(queue, after), Order.AGE, rows_max=1)
        return rows[0].enqueued_ms if rows else None

    def clean_up(self, rows_max: int = 100) -> int:
        pieces = 1
        while self.store.maintain(rows_max):
            pieces += 1
            assert pieces < 10_000, "it never ends"
        return pieces
