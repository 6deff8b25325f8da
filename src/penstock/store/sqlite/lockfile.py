"""One process per data directory.

The lock is the kernel's (flock), so it ends with the process however that ends; the text in the file only
tells a second process whom to blame.
"""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

from penstock.errors import StoreRefused

LOCK_FILE = "penstock.lock"
"""In the data directory."""


class LockFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            raise StoreRefused(
                f"The data directory {self._path.parent} is in use by {holder}: "
                "stop that process, or give this one another directory."
            ) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self._sign()

    def _sign(self) -> None:
        assert self._fd is not None
        started = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} (since {started})\n".encode(), 0)
        except OSError:
            pass  # a full disk: the lock holds without its text

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
