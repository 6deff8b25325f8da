"""Encryption at rest as the settings want it: the root key, the keyring, and encrypting anew what is stored.

Rule 1: there is no start beside messages whose key is not there: it would show none of them, and encrypt new ones
        under keys that belong to no backup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from penstock.auth.encryption.envelope import Cipher, NoKeys, key_named
from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import RootKey, RootKeyError, find_root_key
from penstock.auth.secret_files import replace_file
from penstock.broker.broker import Broker
from penstock.broker.key_guard import KeyGuard, NoGuard, without_key
from penstock.broker.live_queue import LiveQueue
from penstock.broker.resealing import Progress, Resealing
from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import StoreError, StoreRefused
from penstock.server.settings.config import Config
from penstock.store.encrypted import EncryptedStore
from penstock.store.port import Store

log = logging.getLogger("penstock.server")

_NAMED_MAX = 10


def root_key(config: Config, environ: Mapping[str, str]) -> RootKey | None:
    """Raises RootKeyError."""
    return find_root_key(
        environ=environ,
        command=config.root_key_command,
        file=config.root_key_file,
        beside=config.credentials,
    )


class Encryption:
    """``guard`` and ``dedup_key`` are for the broker; ``said`` is what the operator is told at the start."""

    guard: KeyGuard
    dedup_key: bytes | None
    said: str

    def __init__(self, config: Config, root: RootKey | None, clock: Clock) -> None:
        """Raises RootKeyError or KeyringError."""
        self._clock = clock
        self._path = config.keyring_file
        self._keyring: Keyring | None = None
        self._cipher: Cipher | NoKeys
        self._resealing: Resealing | None = None
        self._broker: Broker | None = None
        self.dedup_key = None if root is None else root.derive(b"dedup")
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
        if config.keyring is not None:
            raise RootKeyError(f"keyring is {config.keyring}, and there is no root key: give --root-key-file")
        self._cipher = NoKeys()
        self.said = "off: there is no root key; messages are stored as they are"
        if config.credentials is None:
            self.guard = NoGuard()
        else:
            self.guard = self._cipher
            self.said += ", and queues with a KMS key cannot be used"

    def around(self, store: Store) -> EncryptedStore:
        """Opening it raises StoreRefused if messages are stored whose keys are not there."""
        return EncryptedStore(store, self._cipher, self._admit)

    def _admit(self, without_key: bytes | None) -> None:
        if without_key is not None:
            told = f"Stored messages are encrypted under {key_named(without_key)}"
            if self._keyring is None:
                raise StoreRefused(
                    f"{told}, and there are neither a root key nor the keyring {self._path}: "
                    "put the keyring back from the backup, and give --root-key-file."
                )
            there = self._path is not None and self._path.exists()
            lack = f"which is not in the keyring {self._path}" if there else f"and {self._path} is missing"
            raise StoreRefused(
                f"{told}, {lack}: put the keyring that belongs to the data back from the backup."
            )
        if self._keyring is not None:
            try:
                self._keyring.ensure_file()
            except KeyringError as error:
                raise StoreRefused(str(error)) from None

    def start(
        self, store: EncryptedStore, runtime: Runtime, broker: Broker, on_fatal: Callable[[StoreError], None]
    ) -> None:
        """Begin to encrypt anew what is stored, or go on with it. The store is open, and the queues are there."""
        if (keyring := self._keyring) is None:
            return
        self._broker = broker
        _warn_of(without_key(self.guard, broker.queues()))
        file = ProgressFile(self._path)
        self._resealing = Resealing(
            store, runtime, self._clock, lambda: keyring.keys.file.generation, file.load(), file.keep, on_fatal
        )  # fmt: skip
        self._resealing.wake()

    def reload(self, *, asked: bool = False) -> str:
        """Take up a changed keyring. Cheap when there is nothing to do: it can be called every second. ``asked``:
        because the operator asks for it, changed or not."""
        if (keyring := self._keyring) is None:
            return ""
        disabled = keyring.keys.disabled
        said = keyring.reload(asked=asked)
        if self._broker is not None and keyring.keys.disabled != disabled:
            self._broker.keys_changed()
        if said and self._resealing is not None:
            self._resealing.wake()
        return said

    def stop(self) -> None:
        """Before the broker stops."""
        if self._resealing is not None:
            self._resealing.stop()


def _warn_of(shut: Sequence[LiveQueue]) -> None:
    """Whoever sends to such a queue is told; but the operator can know it from the start, and what to do."""
    if shut:
        log.warning(
            "queues whose key is not in the keyring can be neither sent to nor received from: %s; to mend it: %s",
            _few(f"{queue.name.name} ({queue.settings.kms_key})" for queue in shut), _few(map(_remedy, shut)),
        )  # fmt: skip


def _remedy(queue: LiveQueue) -> str:
    name, key = queue.name, queue.settings.kms_key or ""
    if key.startswith("alias/"):
        return f"penstock key create --alias {key} --account {name.account} --region {name.region}"
    return "set KmsMasterKeyId to a key of penstock key list"


def _few(texts: Iterable[str]) -> str:
    once = list(dict.fromkeys(texts))
    more = len(once) - _NAMED_MAX
    return ", ".join(once[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


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
