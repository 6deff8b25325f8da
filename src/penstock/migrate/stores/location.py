"""Where a store is: ``sqlite:DIRECTORY`` or the URL of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import StoreRefused
from penstock.server.settings.types import without_password
from penstock.store.sqlite.site import SqliteSite

if TYPE_CHECKING:
    from penstock.store.postgres.site import PostgresSite

SQLITE = "sqlite:"
_POSTGRES = ("postgresql://", "postgres://")
_NODE_GONE_AFTER_MS = 30_000


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
    """Raises StoreRefused if nodes of a cluster use the store. On SQLite the lock of each shard tells."""
    if isinstance(site, SqliteSite):
        return
    from penstock.store.postgres.leases import PostgresLeases

    leases = PostgresLeases(site.database, site.shards)
    try:
        nodes = [node.address for node in leases.view().nodes if node.age_ms < _NODE_GONE_AFTER_MS]
    finally:
        leases.close()
    if nodes:
        raise StoreRefused(
            f"nodes use the store: {', '.join(sorted(nodes))}; stop them all. A node that crashed counts for "
            f"{_NODE_GONE_AFTER_MS // 1000} seconds"
        )
