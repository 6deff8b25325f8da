"""The reads of the port on PostgreSQL: one statement each, on one of a few connections that all shards share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.store.changes import DedupRow, EntryRow, LogRow
from penstock.store.port import CONTENT_BYTES_PER_READ, LAST, Cursor, GroupCount, Order, Selection, Usage
from penstock.store.postgres.arrays import int8_array
from penstock.store.postgres.connection import Readers
from penstock.store.sql_files import load

_SQL = load("postgres", "read")
_BEFORE_ALL = Cursor(-1, -1)
_BY_DUE = {None: "by_due", False: "by_due_delayed", True: "by_due_in_flight"}
_GROUP = EntryRow._fields.index("group")


class ShardReads:
    def __init__(self, readers: Readers, shard: int) -> None:
        self._readers = readers
        self._shard = shard

    def all_records(self) -> dict[str, dict[str, bytes]]:
        records: dict[str, dict[str, bytes]] = {}
        for kind, key, data in self._rows("all_records"):
            records.setdefault(kind, {})[key] = data
        return records

    def records(self, kind: str) -> dict[str, bytes]:
        return dict(self._rows("records", kind=kind))

    def log(self, kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        rows = self._rows("log", kind=kind, key=key, after=after, rows_max=rows_max)
        return [LogRow(kind, key, position, data) for position, data in rows]

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
        return self._entries(name, time_ms=start.time_ms, position=start.position, **asked)

    def _by_position(self, which: Selection, asked: dict[str, Any]) -> list[EntryRow]:
        if which.received and which.due_ms_min > 0:
            return self._entries("by_position_in_flight", **asked)
        if which.enqueued_ms_max == LAST:
            return self._entries("by_position", **asked)
        # Messages past an age: few among many are found by age, many by walking in order to the last one wanted.
        ((count,),) = self._rows("count_old", **asked)
        if count == 0:
            return []
        return self._entries("by_position_of_old" if count < asked["rows_max"] else "by_position", **asked)

    def lane(
        self,
        which: Selection,
        group: str | None,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        asked = {
            "queue": which.queue, "after": which.after, "due_ms_max": which.due_ms_max, "rows_max": rows_max,
            "content_bytes_max": content_bytes_max,
        }  # fmt: skip
        if group is None:
            return self._entries("lane_loose", **asked)
        return self._entries("lane_grouped", grp=group.encode(), **asked)

    def scan(self, after: int, upto: int, rows_max: int, content_bytes_max: int) -> list[EntryRow]:
        return self._entries(
            "scan", after=after, upto=upto, rows_max=rows_max, content_bytes_max=content_bytes_max
        )

    def groups(self, which: Selection, rows_max: int) -> tuple[list[GroupCount], int]:
        rows = self._rows(
            "groups", queue=which.queue, after=which.after, due_ms_max=which.due_ms_max, rows_max=rows_max
        )
        found = [
            GroupCount(None if group is None else group.decode(), messages, first)
            for group, messages, first, _ in rows
        ]
        return found, max((last for *_, last in rows), default=which.after)

    def count(self, which: Selection) -> int:
        name = "count"
        if which.due_ms_min > 0 and which.received is not None:
            name = "count_in_flight" if which.received else "count_delayed"
        ((count,),) = self._rows(name, **which._asdict())
        assert isinstance(count, int)
        return count

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        return self._entries("lookup", queue=queue, after=after, seqs=int8_array(seqs))

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        return dict(self._rows("contents", seqs=int8_array(seqs)))

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = LAST) -> list[DedupRow]:
        rows = self._rows("dedup", queue=queue, now_ms=now_ms, after=after, rows_max=rows_max)
        return [DedupRow(*row) for row in rows]

    def usage(self, queue: int | None = None) -> dict[int, Usage]:
        rows = self._rows("usage") if queue is None else self._rows("usage_of", queue=queue)
        return {queue: Usage(messages, size) for queue, messages, size in rows}

    def _entries(self, name: str, **asked: Any) -> list[EntryRow]:
        entries = []
        for row in self._rows(name, **asked):
            if row[_GROUP] is not None:
                row = (*row[:_GROUP], row[_GROUP].decode(), *row[_GROUP + 1 :])
            entries.append(EntryRow._make(row))
        return entries

    def _rows(self, name: str, **asked: Any) -> list[tuple[Any, ...]]:
        asked["shard"] = self._shard
        return self._readers.fetch(_SQL[name], asked)
