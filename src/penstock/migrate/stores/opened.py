"""The two stores of a migration: where they are, and all their shards opened for it alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import StoreRefused
from penstock.server.settings.types import without_password
from penstock.store.port import ShardState, Store, StoreSite
from penstock.store.sqlite.site import SqliteSite

if TYPE_CHECKING:
    from penstock.store.postgres.site import PostgresSite

SQLITE = "sqlite:"
_POSTGRES = ("postgresql://", "postgres://")
_CLOSING_S_MAX = 2.0  # a connection that was closed just now may still be listed


def store_site(text: str, shards: int | None) -> SqliteSite | PostgresSite:
    """``text``: ``sqlite:DIRECTORY`` or the URL of a PostgreSQL database. ``shards``: of a store that is made new;
    None: as many as serve makes. Raises StoreRefused."""
    if text.startswith(_POSTGRES):
        try:
            from penstock.store.postgres.site import PostgresSite
        except ImportError:
            raise StoreRefused("PostgreSQL needs psycopg: pip install 'penstock-mq[postgres]'") from None
        return PostgresSite(text, shards)
    if not text.startswith(SQLITE) or len(text) == len(SQLITE):
        raise StoreRefused(
            f'"{without_password(text)}" does not name a store: expected sqlite:DIRECTORY or postgresql://USER@HOST/DATABASE'
        )
    return SqliteSite(Path(text.removeprefix(SQLITE)), shards)


def check_unused(site: SqliteSite | PostgresSite) -> None:
    """Raises StoreRefused if a server uses the store. On SQLite the lock of each shard tells."""
    if isinstance(site, SqliteSite):
        return
    deadline = time.monotonic() + _CLOSING_S_MAX
    while users := site.users():
        if time.monotonic() > deadline:
            raise StoreRefused(
                f"Penstock is connected to the database, from {', '.join(users)}: stop all servers that use the store"
            )
        time.sleep(0.05)


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
