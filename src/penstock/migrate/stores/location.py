"""Where a store is: ``sqlite:DIRECTORY`` or the URL of a PostgreSQL database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import StoreRefused
from penstock.server.settings.types import without_password
from penstock.store.sqlite.site import SqliteSite

if TYPE_CHECKING:
    from penstock.store.postgres.site import PostgresSite

SQLITE = "sqlite:"
_POSTGRES = ("postgresql://", "postgres://")
_CLOSING_S_MAX = 2.0  # a connection that was closed just now may still be listed


def store_site(text: str, shards: int | None) -> SqliteSite | PostgresSite:
    """``shards``: of a store that is made new; None: as many as serve makes. Raises StoreRefused."""
    if text.startswith(_POSTGRES):
        try:
            from penstock.store.postgres.site import PostgresSite
        except ImportError:
            raise StoreRefused("PostgreSQL needs psycopg: pip install 'penstock-mq[postgres]'") from None
        return PostgresSite(text, shards)
    if not text.startswith(SQLITE) or len(text) == len(SQLITE):
        raise StoreRefused(
            f'"{without_password(text)}" is no store: expected sqlite:DIRECTORY or postgresql://USER@HOST/DATABASE'
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
