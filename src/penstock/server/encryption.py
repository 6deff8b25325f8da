"""Encryption at rest, as the settings want it: the root key, the keyring, and re-encryption of stored messages.

A server does not start with stored messages whose key is missing: it could not deliver them, and would encrypt new
ones under keys that are in no backup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

import msgspec

from penstock.auth.encryption.envelope import MessageCipher, NoEncryption, key_of
from penstock.auth.encryption.keyring import Keyring, KeyringError, keyring_errors
from penstock.auth.encryption.root_key import RootKey, RootKeyError, find_root_key
from penstock.auth.secret_files import exists, replace_file
from penstock.broker.broker import Broker
from penstock.broker.catalogue import QUEUES, key_use
from penstock.broker.encryption import KeyGuard, NoGuard, Reencryption, ReencryptionProgress, without_key
from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.clock import Clock
from penstock.errors import StoreRefused
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
    """``guard`` and ``dedup_key`` are for the broker; ``status`` is a line of the startup report."""

    guard: KeyGuard
    dedup_key: bytes | None
    status: str

    def __init__(self, config: Config, root: RootKey | None, clock: Clock) -> None:
        """Raises RootKeyError or KeyringError."""
        self._clock = clock
        self._path = config.keyring_file
        self._keyring: Keyring | None = None
        self._cipher: MessageCipher | NoEncryption
        self._admitting = Lock()  # shards are opened in several threads
        self._reencryptions: dict[int, Reencryption] = {}  # by shard
        self._broker: Broker | None = None
        self.dedup_key = None if root is None else root.derive(b"dedup")
        if root is not None:
            self._keyring = Keyring(self._path, root, clock)
            self._cipher = self.guard = MessageCipher(self._keyring, clock)
            self.status = "on: messages are encrypted before they are stored"
            return
        if self._has_file():
            # The server would store new messages unencrypted, and could deliver none of the old ones.
            raise RootKeyError(f"the keyring {self._path} needs a root key: give --root-key-file")
        if config.keyring is not None:
            raise RootKeyError("keyring is set but there is no root key: give --root-key-file")
        self._cipher = NoEncryption()
        self.status = "off: there is no root key; messages are stored unencrypted"
        if config.credentials is None:
            self.guard = NoGuard()
        else:
            self.guard = self._cipher
            self.status += ", and queues with a KMS key cannot be used"

    def _has_file(self) -> bool:
        """Raises KeyringError if the directory cannot be entered."""
        if self._path is None:
            return False
        with keyring_errors(self._path):
            try:
                return exists(self._path)
            except PermissionError as error:
                # Usually the data directory of another user: there may be no keyring in it.
                raise KeyringError(
                    f"cannot use the directory {self._path.parent}: {error.strerror}"
                ) from None

    def around(self, store: Store) -> EncryptedStore:
        """Opening it raises StoreRefused if the keys of stored messages are missing."""
        return EncryptedStore(store, self._cipher, self._admit, QUEUES.name, key_use)

    def _admit(self, without_key: bytes | None) -> None:
        if without_key is not None:
            problem = f"stored messages are encrypted under {key_of(without_key)}"
            if self._keyring is None:
                raise StoreRefused(
                    f"{problem}, and there are neither a root key nor the keyring {self._path}: "
                    "restore the keyring from the backup, and give --root-key-file"
                )
            reason = (
                f"which is not in the keyring {self._path}"
                if self._has_file()
                else f"and {self._path} is missing"
            )
            raise StoreRefused(
                f"{problem}, {reason}: restore the keyring that belongs to the data from the backup"
            )
        if self._keyring is not None:
            try:
                with self._admitting:
                    self._keyring.ensure_file()
            except KeyringError as error:
                raise StoreRefused(str(error)) from None

    def start(self, broker: Broker) -> None:
        """Warn of queues without a key, and tell the broker from now on when keys change."""
        if self._keyring is not None:
            self._broker = broker
            _warn_of(without_key(broker.queues()))

    def opened(self, store: EncryptedStore, shard: Shard, shards: int) -> None:
        """Start or continue the re-encryption of the messages in a shard. The store is open."""
        if (keyring := self._keyring) is None:
            return
        file = ProgressFile(self._path, shard.index if shards > 1 else None)
        reencryption = self._reencryptions[shard.index] = Reencryption(
            store, shard, lambda: keyring.keys.file.generation, file.load(), file.save
        )
        reencryption.wake()

    def closing(self, index: int) -> None:
        """Call this before the broker gives the shard back."""
        if (reencryption := self._reencryptions.pop(index, None)) is not None:
            reencryption.stop()

    def reload(self, *, requested: bool = False) -> str:
        """Read a changed keyring. Cheap if there is nothing to do: it can be called every second. ``requested`` reads
        it in any case."""
        if (keyring := self._keyring) is None:
            return ""
        disabled = keyring.keys.disabled
        line = keyring.reload(requested=requested)
        if self._broker is not None and keyring.keys.disabled != disabled:
            self._broker.keys_changed()
        if line:
            for reencryption in self._reencryptions.values():
                reencryption.wake()
        return line

    @property
    def has_keys(self) -> bool:
        return self._keyring is not None

    @property
    def problem(self) -> str:
        """Why the keyring cannot be read again; empty: it can."""
        return "" if self._keyring is None else self._keyring.problem

    def stop(self) -> None:
        """Call this before the broker stops."""
        for index in list(self._reencryptions):
            self.closing(index)


def _warn_of(queues: Sequence[LiveQueue]) -> None:
    """Requests for such a queue fail; the operator learns it at the start, with what to do."""
    if queues:
        log.warning(
            "sends to and receives from queues whose key is not in the keyring are refused: %s; to correct it: %s",
            _first(f"{queue.name.name} ({queue.settings.encryption_key})" for queue in queues),
            _first(map(_correction, queues)),
        )


def _correction(queue: LiveQueue) -> str:
    name, key = queue.name, queue.settings.encryption_key or ""
    if key.startswith("alias/"):
        return f"penstock key create --alias {key} --account {name.account} --region {name.region}"
    return "set KmsMasterKeyId to a key of penstock key ls"


def _first(texts: Iterable[str]) -> str:
    once = list(dict.fromkeys(texts))
    more = len(once) - _NAMED_MAX
    return ", ".join(once[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


class ProgressFile:
    """The progress of re-encryption: written by the server beside the keyring, shown by ``penstock key ls``."""

    def __init__(self, keyring: Path | None, shard: int | None = None) -> None:
        """``shard``: of several."""
        name = "penstock-reencryption.json" if shard is None else f"penstock-reencryption-{shard:04d}.json"
        self._path = None if keyring is None else keyring.with_name(name)

    def load(self) -> ReencryptionProgress | None:
        """None if there is none: then all messages are checked again, which does no harm."""
        return None if self._path is None else _read_progress(self._path)

    def save(self, progress: ReencryptionProgress) -> None:
        if self._path is not None:
            replace_file(self._path, msgspec.json.encode(progress))


def progress_of_shards(keyring: Path | None) -> list[ReencryptionProgress]:
    """Returns the progress of all shards that a server near this keyring has opened."""
    if keyring is None:
        return []
    found = map(_read_progress, sorted(keyring.parent.glob("penstock-reencryption*.json")))
    return [progress for progress in found if progress is not None]


def _read_progress(path: Path) -> ReencryptionProgress | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ReencryptionProgress)
    except (OSError, msgspec.MsgspecError):
        return None
