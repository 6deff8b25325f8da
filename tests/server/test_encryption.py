"""Encryption at rest as the settings want it: with a root key, without one, and without the one there was."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.auth.keyring import Keyring, KeyringError
from penstock.auth.keys import SSE_ALIAS
from penstock.auth.rootkey import FILE_NAME, RootKey, RootKeyError, create_root_key_file
from penstock.broker.resealing import Progress
from penstock.clock import ManualClock
from penstock.errors import KeyMissing, StoreError
from penstock.limits import SECOND
from penstock.names import QueueName, Space
from penstock.queues.changes import Changes, EntryRow, QueueRecord
from penstock.queues.settings import QueueSettings
from penstock.server.config import Config, ConfigError
from penstock.server.encryption import Encryption, ProgressFile, root_key
from penstock.server.sources import load_config
from penstock.store.port import Mark
from penstock.store.sqlite import SqliteStore
from sim.runtime import SimulatedRuntime

ROOT = RootKey(bytes(32))
HERE = Space("000000000000", "us-east-1")


def sealed(encryption: Encryption) -> bool:
    """Does what is stored differ from what was sent?"""
    inner = SqliteStore(None)
    store = encryption.around(inner)
    shard = store.open()
    changes = Changes(shard.position + 1, shard.position)
    changes.added.append(EntryRow(1, 1, 1, None, 1, 0, 0, 0, 0, None, b"content"))
    store.append(changes, Mark(2, 1, 1))
    assert store.contents([1]) == {1: b"content"}
    stored = inner.contents([1])[1]
    store.close()
    return stored != b"content"


def test_with_a_root_key_messages_are_encrypted(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path / "data"), ROOT, ManualClock())
    assert sealed(found)
    found.guard.check(HERE, "alias/aws/sqs")
    with pytest.raises(KeyMissing):
        found.guard.check(HERE, "alias/nobody")
    assert (tmp_path / "data" / "penstock-keys.json").exists()
    elsewhere = tmp_path / "keys" / "ring.json"
    Encryption(Config(data=tmp_path / "data", keyring=elsewhere), ROOT, ManualClock())
    assert elsewhere.exists()


def test_in_memory_keys_are_not_kept(tmp_path: Path) -> None:
    assert sealed(Encryption(Config(data=tmp_path / "data", memory=True), ROOT, ManualClock()))
    assert list(tmp_path.iterdir()) == []


def test_an_open_server_without_a_root_key_takes_keys_for_names(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path), None, ManualClock())
    assert not sealed(found)
    found.guard.check(HERE, "alias/nobody")
    assert found.said == "off: there is no root key; messages are stored as they are"
    assert found.reload() == ""


def test_a_secured_server_without_a_root_key_refuses_queues_with_a_key(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path, credentials=tmp_path / "c.toml"), None, ManualClock())
    assert not sealed(found)
    with pytest.raises(KeyMissing):
        found.guard.check(HERE, "alias/aws/sqs")
    assert found.said.endswith("queues with a KMS key cannot be used")


def test_a_start_without_the_root_key_there_was_is_refused(tmp_path: Path) -> None:
    config = Config(data=tmp_path)
    Encryption(config, ROOT, ManualClock())
    with pytest.raises(RootKeyError, match="--root-key-file"):
        Encryption(config, None, ManualClock())
    with pytest.raises(KeyringError, match="another root key"):
        Encryption(config, RootKey(bytes(range(32))), ManualClock())


def test_a_rotation_is_taken_up_by_a_running_server(tmp_path: Path) -> None:
    clock = ManualClock()
    found = Encryption(Config(data=tmp_path), ROOT, clock)
    runtime, fatal = SimulatedRuntime(clock), list[StoreError]()
    store = found.around(SqliteStore(tmp_path))
    shard = store.open()
    found.start(store, runtime, fatal.append)
    runtime.run_until_idle()
    progress = ProgressFile(tmp_path / "penstock-keys.json")
    first = progress.load()
    assert first is not None
    assert first.done

    changes = Changes(shard.position + 1, shard.position)
    changes.queues[1] = QueueRecord(
        id=1, name=QueueName(HERE.account, HERE.region, "q"), settings=QueueSettings(), tags={}, created_ms=1,
        modified_ms=1,
    )  # fmt: skip
    changes.added.append(EntryRow(2, 1, 2, None, 1, 0, 0, 0, 0, None, b"content"))
    store.append(changes, Mark(3, 1, 1))
    Keyring(tmp_path / "penstock-keys.json", ROOT, clock).rotate(HERE, SSE_ALIAS)
    assert found.reload() == "keyring reloaded: 2 keys, 0 of them disabled"
    for _ in range(10):
        runtime.run_until_idle()
        runtime.advance(SECOND)
    second = progress.load()
    assert second == Progress(generation=2, upto=3, after=2, looked_at=1, resealed=1, done=True)
    assert store.contents([2]) == {2: b"content"}
    found.stop()
    store.close()
    assert fatal == []


def test_the_root_key_may_lie_beside_the_credentials(tmp_path: Path) -> None:
    made = create_root_key_file(tmp_path / FILE_NAME)
    found = root_key(Config(credentials=tmp_path / "credentials.toml"), {})
    assert found is not None
    assert found.fingerprint == made.fingerprint
    assert root_key(Config(), {}) is None


def test_the_root_key_is_a_variable_and_no_setting(tmp_path: Path) -> None:
    environ = {"PENSTOCK_ROOT_KEY": "00" * 32}
    found = root_key(load_config({}, environ), environ)
    assert found is not None
    assert found.fingerprint == ROOT.fingerprint
    (tmp_path / "penstock.toml").write_text(f'root_key = "{"00" * 32}"')
    with pytest.raises(ConfigError, match="unknown setting"):
        load_config({"config": str(tmp_path / "penstock.toml")}, {})


def test_progress_is_kept_and_its_loss_does_no_harm(tmp_path: Path) -> None:
    file, progress = ProgressFile(tmp_path / "penstock-keys.json"), Progress(generation=3, upto=9, after=4)
    assert file.load() is None
    file.keep(progress)
    assert file.load() == progress
    (tmp_path / "penstock-resealing.json").write_text("half")
    assert file.load() is None
    ProgressFile(None).keep(progress)
    assert ProgressFile(None).load() is None
