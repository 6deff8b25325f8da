"""The disk: space comes back after a purge, and a full disk is reported and survived."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StoreFull
from penstock.store.port import Selection
from penstock.store.sqlite.disk import RESERVE_BYTES, Reserve
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import T0, Driver, row, update_of

BODY = b"b" * 1000


def bytes_used(data: Path) -> int:
    return sum(path.stat().st_size for path in data.glob("penstock.db*"))


def fill(driver: Driver, batches: int, content: bytes = BODY) -> None:
    for _ in range(batches):
        first = driver.number * 1000 + 1
        driver.append(added=[row(seq, content=content) for seq in range(first, first + 500)])


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "size"), [(60, 1000), (4, 20_000)])
def test_a_purge_gives_its_space_back(data: Path, batches: int, size: int) -> None:
    driver = Driver(lambda: SqliteStore(data))
    fill(driver, batches, b"b" * size)
    full = bytes_used(data)
    assert full > batches * 500 * size
    driver.append(purged={1: 10**9})
    driver.clean_up(rows_max=500)
    assert bytes_used(data) < full / 3
    assert (data / "penstock.db-wal").stat().st_size == 0
    driver.append(added=[row(10**9 + 1)])
    assert driver.total(after=10**9) == 1
    assert driver.store._writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]  # type: ignore[attr-defined]
    driver.store.close()


@pytest.mark.slow
def test_a_reader_from_outside_only_puts_off_the_cut(data: Path) -> None:
    driver = Driver(lambda: SqliteStore(data))
    fill(driver, 30)
    driver.append(purged={1: 10**9})
    backup = sqlite3.connect(data / "penstock.db", isolation_level=None)
    backup.execute("BEGIN")
    assert backup.execute("SELECT count(*) FROM entries").fetchone() == (15_000,)
    driver.clean_up(rows_max=2000)
    assert backup.execute("SELECT count(*) FROM entries").fetchone() == (15_000,), "its snapshot stays whole"
    large = bytes_used(data)
    backup.execute("ROLLBACK")
    backup.close()
    driver.store.maintain(2000)
    assert bytes_used(data) < large / 2
    driver.store.close()


def test_large_contents_are_removed_in_smaller_pieces(data: Path) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq, content=b"x" * 100_000) for seq in range(1, 21)])
    driver.append(purged={1: 20})
    assert driver.store.maintain(300) is True
    assert 10 <= driver.total() < 20
    driver.store.close()


def test_the_log_shrinks_after_a_large_batch(data: Path) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq, content=b"b" * 100_000) for seq in range(1, 501)])
    fill(driver, 10)
    assert (data / "penstock.db-wal").stat().st_size <= 17 * 1024 * 1024
    driver.store.close()


def test_the_reserve_takes_real_space(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve")
    assert reserve.restore()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    assert reserve.restore(), "again is fine"
    reserve.release()
    reserve.release()
    assert not (tmp_path / "reserve").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0 or _mount("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(mount)) != 0:
        pytest.skip("a small disk needs the right to mount one")
    yield mount
    _mount("umount", "-l", str(mount))


def _mount(*command: str) -> int:
    return subprocess.run(command, capture_output=True, check=False).returncode


def fill_until_full(driver: Driver) -> None:
    with pytest.raises(StoreFull):
        fill(driver, 1000)


@pytest.mark.slow
def test_a_full_disk_is_reported_and_survived(small_disk: Path) -> None:
    data = small_disk / "data"
    driver = Driver(lambda: SqliteStore(data))
    assert (data / "penstock.reserve").exists()
    fill_until_full(driver)
    total = driver.total()
    assert total == driver.number * 500, "every acknowledged batch, and nothing of the refused one"
    assert driver.store.status().refuses is not None

    # The reserve was given up: receives and deletes go on.
    assert not (data / "penstock.reserve").exists()
    first = driver.store.lane(Selection(1), None, 10)
    driver.append(updated=[update_of(entry, due_ms=T0 + 9, receives=1) for entry in first])
    driver.append(removed=[entry.seq for entry in first])
    assert driver.total() == total - 10
    driver.store.maintain(10)
    assert driver.store.status().refuses is not None

    # And so does a purge, which makes room for new messages.
    driver.append(purged={1: 10**9})
    driver.clean_up(200)
    assert (driver.store.status().free_bytes or 0) > 3 * RESERVE_BYTES
    assert driver.store.status().refuses is None
    driver.append(added=[row(10**9 + 1)])
    driver.reopen()
    assert driver.total(after=10**9) == 1
    driver.store.close()


def test_a_full_disk_at_the_start(small_disk: Path) -> None:
    data = small_disk / "data"
    driver = Driver(lambda: SqliteStore(data))
    fill(driver, 4)
    driver.store.close()
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        with pytest.raises(OSError) as caught:
            while True:
                file.write(bytes(65536))
                file.flush()
        assert caught.value.errno == errno.ENOSPC
    driver = Driver(lambda: SqliteStore(data))
    assert driver.state.usage[1].messages == 2000
    assert driver.store.status().refuses is not None
    with pytest.raises(StoreFull):
        fill(driver, 20)
    ballast.unlink()
    fill(driver, 1)
    driver.store.close()


LIMITED = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from penstock.errors import StoreFull
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver, T0, row
from store.test_sqlite_space import fill
driver = Driver(lambda: SqliteStore(Path(sys.argv[1])))
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000_000, resource.RLIM_INFINITY))
try:
    fill(driver, 1000)
except StoreFull:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert driver.total() == driver.number * 500
    fill(driver, 20)
    driver.reopen()
    assert driver.total() == driver.number * 500
    print("reported and survived")
"""


def test_a_limit_on_files_is_a_full_disk_too(data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(data), str(Path(__file__).parent.parent)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "reported and survived\n", done.stderr
