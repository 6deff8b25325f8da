"""Files that hold what only the operator may know: who may read them, how they are read, and how they are changed."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BYTES_MAX = 16 * 1024 * 1024


class NotPrivate(Exception):
    """What the operator has to put right before the file can be trusted."""


def read_private(path: Path, bytes_max: int = BYTES_MAX, *, root_takes_any_owner: bool = False) -> bytes:
    """Raises NotPrivate and OSError. Never waits: a pipe or a device in the file's place is refused.

    ``root_takes_any_owner``: the file is a service's own, and root runs commands on it."""
    with open(path, "rb", opener=_without_waiting) as file:
        found = os.fstat(file.fileno())
        problem = why_not_private(found, any_owner=root_takes_any_owner and os.geteuid() == 0)
        if problem is not None:
            raise NotPrivate(problem)
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise NotPrivate(f"it is larger than {bytes_max} bytes")
    return data


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def why_not_private(found: os.stat_result, *, any_owner: bool = False) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if not any_owner and found.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user: run as that user, or chown it"
    # This is how root hands files to a service: they stay root's, and the service reads them by way of its group.
    may_serve_a_group = found.st_uid == 0
    allowed = stat.S_IRWXU | (stat.S_IRGRP if may_serve_a_group else 0)
    if stat.S_IMODE(found.st_mode) & ~allowed:
        return f"others may use it: run chmod {'640' if may_serve_a_group else '600'} on it"
    return None


class Stamp(NamedTuple):
    """Tells one state of a file from another without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int  # moves with owner and permissions too

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def stamp(path: Path) -> Stamp | None:
    """None if there is no such file, or none that can be reached."""
    try:
        return Stamp.of(path.stat())
    except OSError:
        return None


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Changes take turns. The folder is locked: the file itself is another one after each change."""
    descriptor = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file, make that durable, and put it in the file's place: for its owner alone.

    What root changes keeps its owner, group and mode: a service may read it by way of its group, and must go on.
    """
    path = path.resolve()  # the file behind a link is what changes, not the link
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0 and path.exists():
                _keep_owner(path.stat(), descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _keep_owner(found: os.stat_result, descriptor: int) -> None:
    os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
