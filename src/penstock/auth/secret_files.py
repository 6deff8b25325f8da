"""Files that hold what only the operator may know: who may read them, how they are read, and how they are changed.

Rule 1: changes take turns. The lock is a file of its own beside the changed one, which is another one after each
change: for the same owner alone, so that nobody else can hold up a command. No turn is waited for without end.
Rule 2: a change is written beside the file and put in its place. What a killed command left there is cleared away by
the next one that has its turn.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

BYTES_MAX = 16 * 1024 * 1024
_TURN_PATIENCE_S = 10.0
_TURN_LOOK_EVERY_S = 0.02
_UNFINISHED = ".new"


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
    """The file is ours to change. Raises OSError, also if others do not end their turn."""
    path = path.resolve()
    lock = path.with_name(f".{path.name}.lock")
    descriptor = _opened_lock(lock)
    try:
        _wait_for(descriptor, lock)
        _clear_unfinished(path)
        yield
    finally:
        os.close(descriptor)


def _opened_lock(lock: Path) -> int:
    """It stays when the turn ends: if it were removed, two could hold a lock of that name."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(lock, flags)
    if os.geteuid() == 0:  # root's first change must not keep the service whose folder it is from its own
        os.fchown(descriptor, lock.parent.stat().st_uid, -1)
    return descriptor


def _wait_for(descriptor: int, lock: Path) -> None:
    give_up_at_s = time.monotonic() + _TURN_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_at_s:
                told = (
                    f"another command has been changing it for {_TURN_PATIENCE_S:g} seconds: "
                    f'see which with fuser -v "{lock}", and try again when it has ended'
                )
                raise TimeoutError(errno.ETIMEDOUT, told) from None
        time.sleep(_TURN_LOOK_EVERY_S)


def _clear_unfinished(path: Path) -> None:
    for each in path.parent.iterdir():
        if each.name.startswith(f".{path.name}.") and each.name.endswith(_UNFINISHED):
            each.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file, make that durable, and put it in the file's place: for its owner alone.

    What root changes keeps its owner, group and mode: a service may read it by way of its group, and must go on.
    """
    replace_files({path: data})


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """As above, and none is put in its place before all are written: what fails until then changes nothing.

    Two are not replaced in one step: a kill may come between them.
    """
    with ExitStack() as unfinished:
        written = {}
        for path, data in contents.items():
            path = path.resolve()  # the file behind a link is what changes, not the link
            written[path] = unfinished.enter_context(_beside(path, data))
        for path, beside in written.items():
            os.replace(beside, path)
    for folder in {path.parent for path in written}:
        _make_durable(folder)


@contextmanager
def _beside(path: Path, data: bytes) -> Iterator[Path]:
    """What the file will be; gone when the block ends, unless it was put in the file's place."""
    descriptor, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0 and path.exists():
                _keep_owner(path.stat(), descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _make_durable(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_owner(found: os.stat_result, descriptor: int) -> None:
    os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
