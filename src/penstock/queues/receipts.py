"""Receipt handles: which receive of which message, signed with the shard's secret so that they cannot be forged; and
message ids.

A handle holds everything needed to judge it, so it works after a restart and costs no memory. Like those of Amazon it
uses the plain base64 alphabet and begins with "AQEB": clients cut and join handles at other characters.
"""

from __future__ import annotations

import re
import struct
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from penstock.errors import HandleInvalid
from penstock.store.changes import RecordKind
from penstock.store.moving import left_out

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


class MessageIdForm(msgspec.Struct, frozen=True):
    """Ids are encrypted numbers from this number on. Those before were given out by an earlier release."""

    first: int


MESSAGE_ID_FORMS = RecordKind("message_id_form", MessageIdForm, left_out)
OWN_IDS = "own"  # the key of the only record
ALL_HASHED = 1 << 63
"""No number is so large: where ids are encrypted from here on, all are of the earlier release."""


class MessageIds:
    """Message ids are the numbers of messages, encrypted under a key of the shard: one block of AES.

    So the deduplication memory keeps a number, not a text, and can still answer with the first send's id; and the
    number that an id stands for is found without a search. Half of the block is zero, by which an id is recognised
    that was not made here. A UUID has six bits less than the block: all values of these are tried.
    """

    def __init__(
        self, secret: bytes, first: int = 0, otherwise: Callable[[str], int | None] | None = None
    ) -> None:
        """``first``: numbers before this one have the ids of an earlier release, a hash that cannot be inverted.
        ``otherwise`` finds the number of an id that was made with another secret."""
        self._hashed = blake2b(key=secret[:64], digest_size=16, person=b"message")
        key = blake2b(key=secret[:64], digest_size=16, person=b"message id").digest()
        cipher = Cipher(AES(key), ECB())  # no two blocks are equal, since no two numbers are
        self._encrypt = cipher.encryptor().update
        self._decrypt = cipher.decryptor().update
        self._first = first
        self._otherwise = otherwise

    def __call__(self, number: int) -> str:
        if number >= self._first:
            h = self._encrypt(number.to_bytes(_BLOCK_BYTES, "big")).hex()
        else:
            hashed = self._hashed.copy()
            hashed.update(number.to_bytes(8, "big"))
            h = hashed.hexdigest()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:]}"

    def number_of(self, id: str) -> int | None:
        """The number that this id was made from; None if that cannot be known."""
        if not is_message_id(id):
            return None
        h = id.replace("-", "")
        low = int(h[16], 16) & 3
        candidates = "".join(
            f"{h[:12]}{version}{h[13:16]}{variant * 4 + low:x}{h[17:]}"
            for version in "0123456789abcdef"
            for variant in range(4)
        )
        plain = self._decrypt(bytes.fromhex(candidates))
        for start in range(0, len(plain), _BLOCK_BYTES):
            number = int.from_bytes(plain[start : start + _BLOCK_BYTES], "big")
            if self._first <= number < ALL_HASHED:
                return number
        return None if self._otherwise is None else self._otherwise(id)


_BLOCK_BYTES = 16
_UUID_4 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# The two bits that say "RFC 4122" in a UUID.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def is_message_id(text: str) -> bool:
    """Whether a message can have this id."""
    return _UUID_4.fullmatch(text) is not None
