"""When the log is synced, in each way of being durable."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StoreBroken, StoreClosed
from penstock.store.changes import Changes
from penstock.store.port import Mark
from penstock.store.sqlite.store import NUMBERS_LOST_MAX, SqliteStore
from store.store_driver import Driver, row

SOON_S = 10  # it takes milliseconds; a busy machine may be slow


class Disk:
    """Stands in for the sync of a file: records which were synced, and fails on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing = False
        self.synced: list[str] = []
        self._tried = threading.Event()
        self._fsync = os.fsync
        monkeypatch.setattr("penstock.store.sqlite.disk.os.fsync", self._sync)

    def _sync(self, fd: int) -> None:
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        self._tried.set()
        if self.failing:
            raise OSError(5, "Input/output error")
        self._fsync(fd)

    def await_sync(self) -> None:
        assert self._tried.wait(SOON_S), "nothing was synced"
        self._tried.clear()

    def forget(self) -> None:
        self.synced.clear()
        self._tried.clear()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    if not Path("/proc/self/fd").exists():
        pytest.skip("which file is synced is read from /proc")
    return Disk(monkeypatch)


def test_the_log_is_synced_within_the_interval_after_each_write(data: Path, disk: Disk) -> None:
    driver = Driver(lambda: SqliteStore(data, synchronous="normal", sync_every_s=0.01))
    disk.forget()  # what making the file synced
    for seq in (1, 2, 3):
        driver.append(added=[row(seq)])
        disk.await_sync()
    driver.store.close()
    assert set(disk.synced) == {"penstock.db-wal"}


def test_a_sync_that_failed_is_told_by_the_next_write_and_all_after_it(data: Path, disk: Disk) -> None:
    driver = Driver(lambda: SqliteStore(data, synchronous="normal", sync_every_s=0.01))
    disk.forget()
    disk.failing = True
    driver.append(added=[row(1)])
    disk.await_sync()
    assert isinstance(driver.store, SqliteStore) and driver.store._sync is not None
    assert driver.store._sync._thread is not None
    driver.store._sync._thread.join(SOON_S)
    for _ in range(2):
        with pytest.raises(StoreBroken, match="could not be synced"):
            driver.append(added=[row(2)])
    driver.store.close()


def test_without_an_interval_there_is_no_thread(data: Path) -> None:
    before = threading.active_count()
    store = SqliteStore(data, synchronous="normal")
    store.open()
    assert threading.active_count() == before
    store.close()


@pytest.mark.parametrize("every_s", [None, 60.0], ids=["system", "interval"])
def test_the_log_is_synced_on_request(data: Path, disk: Disk, every_s: float | None) -> None:
    driver = Driver(lambda: SqliteStore(data, synchronous="normal", sync_every_s=every_s))
    disk.forget()
    driver.append(added=[row(1)])
    assert (driver.store.syncs_late, disk.synced) == (True, [])
    driver.store.sync()
    assert disk.synced == ["penstock.db-wal"]
    assert driver.store.status().sync_times.count == 1  # type: ignore[union-attr]
    driver.store.close()
    with pytest.raises(StoreClosed):
        driver.store.sync()


def test_with_full_durability_there_is_nothing_to_sync(data: Path, disk: Disk) -> None:
    driver = Driver(lambda: SqliteStore(data))
    disk.forget()
    driver.append(added=[row(1)])
    driver.store.sync()
    assert (driver.store.syncs_late, disk.synced) == (False, [])
    driver.store.close()


def test_a_sync_on_request_that_failed_is_told_by_all_that_follows(data: Path, disk: Disk) -> None:
    driver = Driver(lambda: SqliteStore(data, synchronous="normal"))
    driver.append(added=[row(1)])
    disk.failing = True
    with pytest.raises(StoreBroken, match="could not be synced"):
        driver.store.sync()
    disk.failing = False
    with pytest.raises(StoreBroken, match="could not be synced"):
        driver.store.sync()
    with pytest.raises(StoreBroken, match="could not be synced"):
        driver.append(added=[row(2)])
    driver.store.close()


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
def test_how_sqlite_itself_syncs(data: Path, synchronous: str, level: int) -> None:
    store = SqliteStore(data, synchronous=synchronous)  # type: ignore[arg-type]
    store.open()
    assert store._writer is not None
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (level,)
    store.close()


@pytest.mark.parametrize(
    ("settings", "skips"),
    [({"synchronous": "full"}, False), ({"synchronous": "normal"}, True), ({"accept_data_loss": True}, True)],
)
def test_numbers_that_may_have_been_lost_are_not_given_again(
    data: Path, settings: dict[str, Any], skips: bool
) -> None:
    store = SqliteStore(data, **settings)
    assert store.open().mark.next_number == 1, "a new store has given none"
    store.append(Changes(1, 0, {}), Mark(8, 0, 0))
    store.close()
    store = SqliteStore(data, **settings)
    assert store.open().mark.next_number == 8 + skips * NUMBERS_LOST_MAX
    store.close()
