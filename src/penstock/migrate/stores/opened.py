"""Stores that are open for a migration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from penstock.store.port import ShardState, Store, StoreSite


class OpenShard(NamedTuple):
    store: Store
    state: ShardState


@contextmanager
def opened(site: StoreSite) -> Iterator[list[OpenShard]]:
    """All shards of a store, taken for this process: no other one can serve them meanwhile. Raises StoreRefused."""
    with ExitStack() as stack:
        site.open()
        stack.callback(site.close)
        shards = []
        for index in range(site.shards):
            store = site.shard(index)
            shards.append(OpenShard(store, store.open()))
            stack.callback(store.close)
        yield shards
