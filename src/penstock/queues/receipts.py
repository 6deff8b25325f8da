"""Receipt handles: which receive of which message, signed with the shard's secret so that they cannot be forged.

A handle holds everything needed to judge it, so it works after a restart and costs no memory. Like those of Amazon it
uses the plain base64 alphabet and begins with "AQEB": clients cut and join handles at other characters.
"""

from __future__ import annotations

import struct
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from penstock.errors import HandleInvalid

_PREFIX = b"\x01\x01\x01"  # "AQEB" in base64
_VERSION = 2
_FIELDS = struct.Struct(">3sBHQQIQ")  # prefix, version, shard, and the fields of the receipt
_FIELDS_1 = struct.Struct(">3sQQIQ")  # the first version: no shard, and "-_" instead of "+/"
_FROM_VERSION_1 = bytes.maketrans(b"-_", b"+/")
_TAG_BYTES = 17
_TEXT_LENGTH = (_FIELDS.size + _TAG_BYTES) * 4 // 3
_TEXT_LENGTH_1 = (_FIELDS_1.size + _TAG_BYTES) * 4 // 3
assert (_FIELDS.size + _TAG_BYTES) % 3 == 0, "without padding every character of a handle counts"


class Receipt(msgspec.Struct, frozen=True, gc=False):
    queue: int
    seq: int
    receives: int  # the receive count of the message that this receive made
    received_ms: int


class ReceiptSigner:
    def __init__(
        self, secret: bytes, shard: int = 0, otherwise: Callable[[str, int], Receipt] | None = None
    ) -> None:
        """``otherwise`` reads the handles that another secret has signed."""
        self._keyed = blake2b(key=secret[:64], digest_size=_TAG_BYTES, person=b"receipt")
        self._shard = shard
        self._otherwise = otherwise

    def handle(self, receipt: Receipt) -> str:
        fields = _FIELDS.pack(
            _PREFIX, _VERSION, self._shard, receipt.queue, receipt.seq, receipt.receives, receipt.received_ms
        )
        keyed = self._keyed.copy()
        keyed.update(fields)
        return b2a_base64(fields + keyed.digest(), newline=False).decode("ascii")

    def read(self, handle: str, queue: int) -> Receipt:
        """The receipt in a handle. Raises HandleInvalid for anything this shard did not make for this queue."""
        length = len(handle)
        if (length != _TEXT_LENGTH and length != _TEXT_LENGTH_1) or not handle.isascii():
            raise HandleInvalid
        text = handle.encode("ascii")
        try:
            raw = a2b_base64(
                text if length == _TEXT_LENGTH else text.translate(_FROM_VERSION_1), strict_mode=True
            )
        except NotBase64 as error:
            raise HandleInvalid from error
        fields = raw[:-_TAG_BYTES]
        keyed = self._keyed.copy()
        keyed.update(fields)
        if not compare_digest(raw[-_TAG_BYTES:], keyed.digest()):
            if self._otherwise is not None:
                return self._otherwise(handle, queue)
            raise HandleInvalid
        if length == _TEXT_LENGTH:
            prefix, version, shard, *numbers = _FIELDS.unpack(fields)
            known = version == _VERSION and shard == self._shard
        else:
            prefix, *numbers = _FIELDS_1.unpack(fields)
            known = True
        receipt = Receipt(*numbers)
        if not known or prefix != _PREFIX or receipt.queue != queue:
            raise HandleInvalid
        return receipt


class MessageIds:
    """Message ids are the image of the message's number under the shard's key.

    So the deduplication memory keeps a number, not a text, and can still answer with the first send's id.
    """

    def __init__(self, secret: bytes) -> None:
        self._keyed = blake2b(key=secret[:64], digest_size=16, person=b"message")

    def __call__(self, number: int) -> str:
        keyed = self._keyed.copy()
        keyed.update(number.to_bytes(8, "big"))
        h = keyed.hexdigest()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:]}"


# The two bits that say "RFC 4122" in a UUID.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
