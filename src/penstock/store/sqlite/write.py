"""Writes one batch of changes within the transaction of its caller.

Few, large statements: the commit runs in a thread while the loop is busy, and each statement takes the
interpreter lock anew. A purge or a drop only writes a mark; :mod:`penstock.store.sqlite.cleanup` removes the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from penstock.errors import StoreLost
from penstock.store.changes import Changes, EntryRow
from penstock.store.port import Mark
from penstock.store.sqlite import statements

CONTENT_INSIDE_MAX = 2048
"""Larger contents lie apart from their entry, so that a receive does not rewrite them."""

FORGET_ROWS_MAX = 2000
"""So many remembered sends of a queue are forgotten in one batch; the rest gets a mark."""

EVERYTHING = (1 << 63) - 1

_SQL = statements.load("append")
_json = msgspec.json.Encoder().encode


def write(connection: sqlite3.Connection, changes: Changes, mark: Mark) -> None:
    advanced = connection.execute(_SQL["advance"], (changes.number, *mark, changes.number - 1))
    if advanced.rowcount == 0:
        raise StoreLost(
            f"batch {changes.number} does not follow the last one: another process owns the shard"
        )
    if changes.dropped or changes.purged:
        _bury(connection, changes)
    if changes.added:
        _add(connection, changes.added)
    if changes.updated:
        _update(connection, list(changes.updated.values()))
    if changes.removed:
        remove(connection, _numbers(changes.removed))
    if changes.queues or changes.cooldowns or changes.tasks:
        _write_catalogue(connection, changes)
    if changes.dedup:
        _write_rows(connection, "remember_sends", changes.dedup)
    for queue, seq in changes.dedup_forgotten.items():
        if forget(connection, queue, seq, FORGET_ROWS_MAX) == FORGET_ROWS_MAX:
            _write_rows(connection, "bury", [(queue, 0, seq)])


def remove(connection: sqlite3.Connection, seqs: str) -> None:
    """Remove messages, given as a JSON array of their seqs."""
    connection.execute(_SQL["remove_entries"], (seqs,))
    connection.execute(_SQL["remove_contents"], (seqs,))


def rewrite(connection: sqlite3.Connection, contents: Sequence[tuple[int, bytes]]) -> None:
    """Each stays where it is, beside its entry or apart from it; what is gone meanwhile stays gone."""
    _write_rows(connection, "rewrite_inside", contents)
    _write_rows(connection, "rewrite_apart", contents)


def replace_seals(connection: sqlite3.Connection, seals: Iterable[bytes]) -> None:
    connection.execute(_SQL["forget_seals"])
    connection.executemany(_SQL["add_seal"], [(seal,) for seal in seals])


def forget(connection: sqlite3.Connection, queue: int, seq: int, rows_max: int) -> int:
    """Forget a queue's sends up to ``seq``, oldest first; how many were forgotten."""
    asked = {"queue": queue, "seq": seq, "rows_max": rows_max}
    return connection.execute(_SQL["forget_sends"], asked).rowcount


def _write_rows(connection: sqlite3.Connection, name: str, rows: Sequence[Sequence[object]]) -> None:
    columns = len(rows[0])
    start = 0
    for size in statements.bites(len(rows)):
        values = list(chain.from_iterable(rows[start : start + size]))
        connection.execute(statements.for_rows(_SQL[name], size, columns), values)
        start += size


def _numbers(values: Iterable[int]) -> str:
    return _json(list(values)).decode()


def _bury(connection: sqlite3.Connection, changes: Changes) -> None:
    # Seqs and positions come from one counter: every send before the purge has a seq at or below its mark.
    graves = [(queue, upto, upto) for queue, upto in changes.purged.items()]
    graves += [(queue, EVERYTHING, EVERYTHING) for queue in changes.dropped]
    _write_rows(connection, "bury", graves)
    if changes.dropped:
        connection.execute(_SQL["drop_queues"], (_numbers(changes.dropped),))


def _add(connection: sqlite3.Connection, added: list[EntryRow]) -> None:
    apart = [(row.seq, row.content) for row in added if _is_large(row)]
    if apart:
        added = [row._replace(content=None) if _is_large(row) else row for row in added]
        _write_rows(connection, "add_contents", apart)
    _write_rows(connection, "add_entries", added)


def _is_large(row: EntryRow) -> bool:
    assert row.content is not None, "a new message comes with its content"
    return len(row.content) > CONTENT_INSIDE_MAX


def _update(connection: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
    start = 0
    for size in statements.bites(len(rows)):
        values = list(chain.from_iterable(rows[start : start + size]))
        in_place = statements.for_rows(_SQL["update_in_place"], size, 9)
        if connection.execute(in_place, values).rowcount < size:  # some moved, or are no longer there
            connection.execute(statements.for_rows(_SQL["update_anywhere"], size, 9), values)
        start += size


def _write_catalogue(connection: sqlite3.Connection, changes: Changes) -> None:
    queues = [
        (record.id, record.name.account, record.name.region, record.name.name, _json(record).decode())
        for record in changes.queues.values()
    ]
    rests = [
        (n.account, n.region, n.name, until) for n, until in changes.cooldowns.items() if until is not None
    ]
    rested = [(n.account, n.region, n.name) for n, until in changes.cooldowns.items() if until is None]
    tasks = [(id, _json(record).decode()) for id, record in changes.tasks.items() if record is not None]
    ended = [id for id, record in changes.tasks.items() if record is None]
    for name, rows in (
        ("put_queues", queues), ("put_cooldowns", rests), ("end_cooldowns", rested), ("put_tasks", tasks),
    ):  # fmt: skip
        if rows:
            _write_rows(connection, name, rows)
    if ended:
        connection.execute(_SQL["end_tasks"], (_json(ended).decode(),))
