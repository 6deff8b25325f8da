"""Backups: one archive with the database of every shard, of one moment, and the keyring; and how one is restored.

An archive is a tar file with the paths of a data directory. Its last member lists the others with their checksums:
an archive without it was interrupted. The keyring is copied after the databases, so that it has every key that they
need; keys are never removed from it. The root key, which the keyring is encrypted with, is never part of a backup.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from penstock import __version__
from penstock.auth.encryption.keyring import read_keyring_file
from penstock.auth.secret_files import exists
from penstock.clock import real_s, real_utc
from penstock.errors import StoreError, StoreRefused
from penstock.files import create_private, sync
from penstock.server.settings.config import Config
from penstock.server.settings.types import without_password
from penstock.store.sqlite.backup import StoredAmounts, check_copy, snapshots
from penstock.store.sqlite.file import DATA_FILE
from penstock.store.sqlite.site import SHARDS_FILE, SqliteSite

CONTENTS = "backup.json"
KEYRING = "penstock-keys.json"
_FORMAT = 1
_SCRATCH = ".penstock-backup-"
_CONTENTS_BYTES_MAX = 4 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


Progress = Callable[[float], None]
"""A function that is called with the part that is done, from 0 to 1."""


class Member(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    sha256: str


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds: its last member, and the result of a backup."""

    format: int = _FORMAT
    version: str  # of Penstock
    created: str
    shards: int
    queues: int
    messages: int
    bytes: int  # of messages
    keyring: bool
    files: list[Member]


def back_up(
    config: Config, file: IO[bytes], progress: Progress = lambda part: None, *, scratch: Path | None = None
) -> BackupContents:
    """Write an archive of the store, which a server may be using. Each shard is copied into the directory
    ``scratch`` first, or into the one for temporary files. Raises StoreRefused or StoreError."""
    check_can_back_up(config)
    names = SqliteSite(config.data).data_files()
    with (
        _archive_errors(),
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=scratch) as directory,
        # A stream: it can be a socket. PAX has no limit on the size of a member.
        tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        archive = _Archive(tar)
        created = real_utc().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with snapshots([config.data / name for name in names]) as shards:
            total = _total([shard.amounts for shard in shards])
            for number, (name, shard) in enumerate(zip(names, shards, strict=True)):
                copy = Path(directory, DATA_FILE)
                shard.copy_to(copy)
                archive.add(str(name), copy)
                copy.unlink()
                progress((number + 1) / len(names))
        if len(names) > 1:
            archive.add(SHARDS_FILE, config.data / SHARDS_FILE)
        keyring = config.keyring_file
        has_keyring = keyring is not None and exists(keyring)
        if has_keyring and keyring is not None:
            archive.add(KEYRING, keyring)
        contents = BackupContents(
            version=__version__, created=created, shards=len(names), queues=total.queues, messages=total.messages,
            bytes=total.bytes, keyring=has_keyring, files=archive.members,
        )  # fmt: skip
        archive.finish(contents)
    return contents


def back_up_to(
    config: Config,
    path: Path,
    progress: Progress = lambda part: None,
    *,
    replace: bool = False,
    verifies: bool = False,
) -> BackupContents:
    """The archive as a file for its owner alone, which gets its name when it is complete and on disk."""
    with new_archive(path, replace=replace) as (file, unfinished):
        contents = back_up(config, file, progress, scratch=path.absolute().parent)
        if verifies:
            file.flush()
            verify(unfinished)
    return contents


@contextmanager
def new_archive(path: Path, *, replace: bool) -> Iterator[tuple[IO[bytes], Path]]:
    """A file for its owner alone to write an archive to, and its path until the block has ended without an error and
    it is on disk: then it gets its name. Raises StoreRefused or StoreError."""
    if not replace and path.exists():
        raise StoreRefused(f"{path} exists: give another name, or --replace")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.new")
    with _archive_errors():
        try:
            with os.fdopen(create_private(unfinished), "wb") as file:
                yield file, unfinished
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
            sync(path.absolute().parent)
        finally:
            unfinished.unlink(missing_ok=True)


def verify(path: Path) -> BackupContents:
    """Read an archive completely: checksums, every page and index of the databases, the keyring. Raises
    StoreRefused."""
    with _archive_errors():
        scratch = path.absolute().parent
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=scratch) as directory:
            return _extract(path, Path(directory))


def restore(path: Path, directory: Path) -> BackupContents:
    """Make a data directory from an archive that passes all checks. Raises StoreRefused."""
    with _archive_errors():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise StoreRefused(f"{directory} is not empty: give a directory that does not exist yet")
        made = not directory.exists()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        try:
            contents = _extract(path, directory)
        except BaseException:
            for each in directory.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            if made:
                directory.rmdir()
            raise
        for each in directory.rglob("*"):
            sync(each)
        sync(directory)
    return contents


def check_can_back_up(config: Config) -> None:
    """Raises StoreRefused, which says what to do instead."""
    if config.store is not None:
        raise StoreRefused(
            f"{without_password(config.store)} is a PostgreSQL database: back it up with its own tools, such as "
            "pg_dump --format=custom --file=penstock.dump DATABASE, and copy the keyring after it"
        )
    if config.memory:
        raise StoreRefused("with memory nothing is stored: there is nothing to back up")


def _total(shards: list[StoredAmounts]) -> StoredAmounts:
    return StoredAmounts(*map(sum, zip(*shards, strict=True)))


@contextmanager
def _archive_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        raise StoreError(f"{named}{error.strerror or error}") from error


# -- writing -------------------------------------------------------------------------------------------------


class _Archive:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.members: list[Member] = []

    def add(self, name: str, path: Path) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            reader = _Summing(file)
            self._tar.addfile(_member(name, size), reader)
            self.members.append(Member(name, size, reader.sha256.hexdigest()))

    def finish(self, contents: BackupContents) -> None:
        data = msgspec.json.format(msgspec.json.encode(contents)) + b"\n"
        self._tar.addfile(_member(CONTENTS, len(data)), io.BytesIO(data))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    member.mtime = int(real_s())
    return member


class _Summing:
    """A file that computes the checksum of what is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data


# -- reading -------------------------------------------------------------------------------------------------


def _extract(path: Path, directory: Path) -> BackupContents:
    """Everything of the archive, checked, into an empty directory. Raises StoreRefused."""
    try:
        with _archive_errors(), tarfile.open(path, "r:") as tar:
            members = _members(tar)
            listed = members.pop(CONTENTS, None)
            if listed is None:
                raise StoreRefused(f"{path} is not complete: use another backup")
            contents = _read_contents(tar, listed)
            wanted = {each.name: each for each in contents.files}
            # Sizes first: nothing is written of an archive that cannot be right.
            sizes = {name: each.bytes for name, each in wanted.items()}
            _compare(path, sizes, {name: each.size for name, each in members.items()})
            found = {name: _extract_member(tar, each, directory) for name, each in members.items()}
            _compare(path, wanted, found)
    except (tarfile.TarError, StoreError, ValueError) as error:
        raise StoreRefused(f"{path} cannot be read as a backup: {error}") from None
    _check_files(path, contents, directory)
    return contents


def _members(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """All by name, as a backup has them: one from elsewhere must not write outside of the directory, nor more
    than it holds, as a sparse file would."""
    members: dict[str, tarfile.TarInfo] = {}
    for member in tar:
        parts = member.name.split("/")
        is_shard = len(parts) == 2 and parts[0].startswith("shard-") and parts[0][6:].isdigit()
        name = parts[-1] if is_shard or len(parts) == 1 else ""
        names = (DATA_FILE,) if is_shard else (DATA_FILE, SHARDS_FILE, KEYRING, CONTENTS)
        if not member.isreg() or member.issparse() or name not in names:
            raise StoreRefused(f'"{member.name}" is not a part of a backup: use another one')
        if member.name in members:
            raise StoreRefused(f'"{member.name}" is in it twice: use another backup')
        members[member.name] = member
    return members


def _compare(path: Path, wanted: Mapping[str, object], found: Mapping[str, object]) -> None:
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise StoreRefused(f"{path} is damaged: {name} is not what was written. Use another backup")


def _read_contents(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BackupContents:
    file = tar.extractfile(member)
    try:
        contents = msgspec.json.decode(file.read(_CONTENTS_BYTES_MAX) if file else b"", type=BackupContents)
    except msgspec.MsgspecError as error:
        raise StoreRefused(f"{CONTENTS} in the backup cannot be read: {error}") from None
    if contents.format != _FORMAT:
        raise StoreRefused(
            f"the backup was made by Penstock {contents.version}, which is newer: use that one"
        )
    return contents


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, directory: Path) -> Member:
    source = tar.extractfile(member)
    assert source is not None
    target = directory / member.name
    target.parent.mkdir(mode=0o700, exist_ok=True)
    reader = _Summing(source)
    with os.fdopen(create_private(target), "wb") as file:
        shutil.copyfileobj(reader, file, _PIECE_BYTES)
    return Member(member.name, member.size, reader.sha256.hexdigest())


def _check_files(path: Path, contents: BackupContents, directory: Path) -> None:
    try:
        names = SqliteSite(directory).data_files()
    except StoreRefused as error:
        raise StoreRefused(f"{path} is damaged: {error}") from None
    missing = [str(name) for name in names if not (directory / name).exists()]
    if missing or len(names) != contents.shards:
        raise StoreRefused(f"{path} lacks {', '.join(missing) or 'shards'}: use another backup")
    total = _total([check_copy(directory / name) for name in names])
    if total != (contents.queues, contents.messages, contents.bytes):
        raise StoreRefused(f"{path} is damaged: its databases do not hold what was written")
    for leftover in directory.rglob(f"{DATA_FILE}-*"):  # of the connection that checked it
        leftover.unlink()
    if contents.keyring:
        try:
            read_keyring_file(directory / KEYRING)
        except Exception as error:
            raise StoreRefused(f"the keyring in {path} cannot be used: {error}") from None
