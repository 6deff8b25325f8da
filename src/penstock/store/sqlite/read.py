"""The reads of the port on SQLite: one statement each, short, and over before the next begins.

A read that takes two statements holds a snapshot for both, so that it too sees whole commits only.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from penstock.errors import StoreClosed
from penstock.store.changes import DedupRow, EntryRow, LogRow
from penstock.store.port import (
    CONTENT_BYTES_PER_READ,
    LAST,
    Cursor,
    GroupCount,
    JournalEnd,
    Mark,
    Order,
    Selection,
    ShardState,
    Usage,
)
from penstock.store.sql_files import load
from penstock.store.sqlite.disk import store_error
from penstock.store.sqlite.file import rollback

_SQL = load("sqlite", "read")
_encode = msgspec.json.Encoder().encode
_entries = msgspec.json.Decoder(list[EntryRow]).decode
_lists = msgspec.json.Decoder(list[list[Any]]).decode
_groups = msgspec.json.Decoder(list[GroupCount]).decode
_triples = msgspec.json.Decoder(list[tuple[int, int, int]]).decode
_names = msgspec.json.Decoder(list[tuple[str, str]]).decode
_numbers = msgspec.json.Decoder(list[int]).decode
_lengths = msgspec.json.Decoder(list[int | None]).decode

_new = tuple.__new__
_CONTENT = EntryRow._fields.index("content")
_GATHERED_BYTES = re.compile(r"CAST\(group_concat\((\w+), ''\) AS BLOB\)")
_BEFORE_ALL = Cursor(-1, -1)
_BY_DUE = {None: "by_due", False: "by_due_delayed", True: "by_due_in_flight"}


class Reads:
    """One connection that changes nothing, used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._sql = _SQL

    def open(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        if not gathers_bytes(connection):
            # As digits instead, which takes longer.
            self._sql = {
                name: _GATHERED_BYTES.sub(r"group_concat(hex(\1), '')", text) for name, text in _SQL.items()
            }

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def state(self) -> ShardState:
        number, next_number, now_ms, wall_ms, secret, owner = self._one("shard")
        names, *data = self._one("all_records")
        records: dict[str, dict[str, bytes]] = {}
        for (kind, key), each in zip(_names(names), _bytes_of(*data), strict=True):
            records.setdefault(kind, {})[key] = each
        return ShardState(
            JournalEnd(number, owner), Mark(next_number, now_ms, wall_ms), secret, records, self.usage()
        )

    def end(self) -> JournalEnd:
        number, *_, owner = self._one("shard")
        return JournalEnd(number, owner)

    def records(self, kind: str) -> dict[str, bytes]:
        names, *data = self._one("records", kind=kind)
        return {key: each for (_, key), each in zip(_names(names), _bytes_of(*data), strict=True)}

    def log(self, kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        positions, *data = self._one("log", kind=kind, key=key, after=after, rows_max=rows_max)
        pairs = zip(_numbers(positions), _bytes_of(*data), strict=True)
        return [LogRow(kind, key, position, each) for position, each in pairs]

    def select(
        self,
        which: Selection,
        order: Order = Order.POSITION,
        *,
        after: Cursor | None = None,
        rows_max: int,
    ) -> list[EntryRow]:
        asked = {**which._asdict(), "rows_max": rows_max}
        if order is Order.POSITION:
            return self._by_position(which, asked)
        by_age = order is Order.AGE
        # A page begins behind the cursor, or before all that the selection names.
        from_ms = which.enqueued_ms_min if by_age else which.due_ms_min
        start = max(after or _BEFORE_ALL, Cursor(from_ms - 1, LAST))
        name = "by_age" if by_age else _BY_DUE[which.received]
        return _entries(self._one(name, time_ms=start.time_ms, position=start.position, **asked)[0])

    def _by_position(self, which: Selection, asked: dict[str, Any]) -> list[EntryRow]:
        if which.received and which.due_ms_min > 0:
            return _entries(self._one("by_position_in_flight", **asked)[0])
        if which.enqueued_ms_max == LAST:
            return _entries(self._one("by_position", **asked)[0])
        # Messages past an age: few among many are found by age, many by walking in order to the last one wanted.
        with self._snapshot():
            (count,) = self._one("count_old", **asked)
            if count == 0:
                return []
            name = "by_position_of_old" if count < asked["rows_max"] else "by_position"
            return _entries(self._one(name, **asked)[0])

    def lane(
        self,
        which: Selection,
        group: str | None,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        asked = {
            "queue": which.queue, "grp": group, "after": which.after, "due_ms_max": which.due_ms_max,
            "rows_max": rows_max,
        }  # fmt: skip
        return self._whole("lane_loose" if group is None else "lane_grouped", asked, content_bytes_max)

    def scan(self, after: int, upto: int, rows_max: int, content_bytes_max: int) -> list[EntryRow]:
        whole = self._whole("scan", {"after": after, "upto": upto, "rows_max": rows_max}, content_bytes_max)
        size = 0
        for i, row in enumerate(whole):
            if row.content is None or size >= content_bytes_max:
                return whole[:i]  # the page is full
            size += len(row.content)
        return whole

    def _whole(self, name: str, asked: dict[str, Any], content_bytes_max: int) -> list[EntryRow]:
        """Messages with their contents, by one statement. Where some lie apart it takes more, and a snapshot."""
        found = self._one(name, **asked)
        if "null" not in found[1]:
            return self._with_contents(found, content_bytes_max)
        with self._snapshot():
            return self._with_contents(self._one(name, **asked), content_bytes_max)

    def _with_contents(self, found: tuple[Any, ...], bytes_left: int) -> list[EntryRow]:
        rows, *inside = found
        whole: list[EntryRow] = []
        for row, content in zip(_lists(rows), _bytes_of(*inside), strict=True):
            if not content and bytes_left > 0:
                content = self._apart(row[0])
            bytes_left -= len(content)
            row[_CONTENT] = content or None
            whole.append(_new(EntryRow, row))
        return whole

    def _apart(self, seq: int) -> bytes:
        content: bytes = self._one("content_apart", seq=seq)[0]
        return content

    def groups(self, which: Selection, rows_max: int) -> tuple[list[GroupCount], int]:
        groups, last = self._one(
            "groups", queue=which.queue, after=which.after, due_ms_max=which.due_ms_max, rows_max=rows_max
        )
        return _groups(groups), last

    def count(self, which: Selection) -> int:
        if which.due_ms_min > 0 and which.received is not None:
            name = "count_in_flight" if which.received else "count_delayed"
        elif which.received is None and which.due_ms_min == 0 and which.due_ms_max == LAST:
            name = "count_by_age"
        else:
            name = "count"
        count: int = self._one(name, **which._asdict())[0]
        return count

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        return _entries(self._one("lookup", queue=queue, after=after, seqs=_encode(list(seqs)).decode())[0])

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        with self._snapshot():
            found, *inside = self._one("contents_inside", seqs=_encode(list(seqs)).decode())
            pairs = zip(_numbers(found), _bytes_of(*inside), strict=True)
            return {seq: content or self._apart(seq) for seq, content in pairs}

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = LAST) -> list[DedupRow]:
        sends, *digests = self._one("dedup", queue=queue, now_ms=now_ms, after=after, rows_max=rows_max)
        return [
            DedupRow(queue, seq, digest, until_ms)
            for (queue, seq, until_ms), digest in zip(_triples(sends), _bytes_of(*digests), strict=True)
        ]

    def usage(self, queue: int | None = None) -> dict[int, Usage]:
        (rows,) = self._one("usage") if queue is None else self._one("usage_of", queue=queue)
        return {queue: Usage(messages, size) for queue, messages, size in _triples(rows)}

    def used_bytes(self) -> int:
        with self._reading() as connection:
            pages, free, page_bytes = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * page_bytes)

    def _one(self, name: str, **asked: object) -> tuple[Any, ...]:
        with self._reading() as connection:
            rows = connection.execute(self._sql[name], asked).fetchall()
        row: tuple[Any, ...] = rows[0]
        return row

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                raise StoreClosed("the store is closed")
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise store_error(error, has_room=lambda: True) from error

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._reading() as connection:
            connection.execute("BEGIN")
            try:
                yield
            finally:
                rollback(connection)


def gathers_bytes(connection: sqlite3.Connection) -> bool:
    """Whether group_concat keeps bytes as they are. Older versions of SQLite end at the first zero."""
    every = bytes(range(256))
    statement = "SELECT CAST(group_concat(column1, '') AS BLOB) FROM (VALUES (?), (NULL), (?))"
    return connection.execute(statement, (every, every)).fetchall() == [(every + every,)]


def _bytes_of(lengths: str, data: bytes | str | None) -> list[bytes]:
    """What a read gathered; empty bytes stand for NULL."""
    whole = data if isinstance(data, bytes) else bytes.fromhex(data or "")
    parts, end = [], 0
    for length in _lengths(lengths):
        start, end = end, end + (length or 0)
        parts.append(whole[start:end])
    assert end == len(whole)
    return parts
