"""Encryption at rest as the settings want it: with a root key, without one, and without the one there was."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.auth.encryption.keyring import SSE_ALIAS, Keyring, KeyringError
from penstock.auth.encryption.root_key import FILE_NAME, RootKey, RootKeyError, create_root_key_file
from penstock.broker.broker import Broker
from penstock.broker.catalogue import QUEUES
from penstock.broker.encryption import ReencryptionProgress
from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.broker.waiting import Ask
from penstock.errors import KeyDisabled, KeyMissing, StoreError, StoreRefused
from penstock.limits import SECOND, Limits
from penstock.names import QueueName, Space
from penstock.promise import Promise, start
from penstock.queues.messages import Outgoing
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.server.encryption import Encryption, ProgressFile, root_key
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from penstock.store.changes import Changes, EntryRow
from penstock.store.encrypted import EncryptedStore
from penstock.store.memory import MemoryStore
from penstock.store.port import Mark
from penstock.store.sqlite.store import SqliteStore
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime
from support.texts import says
from support.world import Caller

T = TypeVar("T")

ROOT = RootKey(bytes(32))
HERE = Space("000000000000", "us-east-1")


def send_one(store: EncryptedStore) -> None:
    state = store.open()
    changes = Changes(state.end.number + 1, state.end.number)
    changes.records["queue", "1"] = QUEUES.encode(QueueRecord(
        id=1, name=QueueName(HERE.account, HERE.region, "q"), settings=QueueSettings(), tags={}, created_ms=1,
        modified_ms=1,
    ))  # fmt: skip
    changes.added.append(EntryRow(2, 1, 2, None, 1, 0, 0, 0, 0, None, b"content", 7))
    changes.counts[1] = [1, 7]
    store.append(changes, Mark(3, 1, 1))


def encrypts(encryption: Encryption) -> bool:
    """Whether what is stored differs from what was sent."""
    inner = MemoryStore()
    store = encryption.around(inner)
    send_one(store)
    assert store.contents([2]) == {2: b"content"}
    stored = inner.contents([2])[2]
    store.close()
    return stored != b"content"


def test_with_a_root_key_messages_are_encrypted(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path / "data"), ROOT, ManualClock())
    assert encrypts(found)
    found.guard.check(HERE, "alias/aws/sqs")
    with pytest.raises(KeyMissing):
        found.guard.check(HERE, "alias/missing")
    assert (tmp_path / "data" / "penstock-keys.json").exists()
    elsewhere = tmp_path / "keys" / "ring.json"
    assert encrypts(Encryption(Config(data=tmp_path / "data", keyring=elsewhere), ROOT, ManualClock()))
    assert elsewhere.exists()


def test_in_memory_no_keyring_is_written(tmp_path: Path) -> None:
    assert encrypts(Encryption(Config(data=tmp_path / "data", memory=True), ROOT, ManualClock()))
    assert list(tmp_path.iterdir()) == []


def test_an_open_server_without_a_root_key_accepts_any_key_name(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path), None, ManualClock())
    assert not encrypts(found)
    found.guard.check(HERE, "alias/missing")
    assert found.status.startswith("off: ")
    says(found.status, "no root key", "unencrypted")
    assert found.reload() == ""


def test_a_secured_server_without_a_root_key_refuses_queues_with_a_key(tmp_path: Path) -> None:
    found = Encryption(Config(data=tmp_path, credentials=tmp_path / "c.toml"), None, ManualClock())
    assert not encrypts(found)
    with pytest.raises(KeyMissing):
        found.guard.check(HERE, "alias/aws/sqs")
    says(found.status, "KMS key", "cannot be used")


def test_a_start_without_the_former_root_key_is_refused(tmp_path: Path) -> None:
    config = Config(data=tmp_path)
    assert encrypts(Encryption(config, ROOT, ManualClock()))
    with pytest.raises(RootKeyError, match="--root-key-file"):
        Encryption(config, None, ManualClock())
    with pytest.raises(KeyringError, match="another root key"):
        Encryption(config, RootKey(bytes(range(32))), ManualClock())


def refusal(data: Path, root: RootKey | None) -> str:
    with pytest.raises(StoreRefused) as refused:
        Encryption(Config(data=data), root, ManualClock()).around(SqliteStore(data)).open()
    return str(refused.value)


def test_a_start_without_the_former_keyring_is_refused(tmp_path: Path) -> None:
    """It is as after a restore that forgot it: the server made another, beside messages that this does not open."""
    store = Encryption(Config(data=tmp_path), ROOT, ManualClock()).around(SqliteStore(tmp_path))
    send_one(store)
    store.close()
    path = tmp_path / "penstock-keys.json"
    kept = path.rename(tmp_path / "kept")
    for root in (ROOT, None, RootKey(bytes(range(32)))):
        said = refusal(tmp_path, root)
        assert str(path) in said
        assert "restore the keyring" in said and "from the backup" in said
        assert not path.exists(), "none is made"
    assert "--root-key-file" in refusal(tmp_path, None)
    Keyring(path, ROOT, ManualClock()).ensure_file()
    says(refusal(tmp_path, ROOT), "not in", str(path))
    kept.replace(path)
    store = Encryption(Config(data=tmp_path), ROOT, ManualClock()).around(SqliteStore(tmp_path))
    store.open()
    assert store.contents([2]) == {2: b"content"}
    store.close()


def test_a_keyring_that_cannot_be_created_fails_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = Config(data=tmp_path, keyring=tmp_path / "file" / "keys.json")
    with pytest.raises((StoreRefused, KeyringError), match="keyring"):
        Encryption(config, ROOT, ManualClock()).around(MemoryStore()).open()


class Server:
    """What the server joins, on a store with one queue and one message."""

    def __init__(self, data: Path) -> None:
        self.clock = ManualClock()
        self.encryption = Encryption(Config(data=data), ROOT, self.clock)
        self.store = self.encryption.around(SqliteStore(data))
        self.runtime = SimulatedRuntime(self.clock)
        self.fatal: list[StoreError] = []
        self.shard = Shard(
            self.store, self.runtime, self.clock, Limits(), self.store.open(), self.fatal.append
        )
        self.broker = Broker(Limits(), keys=self.encryption.guard)
        self.broker.open_shard(self.shard)

    def start(self) -> None:
        self.encryption.start(self.broker)
        self.encryption.opened(self.store, self.shard, 1)

    def do(self, what: Coroutine[Promise[Any], None, T]) -> T:
        outcome = start(what)
        self.runtime.run_until_idle()
        return outcome.result()

    def create(self, name: str, key: str | None) -> LiveQueue:
        settings = QueueSettings(managed_key=key is None, encryption_key=key)
        return self.do(self.broker.create(QueueName(HERE.account, HERE.region, name), settings, {}))

    def close(self) -> None:
        self.encryption.stop()
        self.store.close()
        assert self.fatal == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.close()


def test_a_running_server_uses_a_rotated_key(server: Server, tmp_path: Path) -> None:
    server.start()
    server.runtime.run_until_idle()
    progress = ProgressFile(tmp_path / "penstock-keys.json")
    first = progress.load()
    assert first is not None
    assert first.done

    queue = server.create("q", None)
    server.do(queue.send([Outgoing(body="content", sender="")]))
    Keyring(tmp_path / "penstock-keys.json", ROOT, server.clock).rotate(HERE, SSE_ALIAS)
    says(server.encryption.reload(), "reloaded", "2 keys", "0 of them disabled")
    for _ in range(10):
        server.runtime.run_until_idle()
        server.runtime.advance(SECOND)
    second = progress.load()
    assert second is not None
    assert (second.generation, second.checked, second.reencrypted, second.done) == (2, 1, 1, True)


def test_a_running_server_drops_contents_of_a_disabled_key(server: Server, tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "penstock-keys.json", ROOT, server.clock)
    ring.create(HERE, "alias/orders")
    server.encryption.reload()
    server.start()
    queue = server.create("orders", "alias/orders")
    server.do(queue.send([Outgoing(body="secret", sender="")]))
    server.do(server.broker.configure(queue, QueueSettings()))
    assert queue.rules.backlog.index, "it is in memory, as it was sent"
    ring.create(HERE, "alias/another")
    server.encryption.reload()
    assert queue.rules.backlog.index, "a new key changes nothing of it"
    ring.set_enabled(HERE, "alias/orders", False)
    server.encryption.reload()
    assert not queue.rules.backlog.index
    ask = queue.receive(Ask(10, None, None), Caller(), 0)
    with pytest.raises(KeyDisabled):
        server.do(ask)


def test_queues_whose_key_is_missing_are_logged_at_the_start(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring = Keyring(tmp_path / "penstock-keys.json", ROOT, server.clock)
    ring.create(HERE, "alias/there")
    ring.create(HERE, "alias/disabled")
    ring.set_enabled(HERE, "alias/disabled", False)
    server.encryption.reload()
    keys = {
        "plain": None, "managed": "alias/aws/sqs", "fine": "alias/there", "off": "alias/disabled",
        "lost": "alias/lost", "lost-too": "alias/lost", "by-id": "1234",
    }  # fmt: skip
    for name, key in keys.items():
        server.create(name, key)
    server.start()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "lost (alias/lost), lost-too (alias/lost), by-id (1234);" in said
    assert said.count("penstock key create --alias alias/lost --account 000000000000 --region us-east-1") == 1
    assert not any(f"{name} (" in said for name in ("plain", "managed", "fine", "off"))


def test_many_queues_without_a_key_are_one_line(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    for n in range(25):
        server.create(f"q{n}", f"alias/{n}")
    server.start()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "q9 (alias/9) and 15 more" in said


def test_the_root_key_may_be_beside_the_credentials(tmp_path: Path) -> None:
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


def test_progress_is_stored_and_its_loss_does_no_harm(tmp_path: Path) -> None:
    file, progress = (
        ProgressFile(tmp_path / "penstock-keys.json"),
        ReencryptionProgress(generation=3, upto=9, after=4),
    )
    assert file.load() is None
    file.save(progress)
    assert file.load() == progress
    (tmp_path / "penstock-reencryption.json").write_text("half")
    assert file.load() is None
    ProgressFile(None).save(progress)
    assert ProgressFile(None).load() is None


def test_a_keyring_setting_without_a_root_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RootKeyError, match=r"no root key.*--root-key-file"):
        Encryption(Config(data=tmp_path, keyring=tmp_path / "not-there.json"), None, ManualClock())
