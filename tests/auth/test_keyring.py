"""The keyring: names that lead to keys, versions that are added, and a file that is never half a file."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import RootKey
from penstock.errors import KeyMissing
from penstock.names import Space
from penstock.testing.clock import ManualClock
from support.texts import says

HERE = Space("111122223333", "eu-west-1")
THERE = Space("444455556666", "us-east-1")
ROOT = RootKey(bytes(range(32)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "penstock-keys.json"


def opened(path: Path | None, root: RootKey = ROOT) -> Keyring:
    ring = Keyring(path, root, ManualClock())
    ring.ensure_file()
    return ring


def test_a_new_keyring_is_private_and_has_the_managed_keys(path: Path) -> None:
    keys = opened(path).keys
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for space in (HERE, THERE):
        found = keys.find(space, "alias/aws/sqs")
        assert found is keys.find(space, f"arn:aws:kms:{space.region}:{space.account}:alias/aws/sqs")
        assert found.enabled
        assert found is not keys.managed


def test_the_key_of_topics_is_the_servers_own_also_in_an_older_keyring(path: Path) -> None:
    ring = opened(path)
    assert "alias/aws/sns" not in path.read_text()
    for name in ("alias/aws/sns", f"arn:aws:kms:{HERE.region}:{HERE.account}:alias/aws/sns"):
        assert ring.keys.find(HERE, name) is ring.keys.managed
    with pytest.raises(KeyringError, match="already a key"):
        ring.create(HERE, "alias/aws/sns")
    with pytest.raises(KeyringError, match="always enabled"):
        ring.set_enabled(HERE, "alias/aws/sns", False)


def test_new_keys_are_written_only_by_ensure_file(path: Path) -> None:
    ring = Keyring(path, ROOT, ManualClock())
    assert not path.parent.exists()
    managed = ring.keys.managed
    ring.ensure_file()
    assert Keyring(path, ROOT, ManualClock()).keys.managed == managed
    late = opened(path)
    ring.rotate(HERE, "alias/aws/sqs")
    late.ensure_file()
    assert opened(path).keys.file == ring.keys.file, "what is there is never replaced"


def test_a_file_created_in_the_meantime_is_used(path: Path) -> None:
    late = Keyring(path, ROOT, ManualClock())
    first = opened(path)
    late.ensure_file()
    assert late.keys.file == first.keys.file


def test_root_may_change_the_keyring_of_a_service(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(path)
    fstat, service, given = os.fstat, 12345, list[int]()

    def owned_by_the_service(descriptor: int) -> os.stat_result:
        found = list(fstat(descriptor))
        found[stat.ST_UID] = service
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", owned_by_the_service)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: given.append(owner))
    assert opened(path).create(HERE, "alias/orders")
    assert given == [path.stat().st_uid], "and it stays the service's"
    path.chmod(0o640)
    with pytest.raises(KeyringError, match="chmod 600"):
        opened(path)
    path.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(KeyringError, match="another user"):
        opened(path)


def test_a_key_has_four_names(path: Path) -> None:
    ring = opened(path)
    key = ring.create(HERE, "alias/orders")
    alias_arn = f"arn:aws:kms:{HERE.region}:{HERE.account}:alias/orders"
    for name in (key.id, key.arn, "alias/orders", alias_arn):
        assert ring.keys.find(HERE, name) == key
    for name in (key.id, "alias/orders"):
        with pytest.raises(KeyMissing):
            ring.keys.find(THERE, name)


@pytest.mark.parametrize(
    "space", [THERE, Space(HERE.account, THERE.region), Space(THERE.account, HERE.region)]
)
def test_a_queue_cannot_use_or_probe_the_keys_of_another_account_or_region(path: Path, space: Space) -> None:
    ring = opened(path)
    key = ring.create(HERE, "alias/orders")
    of_here = f"arn:aws:kms:{HERE.region}:{HERE.account}:"
    for name in (key.arn, of_here + "alias/orders", of_here + "alias/none", of_here + "alias/aws/sqs"):
        with pytest.raises(KeyMissing) as missing:
            ring.keys.find(space, name)
        assert missing.value.key == name, "the same words, whether it is there or not"


def test_a_command_may_name_any_key_by_its_arn(path: Path) -> None:
    ring = opened(path)
    key = ring.create(HERE, "alias/orders")
    assert ring.rotate(THERE, key.arn).id == key.id
    assert not ring.set_enabled(THERE, key.arn, False).enabled


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alias/x", "arn:aws:kms:eu-west-1:111122223333:alias/x"),
        ("testKeyId", "arn:aws:kms:eu-west-1:111122223333:key/testKeyId"),
        ("arn:aws:kms:eu-west-1:111122223333:key/x", "arn:aws:kms:eu-west-1:111122223333:key/x"),
        ("arn:aws:sqs:eu-west-1:111122223333:key/x", "arn:aws:sqs:eu-west-1:111122223333:key/x"),
    ],
)
def test_a_missing_key_is_named_in_full(path: Path, name: str, expected: str) -> None:
    with pytest.raises(KeyMissing) as caught:
        opened(path).keys.find(HERE, name)
    assert caught.value.key == expected


def test_an_alias_names_one_key(path: Path) -> None:
    ring = opened(path)
    ring.create(HERE, "alias/orders")
    for alias in ("alias/orders", "alias/aws/sqs"):
        with pytest.raises(KeyringError, match="already"):
            ring.create(HERE, alias)
    ring.create(THERE, "alias/orders")
    assert ring.create(HERE, None) != ring.create(HERE, None)


def test_everything_survives_a_restart(path: Path) -> None:
    ring = opened(path)
    key = ring.create(HERE, "alias/orders")
    ring.rotate(HERE, "alias/orders")
    ring.set_enabled(HERE, key.id, False)
    again = opened(path)
    assert again.keys.file == ring.keys.file
    found = again.keys.find(HERE, "alias/orders")
    assert (found.newest, found.enabled) == (2, False)


def test_rotation_adds_a_version_and_requests_reencryption(path: Path) -> None:
    ring = opened(path)
    before = ring.keys
    rotated = ring.rotate(HERE, "alias/aws/sqs")
    assert [version.number for version in rotated.versions] == [1, 2]
    assert ring.keys.contains(before)
    assert not before.contains(ring.keys)
    assert ring.keys.file.generation == before.file.generation + 1
    ring.request_reencryption()
    assert ring.keys.file.generation == before.file.generation + 2
    key = ring.create(HERE, None)
    ring.set_enabled(HERE, key.id, False)
    assert ring.keys.file.generation == before.file.generation + 2
    ring.set_enabled(HERE, key.id, True)
    assert ring.keys.file.generation == before.file.generation + 3, "what was left out is looked at again"


def test_managed_keys_cannot_be_disabled(path: Path) -> None:
    with pytest.raises(KeyringError, match="always enabled"):
        opened(path).set_enabled(HERE, "alias/aws/sqs", False)


def test_a_running_server_reads_a_change(path: Path) -> None:
    server, command = opened(path), opened(path)
    assert server.reload() == ""
    key = command.create(HERE, "alias/new")
    with pytest.raises(KeyMissing):
        server.keys.find(HERE, "alias/new")
    says(server.reload(), "reloaded", "3 keys", "0 of them disabled")
    assert server.keys.find(HERE, "alias/new") == key
    assert server.reload() == ""


@pytest.mark.parametrize("asked", [False, True])
def test_a_change_that_could_not_be_read_at_first_is_not_lost(
    path: Path, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, command = opened(path), opened(path)
    key = command.create(HERE, "alias/new")

    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", exhausted)
        said = [server.reload(requested=asked) for _ in range(3)]
    line = said[0]
    says(line, "keys stay in use", str(path), "Too many open files")
    assert said == ([line] * 3 if asked else [line, "", ""]), "each requested reload is logged, others once"
    says(server.reload(), "reloaded", "3 keys", "0 of them disabled")
    assert server.keys.find(HERE, "alias/new") == key


def test_a_requested_reload_reads_the_file(path: Path) -> None:
    server = opened(path)
    says(server.reload(requested=True), "reloaded", "2 keys", "0 of them disabled")


def test_changes_build_on_each_other(path: Path) -> None:
    one, other = opened(path), opened(path)
    first, second = one.create(HERE, "alias/a"), other.create(HERE, "alias/b")
    one.rotate(HERE, "alias/b")
    assert opened(path).keys.find(HERE, "alias/a") == first
    assert opened(path).keys.find(HERE, "alias/b").newest == second.newest + 1


def _is_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _is_gone(path: Path) -> None:
    path.unlink()


def _is_open_to_others(path: Path) -> None:
    path.chmod(0o644)


def _lacks_a_version(path: Path) -> None:
    file = json.loads(path.read_text())
    file["keys"][0]["versions"].pop()
    path.write_text(json.dumps(file))


def _has_two_keys_exchanged(path: Path) -> None:
    file = json.loads(path.read_text())
    one, other = file["keys"][0]["versions"], file["keys"][1]["versions"]
    one[0], other[0] = other[0], one[0]
    path.write_text(json.dumps(file))


def _is_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _is_of_a_later_format(path: Path) -> None:
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))


@pytest.mark.parametrize(
    "spoil",
    [
        _is_half,
        _is_gone,
        _is_a_pipe,
        _is_open_to_others,
        _lacks_a_version,
        _has_two_keys_exchanged,
        _is_of_a_later_format,
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(path: Path, spoil: object) -> None:
    ring = opened(path)
    ring.rotate(HERE, ring.keys.managed.aliases[0])
    before = ring.keys
    assert callable(spoil)
    spoil(path)
    said = ring.reload()
    says(said, "keys stay in use", str(path))
    assert ring.keys is before
    assert ring.reload() == "", "it is said once"
    with pytest.raises(KeyringError):
        ring.create(HERE, None)


def test_another_root_key_is_refused(path: Path) -> None:
    opened(path)
    with pytest.raises(KeyringError, match="another root key"):
        opened(path, RootKey(bytes(32)))


def test_no_key_is_written_unencrypted(path: Path) -> None:
    """The file holds a key only as the root key wrapped it."""
    opened(path)
    for key in json.loads(path.read_text())["keys"]:
        assert set(key) == {"id", "space", "aliases", "enabled", "versions"}
        for version in key["versions"]:
            assert set(version) == {"number", "created_ms", "sealed"}


def test_without_a_file_keys_are_in_memory() -> None:
    ring = opened(None)
    key = ring.create(HERE, "alias/orders")
    ring.rotate(HERE, key.id)
    assert ring.keys.find(HERE, "alias/orders").newest == 2
    assert ring.reload() == ""
