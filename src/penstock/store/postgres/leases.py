"""Nodes and leases in PostgreSQL: two small tables beside those of the shards."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from psycopg.errors import Error as DatabaseError

from penstock.store.leases import ClusterView, LeaseRow, NodeRow
from penstock.store.postgres.connection import (
    TRIES_MAX,
    Connection,
    Database,
    is_away,
    is_conflict,
    store_error,
)
from penstock.store.sql_files import load

T = TypeVar("T")

SQL = load("postgres", "leases")


class PostgresLeases:
    """Implements ``Leases`` on a connection of its own: a slow commit of a shard does not delay a renewal."""

    def __init__(self, database: Database, shards: int) -> None:
        self._database = database
        self._shards = shards
        self._connection: Connection | None = None

    def register(
        self, id: str, address: str, version: str, *, proof: bytes, is_draining: bool, valid_ms: int
    ) -> None:
        self._change("add_leases", shards=self._shards)
        self._change(
            "register", id=id, address=address, version=version, proof=proof, draining=is_draining,
            valid_ms=valid_ms,
        )  # fmt: skip

    def renew(self, id: str, *, valid_ms: int, remove_expired: bool) -> ClusterView | None:
        if not self._change("renew", id=id, valid_ms=valid_ms):
            return None
        if remove_expired:
            self._change("remove_expired")
        return self.view()

    def view(self) -> ClusterView:
        return self._try(
            lambda connection: ClusterView(
                tuple(NodeRow(*row) for row in connection.execute(SQL["nodes"])),
                tuple(LeaseRow(*row) for row in connection.execute(SQL["leases"])),
            )
        )

    def claim(self, shard: int, epoch: int, owner: str) -> bool:
        return self._change("claim", shard=shard, epoch=epoch, owner=owner)

    def hand_over(self, shard: int, epoch: int, owner: str, target: str) -> bool:
        return self._change("hand_over", shard=shard, epoch=epoch, owner=owner, target=target)

    def serving(self, shard: int, epoch: int, owner: str) -> bool:
        return self._change("serving", shard=shard, epoch=epoch, owner=owner)

    def leave(self, id: str) -> None:
        self._change("leave", id=id)

    def drain(self, address: str, *, is_draining: bool) -> bool:
        return self._change("drain", address=address, draining=is_draining)

    def wish(self, shard: int, address: str | None) -> bool:
        return self._change("wish", shard=shard, address=address)

    def _change(self, name: str, **values: Any) -> bool:
        """Run a statement. Returns whether it changed a row."""
        return self._try(lambda connection: connection.execute(SQL[name], values).rowcount > 0)

    def _try(self, function: Callable[[Connection], T]) -> T:
        """Call a function, and again after a conflict with another node, which changed nothing."""
        for tries in range(TRIES_MAX):
            if self._connection is None:
                self._connection = self._database.connect()
            try:
                return function(self._connection)
            except DatabaseError as error:
                if is_conflict(error) and tries < TRIES_MAX - 1:
                    continue
                if is_away(error):
                    self.close()
                raise store_error(error) from error
        raise AssertionError("the last try answers or raises")

    def abort(self) -> None:
        """End a call that waits for a database that does not answer. Another thread calls this."""
        connection = self._connection
        if connection is not None:
            with (
                suppress(OSError, DatabaseError),
                socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
            ):
                duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DatabaseError):
                connection.close()
