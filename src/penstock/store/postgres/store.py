"""One shard of a store on PostgreSQL.

A commit is one transaction, sent and answered in one round trip. Its first statement moves the shard's number on if
the number is the expected one and the shard still belongs to this connection; if not, the transaction fails whole.

If the connection breaks, it is unknown whether the last commit was made. The next connection puts its own mark on the
row of the shard first. That waits for a transaction which is still under way, refuses one which arrives later, and,
where commits wait for a standby, is itself on the standby only after everything before it. What the row then says is
final: the commit was made, or it was not and can be sent again.
"""

from __future__ import annotations

import random
import secrets
import struct
import threading
import time
from collections.abc import Callable, Set
from contextlib import suppress
from typing import TypeVar

from psycopg.errors import Diagnostic, DivisionByZero
from psycopg.errors import Error as DatabaseError

from penstock.backoff import backoff
from penstock.errors import DataRefused, StoreAway, StoreClosed, StoreLost, StoreUnknown
from penstock.store.changes import Changes
from penstock.store.port import JournalEnd, Mark, ShardState, StoreStatus
from penstock.store.postgres.connection import (
    TRIES_MAX,
    Connection,
    Database,
    Readers,
    is_away,
    is_conflict,
    store_error,
)
from penstock.store.postgres.read import ShardReads
from penstock.store.postgres.write import SQL, CommitStatements, remove_void_rows

T = TypeVar("T")

_PAUSE_MIN_S, _PAUSE_MAX_S = 0.002, 0.05
_LOST = "another process owns the shard"


class PostgresStore:
    syncs_late = False

    def __init__(self, database: Database, readers: Readers, shard: int) -> None:
        self._database = database
        self._shard = shard
        self._owner = b""
        self._writer = b""  # what this connection is called in the row of the shard
        self._connection: Connection | None = None
        self._is_open = False
        self._warned = False  # by the server, since the last commit
        self._lock = threading.RLock()
        reads = ShardReads(readers, shard)
        self._all_records = reads.all_records
        self.records = reads.records
        self.log = reads.log
        self.select = reads.select
        self.lane = reads.lane
        self.groups = reads.groups
        self.count = reads.count
        self.lookup = reads.lookup
        self.contents = reads.contents
        self.scan = reads.scan
        self.dedup = reads.dedup
        self.usage = reads.usage

    # -- open and close --------------------------------------------------------------------------------------

    def open(self) -> ShardState:
        assert not self._is_open, "a store is opened once"
        with self._lock:
            self._owner, self._writer = secrets.token_bytes(16), secrets.token_bytes(16)
            asked = {
                "shard": self._shard, "secret": secrets.token_bytes(32), "owner": self._owner, "writer": self._writer,
            }  # fmt: skip
            connection = self._connect()
            try:
                row = self._repeated(connection, lambda: connection.execute(SQL["take"], asked).fetchone())
            except BaseException:
                connection.close()
                raise
            self._connection, self._is_open = connection, True
        assert row is not None
        number, next_number, now_ms, wall_ms, secret = row
        # What is read now is final: no commit of another owner can follow.
        end = JournalEnd(number, self._owner)
        mark = Mark(next_number, now_ms, wall_ms)
        return ShardState(end, mark, secret, self._all_records(), self.usage())

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            self._disconnect()

    def _connect(self) -> Connection:
        connection = self._database.connect()
        connection.add_notice_handler(self._noticed)
        return connection

    def _noticed(self, notice: Diagnostic) -> None:
        self._warned = self._warned or notice.severity_nonlocalized == "WARNING"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DatabaseError):
                connection.close()

    def _connected(self) -> Connection:
        """The connection that owns the shard, made again if it broke."""
        if not self._is_open:
            raise StoreClosed("the store is closed")
        if self._connection is None:
            self._reconnect()
        assert self._connection is not None
        return self._connection

    def _reconnect(self) -> int:
        """The number of the last commit, now that no earlier connection can commit any more, and with the standby
        where commits wait for one."""
        self._disconnect()
        connection = self._connect()
        writer = secrets.token_bytes(16)
        asked = {"shard": self._shard, "owner": self._owner, "writer": writer}
        self._warned = False
        try:
            row = self._repeated(connection, lambda: connection.execute(SQL["continue"], asked).fetchone())
            if row is None:
                raise StoreLost(_LOST)
            if self._warned:
                raise StoreAway("the server does not wait for its standby")
        except BaseException:
            connection.close()
            raise
        self._connection, self._writer = connection, writer
        number: int = row[0]
        return number

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        with self._lock:
            connection = self._connected()
            try:
                return self._send(connection, changes, mark)
            except StoreUnknown as error:
                try:
                    number = self._reconnect()
                except (StoreAway, StoreLost):  # after it was made, perhaps
                    raise error from None
            if number == changes.number:
                return frozenset()
            # It was not made, and the connection that might still deliver it is refused.
            return self._send(self._connected(), changes, mark)

    def _send(self, connection: Connection, changes: Changes, mark: Mark) -> Set[int]:
        try:
            statements = CommitStatements(self._shard, self._writer, changes, mark)
        except (struct.error, OverflowError) as error:
            raise DataRefused(f"a number is too large: {error}") from error
        except UnicodeEncodeError as error:
            raise DataRefused("a text is not Unicode") from error
        self._warned = False
        try:
            skipped = self._repeated(connection, lambda: statements.send(connection))
        except StoreAway as error:
            self._disconnect()
            raise StoreUnknown(str(error)) from error
        if self._warned:
            # The server gave up waiting for the standby: the commit is on its own disk only.
            self._disconnect()
            raise StoreUnknown("the server committed with a warning, so the commit may not be on the standby")
        return skipped

    def sync(self) -> None:
        """The settings of the database say how durable a commit is. All shards share its log, so that a failure loses
        no commit without all later ones."""

    def maintain(self, rows_max: int) -> bool:
        with self._lock:
            connection = self._connected()
            try:
                return self._repeated(
                    connection, lambda: remove_void_rows(connection, self._shard, self._writer, rows_max)
                )
            except StoreAway:
                self._disconnect()
                raise

    def _repeated(self, connection: Connection, work: Callable[[], T]) -> T:
        """Do it again after a conflict with another transaction. Raises only errors of the port."""
        for tries in range(1, TRIES_MAX + 1):
            try:
                return work()
            except DatabaseError as error:
                if isinstance(error, DivisionByZero):
                    self._disconnect()
                    raise StoreLost(_LOST) from error
                failure = store_error(error)
                if is_away(error) or connection.closed:
                    raise (failure if isinstance(failure, StoreAway) else StoreAway(str(failure))) from error
                try:
                    connection.rollback()
                except DatabaseError as broken:
                    raise StoreAway(str(store_error(broken))) from error
                if not is_conflict(error) or tries == TRIES_MAX:
                    raise failure from error
            time.sleep(backoff(tries, _PAUSE_MIN_S, _PAUSE_MAX_S, jitter=1, chance=random.random()))
        raise AssertionError("the last try answers or raises")

    # -- the state of the shard ------------------------------------------------------------------------------

    def end(self) -> JournalEnd:
        """Returns the end of the journal, which is final even after a commit of unknown outcome: reading it fences
        the connection on which that was sent."""
        with self._lock:
            if not self._is_open:
                raise StoreClosed("the store is closed")
            return JournalEnd(self._reconnect(), self._owner)

    def status(self) -> StoreStatus:
        with self._lock:
            try:
                self._connected()
            except StoreAway as error:
                return StoreStatus(str(error), is_away=True)
        return StoreStatus()
