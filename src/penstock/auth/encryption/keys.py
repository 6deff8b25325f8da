"""The keys of a keyring, as its file keeps them and as they are used: names, versions, what each version opens."""

from __future__ import annotations

import os
import uuid
from typing import Annotated, Literal

import msgspec

from penstock.auth.encryption.aead import KEY_BYTES, Aead
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.errors import KeyMissing
from penstock.names import PARTITION, Arn, Space

SSE_ALIAS = "alias/penstock/sqs-managed"
AWS_ALIAS = "alias/aws/sqs"
EVERYWHERE = Space("", "")
"""The keys that are there by themselves belong to no account and no region: each finds them."""

TAG_BYTES = 20
_PURPOSE = b"keyring"


class KeysUnusable(Exception):
    """What is wrong with a keyring that is being read."""


class Version(msgspec.Struct, frozen=True):
    number: int
    created_ms: int
    sealed: bytes


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The last of its versions seals; all of them open."""

    id: str
    space: Space
    aliases: tuple[str, ...] = ()
    enabled: bool = True
    versions: Annotated[tuple[Version, ...], msgspec.Meta(min_length=1)]

    @property
    def managed(self) -> bool:
        """One of those that are there by themselves."""
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


class Keyfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal[1] = 1
    root_key: str  # the fingerprint of the one that opens it
    generation: int = 1  # one more each time that what is stored should be encrypted anew
    keys: tuple[Key, ...] = ()


class Keys:
    """One state of the keyring, opened."""

    def __init__(self, file: Keyfile, root: RootKey) -> None:
        self.file = file
        self.disabled = frozenset(key.id for key in file.keys if not key.enabled)
        self._by_name = {
            (key.space, name): key for key in file.keys for name in (key.id, f"key/{key.id}", *key.aliases)
        }
        self._by_version: dict[bytes, tuple[Key, Aead]] = {}
        try:
            for key in file.keys:
                for version in key.versions:
                    opened = root.open(_PURPOSE, version.sealed, _bound_to(key.id, version.number))
                    self._by_version[version_tag(key.id, version.number)] = key, Aead(opened)
            self.managed = self.find(EVERYWHERE, SSE_ALIAS)
        except (RootKeyError, KeyMissing, ValueError, OverflowError) as error:
            raise KeysUnusable(f"one of its keys cannot be used: {error}") from None

    def find(self, space: Space, name: str) -> Key:
        """The key that a queue of this account and region means: another's is not there, whatever ARN names it.

        Raises KeyMissing.
        """
        owner, short = _owner_and_name(space, name)
        if owner != space:
            raise KeyMissing(name)
        return self._named(space, short)

    def find_for_operator(self, space: Space, name: str) -> Key:
        """The key that whoever holds the keyring means: an ARN may name any. Raises KeyMissing."""
        return self._named(*_owner_and_name(space, name))

    def _named(self, space: Space, name: str) -> Key:
        key = self._by_name.get((space, name)) or self._by_name.get((EVERYWHERE, name))
        if key is None:
            raise KeyMissing(named_arn(space, name))
        return key

    def has(self, space: Space, name: str) -> bool:
        return (space, name) in self._by_name or (EVERYWHERE, name) in self._by_name

    def opens_all_of(self, other: Keys) -> bool:
        return self._by_version.keys() >= other._by_version.keys()

    def by_tag(self, tag: bytes) -> tuple[Key, Aead] | None:
        """The key whose version this tag names, and what wraps and unwraps the data keys of that version."""
        return self._by_version.get(tag)


def new_key(root: RootKey, space: Space, alias: str | None, wall_ms: int) -> Key:
    id = str(uuid.uuid4())
    versions = (_new_version(root, id, 1, wall_ms),)
    return Key(id=id, space=space, aliases=() if alias is None else (alias,), versions=versions)


def rotated(root: RootKey, key: Key, wall_ms: int) -> Key:
    """With one version more."""
    added = _new_version(root, key.id, key.newest + 1, wall_ms)
    return msgspec.structs.replace(key, versions=(*key.versions, added))


def rerooted(file: Keyfile, old: RootKey, new: RootKey) -> Keyfile:
    """The same keys, sealed under another root key. Raises KeysUnusable."""
    Keys(file, old)  # what cannot be opened is told as when it is read

    def sealed(key: Key, version: Version) -> Version:
        bound_to = _bound_to(key.id, version.number)
        opened = old.open(_PURPOSE, version.sealed, bound_to)
        return msgspec.structs.replace(version, sealed=new.seal(_PURPOSE, opened, bound_to))

    keys = tuple(
        msgspec.structs.replace(key, versions=tuple(sealed(key, version) for version in key.versions))
        for key in file.keys
    )
    return msgspec.structs.replace(file, root_key=new.fingerprint, keys=keys)


def _new_version(root: RootKey, key_id: str, number: int, wall_ms: int) -> Version:
    sealed = root.seal(_PURPOSE, os.urandom(KEY_BYTES), _bound_to(key_id, number))
    return Version(number, wall_ms, sealed)


def version_tag(key_id: str, version: int) -> bytes:
    """How one version of a key is named within what is sealed under it: TAG_BYTES long."""
    return uuid.UUID(key_id).bytes + version.to_bytes(4, "big")


def key_arn(space: Space, resource: str) -> str:
    return f"arn:{PARTITION}:kms:{space.region}:{space.account}:{resource}"


def named_arn(space: Space, name: str) -> str:
    """The whole of what a queue may name in short: an id, alias/NAME, or the ARN of either."""
    if name.startswith("arn:"):
        return name
    return key_arn(space, name if name.startswith(("alias/", "key/")) else f"key/{name}")


def _owner_and_name(space: Space, name: str) -> tuple[Space, str]:
    """Whose key it is, and its name there: an ARN says so itself."""
    arn = Arn.parse(name)
    if arn is None or arn.service != "kms":
        return space, name
    return Space(arn.account, arn.region), arn.resource


def _bound_to(key_id: str, version: int) -> bytes:
    return f"{key_id}/{version}".encode()
