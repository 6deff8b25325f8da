"""The files of a data directory: whose they are, the lock, and the data file, checked before it is trusted.

A store is never silently empty. The data file is built under another name and renamed when it is complete, so a file
that is missing beside its own leftovers, or has no content, has lost its data, and is refused. So is what is foreign,
damaged or newer, in one sentence that says what to do. Checks are quick whatever the size: header, length, schema,
the ends of each tree.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from penstock.clock import real_utc
from penstock.errors import StoreBroken, StoreRefused
from penstock.files import sync
from penstock.store.sql_files import script
from penstock.store.sqlite.log_check import lost_commits

log = logging.getLogger("penstock.store")

Synchronous = Literal["full", "normal", "off"]

DATA_FILE, LOCK_FILE, RESERVE_FILE = "penstock.db", "penstock.lock", "penstock.reserve"
LOG_FILE = f"{DATA_FILE}-wal"

SQLITE_VERSION_MIN = (3, 33, 0)  # UPDATE ... FROM
APPLICATION_ID = 0x50454E53  # "PENS"
PAGE_BYTES = 4096
CACHE_KIB = 8 * 1024
# A checkpoint copies the log into the file while the writer waits: small enough to be short, large enough to
# be rare.
CHECKPOINT_PAGES = 1000
LOG_BYTES_KEPT = 16 * 1024 * 1024
BUSY_MS = 5000  # no other process writes; a backup tool may hold a lock for a moment

MIGRATIONS: Sequence[str] = tuple(script("sqlite", f"migrate_{version}") for version in (1, 2, 3))
"""``MIGRATIONS[0]`` leads from format version 1 to 2, and so on; ``sql/schema.sql`` is always the present format."""

_MAGIC = b"SQLite format 3\x00"
_TREE_PAGES = (b"\x02", b"\x05", b"\x0a", b"\x0d")
_LEFTOVERS = ("-wal", "-journal")
_RESTORE = "restore penstock.db from a backup, or give another directory to start empty"


# -- the directory -------------------------------------------------------------------------------------------


def check_directory(directory: Path) -> None:
    """Make the data directory, or refuse one that others could exchange files in."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise StoreRefused(
            f"the data directory {directory} belongs to another user (uid {found.st_uid}): start as that user, "
            f"or give it to this one with chown -R {os.geteuid()} {directory}"
        )
    if found.st_mode & stat.S_IWOTH:
        raise StoreRefused(
            f"the data directory {directory} can be written by every user: run chmod o-w {directory}, "
            "or give another directory"
        )
    if found.st_mode & stat.S_IWGRP and found.st_uid == os.geteuid():
        log.warning("the data directory %s can be written by its group: chmod g-w is safer", directory)


def check_files(directory: Path) -> None:
    """Refuse links and files of other users among the data, and keep other users from reading it."""
    for name in (DATA_FILE, LOG_FILE, f"{DATA_FILE}-shm", f"{DATA_FILE}-journal", RESERVE_FILE):
        path = directory / name
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise StoreRefused(f"{path} is not a regular file: move it away, or give another directory")
        if found.st_uid not in (os.geteuid(), 0):
            raise StoreRefused(
                f"{path} belongs to another user (uid {found.st_uid}): start as that user, "
                f"or run chown {os.geteuid()} {path}"
            )
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)
            log.warning("%s was open to other users: its mode is 0600 now", path)


class LockFile:
    """One process per data directory. The lock is the kernel's (flock), so it ends with the process however that
    ends; the text in the file only tells a second process which one is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self, *, shared: bool = False) -> None:
        """``shared``: with other processes that take it so."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            if self._path.is_symlink():
                raise StoreRefused(
                    f"{self._path} is a symbolic link: remove it, the lock must be a file of its own"
                ) from None
            raise StoreRefused(
                f"{self._path} cannot be opened ({error.strerror}): check the owner and mode of the directory, "
                "or give another directory"
            ) from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise StoreRefused(f"{self._path} is not a regular file: remove it")
            if stat.S_IMODE(found.st_mode) != 0o600 and found.st_uid == os.geteuid():
                os.fchmod(fd, 0o600)  # who can open it can lock it, and keep the server from starting
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            raise StoreRefused(
                f"the data directory {self._path.parent} is in use by {holder}: "
                "stop that process, or give this one another directory"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self._sign(fd)

    def is_taken(self) -> bool:
        """Whether a process holds the lock, this one or another."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def _sign(self, fd: int) -> None:
        started = real_utc().isoformat(timespec="seconds")
        with suppress(OSError):  # a full disk: the lock holds without its text
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} (since {started})\n".encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


# -- the data file -------------------------------------------------------------------------------------------


def check_library() -> None:
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        needed = ".".join(map(str, SQLITE_VERSION_MIN))
        raise StoreRefused(
            f"this Python has SQLite {sqlite3.sqlite_version}, Penstock needs {needed} or newer: "
            "use a Python that was built with it"
        )


def create(connection: sqlite3.Connection) -> None:
    """An empty store in the present format."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect only before the first table
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"BEGIN;\nPRAGMA application_id = {APPLICATION_ID};\n"
        f"PRAGMA user_version = {format_version()};\n{script('sqlite', 'schema')}\nCOMMIT;"
    )
    connection.execute(
        "INSERT INTO shard (id, number, next_number, now_ms, wall_ms, secret) VALUES (1, 0, 1, 0, 0, ?)",
        (secrets.token_bytes(32),),
    )


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


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a file to read it, which a server may use at the same time. Nothing is created: without a log there is
    nothing but the file to read."""
    has_log = Path(f"{path}-wal").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)


def open_file(
    path: Path, synchronous: Synchronous, steps: Sequence[str], *, accept_data_loss: bool = False
) -> sqlite3.Connection:
    """A connection to a file that passed all checks, made new if there was none.

    ``accept_data_loss``: also if commits are lost because the log is damaged.

    From here on only SQLite may open the file in this process: to close it, even once and only after reading,
    drops every lock that the process holds on it (POSIX). The next program that opens it, such as a backup, would
    then take itself for the last one that uses the database, and remove the log that we write to. So the connection
    that is kept is made after all checks.
    """
    with damage_refused(path):
        if not path.exists():
            _refuse_leftovers(path)
            _create_file(path)
        check_header(path)
        check_log(path, is_fatal=synchronous == "full" and not accept_data_loss)
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
                f"remove {leftover.name} only if its data is not needed"
            )


def _create_file(path: Path) -> None:
    fresh = path.with_name(f"{path.name}.new")
    for ending in ("", "-wal", "-shm", "-journal"):
        Path(f"{fresh}{ending}").unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
        create(connection)
    sync(fresh)
    fresh.rename(path)
    sync(path.parent)


def check_header(path: Path) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise StoreRefused(f"{path} is empty, its data is lost: {_RESTORE}")
    if not header.startswith(_MAGIC):
        raise StoreRefused(f"{path} is not an SQLite database or its start is damaged: {_RESTORE}")
    if len(header) < 100:
        raise StoreRefused(f"{path} is truncated: {_RESTORE}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreRefused(
            f"{path} is an SQLite database of another application: move it away or give another directory"
        )


def check_log(path: Path, *, is_fatal: bool) -> None:
    """Check the log before anything else opens the file: SQLite would copy into it what it finds of the log, and
    forget the rest. Without a sync at every commit, a power failure may leave a log that looks damaged."""
    lost = lost_commits(path, PAGE_BYTES)
    if lost.is_damage and is_fatal:
        raise StoreRefused(
            f"{path}-wal is damaged: at least {lost.commits} commits behind the damage would be lost. Copy the data "
            "directory (cp -a), check its disk, and restore a backup; or start once with "
            "penstock serve --accept-data-loss, which continues with what was written before the damage"
        )
    if lost.is_damage:
        log.error("%s-wal is damaged: at least %d commits behind the damage are lost", path, lost.commits)
    elif lost.commits:
        log.warning("%s-wal is damaged at its end: at least %d commits are lost", path, lost.commits)


def _check_version(connection: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    present = format_version(steps)
    if version > present:
        raise StoreRefused(
            f"{path} has format {version}, this Penstock supports formats up to {present}: "
            "start the newer Penstock that wrote it"
        )
    if version < 1:
        raise StoreRefused(f"{path} has no format version, its header is damaged: {_RESTORE}")
    if version < present:
        log.info("migrating %s from format %d to %d: this can take minutes", path, version, present)
        _migrate(connection, path, version, steps)
        log.info("migrated %s: earlier releases cannot open it any more", path)


def format_version(steps: Sequence[str] = MIGRATIONS) -> int:
    return 1 + len(steps)


def _migrate(connection: sqlite3.Connection, path: Path, version: int, steps: Sequence[str]) -> None:
    """All steps that a file needs run in one transaction, so it is never left in between."""
    script = "\n;\n".join(steps[version - 1 :])
    # Sorting many rows for an index takes temporary files. In a container only the data directory may be writable.
    directory = str(path.parent.absolute()).replace("'", "''")
    connection.execute(f"PRAGMA temp_store_directory = '{directory}'")
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\n;\nPRAGMA user_version = {format_version(steps)};\nCOMMIT;"
        )
    except sqlite3.Error:
        rollback(connection)
        raise
    finally:
        connection.execute("PRAGMA temp_store_directory = ''")


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """The file has all its pages, and each tree begins with a page of a tree."""
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError:
        return  # no room to move the log into the file: the log still has it all, so the file proves nothing
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    if path.stat().st_size < pages * PAGE_BYTES:
        raise StoreRefused(f"{path} is truncated: it should have {pages * PAGE_BYTES} bytes; {_RESTORE}")
    roots = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall()
    with path.open("rb") as file:
        for name, page in roots:
            file.seek((page - 1) * PAGE_BYTES)
            if file.read(1) not in _TREE_PAGES:
                raise StoreRefused(f"{path} is damaged (the root of {name} was overwritten): {_RESTORE}")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(script("sqlite", "schema"))
        missing = _schema(model) - _schema(connection)
    if missing:
        raise StoreRefused(f"{path} lacks {', '.join(sorted(missing))}, it is damaged: {_RESTORE}")
    if connection.execute("SELECT count(*) FROM shard").fetchone() != (1,):
        raise StoreRefused(f"{path} has lost the end of its journal, it is damaged: {_RESTORE}")
    for table, order in (
        ("entries", "seq"),
        ("entries INDEXED BY by_age", "queue, enqueued, position"),
        ("contents", "seq"),
        ("records", "kind, key"),
        ("usage", "queue"),
        ("dedup", "queue, seq"),
        ("voids", "queue"),
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
            f"{path} cannot be used ({error}): check its owner and mode, and the free space of its directory"
        ) from error
    except (sqlite3.DatabaseError, StoreBroken, msgspec.DecodeError) as error:
        raise StoreRefused(f"{path} is damaged ({error}): {_RESTORE}") from error


def rollback(connection: sqlite3.Connection) -> None:
    """Go back to the last commit; SQLite may have rolled back by itself already."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
