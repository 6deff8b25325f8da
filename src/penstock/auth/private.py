"""Files that hold what only the operator may know: who may read them, and how they are changed."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


def why_not_private(found: os.stat_result) -> str | None:
    """What the operator has to put right before the file can be trusted; None if it can be."""
    if found.st_uid == os.geteuid():
        allowed = stat.S_IRWXU
    elif found.st_uid == 0:
        # This is how service managers hand files out: root's, and for us by way of a group.
        allowed = stat.S_IRWXU | stat.S_IRGRP
    else:
        return "it belongs to another user: run as that user, or chown it"
    if stat.S_IMODE(found.st_mode) & ~allowed:
        return "others may use it: run chmod 600 on it"
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
    """Write beside the file, make that durable, and put it in the file's place: for its owner alone."""
    path = path.resolve()  # the file behind a link is what changes, not the link
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            _keep_owner(path, descriptor)
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


def _keep_owner(path: Path, descriptor: int) -> None:
    """Root may change a file that a service reads by way of its group; it can do so still."""
    if not path.exists():
        return
    found = path.stat()
    if os.geteuid() == 0:
        os.fchown(descriptor, found.st_uid, found.st_gid)
        os.fchmod(descriptor, found.st_mode & 0o777)
