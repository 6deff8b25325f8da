"""Removes what purges and drops left, and gives the space back, a bite at a time between commits."""

from __future__ import annotations

import sqlite3

from penstock.store.sqlite import file, statements, write

FREE_PAGES_KEPT = 2048
"""Free pages worth keeping for the next messages; more are given back."""

PAGES_PER_CUT = 8192
"""The disk needs a while to take back a large piece of a file, so it gets smaller ones."""

PLENTY_BYTES = 64 * 1024 * 1024
"""Free space on the disk with which the log may grow for a while."""

_SQL = statements.load("tidy")


def remove_bite(connection: sqlite3.Connection, rows_max: int) -> bool:
    """Remove some void rows, in the caller's transaction; False if there were none."""
    grave = connection.execute(_SQL["grave"]).fetchone()
    if grave is None:
        return False
    queue, position, seq = grave
    asked = {"queue": queue, "position": position, "rows_max": rows_max}
    (seqs,) = connection.execute(_SQL["void_entries"], asked).fetchone()
    if seqs != "[]":
        write.remove(connection, seqs)
    elif write.forget(connection, queue, seq, rows_max) < rows_max:
        connection.execute(_SQL["close_grave"], (queue,))
    return True


def free_pages(connection: sqlite3.Connection) -> int:
    pages: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return pages


def shrink_bite(connection: sqlite3.Connection, pages_max: int) -> None:
    # As a script, because SQLite answers this once per page and a script reads all answers at once.
    connection.executescript(f"PRAGMA incremental_vacuum({pages_max})")


def cut_file(connection: sqlite3.Connection) -> bool:
    """Move the log into the file, which cuts both to size; False if a reader was in the way: no use waiting."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        ((blocked, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {file.BUSY_MS}")
    return not blocked
