"""How files are opened and made durable, where a plain open() does too little."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotRegular(Exception):
    """A link, a pipe, a device or a directory stands where a file is expected."""


def sync(path: Path) -> None:
    """Put a file on the disk; or, of a directory, the names in it: a new or renamed file is durable only then."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_private(path: Path) -> int:
    """The descriptor of a new file that only its owner may read and write. Raises OSError, also if there is one."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def open_regular(path: Path) -> int:
    """The descriptor to read a file with. Never blocks and follows no link: raises NotRegular for what is not a file
    itself, and OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise NotRegular(f'"{path}" is not a regular file') from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(f'"{path}" is not a regular file')
    return descriptor
