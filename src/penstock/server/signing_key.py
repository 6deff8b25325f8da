"""How the root key protects the key that signs messages of topics."""

from __future__ import annotations

from penstock.auth.encryption.root_key import RootKey, RootKeyError

_PURPOSE, _NAME = b"topic-signing-key", b"topic-signing-key"


class SigningKeyProtection:
    def __init__(self, root: RootKey) -> None:
        self._root = root

    def encrypt(self, plain: bytes) -> bytes:
        return self._root.encrypt(_PURPOSE, plain, _NAME)

    def decrypt(self, encrypted: bytes) -> bytes | None:
        """Returns None if it was encrypted under another root key."""
        try:
            return self._root.decrypt(_PURPOSE, encrypted, _NAME)
        except RootKeyError:
            return None
