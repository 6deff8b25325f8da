"""Receipt handles: which receive of which message, signed by the shard so that none can be made up.

A handle holds everything needed to judge it, so it works after a restart and costs no memory.
"""

from __future__ import annotations

import struct
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from hashlib import blake2b
from hmac import compare_digest

import msgspec

from penstock.errors import HandleInvalid

_MAGIC = b"\x01\x01\x01"  # spelled "AQEB" in base64, as Amazon's handles begin
_FIELDS = struct.Struct(">QQIQ")
_TAG_BYTES = 17
_LENGTH = len(_MAGIC) + _FIELDS.size + _TAG_BYTES
_TEXT_LENGTH = _LENGTH * 4 // 3
assert _LENGTH % 3 == 0, "no padding: every character of a handle matters"
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


class Receipt(msgspec.Struct, frozen=True, gc=False):
    queue: int
    seq: int
    receives: int  # the count that this receive made
    received_ms: int


class ReceiptSigner:
    def __init__(self, secret: bytes) -> None:
        self._keyed = blake2b(key=secret[:64], digest_size=_TAG_BYTES, person=b"receipt")

    def handle(self, receipt: Receipt) -> str:
        fields = _MAGIC + _FIELDS.pack(receipt.queue, receipt.seq, receipt.receives, receipt.received_ms)
        return b2a_base64(fields + self._tag(fields), newline=False).translate(_TO_URL).decode("ascii")

    def read(self, handle: str, queue: int) -> Receipt:
        """The receipt in a handle, or HandleInvalid for anything this shard did not make for this queue."""
        if len(handle) != _TEXT_LENGTH or not handle.isascii():
            raise HandleInvalid
        try:
            raw = a2b_base64(handle.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except NotBase64 as error:
            raise HandleInvalid from error
        fields, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
        if not fields.startswith(_MAGIC) or not compare_digest(tag, self._tag(fields)):
            raise HandleInvalid
        receipt = Receipt(*_FIELDS.unpack_from(fields, len(_MAGIC)))
        if receipt.queue != queue:
            raise HandleInvalid
        return receipt

    def _tag(self, fields: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(fields)
        return keyed.digest()


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
