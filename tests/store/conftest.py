"""Stores as parameters: every case of the contract runs on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.auth.encryption.envelope import MessageCipher
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.catalogue import QUEUES, key_use
from penstock.clock import SystemClock
from penstock.store.encrypted import EncryptedStore
from penstock.store.memory import MemoryStore
from penstock.store.port import Store
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver

if TYPE_CHECKING:  # imported when used: the other stores can be tested without psycopg
    from penstock.store.postgres.site import PostgresSite
    from support.postgres import PostgresServer


def encrypted(path: Path, store: Store) -> Store:
    keyring = Keyring(path / "penstock-keys.json", RootKey(bytes(32)), SystemClock())
    keyring.ensure_file()
    return EncryptedStore(
        store, MessageCipher(keyring, SystemClock()), lambda lost: None, QUEUES.name, key_use
    )


def memory(path: Path) -> Store:
    """The one of this test: what is kept outlives a close, as with the others."""
    return MEMORY.setdefault(path, MemoryStore())


MEMORY: dict[Path, MemoryStore] = {}
MAKERS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda path: SqliteStore(path / "data"),
    "memory": memory,
}
ISOLATIONS = ("read committed", "serializable")
POSTGRES = [pytest.param(f"postgres, {each}", marks=pytest.mark.postgres) for each in ISOLATIONS]


# Encryption is a store in front of another and knows nothing of it: one engine behind it is enough.
@pytest.fixture(params=[*MAKERS, "encrypted sqlite", *POSTGRES])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    name = request.param.removeprefix("encrypted ")
    if name in MAKERS:
        make = partial(MAKERS[name], tmp_path)
    else:
        sites, shard = request.getfixturevalue("sites"), next(SHARDS)
        make = partial(sites[name].shard, shard)
    driver = Driver(make if name == request.param else lambda: encrypted(tmp_path, make()))
    yield driver
    driver.store.close()
    MEMORY.clear()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    from support.postgres import running_postgres

    with running_postgres() as server:
        yield server


SHARDS = count()


@pytest.fixture(scope="session")
def sites(postgres: PostgresServer) -> Iterator[dict[str, PostgresSite]]:
    """One of each isolation. Each test has a shard of its own, beside what the others left in the same tables."""
    from penstock.store.postgres.site import PostgresSite

    sites = {}
    for isolation in ISOLATIONS:
        setting = isolation.replace(" ", "\\ ")
        url = postgres.url(postgres.new_database(), default_transaction_isolation=setting)
        site = sites[f"postgres, {isolation}"] = PostgresSite(url, shards=10_000)
        site.open()
    yield sites
    for site in sites.values():
        site.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
