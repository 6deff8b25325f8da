"""Writes one commit within the transaction of its caller.

Few, large statements: the commit may run in a thread while the loop is busy, and each statement takes the interpreter
lock again. A purge or a drop only writes a mark; :mod:`penstock.store.sqlite.cleanup` removes the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence, Set
from itertools import chain

import msgspec

from penstock.errors import StoreLost
from penstock.store.changes import Changes, EntryRow, Replacement
from penstock.store.port import LAST, Mark
from penstock.store.sql_files import load
from penstock.store.sqlite.statements import execute_rows, for_rows

CONTENT_INSIDE_MAX = 2048
"""Larger contents lie apart from their entry, so that a receive does not rewrite them."""

FORGET_ROWS_MAX = 2000
"""How many remembered sends of a queue one commit forgets at most; the rest gets a mark."""

SQL = load("sqlite", "write")
_NOTHING: Set[int] = frozenset()
_encode = msgspec.json.Encoder().encode


def write(connection: sqlite3.Connection, changes: Changes, mark: Mark) -> Set[int]:
    """Returns the seqs of replacements that were skipped."""
    number = changes.number
    if connection.execute(SQL["advance"], (number, *mark, number - 1)).rowcount == 0:
        raise StoreLost(f"commit {number} does not follow the last one: another process owns the shard")
    counts = changes.counts
    skipped = _NOTHING
    if changes.purged or changes.dropped:
        _void(connection, changes)
    if changes.added:
        _add(connection, changes.added)
    if changes.updated:
        _update(connection, list(changes.updated.values()))
    if changes.removed:
        remove(connection, _numbers(changes.removed))
    if changes.records:
        _write_records(connection, changes.records)
    if changes.dedup:
        _write_rows(connection, "remember_sends", changes.dedup)
    if changes.dedup_forgotten:
        _forget_sends(connection, changes.dedup_forgotten)
    if changes.replaced:
        skipped = _replace(connection, list(changes.replaced.values()), counts := {**counts})
    if changes.logs:
        _write_rows(connection, "append_logs", changes.logs)
    for (kind, key), position in changes.truncated.items():
        connection.execute(SQL["truncate_log"], (kind, key, position))
    if counts:
        usage = []
        for queue, (messages, size) in counts.items():
            usage.append((queue, messages, size))
        _write_rows(connection, "add_usage", usage)
    return skipped


def remove(connection: sqlite3.Connection, seqs: str) -> None:
    """Remove messages, given as a JSON array of their seqs."""
    connection.execute(SQL["remove_entries"], (seqs,))
    connection.execute(SQL["remove_contents"], (seqs,))


def forget(connection: sqlite3.Connection, queue: int, seq: int, rows_max: int) -> int:
    """Forget a queue's sends up to ``seq``, oldest first. Returns how many were forgotten."""
    asked = {"queue": queue, "seq": seq, "rows_max": rows_max}
    return connection.execute(SQL["forget_sends"], asked).rowcount


def _write_rows(connection: sqlite3.Connection, name: str, rows: Sequence[Sequence[object]]) -> None:
    if len(rows) == 1:
        connection.execute(for_rows(SQL[name], 1, len(rows[0])), rows[0])
        return
    for _ in execute_rows(connection, SQL[name], rows):
        pass


def _numbers(values: Iterable[int]) -> str:
    return _encode(list(values)).decode()


def _void(connection: sqlite3.Connection, changes: Changes) -> None:
    voids = [(queue, *purge) for queue, purge in changes.purged.items()]
    voids += [(queue, LAST, LAST) for queue in changes.dropped]
    _write_rows(connection, "void", voids)
    connection.execute(SQL["forget_usage"], (_numbers(chain(changes.purged, changes.dropped)),))


def _add(connection: sqlite3.Connection, added: list[EntryRow]) -> None:
    sent, others, apart = [], [], []
    for row in added:
        (
            seq, queue, position, group, enqueued_ms, due_ms, receives, receives_before, first_received_ms, source,
            content, size, version,
        ) = row  # fmt: skip
        assert content is not None, "a new message comes with its content"
        if len(content) > CONTENT_INSIDE_MAX:
            apart.append((seq, content))
            content = None
        if receives or receives_before or first_received_ms or source or version != 1:
            others.append(row._replace(content=content))
        else:
            sent.append((seq, queue, position, group, enqueued_ms, due_ms, content, size))
    if apart:
        _write_rows(connection, "add_contents", apart)
    if sent:
        _write_rows(connection, "add_sent", sent)
    if others:
        _write_rows(connection, "add_entries", others)


def _update(connection: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
    for done, part in execute_rows(connection, SQL["update_in_place"], rows):
        if done.rowcount < len(part):  # some moved, or are no longer there
            connection.execute(
                for_rows(SQL["update_anywhere"], len(part), len(part[0])), list(chain.from_iterable(part))
            )


def _replace(
    connection: sqlite3.Connection, replaced: Sequence[Replacement], counts: dict[int, list[int]]
) -> Set[int]:
    """``counts`` is corrected by the difference in size."""
    wanted = [(each.seq, each.if_version) for each in replaced]
    found: dict[int, tuple[int, int, str | None]] = {}
    for done, _ in execute_rows(connection, SQL["replaceable"], wanted):
        found.update((seq, (queue, size, group)) for seq, queue, size, group in done.fetchall())
    made = [each for each in replaced if each.seq in found]
    contents = [(each.seq, each.content) for each in made if each.content is not None]
    if contents:
        _replace_contents(connection, contents)
    if made:
        _write_rows(connection, "renew", [(each.seq, each.version, each.size) for each in made])
    # Apart from the others, because it rewrites indexes.
    regrouped = [(each.seq, each.group) for each in made if each.group != found[each.seq][2]]
    if regrouped:
        _write_rows(connection, "change_groups", regrouped)
    for each in made:
        queue, size, _ = found[each.seq]
        messages, bytes_ = counts.get(queue, (0, 0))
        counts[queue] = [messages, bytes_ + each.size - size]
    return frozenset(each.seq for each in replaced if each.seq not in found)


def _replace_contents(connection: sqlite3.Connection, contents: Sequence[tuple[int, bytes]]) -> None:
    connection.execute(SQL["remove_contents"], (_numbers(seq for seq, _ in contents),))
    apart = [each for each in contents if len(each[1]) > CONTENT_INSIDE_MAX]
    if apart:
        _write_rows(connection, "add_contents", apart)
    large = {seq for seq, _ in apart}
    inside = [(seq, None if seq in large else content) for seq, content in contents]
    _write_rows(connection, "replace_contents", inside)


def _write_records(connection: sqlite3.Connection, records: dict[tuple[str, str], bytes | None]) -> None:
    put = [(kind, key, data) for (kind, key), data in records.items() if data is not None]
    removed = [name for name, data in records.items() if data is None]
    if put:
        _write_rows(connection, "put_records", put)
    if removed:
        _write_rows(connection, "remove_records", removed)


def _forget_sends(connection: sqlite3.Connection, forgotten: dict[int, int]) -> None:
    for queue, seq in forgotten.items():
        if forget(connection, queue, seq, FORGET_ROWS_MAX) == FORGET_ROWS_MAX:
            _write_rows(connection, "void", [(queue, 0, seq)])
