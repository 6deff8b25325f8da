"""Between SQLite and PostgreSQL, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrate.test_copies import migrate
from penstock.migrate.stores.opened import store_site
from penstock.store.port import Store, StoreSite
from support.generated_stores import dump, fill

pytest.importorskip("psycopg", reason="run make setup: it brings psycopg")

from support.postgres import PostgresServer, running_postgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def stores(site: StoreSite) -> list[Store]:
    site.open()
    site.close()
    return [site.shard(index) for index in range(site.shards)]


def content(site: StoreSite) -> object:
    site.open()
    found = [site.shard(index) for index in range(site.shards)]
    try:
        return dump(found)
    finally:
        for store in found:
            store.close()
        site.close()


@pytest.mark.parametrize(("before", "between", "after"), [(1, 4, 1), (3, 2, 3)])
def test_there_and_back(
    before: int, between: int, after: int, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(postgres.new_database())

    def old() -> StoreSite:
        return store_site(f"sqlite:{tmp_path / 'old'}", before)

    def new() -> StoreSite:
        return store_site(url, between)

    def again() -> StoreSite:
        return store_site(f"sqlite:{tmp_path / 'again'}", after)

    filled = stores(old())
    fill(filled, seed=8)
    for store in filled:
        store.close()
    expected = content(old())
    migrate(old(), new())
    assert content(new()) == expected
    migrate(new(), again())
    assert content(again()) == expected
