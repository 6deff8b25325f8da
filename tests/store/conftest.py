"""Stores as parameters: every case of the contract runs on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_driver import Driver

from penstock.auth.encryption.envelope import MessageCipher
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.catalogue import QUEUES, key_use
from penstock.clock import SystemClock
from penstock.store.encrypted import EncryptedStore
from penstock.store.memory import MemoryStore
from penstock.store.port import Store
from penstock.store.sqlite.store import SqliteStore


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
    "encrypted-sqlite": lambda path: encrypted(path, SqliteStore(path / "data")),
    "encrypted-memory": lambda path: encrypted(path, memory(path)),
}


@pytest.fixture(params=MAKERS)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(lambda: MAKERS[request.param](tmp_path))
    yield driver
    driver.store.close()
    MEMORY.clear()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
