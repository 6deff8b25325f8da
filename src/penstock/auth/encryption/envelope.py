"""Encrypts message contents at rest: AES-256-GCM under data keys, which are wrapped by the keys of the keyring.

Rule 1: a sealed content says by what it is opened: which key, which version, and the data key, wrapped.
Rule 2: it is bound to its message: opened as another's it is refused, and so is one with a byte changed.
Rule 3: a data key serves as long as its queue allows, and one version of a key only.
Rule 4: sealing never fails. Whether a key may be used is asked before a message is taken (:meth:`Cipher.check`); a
        commit that holds many queues' messages does not fail because a key was disabled in between.

::

    C1 01 | key id 16 | version 4 | nonce 12, wrapped data key 32, tag 16 | nonce 12 | ciphertext | tag 16
    `------------------------ head, 82 bytes ----------------------------'
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from penstock.auth.encryption.aead import KEY_BYTES, NONCE_BYTES, Aead, NotAuthentic
from penstock.auth.encryption.keyring import TAG_BYTES, Key, Keyring, KeySet, full_arn
from penstock.cache import BoundedCache
from penstock.clock import Clock
from penstock.errors import DecryptionFailed, KeyDisabled, KeyMissing
from penstock.names import KeyUse, Space

# MessagePack never uses the byte C1, so that no plain content begins with it.
_MAGIC = b"\xc1\x01"
_GCM_TAG_BYTES = 16
_NAMED = len(_MAGIC) + TAG_BYTES
_HEAD = _NAMED + NONCE_BYTES + KEY_BYTES + _GCM_TAG_BYTES
_SEALED_MIN = _HEAD + NONCE_BYTES + _GCM_TAG_BYTES

_SEALS_PER_DATA_KEY = 1 << 31
"""Random nonces are safe for 2^32 messages under one key (NIST SP 800-38D, 8.3); half of that is plenty."""

_DATA_KEYS_CACHED = 4096


class DataKey(NamedTuple):
    version: int
    head: bytes
    cipher: Aead
    made_ms: int


class Cipher:
    """Used by the thread that writes and the thread that reads."""

    head_bytes = _NAMED
    """So much of the beginning of a content tells whether, and under which version of a key, it is sealed."""
    seals = True

    def __init__(self, keyring: Keyring, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock
        self._lock = Lock()
        self._in_use: dict[str, DataKey] = {}  # by key id
        self._seals: dict[str, int] = {}
        self._unwrapped: BoundedCache[bytes, Aead] = BoundedCache(_DATA_KEYS_CACHED)

    def check(self, space: Space, key: str) -> None:
        """May a queue that names this key be used? Raises KeyMissing or KeyDisabled."""
        found = self._keyring.keys.find(space, key)
        if not found.enabled:
            raise KeyDisabled(found.arn)

    def seal(self, contents: Sequence[tuple[KeyUse, int, bytes]]) -> list[bytes]:
        """Each content sealed under the key its queue uses, and bound to its seq."""
        data_keys: dict[KeyUse, DataKey] = {}
        nonces = os.urandom(NONCE_BYTES * len(contents))
        sealed = []
        for i, (use, seq, content) in enumerate(contents):
            data_key = data_keys.get(use)
            if data_key is None:
                data_key = data_keys[use] = self._data_key(use, len(contents))
            nonce = nonces[i * NONCE_BYTES : (i + 1) * NONCE_BYTES]
            head = data_key.head
            sealed.append(
                head + nonce + data_key.cipher.encrypt(nonce, content, head + seq.to_bytes(8, "big"))
            )
        return sealed

    def open(self, seq: int, content: bytes) -> bytes:
        """Plain contents are given back as they are. Raises KeyMissing, KeyDisabled or DecryptionFailed."""
        if not is_sealed(content):
            return content
        _check_form(seq, content)
        head = content[:_HEAD]
        key, _ = _owner(self._keyring.keys, head)
        if not key.enabled:
            raise KeyDisabled(key.arn)
        try:
            nonce = content[_HEAD : _HEAD + NONCE_BYTES]
            bound_to = head + seq.to_bytes(8, "big")
            cipher = self._unwrapped.get(head) or self._unwrapped.put(head, self._unwrap(head))
            return cipher.decrypt(nonce, content[_HEAD + NONCE_BYTES :], bound_to)
        except NotAuthentic:
            raise DecryptionFailed(f"message {seq}") from None

    def knows(self, head: bytes) -> bool:
        """Is the key of what begins so in the keyring? It may be disabled."""
        return not is_sealed(head) or self._keyring.keys.by_tag(_tag(head)) is not None

    def is_outdated(self, use: KeyUse, head: bytes) -> bool:
        """Should the content that begins so be sealed anew, under the newest version of the key its queue names?"""
        key = self._key(self._keyring.keys, use)
        return key.enabled and head[:_NAMED] != _MAGIC + key.newest_tag

    @staticmethod
    def _key(keys: KeySet, use: KeyUse) -> Key:
        if use.key is None:
            return keys.managed
        try:
            return keys.find(use.space, use.key)
        except KeyMissing:
            return keys.managed  # rule 4: better under another key than not at all, or lost

    def _data_key(self, use: KeyUse, seals: int) -> DataKey:
        keys, now_ms = self._keyring.keys, self._clock.now_ms()
        key = self._key(keys, use)
        with self._lock:
            data_key = self._in_use.get(key.id)
            if (
                data_key is None
                or now_ms - data_key.made_ms >= use.reuse_ms
                or data_key.version != key.newest
                or self._seals[key.id] + seals > _SEALS_PER_DATA_KEY
            ):
                data_key = self._in_use[key.id] = _make(keys, key, now_ms)
                self._seals[key.id] = 0
            self._seals[key.id] += seals
        return data_key

    def _unwrap(self, head: bytes) -> Aead:
        _, wrapping = _owner(self._keyring.keys, head)
        nonce, wrapped = head[_NAMED : _NAMED + NONCE_BYTES], head[_NAMED + NONCE_BYTES :]
        return Aead(wrapping.decrypt(nonce, wrapped, head[:_NAMED]))


class NoKeys:
    """Stands where there is no root key: seals nothing, and what was sealed stays shut."""

    head_bytes = _NAMED
    seals = False

    @staticmethod
    def check(space: Space, key: str) -> None:
        raise KeyMissing(full_arn(space, key))

    @staticmethod
    def seal(contents: Sequence[tuple[KeyUse, int, bytes]]) -> list[bytes]:
        return [content for _, _, content in contents]

    @staticmethod
    def open(seq: int, content: bytes) -> bytes:
        if is_sealed(content):
            _check_form(seq, content)
            raise KeyMissing(key_named(content))
        return content

    @staticmethod
    def knows(head: bytes) -> bool:
        return not is_sealed(head)

    @staticmethod
    def is_outdated(use: KeyUse, head: bytes) -> bool:
        return False


def is_sealed(content: bytes) -> bool:
    return content[:1] == _MAGIC[:1]


def _check_form(seq: int, content: bytes) -> None:
    if len(content) < _SEALED_MIN or not content.startswith(_MAGIC):
        raise DecryptionFailed(f"message {seq}")


def _make(keys: KeySet, key: Key, now_ms: int) -> DataKey:
    plain, nonce, named = os.urandom(KEY_BYTES), os.urandom(NONCE_BYTES), _MAGIC + key.newest_tag
    _, wrapping = _owner(keys, named)
    head = named + nonce + wrapping.encrypt(nonce, plain, named)
    return DataKey(key.newest, head, Aead(plain), now_ms)


def _owner(keys: KeySet, head: bytes) -> tuple[Key, Aead]:
    found = keys.by_tag(_tag(head))
    if found is None:
        raise KeyMissing(key_named(head))
    return found


def _tag(head: bytes) -> bytes:
    return head[len(_MAGIC) : _NAMED]


def key_named(head: bytes) -> str:
    """Its id is all that is left of a key which is not in the keyring."""
    return f"key/{UUID(bytes=head[len(_MAGIC) : len(_MAGIC) + 16])}"
