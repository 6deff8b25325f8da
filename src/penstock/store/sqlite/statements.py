"""Statements for many rows.

Such a statement has ``{rows}`` where its VALUES go. Its text is made for powers of two of rows, so that the
cache of prepared statements holds them all, and any number of rows takes a handful of statements.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

ROWS_PER_STATEMENT_MAX = 512


@cache
def for_rows(statement: str, rows: int, columns: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return statement.replace("{rows}", ",".join([row] * rows))


def execute_rows(
    connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]
) -> Iterator[tuple[sqlite3.Cursor, Sequence[Sequence[object]]]]:
    """Run a statement over many rows, some at a time. Yields what each run did, and for which rows."""
    columns, total, start = len(rows[0]), len(rows), 0
    while start < total:
        rest = total - start
        size = min(ROWS_PER_STATEMENT_MAX, 1 << (rest.bit_length() - 1))
        part = rows if size == total else rows[start : start + size]
        yield connection.execute(for_rows(statement, size, columns), list(chain.from_iterable(part))), part
        start += size
