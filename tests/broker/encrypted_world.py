"""A world whose store encrypts: the broker of :mod:`support.world` with a keyring that tests turn the keys of."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from penstock.auth.encryption.envelope import MessageCipher, is_encrypted
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.broker import Broker
from penstock.broker.catalogue import QUEUES, key_use
from penstock.broker.encryption import Reencryption, ReencryptionProgress
from penstock.broker.shard import Shard
from penstock.store.encrypted import EncryptedStore
from penstock.testing.runtime import SimulatedRuntime
from support.world import FaultyStore, World, name_of

SPACE = name_of("any").space
KMS: dict[str, Any] = {"managed_key": False, "encryption_key": "alias/orders"}
OTHER: dict[str, Any] = {"managed_key": False, "encryption_key": "alias/other"}


class EncryptedWorld(World):
    """A world whose store encrypts and re-encrypts."""

    ring: Keyring | None = None
    progress: ReencryptionProgress | None = None
    kept = 0

    def _open(self) -> None:
        if self.ring is None:
            self.ring = Keyring(self._directory / "penstock-keys.json", RootKey(bytes(32)), self.clock)
            self.ring.ensure_file()
            self.ring.create(SPACE, "alias/orders")
            self.ring.create(SPACE, "alias/other")
        self.keys = MessageCipher(self.ring, self.clock)
        self.store = FaultyStore(self._directory)
        self.encrypted = EncryptedStore(self.store, self.keys, lambda lost: None, QUEUES.name, key_use)
        state = self.encrypted.open()
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.shard = Shard(self.encrypted, self.runtime, self.clock, self.limits, state, self.fatal.append)
        self.broker = Broker(self.limits, keys=self.keys)
        self.broker.open_shard(self.shard)
        ring = self.ring
        self.reencryption = Reencryption(
            self.encrypted, self.shard, lambda: ring.keys.file.generation, self.progress, self.keep
        )

    def keep(self, progress: ReencryptionProgress) -> None:
        self.progress = progress
        self.kept += 1

    def close(self) -> None:
        self.reencryption.stop()
        super().close()

    def enable(self, alias: str, enabled: bool) -> None:
        assert self.ring is not None
        self.ring.set_enabled(SPACE, alias, enabled)
        self.broker.keys_changed()  # as the server does when it takes the file up

    def rotate(self, alias: str) -> None:
        assert self.ring is not None
        self.ring.rotate(SPACE, alias)

    def stored_contents(self) -> list[bytes]:
        with closing(sqlite3.connect(self._directory / "penstock.db")) as database:
            return [content for (content,) in database.execute("SELECT content FROM entries ORDER BY seq")]

    def versions(self) -> list[int]:
        return [
            int.from_bytes(content[18:22], "big") if is_encrypted(content) else 0
            for content in self.stored_contents()
        ]

    def files(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._directory.rglob("*") if path.is_file())
