"""Files with secrets: who may read them, how they are read, changed and watched for changes.

Two commands never change a file at the same time: each takes a lock on a file of its own beside the changed
one, which is replaced as a whole. A change is written beside the file and renamed over it, so that readers
see the old content or the new one. What a killed command left behind is removed by the next command that has
the lock.
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

from penstock.files import sync

BYTES_MAX = 16 * 1024 * 1024
_LOCK_TIMEOUT_S = 10.0
_LOCK_RETRY_S = 0.02
_UNFINISHED = ".new"


class NotPrivate(Exception):
    """What the operator has to correct before the file can be trusted."""


# -- reading -------------------------------------------------------------------------------------------------


def read_private(path: Path, bytes_max: int = BYTES_MAX, *, root_takes_any_owner: bool = False) -> bytes:
    """Raises NotPrivate and OSError. Never blocks: a pipe or a device in the file's place is refused.

    ``root_takes_any_owner``: the file belongs to a service, and root runs commands on it."""
    with open(path, "rb", opener=_nonblocking) as file:
        found = os.fstat(file.fileno())
        problem = why_not_private(found, any_owner=root_takes_any_owner and os.geteuid() == 0)
        if problem is not None:
            raise NotPrivate(problem)
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise NotPrivate(f"it is larger than {bytes_max} bytes")
    return data


def _nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def why_not_private(found: os.stat_result, *, any_owner: bool = False) -> str | None:
    """Why the file cannot hold a secret; None if only its owner may read and write it."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if not any_owner and found.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user: run as that user, or chown it"
    # Root gives files to a service this way: they stay root's, and the service reads them as a member of their group.
    group_may_read = found.st_uid == 0
    allowed = stat.S_IRWXU | (stat.S_IRGRP if group_may_read else 0)
    if stat.S_IMODE(found.st_mode) & ~allowed:
        return f"other users have access to it: run chmod {'640' if group_may_read else '600'} on it"
    return None


def why_not_trusted(path: Path, found: os.stat_result) -> str | None:
    """Why commands that the file names must not be run; None if only its owner, or root, can have written it or put
    another file in its place. ``found``: of the file that was opened."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user: run as that user, or chown it"
    if stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write it: run chmod go-w on it"
    folders = {*path.absolute().parents, *path.resolve().parents}  # those of a link can be changed, too
    problems = map(_why_folder_not_trusted, sorted(folders, key=lambda each: len(each.parts), reverse=True))
    return next((problem for problem in problems if problem is not None), None)


def _why_folder_not_trusted(folder: Path) -> str | None:
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0):
        return f"the directory {folder} belongs to another user: chown it, or move the file"
    mode = stat.S_IMODE(found.st_mode)
    others_may_write = mode & (stat.S_IWGRP | stat.S_IWOTH)
    # In a sticky directory, such as /tmp, nobody can rename or remove the files of others.
    is_protected = mode & stat.S_ISVTX or os.statvfs(folder).f_flag & os.ST_RDONLY
    if others_may_write and not is_protected:
        return f"other users may write the directory {folder} and replace the file: run chmod go-w on the directory"
    return None


def exists(path: Path) -> bool:
    """Raises OSError if that cannot be found out, such as in a directory that may not be entered."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


# -- watching ------------------------------------------------------------------------------------------------


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
    """None if there is no such file, or it cannot be reached."""
    try:
        return Stamp.of(path.stat())
    except OSError:
        return None


class FileWatch:
    """Tells when files have changed, and are no longer being written.

    A file that is being written may end where it still makes sense, and a certificate is written before its
    key: files have changed when two looks in a row found the same state, and that is not the state that was
    read last."""

    def __init__(self, *paths: Path) -> None:
        """Read the files after this, and call ``mark_read``."""
        self._paths = paths
        self._seen = self._look()
        self._read: object = None  # equals no state

    def has_changed(self) -> bool:
        return self.is_stable() and self._seen != self._read

    def is_stable(self) -> bool:
        """Whether the files are as the previous look found them. This call is a look, too."""
        before, self._seen = self._seen, self._look()
        return before == self._seen

    def mark_read(self) -> None:
        """Note that what the last look found was read to its end, whatever it contained."""
        self._read = self._seen

    def mark_unread(self) -> None:
        """The files could not be read for reasons outside them (no free descriptor, an IO error): they count
        as changed even in the state that was read before, otherwise a revocation would be lost."""
        self._read = None

    def _look(self) -> object:
        return [stamp(path) for path in self._paths]


# -- changing ------------------------------------------------------------------------------------------------


@contextmanager
def change_lock(path: Path) -> Iterator[None]:
    """Within the block no other command changes the file. Raises OSError, also if the lock is not free in time."""
    path = path.resolve()
    lock = path.with_name(f".{path.name}.lock")
    descriptor = _opened_lock(lock)
    try:
        _acquire(descriptor, lock)
        _remove_unfinished(path)
        yield
    finally:
        os.close(descriptor)


def _opened_lock(lock: Path) -> int:
    """The lock file is never removed: otherwise two processes could lock two files of that name. It is for its owner
    alone, so that other users cannot block a command."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(lock, flags)
    if os.geteuid() == 0:  # so that the service that owns the directory can lock it later
        os.fchown(descriptor, lock.parent.stat().st_uid, -1)
    return descriptor


def _acquire(descriptor: int, lock: Path) -> None:
    give_up_at_s = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_at_s:
                reason = (
                    f"another command has been changing it for {_LOCK_TIMEOUT_S:g} seconds: "
                    f'see which with fuser -v "{lock}", and try again when it has ended'
                )
                raise TimeoutError(errno.ETIMEDOUT, reason) from None
        time.sleep(_LOCK_RETRY_S)


def _remove_unfinished(path: Path) -> None:
    for each in path.parent.iterdir():
        if each.name.startswith(f".{path.name}.") and each.name.endswith(_UNFINISHED):
            each.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file, make that durable, and rename it over the file. Only its owner may read the result.

    A file that root changes keeps its owner, group and mode, so that a service can still read it.
    """
    replace_files({path: data})


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files. No file is replaced before all are written: an error until then changes nothing.

    Two files are not replaced in one step: the process may be killed in between.
    """
    with ExitStack() as unfinished:
        written = {}
        for path, data in contents.items():
            path = path.resolve()  # the target of a link changes, not the link
            written[path] = unfinished.enter_context(_written_beside(path, data))
        for path, beside in written.items():
            os.replace(beside, path)
    for folder in {path.parent for path in written}:
        sync(folder)


@contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    """The new content in a file of its own, which is removed at the end of the block unless it was renamed."""
    descriptor, name = tempfile.mkstemp(_UNFINISHED, f".{path.name}.", path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0 and path.exists():
                before = path.stat()
                os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
