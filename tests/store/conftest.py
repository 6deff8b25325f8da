"""Stores as parameters: every case of the contract runs on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_driver import Driver

from penstock.auth.encryption.envelope import Cipher
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.clock import SystemClock
from penstock.store.encrypted import EncryptedStore
from penstock.store.port import Store
from penstock.store.sqlite.store import SqliteStore


def sealed(path: Path) -> Store:
    keyring = Keyring(path / "data" / "penstock-keys.json", RootKey(bytes(32)), SystemClock())
    keyring.keep()
    return EncryptedStore(SqliteStore(path / "data"), Cipher(keyring, SystemClock()), lambda lost: None)


MAKERS: dict[str, Callable[[Path], Store]] = {
    "sqlite-file": lambda path: SqliteStore(path / "data"),
    "sqlite-memory": lambda path: SqliteStore(None),
    "sealed-file": sealed,
}
LASTING = ("sqlite-file", "sealed-file")  # those whose data outlives the store object


@pytest.fixture(params=MAKERS)
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(lambda: MAKERS[request.param](tmp_path))
    yield driver
    driver.store.close()


@pytest.fixture(params=LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(lambda: MAKERS[request.param](tmp_path))
    yield driver
    driver.store.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
