"""Contents that were encrypted at rest and changed on the disk: they decrypt to the original, or not at all.

An input is the number of a message, 8 bytes, and its content.
"""

from __future__ import annotations

from contextlib import suppress

from penstock.auth.encryption.envelope import MessageCipher, NoEncryption, is_encrypted
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKeyError
from penstock.errors import DecryptionFailed, KeyUnavailable
from penstock.names import KeyUse, Space
from penstock.testing.clock import ManualClock
from support.identities import ROOT_KEY

_HERE = Space("111122223333", "us-east-1")
_SEQ = 7
_PLAIN = [b"", b"content", b"x" * 300]
_USES = [KeyUse(_HERE, None, 60_000), KeyUse(_HERE, "alias/orders", 60_000)]
_BOUND_TO = b"a key"


def _cipher() -> MessageCipher:
    clock = ManualClock()
    ring = Keyring(None, ROOT_KEY, clock)
    ring.create(_HERE, "alias/orders")
    return MessageCipher(ring, clock)


_CIPHER = _cipher()

WORDS = [b"\xc1\x01", b"\xc1", b"\x00" * 16, b"\x00\x00\x00\x01", _SEQ.to_bytes(8, "big")]


def seeds() -> list[bytes]:
    sealed, _ = _CIPHER.encrypt([(use, _SEQ, plain) for use in _USES for plain in _PLAIN])
    rooted = [ROOT_KEY.encrypt(b"fuzz", plain, _BOUND_TO) for plain in _PLAIN]
    return [
        _SEQ.to_bytes(8, "big") + content for content in (*sealed, *rooted, *_PLAIN, b"\xc1", b"\xc1\x01")
    ]


def check(data: bytes) -> None:
    seq, content = int.from_bytes(data[:8], "big"), data[8:]
    for cipher in (_CIPHER, NoEncryption()):
        try:
            opened = cipher.decrypt(seq, content)
        except (KeyUnavailable, DecryptionFailed):
            assert is_encrypted(content), "plain content needs no key"
        else:
            assert opened == content if not is_encrypted(content) else (seq == _SEQ and opened in _PLAIN)
    for use in _USES:
        assert isinstance(_CIPHER.needs_reencryption(use, content[: MessageCipher.head_bytes]), bool)
    with suppress(RootKeyError):
        assert ROOT_KEY.decrypt(b"fuzz", content, _BOUND_TO) in _PLAIN, "this was never encrypted"
