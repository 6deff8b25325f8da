"""The file of the audit log: whole lines are appended, and older files are kept beside it with a number.

A file that would grow past its size becomes ``NAME.1``, the one before ``NAME.2``, and so on; the oldest is removed.
A file that was moved away by another program (logrotate) is left alone, and a new one is started. Files are created
readable for their owner only. Several processes can write one file: each holds a lock while it appends or rotates.
"""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext, suppress
from pathlib import Path

from penstock.auth.secret_files import change_lock
from penstock.files import sync

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not block


class AuditError(Exception):
    """One line for the operator."""


class AuditFile:
    """Raises OSError for what the disk refuses; the next call opens the file again."""

    def __init__(self, path: Path, *, bytes_max: int, keep: int, shared: bool = False) -> None:
        """``shared``: other processes write it, too."""
        self.path = path
        self._shared = shared
        self._bytes_max = bytes_max
        self._keep = keep
        self._fd: int | None = None

    def check(self) -> None:
        """Find an invalid path at the start. Nothing is written: another server may be writing to the file."""
        try:
            _make_private(self.path.parent)
            os.close(_opened(self.path))
        except OSError as error:
            raise AuditError(f"cannot write the audit log {self.path}: {error.strerror}") from None

    def append(self, lines: bytes) -> None:
        """Append lines, or nothing: what was written before the disk refused is cut off again."""
        with change_lock(self.path) if self._shared else nullcontext():
            self._append(lines)

    def _append(self, lines: bytes) -> None:
        if self._moved():
            self.close()
        fd = self._opened()
        size = os.fstat(fd).st_size
        if size and size + len(lines) > self._bytes_max:
            self._rotate()
            fd, size = self._opened(), 0
        try:
            _write_all(fd, lines)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            self._close()
            raise

    def close(self) -> None:
        """Sync and close."""
        if self._fd is not None:
            try:
                os.fsync(self._fd)
            finally:
                self._close()

    def _close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def _opened(self) -> int:
        if self._fd is None:
            fd = _opened(self.path)
            try:
                _end_line(fd)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd
        return self._fd

    def _moved(self) -> bool:
        """Whether the name now belongs to another file, or to none."""
        if self._fd is None:
            return False
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            return True

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep, 0, -1):
            younger = self._older(number - 1) if number > 1 else self.path
            with suppress(FileNotFoundError):
                os.replace(younger, self._older(number))
        self._remove_beyond(self._keep)
        sync(self.path.parent)

    def _remove_beyond(self, number: int) -> None:
        """There are such files if audit_keep was larger before."""
        with suppress(FileNotFoundError):
            while True:
                number += 1
                os.unlink(self._older(number))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _make_private(directory: Path) -> None:
    for each in reversed([directory, *directory.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def _opened(path: Path) -> int:
    fd = os.open(path, _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "it is not a regular file")
    return fd


def _end_line(fd: int) -> None:
    """A crash may have left an unfinished line."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        _write_all(fd, b"\n")


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
