"""One process with several shards, which it can give back, lose and open again while requests run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from penstock.broker.broker import Broker
from penstock.broker.shard import Shard
from penstock.limits import Limits
from penstock.names import shard_of
from penstock.promise import Promise
from penstock.queues.receipts import ReceiptSigner
from penstock.testing.runtime import SimulatedRuntime
from support.world import ROOMY, FaultyStore, World, name_of

SHARDS = 3


class ShardsWorld(World):
    """All shards share one simulated loop and its two threads; each has its own store."""

    def __init__(
        self, limits: Limits = ROOMY, choose: Callable[[int], int] = lambda choices: 0, shards: int = SHARDS
    ) -> None:
        self.shards = shards
        super().__init__(limits, choose)

    def _open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.broker = Broker(self.limits, self.shards)
        self.stores: dict[int, FaultyStore] = {}
        for index in range(self.shards):
            self.open_shard(index)

    def open_shard(self, index: int) -> None:
        store = self.stores[index] = FaultyStore(self._shard_directory(index))
        state = store.open()
        shard = Shard(store, self.runtime, self.clock, self.limits, state, self.fatal.append, index)
        self.broker.open_shard(shard)
        # Those of the world that test one shard.
        self.store, self.shard = store, shard
        self._receipts = ReceiptSigner(state.secret, index)

    def close_shard(self, index: int) -> Promise[None]:
        """Started; the store is closed when it is done, as the server does."""
        closing = self.start(self.broker.close_shard(index))
        closing.on_done(lambda _: self.stores[index].close())
        return closing

    def reopen(self, index: int) -> None:
        closing = self.close_shard(index)
        self.run()
        closing.result()
        self.open_shard(index)

    def _shard_directory(self, index: int) -> Path:
        return self._directory / f"shard-{index:04d}"

    def crash(self) -> None:
        for store in self.stores.values():
            store.close()
        self._open()
        self.run()

    def close(self) -> None:
        for store in self.stores.values():
            store.close()
        super().close()

    def _check_counters(self) -> None:
        for index in range(self.shards):
            with closing(sqlite3.connect(self._shard_directory(index) / "penstock.db")) as database:
                self._check_counters_of(database)

    def name(self, base: str, shard: int, suffix: str = "") -> str:
        """The short name of a queue that belongs to this shard."""
        numbered = (f"{base}{i}{suffix}" for i in range(1000))
        return next(short for short in numbered if shard_of(name_of(short), self.shards) == shard)
