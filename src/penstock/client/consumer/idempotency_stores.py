"""Where the keys of handled messages are kept: in memory, in an SQLite file, in Redis.

Memory is for one process and forgets at its end; a file is for the processes of one machine; Redis is for many.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.client.consumer.idempotency import Busy, Finished
from penstock.files import NotRegular, create_private, open_regular

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")


class _Key(NamedTuple):
    until_s: float
    owner: str | None  # None: it is done
    result: bytes | None = None


class MemoryKeys:
    """Keeps keys in the memory of this process.

    For example:

        @app.handler("orders", idempotency=Idempotency(MemoryKeys()))
        async def handle(order: Order) -> None: ...
    """

    def __init__(self, *, keys_max: int = 100_000, clock: Callable[[], float] = time.time) -> None:
        """Start without keys.

        :param keys_max: How many keys are kept; 100,000 by default. Then the oldest are forgotten.
        :param clock: What returns the time in seconds; ``time.time`` by default.
        """
        self._keys: OrderedDict[str, _Key] = OrderedDict()
        self._keys_max = keys_max
        self._clock = clock

    async def begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None:
        """Take a key: see :meth:`IdempotencyStore.begin`."""
        now_s, found = self._clock(), self._keys.get(key)
        if found is not None and found.until_s > now_s:
            return Finished(found.result) if found.owner is None else Busy(found.until_s - now_s)
        self._put(key, _Key(now_s + busy_s, owner))
        return None

    async def renew(self, key: str, owner: str, busy_s: float) -> bool:
        """Keep a key for longer: see :meth:`IdempotencyStore.renew`."""
        if not self._is_of(key, owner):
            return False
        self._put(key, _Key(self._clock() + busy_s, owner))
        return True

    async def finish(self, key: str, owner: str, result: bytes | None, keep_s: float) -> None:
        """Mark a key as done: see :meth:`IdempotencyStore.finish`."""
        if self._is_of(key, owner):
            self._put(key, _Key(self._clock() + keep_s, None, result))

    async def release(self, key: str, owner: str) -> None:
        """Give a key back: see :meth:`IdempotencyStore.release`."""
        if self._is_of(key, owner):
            del self._keys[key]

    def _is_of(self, key: str, owner: str) -> bool:
        found = self._keys.get(key)
        return found is not None and found.owner == owner

    def _put(self, key: str, value: _Key) -> None:
        self._keys[key] = value
        self._keys.move_to_end(key)
        now_s = self._clock()
        while len(self._keys) > self._keys_max or next(iter(self._keys.values())).until_s <= now_s:
            self._keys.popitem(last=False)


_SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency_keys (
    key TEXT PRIMARY KEY,
    until_s REAL NOT NULL,
    owner TEXT,  -- NULL: it is done
    result BLOB
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idempotency_keys_by_end ON idempotency_keys (until_s);
"""
_FORGOTTEN_AT_ONCE = 10
_BUSY_S = 10.0


class SqliteKeys:
    """Keeps keys in an SQLite file, which all processes of a machine can share.

    For example:

        @app.handler("orders", idempotency=Idempotency(SqliteKeys("keys.db")))
        async def handle(order: Order) -> None: ...
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        """Open the file. If there is none it is created, for the user of this process alone.

        :param path: The path of the file.
        :param clock: What returns the time in seconds; ``time.time`` by default.
        :raises sqlite3.Error: The file cannot be opened.
        """
        _prepare(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(_SCHEMA)

    async def begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None:
        """Take a key: see :meth:`IdempotencyStore.begin`."""
        return await asyncio.to_thread(self._begin, key, owner, busy_s)

    async def renew(self, key: str, owner: str, busy_s: float) -> bool:
        """Keep a key for longer: see :meth:`IdempotencyStore.renew`."""
        statement = "UPDATE idempotency_keys SET until_s = ? WHERE key = ? AND owner = ?"
        return await self._change(statement, self._clock() + busy_s, key, owner)

    async def finish(self, key: str, owner: str, result: bytes | None, keep_s: float) -> None:
        """Mark a key as done: see :meth:`IdempotencyStore.finish`."""
        statement = (
            "UPDATE idempotency_keys SET owner = NULL, result = ?, until_s = ? WHERE key = ? AND owner = ?"
        )
        await self._change(statement, result, self._clock() + keep_s, key, owner)

    async def release(self, key: str, owner: str) -> None:
        """Give a key back: see :meth:`IdempotencyStore.release`."""
        await self._change("DELETE FROM idempotency_keys WHERE key = ? AND owner = ?", key, owner)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None:
        now_s = self._clock()
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            row = self._database.execute(
                "SELECT until_s, owner, result FROM idempotency_keys WHERE key = ? AND until_s > ?",
                (key, now_s),
            ).fetchone()
            if row is not None:
                until_s, found_owner, result = row
                return Finished(result) if found_owner is None else Busy(until_s - now_s)
            self._database.execute(
                "DELETE FROM idempotency_keys WHERE key IN "
                "(SELECT key FROM idempotency_keys WHERE until_s <= ? ORDER BY until_s LIMIT ?)",
                (now_s, _FORGOTTEN_AT_ONCE),
            )
            self._database.execute(
                "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, NULL)",
                (key, now_s + busy_s, owner),
            )
            return None

    async def _change(self, statement: str, *values: object) -> bool:
        def change() -> bool:
            with self._lock:
                return self._database.execute(statement, values).rowcount > 0

        return await asyncio.to_thread(change)


def _prepare(path: str | Path) -> None:
    """Create the file with the mode that SQLite gives to the files beside it, too."""
    if str(path) in ("", ":memory:"):
        return
    try:
        with suppress(FileExistsError):
            os.close(create_private(Path(path)))
        os.close(open_regular(Path(path)))
    except (NotRegular, OSError) as error:
        raise sqlite3.OperationalError(f"cannot keep keys there: {error}") from None


# A value is "o" and the owner, or "r" and the result, or "d" if it is done without one.
_RENEW = """
if redis.call('GET', KEYS[1]) ~= 'o' .. ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_FINISH = """
if redis.call('GET', KEYS[1]) ~= 'o' .. ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) ~= 'o' .. ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class RedisKeys:
    """Keeps keys in Redis, for workers on several machines (``pip install 'penstock-mq[redis]'``).

    For example:

        keys = RedisKeys(redis.asyncio.Redis.from_url("redis://127.0.0.1"))

        @app.handler("orders", idempotency=Idempotency(keys))
        async def handle(order: Order) -> None: ...
    """

    def __init__(self, client: Redis, *, prefix: str = "penstock:idempotency:") -> None:
        """Use a connection to Redis.

        :param client: A client of redis-py for asyncio.
        :param prefix: What all keys begin with; ``penstock:idempotency:`` by default.
        """
        self._client: Any = client
        self._prefix = prefix

    async def begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None:
        """Take a key: see :meth:`IdempotencyStore.begin`."""
        name = self._prefix + key
        while not await self._client.set(name, f"o{owner}", nx=True, px=_ms(busy_s)):
            found, left_ms = await self._client.get(name), await self._client.pttl(name)
            if found is None or left_ms < 0:
                continue  # its time is over
            value = found.encode() if isinstance(found, str) else found
            if value[:1] == b"o":
                return Busy(left_ms / 1000)
            return Finished(value[1:] if value[:1] == b"r" else None)
        return None

    async def renew(self, key: str, owner: str, busy_s: float) -> bool:
        """Keep a key for longer: see :meth:`IdempotencyStore.renew`."""
        return bool(await self._client.eval(_RENEW, 1, self._prefix + key, owner, _ms(busy_s)))

    async def finish(self, key: str, owner: str, result: bytes | None, keep_s: float) -> None:
        """Mark a key as done: see :meth:`IdempotencyStore.finish`."""
        value = b"d" if result is None else b"r" + result
        await self._client.eval(_FINISH, 1, self._prefix + key, owner, value, _ms(keep_s))

    async def release(self, key: str, owner: str) -> None:
        """Give a key back: see :meth:`IdempotencyStore.release`."""
        await self._client.eval(_RELEASE, 1, self._prefix + key, owner)


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))
