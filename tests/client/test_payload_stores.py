"""One contract for all stores of payloads, and what is special to each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.payload_stores import (
    DirectoryStore,
    PayloadError,
    PayloadMissing,
    PayloadStore,
    Pointer,
    S3Store,
)
from support.fake_s3 import FakeS3


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with FakeS3() as running:
        yield running


@pytest.fixture(params=["directory", "S3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, s3: FakeS3) -> PayloadStore:
    if request.param == "directory":
        return DirectoryStore(tmp_path / "payloads", bucket="mine")
    return S3Store("mine", client=s3.client())


@pytest.mark.parametrize("payload", [b"", b"tea", bytes(range(256)) * 10_000])
def test_a_payload_comes_back_until_it_is_deleted(store: PayloadStore, payload: bytes) -> None:
    pointer = store.put(payload)
    assert pointer.bucket == "mine"
    assert store.get(pointer) == payload
    store.delete(pointer)
    with pytest.raises(PayloadMissing):
        store.get(pointer)
    store.delete(pointer)


def test_equal_payloads_are_stored_apart(store: PayloadStore) -> None:
    first, second = store.put(b"tea"), store.put(b"tea")
    store.delete(first)
    assert store.get(second) == b"tea"


def test_another_bucket_is_not_touched(store: PayloadStore, s3: FakeS3) -> None:
    s3.objects["theirs/secret"] = b"tea"
    for act in (store.get, store.delete):
        with pytest.raises(PayloadMissing, match="theirs"):
            act(Pointer("theirs", "secret"))
    assert s3.objects["theirs/secret"] == b"tea"


@pytest.mark.parametrize("key", ["../secret", "/etc/passwd", "..", ".", "a/b", "", "a" * 300])
def test_a_key_cannot_lead_out_of_the_directory(tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_text("tea")
    store = DirectoryStore(tmp_path / "payloads", bucket="mine")
    for act in (store.get, store.delete):
        with pytest.raises(PayloadMissing):
            act(Pointer("mine", key))
    assert (tmp_path / "secret").exists()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DirectoryStore(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PayloadError, match="No space left on device"):
        store.put(b"tea")
    assert list(tmp_path.iterdir()) == []


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_payloads_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store, shared = DirectoryStore(tmp_path / "a/b"), DirectoryStore(tmp_path / "g", for_group=True)
        names = [store.put(b"tea").key, shared.put(b"tea").key]
    finally:
        os.umask(before)
    modes = [mode(tmp_path / "a/b"), mode(tmp_path / "a/b" / names[0])]
    assert modes == [0o700, 0o600]
    assert [mode(tmp_path / "g"), mode(tmp_path / "g" / names[1])] == [0o770, 0o640]


def test_a_group_shares_payloads_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        key = DirectoryStore(tmp_path / "g", for_group=True).put(b"tea").key
    finally:
        os.umask(before)
    assert [mode(tmp_path / "g"), mode(tmp_path / "g" / key)] == [0o770, 0o640]


def test_only_regular_files_are_payloads(tmp_path: Path) -> None:
    """Whoever may write to the directory could lead a reader elsewhere, or keep it waiting for ever."""
    (tmp_path / "secret").write_text("tea")
    store = DirectoryStore(tmp_path / "payloads", bucket="mine")
    (tmp_path / "payloads/link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "payloads/pipe")
    (tmp_path / "payloads/folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(PayloadMissing, match="not a regular file"):
            store.get(Pointer("mine", name))
    store.delete(Pointer("mine", "link"))
    assert (tmp_path / "secret").exists()
    assert store.delete_older_than(-3600) == 0


def test_old_payloads_can_be_deleted(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    old, new = store.put(b"old"), store.put(b"new")
    (tmp_path / "crashed.part").touch()
    for name in (old.key, "crashed.part"):
        os.utime(tmp_path / name, (0, 0))
    assert store.delete_older_than(3600) == 2
    assert store.get(new) == b"new"
    with pytest.raises(PayloadMissing):
        store.get(old)


def test_s3_reads_the_buckets_that_it_may(s3: FakeS3) -> None:
    s3.objects["theirs/tea"] = b"green"
    store = S3Store("mine", client=s3.client(), key_prefix="orders/", also_reads=["theirs"])
    assert store.get(Pointer("theirs", "tea")) == b"green"
    assert store.put(b"black").key.startswith("orders/")


def test_s3_touches_only_keys_with_its_prefix(s3: FakeS3) -> None:
    """AWS's extended clients have the same setting; without it their keys are UUIDs."""
    own, others = (
        ["orders/1", "orders/eu/2"],
        ["invoices/3", "orders", "5c0f0b1e", "orders/../invoices/3", ""],
    )
    s3.objects.update({f"shared/{key}": b"tea" for key in own + others})
    store = S3Store("shared", client=s3.client(), key_prefix="orders/")
    for key in others:
        for act in (store.get, store.delete):
            with pytest.raises(PayloadMissing, match='begin with "orders/"'):
                act(Pointer("shared", key))
    for key in own:
        assert store.get(Pointer("shared", key)) == b"tea"
        store.delete(Pointer("shared", key))
    assert {name for name in s3.objects if name.startswith("shared/")} == {f"shared/{key}" for key in others}


def test_s3_reads_a_part_of_a_bucket_that_is_named(s3: FakeS3) -> None:
    s3.objects.update(
        {"archive/scans/1": b"tea", "archive/secret": b"tea", "theirs/1": b"tea", "mine/1": b"tea"}
    )
    store = S3Store(
        "mine", client=s3.client(), key_prefix="orders/", also_reads=["archive/scans/", "theirs", "mine"]
    )
    for bucket, key in (("archive", "scans/1"), ("theirs", "1"), ("mine", "1")):
        assert store.get(Pointer(bucket, key)) == b"tea"
    with pytest.raises(PayloadMissing, match="also_reads"):
        store.get(Pointer("archive", "secret"))


def test_an_unreachable_s3_is_not_a_missing_payload() -> None:
    with FakeS3() as s3:
        store = S3Store("mine", client=s3.client())
    with pytest.raises(PayloadError):
        store.get(Pointer("mine", "tea"))
