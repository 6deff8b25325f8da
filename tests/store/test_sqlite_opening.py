"""What the SQLite store refuses to open, and what it says; the lock; the way from an older format."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from penstock.broker.catalogue import COOLDOWNS, QUEUES
from penstock.broker.move_tasks import MOVE_TASKS
from penstock.errors import StoreBroken, StoreLost, StoreRefused
from penstock.names import QueueName
from penstock.store.changes import POSITION_GAP
from penstock.store.port import Order, Selection, Usage
from penstock.store.sqlite import file as datafile
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import T0, Driver, bare, row
from support.texts import says


def filled(data: Path, rows: int = 200) -> None:
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq) for seq in range(1, rows + 1)], records={("queue", "1"): b"{}"})
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
    writer = store._writer
    assert writer is not None
    settings = {
        name: writer.execute(f"PRAGMA {name}").fetchone()[0]
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
        "user_version": 4, "mmap_size": 0,
    }  # fmt: skip
    store.close()
    assert sorted(path.name for path in data.iterdir()) == [
        "penstock.db",
        "penstock.lock",
        "penstock.reserve",
    ]
    assert (data / "penstock.db").stat().st_mode & 0o077 == 0, "others read no messages"


def test_links_among_the_files_are_refused(data: Path, tmp_path: Path) -> None:
    filled(data)
    elsewhere = tmp_path / "elsewhere"
    for name in ("penstock.lock", "penstock.db", "penstock.reserve", "penstock.db-wal"):
        path = data / name
        before = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        elsewhere.write_text("not ours")
        path.symlink_to(elsewhere)
        text = refusal(data)
        assert name in text
        assert "link" in text or "not a regular file" in text
        assert elsewhere.read_text() == "not ours"
        path.unlink()
        if before is not None:
            path.write_bytes(before)
            path.chmod(0o600)
    filled(data, rows=0)


def test_modes_that_let_others_read_are_corrected(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(data)
    (data / "penstock.db").chmod(0o644)
    store = SqliteStore(data)
    store.open()
    store.close()
    assert (data / "penstock.db").stat().st_mode & 0o777 == 0o600
    assert "open to other users" in caplog.text


def test_the_lock_is_its_owners_alone(data: Path) -> None:
    filled(data)
    lock = data / "penstock.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    lock.chmod(0o666)
    filled(data, rows=0)
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_directory_that_every_user_can_write_is_refused(data: Path) -> None:
    data.mkdir(mode=0o700)
    data.chmod(0o777)
    assert "chmod o-w" in refusal(data)
    assert list(data.iterdir()) == []
    data.chmod(0o1777)
    assert "chmod o-w" in refusal(data)


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@AS_ROOT
def test_a_directory_of_another_user_is_refused(data: Path) -> None:
    data.mkdir(mode=0o700)
    os.chown(data, 12345, -1)
    text = refusal(data)
    assert "another user (uid 12345)" in text
    assert "chown" in text
    assert list(data.iterdir()) == []


@AS_ROOT
def test_a_file_of_another_user_is_refused(data: Path) -> None:
    filled(data)
    os.chown(data / "penstock.db", 12345, -1)
    says(refusal(data), "penstock.db", "another user", "12345")


READ_ONLY = """
import os, pathlib, sys
from penstock.errors import StoreRefused
from penstock.store.sqlite.store import SqliteStore
os.setuid(12345)
try:
    SqliteStore(pathlib.Path(sys.argv[1])).open()
except StoreRefused as error:
    print(error)
"""


@AS_ROOT
@pytest.mark.parametrize("others", [0o644, 0o600])
def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path, others: int) -> None:
    """The file was made as root, and another user starts the server: no send would succeed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        data = Path(place) / "data"
        filled(data)
        Path(place).chmod(0o755)
        data.chmod(0o755)
        for path in data.iterdir():
            path.chmod(others if path.name == "penstock.db" else 0o666)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(data)], capture_output=True, text=True, check=False
        )
    assert "penstock.db" in done.stdout, done.stderr
    assert "cannot be used" in done.stdout
    assert "owner" in done.stdout


def test_a_directory_is_made(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a" / "b")
    assert store.open().end.number == 0
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
    assert f"up to {datafile.format_version()}" in text


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
    assert "truncated" in text or "damaged" in text
    assert "restore" in text


@pytest.mark.parametrize("name", ["records", "entries", "by_age", "dedup", "by_flight"])
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
    """A page in the middle is not read at open; a read of it reports that the file is damaged."""
    filled(data, rows=5000)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        (page,) = file.execute(
            "SELECT pageno FROM dbstat WHERE name = 'entries' AND pagetype = 'leaf' LIMIT 1 OFFSET 20"
        ).fetchone()
    overwrite(data, page)
    driver = Driver(lambda: SqliteStore(data))
    with pytest.raises(StoreBroken):
        driver.store.lane(Selection(1), None, 5000)
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


def test_a_half_made_file_is_made_again(data: Path) -> None:
    data.mkdir()
    (data / "penstock.db.new").write_bytes(b"half")
    filled(data)
    assert not (data / "penstock.db.new").exists()


def test_a_second_store_is_told_who_holds_the_directory(data: Path) -> None:
    store = SqliteStore(data)
    store.open()
    text = refusal(data)
    says(text, f"process {os.getpid()}", str(data))
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
    steps = (*datafile.MIGRATIONS, LATER_1, LATER_2)
    store = SqliteStore(data, migrations=steps)
    assert store.open().usage[1].messages == 3
    assert store._writer is not None
    assert store._writer.execute("SELECT name, hue FROM colours").fetchall() == [("red", 0)]
    store.close()
    assert version(data) == datafile.format_version() + 2
    again = SqliteStore(data, migrations=steps)
    assert again.open().usage[1].messages == 3
    again.close()
    assert f"format {version(data)}" in refusal(data), "the older program leaves it alone"


def test_releases_that_do_not_know_internal_queues_leave_the_file_alone(data: Path) -> None:
    """Format 3 had the same tables."""
    filled(data, rows=3)
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        file.execute("PRAGMA user_version = 3")
    driver = Driver(lambda: SqliteStore(data))
    assert len(driver.all()) == 3
    driver.store.close()
    assert version(data) == 4
    says(refusal(data, migrations=datafile.MIGRATIONS[:2]), "format 4", "up to 3")


FORMATS = Path(__file__).parent / "formats"
ACCOUNT, REGION = "123456789012", "eu-west-1"


def old_file(data: Path, version: int) -> None:
    """A file as an earlier Penstock left it. The only difference of format 1 was a table that came with 2."""
    data.mkdir(mode=0o700)
    (data / "penstock.db").write_bytes(gzip.decompress((FORMATS / "2.db.gz").read_bytes()))
    if version == 1:
        with closing(sqlite3.connect(data / "penstock.db")) as file:
            file.executescript("DROP TABLE seals; PRAGMA user_version = 1")


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_format_is_migrated(data: Path, version: int) -> None:
    old_file(data, version)
    driver = Driver(lambda: SqliteStore(data))
    store, state = driver.store, driver.state
    assert state.end.number == 2
    assert (state.mark.next_number, state.mark.now_ms, state.mark.wall_ms) == (61, T0 + 100, T0 + 200)
    queues = {key: QUEUES.decode(record) for key, record in state.records["queue"].items()}
    assert {key: queue.name.name for key, queue in queues.items()} == {
        "1": "orders",
        "2": "jobs.fifo",
        "3": "dead",
    }
    assert (queues["1"].purged_to, queues["1"].purged_ms) == (12 * POSITION_GAP, T0)
    assert queues["1"].tags == {"team": "rot ü"}
    assert queues["1"].settings.redrive is not None
    cooldowns = {key: COOLDOWNS.decode(record).until_ms for key, record in state.records["cooldown"].items()}
    assert cooldowns == {f"{ACCOUNT}/{REGION}/gone": T0 + 60_000}
    task = MOVE_TASKS.decode(state.records["move_task"]["3f1c"])
    assert (task.source, task.status, task.moves_max) == (QueueName(ACCOUNT, REGION, "dead"), "RUNNING", 1)
    assert state.records.get("key_version", {}) == ({b"\xc1\x01key".hex(): b""} if version == 2 else {})
    # Messages: in their order, with room between them, and counted without what was purged or dropped.
    purged_to = queues["1"].purged_to
    assert [(row.seq, row.position) for row in driver.all(1, purged_to)] == [
        (seq, seq * POSITION_GAP) for seq in (20, 21, 22, 23)
    ]
    assert [row.version for row in driver.all(1, purged_to)] == [1] * 4
    assert store.contents([20, 22, 50]) == {20: b"content 20", 22: b"L" * 5000, 50: b"content 50"}
    assert state.usage == {1: Usage(4, 30 + 5000), 2: Usage(3, 30), 3: Usage(1, 10)}
    hidden = Selection(1, purged_to, due_ms_min=T0 + 1)
    assert [row.seq for row in store.select(hidden, Order.DUE, rows_max=9)] == [22, 21]
    assert [row.seq for row in store.lane(Selection(2), "g", 9)] == [30, 31]
    (dead,) = store.lane(Selection(3), None, 9)
    assert (dead.seq, dead.position, dead.source) == (
        15,
        40 * POSITION_GAP,
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders",
    )
    assert [send.seq for send in store.dedup(2, T0)] == [30, 31, 32]
    # And it goes on from there.
    driver.know_all()
    driver.append(added=[row(61, 2, position=61 * POSITION_GAP, group="g")])
    assert driver.clean_up() > 1
    assert store.contents([11, 12, 50]) == {}
    driver.store.close()
    says(refusal(data, migrations=datafile.MIGRATIONS[:1]), f"format {datafile.format_version()}", "up to 2")


NO_TEMPORARY_FILES = (
    "for each in /var/tmp /tmp; do mount --bind $each $each && mount -o remount,bind,ro $each || exit; done; "
    "cd /proc && exec "
)
MIGRATE = """
import pathlib, sys
from penstock.store.sqlite import file
from penstock.store.sqlite.store import SqliteStore
file.CACHE_KIB = 16  # sorting more than this takes a temporary file
print(SqliteStore(pathlib.Path(sys.argv[1])).open().usage[9].messages)
"""


@AS_ROOT
def test_a_large_file_is_migrated_where_only_the_data_directory_is_writable() -> None:
    """A container with a read-only file system is such a place."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "sh", "-c", f"{NO_TEMPORARY_FILES} true"], check=False).returncode
    ):
        pytest.skip("needs permission to mount")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        data = Path(place) / "data"
        old_file(data, 2)
        with closing(sqlite3.connect(data / "penstock.db")) as file:
            file.executescript(
                "DELETE FROM graveyard;"
                "WITH RECURSIVE n (i) AS (VALUES (1000) UNION ALL SELECT i + 1 FROM n WHERE i < 100999)"
                "INSERT INTO entries SELECT i, 9, i, NULL, i, 0, 0, 0, 0, NULL, x'00' FROM n;"
            )
        command = f'{NO_TEMPORARY_FILES} "$@"'
        python = [sys.executable, "-c", MIGRATE, str(data)]
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", command, "sh", *python], capture_output=True, text=True, check=False
        )
    assert done.stdout == "100001\n", done.stderr


def test_a_failing_step_leaves_the_file_as_it_was(data: Path) -> None:
    filled(data, rows=3)
    assert "no such table: nowhere" in refusal(
        data, migrations=(*datafile.MIGRATIONS, LATER_1, "DELETE FROM nowhere")
    )
    assert version(data) == datafile.format_version()
    driver = Driver(lambda: SqliteStore(data))
    assert driver.all() == bare(row(seq) for seq in (1, 2, 3))
    driver.store.close()
    with closing(sqlite3.connect(data / "penstock.db")) as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'colours'").fetchall()


def test_the_present_format_is_the_last_step() -> None:
    assert datafile.format_version() == 1 + len(datafile.MIGRATIONS)
    assert datafile.format_version((LATER_1, LATER_2)) == 3


_VISIT = (
    "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM entries').fetchall()"
)


def test_another_process_may_look_into_the_file_and_nothing_is_lost(data: Path, tmp_path: Path) -> None:
    """A backup does so. A process that closes a database which no other has locked removes its log."""
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
    driver.append(added=[row(1)], records={("queue", "1"): b"{}"})
    (data / name).unlink()
    with pytest.raises(StoreLost, match=name):
        driver.append(added=[row(2)])
    driver.store.close()
