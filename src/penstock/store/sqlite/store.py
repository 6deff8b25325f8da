"""The embedded store: one SQLite file in the data directory, or a database in memory for a while.

Rule 1: an append is durable (write-ahead log, fsync at every commit) or did not happen. With ``sync_every_s``, or
        less than full ``synchronous``, it is with the operating system at once and on the disk a little later.
Rule 2: one connection writes and one reads, each by one thread at a time; a read never waits for a commit.
Rule 3: a failed append leaves the connection ready for the next, unless the error is StoreBroken.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from penstock.errors import StoreLost, StoreRefused
from penstock.store.changes import Changes
from penstock.store.port import Mark, Shard, Usage
from penstock.store.sqlite import cleanup, file, migrations, write
from penstock.store.sqlite.faults import store_fault
from penstock.store.sqlite.lockfile import LOCK_FILE, LockFile
from penstock.store.sqlite.meter import Meter
from penstock.store.sqlite.read import Reads
from penstock.store.sqlite.reserve import Reserve, free_bytes, room_for
from penstock.store.sqlite.syncing import TimedSync

T = TypeVar("T")

_LOG_FILE = "penstock.db-wal"
WORKING_BYTES = 1024 * 1024
"""SQLite needs some room even to read: the index of its log is a file."""


class SqliteStore(Reads):
    def __init__(
        self,
        directory: Path | None,
        *,
        synchronous: file.Synchronous = "full",
        sync_every_s: float | None = None,
        steps: Sequence[str] = migrations.STEPS,
    ) -> None:
        self._directory = directory
        self._synchronous = synchronous
        self._sync_every_s = sync_every_s
        self._sync: TimedSync | None = None
        self._steps = steps
        self._lock_file = LockFile(directory / LOCK_FILE) if directory else None
        self._reserve = Reserve(directory / "penstock.reserve") if directory else None
        self._writer: sqlite3.Connection
        self._connections: list[sqlite3.Connection] = []
        self._write_lock = threading.RLock()
        # In memory there is one connection for both, so reads and writes take turns.
        self._read_lock = threading.RLock() if directory else self._write_lock
        self._files: dict[str, int] = {}  # that hold the data, by inode
        self._meter = Meter()
        self._pages_given_back = 0  # in the log; the file itself is cut from time to time

    def open(self) -> Shard:
        assert not self._connections, "a store is opened once"
        file.check_library()
        try:
            if self._directory is None:
                self._writer = self._reader = file.connect(":memory:", self._synchronous)
                self._connections = [self._writer]
                file.create(self._writer)
                return self._shard()
            return self._open_directory(self._directory)
        except OSError as error:
            self.close()
            raise StoreRefused(f"The data directory {self._directory} cannot be used: {error}.") from error
        except BaseException:
            self.close()
            raise

    def _open_directory(self, directory: Path) -> Shard:
        assert self._lock_file is not None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_file.take()
        if free_bytes(directory) < WORKING_BYTES:
            self.release_reserve()
        path = directory / "penstock.db"
        self._writer = file.open_file(path, self._synchronous, self._steps)
        self._connections = [self._writer]
        with file.damage_refused(path):
            self._reader = file.connect(path, self._synchronous, reads_only=True)
            self._connections.append(self._reader)
            shard = self._shard()
            self._files = {str(each): os.stat(each).st_ino for each in (path, directory / _LOG_FILE)}
        self.restore_reserve()
        if self._sync_every_s is not None:
            self._sync = TimedSync(directory / _LOG_FILE, self._sync_every_s)
        return shard

    def close(self) -> None:
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.close()
        with self._write_lock, self._read_lock:
            while self._connections:
                self._connections.pop().close()
            if self._lock_file is not None:
                self._lock_file.release()

    def append(self, changes: Changes, mark: Mark) -> None:
        def job(connection: sqlite3.Connection) -> None:
            with self._meter.watching(connection, changes):
                write.write(connection, changes, mark)

        self._check_files_are_there()
        with self._write_lock:
            self._in_transaction(job)
            self._meter.durable()

    def rewrite(self, contents: Sequence[tuple[int, bytes]]) -> None:
        def job(connection: sqlite3.Connection) -> None:
            with self._meter.weighing(connection, [seq for seq, _ in contents]):
                write.rewrite(connection, contents)

        if not contents:
            return
        self._check_files_are_there()
        with self._write_lock:
            self._in_transaction(job)
            self._meter.durable()

    def remember_seals(self, seals: Set[bytes]) -> None:
        self._check_files_are_there()
        self._in_transaction(lambda connection: write.replace_seals(connection, seals))

    def usage(self) -> dict[int, Usage]:
        with self._write_lock, self._faults():
            return self._meter.usage(self._writer)

    def _check_files_are_there(self) -> None:
        """A file that was removed or replaced under our feet takes every write and keeps none."""
        for path, inode in self._files.items():
            try:
                found = os.stat(path).st_ino
            except OSError:
                found = 0
            if found != inode:
                raise StoreLost(f"{path} was removed or replaced while in use")

    def tidy(self, rows_max: int) -> bool:
        if self._in_transaction(lambda connection: cleanup.remove_bite(connection, rows_max)):
            return True
        with self._write_lock, self._faults():
            return self._shrink(rows_max)

    def _shrink(self, pages_max: int) -> bool:
        surplus = cleanup.free_pages(self._writer) - cleanup.FREE_PAGES_KEPT
        if surplus > 0:
            pages = min(pages_max, surplus)
            cleanup.shrink_bite(self._writer, pages)
            self._pages_given_back += pages
        # On a disk that is nearly full the log must not grow before the file has shrunk.
        plenty = self._directory is None or free_bytes(self._directory) > cleanup.PLENTY_BYTES
        cut_above = cleanup.PAGES_PER_CUT if surplus > 0 and plenty else 0
        if self._pages_given_back > cut_above and cleanup.cut_file(self._writer):
            self._pages_given_back = 0
        return surplus > 0

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._writer
        with self._write_lock:
            if self._sync is not None:
                self._sync.check()
            committing = False
            try:
                connection.execute("BEGIN IMMEDIATE")
                outcome = work(connection)
                committing = True
                connection.execute("COMMIT")
            except BaseException as error:
                try:
                    if isinstance(error, sqlite3.Error):
                        raise store_fault(error, has_room=self._has_room, committing=committing) from error
                    raise
                finally:
                    file.rollback(connection)
            if self._sync is not None:
                self._sync.written()
            return outcome

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise store_fault(error, has_room=self._has_room) from error

    def _has_room(self) -> bool:
        if self._directory is None:
            return True
        log = self._directory / _LOG_FILE
        return room_for(self._directory, log.stat().st_size + WORKING_BYTES)

    def free_bytes(self) -> int | None:
        return free_bytes(self._directory) if self._directory else None

    def release_reserve(self) -> None:
        if self._reserve is not None:
            self._reserve.release()

    def restore_reserve(self) -> bool:
        return self._reserve is None or self._reserve.restore()
