"""Taking turns at a file: a lock that only its owner can hold, an end to all waiting, and no litter."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.auth import secret_files
from penstock.auth.secret_files import change_lock, replace_file
from support.texts import says


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def test_the_lock_is_for_its_owner_alone(path: Path) -> None:
    with change_lock(path):
        assert stat.S_IMODE(lock_of(path).stat().st_mode) == 0o600
    with change_lock(path):
        assert lock_of(path).exists()


def test_a_lock_on_the_folder_blocks_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_files, "_LOCK_TIMEOUT_S", 0.0)
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with change_lock(path):
        replace_file(path, b"ours")
    os.close(folder)
    assert path.read_bytes() == b"ours"


def test_waiting_for_the_lock_times_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_files, "_LOCK_TIMEOUT_S", 0.05)
    with change_lock(path), pytest.raises(TimeoutError) as raised, change_lock(path):
        raise AssertionError("two at once")
    says(raised.value.strerror or "", "0.05 seconds", f'fuser -v "{lock_of(path)}"', "try again")
    with change_lock(path):
        pass


def test_a_link_in_the_lock_s_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    lock_of(path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), change_lock(path):
        raise AssertionError
    assert not (tmp_path / "elsewhere").exists()


def test_root_gives_the_lock_to_the_owner_of_the_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: given.append((owner, group)))
    for _ in range(2):
        with change_lock(path):
            pass
    assert given == [(path.parent.stat().st_uid, -1)], "only of a lock that it made itself"


KILLED = """
import os, pathlib, signal, sys
from penstock.auth.secret_files import change_lock, replace_file
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
path = pathlib.Path(sys.argv[1])
with change_lock(path):
    replace_file(path, b"first")
"""


def test_files_of_a_killed_command_are_removed(path: Path) -> None:
    other = path.with_name(".keys.toml.mine")
    other.touch()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(path.parent)) == 3
    with change_lock(path):
        replace_file(path, b"second")
    assert sorted(os.listdir(path.parent)) == [lock_of(path).name, other.name, path.name]
