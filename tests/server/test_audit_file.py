"""The file of the audit log: whole lines, rotation, and a disk that accepts half of a line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.server.audit import AuditError
from penstock.server.audit.file import AuditFile

LARGE = 1024 * 1024


@pytest.fixture
def file(tmp_path: Path) -> AuditFile:
    return AuditFile(tmp_path / "audit" / "audit.jsonl", bytes_max=LARGE, keep=2)


def test_only_the_owner_may_read_it(file: AuditFile) -> None:
    file.check()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    file.close()


def test_missing_directories_are_created_private(tmp_path: Path) -> None:
    deep = AuditFile(tmp_path / "data" / "audit" / "audit.jsonl", bytes_max=LARGE, keep=1)
    deep.check()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    deep.close()


def test_an_existing_file_is_continued(file: AuditFile) -> None:
    for line in (b"1\n", b"2\n"):
        file.check()
        file.append(line)
        file.close()
    assert file.path.read_bytes() == b"1\n2\n"


def test_an_unfinished_line_is_ended(file: AuditFile) -> None:
    file.check()
    file.append(b'{"half')
    file.close()
    file.append(b"{}\n")
    assert file.path.read_bytes() == b'{"half\n{}\n'
    file.close()


def test_checking_a_file_writes_nothing(file: AuditFile) -> None:
    """Another server may be writing a line at this moment."""
    file.path.parent.mkdir()
    file.path.write_bytes(b'{"half')
    file.check()
    assert file.path.read_bytes() == b'{"half'


def test_files_are_rotated_by_size_and_the_oldest_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    small = AuditFile(path, bytes_max=10, keep=2)
    small.check()
    for number in range(5):
        small.append(b"%d23456\n" % number)
    small.close()
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert kept == {
        "audit.jsonl": b"423456\n",
        "audit.jsonl.1": b"323456\n",
        "audit.jsonl.2": b"223456\n",
    }
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in tmp_path.iterdir())


def test_keeping_fewer_files_removes_those_beyond(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(1, 7):
        path.with_name(f"audit.jsonl.{number}").write_text("x\n")
    fewer = AuditFile(path, bytes_max=2, keep=2)
    fewer.check()
    fewer.append(b"1\n")
    fewer.append(b"2\n")
    fewer.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]


@pytest.mark.parametrize("removed", [False, True])
def test_a_file_that_was_moved_away_is_left_alone(file: AuditFile, removed: bool) -> None:
    file.check()
    file.append(b"1\n")
    if removed:
        file.path.unlink()
    else:
        file.path.rename(file.path.with_name("elsewhere"))
    file.append(b"2\n")
    assert file.path.read_bytes() == b"2\n"
    file.close()


def test_an_append_that_fails_leaves_no_partial_line(
    file: AuditFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.check()
    file.append(b"1\n")
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 3:
            return write(fd, bytes(data)[:3])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        file.append(b"22222\n")
    assert file.path.read_bytes() == b"1\n"
    monkeypatch.undo()
    file.append(b"22222\n")
    assert file.path.read_bytes() == b"1\n22222\n"
    file.close()


def test_an_invalid_path_is_one_line_for_the_operator(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    for wrong, why in ((tmp_path / "file" / "a", "ot a directory"), (tmp_path, "s a directory")):
        with pytest.raises(AuditError, match=why):
            AuditFile(wrong, bytes_max=LARGE, keep=1).check()
    with pytest.raises(AuditError, match="not a regular file"):
        AuditFile(tmp_path / "pipe", bytes_max=LARGE, keep=1).check()


def test_several_processes_write_and_rotate_one_file(tmp_path: Path) -> None:
    path, line = tmp_path / "audit.jsonl", b"x" * 99 + b"\n"
    writers = [AuditFile(path, bytes_max=1000, keep=100, shared=True) for _ in range(3)]
    for number in range(60):
        writers[number % 3].append(line)
    for writer in writers:
        writer.close()
    files = sorted(each for each in tmp_path.iterdir() if not each.name.startswith("."))
    assert [each.stat().st_size for each in files] == [1000] * 6
    assert b"".join(each.read_bytes() for each in files) == line * 60
