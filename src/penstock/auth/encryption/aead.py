"""AES-256-GCM and HKDF-SHA256, as the ``cryptography`` package has them.

The package is imported with the first key: it takes a sixth of the start time, and a server without keys
needs none of it.
"""

from __future__ import annotations

KEY_BYTES = 32
NONCE_BYTES = 12


class NotAuthentic(Exception):
    """The data was encrypted under another key, bound to another name, or changed since."""


class Aead:
    """One key. A nonce must never be used twice with it."""

    __slots__ = ("_decrypt", "_invalid", "encrypt")

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        cipher = AESGCM(key)
        self.encrypt = cipher.encrypt
        self._decrypt = cipher.decrypt
        self._invalid = InvalidTag

    def decrypt(self, nonce: bytes, encrypted: bytes, bound_to: bytes) -> bytes:
        """Raises NotAuthentic."""
        try:
            return self._decrypt(nonce, encrypted, bound_to)
        except (self._invalid, ValueError):
            raise NotAuthentic from None


def derived_key(key: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(key)
