"""The statements of one commit, which are sent together and answered together.

Each covers all its rows, and none needs the answer of another: what depends on stored rows is decided within a
statement. A purge or a drop only writes a mark; ``remove_void_rows`` removes the rows, a bounded piece at a time.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from penstock.store.changes import Changes, EntryRow
from penstock.store.port import LAST, Mark
from penstock.store.postgres.arrays import columns, int8_array
from penstock.store.postgres.connection import Connection
from penstock.store.sql_files import load

FORGET_ROWS_MAX = 2000
"""How many remembered sends of a queue one commit forgets at most; the rest gets a mark."""

SQL = load("postgres", "write")
_NEVER_RECEIVED = (0, 0, 0, None)
_NOTHING: Set[int] = frozenset()
Parameters = Sequence[Any] | dict[str, Any]
Statement = tuple[str, Parameters]


class CommitStatements:
    """Everything is encoded before the first statement is sent, so what cannot be stored fails before."""

    def __init__(self, shard: int, writer: bytes, changes: Changes, mark: Mark) -> None:
        self._shard = shard
        self._statements: list[Statement] = []
        self._replaced = changes.replaced
        number = changes.number
        self._add("advance", (number, *mark, shard, writer, number - 1))
        if changes.purged or changes.dropped:
            self._void(changes)
        if changes.added:
            self._add_entries(changes.added)
        if changes.updated:
            self._add("update_entries", (*columns("iiiiiiiit", changes.updated.values()), shard))
        if changes.removed:
            self._add("remove_entries", (shard, int8_array(changes.removed)))
        if changes.records:
            self._write_records(changes.records)
        if changes.dedup:
            self._add("remember_sends", (shard, *columns("iibi", changes.dedup)))
        for queue, seq in changes.dedup_forgotten.items():
            asked = {"shard": shard, "queue": queue, "seq": seq, "rows_max": FORGET_ROWS_MAX}
            self._add("forget_sends", asked)
        if changes.logs:
            self._add("append_logs", (shard, *columns("ttib", changes.logs)))
        for (kind, key), position in changes.truncated.items():
            self._add("truncate_log", (shard, kind, key, position))
        if changes.counts:
            counts = [(queue, *count) for queue, count in changes.counts.items()]
            self._add("add_usage", (shard, *columns("iii", counts)))
        if changes.replaced:  # last: its answer is read, and it corrects the counts
            replaced = [each[:-1] for each in changes.replaced.values()]
            self._add("replace", (*columns("iibiiiu", replaced), shard, shard, shard))

    def send(self, connection: Connection) -> Set[int]:
        """One transaction in one round trip. Returns the seqs of replacements that were skipped."""
        with connection.pipeline():
            connection.execute("BEGIN")
            for text, parameters in self._statements:
                done = connection.execute(text, parameters)
            connection.execute("COMMIT")
        if not self._replaced:
            return _NOTHING
        return self._replaced.keys() - {seq for (seq,) in done.fetchall()}

    def _add(self, name: str, parameters: Parameters) -> None:
        self._statements.append((SQL[name], parameters))

    def _void(self, changes: Changes) -> None:
        voids = {queue: tuple(purge) for queue, purge in changes.purged.items()}
        voids |= dict.fromkeys(changes.dropped, (LAST, LAST))
        self._add("void", (self._shard, *columns("iii", [(queue, *void) for queue, void in voids.items()])))
        self._add("forget_usage", (self._shard, int8_array(list(voids))))

    def _add_entries(self, added: list[EntryRow]) -> None:
        sent, others = [], []
        for row in added:
            assert row.content is not None, "a new message comes with its content"
            if row[6:10] == _NEVER_RECEIVED and row.version == 1:
                sent.append((*row[:6], row.content, row.size))
            else:
                others.append(row)
        if sent:
            self._add("add_sent", (self._shard, *columns("iiiuiibi", sent)))
        if others:
            self._add("add_entries", (self._shard, *columns("iiiuiiiiitbii", others)))

    def _write_records(self, records: dict[tuple[str, str], bytes | None]) -> None:
        put = [(kind, key, data) for (kind, key), data in records.items() if data is not None]
        removed = [name for name, data in records.items() if data is None]
        if put:
            self._add("put_records", (self._shard, *columns("ttb", put)))
        if removed:
            self._add("remove_records", (*columns("tt", removed), self._shard))


def remove_void_rows(connection: Connection, shard: int, writer: bytes, rows_max: int) -> bool:
    """Remove some void rows; False if there were none."""
    with connection.transaction():
        connection.execute(SQL["check"], (shard, writer))
        void = connection.execute(SQL["first_void"], (shard,)).fetchone()
        if void is None:
            return False
        queue, position, seq = void
        asked = {"shard": shard, "queue": queue, "position": position, "seq": seq, "rows_max": rows_max}
        if (
            connection.execute(SQL["remove_void_entries"], asked).rowcount == 0
            and connection.execute(SQL["remove_void_sends"], asked).rowcount < rows_max
        ):
            connection.execute(SQL["end_void"], (shard, queue))
        return True
