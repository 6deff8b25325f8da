"""Stores as parameters: every case of the contract runs on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_driver import Driver

from penstock.store.port import Store
from penstock.store.sqlite import SqliteStore

MAKERS: dict[str, Callable[[Path], Store]] = {
    "sqlite-file": lambda path: SqliteStore(path / "data"),
    "sqlite-memory": lambda path: SqliteStore(None),
}
LASTING = ("sqlite-file",)  # those whose data outlives the store object


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
