"""Space set aside for the day the disk is full, so that receives, deletes and purges go on and make room."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from penstock.store.port import SCARCE_BYTES

RESTORE_WHEN_FREE = 4  # times the reserve: set aside again only when that leaves enough to work with
RESERVE_BYTES = SCARCE_BYTES // RESTORE_WHEN_FREE

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def free_bytes(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


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
    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def restore(self) -> bool:
        try:
            if self._path.exists() and self._path.stat().st_size == self._size:
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
    """A file with blocks really taken from the disk, not a hole."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
