"""Calls to other processes of the cluster, over one connection to each.

A process connects to those it calls, and a connection carries the calls of the side that connected and their answers.
Two processes that call each other have two connections: neither has to decide which of two that were opened at the
same moment stays, and each direction fails on its own.

A call costs no task and no timer. It fails with :class:`NotSent` if it certainly did not reach the other side, so
that it may be sent again, here or elsewhere; and with Unreachable if it may have.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import NamedTuple

from penstock import errors
from penstock.backoff import backoff
from penstock.cluster.channel import CLOSED_THERE, Channel, LinkLimits
from penstock.cluster.frames import (
    FRAME_COST,
    AnswerFrame,
    CallFrame,
    CancelFrame,
    ErrorFrame,
    Frame,
    FrameError,
    GoAwayFrame,
    Payloads,
    PieceFrame,
    PingFrame,
    TakenFrame,
    split_payload,
)
from penstock.cluster.handshake import LinkSecurity
from penstock.errors import PenstockError, Unreachable
from penstock.promise import Promise

log = logging.getLogger("penstock.cluster")

_FORGET_S = 60.0
_STOPS = "this process stops"

CallDone = Callable[[bytes | None, Exception | None], None]


class NotSent(Unreachable):
    """The call did not reach the other side."""


class _Sent(NamedTuple):
    done: CallDone
    taken: Callable[[], None] | None
    size: int


class Link:
    """The calls to one peer. It connects when there is something to send."""

    def __init__(self, address: str, security: LinkSecurity, limits: LinkLimits) -> None:
        self.address = address
        self._security = security
        self._limits = limits
        self._calls: dict[int, _Sent] = {}
        self._last_id = 0
        self._in_flight_bytes = 0
        self._unsent: dict[int, tuple[str, bytes]] = {}  # while it connects
        self._channel: Channel | None = None  # if it is open
        self._connecting: asyncio.Task[None] | None = None
        self._shaking_hands: Channel | None = None
        self._payloads = Payloads(limits.unfinished_bytes_max)
        self._failures = 0
        self._not_before = 0.0  # of the loop's clock

    def is_unused(self, now: float) -> bool:
        """Whether the link has been disconnected long enough to be forgotten. ``now`` is the time of the loop's
        clock."""
        connects = (
            self._channel is not None or self._connecting is not None or self._shaking_hands is not None
        )
        return not connects and not self._calls and now > self._not_before + _FORGET_S

    def send(self, kind: str, payload: bytes, done: CallDone, taken: Callable[[], None] | None = None) -> int:
        """Returns the number of the call, for :meth:`cancel`. ``done`` is called later, never from in here. ``taken``
        is called before it if the other side has the payload, which is large, and takes long to answer.

        Raises Unreachable if too much waits already, and NotSent if the peer could not be reached just now: in
        either case nothing was sent."""
        size = len(payload) + FRAME_COST
        if len(payload) > self._limits.payload_bytes_max:
            raise Unreachable(f"{len(payload)} bytes are too many for one call to another node.")
        if self._in_flight_bytes + size > self._limits.in_flight_bytes_max:
            raise Unreachable("Too much waits for the node that owns this queue. Try again later.")
        channel = self._channel
        if channel is None:
            self._connect()
        self._last_id = number = self._last_id + 1
        self._calls[number] = _Sent(done, taken, size)
        self._in_flight_bytes += size
        if channel is None:
            self._unsent[number] = kind, payload
        else:
            _send_call(channel, number, kind, payload)
        return number

    def cancel(self, number: int) -> None:
        """The client has disconnected, or did not read the answer. A call that runs is still answered, soon."""
        if self._unsent.pop(number, None) is not None:
            self._take(number).done(None, NotSent("The client disconnected."))
        elif self._channel is not None:
            self._channel.send(CancelFrame(number))

    def _take(self, number: int) -> _Sent:
        sent = self._calls.pop(number)
        self._in_flight_bytes -= sent.size
        return sent

    def _taken(self, number: int) -> None:
        """The peer has received a call. From now on only its frame counts, because many clients may wait for long,
        each with a large request."""
        sent = self._calls.get(number)
        if sent is None:
            raise FrameError("a call that was not sent is taken")
        self._in_flight_bytes -= sent.size - FRAME_COST
        self._calls[number] = sent._replace(size=FRAME_COST)
        if sent.taken is not None:
            sent.taken()

    def tick(self) -> None:
        channel = self._channel or self._shaking_hands
        if channel is None or self._connecting is not None:
            return
        if channel.is_late():
            channel.close("it did not prove in time that it knows the cluster secret")
        else:
            channel.tick()

    def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        for channel in (self._channel, self._shaking_hands):
            if channel is not None:
                channel.close(_STOPS)

    # Connecting.

    def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        if self._connecting is not None or self._shaking_hands is not None:
            return
        if loop.time() < self._not_before:
            raise NotSent("The node that owns this queue cannot be reached.")
        self._connecting = loop.create_task(self._open_socket())
        self._connecting.add_done_callback(self._socket_opened)

    async def _open_socket(self) -> None:
        loop = asyncio.get_running_loop()
        self._shaking_hands = channel = Channel(self, "connects", self._security, self._limits)
        async with asyncio.timeout(self._limits.connect_s):
            if "/" in self.address:
                await loop.create_unix_connection(lambda: channel, self.address)
                return
            host, _, port = self.address.rpartition(":")
            host, tls = host.strip("[]"), self._security.connect_tls
            await loop.create_connection(
                lambda: channel, host, int(port), ssl=tls, server_hostname=host if tls is not None else None
            )

    def _socket_opened(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        if task.cancelled():
            self.closed(_STOPS)
        elif (error := task.exception()) is not None:
            self.closed(str(error) or "no connection within the time")

    # Called by the channel.

    def opened(self) -> None:
        self._channel, self._shaking_hands = self._shaking_hands, None
        assert self._channel is not None
        if self._failures:
            log.info("connected to %s", self.address)
        self._failures = 0
        unsent, self._unsent = self._unsent, {}
        for number, (kind, payload) in unsent.items():
            _send_call(self._channel, number, kind, payload)

    def received(self, frames: list[Frame]) -> None:
        for frame in frames:
            match frame:
                case AnswerFrame():
                    payload = self._payloads.whole(frame)
                    if frame.id not in self._calls:
                        raise FrameError("an answer to no call")
                    self._take(frame.id).done(payload, None)
                case ErrorFrame():
                    if frame.id not in self._calls:
                        raise FrameError("an answer to no call")
                    self._take(frame.id).done(None, _error_of(frame))
                case PieceFrame():
                    self._payloads.add(frame)
                case TakenFrame():
                    self._taken(frame.id)
                case PingFrame():
                    pass
                case GoAwayFrame():
                    self._go(frame.last_id)
                    return
                case _:
                    raise FrameError("a frame that only the side that connected may send")

    def _go(self, last_id: int) -> None:
        """The other side stops: what it has not carried out can be sent elsewhere."""
        assert self._channel is not None
        for number in [each for each in self._calls if each > last_id]:
            self._take(number).done(None, NotSent("The node that owns this queue stops."))
        self._channel.close(CLOSED_THERE)

    def closed(self, reason: str) -> None:
        if self._channel is None and self._shaking_hands is None:
            return
        loop, limits = asyncio.get_running_loop(), self._limits
        # The other process stops or has died, and nothing is lost by that. If it cannot be reached when it is needed
        # again, that is a failure.
        was_idle = reason == CLOSED_THERE and self._channel is not None and not self._calls
        self._channel = self._shaking_hands = None
        self._payloads = Payloads(limits.unfinished_bytes_max)
        self._not_before = loop.time() + backoff(
            self._failures + 1, limits.backoff_s_min, limits.backoff_s_max, jitter=0.5, chance=random.random()
        )
        if was_idle:
            return
        if not self._failures and reason != _STOPS:
            log.warning("no connection to %s: %s", self.address, reason)
        self._failures += 1
        calls, self._calls = self._calls, {}
        unsent, self._unsent = self._unsent, {}
        self._in_flight_bytes = 0
        for number, sent in calls.items():
            if number in unsent:
                sent.done(None, NotSent("The node that owns this queue cannot be reached."))
            else:
                sent.done(None, Unreachable(_LOST))


_LOST = (
    "The connection to the node that owns this queue was lost before it answered. "
    "The request may or may not have been carried out."
)


def _send_call(channel: Channel, number: int, kind: str, payload: bytes) -> None:
    ahead, last = split_payload(payload)
    for piece in ahead:
        channel.send(PieceFrame(number, piece), len(piece))
    channel.send(CallFrame(number, kind, last), len(last))


def _error_of(frame: ErrorFrame) -> Exception:
    """The error that the other side raised, if it is one of ours."""
    made = getattr(errors, frame.name, None)
    if isinstance(made, type) and issubclass(made, PenstockError):
        try:
            return made(*frame.arguments)
        except TypeError:
            pass
    return Unreachable("Another node failed to answer. Its log says why.")


class Peers:
    """The links of this process, by address: ``host:port``, or the path of a Unix socket."""

    def __init__(self, security: LinkSecurity, limits: LinkLimits | None = None) -> None:
        self._security = security
        self._limits = limits or LinkLimits()
        self._links: dict[str, Link] = {}
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._tick()

    def close(self) -> None:
        """Calls that have no answer yet fail."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for link in list(self._links.values()):
            link.close()

    def link(self, address: str) -> Link:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address, self._security, self._limits)
        return link

    def disconnect(self, address: str) -> None:
        """The process there is gone, or counts as gone: do not wait for its answers."""
        link = self._links.get(address)
        if link is not None:
            link.close()

    def call(self, address: str, kind: str, payload: bytes) -> Promise[bytes]:
        """The answer of the handler for ``kind`` there; fails with its error, or with Unreachable."""
        promise: Promise[bytes] = Promise()

        def done(answer: bytes | None, error: Exception | None) -> None:
            if error is not None:
                promise.fail(error)
            else:
                promise.resolve(answer or b"")

        try:
            self.link(address).send(kind, payload, done)
        except Unreachable as error:
            promise.fail(error)
        return promise

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for link in list(self._links.values()):
            link.tick()
            if link.is_unused(loop.time()):
                del self._links[link.address]  # nodes come and go, each with an address of its own
        self._ticker = loop.call_later(self._limits.tick_s, self._tick)
