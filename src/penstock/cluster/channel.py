"""One internal connection, after the handshake a stream of frames both ways; the same for the two ends of it.

Frames that are sent within one turn of the event loop leave in one packet. Signs of life are counted in ticks of the
owner's timer and not in seconds of a clock: a process that was suspended, or whose loop was busy, counts one tick for
all the time that it missed, and does not take its peers for dead.
"""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol, cast

import msgspec

from penstock.cluster.frames import (
    FRAME_COST,
    PIECE_BYTES,
    Frame,
    FrameError,
    FrameReader,
    PacketCipher,
    PingFrame,
    handshake_bytes,
    packet_of,
)
from penstock.cluster.handshake import Handshake, LinkSecurity, RefusedPeer

_MIB = 1024 * 1024


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    # Of the calls to one peer that it has not answered.
    in_flight_bytes_max: int = 64 * _MIB
    # Of one payload, and of all that arrive in pieces at the same time.
    payload_bytes_max: int = 96 * _MIB
    unfinished_bytes_max: int = 256 * _MIB
    # Of answers that a peer has not read: beyond the first it is not read from; beyond the second, answers with
    # messages are refused, and the messages go back; beyond the last it is cut off.
    unread_bytes_pause: int = 8 * _MIB
    unread_messages_max: int = 64 * _MIB
    unread_bytes_max: int = 256 * _MIB
    unproven_max: int = 64  # connections that have not proved the secret yet
    tick_s: float = 1.0
    handshake_ticks: int = 5
    dead_ticks: int = 4  # without a sign of life
    connect_s: float = 3.0
    # Before connecting again: doubled after each failure, and each time a random part of it.
    backoff_s_min: float = 0.05
    backoff_s_max: float = 1.0


CLOSED_THERE = "the connection was closed by the other side"


class ChannelEnd(Protocol):
    """What a channel serves: a link to a peer, or a peer's link to us."""

    def opened(self) -> None:
        """The channel calls this when the handshake has succeeded."""

    def received(self, frames: list[Frame]) -> None:
        """The channel calls this with the frames that have arrived. It may raise FrameError."""

    def closed(self, reason: str) -> None:
        """The channel calls this once at its end, also if the handshake failed."""


class Channel(asyncio.Protocol):
    def __init__(
        self,
        end: ChannelEnd,
        role: Literal["connects", "accepts"],
        security: LinkSecurity,
        limits: LinkLimits,
    ) -> None:
        self._end: ChannelEnd | None = end
        self._role = role
        self._limits = limits
        self._handshake: Handshake | None = Handshake(role, security)
        self._reader = FrameReader()
        self._cipher: PacketCipher | None = None  # of what is written
        self._transport: asyncio.Transport | None = None
        self._unsent: list[Frame] = []
        self._unsent_bytes = 0
        self._silent_ticks = 0
        self._unread_before = 0  # at the last tick
        self._reason = CLOSED_THERE
        self._loop = asyncio.get_running_loop()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._end is None:  # it was closed meanwhile
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.unread_bytes_pause)
        assert self._handshake is not None
        opening = self._handshake.opening()
        if opening is not None:
            self._transport.write(handshake_bytes(opening))

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            if self._handshake is not None:
                self._shake_hands(self._handshake)
            if self._handshake is None:
                self._silent_ticks = 0
                for frames in self._reader.frames():
                    if self._end is not None:
                        self._end.received(frames)
        except (FrameError, RefusedPeer) as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        # A peer that does not read its answers gets no more of them. The side that connects must read on: both
        # would wait for each other.
        if self._role == "accepts" and self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._role == "accepts" and self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._reason = f"the connection was lost: {error}"
        self._ended()

    # Called by its end.

    def send(self, frame: Frame, size: int = 0) -> None:
        """Send a frame. ``size`` is that of the payload."""
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append(frame)
        self._unsent_bytes += size + FRAME_COST
        if self._unsent_bytes >= PIECE_BYTES:
            self.flush()

    def flush(self) -> None:
        frames, transport = self._unsent, self._transport
        if not frames or transport is None or transport.is_closing():
            return
        self._unsent, self._unsent_bytes = [], 0
        transport.write(packet_of(frames, self._cipher))
        if transport.get_write_buffer_size() > self._limits.unread_bytes_max:
            self.close("the other side does not read what it is sent")

    @property
    def unread_bytes(self) -> int:
        """How many bytes were sent that the other side has not read."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return written + self._unsent_bytes

    def is_late(self) -> bool:
        """Whether the handshake takes too long, that of TLS included. Call this with every tick."""
        self._silent_ticks += 1
        return self._handshake is not None and self._silent_ticks > self._limits.handshake_ticks

    def tick(self) -> None:
        """Ends the connection if there was no sign of life for too long."""
        transport = self._transport
        if transport is None or self._handshake is not None:
            return
        unread = transport.get_write_buffer_size()
        if unread < self._unread_before:
            self._silent_ticks = 0  # busy reading what it was sent
        self._unread_before = unread
        if self._silent_ticks > self._limits.dead_ticks:
            self.close("it gives no sign of life")
        elif self._role == "connects" and self._silent_ticks > 1:
            self.send(PingFrame())

    def close(self, reason: str) -> None:
        """Close at once: what was not written is dropped."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()
        self._ended()

    def finish(self) -> None:
        """Close after what was sent is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def _shake_hands(self, handshake: Handshake) -> None:
        for frame in self._reader.handshake_frames():
            reply = handshake.answer(frame)
            if reply is not None and self._transport is not None:
                self._transport.write(handshake_bytes(reply))
            if handshake.done:
                self._handshake = None
                self._cipher, reads = handshake.ciphers()
                self._reader.authenticated(reads)
                if self._end is not None:
                    self._end.opened()
                return

    def _ended(self) -> None:
        end, self._end = self._end, None
        self._transport = None
        self._unsent = []
        if end is not None:
            end.closed(self._reason)
