"""The keyring: the keys that messages are encrypted under, in one file, wrapped by the root key.

The file may be stored and backed up with the data: without the root key it is useless. A key is never removed, and
rotating it only adds a version, so that what older versions encrypted can be decrypted. A running server sees one
state of the file or another, never a mixture; a file that cannot be used changes nothing.

Two keys exist in every account and region: the one behind SSE-SQS, which is also alias/aws/sns, and alias/aws/sqs.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from penstock.auth.encryption.aead import KEY_BYTES, Aead
from penstock.auth.encryption.root_key import INTERRUPTED, RootKey, RootKeyError
from penstock.auth.secret_files import (
    NotPrivate,
    Stamp,
    change_lock,
    exists,
    read_private,
    replace_file,
    stamp,
)
from penstock.clock import Clock
from penstock.errors import KeyMissing
from penstock.names import Arn, Space, partition_of

SSE_ALIAS = "alias/penstock/sqs-managed"
AWS_ALIAS = "alias/aws/sqs"
TOPICS_ALIAS = "alias/aws/sns"
"""Another name of the server's own key. Topics encrypt nothing themselves, so no key of its own stands behind it, and
keyrings of earlier versions have it, too."""
EVERYWHERE = Space("", "")
"""The space of the two managed keys: every account and region finds them."""

TAG_BYTES = 20
_PURPOSE = b"keyring"

_log = logging.getLogger("penstock.auth")


class KeyringError(Exception):
    """One line for the operator."""


class KeyringInvalid(Exception):
    """What is wrong with the content of a keyring file."""


# -- the content of the file ---------------------------------------------------------------------------------


class KeyVersion(msgspec.Struct, frozen=True, rename={"wrapped": "sealed"}):  # its name in existing files
    number: int
    created_ms: int
    wrapped: bytes  # the key itself, encrypted with the root key


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The newest of its versions encrypts; all of them decrypt."""

    id: str
    space: Space
    aliases: tuple[str, ...] = ()
    enabled: bool = True
    versions: Annotated[tuple[KeyVersion, ...], msgspec.Meta(min_length=1)]

    @property
    def managed(self) -> bool:
        """One of the two keys that exist everywhere."""
        return self.space == EVERYWHERE

    @property
    def newest(self) -> int:
        return self.versions[-1].number

    @property
    def newest_tag(self) -> bytes:
        return version_tag(self.id, self.newest)

    @property
    def arn(self) -> str:
        return key_arn(self.space, f"key/{self.id}")


class KeyringFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal[1] = 1
    root_key: str  # the fingerprint of the root key that unwraps it
    generation: int = 1  # incremented each time that stored messages should be encrypted again
    keys: tuple[Key, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KeyringFile).decode


def read_keyring_file(path: Path) -> KeyringFile:
    """Raises KeyringInvalid, NotPrivate or OSError."""
    # Its keys are wrapped, so that another owner of the file cannot have made them up.
    data = read_private(path, root_takes_any_owner=True)
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise KeyringInvalid(f"it is not a keyring of this version: {error}") from None


def encoded_keyring(file: KeyringFile, root: RootKey) -> bytes:
    """Returns the content of the file. Raises KeyringInvalid if it could not be read again."""
    data = msgspec.json.format(_encode(file)) + b"\n"
    KeySet(_decode(data), root)
    return data


class KeySet:
    """One state of the keyring, with its keys unwrapped."""

    def __init__(self, file: KeyringFile, root: RootKey) -> None:
        """Raises KeyringInvalid."""
        self.file = file
        self.disabled = frozenset(key.id for key in file.keys if not key.enabled)
        self._by_name = {
            (key.space, name): key for key in file.keys for name in (key.id, f"key/{key.id}", *key.aliases)
        }
        self._by_version: dict[bytes, tuple[Key, Aead]] = {}
        try:
            for key in file.keys:
                for version in key.versions:
                    tag = version_tag(key.id, version.number)
                    self._by_version[tag] = key, Aead(unwrapped(root, key.id, version))
            self.managed = self.find(EVERYWHERE, SSE_ALIAS)
            self._by_name.setdefault((EVERYWHERE, TOPICS_ALIAS), self.managed)
        except (RootKeyError, KeyMissing, ValueError, OverflowError) as error:
            raise KeyringInvalid(f"one of its keys cannot be used: {error}") from None

    def find(self, space: Space, name: str) -> Key:
        """The key that a queue of this account and region names. Keys of other accounts and regions are not found,
        whatever ARN names them. Raises KeyMissing."""
        owner, short = _owner_and_name(space, name)
        if owner != space:
            raise KeyMissing(name)
        return self._named(space, short)

    def find_for_operator(self, space: Space, name: str) -> Key:
        """The key that a command names: an ARN may name any key. Raises KeyMissing."""
        return self._named(*_owner_and_name(space, name))

    def _named(self, space: Space, name: str) -> Key:
        key = self._by_name.get((space, name)) or self._by_name.get((EVERYWHERE, name))
        if key is None:
            raise KeyMissing(full_arn(space, name))
        return key

    def has(self, space: Space, name: str) -> bool:
        return (space, name) in self._by_name or (EVERYWHERE, name) in self._by_name

    def contains(self, other: KeySet) -> bool:
        return self._by_version.keys() >= other._by_version.keys()

    def by_tag(self, tag: bytes) -> tuple[Key, Aead] | None:
        """The key whose version has this tag, and the cipher that wraps the data keys of that version."""
        return self._by_version.get(tag)


def new_key(root: RootKey, space: Space, alias: str | None, wall_ms: int) -> Key:
    id = str(uuid.uuid4())
    versions = (_new_version(root, id, 1, wall_ms),)
    return Key(id=id, space=space, aliases=() if alias is None else (alias,), versions=versions)


def rotated(root: RootKey, key: Key, wall_ms: int) -> Key:
    """The key with one more version."""
    added = _new_version(root, key.id, key.newest + 1, wall_ms)
    return msgspec.structs.replace(key, versions=(*key.versions, added))


def _new_version(root: RootKey, key_id: str, number: int, wall_ms: int) -> KeyVersion:
    return KeyVersion(number, wall_ms, wrapped(root, key_id, number, os.urandom(KEY_BYTES)))


def wrapped(root: RootKey, key_id: str, number: int, key: bytes) -> bytes:
    return root.encrypt(_PURPOSE, key, f"{key_id}/{number}".encode())


def unwrapped(root: RootKey, key_id: str, version: KeyVersion) -> bytes:
    """Raises RootKeyError."""
    return root.decrypt(_PURPOSE, version.wrapped, f"{key_id}/{version.number}".encode())


def version_tag(key_id: str, version: int) -> bytes:
    """Names one version of a key within what it encrypted: TAG_BYTES long."""
    return uuid.UUID(key_id).bytes + version.to_bytes(4, "big")


def key_arn(space: Space, resource: str) -> str:
    return f"arn:{partition_of(space.region)}:kms:{space.region}:{space.account}:{resource}"


def full_arn(space: Space, name: str) -> str:
    """The ARN for any name that a queue may give: an id, alias/NAME, or the ARN of either."""
    if name.startswith("arn:"):
        return name
    return key_arn(space, name if name.startswith(("alias/", "key/")) else f"key/{name}")


def _owner_and_name(space: Space, name: str) -> tuple[Space, str]:
    """The space of the key and its name there: an ARN names both."""
    arn = Arn.parse(name)
    if arn is None or arn.service != "kms":
        return space, name
    return Space(arn.account, arn.region), arn.resource


# -- the file of a running server, or of a command -----------------------------------------------------------


class Keyring:
    """The newest state of the file. ``path`` None: keys that exist as long as the process, for data in memory."""

    def __init__(self, path: Path | None, root: RootKey, clock: Clock) -> None:
        """Raises KeyringError. Without a file the keys are new, and are not stored yet: see :meth:`ensure_file`."""
        self._path = path
        self._root = root
        self._clock = clock
        self._seen: Stamp | None = None  # the state of the file that was read last, usable or not
        self.problem = ""  # what was logged last about a file that cannot be used
        self.keys = self._first(path)

    def ensure_file(self) -> None:
        """Create the file if there is none: from now on messages may be encrypted under its keys. This is only for a
        server that owns the data and knows that it needs no older keyring. An existing file is read again if it has
        changed: its root key could be replaced until the data was locked."""
        if self._path is None:
            return
        if self._seen is not None:
            if stamp(self._path) != self._seen:
                self._reread(self._path)
            return
        with keyring_errors(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with change_lock(self._path):
                if exists(self._path):
                    self.keys = self._read(self._path)
                else:
                    self._write(self.keys.file)
                    _log.info("created the keyring %s", self._path)

    def reload(self, *, requested: bool = False) -> str:
        """Read a changed file. Returns the line that was logged; empty if there was nothing to do, or the problem was
        logged before. ``requested`` reads it in any case."""
        if self._path is None or (stamp(self._path) == self._seen and not requested):
            return ""
        try:
            self._reread(self._path)
        except KeyringError as error:
            line = f"the present encryption keys stay in use: {error}"
            if line == self.problem and not requested:
                return ""
            self.problem = line
            _log.error(line)
            return line
        self.problem = ""
        disabled = len(self.keys.disabled)
        line = f"keyring reloaded: {len(self.keys.file.keys)} keys, {disabled} of them disabled"
        _log.info(line)
        return line

    def create(self, space: Space, alias: str | None) -> Key:
        with self._change():
            if alias is not None and self.keys.has(space, alias):
                raise KeyringError(f"there is already a key with the name {alias}")
            key = new_key(self._root, space, alias, self._clock.wall_ms())
            file = self.keys.file
            self._write(msgspec.structs.replace(file, keys=(*file.keys, key)))
            return key

    def rotate(self, space: Space, name: str) -> Key:
        """Add a version: new messages use it at once, stored ones are encrypted again in the background."""
        with self._change():
            key = rotated(self._root, self.keys.find_for_operator(space, name), self._clock.wall_ms())
            self._put(key, generation=self.keys.file.generation + 1)
            return key

    def rotate_all(self) -> tuple[Key, ...]:
        """Add a version to every key of all accounts, disabled ones included."""
        with self._change():
            file, wall_ms = self.keys.file, self._clock.wall_ms()
            keys = tuple(rotated(self._root, key, wall_ms) for key in file.keys)
            self._write(msgspec.structs.replace(file, keys=keys, generation=file.generation + 1))
            return keys

    def set_enabled(self, space: Space, name: str, enabled: bool) -> Key:
        with self._change():
            key = self.keys.find_for_operator(space, name)
            if key.managed:
                raise KeyringError(f"{name} is managed by the server: it is always enabled")
            key = msgspec.structs.replace(key, enabled=enabled)
            # Messages that could not be encrypted again while the key was disabled can be now.
            self._put(key, generation=self.keys.file.generation + enabled)
            return key

    def request_reencryption(self) -> None:
        """Let the server check whether stored messages are encrypted under the key that their queue names today."""
        with self._change():
            file = self.keys.file
            self._write(msgspec.structs.replace(file, generation=file.generation + 1))

    def _put(self, changed: Key, *, generation: int) -> None:
        keys = tuple(changed if key.id == changed.id else key for key in self.keys.file.keys)
        self._write(msgspec.structs.replace(self.keys.file, keys=keys, generation=generation))

    def _first(self, path: Path | None) -> KeySet:
        if path is not None:
            with keyring_errors(path):
                if exists(path):
                    return self._read(path)
        managed = tuple(
            new_key(self._root, EVERYWHERE, alias, self._clock.wall_ms()) for alias in (SSE_ALIAS, AWS_ALIAS)
        )
        return KeySet(KeyringFile(root_key=self._root.fingerprint, keys=managed), self._root)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Changes exclude each other, and each begins with the result of the one before."""
        if self._path is None:
            yield
            return
        with ExitStack() as stack:
            with keyring_errors(self._path):
                stack.enter_context(change_lock(self._path))
                self._reread(self._path)
            yield

    def _reread(self, path: Path) -> None:
        with keyring_errors(path):
            keys = self._read(path)
            if not keys.contains(self.keys):
                raise KeyringInvalid("it lacks keys that are in use: is it an older copy?")
            self.keys = keys

    def _read(self, path: Path) -> KeySet:
        found = stamp(path)  # before the file is read: a change in between is seen the next time
        try:
            file = read_keyring_file(path)
        except KeyringInvalid:
            self._seen = found  # not read again until it changes
            raise
        self._seen = found
        if file.root_key != self._root.fingerprint:
            given = self._root.fingerprint
            raise KeyringInvalid(
                f"it is encrypted with another root key (fingerprint {file.root_key}) than the one given ({given}); "
                f"{INTERRUPTED}"
            )
        return KeySet(file, self._root)

    def _write(self, file: KeyringFile) -> None:
        data = encoded_keyring(file, self._root)
        if self._path is not None:
            with keyring_errors(self._path):
                replace_file(self._path, data)
            self._seen = stamp(self._path)
        self.keys = KeySet(file, self._root)


@contextmanager
def keyring_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyringInvalid, NotPrivate) as error:
        raise KeyringError(f"cannot use the keyring {path}: {error}") from None
    except OSError as error:
        raise KeyringError(f"cannot use the keyring {path}: {error.strerror}") from None
