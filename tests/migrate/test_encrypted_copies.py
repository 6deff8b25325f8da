"""Encrypted contents: copied as they are where messages keep their numbers, encrypted again where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.test_copies import silent
from penstock.auth.encryption.envelope import MessageCipher, is_encrypted
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.catalogue import QUEUES, key_use
from penstock.clock import SystemClock
from penstock.errors import StoreRefused
from penstock.migrate.stores.migration import Migration
from penstock.migrate.stores.opened import opened
from penstock.store.encrypted import KEY_VERSIONS, Cipher, EncryptedStore
from penstock.store.port import LAST, Store
from support.generated_stores import MemorySite, dump, fill


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    keyring = Keyring(tmp_path / "penstock-keys.json", RootKey(bytes(32)), SystemClock())
    keyring.ensure_file()
    return keyring


def decrypting(stores: list[Store], keyring: Keyring) -> list[Store]:
    """Returns the stores as a server would see them. Refuses, as a server would, if a key is missing."""

    def admit(without_key: bytes | None) -> None:
        assert without_key is None

    cipher = MessageCipher(keyring, SystemClock())
    return [EncryptedStore(store, cipher, admit, QUEUES.name, key_use) for store in stores]


def migrate(source: MemorySite, target: MemorySite, cipher: Cipher | None) -> Migration:
    with opened(source) as sources, opened(target) as targets:
        migration = Migration(sources, target.shards, lambda: cipher)
        migration.run(targets, silent)
    return migration


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 3), (3, 1), (4, 2)])
def test_encrypted_messages_arrive_encrypted(before: int, after: int, keyring: Keyring) -> None:
    source, target = MemorySite(before), MemorySite(after)
    fill(decrypting(list(source.stores), keyring), seed=3)
    expected = dump(decrypting(list(source.stores), keyring))
    keeps_numbers = after % before == 0
    cipher = None if keeps_numbers else MessageCipher(keyring, SystemClock())
    assert migrate(source, target, cipher).encrypts_again is not keeps_numbers
    assert dump(decrypting(list(target.stores), keyring)) == expected
    rows = [row for store in target.stores for row in store.scan(0, LAST, 10**6, LAST)]
    assert rows and all(is_encrypted(row.content or b"") for row in rows)
    assert all(store.records(KEY_VERSIONS) for store in target.stores if store.usage())


def test_without_the_root_key_numbers_cannot_change(keyring: Keyring) -> None:
    source, target = MemorySite(3), MemorySite(1)
    fill(decrypting(list(source.stores), keyring), seed=3)
    with pytest.raises(StoreRefused, match="--root-key-file"):
        migrate(source, target, None)


def test_another_keyring_cannot_change_numbers(keyring: Keyring, tmp_path: Path) -> None:
    source, target = MemorySite(3), MemorySite(1)
    fill(decrypting(list(source.stores), keyring), seed=3)
    other = Keyring(tmp_path / "other.json", RootKey(bytes(32)), SystemClock())
    other.ensure_file()
    with pytest.raises(StoreRefused, match="not in the keyring"):
        migrate(source, target, MessageCipher(other, SystemClock()))
