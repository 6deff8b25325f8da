"""The shards that this process has open, each with its store, its clock, its runtime and its part of the broker.

All of a site's shards in a single process, some of them in one of several. They can be opened and closed at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from penstock.broker.broker import Broker
from penstock.broker.runtime import LoopRuntime, Runtime, StoreThread
from penstock.broker.shard import Shard
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError, StoreBroken, StoreError, StoreRefused
from penstock.metrics.histogram import Histogram
from penstock.promise import run_detached, start
from penstock.server.encryption import Encryption
from penstock.store.encrypted import EncryptedStore
from penstock.store.port import UNFINISHED, ShardState, StoreSite

log = logging.getLogger("penstock.server")

_READERS_MAX = 4


class ResumedClock(Clock, Protocol):
    def resume(self, last_now_ms: int, last_wall_ms: int) -> None:
        """Continue from the last readings that the store has."""


class ShardRuntime(Runtime, Protocol):
    def close(self) -> None:
        """Returns when the functions given before have returned."""


class Runtimes(Protocol):
    """Gives each shard its clock and its runtime."""

    def soon(self, callback: Callable[[], None], /) -> Any:
        """Call back when the events at hand are done."""

    def of_shard(self, index: int) -> tuple[ResumedClock, ShardRuntime]: ...

    def stop(self) -> None:
        """The runtimes of all shards are closed."""


class LoopRuntimes:
    """The machine's clock, and threads: one that writes for each shard, and a few that read for all."""

    def __init__(self, shards: int, *, commits_on_loop: bool, commit_times: Histogram) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.soon: Callable[[Callable[[], None]], Any] = loop.call_soon
        self._commits_on_loop = commits_on_loop
        self._commit_times = commit_times
        # Each shard keeps to one reader: a store is read by one thread at a time.
        readers = min(shards, _READERS_MAX)
        self._readers = [StoreThread(f"penstock-reader-{number}", loop) for number in range(readers)]

    def of_shard(self, index: int) -> tuple[SystemClock, LoopRuntime]:
        clock, reader = SystemClock(), self._readers[index % len(self._readers)]
        runtime = LoopRuntime(
            self._loop, clock, reader, commits_on_loop=self._commits_on_loop, commit_times=self._commit_times
        )
        return clock, runtime

    def stop(self) -> None:
        for reader in self._readers:
            reader.close()


class _Opened(NamedTuple):
    shard: Shard
    store: EncryptedStore
    runtime: ShardRuntime


def _open_store(store: EncryptedStore) -> ShardState:
    state = store.open()
    if UNFINISHED in state.records:
        store.close()
        raise StoreRefused(
            "the store holds an unfinished copy of another one: repeat the same penstock migrate, which continues"
        )
    return state


class ShardLeases(NamedTuple):
    """Tells that another process may have a shard."""

    has_ended: Callable[[], bool]  # of all shards, see ``Shard``
    on_lost: Callable[[int], None]  # called with a shard when this process no longer serves it


class OpenShards:
    def __init__(
        self,
        site: StoreSite,
        broker: Broker,
        encryption: Encryption,
        runtimes: Runtimes,
        on_fatal: Callable[[StoreError], None],
        leases: ShardLeases | None = None,
    ) -> None:
        """``on_fatal`` is called when the process has to stop: a shard is lost for good, or the disk failed.
        ``leases``: None: the shards are this process's until it ends, so it stops if another one has taken one."""
        self.site = site
        self._broker = broker
        self._encryption = encryption
        self._runtimes = runtimes
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._opened: dict[int, _Opened] = {}
        self._leases = leases

    def __getitem__(self, index: int) -> Shard:
        return self._opened[index].shard

    async def open(self, indexes: Iterable[int]) -> None:
        """Take shards and serve them. Raises StoreRefused or StoreError."""
        opening = [start(self._open(index)) for index in indexes]
        failures = []
        for each in opening:
            try:
                await each
            except PenstockError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _open(self, index: int) -> None:
        clock, runtime = self._runtimes.of_shard(index)
        store = self._encryption.around(self.site.shard(index))
        try:
            state = await runtime.write(partial(_open_store, store))
        except BaseException:
            runtime.close()
            raise
        clock.resume(state.mark.now_ms, state.mark.wall_ms)
        limits, on_ended = self._broker.limits, partial(self._ended, index)
        if self._leases is None:
            shard = Shard(store, runtime, clock, limits, state, on_ended, index)
        else:
            shard = Shard(store, runtime, clock, limits, state, on_ended, index, self._leases.has_ended)
        self._opened[index] = _Opened(shard, store, runtime)
        self._broker.open_shard(shard)
        self._encryption.opened(store, shard, self.site.shards)

    async def close(self, index: int) -> None:
        """Make everything decided durable, and give the shard back."""
        self._encryption.closing(index)
        await self._broker.close_shard(index)
        if (opened := self._opened.pop(index, None)) is not None:  # else it was dropped meanwhile
            await self._close_store(opened)

    async def close_all(self) -> None:
        """The process stops: the broker has made everything durable."""
        await asyncio.to_thread(self.stop_threads)
        for opened in self._opened.values():
            await asyncio.to_thread(opened.store.close)
        self._opened.clear()

    async def _close_store(self, opened: _Opened) -> None:
        await asyncio.to_thread(opened.runtime.close)
        await asyncio.to_thread(opened.store.close)

    def _ended(self, index: int, error: StoreError) -> None:
        """Other shards stay when another process took one. After a failed fsync no disk can be trusted."""
        if self._leases is None or isinstance(error, StoreBroken):
            self._on_fatal(error)
        else:
            # On the next turn: the requests of the refused commit are answered first.
            self._loop.call_soon(self._lose, index, error, self._leases)

    def _lose(self, index: int, error: StoreError, leases: ShardLeases) -> None:
        if self.drop(index):
            log.error("shard %d is lost: %s", index, error)
            leases.on_lost(index)

    def drop(self, index: int) -> bool:
        """Stop serving a shard at once, because another process may have it. False if it is not open."""
        opened = self._opened.pop(index, None)
        if opened is None:
            return False
        self._encryption.closing(index)
        self._broker.drop_shard(index)
        run_detached(self._close_store(opened))
        return True

    def stop_threads(self) -> None:
        """Returns when the functions given before have returned. Reads may each ask for another one: those fail."""
        for opened in self._opened.values():
            opened.runtime.close()
        self._runtimes.stop()
