"""The embedded store: one SQLite file in the data directory.

An append is durable (write-ahead log, fsync at every commit) or did not happen. With ``sync_every_s``, or less than
full ``synchronous``, it is with the operating system at once and on the disk a little later. One connection writes
and one reads, each by one thread at a time; a read never waits for a commit. A failed append leaves the connection
ready for the next, unless the error is StoreBroken.

On a full disk no new messages are accepted, but stored ones can still be received and deleted: a reserve file is
kept while there is space, and removed when there is none, which leaves space to write receives and deletes.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from penstock.errors import DataRefused, StoreClosed, StoreFull, StoreLost, StoreRefused
from penstock.metrics.histogram import Histogram
from penstock.store.changes import Changes
from penstock.store.port import Mark, ShardState, StoreStatus
from penstock.store.sqlite import file
from penstock.store.sqlite.cleanup import Shrinking, remove_void_rows
from penstock.store.sqlite.disk import LogSync, Reserve, file_bytes, free_bytes, room_for, store_error
from penstock.store.sqlite.read import Reads
from penstock.store.sqlite.write import write

T = TypeVar("T")

WORKING_BYTES = 1024 * 1024
"""SQLite needs some room even to read: the index of its log is a file."""

NUMBERS_LOST_MAX = 2**22
"""A power failure loses fewer numbers of a shard than these if commits are not synced."""

_FULL = "the disk is full"


class SqliteStore:
    def __init__(
        self,
        directory: Path,
        *,
        synchronous: file.Synchronous = "full",
        sync_every_s: float | None = None,
        migrations: Sequence[str] = file.MIGRATIONS,
        accept_data_loss: bool = False,
    ) -> None:
        """``accept_data_loss``: open a store whose log is damaged, without what is behind the damage."""
        self._directory = directory
        self._synchronous = synchronous
        self._sync_every_s = sync_every_s
        self._migrations = migrations
        self._accept_data_loss = accept_data_loss
        self._sync: LogSync | None = None
        self._sync_times = Histogram()
        self._lock_file = file.LockFile(directory / file.LOCK_FILE)
        self._reserve = Reserve(directory / file.RESERVE_FILE)
        self._full = False
        self._shrinking = Shrinking()
        self._writer: sqlite3.Connection | None = None
        self._write_lock = threading.RLock()
        self._inodes: dict[str, int] = {}  # of the files that hold the data
        self._reads = Reads()
        self.end = self._reads.end
        self.records = self._reads.records
        self.log = self._reads.log
        self.select = self._reads.select
        self.lane = self._reads.lane
        self.groups = self._reads.groups
        self.count = self._reads.count
        self.lookup = self._reads.lookup
        self.contents = self._reads.contents
        self.scan = self._reads.scan
        self.dedup = self._reads.dedup
        self.usage = self._reads.usage

    # -- open and close --------------------------------------------------------------------------------------

    def open(self) -> ShardState:
        assert self._writer is None, "a store is opened once"
        file.check_library()
        try:
            return self._open()
        except OSError as error:
            self.close()
            path = error.filename or self._directory
            reason = "not a directory" if isinstance(error, FileExistsError) else error.strerror or error
            raise StoreRefused(
                f"{path} cannot be used ({reason}): check its owner and mode, or give another data directory"
            ) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> ShardState:
        file.check_directory(self._directory)
        self._lock_file.take()
        file.check_files(self._directory)
        if free_bytes(self._directory) < WORKING_BYTES:
            self._reserve.release()
        path = self._directory / file.DATA_FILE
        self._writer = file.open_file(
            path, self._synchronous, self._migrations, accept_data_loss=self._accept_data_loss
        )
        with file.damage_refused(path):
            self._take_ownership(self._writer)
            self._reads.open(file.connect(path, self._synchronous, reads_only=True))
            state = self._reads.state()
        if self.syncs_late or self._accept_data_loss:
            # Commits may be lost that other shards know of. They take no message whose number they have taken before.
            mark = state.mark
            numbers = NUMBERS_LOST_MAX if mark.next_number > 1 else 0
            state = state._replace(mark=mark._replace(next_number=mark.next_number + numbers))
        log = self._directory / file.LOG_FILE
        self._inodes = {str(each): os.stat(each).st_ino for each in (path, log)}
        self._full = not self._reserve.restore()
        if self.syncs_late:
            self._sync = LogSync(log, self._sync_every_s, self._sync_times)
        return state

    def _take_ownership(self, connection: sqlite3.Connection) -> None:
        """Take the shard for this process. This also finds out at the start, and not with the first send, that the
        file cannot be written."""
        try:
            connection.execute("UPDATE shard SET owner = ?", (secrets.token_bytes(16),))
        except sqlite3.Error as error:
            if not isinstance(store_error(error, has_room=self._has_room), StoreFull):
                raise  # on a full disk the lock file is enough to know who owns the data

    def close(self) -> None:
        self._reads.close()
        with self._write_lock:
            sync, self._sync = self._sync, None
            if sync is not None:
                sync.close()
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()
            self._lock_file.release()

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        for path, inode in self._inodes.items():
            # A file that was removed or replaced takes every write and keeps none.
            try:
                found = os.stat(path).st_ino
            except OSError:
                found = 0
            if found != inode:
                raise StoreLost(f"{path} was removed or replaced while in use")
        try:
            return self._in_transaction(write, changes, mark)
        except StoreFull:
            self._full = True
            self._reserve.release()
            raise

    @property
    def syncs_late(self) -> bool:
        return self._synchronous == "normal"

    def sync(self) -> None:
        with self._write_lock:
            if self._writer is None:
                raise StoreClosed("the store is closed")
            if self._sync is not None:
                self._sync.sync()

    def maintain(self, rows_max: int) -> bool:
        more = self._in_transaction(remove_void_rows, rows_max) or self._shrink(rows_max)
        if self._full:
            self._full = not self._reserve.restore()
        return more

    def _shrink(self, pages_max: int) -> bool:
        with self._write_lock:
            if self._writer is None:
                return False
            try:
                return self._shrinking.shrink(self._writer, pages_max, free_bytes(self._directory))
            except sqlite3.Error as error:
                raise store_error(error, has_room=self._has_room) from error

    def _in_transaction(self, work: Callable[..., T], *more: object) -> T:
        """``work`` is called with the connection and ``more``."""
        with self._write_lock:
            connection = self._writer
            if connection is None:
                raise StoreClosed("the store is closed")
            sync = self._sync
            if sync is not None:
                sync.check()
            committing = False
            try:
                connection.execute("BEGIN IMMEDIATE")
                outcome = work(connection, *more)
                committing = True
                began_s = perf_counter()
                connection.execute("COMMIT")
                if self._synchronous == "full":  # a commit writes little: its time is that of the sync
                    self._sync_times.observe(perf_counter() - began_s)
            except BaseException as error:
                try:
                    if isinstance(error, sqlite3.Error):
                        raise store_error(error, has_room=self._has_room, committing=committing) from error
                    if isinstance(error, (OverflowError, UnicodeEncodeError)):
                        raise DataRefused(
                            error.reason if isinstance(error, UnicodeError) else str(error)
                        ) from error
                    raise
                finally:
                    file.rollback(connection)
            if sync is not None:
                sync.written()
            return outcome

    def _has_room(self) -> bool:
        log = self._directory / file.LOG_FILE
        return room_for(self._directory, log.stat().st_size + WORKING_BYTES)

    def status(self) -> StoreStatus:
        return StoreStatus(
            _FULL if self._full else None,
            free_bytes(self._directory),
            self._reads.used_bytes(),
            log_bytes=file_bytes(self._directory / file.LOG_FILE),
            sync_times=self._sync_times,
        )
