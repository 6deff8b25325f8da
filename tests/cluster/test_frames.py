"""Frames and the handshake without a socket, however the bytes are split and whatever they are."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.frames import (
    PACKET_BYTES_MAX,
    PIECE_BYTES,
    AnswerFrame,
    CallFrame,
    CancelFrame,
    ErrorFrame,
    Frame,
    FrameError,
    FrameReader,
    HandshakeFrame,
    HelloFrame,
    Payloads,
    PieceFrame,
    PingFrame,
    handshake_bytes,
    packet_of,
    split_payload,
)
from penstock.cluster.handshake import AesGcm, Handshake, LinkSecurity, RefusedPeer

SECRET = LinkSecurity(b"a secret that all nodes of a cluster share")
FRAMES: list[Frame] = [
    CallFrame(1, "echo", b"payload"),
    AnswerFrame(2**60, b""),
    ErrorFrame(3, "NotOwned", [7]),
    PieceFrame(4, b"x" * 100),
    CancelFrame(5),
    PingFrame(),
]
PACKETS = st.lists(st.lists(st.sampled_from(FRAMES), max_size=5), max_size=5)


def shaken(first: LinkSecurity = SECRET, second: LinkSecurity = SECRET) -> tuple[Handshake, Handshake]:
    """Returns both sides, after all messages."""
    connects, accepts = Handshake("connects", first), Handshake("accepts", second)
    frame: HandshakeFrame | None = connects.opening()
    sides = [accepts, connects]
    while frame is not None:
        frame = sides[0].answer(frame)
        sides.reverse()
    return connects, accepts


def read(reader: FrameReader, data: bytes, cuts: list[int]) -> list[Frame]:
    frames: list[Frame] = []
    ends = [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    start = 0
    for end in ends:
        reader.feed(data[start:end])
        frames += [frame for packet in reader.frames() for frame in packet]
        start = end
    return frames


@given(packets=PACKETS, cuts=st.lists(st.integers(0, 10_000), max_size=8), encrypted=st.booleans())
def test_frames_arrive_however_the_bytes_are_split(
    packets: list[list[Frame]], cuts: list[int], encrypted: bool
) -> None:
    writes, reads = (AesGcm(b"k" * 32), AesGcm(b"k" * 32)) if encrypted else (None, None)
    reader = FrameReader()
    reader.authenticated(reads)
    data = b"".join(packet_of(packet, writes) for packet in packets)
    assert read(reader, data, cuts) == [frame for packet in packets for frame in packet]


@given(
    data=st.binary(max_size=300)
    | st.builds(lambda b: len(b).to_bytes(4, "big") + b, st.binary(max_size=200)),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_any_bytes_are_frames_or_an_error(data: bytes, cuts: list[int]) -> None:
    reader = FrameReader()
    reader.authenticated(None)
    with contextlib.suppress(FrameError):
        read(reader, data, cuts)
    assert len(reader._unread) <= len(data)


@given(st.data())
def test_a_changed_packet_is_frames_or_an_error(data: st.DataObject) -> None:
    whole = bytearray(packet_of(FRAMES, None))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    reader = FrameReader()
    reader.authenticated(None)
    try:
        for frame in read(reader, bytes(whole), []):
            assert isinstance(frame, Frame)
    except FrameError:
        pass


@given(data=st.binary(min_size=1, max_size=300))
def test_any_bytes_before_the_handshake_are_refused_or_awaited(data: bytes) -> None:
    side, reader = Handshake("accepts", SECRET), FrameReader()
    reader.feed(data)
    try:
        for frame in reader.handshake_frames():
            side.answer(frame)
    except (FrameError, RefusedPeer):
        pass
    assert not side.done


def test_a_packet_beyond_the_limit_is_refused_before_it_arrives() -> None:
    reader = FrameReader()
    reader.authenticated(None)
    reader.feed((PACKET_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="at most"):
        list(reader.frames())


def test_before_the_handshake_only_short_packets_are_read() -> None:
    reader = FrameReader()
    reader.feed((1000).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="at most"):
        list(reader.handshake_frames())


@pytest.mark.parametrize("attack", ["change", "repeat", "leave out", "swap", "shorten"])
def test_an_encrypted_packet_is_neither_changed_nor_moved(attack: str) -> None:
    writes, reads = AesGcm(b"k" * 32), AesGcm(b"k" * 32)
    first, second = (packet_of([CallFrame(number, "echo", b"")], writes) for number in (1, 2))
    data = {
        "change": first[:-1] + bytes([first[-1] ^ 1]),
        "repeat": first + first,
        "leave out": second,
        "swap": second + first,
        "shorten": b"\0\0\0\x03abc",
    }[attack]
    reader = FrameReader()
    reader.authenticated(reads)
    reader.feed(data)
    with pytest.raises(FrameError, match="changed"):
        list(reader.frames())


def test_both_sides_derive_the_same_keys_and_each_link_its_own() -> None:
    connects, accepts = shaken()
    writes, reads = connects.ciphers()
    far_writes, far_reads = accepts.ciphers()
    assert writes and reads and far_writes and far_reads
    assert far_reads.decrypt(writes.encrypt(b"call")) == b"call"
    assert reads.decrypt(far_writes.encrypt(b"answer")) == b"answer"
    with pytest.raises(FrameError):  # each direction has a key of its own
        reads.decrypt(writes.encrypt(b"returned to its sender"))
    other, _ = shaken()[1].ciphers()
    assert other is not None
    with pytest.raises(FrameError):
        reads.decrypt(other.encrypt(b"of another link"))


def test_a_proof_cannot_be_replayed_or_returned() -> None:
    with pytest.raises(RefusedPeer, match="another cluster secret"):
        shaken(second=LinkSecurity(b"the secret of another cluster"))
    recorded = Handshake("connects", SECRET)
    hello = recorded.opening()
    assert hello is not None
    first = Handshake("accepts", SECRET)
    challenge = first.answer(hello)
    assert challenge is not None
    proof = recorded.answer(challenge)
    assert proof is not None
    again = Handshake("accepts", SECRET)
    again.answer(hello)
    with pytest.raises(RefusedPeer):
        again.answer(proof)  # replayed
    with pytest.raises(RefusedPeer):
        recorded.answer(proof)  # returned to its sender
    first.answer(proof)
    assert first.done


def test_another_version_is_named_in_the_log_only() -> None:
    for version in (1, 99):  # 1: release 0.2, which asks other shards in other words
        with pytest.raises(RefusedPeer, match=rf"version {version} .*same version"):
            Handshake("accepts", SECRET).answer(HelloFrame(version, b"n" * 32))
    assert len(handshake_bytes(HelloFrame(1, b"n" * 32))) < 64


@given(size=st.integers(0, 5 * PIECE_BYTES))
def test_payloads_are_put_together_from_pieces(size: int) -> None:
    payload = bytes(size)
    ahead, last = split_payload(payload)
    payloads = Payloads(10 * PIECE_BYTES)
    for piece in ahead:
        assert len(piece) <= PIECE_BYTES
        payloads.add(PieceFrame(1, piece))
    payloads.add(PieceFrame(2, b"of "))
    assert payloads.whole(CallFrame(1, "echo", last)) == payload
    assert payloads.whole(AnswerFrame(2, b"another")) == b"of another"
    assert payloads._bytes == 0


def test_unfinished_payloads_are_bounded() -> None:
    payloads = Payloads(1000)
    with pytest.raises(FrameError, match="unfinished"):
        for number in range(100):
            payloads.add(PieceFrame(number, b""))  # even without content
