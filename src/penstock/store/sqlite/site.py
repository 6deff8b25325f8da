"""A data directory with one or several shards.

One shard is the directory itself. Several are a directory each, ``shard-0000`` and so on, so that different processes
can own them, and their number is in a small file. A site is made whole before that file gets its name: if a shard is
missing later its data is lost, and the site is refused.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import msgspec

from penstock.errors import StoreRefused
from penstock.files import sync
from penstock.store.sqlite import file
from penstock.store.sqlite.store import SqliteStore

SHARDS_FILE = "penstock.shards"
FORMAT_VERSION = 1


class ShardsRecord(msgspec.Struct, frozen=True):
    """The content of the file."""

    shards: int
    version: int = FORMAT_VERSION


class SqliteSite:
    is_local = True

    def __init__(
        self,
        directory: Path,
        shards: int | None = None,
        of_new_store: int = 1,
        *,
        synchronous: file.Synchronous = "full",
        sync_every_s: float | None = None,
        accept_data_loss: bool = False,
    ) -> None:
        """``shards``: as many as there are, or ``of_new_store`` if there are none yet."""
        self._directory = directory
        self._wanted = shards
        self._synchronous = synchronous
        self._sync_every_s = sync_every_s
        self._accept_data_loss = accept_data_loss
        self._lock_file = file.LockFile(directory / file.LOCK_FILE)
        self.shards = shards or of_new_store
        self.guarantees = _guarantees(synchronous, sync_every_s)

    def shard(self, index: int) -> SqliteStore:
        assert index < self.shards
        directory = self._directory if self.shards == 1 else self._shard_directory(index)
        return SqliteStore(
            directory,
            synchronous=self._synchronous,
            sync_every_s=self._sync_every_s,
            accept_data_loss=self._accept_data_loss,
        )

    def _shard_directory(self, index: int) -> Path:
        return self._directory / f"shard-{index:04d}"

    def exists(self) -> bool:
        """Whether there is a store already, or the beginning of one."""
        return any((self._directory / name).exists() for name in (file.DATA_FILE, SHARDS_FILE))

    def data_files(self) -> list[Path]:
        """The database of every shard, relative to the directory. Raises StoreRefused if there is no store."""
        try:
            stored = self._stored()
        except OSError as error:
            raise _cannot_use(error, self._directory) from None
        if stored is None:
            raise StoreRefused(f"there is no store in {self._directory}: give the data directory with --data")
        self.shards = stored
        shards = [self._directory] if stored == 1 else [self._shard_directory(each) for each in range(stored)]
        return [(each / file.DATA_FILE).relative_to(self._directory) for each in shards]

    def stored_records(self, kind: str) -> list[bytes]:
        """Returns the records of all shards without taking them: a server may use them. Raises StoreRefused."""
        found: list[bytes] = []
        for name in self.data_files():
            path = self._directory / name
            with file.damage_refused(path), closing(file.connect_to_read(path)) as connection:
                found += [
                    data for (data,) in connection.execute("SELECT data FROM records WHERE kind = ?", (kind,))
                ]
        return found

    # -- open and close --------------------------------------------------------------------------------------

    def open(self) -> None:
        try:
            file.check_directory(self._directory)
            stored = self._stored()
            if stored is None and self.shards > 1:
                self._make()
            else:
                self.shards = self._checked(stored or 1)
            if self.shards > 1:
                # Shared by all processes that own shards; a command that needs the directory for itself is refused.
                self._lock_file.take(shared=True)
                self._check_complete()
        except OSError as error:
            self.close()
            raise _cannot_use(error, self._directory) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock_file.release()

    def _stored(self) -> int | None:
        """How many shards there are; None if there are none yet."""
        path = self._directory / SHARDS_FILE
        try:
            record = msgspec.json.decode(path.read_bytes(), type=ShardsRecord)
        except FileNotFoundError:
            pass
        except msgspec.MsgspecError:
            raise StoreRefused(f"{path} is damaged: restore it from a backup of the data directory") from None
        else:
            if record.version != FORMAT_VERSION or record.shards < 2:
                raise StoreRefused(f"{path} was written by a newer Penstock: start that one")
            return record.shards
        if (self._directory / file.DATA_FILE).exists():
            return 1
        if self._shard_directory(0).exists() and not self._unfinished.exists():
            raise StoreRefused(
                f"{path} is missing beside the directories of shards: restore it from a backup of {self._directory}"
            )
        return None

    def _checked(self, stored: int) -> int:
        wanted = self._wanted or stored
        if wanted != stored:
            raise StoreRefused(
                f"{self._directory} has {_amount(stored)}, not {wanted}: the number is fixed when the store is made. "
                f"Start without --shards, or copy the data into a new store: penstock migrate "
                f"--from sqlite:{self._directory} --to sqlite:NEW_DIRECTORY --shards {wanted}"
            )
        return stored

    @property
    def _unfinished(self) -> Path:
        return self._directory / f"{SHARDS_FILE}.new"

    def _make(self) -> None:
        """Make the store. If it is interrupted at any point, it is done again: no message was accepted yet."""
        self._lock_file.take()
        with self._unfinished.open("wb") as unfinished:
            unfinished.write(msgspec.json.encode(ShardsRecord(self.shards)) + b"\n")
            unfinished.flush()
            os.fsync(unfinished.fileno())
        for index in range(self.shards):
            store = self.shard(index)
            store.open()
            store.close()
        self._unfinished.rename(self._directory / SHARDS_FILE)
        sync(self._directory)
        self._lock_file.release()

    def _check_complete(self) -> None:
        for index in range(self.shards):
            path = self._shard_directory(index) / file.DATA_FILE
            if not path.exists():
                raise StoreRefused(f"{path} is missing: restore it from a backup of {self._directory}")


def _cannot_use(error: OSError, directory: Path) -> StoreRefused:
    return StoreRefused(
        f"{error.filename or directory} cannot be used ({error.strerror or error}): "
        "check its owner and mode, or give another data directory"
    )


def _guarantees(synchronous: file.Synchronous, sync_every_s: float | None) -> str:
    if synchronous == "full":
        return "every response waits until its change is on disk (fsync on every commit)"
    if sync_every_s is not None:
        interval = f"{sync_every_s:g} s"
        return (
            f"synced every {interval}: a power cut can lose what was acknowledged in the last {interval}, "
            "a crash loses nothing"
        )
    return "left to the operating system: a power cut can lose what it had not written yet, a crash loses nothing"


def _amount(shards: int) -> str:
    return "one shard" if shards == 1 else f"{shards} shards"
