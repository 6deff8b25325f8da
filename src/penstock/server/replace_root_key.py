"""Replaces the root key of a stopped server: what the old one encrypted is encrypted with the new one.

Everything is decrypted, encrypted and written beside the files before the first of them changes: until then a
wrong key, a damaged file or a full disk changes nothing. Each file then changes in one step, and two files in
two. A kill between them leaves one file under each key: the server then starts with neither key and says why,
and the same command completes the replacement. Files that are under the new key already are left alone.

A keyring that both keys can read would let a server start even then, but an interrupted replacement would leave
it open to the old key, which others may know. It is better that it is noticed.

What is derived from the root key is in no file, and ends: sessions, and the deduplication of FIFO sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from penstock.auth.encryption.keyring import (
    Key,
    KeyringFile,
    KeyringInvalid,
    KeySet,
    encoded_keyring,
    keyring_errors,
    read_keyring_file,
    unwrapped,
    wrapped,
)
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.access_keys import OtherRootKey, Pair, decrypted_secret, encrypted_secret
from penstock.auth.identity.file import checked_text, errors_about, parse_credentials, read_text
from penstock.auth.identity.model import AccessKey, all_keys
from penstock.auth.secret_files import change_lock, exists, replace_files
from penstock.errors import StoreRefused
from penstock.server.settings.config import Config
from penstock.store.sqlite.file import LOCK_FILE, LockFile


def replace_root_key(config: Config, old: RootKey, new: RootKey) -> Sequence[Path]:
    """Returns the files that were changed; none if all were under the new key already.

    Raises RootKeyError, KeyringError or CredentialsError."""
    with _server_stopped(config):
        return replace_in_files(config.keyring_file, config.credentials, old, new)


@contextmanager
def _server_stopped(config: Config) -> Iterator[None]:
    """Ensure that no server uses the data and none starts to: it would continue with the old key."""
    path = config.data / LOCK_FILE
    try:
        has_lock = not config.memory and exists(path)
    except OSError as error:
        raise RootKeyError(f"cannot use {path}: {error.strerror}") from None
    if not has_lock:
        yield  # no server was here, and root must not create a file that the server cannot lock
        return
    lock = LockFile(path)
    try:
        lock.take()
    except StoreRefused:
        raise RootKeyError(
            f"a server uses {config.data}: stop it first, because it continues with the old root key"
        ) from None
    except OSError as error:
        raise RootKeyError(f"cannot use {path}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()


def replace_in_files(
    keyring: Path | None, credentials: Path | None, old: RootKey, new: RootKey
) -> Sequence[Path]:
    changed: dict[Path, bytes] = {}
    with ExitStack() as locks:
        if keyring is not None:
            with keyring_errors(keyring):
                locks.enter_context(change_lock(keyring))
                data = _keyring_data(read_keyring_file(keyring), old, new)
            if data is not None:
                changed[keyring] = data
        if credentials is not None:
            with errors_about(credentials):
                locks.enter_context(change_lock(credentials))
                data = _credentials_data(read_text(credentials), old, new)
            if data is not None:
                changed[credentials] = data
        try:
            replace_files(changed)
        except OSError as error:
            paths = " and ".join(map(str, changed))
            raise RootKeyError(
                f"cannot write {paths}: {error.strerror}; repeat the command when that is corrected"
            ) from None
    return tuple(changed)


def _keyring_data(file: KeyringFile, old: RootKey, new: RootKey) -> bytes | None:
    """Returns the keyring under the new key; None if it is under that already."""
    if file.root_key not in (old.fingerprint, new.fingerprint):
        given = f"neither the present one ({old.fingerprint}) nor the new one ({new.fingerprint})"
        raise KeyringInvalid(
            f"it is encrypted with the root key with the fingerprint {file.root_key}: {given}"
        )
    if file.root_key == new.fingerprint:
        KeySet(file, new)
        return None
    KeySet(file, old)  # reports keys that cannot be unwrapped as for a server

    def rewrapped(key: Key) -> Key:
        versions = tuple(
            msgspec.structs.replace(
                version, wrapped=wrapped(new, key.id, version.number, unwrapped(old, key.id, version))
            )
            for version in key.versions
        )
        return msgspec.structs.replace(key, versions=versions)

    keys = tuple(map(rewrapped, file.keys))
    return encoded_keyring(msgspec.structs.replace(file, root_key=new.fingerprint, keys=keys), new)


def _credentials_data(text: str, old: RootKey, new: RootKey) -> bytes | None:
    """Returns the credentials under the new key; None if all secrets are under that already."""
    content = parse_credentials(text)
    changed = [_reencrypt_secret(each.key, old, new) for each in all_keys(content)]
    return checked_text(content, text) if any(changed) else None


def _reencrypt_secret(key: AccessKey, old: RootKey, new: RootKey) -> bool:
    try:
        decrypted_secret(new, key)
    except OtherRootKey:
        key.secret = encrypted_secret(new, Pair(key.id, decrypted_secret(old, key)))
        return True
    return False
