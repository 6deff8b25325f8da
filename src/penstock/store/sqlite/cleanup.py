"""Removes what purges and drops left, and gives the space back, a bounded piece at a time between commits."""

from __future__ import annotations

import sqlite3

from penstock.store.sqlite import file, write

FREE_PAGES_KEPT = 2048
"""Free pages worth keeping for the next messages; more are given back."""

PAGES_PER_CUT = 8192
"""The disk needs a while to take back a large piece of a file, so it gets smaller ones."""

PLENTY_BYTES = 64 * 1024 * 1024
"""Free space on the disk with which the log may grow for a while."""


def remove_void_rows(connection: sqlite3.Connection, rows_max: int) -> bool:
    """Remove some void rows, in the caller's transaction; False if there were none."""
    void = connection.execute(write.SQL["first_void"]).fetchone()
    if void is None:
        return False
    queue, position, seq = void
    asked = {"queue": queue, "position": position, "rows_max": rows_max}
    (seqs,) = connection.execute(write.SQL["void_entries"], asked).fetchone()
    if seqs != "[]":
        write.remove(connection, seqs)
    elif write.forget(connection, queue, seq, rows_max) < rows_max:
        connection.execute(write.SQL["end_void"], (queue,))
    return True


class Shrinking:
    """Gives free pages of the file back to the disk."""

    def __init__(self) -> None:
        self._pages_given_back = 0  # in the log; the file itself is cut from time to time

    def shrink(self, connection: sqlite3.Connection, pages_max: int, free_bytes: int) -> bool:
        """Returns whether there is more to give back."""
        (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
        surplus = free_pages - FREE_PAGES_KEPT
        if surplus > 0:
            pages = min(pages_max, surplus)
            # As a script, because SQLite answers this once per page and a script reads all answers at once.
            connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            self._pages_given_back += pages
        # On a disk that is nearly full the log must not grow before the file has shrunk.
        cut_above = PAGES_PER_CUT if surplus > 0 and free_bytes > PLENTY_BYTES else 0
        if self._pages_given_back > cut_above and _cut_file(connection):
            self._pages_given_back = 0
        return bool(surplus > 0)


def _cut_file(connection: sqlite3.Connection) -> bool:
    """Move the log into the file, which cuts both to size; False if a reader was in the way: no use waiting."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        ((blocked, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {file.BUSY_MS}")
    return not blocked
