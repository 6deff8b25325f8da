"""The reads of the port on SQLite: one statement each, short, and over before the next begins.

A read that takes two statements holds a snapshot for both, so that it too sees whole batches only.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from penstock.names import QueueName
from penstock.store.changes import DedupRow, EntryRow, MoveTaskRecord, QueueRecord
from penstock.store.port import CONTENT_BYTES_PER_READ, GroupCount, Head, Mark, Shard, Tally
from penstock.store.sqlite import file, statements
from penstock.store.sqlite.faults import store_fault

_SQL = statements.load("reads")
_encode = msgspec.json.Encoder().encode
_queues = msgspec.json.Decoder(list[QueueRecord]).decode
_tasks = msgspec.json.Decoder(list[MoveTaskRecord]).decode
_cooldowns = msgspec.json.Decoder(list[tuple[str, str, str, int]]).decode
_entries = msgspec.json.Decoder(list[EntryRow]).decode
_groups = msgspec.json.Decoder(list[GroupCount]).decode
_triples = msgspec.json.Decoder(list[tuple[int, int, int]]).decode
_numbers = msgspec.json.Decoder(list[int]).decode


class Reads:
    """Half of a store: the half that changes nothing."""

    _reader: sqlite3.Connection
    _read_lock: threading.RLock

    def queues(self) -> list[QueueRecord]:
        return _queues(self._one("queues")[0])

    def cooldowns(self) -> dict[QueueName, int]:
        rows = _cooldowns(self._one("cooldowns")[0])
        return {QueueName(account, region, name): until for account, region, name, until in rows}

    def tasks(self) -> list[MoveTaskRecord]:
        return _tasks(self._one("tasks")[0])

    def tally(self, queue: int, after: int, now_ms: int) -> Tally:
        return Tally(*self._one("tally", queue=queue, after=after, now_ms=now_ms))

    def groups(self, queue: int, after: int, due_ms_max: int, rows_max: int) -> tuple[list[GroupCount], int]:
        groups, last = self._one("groups", queue=queue, after=after, due_ms_max=due_ms_max, rows_max=rows_max)
        return _groups(groups), last

    def waiting(
        self,
        queue: int,
        group: str | None,
        after: int,
        due_ms_max: int,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        asked = {"queue": queue, "after": after, "due_ms_max": due_ms_max, "rows_max": rows_max}
        with self._snapshot():
            if group is None:
                rows, contents = self._one("waiting_loose", **asked)
            else:
                rows, contents = self._one("waiting_grouped", grp=group, **asked)
            return self._with_contents(_entries(rows), _bytes_of(contents), content_bytes_max)

    def _with_contents(self, rows: list[EntryRow], inside: list[bytes], budget: int) -> list[EntryRow]:
        whole = []
        for row, content in zip(rows, inside, strict=True):
            if not content and budget > 0:
                content = self._apart(row.seq)
            budget -= len(content)
            whole.append(EntryRow(*row[:-1], content or None))
        return whole

    def _apart(self, seq: int) -> bytes:
        content: bytes = self._one("content_apart", seq=seq)[0]
        return content

    def delayed(self, queue: int, after: int, due_ms_min: int, rows_max: int) -> list[EntryRow]:
        return _entries(
            self._one("delayed", queue=queue, after=after, due_ms_min=due_ms_min, rows_max=rows_max)[0]
        )

    def in_flight(self, queue: int, after: int, due_ms_min: int) -> list[EntryRow]:
        return _entries(self._one("in_flight", queue=queue, after=after, due_ms_min=due_ms_min)[0])

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        return _entries(self._one("lookup", queue=queue, after=after, seqs=_encode(list(seqs)).decode())[0])

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        with self._snapshot():
            found, inside = self._one("contents_inside", seqs=_encode(list(seqs)).decode())
            pairs = zip(_numbers(found), _bytes_of(inside), strict=True)
            return {seq: content or self._apart(seq) for seq, content in pairs}

    def expired(self, queue: int, after: int, enqueued_ms_max: int, rows_max: int) -> list[EntryRow]:
        asked = {"queue": queue, "after": after, "enqueued_ms_max": enqueued_ms_max, "rows_max": rows_max}
        with self._snapshot():
            (count,) = self._one("count_expired", **asked)
            if count == 0:
                return []
            few = count < rows_max
            return _entries(self._one("expired_few" if few else "expired_many", **asked)[0])

    def oldest_ms(self, queue: int, after: int) -> int | None:
        oldest: int | None = self._one("oldest_ms", queue=queue, after=after)[0]
        return oldest

    def younger(self, queue: int, after: int, enqueued_ms_min: int) -> int:
        count: int = self._one("younger", queue=queue, after=after, enqueued_ms_min=enqueued_ms_min)[0]
        return count

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = -1) -> list[DedupRow]:
        sends, digests = self._one("dedup", queue=queue, now_ms=now_ms, after=after, rows_max=rows_max)
        return [
            DedupRow(queue, seq, digest, until_ms)
            for (queue, seq, until_ms), digest in zip(_triples(sends), _bytes_of(digests), strict=True)
        ]

    def heads(self, after: int, upto: int, rows_max: int, bytes_max: int) -> list[Head]:
        rows, starts = self._one("heads", after=after, upto=upto, rows_max=rows_max, bytes_max=bytes_max)
        return [Head(*row, start) for row, start in zip(_triples(rows), _bytes_of(starts), strict=True)]

    def _shard(self) -> Shard:
        position, next_number, now_ms, wall_ms, secret = self._one("shard")
        (messages,) = self._one("messages")
        with self._reading():
            pages, free, page_bytes = (
                self._reader.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return Shard(
            position, Mark(next_number, now_ms, wall_ms), secret, self.queues(), self.cooldowns(), self.tasks(),
            frozenset(_bytes_of(self._one("seals")[0])), messages, (pages - free) * page_bytes,
        )  # fmt: skip

    def _one(self, name: str, **asked: object) -> tuple[Any, ...]:
        with self._reading():
            rows = self._reader.execute(_SQL[name], asked).fetchall()
        row: tuple[Any, ...] = rows[0]
        return row

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._read_lock:
            try:
                yield
            except sqlite3.Error as error:
                raise store_fault(error, has_room=lambda: True) from error

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._reading():
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                file.rollback(self._reader)


def _bytes_of(digits: str | None) -> list[bytes]:
    """What ``group_concat(hex(...))`` gathered; empty bytes stand for NULL."""
    return [] if digits is None else [bytes.fromhex(part) for part in digits.split(",")]
