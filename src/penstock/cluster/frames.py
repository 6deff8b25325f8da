"""The frames of a link, without a socket: bytes in, frames out.

Frames travel in packets: four bytes of length, then a MessagePack array of frames. All frames that one turn of the
event loop leaves for a peer share a packet, so that a busy link costs one write and one encryption for many calls.
A payload longer than ``PIECE_BYTES`` goes ahead in pieces, so that no packet is larger than ``PACKET_BYTES_MAX``.

Before both sides have proved that they know the cluster's secret, a packet holds one of the three short messages of
the handshake and nothing else is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

VERSION = 2
"""The version of frames, and of what they carry. Processes of different versions do not talk to each other."""

PIECE_BYTES = 256 * 1024
PACKET_BYTES_MAX = 1024 * 1024  # a piece and what was gathered before it, with room to spare
HANDSHAKE_BYTES_MAX = 128
FRAME_COST = 64  # bytes of a frame besides its payload, at most

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError)

_LENGTH_BYTES = 4


class FrameError(Exception):
    """What arrived is not a frame. The connection ends: nothing after it can be understood."""


# The handshake, in this order. The side that connects proves the secret first: without it, it gets 32 random bytes.


class HelloFrame(msgspec.Struct, array_like=True, tag=1):
    version: int
    nonce: bytes


class ChallengeFrame(msgspec.Struct, array_like=True, tag=2):
    nonce: bytes


class ProofFrame(msgspec.Struct, array_like=True, tag=3):
    proof: bytes


# Everything after it. Numbers of calls are chosen by the one who connected.


class CallFrame(msgspec.Struct, array_like=True, tag=4):
    id: int
    kind: str
    payload: bytes


class AnswerFrame(msgspec.Struct, array_like=True, tag=5):
    id: int
    payload: bytes


class ErrorFrame(msgspec.Struct, array_like=True, tag=6):
    """The call failed with an error of :mod:`penstock.errors`."""

    id: int
    name: str
    arguments: list[str | int]


class PieceFrame(msgspec.Struct, array_like=True, tag=7):
    """A part of the payload of the call or answer with this number, which follows."""

    id: int
    payload: bytes


class CancelFrame(msgspec.Struct, array_like=True, tag=8):
    """The client disconnected: a call that runs should end soon, and an answer that was sent did not reach it."""

    id: int


class PingFrame(msgspec.Struct, array_like=True, tag=9):
    """The other side answers with the same frame, so that both sides hear from each other."""


class TakenFrame(msgspec.Struct, array_like=True, tag=10):
    """A large call runs, and its answer takes a while: it will not be needed again."""

    id: int


class GoAwayFrame(msgspec.Struct, array_like=True, tag=11):
    """The side that accepted stops: no call after this one is carried out, whenever it was sent."""

    last_id: int


HandshakeFrame = HelloFrame | ChallengeFrame | ProofFrame
Frame = CallFrame | AnswerFrame | ErrorFrame | PieceFrame | CancelFrame | PingFrame | TakenFrame | GoAwayFrame

_encode = msgspec.msgpack.Encoder().encode
_decode_handshake = msgspec.msgpack.Decoder(HandshakeFrame).decode
_decode = msgspec.msgpack.Decoder(list[Frame]).decode


class PacketCipher(Protocol):
    """Encrypts the packets of one direction of a link, or decrypts those of the other."""

    overhead: int

    def encrypt(self, packet: bytes) -> bytes: ...

    def decrypt(self, packet: bytes) -> bytes:
        """Raises FrameError."""


def handshake_bytes(frame: HandshakeFrame) -> bytes:
    return _with_length(_encode(frame))


def packet_of(frames: Sequence[Frame], cipher: PacketCipher | None) -> bytes:
    packet = _encode(frames)
    return _with_length(packet if cipher is None else cipher.encrypt(packet))


def _with_length(packet: bytes) -> bytes:
    return len(packet).to_bytes(_LENGTH_BYTES, "big") + packet


def split_payload(payload: bytes) -> tuple[list[bytes], bytes]:
    """The pieces that go ahead, and the rest that the frame itself carries."""
    if len(payload) <= PIECE_BYTES:
        return [], payload
    starts = range(0, len(payload), PIECE_BYTES)
    *ahead, last = [payload[start : start + PIECE_BYTES] for start in starts]
    return ahead, last


class FrameReader:
    """Holds at most one unfinished packet."""

    __slots__ = ("_cipher", "_size_max", "_unread")

    def __init__(self) -> None:
        self._unread = bytearray()
        self._size_max = HANDSHAKE_BYTES_MAX
        self._cipher: PacketCipher | None = None

    def authenticated(self, cipher: PacketCipher | None) -> None:
        """The handshake is over: what follows are frames, encrypted if there is a cipher."""
        self._cipher = cipher
        self._size_max = PACKET_BYTES_MAX if cipher is None else PACKET_BYTES_MAX + cipher.overhead

    def feed(self, data: bytes) -> None:
        self._unread += data

    def handshake_frames(self) -> Iterator[HandshakeFrame]:
        """Yields the frames of the handshake that have arrived. The loop may end early, when the handshake does."""
        while (packet := self._next_packet()) is not None:
            try:
                yield _decode_handshake(packet)
            except UNDECODABLE:
                raise FrameError("not a message of the handshake") from None

    def frames(self) -> Iterator[list[Frame]]:
        """Yields the frames that have arrived, by packet."""
        while (packet := self._next_packet()) is not None:
            if self._cipher is not None:
                packet = self._cipher.decrypt(packet)
            try:
                yield _decode(packet)
            except UNDECODABLE as error:
                raise FrameError(f"not a packet of frames: {error}") from None

    def _next_packet(self) -> bytes | None:
        unread = self._unread
        if len(unread) < _LENGTH_BYTES:
            return None
        size = int.from_bytes(unread[:_LENGTH_BYTES], "big")
        if size > self._size_max:
            raise FrameError(f"a packet of {size} bytes, where at most {self._size_max} are allowed")
        end = _LENGTH_BYTES + size
        if len(unread) < end:
            return None
        packet = bytes(unread[_LENGTH_BYTES:end])
        del unread[:end]
        return packet


class Payloads:
    """Puts payloads together that arrive in pieces."""

    __slots__ = ("_bytes", "_bytes_max", "_pieces")

    def __init__(self, bytes_max: int) -> None:
        self._pieces: dict[int, list[bytes]] = {}
        self._bytes = 0
        self._bytes_max = bytes_max  # of all unfinished ones together

    def add(self, frame: PieceFrame) -> None:
        self._bytes += len(frame.payload) + FRAME_COST
        if self._bytes > self._bytes_max:
            raise FrameError(f"more than {self._bytes_max} bytes of unfinished payloads")
        self._pieces.setdefault(frame.id, []).append(frame.payload)

    def whole(self, frame: CallFrame | AnswerFrame) -> bytes:
        if not self._pieces:
            return frame.payload
        pieces = self._pieces.pop(frame.id, None)
        if pieces is None:
            return frame.payload
        self._bytes -= sum(map(len, pieces)) + FRAME_COST * len(pieces)
        return b"".join((*pieces, frame.payload))
