"""The store that encrypts: what lies on the disk, what comes back, and what happens when it cannot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from penstock.auth.encryption.envelope import MessageCipher, NoEncryption, is_encrypted
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.catalogue import QUEUES, key_use
from penstock.errors import KeyDisabled, KeyMissing, StoreLost, StoreRefused
from penstock.names import QueueName, Space
from penstock.queues.messages import Attribute, Content, encode_content
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.encrypted import KEY_VERSIONS, EncryptedStore
from penstock.store.port import LAST, Mark, OutdatedMessages, Selection
from penstock.store.sqlite.read import Reads
from penstock.store.sqlite.store import SqliteStore
from penstock.testing.clock import ManualClock
from store.store_driver import Driver, row

HERE = Space("000000000000", "eu-west-1")
BODY, NAME, VALUE, BINARY = "body-of-a-secret", "secret-attribute", "value-of-secret", b"binary-secret"
MANAGED, PLAIN, ORDERS = 1, 2, 3  # queues by how they are encrypted


def secret(number: int, *, large: bool = False) -> bytes:
    attributes = {NAME: Attribute("String", VALUE), "b": Attribute("Binary", BINARY)}
    return encode_content(Content(f"id-{number}", BODY * (500 if large else 1), "AIDASECRET", 1, attributes))


def record(id: int, settings: QueueSettings) -> QueueRecord:
    name = QueueName(HERE.account, HERE.region, f"queue-{id}")
    return QueueRecord(id=id, name=name, settings=settings, tags={}, created_ms=1, modified_ms=1)


def as_if(id: int, other: int) -> QueueRecord:
    """One queue, encrypted as another."""
    return msgspec.structs.replace(RECORDS[id], settings=RECORDS[other].settings)


RECORDS = {
    MANAGED: record(MANAGED, QueueSettings()),
    PLAIN: record(PLAIN, QueueSettings(managed_key=False)),
    ORDERS: record(ORDERS, QueueSettings(managed_key=False, encryption_key="alias/orders")),
}


def stored_as(records: dict[int, QueueRecord]) -> dict[tuple[str, str], bytes]:
    return {(QUEUES.name, str(id)): QUEUES.encode(record) for id, record in records.items()}


class EncryptedDriver(Driver):
    """A store that encrypts, with three queues."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.ring = Keyring(data / "penstock-keys.json", RootKey(bytes(32)), ManualClock())
        self.ring.ensure_file()
        self.ring.create(HERE, "alias/orders")
        self.cipher: MessageCipher | NoEncryption = MessageCipher(self.ring, ManualClock())
        self.lost: list[bytes | None] = []  # what each opening found, see EncryptedStore
        super().__init__(
            lambda: EncryptedStore(SqliteStore(data), self.cipher, self.lost.append, QUEUES.name, key_use)
        )
        if not self.state.records:
            self.append(records=stored_as(RECORDS))

    @property
    def encrypted(self) -> EncryptedStore:
        assert isinstance(self.store, EncryptedStore)
        return self.store

    def files(self) -> bytes:
        """Every byte in the data directory: database, log, index of the log, keyring, whatever there is."""
        return b"".join(path.read_bytes() for path in self.data.rglob("*") if path.is_file())

    def stored(self) -> dict[int, bytes]:
        """Contents as they lie on the disk."""
        found = {}
        with closing(sqlite3.connect(self.data / "penstock.db")) as database:
            for table in ("entries", "contents"):
                rows = database.execute(f"SELECT seq, content FROM {table} WHERE content IS NOT NULL")
                found.update(dict(rows.fetchall()))
        return found

    def encrypt_again(
        self, after: int = 0, rows_max: int = 100, bytes_max: int = 1 << 30
    ) -> OutdatedMessages:
        found = self.encrypted.outdated(after, LAST, rows_max, bytes_max)
        changes = self.commit()
        for entry in found.messages:
            assert entry.content is not None
            changes.replace(entry, entry.content, entry.version)
        self.store.append(changes, Mark(10**6, 0, 0))
        self.number += 1
        return found

    def stored_key(self, name: str) -> bytes:
        """How contents that are encrypted under this key name it."""
        return UUID(self.ring.keys.find(HERE, name).id).bytes

    def version_of(self, seq: int) -> int:
        return int.from_bytes(self.stored()[seq][18:22], "big")


@pytest.fixture
def driver(data: Path) -> Iterator[EncryptedDriver]:
    driver = EncryptedDriver(data)
    yield driver
    driver.store.close()


SECRETS = [BODY.encode(), NAME.encode(), VALUE.encode(), BINARY, b"AIDASECRET"]


@pytest.mark.parametrize("large", [False, True], ids=["inside", "apart"])
@pytest.mark.parametrize(("queue", "readable"), [(MANAGED, False), (ORDERS, False), (PLAIN, True)])
def test_nothing_of_a_message_is_on_the_disk(
    driver: EncryptedDriver, queue: int, readable: bool, large: bool
) -> None:
    contents = {seq: secret(seq, large=large) for seq in range(1, 40)}
    driver.append(added=[row(seq, queue, content=content) for seq, content in contents.items()])
    driver.append(removed=[3, 4])
    while_running = driver.files()
    driver.reopen()
    after_restart = driver.files()
    with closing(sqlite3.connect(driver.data / "penstock.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    after_checkpoint = driver.files()
    for found in (while_running, after_restart, after_checkpoint):
        for each in SECRETS:
            assert (each in found) is readable
    assert driver.store.contents([1, 39]) == {1: contents[1], 39: contents[39]}


def test_a_batch_stays_as_its_maker_holds_it(driver: EncryptedDriver) -> None:
    entries = [row(1, MANAGED, content=secret(1)), row(2, PLAIN, content=secret(2))]
    batch = driver.commit(added=entries)
    batch.bytes = 123
    driver.store.append(batch, Mark(10, 0, 0))
    assert batch.added == entries
    assert batch.bytes == 123
    assert {seq: is_encrypted(content) for seq, content in driver.stored().items()} == {1: True, 2: False}


def test_a_queue_and_its_first_message_may_share_a_batch(driver: EncryptedDriver) -> None:
    fresh = record(9, QueueSettings(managed_key=False, encryption_key="alias/orders"))
    driver.append(added=[row(1, 9)], records=stored_as({9: fresh}))
    assert driver.stored()[1][2:18] == driver.stored_key("alias/orders")


def test_a_refused_batch_leaves_nothing_behind(driver: EncryptedDriver) -> None:
    refused = driver.commit(
        added=[row(1, PLAIN)], records=stored_as({PLAIN: as_if(PLAIN, MANAGED)}), dropped=[ORDERS]
    )
    refused.number += 5
    with pytest.raises(StoreLost):
        driver.store.append(refused, Mark(10, 0, 0))
    driver.append(added=[row(1, PLAIN), row(2, ORDERS)])
    assert not is_encrypted(driver.stored()[1])
    assert driver.stored()[2][2:18] == driver.stored_key("alias/orders")


def test_encryption_can_be_turned_on_and_off(data: Path) -> None:
    before = Driver(lambda: SqliteStore(data))
    before.append(records=stored_as(RECORDS), added=[row(1), row(2, ORDERS)])
    before.store.close()
    driver = EncryptedDriver(data)
    driver.append(added=[row(3)])
    assert driver.store.contents([1, 2, 3]) == {seq: b"content %d" % seq for seq in (1, 2, 3)}
    driver.cipher = NoEncryption()
    driver.reopen()
    driver.append(added=[row(4)])
    assert driver.store.contents([1, 2, 4]) == {seq: b"content %d" % seq for seq in (1, 2, 4)}
    with pytest.raises(KeyMissing):
        driver.store.contents([1, 3])
    assert [entry.content for entry in driver.store.lane(Selection(1), None, 9)] == [
        b"content 1",
        None,
        b"content 4",
    ]
    driver.store.close()


def test_a_key_that_cannot_be_used_does_not_stop_paging(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1, ORDERS), row(2, ORDERS, content=secret(2, large=True))])
    driver.ring.set_enabled(HERE, "alias/orders", False)
    rows = driver.store.lane(Selection(ORDERS), None, 9)
    assert [(entry.seq, entry.content) for entry in rows] == [(1, None), (2, None)]
    with pytest.raises(KeyDisabled):
        driver.store.contents([1])
    driver.ring.set_enabled(HERE, "alias/orders", True)
    assert driver.store.contents([1]) == {1: b"content 1"}


def test_contents_that_were_exchanged_are_noticed(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1), row(2), row(3)])
    with closing(sqlite3.connect(driver.data / "penstock.db")) as database, database:
        stored = driver.stored()
        database.executemany("UPDATE entries SET content = ? WHERE seq = ?", [(stored[2], 1), (stored[1], 2)])
    assert driver.store.contents([1, 2, 3]) == {3: b"content 3"}
    rows = driver.store.lane(Selection(1), None, 9)
    assert [entry.content for entry in rows] == [None, None, b"content 3"]


# -- encrypting again --------------------------------------------------------------------------------------------


def test_older_versions_are_encrypted_again(driver: EncryptedDriver) -> None:
    large = secret(3, large=True)
    driver.append(added=[row(1, ORDERS), row(2, MANAGED), row(3, ORDERS, content=large), row(4, PLAIN)])
    assert driver.encrypt_again() == OutdatedMessages(4, 4, [], 0)
    driver.ring.rotate(HERE, "alias/orders")
    found = driver.encrypt_again()
    assert [entry.seq for entry in found.messages] == [1, 3]
    assert [driver.version_of(seq) for seq in (1, 2, 3)] == [2, 1, 2]
    assert driver.store.contents([1, 2, 3]) == {1: b"content 1", 2: b"content 2", 3: large}
    assert driver.encrypt_again() == OutdatedMessages(4, 4, [], 0), "once is enough"
    assert driver.encrypt_again(after=4) == OutdatedMessages(None, 0, [], 0)


def test_what_is_plain_or_under_another_key_is_encrypted_as_its_queue_wants(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1, PLAIN), row(2, MANAGED), row(3, ORDERS)])
    changed = {PLAIN: MANAGED, MANAGED: ORDERS, ORDERS: PLAIN}
    driver.append(records=stored_as({id: as_if(id, other) for id, other in changed.items()}))
    assert [entry.seq for entry in driver.encrypt_again().messages] == [1, 2], (
        "what is encrypted is not made plain"
    )
    assert driver.stored()[1][2:18] == driver.stored_key(driver.ring.keys.managed.aliases[0])
    assert driver.stored()[2][2:18] == driver.stored_key("alias/orders")
    assert driver.store.contents([1, 2, 3]) == {seq: b"content %d" % seq for seq in (1, 2, 3)}


def test_what_cannot_be_opened_is_counted_and_left(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1, ORDERS), row(2, MANAGED)])
    driver.append(records=stored_as({ORDERS: as_if(ORDERS, MANAGED)}))
    driver.ring.set_enabled(HERE, "alias/orders", False)
    before = driver.stored()
    assert driver.encrypt_again() == OutdatedMessages(2, 2, [], 1)
    assert driver.stored() == before


def test_a_page_is_bounded_in_rows_and_bytes(driver: EncryptedDriver) -> None:
    driver.append(added=[row(seq, PLAIN, content=b"\x94" + b"x" * 999) for seq in range(1, 11)])
    driver.append(records=stored_as({PLAIN: as_if(PLAIN, MANAGED)}))
    assert driver.encrypt_again(rows_max=4)[:2] == (4, 4)
    found = driver.encrypt_again(after=4, bytes_max=2500)
    assert (found.last, found.checked, len(found.messages)) == (7, 3, 3)
    driver.encrypt_again(after=7)
    assert all(map(is_encrypted, driver.stored().values()))


def test_messages_of_a_queue_that_is_gone_are_left(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1, ORDERS)])
    driver.append(dropped=[ORDERS])
    driver.ring.rotate(HERE, "alias/orders")
    assert driver.encrypt_again() == OutdatedMessages(None, 0, [], 0)


# -- keys that are not there ---------------------------------------------------------------------------------


def with_a_new_keyring(driver: EncryptedDriver) -> None:
    """Gives the store a new keyring, as after a restore that forgot the former one."""
    (driver.data / "penstock-keys.json").unlink()
    driver.cipher = MessageCipher(
        Keyring(driver.data / "penstock-keys.json", RootKey(bytes(32)), ManualClock()), ManualClock()
    )
    driver.reopen()


def with_no_keys(driver: EncryptedDriver) -> None:
    driver.cipher = NoEncryption()
    driver.reopen()


WITHOUT = pytest.mark.parametrize("reopen", [with_a_new_keyring, with_no_keys])


@WITHOUT
def test_an_opening_without_the_keys_is_noticed(
    driver: EncryptedDriver, reopen: Callable[[EncryptedDriver], None]
) -> None:
    driver.append(added=[row(1, PLAIN), row(2, ORDERS), row(3, PLAIN)])
    driver.reopen()
    assert driver.lost == [None, None]
    reopen(driver)
    assert driver.lost[-1] == driver.stored()[2][: MessageCipher.head_bytes]


@WITHOUT
def test_what_was_encrypted_again_is_noticed_too(
    driver: EncryptedDriver, reopen: Callable[[EncryptedDriver], None]
) -> None:
    driver.append(added=[row(1, PLAIN)])
    driver.append(records=stored_as({PLAIN: as_if(PLAIN, MANAGED)}))
    driver.encrypt_again()
    reopen(driver)
    assert driver.lost[-1] is not None


@WITHOUT
def test_keys_of_messages_that_are_gone_are_not_missed(
    driver: EncryptedDriver, reopen: Callable[[EncryptedDriver], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This allows turning encryption off: when the last encrypted message is gone, the keys may go."""
    driver.append(added=[row(1, PLAIN), row(2, ORDERS), row(3, MANAGED)])
    driver.append(removed=[2], dropped=[MANAGED])
    reopen(driver)
    assert driver.lost[-1] is None
    driver.append()
    monkeypatch.setattr(Reads, "scan", None)
    driver.reopen()
    assert driver.lost[-1] is None, "and it is looked for once only"


def test_an_older_keyring_is_noticed_by_its_missing_version(driver: EncryptedDriver) -> None:
    before = (driver.data / "penstock-keys.json").read_bytes()
    driver.append(added=[row(1, ORDERS)])
    driver.ring.rotate(HERE, "alias/orders")
    driver.append(added=[row(2, ORDERS)])
    (driver.data / "penstock-keys.json").write_bytes(before)
    driver.cipher = MessageCipher(
        Keyring(driver.data / "penstock-keys.json", RootKey(bytes(32)), ManualClock()), ManualClock()
    )
    driver.reopen()
    assert driver.lost[-1] == driver.stored()[2][: MessageCipher.head_bytes]


def test_a_disabled_key_is_there(driver: EncryptedDriver) -> None:
    driver.append(added=[row(1, ORDERS)])
    driver.ring.set_enabled(HERE, "alias/orders", False)
    driver.reopen()
    assert driver.lost[-1] is None


def test_the_version_of_a_key_is_stored_with_the_first_content_under_it(driver: EncryptedDriver) -> None:
    head = b"\xc1\x01" + driver.stored_key("alias/orders") + b"\0\0\0\1"
    assert driver.store.records(KEY_VERSIONS) == {}
    refused = driver.commit(added=[row(1, ORDERS)])
    refused.number += 5
    with pytest.raises(StoreLost):
        driver.store.append(refused, Mark(10, 0, 0))
    assert driver.store.records(KEY_VERSIONS) == {}
    for seq in (1, 2):
        driver.append(added=[row(seq, ORDERS)])
        assert driver.store.records(KEY_VERSIONS) == {head.hex(): b""}
    driver.reopen()
    assert driver.store.records(KEY_VERSIONS) == {head.hex(): b""}


def test_a_store_that_is_not_admitted_is_closed(data: Path) -> None:
    def refuse(lost: bytes | None) -> None:
        raise StoreRefused("not with these keys")

    with pytest.raises(StoreRefused):
        EncryptedStore(SqliteStore(data), NoEncryption(), refuse, QUEUES.name, key_use).open()
    again = SqliteStore(data)
    again.open()
    again.close()
