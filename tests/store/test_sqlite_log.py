"""A write-ahead log that was damaged: noticed where SQLite would take the damage for the end of the log."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import StoreRefused
from penstock.store.sqlite import file
from penstock.store.sqlite.backup import snapshots
from penstock.store.sqlite.file import PAGE_BYTES
from penstock.store.sqlite.log_check import LostCommits, lost_commits
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver, row
from support.texts import says

COMMITS = 12
HEADER, FRAME = 32, 24 + PAGE_BYTES
SOUND = LostCommits(0, is_damage=False)


@pytest.fixture
def crashed(data: Path, tmp_path: Path) -> Path:
    """A data directory as a killed process leaves it."""
    driver = Driver(lambda: SqliteStore(data))
    for number in range(COMMITS):
        driver.append(added=[row(number * 10 + each + 1, content=b"x" * 900) for each in range(5)])
    copy = tmp_path / "crashed"
    copy.mkdir(mode=0o700)
    for name in ("penstock.db", "penstock.db-wal"):
        shutil.copy(data / name, copy / name)
    return copy


def log_of(directory: Path) -> Path:
    return directory / "penstock.db-wal"


def frames(directory: Path) -> list[bool]:
    """Whether each frame ends a commit."""
    log = log_of(directory).read_bytes()
    return [any(log[at + 4 : at + 8]) for at in range(HEADER, len(log) - FRAME + 1, FRAME)]


def damage(directory: Path, frame: int, offset: int = 24 + 100) -> None:
    with log_of(directory).open("r+b") as log:
        log.seek(HEADER + frame * FRAME + offset)
        log.write(b"\xa5" * 64)


def messages(directory: Path, **options: bool) -> int:
    store = SqliteStore(directory, **options)  # type: ignore[arg-type]
    try:
        return store.open().usage[1].messages
    finally:
        store.close()


def test_a_log_without_damage_is_read_whole(crashed: Path) -> None:
    before = log_of(crashed).read_bytes()
    assert lost_commits(crashed / "penstock.db", PAGE_BYTES) == SOUND
    assert log_of(crashed).read_bytes() == before
    assert messages(crashed) == COMMITS * 5
    assert messages(crashed) == COMMITS * 5, "a stop brings the log into the file"


@pytest.mark.parametrize("offset", [24 + 100, 0, 8], ids=["page", "header of the frame", "salt"])
def test_damage_in_the_middle_is_refused_until_it_is_accepted(crashed: Path, offset: int) -> None:
    ends = frames(crashed)
    damage(crashed, len(ends) // 2, offset)
    before = log_of(crashed).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreRefused, match=r"penstock\.db-wal is damaged.* \d+ commits") as refused:
            messages(crashed)
        assert "--accept-data-loss" in str(refused.value)
        assert log_of(crashed).read_bytes() == before, "nothing of it was touched"
    kept = messages(crashed, accept_data_loss=True)
    assert 0 < kept < COMMITS * 5
    assert messages(crashed) == kept


def test_every_place_of_damage_is_noticed_unless_it_may_be_a_cut_end(crashed: Path, tmp_path: Path) -> None:
    ends = frames(crashed)
    last = len(ends) - 1 - ends[-2::-1].index(True)  # the last commit begins with this frame
    for frame in range(len(ends)):
        copy = tmp_path / f"copy-{frame}"
        shutil.copytree(crashed, copy)
        damage(copy, frame)
        found = lost_commits(copy / "penstock.db", PAGE_BYTES)
        behind = sum(ends[frame + 1 :])
        assert found == LostCommits(behind, is_damage=frame < last), frame
        shutil.rmtree(copy)


def test_a_damaged_header_of_the_log_is_noticed(crashed: Path) -> None:
    with log_of(crashed).open("r+b") as log:
        log.write(b"\xa5" * 32)
    with pytest.raises(StoreRefused, match=r" 1\d commits"):
        messages(crashed)


def test_a_log_that_was_cut_off_is_no_damage(crashed: Path, tmp_path: Path) -> None:
    whole = log_of(crashed).read_bytes()
    for size in range(0, len(whole), 1000):
        log_of(crashed).write_bytes(whole[:size])
        assert lost_commits(crashed / "penstock.db", PAGE_BYTES) == SOUND


def test_frames_of_an_earlier_use_of_the_log_are_no_damage(data: Path, tmp_path: Path) -> None:
    """The log begins anew after a checkpoint, and older frames stay behind the new ones."""
    driver = Driver(lambda: SqliteStore(data))
    for number in range(COMMITS):
        driver.append(added=[row(number + 1, content=b"x" * 900)])
    driver.store._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # type: ignore[attr-defined]
    driver.append(added=[row(100, content=b"x")])
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    for name in ("penstock.db", "penstock.db-wal"):
        shutil.copy(data / name, copy / name)
    assert sum(frames(copy)) > 2
    assert lost_commits(copy / "penstock.db", PAGE_BYTES) == SOUND
    assert messages(copy) == COMMITS + 1


def test_a_log_beside_a_copy_that_uses_none_is_no_damage(crashed: Path) -> None:
    with closing(sqlite3.connect(crashed / "penstock.db")) as database:
        database.execute("VACUUM INTO ?", (str(crashed / "copy.db"),))
    log = log_of(crashed)
    (crashed / "copy.db-wal").write_bytes(log.read_bytes() if log.exists() else b"x" * 10_000)
    assert lost_commits(crashed / "copy.db", PAGE_BYTES) == SOUND


def test_without_a_sync_at_every_commit_damage_is_logged(
    crashed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A power failure may leave holes in what was not synced yet."""
    damage(crashed, len(frames(crashed)) // 2)
    store = SqliteStore(crashed, synchronous="normal")
    store.open()
    store.close()
    says(caplog.text, "ERROR", "penstock.db-wal", "damaged", "lost")


def test_a_backup_of_a_damaged_log_is_refused_and_changes_nothing(crashed: Path) -> None:
    damage(crashed, frames(crashed).index(True) + 1)
    before = log_of(crashed).read_bytes()
    with (
        pytest.raises(StoreRefused, match=r"cp -a.*--accept-data-loss"),
        snapshots([crashed / "penstock.db"]),
    ):
        pass
    assert log_of(crashed).read_bytes() == before
    with pytest.raises(StoreRefused):
        messages(crashed)


def test_a_backup_beside_a_server_leaves_the_check_to_its_start(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(1)])
    monkeypatch.setattr(file, "check_log", None)  # the log of a server changes all the time
    with snapshots([data / "penstock.db"]) as (shard,):
        assert shard.amounts.messages == 1
