"""Encryption at rest as the settings want it: the root key, the keyring, and encrypting anew what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from penstock.auth.keyring import Keyring
from penstock.auth.private import replace_file
from penstock.auth.rootkey import RootKey, RootKeyError, find_root_key
from penstock.auth.sealing import Cipher, NoKeys
from penstock.broker.keys import KeyGuard, NoGuard
from penstock.broker.resealing import Progress, Resealing
from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import StoreError
from penstock.server.config import Config
from penstock.store.port import Store
from penstock.store.sealed import SealedStore


def root_key(config: Config, environ: Mapping[str, str]) -> RootKey | None:
    """Raises RootKeyError."""
    return find_root_key(
        environ=environ,
        command=config.root_key_command,
        file=config.root_key_file,
        beside=config.credentials,
    )


class Encryption:
    """``guard`` is for the broker; ``said`` is what the operator is told at the start."""

    guard: KeyGuard
    said: str

    def __init__(self, config: Config, root: RootKey | None, clock: Clock) -> None:
        """Raises RootKeyError or KeyringError."""
        self._clock = clock
        self._path = config.keyring_file
        self._keyring: Keyring | None = None
        self._cipher: Cipher | NoKeys
        self._resealing: Resealing | None = None
        if root is not None:
            self._keyring = Keyring(self._path, root, clock)
            self._cipher = self.guard = Cipher(self._keyring, clock)
            self.said = "on: messages are encrypted before they are stored"
            return
        if self._path is not None and self._path.exists():
            # Going on would store new messages as they are, and show none of the old ones.
            raise RootKeyError(
                f"there is a keyring, {self._path}, and no root key to open it: give --root-key-file"
            )
        self._cipher = NoKeys()
        self.said = "off: there is no root key; messages are stored as they are"
        if config.credentials is None:
            self.guard = NoGuard()
        else:
            self.guard = self._cipher
            self.said += ", and queues with a KMS key cannot be used"

    def around(self, store: Store) -> SealedStore:
        return SealedStore(store, self._cipher)

    def start(self, store: SealedStore, runtime: Runtime, on_fatal: Callable[[StoreError], None]) -> None:
        """Begin to encrypt anew what is stored, or go on with it. The store is open."""
        if (keyring := self._keyring) is None:
            return
        file = ProgressFile(self._path)
        self._resealing = Resealing(
            store, runtime, self._clock, lambda: keyring.keys.file.generation, file.load(), file.keep, on_fatal
        )  # fmt: skip
        self._resealing.wake()

    def reload(self) -> str:
        """Take up a changed keyring. Cheap when there is nothing to do: it can be called every second."""
        said = self._keyring.reload() if self._keyring is not None else ""
        if said and self._resealing is not None:
            self._resealing.wake()
        return said

    def stop(self) -> None:
        """Before the broker stops."""
        if self._resealing is not None:
            self._resealing.stop()


class ProgressFile:
    """How far encrypting anew has come: kept by the server beside the keyring, shown by ``penstock key list``."""

    def __init__(self, keyring: Path | None) -> None:
        self._path = None if keyring is None else keyring.with_name("penstock-resealing.json")

    def load(self) -> Progress | None:
        """None if there is nothing to go on from: then all is looked at again, which does no harm."""
        if self._path is None:
            return None
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Progress)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep(self, progress: Progress) -> None:
        if self._path is not None:
            replace_file(self._path, msgspec.json.encode(progress))
