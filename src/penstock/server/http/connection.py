"""One HTTP/1.1 connection, directly on the event loop's transport.

Requests of a connection run one after the other, so that pipelined responses are sent in order and a later request
sees what an earlier one did. A request that arrives whole while no other is being served takes the short way through
:meth:`Connection.data_received`; everything else goes through :meth:`Connection._advance`. On a busy server they wait
for their turn (:mod:`penstock.server.http.request_turns`).

Everything that is waited for has a deadline, except a running request: a long poll is never cut. A deadline is an
attribute, copied from the listener's table, that the listener checks once per tick.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, cast

from penstock.server.http.parser import BETWEEN, BODY, HEAD, RequestParser, request_ids
from penstock.server.http.request import HttpError, Peer, Request
from penstock.server.http.request_turns import SIGNED, UNSIGNED, VERIFIED
from penstock.server.http.response import (
    CLOSE,
    CONTINUE,
    KEEP_ALIVE,
    encode_response,
    encode_stream_head,
    error_response,
    with_headers,
)
from penstock.server.request_log import log_when_answered
from penstock.server.tls import client_subject
from penstock.wire.service import Response

if TYPE_CHECKING:
    from penstock.server.http.listener import Listener

NEVER = float("inf")

# What a connection waits for; each has its own time-out. The first three are the phases of the parser.
IDLE, READ_HEAD, READ_BODY = BETWEEN, HEAD, BODY
RESPOND = 3  # the response of the running request
DRAIN = 4  # the client has to read what was written
CLOSING = 5  # the client has to close its side

_HEAD_PIECE = 16 * 1024  # parsed at once at the beginning of a request: bounds how many can begin at once
_BODY_PIECE = 64 * 1024
_STOP_IDLE_S = 1.0  # for an idle TLS client to acknowledge the end, when the server stops
_LARGE_RESPONSE = 1024 * 1024
_READ_PROGRESS = 4 * 1024  # a body that grows by less than this within its time-out has stalled
_WRITE_PROGRESS = 64 * 1024  # so has a client that reads less than this of its responses

log = logging.getLogger("penstock.http")


class Connection(asyncio.Protocol):
    __slots__ = (
        "_address",
        "_advancing",
        "_awaits",
        "_closed_by_peer",
        "_discarding",
        "_drained",
        "_error",
        "_half_closed",
        "_in_line",
        "_listener",
        "_paused",
        "_peer",
        "_running",
        "_stream",
        "_stuck",
        "_transport",
        "_undrained",
        "_unread",
        "buffered_bytes",
        "client",
        "deadline",
        "parser",
        "refused",
        "reserved",
        "silent",
    )  # fmt: skip

    def __init__(self, listener: Listener, address: str, client: str | None) -> None:
        self._listener = listener
        self._address = address  # from accept(): a socket that was reset does not know it any more
        self.client = client  # whose connections are counted together; None: not counted
        self.silent = True  # no whole request came yet
        self.reserved = False  # beyond the limit: for health checks only
        self.refused: HttpError | None = None  # decided when it was accepted
        self.deadline = NEVER
        self.buffered_bytes = 0  # of requests that do not run yet
        self.parser: RequestParser
        self._peer: Peer
        self._transport: asyncio.Transport
        self._awaits = CLOSING
        self._unread: bytes | memoryview = b""  # received, not yet parsed
        self._running: Request | None = None
        self._stream: asyncio.Task[None] | None = None  # writes the response of the running request
        self._drained: asyncio.Future[None] | None = None  # the stream waits for it
        # It is written after the responses before it; then the connection ends.
        self._error: HttpError | None = None
        self._advancing = False
        self._in_line = False  # requests wait until this connection has its turn
        self._paused = False  # reading is paused
        self._stuck = False  # the client does not read
        self._discarding = False  # what still arrives is not parsed
        self._half_closed = False  # we have closed our side
        self._closed_by_peer = False  # the client sends nothing more
        self._undrained = 0  # bytes written and not read, when we began to wait for the client

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        listener = self._listener
        self._peer = _peer_of(self._transport, self._address)
        self.parser = RequestParser(self._peer, listener.limits)
        listener.connected(self)
        error = HttpError(503, "The server is stopping.") if listener.stopping else self.refused
        if error is not None:
            self._write_error(error)
            self._close()
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        if self._awaits > READ_BODY or self._unread or self._closed_by_peer or len(data) > _HEAD_PIECE:
            if not self._discarding:
                self._unread = bytes(self._unread) + data if self._unread else data
                self._advance()
            return
        parser = self.parser
        try:
            self._unread = parser.feed(data)
        except HttpError as error:
            self._end_with(error)
        else:
            if parser.requests:
                if self._listener.turns.over:
                    self._wait_in_line()
                    if self._has_one_request():
                        self._set_buffered(len(data))
                        self._awaits, self.deadline = RESPOND, NEVER
                        return
                else:
                    self._start(parser.requests.popleft())
                    if parser.phase == BETWEEN and not (
                        parser.requests or self.buffered_bytes or self._unread
                    ):
                        return
        self._advance()

    def eof_received(self) -> bool:
        # A closed client and a half-closed one look the same. The running request learns of it, so that a long poll
        # ends without handing out messages; a response that costs nothing if it is lost is still written.
        self._closed_by_peer = True
        self._disconnected()
        if self._half_closed:
            return False
        self._advance()
        return not self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        self._discarding = True
        self._unread = b""
        self.parser.close()
        self._count_buffered()
        self._listener.disconnected(self)
        self._disconnected()

    def pause_writing(self) -> None:
        self._stuck = True
        self._set_deadline()

    def resume_writing(self) -> None:
        self._stuck = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._advance()

    # Called by the listener.

    def expire(self) -> None:
        """Act on a deadline that has passed: close the connection, or respond that a request did not arrive in
        time."""
        if self._awaits == IDLE:
            self._close()
        elif self._awaits in (READ_HEAD, READ_BODY):
            part = "headers" if self._awaits == READ_HEAD else "body"
            self.give_up(HttpError(408, f"The request's {part} did not arrive in time."))
        elif self._awaits == DRAIN and self._has_drained():
            self._wait_for(DRAIN)
        else:
            self._transport.abort()

    def stop(self) -> None:
        """The server stops: an idle connection closes now, any other after the response it waits for."""
        is_idle = self._running is None and not self.parser.requests and not self._unread
        if is_idle and self.parser.phase == BETWEEN:
            unwritten = self._transport.get_write_buffer_size()
            self._close()
            if not unwritten:
                # TLS waits for the client's acknowledgement, and an idle client does not read.
                self.deadline = min(self.deadline, monotonic() + _STOP_IDLE_S)

    def abort(self) -> None:
        self._stuck = False  # what was written is dropped, and is not counted any more
        self._transport.abort()

    def give_up(self, error: HttpError) -> None:
        """Drop what was read and does not run yet. The error follows the response of what runs."""
        self._end_with(error)
        self.parser.requests.clear()
        self._count_buffered()
        self._advance()

    @property
    def unread_bytes(self) -> int:
        """How many bytes of responses the client has not read."""
        return self._transport.get_write_buffer_size() if self._stuck else 0

    # Reading and running.

    def take_turn(self) -> None:
        self._in_line = False
        if self._has_one_request():
            self._set_buffered(0)
            self._start(self.parser.requests.popleft())
        else:
            self._advance(is_turn=True)  # does nothing if the connection has closed meanwhile

    def _has_one_request(self) -> bool:
        """Whether there is nothing to do but to run one request: so it is for the clients that wait for each response
        before they send the next."""
        parser = self.parser
        return (
            len(parser.requests) == 1
            and parser.phase == BETWEEN
            and not (self._unread or self._stuck or self._paused or self._error or self._closed_by_peer)
            and not (self._half_closed or self._transport.is_closing())
        )

    def _advance(self, *, is_turn: bool = False) -> None:
        """Start what can start, parse what may be parsed, then wait for the right thing. ``is_turn``: one request may
        be parsed and started now, even if others wait in line."""
        if self._advancing:  # the loop below continues
            return
        self._advancing = True
        transport, parser = self._transport, self.parser
        turns, limits = self._listener.turns, self._listener.limits
        try:
            while not self._in_line and not self._stuck and not transport.is_closing():
                starts = parser.requests and self._running is None and not self._half_closed
                if not starts and not (self._unread and len(parser.requests) < limits.pipelined_max):
                    break
                if turns.over and not is_turn and self._running is None:
                    self._wait_in_line()
                elif starts:
                    is_turn = False
                    self._start(parser.requests.popleft())
                else:
                    self._parse()
        finally:
            self._advancing = False
        if transport.is_closing():
            self._count_buffered()
            return
        if self._running is None and not self._stuck and not self._half_closed and not self._in_line:
            self._nothing_runs()
        self._count_buffered()
        self._set_reading(not self._stuck and not self._unread)
        self._set_deadline()

    def _wait_in_line(self) -> None:
        self._in_line = True
        rank, client = UNSIGNED, self.client or self
        if self._peer.verified:
            rank, client = VERIFIED, self._peer.verified
        elif self.parser.requests:
            first = self.parser.requests[0]
            if b"authorization" in first.headers or b"X-Amz-Signature=" in first.target:
                rank = SIGNED
        self._listener.turns.wait(self, rank, client)

    def _nothing_runs(self) -> None:
        if self._error is not None:
            self._write_error(self._error)
            self._close_write_side()
        elif self._closed_by_peer:
            self._close()
        elif self.parser.continue_due:
            self.parser.continue_due = False
            self._transport.write(CONTINUE)

    def _parse(self) -> None:
        piece = self._unread
        size = _BODY_PIECE if self.parser.phase == BODY else _HEAD_PIECE
        if len(piece) <= size:
            self._unread = b""
        else:
            view = memoryview(piece)
            piece, self._unread = view[:size], view[size:]
        turns, began = self._listener.turns, monotonic()
        try:
            again = self.parser.feed(piece)
        except HttpError as error:
            self._end_with(error)
        else:
            if again:
                self._unread = again + bytes(self._unread)
        turns.left_s -= monotonic() - began
        if turns.left_s < 0:
            turns.end()

    def _count_buffered(self) -> None:
        self._set_buffered(self.parser.buffered_bytes + len(self._unread))

    def _set_buffered(self, buffered: int) -> None:
        """Connections together may buffer only so much; beyond it some are closed, perhaps this one."""
        listener = self._listener
        listener.buffered_bytes += buffered - self.buffered_bytes
        self.buffered_bytes = buffered
        if listener.buffered_bytes > listener.limits.buffered_bytes_max:
            listener.shed_requests()

    def _end_with(self, error: HttpError) -> None:
        """Read no further. The error is written when the requests before it are answered."""
        self._error = error
        self._discarding = True
        self._unread = b""
        self.parser.stop()

    def _start(self, request: Request) -> None:
        listener = self._listener
        if self.silent:
            self.silent = False
            listener.first_request(self)
        self._running = request
        self._awaits = RESPOND
        self.deadline = NEVER
        request.on_response = self._respond
        if listener.log_requests:
            log_when_answered(request)
        if self.reserved and not listener.is_health_check(request):
            request.keep_alive = False
            listener.count_refused()
            request.respond(
                error_response(HttpError(503, "Too many connections. Please try again."), request.id)
            )
        else:
            turns, began = listener.turns, monotonic()
            listener.serve(request)
            turns.left_s -= monotonic() - began
            if turns.left_s < 0:
                turns.end()
            if self._running is request:
                request.release()

    # Writing.

    def _respond(self, request: Request, response: Response) -> None:
        listener, transport, call = self._listener, self._transport, request.call
        give_back = call.if_unread if call is not None else None
        if transport.is_closing() or (self._closed_by_peer and give_back is not None):
            self._running = None
            if give_back is not None:
                give_back()
            self._close()
            return
        if response.status >= 500 and call is not None:
            # 503 comes in large numbers when the server is overloaded, and would hide the others.
            level = logging.DEBUG if response.status == 503 else logging.WARNING
            log.log(level, "answered %d", response.status, extra={"request_id": request.id})
        if request.cors_headers:
            response = with_headers(response, request.cors_headers)
        if response.stream is not None:
            self._stream = asyncio.get_running_loop().create_task(self._write_stream(request, response))
            return
        close = listener.closes_after_response or not request.keep_alive or self.reserved
        # HTTP/1.0 closes unless both sides ask for the opposite.
        connection = CLOSE if close else KEEP_ALIVE if request.version == "1.0" else b""
        head_only = request.method == b"HEAD"
        self._running = None
        is_large = len(response.body) > _LARGE_RESPONSE
        without_body = head_only or is_large
        transport.write(encode_response(response, listener.date.line, connection, head_only=without_body))
        if is_large and not head_only:
            transport.write(response.body)  # by itself: megabytes are not copied once more
        if self._stuck and is_large:
            listener.shed_responses()  # perhaps this one: the next tick may be too late
        if close:
            self._close_write_side()
        elif not (self.buffered_bytes or self._stuck or self._error or self._closed_by_peer or self._paused):
            self._awaits = IDLE
            self.deadline = listener.deadlines[IDLE]
            return
        self._advance()

    async def _write_stream(self, request: Request, response: Response) -> None:
        """Write a stream piece by piece, as fast as the client reads. This is cancelled when the client
        disconnects."""
        transport, stream = self._transport, response.stream
        assert stream is not None
        chunked = request.version != "1.0"
        close = self._listener.closes_after_response or not request.keep_alive or not chunked or self.reserved
        connection = CLOSE if close else b""
        transport.write(encode_stream_head(response, self._listener.date.line, connection, chunked=chunked))
        try:
            if request.method != b"HEAD":
                async for piece in stream:
                    if piece:
                        transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                    piece = b""  # it may be large, and the next one may be long in coming
                    if self._stuck:
                        self._drained = asyncio.get_running_loop().create_future()
                        await self._drained
                if chunked:
                    transport.write(b"0\r\n\r\n")
        except Exception as error:
            # The head has left: only an incomplete body can tell the client.
            log.error("stream failed with %s", type(error).__name__, extra={"request_id": request.id})
            transport.abort()
        finally:
            self._running = self._stream = self._drained = None
            if (close_stream := getattr(stream, "aclose", None)) is not None:
                await close_stream()
        if not transport.is_closing():
            if close or self._listener.closes_after_response:
                self._close_write_side()
            self._advance()

    def _disconnected(self) -> None:
        """Tell the running request that the client does not read its response."""
        if self._stream is not None:
            self._stream.cancel()
            self._transport.abort()
        elif self._running is not None and self._running.call is not None and not self._running.call.gone:
            self._running.call.hang_up()

    def _write_error(self, error: HttpError) -> None:
        response = error_response(error, next(request_ids()))
        self._transport.write(encode_response(response, self._listener.date.line, CLOSE))

    # Waiting and ending.

    def _set_deadline(self) -> None:
        """Set the deadline if the connection now waits for something else, or if a body made progress."""
        if self._half_closed or self._transport.is_closing():
            return
        if self._stuck:
            awaits = DRAIN
        elif self._running is not None or self._in_line:
            awaits = RESPOND
        else:
            awaits = self.parser.phase
        if awaits != self._awaits or (awaits == READ_BODY and self.parser.progress >= _READ_PROGRESS):
            self.parser.progress = 0
            self._wait_for(awaits)

    def _wait_for(self, awaits: int) -> None:
        self._awaits = awaits
        self.deadline = self._listener.deadlines[awaits]
        if awaits == DRAIN:
            self._undrained = self._transport.get_write_buffer_size()

    def _has_drained(self) -> bool:
        """A large response may take a while, as long as the client keeps reading."""
        return self._undrained - self._transport.get_write_buffer_size() >= _WRITE_PROGRESS

    def _set_reading(self, wanted: bool) -> None:
        if wanted is not self._paused:
            return
        self._paused = not wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _close(self) -> None:
        self._discarding = True
        self._unread = b""
        if not self._transport.is_closing():
            self._wait_for(DRAIN)  # what was written still has to be sent
            self._transport.close()

    def _close_write_side(self) -> None:
        """Close our side and read on for a moment: bytes that arrive at a closed socket reset the connection, and the
        client would lose the response."""
        self._discarding = True
        self._unread = b""
        self._half_closed = True
        if self._closed_by_peer or not self._transport.can_write_eof():
            self._close()
            return
        self._wait_for(CLOSING)
        self._transport.write_eof()


def _peer_of(transport: asyncio.Transport, address: str) -> Peer:
    local = transport.get_extra_info("sockname") or ("localhost", 80)
    scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
    host = f"[{local[0]}]" if ":" in local[0] else local[0]
    return Peer(address, scheme, f"{host}:{local[1]}", client_subject(transport))
