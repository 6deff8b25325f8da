"""Exchanges the root key of a server that is stopped: of its keyring, and of its credentials file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.auth.encryption.rerooting import reroot
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.errors import StoreRefused
from penstock.server.settings.config import Config
from penstock.store.sqlite.lockfile import LOCK_FILE, LockFile


def reroot_server(config: Config, old: RootKey, new: RootKey) -> Sequence[Path]:
    """The files that were changed. Raises RootKeyError, KeyringError or CredentialsError."""
    with _stopped(config):
        return reroot(config.keyring_file, config.credentials, old, new)


@contextmanager
def _stopped(config: Config) -> Iterator[None]:
    """No server runs on the data, and none begins to."""
    path = config.data / LOCK_FILE
    if config.memory or not path.exists():
        yield  # no server was here; and root must not make a file that keeps it out
        return
    lock = LockFile(path)
    try:
        lock.take()
    except StoreRefused:
        raise RootKeyError(
            f"a server uses {config.data}: stop it first, since it goes on with the root key that it was started with"
        ) from None
    except OSError as error:
        raise RootKeyError(f"cannot use {path}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()
