"""One HTTP/1.1 connection, straight from the socket.

Rules:

1. Requests of a connection run one after the other, so pipelined answers leave in order and a later request
   sees what an earlier one did. A client may run ahead only so far: past that we stop reading. And it may keep
   the event loop only so long: after a few requests answered in place the other connections have their turn.
2. Whatever is waited for has a deadline, except a running request: a long poll is never cut. A deadline is an
   attribute that one shared sweep looks at, not a timer.
3. A caller that is gone is told to its :class:`Call` at once; an answer that cannot be written is given back.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.server.http.parser import Phase, Reader
from penstock.server.http.request import Peer, Refusal, Request
from penstock.server.http.response import CONTINUE, encode_answer, encode_refusal
from penstock.server.tls import client_subject
from penstock.wire.dispatch import Answer

if TYPE_CHECKING:
    from penstock.server.http.listener import Listener

NEVER = float("inf")
_HEAD_BITE = 4 * 1024  # parsed at once while requests begin: bounds how many can begin at once
_BODY_BITE = 64 * 1024
_TURN = 16  # requests started in a row before other connections have their turn
_FAREWELL_S = 1.0  # for a client at rest to take leave, when the server stops
_LARGE_ANSWER = 1024 * 1024
_PROGRESS = 4 * 1024  # a body that brings less than this within its time-out has stalled
_READ_PROGRESS = 64 * 1024  # so has a client that reads less than this of its answers

log = logging.getLogger("penstock.http")


class Await(IntEnum):
    """What a connection waits for. Each has its own patience. The first three are the phases of reading."""

    REQUEST = Phase.BETWEEN
    HEAD = Phase.HEAD
    BODY = Phase.BODY
    ANSWER = 3
    WRITE = 4  # for the client to read what we wrote
    HANG_UP = 5  # for the client to close its side


_AWAITED = tuple(Await)


class Connection(asyncio.Protocol):
    __slots__ = (
        "_address", "_advancing", "_awaits", "_deaf", "_lingers", "_listener", "_paused", "_peer_done", "_reader",
        "_refusal", "_running", "_stuck", "_transport", "_unread", "_unwritten", "_yielded", "deadline",
    )  # fmt: skip

    def __init__(self, listener: Listener, address: str) -> None:
        self._listener = listener
        # Of the caller, when it was accepted: a socket that was reset cannot tell any more.
        self._address = address
        self._transport: asyncio.Transport
        self._reader: Reader
        self.deadline = NEVER
        self._awaits = Await.HANG_UP
        self._unread: bytes | memoryview = b""  # received, not yet parsed: the client ran ahead
        self._running: Request | None = None
        self._refusal: Refusal | None = None
        self._advancing = False
        self._yielded = False  # requests wait, and go on when the others had their turn
        self._paused = False  # we do not read
        self._stuck = False  # the client does not read
        self._deaf = False  # what still comes is thrown away
        self._lingers = False
        self._peer_done = False  # the client will send nothing more
        self._unwritten = 0  # of our answers, when we began to wait for the client to read them

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = _peer_of(self._transport, self._address)
        self._reader = Reader(peer, self._listener.limits, self._listener.buffered)
        refusal = self._listener.admit(self)
        if refusal is not None:
            self._transport.write(encode_refusal(refusal))
            self._close()
        self._arm()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._unread = bytes(self._unread) + data if self._unread else data
        self._advance()

    def eof_received(self) -> bool:
        # A closed peer and a half-closed one look the same here. What runs is told, so that a long poll ends
        # and hands out nothing; an answer that costs nothing if it is lost is still written.
        self._peer_done = True
        self._tell_gone()
        if self._lingers:
            return False
        self._advance()
        return not self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        self._deaf = True
        self._listener.forget(self)
        self._reader.close()
        self._tell_gone()

    def pause_writing(self) -> None:
        self._stuck = True
        self._arm()

    def resume_writing(self) -> None:
        self._stuck = False
        self._advance()

    # What the listener tells.

    def expire(self) -> None:
        """The deadline has passed."""
        if self._awaits is Await.REQUEST:
            self._close()
        elif self._awaits in (Await.HEAD, Await.BODY):
            part = "headers" if self._awaits is Await.HEAD else "body"
            self.refuse(Refusal(408, f"The request's {part} did not arrive in time."))
        elif self._awaits is Await.WRITE and self._has_read():
            self._set_deadline(Await.WRITE)
        else:
            self._transport.abort()

    def wind_down(self) -> None:
        """The server stops: an idle connection closes now, another after the answer it waits for."""
        if self._running is None and not self._reader.requests and self._reader.phase is Phase.BETWEEN:
            unwritten = self._transport.get_write_buffer_size()
            self._close()
            if not unwritten:
                # TLS waits for the client to say goodbye too, and a client at rest does not listen.
                self.deadline = min(self.deadline, self._listener.now() + _FAREWELL_S)

    def abort(self) -> None:
        self._stuck = False  # what was written is given up, and counts no more
        self._transport.abort()

    def refuse(self, refusal: Refusal) -> None:
        """Give up what was read and does not run yet; the client is told once what runs is answered."""
        self._refuse(refusal)
        while self._reader.requests:
            self._reader.take()
        self._advance()

    @property
    def held_bytes(self) -> int:
        """Of requests that do not run yet."""
        return self._reader.held_bytes

    @property
    def unread_bytes(self) -> int:
        """Of answers, while the client does not read them."""
        return self._transport.get_write_buffer_size() if self._stuck else 0

    # Reading and running.

    def _advance(self) -> None:
        """Start what can start, read what may be read, then wait for the right thing."""
        if self._advancing:  # an answer came while its request was being started: the loop below goes on
            return
        if self._yielded:  # our turn comes
            return
        self._advancing = True
        started = 0
        transport, reader = self._transport, self._reader
        try:
            while not self._stuck and not transport.is_closing():
                if self._running is None and reader.requests and not self._lingers:
                    if started == _TURN:
                        self._yielded = True
                        asyncio.get_running_loop().call_soon(self._next_turn)
                        break
                    started += 1
                    self._start(reader.take())
                elif self._unread and len(reader.requests) < self._listener.limits.pipelined_max:
                    self._read()
                else:
                    break
        finally:
            self._advancing = False
        if transport.is_closing():
            return
        if self._running is None and not self._stuck and not self._lingers and not self._yielded:
            self._rest()
        self._set_reading(not self._stuck and not self._unread and not self._yielded)
        self._arm()

    def _next_turn(self) -> None:
        self._yielded = False
        self._advance()  # does nothing if the connection has closed meanwhile

    def _rest(self) -> None:
        """Nothing runs and nothing waits to run."""
        if self._refusal is not None:
            self._transport.write(encode_refusal(self._refusal))
            self._linger()
        elif self._peer_done:
            self._close()
        elif self._reader.continue_due:
            self._reader.continue_due = False
            self._transport.write(CONTINUE)

    def _read(self) -> None:
        bite = self._unread
        size = _BODY_BITE if self._reader.phase is Phase.BODY else _HEAD_BITE
        if len(bite) <= size:
            self._unread = b""
        else:
            view = memoryview(bite)
            bite, self._unread = view[:size], view[size:]
        try:
            again = self._reader.feed(bite)
        except Refusal as refusal:
            self._refuse(refusal)
        else:
            if again:
                self._unread = again + bytes(self._unread)
            if self._listener.buffered.bytes > self._listener.limits.buffered_bytes_max:
                self._listener.shed_bodies()  # perhaps ours

    def _refuse(self, refusal: Refusal) -> None:
        """Read no further. The refusal is written once the requests before it are answered."""
        self._refusal = refusal
        self._deaf = True
        self._unread = b""
        self._reader.drop()

    def _start(self, request: Request) -> None:
        self._running = request
        self._awaits = Await.ANSWER
        self.deadline = NEVER
        self._listener.serve(request, partial(self._answered, request))
        request.let_go()

    def _answered(self, request: Request, answer: Answer) -> None:
        assert request is self._running, "a request is answered once"
        self._running = None
        give_back = request.call.if_unread if request.call is not None else None
        if self._transport.is_closing() or (self._peer_done and give_back is not None):
            if give_back is not None:
                give_back()
            self._close()
            return
        if answer.status >= 500 and request.call is not None:
            # An overload is many refusals, each of them meant: they would bury what is not.
            level = logging.DEBUG if answer.status == 503 else logging.WARNING
            log.log(level, "answered %d", answer.status, extra={"request_id": request.id})
        close = not request.keep_alive or self._listener.stopping
        head_only = request.method == b"HEAD"
        self._transport.write(encode_answer(answer, request.version, head_only=head_only, close=close))
        if len(answer.body) > _LARGE_ANSWER and self._stuck:
            self._listener.shed_answers()  # perhaps ours: the next sweep may be too late
        if close:
            self._linger()
        self._advance()

    def _tell_gone(self) -> None:
        if self._running is not None and self._running.call is not None and not self._running.call.gone:
            self._running.call.hang_up()

    # Waiting and ending.

    def _arm(self) -> None:
        """Set the deadline anew if we now wait for something else, or if a body made progress."""
        if self._transport.is_closing() or self._lingers:
            return
        if self._stuck:
            awaits = Await.WRITE
        elif self._running is not None or self._yielded:
            awaits = Await.ANSWER
        else:
            awaits = _AWAITED[self._reader.phase]
        if awaits is not self._awaits or (awaits is Await.BODY and self._reader.progress >= _PROGRESS):
            self._reader.progress = 0
            self._set_deadline(awaits)

    def _set_deadline(self, awaits: Await) -> None:
        self._awaits = awaits
        self.deadline = self._listener.now() + self._listener.patience[awaits]
        if awaits is Await.WRITE:
            self._unwritten = self._transport.get_write_buffer_size()

    def _has_read(self) -> bool:
        """Slow is not deaf: a large answer may take a while, as long as the client goes on reading."""
        return self._unwritten - self._transport.get_write_buffer_size() >= _READ_PROGRESS

    def _set_reading(self, wanted: bool) -> None:
        if wanted is not self._paused:
            return
        self._paused = not wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _close(self) -> None:
        self._deaf = True
        self._unread = b""
        if not self._transport.is_closing():
            self._set_deadline(Await.WRITE)  # what was written still has to leave
            self._transport.close()

    def _linger(self) -> None:
        """Close our side and read on for a moment: bytes that arrive at a closed socket reset the connection,
        and the client would lose the answer that tells it what was wrong."""
        self._deaf = True
        self._unread = b""
        self._lingers = True
        if self._peer_done or not self._transport.can_write_eof():
            self._close()
            return
        self._set_deadline(Await.HANG_UP)
        self._transport.write_eof()


def _peer_of(transport: asyncio.Transport, address: str) -> Peer:
    local = transport.get_extra_info("sockname") or ("localhost", 80)
    scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
    host = f"[{local[0]}]" if ":" in local[0] else local[0]
    return Peer(address, scheme, f"{host}:{local[1]}", client_subject(transport))
