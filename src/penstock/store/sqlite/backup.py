"""Copies of all shards of a data directory, of one moment, while a server uses it.

Shards count the messages that they hand to each other, so that copies of different moments do not fit together: a
message could be in two of them or in none. For one moment every shard is locked for writing, which lets commits wait,
by about a millisecond for each shard. Meanwhile a read transaction is begun in each; then the locks are released, and
everything is read from these transactions while the server runs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from penstock.errors import StoreError, StoreRefused
from penstock.store.sqlite import file

_QUEUES = "SELECT count(*) FROM records WHERE kind = 'queue'"
_USAGE = "SELECT coalesce(sum(messages), 0), coalesce(sum(bytes), 0) FROM usage"


class StoredAmounts(NamedTuple):
    """How much a shard holds."""

    queues: int
    messages: int
    bytes: int


class ShardSnapshot:
    """One shard as it was at the moment of the backup."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def amounts(self) -> StoredAmounts:
        (queues,) = self._connection.execute(_QUEUES).fetchone()
        return StoredAmounts(queues, *self._connection.execute(_USAGE).fetchone())

    def copy_to(self, path: Path) -> None:
        """A new file with the data, for its owner alone."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(path, isolation_level=None)) as target:
            target.execute("PRAGMA synchronous = OFF")  # the archive that it becomes a part of is synced
            self._connection.backup(target)


@contextmanager
def snapshots(paths: list[Path]) -> Iterator[list[ShardSnapshot]]:
    """All shards at one moment. Raises StoreRefused or StoreError."""
    with ExitStack() as stack, _errors():
        for path in paths:
            if not file.LockFile(path.with_name(file.LOCK_FILE)).is_taken():
                # The first connection would bring what it finds of a damaged log into the file, and forget the rest.
                # Where a server runs, it has checked the log at its start.
                file.check_log(path, is_fatal=True)
        readers = [stack.enter_context(closing(file.connect(path, "normal"))) for path in paths]
        with ExitStack() as locks:
            for path in paths:
                writer = locks.enter_context(closing(file.connect(path, "normal")))
                writer.execute("BEGIN IMMEDIATE")
                locks.callback(writer.execute, "ROLLBACK")
            for reader in readers:
                reader.execute("BEGIN")
                # The transaction begins with the first read.
                reader.execute("SELECT number FROM shard").fetchone()
        yield [ShardSnapshot(reader) for reader in readers]


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"the backup failed: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreRefused(f"the data is damaged ({error}): restore it from an earlier backup") from error


def check_copy(path: Path) -> StoredAmounts:
    """Read a copy completely. Raises StoreRefused if it is damaged, or not Penstock's."""
    with file.damage_refused(path):
        file.check_header(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            problems = [text for (text,) in connection.execute("PRAGMA integrity_check(1)").fetchall()]
            if problems != ["ok"]:
                raise StoreRefused(f"{path.name} is damaged: {problems[0]}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > file.format_version():
                raise StoreRefused(
                    f"{path.name} has format {version}, this Penstock supports formats up to "
                    f"{file.format_version()}: use the newer Penstock that wrote it"
                )
            return ShardSnapshot(connection).amounts
