"""The disk below the data file: free space and the reserve, syncs of the log, and what SQLite's errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter

from penstock.errors import DataRefused, StoreBroken, StoreError, StoreFull
from penstock.metrics.histogram import Histogram

RESERVE_BYTES = 8 * 1024 * 1024
RESTORE_WHEN_FREE = 4
"""How many times the reserve must be free: it is set aside again only when that leaves enough to work with."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DATA = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_UNSYNCED = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


def store_error(
    error: sqlite3.Error, *, has_room: Callable[[], bool], committing: bool = False
) -> StoreError:
    """A lack of space is an error of its own, because it passes. An error that leaves it unknown what is on the
    disk (a failed fsync, a COMMIT that broke, damage) is StoreBroken: the data must be read again from the disk. One
    for what was to be written is DataRefused.

    ``has_room`` is asked only when SQLite says "I/O error" for what may be a quota or a limit on files."""
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
    if primary in _DATA:
        return DataRefused(text)
    return StoreBroken(text) if committing else StoreError(text)


def free_bytes(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def file_bytes(path: Path) -> int:
    """Returns 0 if there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def room_for(directory: Path, file_bytes: int) -> bool:
    """Whether a file of this size fits here: a quota or a limit on files does not show in the free space."""
    probe = directory / "penstock.probe"
    try:
        _allocate(probe, 256 * 1024, file_bytes)
    except OSError as error:
        return error.errno not in _NO_ROOM
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return True


class Reserve:
    """Space set aside for a full disk, so that receives, deletes and purges continue and make room."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def restore(self) -> bool:
        """Set the space aside again; False if there is not enough."""
        try:
            with suppress(FileNotFoundError):
                if self._path.lstat().st_size == self._size:
                    return True
            if free_bytes(self._path.parent) <= RESTORE_WHEN_FREE * self._size:
                return False
            _allocate(self._path, self._size, self._size)
        except OSError:
            with suppress(OSError):
                self.release()
            return False
        return True


def _allocate(path: Path, allocated: int, size: int) -> None:
    """A new file with blocks really taken from the disk, not a hole."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, allocated)
        else:
            for offset in range(0, allocated, 65536):
                os.pwrite(fd, bytes(min(65536, allocated - offset)), offset)
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


class LogSync:
    """Syncs the log when it is asked to, and from time to time if there is an interval, for those who trade the last
    moments before a power cut for speed.

    What a commit wrote is with the operating system at once: a crash of the process costs nothing. After a sync that
    failed every append raises StoreBroken, because what is on the disk is unknown from then on."""

    def __init__(self, log: Path, every_s: float | None, times: Histogram) -> None:
        self._log = log
        self._times = times
        self._fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)  # kept: callers may use up all descriptors
        self._unsynced = Event()
        self._ended = Event()
        self._failure: OSError | None = None
        # The system reports a failure once: no other sync may end well before it is noted.
        self._lock = Lock()
        self._thread: Thread | None = None
        if every_s is not None:
            self._thread = Thread(target=self._run, args=(every_s,), name="penstock-sync", daemon=True)
            self._thread.start()

    def check(self) -> None:
        if self._failure is not None:
            raise StoreBroken(f"{self._log} could not be synced: {self._failure}")

    def written(self) -> None:
        """Note that there is something to sync, within the time."""
        self._unsynced.set()

    def sync(self) -> None:
        """Sync what was written before. Raises StoreBroken if that fails, or has failed before."""
        with self._lock:
            self.check()
            began_s = perf_counter()
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._failure = error
            else:
                self._times.observe(perf_counter() - began_s)
            self.check()

    def close(self) -> None:
        """End the thread. Closing the store syncs what is left."""
        self._ended.set()
        self._unsynced.set()
        if self._thread is not None:
            self._thread.join()
        os.close(self._fd)

    def _run(self, every_s: float) -> None:
        while self._unsynced.wait() and not self._ended.wait(every_s):
            self._unsynced.clear()  # first: what is written from here on may be too late for this sync
            try:
                self.sync()
            except StoreBroken:
                return
