"""Envelope encryption of message contents: AES-256-GCM under data keys, which are wrapped by the keys of the keyring.

An encrypted content names the key and version that decrypts it, and carries the wrapped data key. It is bound to its
message: for another message, or with a byte changed, it is refused. A data key is used as long as its queue allows,
and for one version of a key only.

::

    C1 01 | key id 16 | version 4 | nonce 12, wrapped data key 32, tag 16 | nonce 12 | ciphertext | tag 16
    `------------------------ head, 82 bytes ----------------------------'
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import iter_unpack
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from penstock.auth.encryption.aead import KEY_BYTES, NONCE_BYTES, Aead, NotAuthentic
from penstock.auth.encryption.keyring import TAG_BYTES, Key, Keyring, KeySet, full_arn
from penstock.cache import BoundedCache
from penstock.clock import Clock
from penstock.errors import DecryptionFailed, KeyDisabled, KeyMissing
from penstock.names import KeyUse, Space

# MessagePack never uses the byte C1: no plain content begins with it.
_MAGIC = b"\xc1\x01"
_GCM_TAG_BYTES = 16
_NAMED = len(_MAGIC) + TAG_BYTES
_HEAD = _NAMED + NONCE_BYTES + KEY_BYTES + _GCM_TAG_BYTES
_ENCRYPTED_MIN = _HEAD + NONCE_BYTES + _GCM_TAG_BYTES

_USES_PER_DATA_KEY = 1 << 31
"""Random nonces are safe for 2^32 messages under one key (NIST SP 800-38D, 8.3); half of that is plenty."""

_DATA_KEYS_CACHED = 4096


class DataKey(NamedTuple):
    version: int
    head: bytes
    cipher: Aead
    made_ms: int


class MessageCipher:
    """Encrypts and decrypts contents, in the thread that writes and the thread that reads.

    Encryption never fails. Whether a key may be used is checked before a message is accepted (``check``); a
    commit with messages of many queues does not fail because a key was disabled in between."""

    head_bytes = _NAMED
    """The first bytes of a content that tell whether, and under which version of a key, it is encrypted."""
    encrypts = True

    def __init__(self, keyring: Keyring, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock
        self._lock = Lock()
        self._in_use: dict[str, DataKey] = {}  # by key id
        self._uses: dict[str, int] = {}  # of the data key in use, by key id
        self._unwrapped: BoundedCache[bytes, Aead] = BoundedCache(_DATA_KEYS_CACHED)

    def check(self, space: Space, key: str) -> None:
        """Raises KeyMissing or KeyDisabled if a queue that names this key cannot be used."""
        found = self._keyring.keys.find(space, key)
        if not found.enabled:
            raise KeyDisabled(found.arn)

    def encrypt(self, contents: Sequence[tuple[KeyUse | None, int, bytes]]) -> tuple[list[bytes], set[bytes]]:
        """Returns each content encrypted under the key of its queue and bound to its seq, or as it is if its queue
        has no key. Also returns the different beginnings (``head_bytes``) of the encrypted ones."""
        data_keys: dict[KeyUse, DataKey] = {}
        encrypted = []
        nonces = iter_unpack(f"{NONCE_BYTES}s", os.urandom(NONCE_BYTES * len(contents)))
        for (use, seq, content), (nonce,) in zip(contents, nonces, strict=True):
            if use is None:
                encrypted.append(content)
                continue
            data_key = data_keys.get(use)
            if data_key is None:
                data_key = data_keys[use] = self._data_key(use, len(contents))
            _, head, cipher, _ = data_key
            encrypted.append(head + nonce + cipher.encrypt(nonce, content, head + seq.to_bytes(8, "big")))
        return encrypted, {data_key.head[:_NAMED] for data_key in data_keys.values()}

    def decrypt(self, seq: int, content: bytes) -> bytes:
        """Plain contents are returned as they are. Raises KeyMissing, KeyDisabled or DecryptionFailed."""
        if not is_encrypted(content):
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

    def has_key(self, head: bytes) -> bool:
        """Whether the key of a content with this head is in the keyring. It may be disabled."""
        return not is_encrypted(head) or self._keyring.keys.by_tag(_tag(head)) is not None

    def needs_reencryption(self, use: KeyUse, head: bytes) -> bool:
        """Whether a content with this head is not encrypted under the newest version of the key of its queue."""
        key = self._key(self._keyring.keys, use)
        return key.enabled and head[:_NAMED] != _MAGIC + key.newest_tag

    @staticmethod
    def _key(keys: KeySet, use: KeyUse) -> Key:
        if use.key is None:
            return keys.managed
        try:
            return keys.find(use.space, use.key)
        except KeyMissing:
            return keys.managed  # better under another key than unencrypted, or lost

    def _data_key(self, use: KeyUse, uses: int) -> DataKey:
        keys, now_ms = self._keyring.keys, self._clock.now_ms()
        key = self._key(keys, use)
        with self._lock:
            data_key = self._in_use.get(key.id)
            if (
                data_key is None
                or now_ms - data_key.made_ms >= use.reuse_ms
                or data_key.version != key.newest
                or self._uses[key.id] + uses > _USES_PER_DATA_KEY
            ):
                data_key = self._in_use[key.id] = _make(keys, key, now_ms)
                self._uses[key.id] = 0
            self._uses[key.id] += uses
        return data_key

    def _unwrap(self, head: bytes) -> Aead:
        _, wrapping = _owner(self._keyring.keys, head)
        nonce, wrapped = head[_NAMED : _NAMED + NONCE_BYTES], head[_NAMED + NONCE_BYTES :]
        return Aead(wrapping.decrypt(nonce, wrapped, head[:_NAMED]))


class NoEncryption:
    """Takes the place of the cipher where there is no root key: nothing is encrypted, and encrypted contents cannot
    be read."""

    head_bytes = _NAMED
    encrypts = False

    @staticmethod
    def check(space: Space, key: str) -> None:
        raise KeyMissing(full_arn(space, key))

    @staticmethod
    def encrypt(contents: Sequence[tuple[KeyUse | None, int, bytes]]) -> tuple[list[bytes], set[bytes]]:
        return [content for _, _, content in contents], set()

    @staticmethod
    def decrypt(seq: int, content: bytes) -> bytes:
        if is_encrypted(content):
            _check_form(seq, content)
            raise KeyMissing(key_of(content))
        return content

    @staticmethod
    def has_key(head: bytes) -> bool:
        return not is_encrypted(head)

    @staticmethod
    def needs_reencryption(use: KeyUse, head: bytes) -> bool:
        return False


def is_encrypted(content: bytes) -> bool:
    return content[:1] == _MAGIC[:1]


def _check_form(seq: int, content: bytes) -> None:
    if len(content) < _ENCRYPTED_MIN or not content.startswith(_MAGIC):
        raise DecryptionFailed(f"message {seq}")


def _make(keys: KeySet, key: Key, now_ms: int) -> DataKey:
    plain, nonce, named = os.urandom(KEY_BYTES), os.urandom(NONCE_BYTES), _MAGIC + key.newest_tag
    _, wrapping = _owner(keys, named)
    head = named + nonce + wrapping.encrypt(nonce, plain, named)
    return DataKey(key.newest, head, Aead(plain), now_ms)


def _owner(keys: KeySet, head: bytes) -> tuple[Key, Aead]:
    found = keys.by_tag(_tag(head))
    if found is None:
        raise KeyMissing(key_of(head))
    return found


def _tag(head: bytes) -> bytes:
    return head[len(_MAGIC) : _NAMED]


def key_of(head: bytes) -> str:
    """The name of a key that is not in the keyring: only its id is known."""
    return f"key/{UUID(bytes=head[len(_MAGIC) : len(_MAGIC) + 16])}"
