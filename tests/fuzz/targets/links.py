"""Bytes on the internal connections of a cluster: of senders without the secret, and of other nodes.

An input is a byte that chooses who sends and how the rest is split, and what is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from penstock.cluster.frames import (
    HANDSHAKE_BYTES_MAX,
    AnswerFrame,
    CallFrame,
    CancelFrame,
    ChallengeFrame,
    ErrorFrame,
    Frame,
    FrameError,
    FrameReader,
    HelloFrame,
    Payloads,
    PieceFrame,
    PingFrame,
    ProofFrame,
    handshake_bytes,
    packet_of,
)
from penstock.cluster.handshake import AesGcm, Handshake, LinkSecurity, RefusedPeer

_SECURITY = LinkSecurity(b"a secret that only the nodes know")
_UNFINISHED_MAX = 4096
_FRAMES: list[Frame] = [
    CallFrame(1, "request", b"payload"),
    AnswerFrame(2, b"payload"),
    ErrorFrame(3, "NotOwned", [7]),
    PieceFrame(1, b"piece"),
    CancelFrame(1),
    PingFrame(),
]
_KEY = b"k" * 32

WORDS = [
    b"\0\0\0\x03",
    b"\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91\x91\x09",
    b"\xc4",
]


def seeds() -> list[bytes]:
    unproven = [
        handshake_bytes(HelloFrame(1, b"n" * 32)),
        handshake_bytes(HelloFrame(1, b"n" * 32)) + handshake_bytes(ProofFrame(b"p" * 32)),
        handshake_bytes(ChallengeFrame(b"n" * 32)) + handshake_bytes(ProofFrame(b"p" * 32)),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff" + b"x" * 500,
    ]
    plain = packet_of(_FRAMES, None) + b"".join(packet_of([frame], None) for frame in _FRAMES)
    return [
        *(bytes([kind]) + sent for kind in (0, 7) for sent in unproven),
        *(bytes([kind]) + plain for kind in (1, 13)),
        b"\x02" + packet_of(_FRAMES, AesGcm(_KEY)),
    ]


def check(data: bytes) -> None:
    if not data:
        return
    kind, split = data[0] % 3, data[0] // 3 + 1
    pieces = [data[start : start + split] for start in range(1, len(data), split)]
    if kind == 0:
        for role in ("accepts", "connects"):
            _strange(Handshake(role, _SECURITY), pieces)
    else:
        _known(AesGcm(_KEY) if kind == 2 else None, pieces)


def _strange(side: Handshake, pieces: list[bytes]) -> None:
    side.opening()
    reader = FrameReader()
    with suppress(FrameError, RefusedPeer):
        for piece in pieces:
            reader.feed(piece)
            for frame in reader.handshake_frames():
                side.answer(frame)
            assert len(reader._unread) <= HANDSHAKE_BYTES_MAX + 4
    assert not side.done, "the secret cannot be guessed"


def _known(cipher: AesGcm | None, pieces: list[bytes]) -> None:
    reader, payloads = FrameReader(), Payloads(_UNFINISHED_MAX)
    reader.authenticated(cipher)
    with suppress(FrameError):
        for frame in _frames(reader, pieces):
            assert cipher is None or frame in _FRAMES, "the key cannot be guessed"
            match frame:
                case PieceFrame():
                    payloads.add(frame)
                case CallFrame() | AnswerFrame():
                    assert payloads.whole(frame).endswith(frame.payload)
    assert 0 <= payloads._bytes <= _UNFINISHED_MAX + len(b"".join(pieces)) + 64


def _frames(reader: FrameReader, pieces: list[bytes]) -> Iterator[Frame]:
    for piece in pieces:
        reader.feed(piece)
        for packet in reader.frames():
            yield from packet
