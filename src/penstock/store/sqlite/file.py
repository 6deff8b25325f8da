"""The data file: made whole or not at all, and looked at before it is trusted.

Rule 1: a store is never silently empty. The file is built under another name and renamed when it is complete,
so a file that is missing beside its own leftovers, or has no content, lost its data: refused.
Rule 2: what is foreign, damaged or newer is refused in one sentence that says what to do.
Rule 3: looking is quick, whatever the size: header, length, schema, the ends of each tree.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from penstock.errors import StoreBroken, StoreRefused
from penstock.store.sqlite import migrations, statements
from penstock.store.sqlite.syncing import sync_file

Synchronous = Literal["full", "normal", "off"]

SQLITE_VERSION_MIN = (3, 33, 0)  # UPDATE ... FROM
APPLICATION_ID = 0x50454E53  # "PENS"
PAGE_BYTES = 4096
CACHE_KIB = 8 * 1024
# A checkpoint copies the log into the file while the writer waits: small enough to be short, large enough to
# be rare.
CHECKPOINT_PAGES = 1000
LOG_BYTES_KEPT = 16 * 1024 * 1024
BUSY_MS = 5000  # nobody else writes; a backup tool may hold a lock for a moment

_MAGIC = b"SQLite format 3\x00"
_TREE_PAGES = (b"\x02", b"\x05", b"\x0a", b"\x0d")
_LEFTOVERS = ("-wal", "-journal")
_RESTORE = "restore penstock.db from a backup, or give another directory to start empty"


def check_library() -> None:
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        needed = ".".join(map(str, SQLITE_VERSION_MIN))
        raise StoreRefused(
            f"This Python has SQLite {sqlite3.sqlite_version}, Penstock needs {needed} or newer: "
            "use a Python that was built with it."
        )


def create(connection: sqlite3.Connection) -> None:
    """An empty store in the present format."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect only before the first table
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"BEGIN;\nPRAGMA application_id = {APPLICATION_ID};\n"
        f"PRAGMA user_version = {migrations.present_version()};\n{statements.script('schema')}\nCOMMIT;"
    )
    connection.execute("INSERT INTO shard VALUES (1, 0, 1, 0, 0, ?)", (secrets.token_bytes(32),))


def connect(path: Path | str, synchronous: Synchronous, *, reads_only: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("PRAGMA mmap_size = 0")  # mapped pages would count as our memory
        connection.execute("PRAGMA secure_delete = OFF")  # some builds overwrite all that they free
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        if reads_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_file(path: Path, synchronous: Synchronous, steps: Sequence[str]) -> sqlite3.Connection:
    """A connection to a file that was found good, made new if there was none.

    From here on nobody in this process may open the file but SQLite: to close it, even once and only after reading,
    drops every lock that the process holds on it (POSIX). The next visitor, such as a backup, would then take itself
    for the last one that uses the database, and remove the log that we write to. So the connection that lives is
    made after all looking.
    """
    with damage_refused(path):
        if not path.exists():
            _refuse_leftovers(path)
            _create_file(path)
        _check_header(path)
        with closing(connect(path, synchronous)) as connection:
            _check_version(connection, path, steps)
            _check_pages(connection, path)
            _check_tables(connection, path)
            # A copy made by VACUUM INTO is in another mode, in which readers and the writer block each other.
            connection.execute("PRAGMA journal_mode = WAL")
        return connect(path, synchronous)


def _refuse_leftovers(path: Path) -> None:
    for ending in _LEFTOVERS:
        leftover = Path(f"{path}{ending}")
        if leftover.exists():
            raise StoreRefused(
                f"{path} is missing but {leftover.name} is there: put the file back, {_RESTORE}; "
                f"remove {leftover.name} only if the data may go."
            )


def _create_file(path: Path) -> None:
    fresh = path.with_name(f"{path.name}.new")
    for ending in ("", "-wal", "-shm", "-journal"):
        Path(f"{fresh}{ending}").unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
        create(connection)
    sync_file(fresh)
    fresh.rename(path)
    sync_file(path.parent)


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise StoreRefused(f"{path} is empty, its data is lost: {_RESTORE}.")
    if not header.startswith(_MAGIC):
        raise StoreRefused(f"{path} is not an SQLite database or its start is damaged: {_RESTORE}.")
    if len(header) < 100:
        raise StoreRefused(f"{path} is cut off: {_RESTORE}.")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreRefused(
            f"{path} is an SQLite database of another application: move it away or give another directory."
        )


def _check_version(connection: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    present = migrations.present_version(steps)
    if version > present:
        raise StoreRefused(
            f"{path} has format {version}, this Penstock knows formats up to {present}: "
            "start the newer Penstock that wrote it."
        )
    if version < 1:
        raise StoreRefused(f"{path} has no format version, its header is damaged: {_RESTORE}.")
    migrations.migrate(connection, version, steps)


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """The file has all its pages, and each tree begins with a page of a tree."""
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError:
        return  # no room to move the log into the file: the log still has it all, so the file proves nothing
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    if path.stat().st_size < pages * PAGE_BYTES:
        raise StoreRefused(f"{path} is cut off: it should have {pages * PAGE_BYTES} bytes; {_RESTORE}.")
    roots = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall()
    with path.open("rb") as file:
        for name, page in roots:
            file.seek((page - 1) * PAGE_BYTES)
            if file.read(1) not in _TREE_PAGES:
                raise StoreRefused(f"{path} is damaged (the root of {name} was overwritten): {_RESTORE}.")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(statements.script("schema"))
        missing = _schema(model) - _schema(connection)
    if missing:
        raise StoreRefused(f"{path} lacks {', '.join(sorted(missing))}, it is damaged: {_RESTORE}.")
    if connection.execute("SELECT count(*) FROM shard").fetchone() != (1,):
        raise StoreRefused(f"{path} has lost its log position, it is damaged: {_RESTORE}.")
    for table, order in (
        ("entries", "seq"),
        ("entries INDEXED BY by_age", "queue, enqueued, position"),
        ("contents", "seq"),
        ("queues", "id"),
        ("dedup", "queue, seq"),
        ("graveyard", "queue"),
    ):
        backwards = ", ".join(f"{column} DESC" for column in order.split(", "))
        for direction in (order, backwards):
            connection.execute(f"SELECT * FROM {table} ORDER BY {direction} LIMIT 1").fetchall()


def _schema(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return {name for (name,) in rows.fetchall()}


@contextmanager
def damage_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreRefused(
            f"{path} cannot be used ({error}): check the rights and the free space of its directory."
        ) from error
    except (sqlite3.DatabaseError, StoreBroken, msgspec.DecodeError) as error:
        raise StoreRefused(f"{path} is damaged ({error}): {_RESTORE}.") from error


def rollback(connection: sqlite3.Connection) -> None:
    """Back to the last commit; SQLite may have gone back by itself already."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
