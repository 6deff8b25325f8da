"""Data directories with one and with several shards: what lies where, what is refused, and making one in a crash."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import StoreRefused
from penstock.store.sqlite.file import LOCK_FILE, LockFile
from penstock.store.sqlite.site import SHARDS_FILE, SqliteSite
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver, row
from support.texts import says

SHARDS = 4
MAKE = """
import sys
from pathlib import Path
from penstock.store.sqlite.site import SqliteSite
print("ready", flush=True)
SqliteSite(Path(sys.argv[1]), 64).open()
print("made", flush=True)
sys.stdin.read()
"""


def opened(data: Path, shards: int | None = None) -> SqliteSite:
    site = SqliteSite(data, shards)
    site.open()
    return site


def made(data: Path, shards: int = SHARDS) -> None:
    """Makes a site with one message in each shard."""
    site = opened(data, shards)
    for index in range(shards):
        driver = Driver(lambda index=index: site.shard(index))  # type: ignore[misc]
        driver.append(added=[row(index + 1)], records={("queue", "1"): b"{}"})
        driver.store.close()
    site.close()


def refusal(data: Path, shards: int | None = None) -> str:
    with pytest.raises(StoreRefused) as caught:
        opened(data, shards)
    return str(caught.value)


def test_one_shard_is_the_directory_itself(data: Path) -> None:
    made(data, 1)
    assert (data / "penstock.db").exists()
    assert not (data / SHARDS_FILE).exists() and not list(data.glob("shard-*"))
    store = SqliteStore(data)  # as every release before there were several
    store.open()
    assert store.usage()[1].messages == 1
    store.close()


def test_several_shards_are_a_directory_each_and_their_number_is_kept(data: Path) -> None:
    made(data)
    assert sorted(path.name for path in data.glob("shard-*")) == [f"shard-{i:04d}" for i in range(SHARDS)]
    for shards in (None, SHARDS):
        site = opened(data, shards)
        assert site.shards == SHARDS
        for index in range(SHARDS):
            store = site.shard(index)
            store.open()
            assert [entry.seq for entry in store.scan(0, 100, 10, 10_000)] == [index + 1]
            store.close()
        site.close()


@pytest.mark.parametrize(("stored", "wanted"), [(1, 8), (SHARDS, 1), (SHARDS, SHARDS + 1)])
def test_another_number_is_refused_with_the_command_that_helps(data: Path, stored: int, wanted: int) -> None:
    made(data, stored)
    text = refusal(data, wanted)
    assert f"penstock migrate --from sqlite:{data} --to sqlite:NEW_DIRECTORY --shards {wanted}" in text
    assert opened(data).shards == stored, "nothing was changed"


def test_a_part_that_is_missing_is_refused(data: Path) -> None:
    made(data)
    shard = data / "shard-0002"
    shard.rename(data / "elsewhere")
    says(refusal(data), f"{shard / 'penstock.db'} is missing", "backup")
    (data / "elsewhere").rename(shard)
    (data / SHARDS_FILE).rename(data / "elsewhere")
    for shards in (None, SHARDS):
        says(refusal(data, shards), f"{data / SHARDS_FILE} is missing")
    (data / "elsewhere").rename(data / SHARDS_FILE)
    opened(data).close()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is damaged"),
        (b"\0" * 30, "is damaged"),
        (b'{"shards": "x"}', "is damaged"),
        (b'{"shards": 4, "version": 2}', "newer"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(data: Path, content: bytes, text: str) -> None:
    made(data)
    (data / SHARDS_FILE).write_bytes(content)
    assert text in refusal(data)


def test_processes_share_the_directory_but_no_shard(data: Path) -> None:
    made(data)
    first, second = opened(data), opened(data)
    mine, other, taken = first.shard(0), second.shard(1), second.shard(0)
    mine.open()
    other.open()
    with pytest.raises(StoreRefused, match="in use by process"):
        taken.open()
    alone = LockFile(data / LOCK_FILE)  # as a command takes it that changes the data
    mine.close()
    other.close()
    first.close()
    with pytest.raises(StoreRefused, match="in use by process"):
        alone.take()
    second.close()
    alone.take()
    with pytest.raises(StoreRefused, match="in use by process"):
        opened(data)
    alone.release()


@pytest.mark.parametrize("shards_made", range(SHARDS + 1))
def test_making_it_is_repeated_if_it_was_interrupted(
    data: Path, shards_made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Interrupted

    made_so_far: list[SqliteStore] = []
    open_store, rename = SqliteStore.open, Path.rename

    def open_some(store: SqliteStore) -> object:
        if len(made_so_far) == shards_made:
            stop()
        made_so_far.append(store)
        return open_store(store)

    def rename_others(path: Path, target: Path) -> Path:
        if target.name == SHARDS_FILE:
            stop()
        return rename(path, target)

    monkeypatch.setattr(SqliteStore, "open", open_some)
    monkeypatch.setattr(Path, "rename", rename_others)
    with pytest.raises(Interrupted):
        opened(data, SHARDS)
    monkeypatch.undo()
    made(data, SHARDS + 2)  # another number will do: no message was accepted yet
    assert opened(data).shards == SHARDS + 2


@pytest.mark.slow
@pytest.mark.parametrize("pause_ms", [0, 3, 10, 30, 60])
def test_killed_while_it_is_made(data: Path, pause_ms: int) -> None:
    """Whatever was there, the next start either makes it again or finds it complete."""
    child = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(pause_ms / 1000)
    child.send_signal(signal.SIGKILL)
    child.wait()
    is_made = bool(child.stdout.read())
    child.stdout.close()
    child.stdin.close()
    site = opened(data, None if is_made else 64)
    assert site.shards == 64
    for index in (0, 63):
        store = site.shard(index)
        store.open()
        store.close()
    site.close()
