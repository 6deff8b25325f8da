"""What SQLite's errors mean for the broker.

Rule 1: no room is told apart from everything else, because it passes.
Rule 2: an error that leaves it unknown what is on the disk (a failed fsync, a COMMIT that broke, damage) is
StoreBroken: the process must stop and read the truth again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from penstock.errors import StoreBroken, StoreError, StoreFull

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNSYNCED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


def store_fault(
    error: sqlite3.Error, *, has_room: Callable[[], bool], committing: bool = False
) -> StoreError:
    """``has_room`` is asked only when SQLite says "I/O error" for what may be a quota or a limit on files."""
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None)
    text = f"{error} ({name})" if name else str(error)
    if code is None:
        return StoreBroken(text) if committing else StoreError(text)
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(text)
    if primary in _DAMAGED or code in _UNSYNCED:
        return StoreBroken(text)
    if primary == sqlite3.SQLITE_IOERR and not has_room():
        return StoreFull(text)
    if primary == sqlite3.SQLITE_BUSY:
        return StoreError(text)
    return StoreBroken(text) if committing else StoreError(text)
