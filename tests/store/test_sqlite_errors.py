"""Which of SQLite's errors pass, which are reported, and which end the shard."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.errors import DataRefused, StoreBroken, StoreError, StoreFull, StoreRefused
from penstock.store.sqlite.disk import store_error
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver, row
from support.rows import every_row


def error(code: int | None) -> sqlite3.Error:
    made = sqlite3.OperationalError("said by SQLite")
    if code is not None:
        made.sqlite_errorcode = code
        made.sqlite_errorname = "NAME"
    return made


@every_row(
    ("code", "room", "committing", "expected"),
    [
        (sqlite3.SQLITE_FULL, True, False, StoreFull),
        (sqlite3.SQLITE_FULL, True, True, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, False, True, StoreFull),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, False, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, True, False, StoreError),
        (sqlite3.SQLITE_IOERR_WRITE, True, True, StoreBroken),
        (sqlite3.SQLITE_IOERR_FSYNC, False, True, StoreBroken),
        (sqlite3.SQLITE_IOERR_FSYNC, False, False, StoreBroken),
        (sqlite3.SQLITE_CORRUPT, True, False, StoreBroken),
        (sqlite3.SQLITE_CORRUPT_INDEX, True, False, StoreBroken),
        (sqlite3.SQLITE_NOTADB, True, False, StoreBroken),
        (sqlite3.SQLITE_BUSY, True, True, StoreError),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, True, False, DataRefused),
        (None, True, False, StoreError),
        (None, True, True, StoreBroken),
    ],
)
def test_the_meaning_of_an_error(
    code: int | None, room: bool, committing: bool, expected: type[StoreError]
) -> None:
    fault = store_error(error(code), has_room=lambda: room, committing=committing)
    assert type(fault) is expected
    assert "said by SQLite" in str(fault)


def test_a_closed_store_says_so(data: Path) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.store.close()
    driver.store.close()
    with pytest.raises(StoreError, match="closed"):
        driver.append(added=[row(1)])
    with pytest.raises(StoreError, match="closed"):
        driver.all()


def test_another_writer_is_waited_for_and_then_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.sqlite.file.BUSY_MS", 20)
    driver = Driver(lambda: SqliteStore(data))
    other = sqlite3.connect(data / "penstock.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        driver.append(added=[row(1)])
    other.execute("ROLLBACK")
    driver.append(added=[row(1)])
    other.close()
    driver.store.close()


def test_a_library_that_is_too_old(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(StoreRefused, match=r"needs 3\.33\.0 or newer"):
        SqliteStore(data).open()
