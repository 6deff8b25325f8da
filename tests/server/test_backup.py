"""Archives that someone has put together: they are refused before anything of them is written."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from shutil import copyfileobj
from typing import IO

import pytest

from penstock.errors import StoreRefused
from penstock.server import backup
from support.texts import says

REAL_BYTES = 64 * 1024 * 1024


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What a restore has written."""
    made: list[object] = []

    def copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
        made.append(target.name)
        copyfileobj(source, target, length)

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    return made


def contents(**files: int) -> bytes:
    """The last member of a backup of one shard, with files of zeros."""
    members = [
        {"name": name, "bytes": size, "sha256": hashlib.sha256(bytes(size)).hexdigest()}
        for name, size in files.items()
    ]
    facts = {
        "version": "0.2.0",
        "created": "2026-11-17T00:00:00.000Z",
        "shards": 1,
        "queues": 0,
        "messages": 0,
    }
    return json.dumps({**facts, "bytes": 0, "keyring": False, "files": members}).encode()


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def member(name: str, **pax_headers: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.pax_headers = {name.replace("_", "."): value for name, value in pax_headers.items()}
    return made


def sparse(name: str, real_bytes: int) -> tuple[tarfile.TarInfo, bytes]:
    """A file of zeros that takes no place in the archive, as GNU tar writes it."""
    made = member(name)
    made.pax_headers = {
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name,
        "GNU.sparse.realsize": str(real_bytes),
    }  # fmt: skip
    return made, f"1\n{real_bytes}\n0\n".encode().ljust(512, b"\0")


def refusal(path: Path, tmp_path: Path) -> str:
    with pytest.raises(StoreRefused) as raised:
        backup.restore(path, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    return str(raised.value)


def test_a_sparse_file_is_refused(tmp_path: Path, copies: list[object]) -> None:
    facts = contents(**{"penstock.db": REAL_BYTES})
    path = archive(tmp_path / "b.tar", sparse("penstock.db", REAL_BYTES), (member(backup.CONTENTS), facts))
    assert path.stat().st_size < 20_000
    says(refusal(path, tmp_path), '"penstock.db"', "not a part")
    assert copies == []


def test_what_the_list_does_not_have_is_refused_before_it_is_written(
    tmp_path: Path, copies: list[object]
) -> None:
    files = (member("penstock.db"), bytes(2000)), (member("penstock-keys.json"), b"{}")
    for listed in ({"penstock.db": 1000, "penstock-keys.json": 2}, {"penstock.db": 2000}):
        path = archive(tmp_path / "b.tar", *files, (member(backup.CONTENTS), contents(**listed)))
        assert "is damaged: penstock" in refusal(path, tmp_path)
    twice = archive(tmp_path / "b.tar", files[0], files[0], (member(backup.CONTENTS), contents()))
    says(refusal(twice, tmp_path), '"penstock.db"', "twice")
    assert copies == []


def test_a_file_that_ends_early_is_refused_before_it_is_written(tmp_path: Path, copies: list[object]) -> None:
    path = archive(tmp_path / "b.tar", (member(backup.CONTENTS), contents(**{"penstock.db": REAL_BYTES})))
    header = member("penstock.db")
    header.size = REAL_BYTES
    path.write_bytes(path.read_bytes()[:1024] + header.tobuf() + bytes(10_240))
    says(refusal(path, tmp_path), "cannot be read")
    assert copies == []


def test_headers_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    for name in ("GNU_sparse_size", "GNU_sparse_map", "size"):
        header = (member("penstock.db", **{name: "many"}), bytes(512))
        assert "backup" in refusal(archive(tmp_path / "b.tar", header), tmp_path), name
