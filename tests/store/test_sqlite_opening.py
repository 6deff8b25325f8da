"""What the SQLite store refuses to open, and what it says; the lock; the way from an older format."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from store_driver import T0, Driver, bare, queue_record, row

from penstock.errors import StoreBroken, StoreLost, StoreRefused
from penstock.store.sqlite import file as datafile
from penstock.store.sqlite import migrations
from penstock.store.sqlite.store import SqliteStore


def filled(data: Path, rows: int = 200) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq) for seq in range(1, rows + 1)], queues={1: queue_record(1)})
    driver.store.close()


def refusal(data: Path, **options: object) -> str:
    store = SqliteStore(data, **options)  # type: ignore[arg-type]
    with pytest.raises(StoreRefused) as caught:
        store.open()
    store.close()
    return str(caught.value)


def file_state(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir() if path.name != "penstock.lock"}


def test_the_file_is_set_up_for_safety(data: Path) -> None:
    store = SqliteStore(data)
    store.open()
    settings = {
        name: store._writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in (
            "journal_mode",
            "synchronous",
            "auto_vacuum",
            "application_id",
            "user_version",
            "mmap_size",
        )
    }
    assert settings == {
        "journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2, "application_id": datafile.APPLICATION_ID,
        "user_version": 2, "mmap_size": 0,
    }  # fmt: skip
    store.close()
    assert sorted(path.name for path in data.iterdir()) == [
        "penstock.db",
        "penstock.lock",
        "penstock.reserve",
    ]
    assert (data / "penstock.db").stat().st_mode & 0o077 == 0, "others read no messages"


def test_a_directory_is_made(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a" / "b")
    assert store.open().position == 0
    store.close()


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert "cannot be used" in refusal(tmp_path / "data")


@pytest.mark.parametrize("content", [b"hello, this is not a database", os.urandom(9000)])
def test_not_a_database(data: Path, content: bytes) -> None:
    data.mkdir()
    (data / "penstock.db").write_bytes(content)
    assert "not an SQLite database" in refusal(data)
    assert (data / "penstock.db").read_bytes() == content


def test_a_database_of_another_application(data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "penstock.db")) as other:
        other.executescript("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Yesterday')")
    before = file_state(data)
    assert "another application" in refusal(data)
    assert file_state(data) == before


def test_a_newer_format(data: Path) -> None:
    filled(data)
    with closing(sqlite3.connect(data / "penstock.db")) as newer:
        newer.execute("PRAGMA user_version = 7")
    text = refusal(data)
    assert "format 7" in text
    assert f"up to {migrations.present_version()}" in text


def test_an_empty_file(data: Path) -> None:
    filled(data)
    (data / "penstock.db").write_bytes(b"")
    assert "is empty" in refusal(data)


def test_a_missing_file_beside_its_log(data: Path) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(1)])
    shutil.copytree(data, data.with_name("crashed"))
    driver.store.close()
    crashed = data.with_name("crashed")
    assert (crashed / "penstock.db-wal").stat().st_size > 0
    (crashed / "penstock.db").unlink()
    assert "penstock.db-wal is there" in refusal(crashed)
    assert not (crashed / "penstock.db").exists(), "a refusal makes nothing"


@pytest.mark.parametrize("length", [50, 4096, 4096 * 5, 4096 * 9 + 100])
def test_a_file_cut_off(data: Path, length: int) -> None:
    filled(data)
    os.truncate(data / "penstock.db", length)
    text = refusal(data)
    assert "cut off" in text or "damaged" in text
    assert "restore" in text


@pytest.mark.parametrize("name", ["queues", "entries", "by_age", "dedup", "by_flight"])
def test_the_root_of_a_tree_overwritten(data: Path, name: str) -> None:
    filled(data)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        (page,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    overwrite(data, page)
    assert "damaged" in refusal(data)


def test_the_schema_overwritten(data: Path) -> None:
    filled(data)
    overwrite(data, 1, skip=100)
    assert "damaged" in refusal(data)


def test_damage_found_later_stops_the_broker(data: Path) -> None:
    """A page in the middle is not read at open; whoever reads it is told that the file is damaged."""
    filled(data, rows=5000)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        (page,) = file.execute(
            "SELECT pageno FROM dbstat WHERE name = 'entries' AND pagetype = 'leaf' LIMIT 1 OFFSET 20"
        ).fetchone()
    overwrite(data, page)
    driver = Driver(lambda: SqliteStore(data))
    with pytest.raises(StoreBroken):
        driver.store.waiting(1, None, 0, T0, 5000)
    with pytest.raises(StoreBroken):
        driver.append(removed=range(1, 5000))
    driver.store.close()


def overwrite(data: Path, page: int, skip: int = 0) -> None:
    with (data / "penstock.db").open("r+b") as file:
        file.seek((page - 1) * 4096 + skip)
        file.write(b"\xa5" * 3000)


def test_a_missing_table(data: Path) -> None:
    filled(data)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        file.execute("DROP INDEX by_group")
        file.execute("DROP TABLE dedup")
    assert "lacks index by_group, table dedup" in refusal(data)


def test_a_half_made_file_is_made_anew(data: Path) -> None:
    data.mkdir()
    (data / "penstock.db.new").write_bytes(b"half")
    filled(data)
    assert not (data / "penstock.db.new").exists()


def test_a_second_store_is_told_who_holds_the_directory(data: Path) -> None:
    store = SqliteStore(data)
    store.open()
    text = refusal(data)
    assert f"in use by process {os.getpid()}" in text
    assert str(data) in text
    store.close()
    filled(data)


def test_the_lock_ends_with_a_killed_process(data: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys, pathlib; from penstock.store.sqlite.store import SqliteStore\n"
            "SqliteStore(pathlib.Path(sys.argv[1])).open(); print('open', flush=True); sys.stdin.read()",
            str(data),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdin and holder.stdout
    try:
        assert holder.stdout.readline() == b"open\n"
        assert f"process {holder.pid}" in refusal(data)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    filled(data)


LATER_1 = "CREATE TABLE colours (name TEXT); INSERT INTO colours VALUES ('red')"
LATER_2 = "ALTER TABLE colours ADD COLUMN hue INTEGER; UPDATE colours SET hue = 0"


def version(data: Path) -> int:
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        number: int = file.execute("PRAGMA user_version").fetchone()[0]
        return number


def test_an_older_format_is_brought_up_step_by_step(data: Path) -> None:
    filled(data, rows=3)
    steps = (*migrations.STEPS, LATER_1, LATER_2)
    store = SqliteStore(data, steps=steps)
    assert store.open().messages == 3
    assert store._writer.execute("SELECT name, hue FROM colours").fetchall() == [("red", 0)]
    store.close()
    assert version(data) == 4
    again = SqliteStore(data, steps=steps)
    assert again.open().messages == 3
    again.close()
    assert "format 4" in refusal(data), "the older program leaves it alone"


def test_a_file_from_before_there_was_encryption_becomes_a_present_one(data: Path) -> None:
    filled(data, rows=3)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        file.executescript("DROP TABLE seals; PRAGMA user_version = 1")
    store = SqliteStore(data)
    shard = store.open()
    assert (shard.messages, shard.seals) == (3, frozenset())
    store.remember_seals({b"seal"})
    store.close()
    assert "format 2, this Penstock knows formats up to 1" in refusal(data, steps=())


def test_a_failing_step_leaves_the_file_as_it_was(data: Path) -> None:
    filled(data, rows=3)
    assert "no such table: nowhere" in refusal(
        data, steps=(*migrations.STEPS, LATER_1, "DELETE FROM nowhere")
    )
    assert version(data) == migrations.present_version()
    driver = Driver(lambda: SqliteStore(data))
    assert driver.all() == bare(row(seq) for seq in (1, 2, 3))
    driver.store.close()
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'colours'").fetchall()


def test_the_present_format_is_the_last_step() -> None:
    assert migrations.present_version() == 1 + len(migrations.STEPS)
    assert migrations.present_version((LATER_1, LATER_2)) == 3


_VISIT = (
    "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM entries').fetchall()"
)


def test_another_process_may_look_into_the_file_and_nothing_is_lost(data: Path, tmp_path: Path) -> None:
    """As a backup does. Whoever closes a database that nobody else has locked removes the log, with all in it."""
    filled(data, rows=3)
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(4)])
    subprocess.run([sys.executable, "-c", _VISIT, str(data / "penstock.db")], check=True, timeout=30)
    driver.append(added=[row(5)])
    crashed = tmp_path / "crashed"
    shutil.copytree(data, crashed)
    driver.store.close()
    assert len(Driver(lambda: SqliteStore(crashed)).store.contents([1, 2, 3, 4, 5])) == 5


@pytest.mark.parametrize("name", ["penstock.db", "penstock.db-wal"])
def test_a_file_that_is_gone_takes_nothing_more(data: Path, name: str) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(1)], queues={1: queue_record(1)})
    (data / name).unlink()
    with pytest.raises(StoreLost, match=name):
        driver.append(added=[row(2)])
    driver.store.close()
