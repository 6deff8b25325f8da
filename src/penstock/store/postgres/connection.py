"""Connections to the database: how they are made and prepared, what its errors mean, and the pool that reads.

After a failed attempt to connect the next ones wait, longer each time. Until then the same error is raised at once,
so that no thread waits for each of many requests. The password is in the connection string only; nothing here puts
that into a message.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg import conninfo, sql
from psycopg.errors import Error as DatabaseError

from penstock.backoff import backoff
from penstock.errors import (
    DataRefused,
    StoreAway,
    StoreBroken,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreRefused,
)
from penstock.store.postgres.arrays import register
from penstock.store.sql_files import load

log = logging.getLogger("penstock.store")

Connection: TypeAlias = "psycopg.Connection[Any]"

SQL = load("postgres", "site")
APPLICATION = "penstock"
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 2.0
READERS_MAX = 4
TRIES_MAX = 20
_DEFAULTS = {
    # What the connection string itself says wins. A host that vanished is noticed within about ten seconds.
    "application_name": APPLICATION, "connect_timeout": "5", "target_session_attrs": "read-write",
    "keepalives": "1", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}  # fmt: skip
_CONFLICTS = ("40001", "40P01")  # serialization failure, deadlock: nothing was done, and trying again helps
_AWAY = ("08", "57P", "25006", "53300", "40003")
"""The codes of a server that is away: the connection broke, the server stops or starts, is a standby or has no
connection left, or does not know whether a statement was completed."""
_DATA = ("22", "23", "54000")  # a value is invalid, a constraint is violated, a row is too large for an index


def is_conflict(error: DatabaseError) -> bool:
    return error.sqlstate in _CONFLICTS


def is_away(error: DatabaseError) -> bool:
    """Whether the database cannot be reached, or the connection broke. Then nothing is known of what was sent
    last."""
    if error.sqlstate is None:
        # Not the server says so, but its client: psycopg has no class for a connection that broke during a statement.
        return isinstance(error, psycopg.OperationalError) or type(error) is psycopg.DatabaseError
    return bool(error.sqlstate.startswith(_AWAY))


def store_error(error: DatabaseError) -> StoreError:
    """An error of the database as one of the port. Its text names tables and values of keys, no contents."""
    text = f"{_first_line(error)} ({error.sqlstate})" if error.sqlstate else _first_line(error)
    if is_away(error):
        return StoreAway(text)
    state = error.sqlstate or ""
    if state in ("53100", "53200"):
        return StoreFull(text)
    if state.startswith(_DATA):
        return DataRefused(text)
    return StoreBroken(text) if state.startswith("XX00") and state != "XX000" else StoreError(text)


def _first_line(error: DatabaseError) -> str:
    return str(error.diag.message_primary or error).strip().partition("\n")[0]


class Database:
    """How to reach it, and when to try again."""

    def __init__(self, url: str, schema: str, now: Callable[[], float] = time.monotonic) -> None:
        try:
            given: dict[str, Any] = conninfo.conninfo_to_dict(url)
        except DatabaseError:
            # Not "from error": its text may hold the string with the password.
            raise StoreRefused(
                "the store's address is no PostgreSQL connection string: expected postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        self._conninfo = conninfo.make_conninfo(**{**_DEFAULTS, **given})
        self._schema = schema
        self._now = now
        self._lock = threading.Lock()
        self._failure: StoreAway | None = None
        self._failures = 0  # in a row
        self._retry_at = 0.0

    def connect(self) -> Connection:
        """A new connection in autocommit mode, prepared for our statements. Raises StoreAway."""
        with self._lock:
            if self._failure is not None and self._now() < self._retry_at:
                raise StoreAway(str(self._failure))
        try:
            connection = self._connect()
        except DatabaseError as error:
            away = StoreAway(f"the database cannot be reached: {_first_line(error)}")
            with self._lock:
                if self._failure is None:
                    log.warning("%s", away)
                self._failure = away
                self._failures += 1
                self._retry_at = self._now() + backoff(self._failures, PAUSE_MIN_S, PAUSE_MAX_S)
            raise away from error
        with self._lock:
            if self._failure is not None:
                log.warning("the database can be reached again")
            self._failure, self._failures = None, 0
        return connection

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=0)
        try:
            register(connection.adapters)
            connection.prepared_max = None
            connection.execute(
                sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)), prepare=False
            )
            connection.execute(SQL["prepare"], prepare=False)
        except BaseException:
            connection.close()
            raise
        return connection

    def create_schema(self, connection: Connection) -> None:
        connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema)), prepare=False
        )


class Readers:
    """A few connections that only read, shared by all shards of the process."""

    def __init__(self, database: Database, size: int = READERS_MAX) -> None:
        self._database = database
        self._free = threading.Semaphore(size)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def fetch(self, statement: str, asked: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Returns all rows of one statement. It is tried again after a conflict, and once on a new connection if one
        broke."""
        fresh = False
        for tries in range(TRIES_MAX):
            try:
                with self._reading(fresh) as connection:
                    rows: list[tuple[Any, ...]] = connection.execute(statement, asked, binary=True).fetchall()
                    return rows
            except DatabaseError as error:
                if is_conflict(error) and tries < TRIES_MAX - 1:
                    continue
                if not is_away(error) or fresh:
                    raise store_error(error) from error
                fresh = True  # the server was restarted since, perhaps: the others of the pool are stale too
        raise AssertionError("the last try answers or raises")

    @contextmanager
    def _reading(self, fresh: bool) -> Iterator[Connection]:
        with self._free:
            connection = self._take(fresh) or self._database.connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                if not self._closed:
                    self._idle.append(connection)
                    return
            connection.close()

    def _take(self, fresh: bool) -> Connection | None:
        with self._lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            if fresh:
                stale, self._idle = self._idle, []
                for connection in stale:
                    connection.close()
            return self._idle.pop() if self._idle else None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for connection in self._idle:
                with suppress(DatabaseError):
                    connection.close()
            self._idle = []
