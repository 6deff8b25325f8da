"""The site of a store on PostgreSQL: one schema of a database with the tables of all shards.

The first process to open it makes the tables; others wait for the row that says which format they have. Later formats
come with migrations, each in a transaction of its own with the number of the format that it leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.errors import DuplicateObject, DuplicateSchema, DuplicateTable, UniqueViolation
from psycopg.errors import Error as DatabaseError

from penstock.errors import StoreAway, StoreRefused
from penstock.store.postgres.connection import (
    APPLICATION,
    SQL,
    TRIES_MAX,
    Connection,
    Database,
    Readers,
    is_conflict,
    store_error,
)
from penstock.store.postgres.store import PostgresStore
from penstock.store.sql_files import script

SHARDS = 32
MIGRATIONS: Sequence[str] = tuple(script("postgres", name) for name in ("schema", "migrate_1", "migrate_2"))
"""``MIGRATIONS[0]`` leads from format version 0, nothing, to 1, and so on."""

_MADE_MEANWHILE = (DuplicateObject, DuplicateSchema, DuplicateTable, UniqueViolation)


class PostgresSite:
    is_local = False

    def __init__(
        self,
        url: str,
        shards: int | None = None,
        *,
        schema: str = "penstock",
        migrations: Sequence[str] = MIGRATIONS,
    ) -> None:
        """``shards``: as many as there are, or 32 if there are none yet."""
        self.shards = shards or SHARDS
        self._wanted = shards
        self.guarantees = ""
        self.database = Database(url, schema)
        self._migrations = migrations
        self._readers = Readers(self.database)

    def exists(self) -> bool:
        """Whether there is a store already. Raises StoreError."""
        return bool(self._ask("find")[0][0])

    def users(self) -> list[str]:
        """The addresses of other connections of Penstock to the database. Raises StoreError."""
        return [address for (address,) in self._ask("users", application=APPLICATION)]

    def _ask(self, name: str, **values: str) -> list[tuple[Any, ...]]:
        connection = self.database.connect()
        try:
            return connection.execute(SQL[name], values).fetchall()
        except DatabaseError as error:
            raise store_error(error) from error
        finally:
            connection.close()

    def open(self) -> None:
        """Raises StoreAway or StoreRefused."""
        try:
            connection = self.database.connect()
        except StoreAway as error:
            raise StoreAway(f"{error}: start it, or check its address, user and password") from error
        try:
            self._create(connection)
            self.guarantees = guarantees(*connection.execute(SQL["durability"]).fetchone() or ())
        except DatabaseError as error:
            raise StoreRefused(
                f"the tables of the store cannot be made or read: {store_error(error)}: check that the user may "
                "create a schema in this database, or create the schema penstock for it"
            ) from error
        finally:
            connection.close()

    def _create(self, connection: Connection) -> None:
        for tries in range(TRIES_MAX):
            try:
                (is_there,) = connection.execute(SQL["find"]).fetchone() or (False,)
                if not is_there:
                    self.database.create_schema(connection)
                    connection.execute(SQL["create"], prepare=False)
                self._migrate(connection)
                return
            except DatabaseError as error:
                connection.rollback()
                # IF NOT EXISTS of two processes at once: one of them still fails.
                if not (is_conflict(error) or isinstance(error, _MADE_MEANWHILE)) or tries == TRIES_MAX - 1:
                    raise

    def _migrate(self, connection: Connection) -> None:
        newest = len(self._migrations)
        connection.execute(SQL["insert"], (self.shards,))
        while True:
            with connection.transaction():
                # One process at a time: the row is locked until the transaction ends.
                version, self.shards = connection.execute(SQL["lock"]).fetchone() or (0, self.shards)
                if version > newest:
                    raise StoreRefused(
                        f"the store was written by a newer version of Penstock (format {version}, this one knows "
                        f"{newest}): install that version again"
                    )
                if self._wanted not in (None, self.shards):
                    raise StoreRefused(
                        f"the store has {self.shards} shards, not {self._wanted}: the number is fixed when it is "
                        "made. Start without --shards, or copy the data into a new store with penstock migrate"
                    )
                if version == newest:
                    return
                connection.execute(self._migrations[version], prepare=False)
                connection.execute(SQL["set_version"], (version + 1,))

    def shard(self, index: int) -> PostgresStore:
        if not 0 <= index < self.shards:
            raise StoreRefused(f"the store has {self.shards} shards: there is no shard {index}")
        return PostgresStore(self.database, self._readers, index)

    def close(self) -> None:
        self._readers.close()


def guarantees(version: str, fsync: str | None, commit: str | None, standbys: str | None) -> str:
    """Says in one line what a failure of the database can lose, by its settings. One is None if the database has no
    such setting."""
    if "CockroachDB" in version or "-YB-" in version:
        return "the database replicates each commit by consensus and should lose nothing; not tested with this engine"
    if fsync == "off":
        return "fsync is off: a crash of the database's machine can lose or damage all messages"
    if commit == "off":
        return "synchronous_commit is off: a crash or failover of the database can lose acknowledged messages"
    if not standbys or commit == "local":
        return (
            "no synchronous standby: a crash of the database loses nothing, a failover to a standby can lose the "
            "last acknowledged messages"
        )
    if commit == "remote_write":
        return (
            f"synchronous standby ({standbys}), synchronous_commit is remote_write: a failover loses nothing "
            "unless the standby's machine crashes too"
        )
    return f"synchronous standby ({standbys}): a failover to it loses nothing"
