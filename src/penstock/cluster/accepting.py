"""Accepts the connections of other processes of the cluster and answers their calls."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.cluster.channel import Channel, LinkLimits
from penstock.cluster.frames import (
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
from penstock.promise import run

log = logging.getLogger("penstock.cluster")

_STOPS = "this process stops"
_TEXT_MAX = 512  # of an error
_RETURNABLE_BYTES_MAX = 32 * 1024 * 1024
_SMALL_CALL_BYTES = 4096  # the caller can keep this many bytes of every client that may wait
_SOCKET_PATH_BYTES_MAX = 107  # Linux
_LOG_REFUSED_S = 60.0
_BACKLOG = 128
_ACCEPT_PAUSE_S = 1.0
_CLOSE_S = 1.0  # until connections are closed whose other side does not close them


class IncomingCall:
    """One call of a peer. It is answered by one call of :meth:`answer` or :meth:`fail`."""

    __slots__ = ("_link", "id", "on_cancel", "payload")

    def __init__(self, link: IncomingLink, number: int, payload: bytes) -> None:
        self._link = link
        self.id = number
        self.payload = payload
        self.on_cancel: Callable[[], None] | None = None  # called once, if the client or the peer disconnects

    def answer(self, payload: bytes, if_unread: Callable[[], None] | None = None) -> None:
        """``if_unread`` is called if the answer did not reach the client."""
        self.on_cancel = None
        self._link.answer(self.id, payload, if_unread)

    def fail(self, error: BaseException | None) -> None:
        self.on_cancel = None
        self._link.fail(self.id, error)

    def cancel(self) -> None:
        """Tell the handler that the client or the peer has disconnected. The call still has to be answered."""
        if self.on_cancel is not None:
            callback, self.on_cancel = self.on_cancel, None
            callback()


Answering = Callable[[IncomingCall], None]


def answered_by(handler: Callable[[bytes], Coroutine[Any, Any, bytes]]) -> Answering:
    """Answers a call with what the coroutine returns. An error of :mod:`penstock.errors` is raised at the caller,
    too."""

    def answering(call: IncomingCall) -> None:
        def done(payload: bytes | None, error: BaseException | None) -> None:
            if error is None:
                call.answer(payload or b"")
            else:
                call.fail(error)

        run(handler(call.payload), done)

    return answering


class IncomingLink:
    """The calls of one peer."""

    def __init__(self, listener: LinkListener) -> None:
        self._listener = listener
        limits = listener.limits
        self.channel = Channel(self, "accepts", listener.security, limits)
        self.is_open = False
        # Runs until the connection is made, with TLS if that is used.
        self.connecting: asyncio.Task[None] | None = None
        self.running: dict[int, IncomingCall] = {}
        self._payloads = Payloads(limits.unfinished_bytes_max)
        self._large: list[int] = []  # calls since the last tick
        self._last_id = 0  # of the calls that were carried out
        self._goes_away = False
        # Answers of the last one to two ticks whose messages can be returned, with their size: a client may have
        # disconnected while its answer was on the way.
        self._returnable: dict[int, tuple[Callable[[], None], int]] = {}
        self._returnable_before: dict[int, tuple[Callable[[], None], int]] = {}
        self._returnable_bytes = 0

    def answer(self, number: int, payload: bytes, if_unread: Callable[[], None] | None) -> None:
        if self.running.pop(number, None) is None:  # the connection was lost meanwhile
            if if_unread is not None:
                if_unread()
            return
        limits = self._listener.limits
        if len(payload) > limits.payload_bytes_max:
            self._withhold(number, "The response is too large to be passed on by another node.", if_unread)
            return
        if if_unread is not None and self.channel.unread_bytes + len(payload) > limits.unread_messages_max:
            self._withhold(
                number,
                "Too many messages are on their way from the node that owns this queue. Try again.",
                if_unread,
            )
            return
        ahead, last = split_payload(payload)
        for piece in ahead:
            self.channel.send(PieceFrame(number, piece), len(piece))
        self.channel.send(AnswerFrame(number, last), len(last))
        if if_unread is not None and self._returnable_bytes + len(payload) <= _RETURNABLE_BYTES_MAX:
            self._returnable[number] = if_unread, len(payload)
            self._returnable_bytes += len(payload)
        self._listener.answered()

    def _withhold(self, number: int, reason: str, if_unread: Callable[[], None] | None) -> None:
        if if_unread is not None:
            if_unread()
        self._send_error(number, Unreachable(reason))

    def fail(self, number: int, error: BaseException | None) -> None:
        if not isinstance(error, PenstockError):
            log.error("a call of another node failed", exc_info=error)
            error = Unreachable("Another node failed to answer. Its log says why.")
        if self.running.pop(number, None) is not None:
            self._send_error(number, error)

    def _send_error(self, number: int, error: PenstockError) -> None:
        arguments = [each if isinstance(each, int) else str(each)[:_TEXT_MAX] for each in error.args]
        self.channel.send(ErrorFrame(number, type(error).__name__, arguments), _TEXT_MAX)
        self._listener.answered()

    def go_away(self) -> None:
        """Carry out no more calls, and say which was the last one. Then the other side closes the connection."""
        if not self._goes_away:
            self._goes_away = True
            self.channel.send(GoAwayFrame(self._last_id))
            self.channel.flush()

    def tick(self) -> None:
        self._returnable_bytes -= sum([size for _, size in self._returnable_before.values()])
        self._returnable_before, self._returnable = self._returnable, {}
        large, self._large = self._large, []
        for number in large:
            if number in self.running:
                self.channel.send(TakenFrame(number))
        if self.channel.is_late():
            self._listener.cut_off(self, "it did not prove in time that it knows the cluster secret")
        else:
            self.channel.tick()

    # Called by the channel.

    def opened(self) -> None:
        self.is_open = True

    def received(self, frames: list[Frame]) -> None:
        for frame in frames:
            match frame:
                case CallFrame():
                    self._start(frame)
                case CancelFrame():
                    self._cancel(frame.id)
                case PieceFrame():
                    self._payloads.add(frame)
                case PingFrame():
                    self.channel.send(frame)
                case _:
                    raise FrameError("a frame that only the side that accepted may send")

    def closed(self, reason: str) -> None:
        self._listener.ended(self, reason)
        running, self.running = self.running, {}
        self._returnable, self._returnable_before = {}, {}  # whether the client has them is not known
        for call in running.values():
            call.cancel()
        self._listener.answered()

    def _start(self, frame: CallFrame) -> None:
        if self._goes_away:
            return  # it was on its way, and its caller learns that it was not carried out
        self._last_id = frame.id
        if frame.id in self.running:
            raise FrameError("two calls with one number")
        payload = self._payloads.whole(frame)
        if len(payload) > _SMALL_CALL_BYTES:
            self._large.append(frame.id)
        call = self.running[frame.id] = IncomingCall(self, frame.id, payload)
        answering = self._listener.handlers.get(frame.kind)
        if answering is None:
            call.fail(Unreachable(f"Another node does not know the call {frame.kind[:32]!r}."))
            return
        try:
            answering(call)
        except Exception as error:
            if frame.id in self.running:
                call.fail(error)
            else:
                log.exception("a call of another node failed after its answer")

    def _cancel(self, number: int) -> None:
        call = self.running.get(number)
        if call is not None:
            call.cancel()
            return
        for recent in (self._returnable, self._returnable_before):
            if number in recent:
                give_back, size = recent.pop(number)
                self._returnable_bytes -= size
                give_back()


class LinkListener:
    def __init__(self, security: LinkSecurity, limits: LinkLimits | None = None) -> None:
        self.security = security
        self.limits = limits or LinkLimits()
        self.handlers: dict[str, Answering] = {}  # by kind of call
        self._sockets: list[socket.socket] = []
        self._links: dict[IncomingLink, None] = {}  # the oldest first
        self._ticker: asyncio.TimerHandle | None = None
        self._idle: asyncio.Event | None = None
        self._all_closed: asyncio.Event | None = None
        self._log_refused_at = 0.0

    def handle(self, kind: str, handler: Callable[[bytes], Coroutine[Any, Any, bytes]]) -> None:
        self.handlers[kind] = answered_by(handler)

    async def listen(self, address: str) -> str:
        """Returns the address with its port, if that was 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        if "/" in address:
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(_private_path(address))
            os.chmod(address, 0o600)
            listening.listen(_BACKLOG)
        else:
            assert self.security.secret, "a port needs a secret"
            host, _, port = address.rpartition(":")
            found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
            family, _, _, _, name = found[0]
            listening = socket.create_server(name[:2], family=family, backlog=_BACKLOG)
            address = f"{host}:{listening.getsockname()[1]}"
        listening.setblocking(False)
        self._sockets.append(listening)
        loop.add_reader(listening, self._accept, listening)
        if self._ticker is None:
            self._tick()
        return address

    async def close(self, grace_s: float) -> None:
        """Accept nothing new, wait for running calls at most for ``grace_s``, then close every connection.

        A call that arrives meanwhile is answered, or its caller learns that it was not carried out: closing a
        connection at once would leave the caller in doubt."""
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._sockets = []
        self._idle = asyncio.Event()
        self.answered()
        if not self._idle.is_set():
            try:
                await asyncio.wait_for(self._idle.wait(), grace_s)
            except TimeoutError:
                log.warning("some calls of other nodes were not answered within %g s", grace_s)
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for link in list(self._links):
            if link.is_open:
                link.go_away()
            else:
                self.cut_off(link, _STOPS)
        if self._links:
            self._all_closed = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), _CLOSE_S)
        for link in list(self._links):
            link.channel.finish()

    # Called by the links.

    def answered(self) -> None:
        if self._idle is not None and not any(link.running for link in self._links):
            self._idle.set()

    def ended(self, link: IncomingLink, reason: str) -> None:
        self._links.pop(link, None)
        if self._all_closed is not None and not self._links:
            self._all_closed.set()
        now = asyncio.get_running_loop().time()
        if not link.is_open and now >= self._log_refused_at:
            self._log_refused_at = now + _LOG_REFUSED_S
            log.warning("refused a connection to the cluster's address: %s", reason)

    # Accepting, by hand: so that connections count before TLS is set up, and can be cut off.

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # There is no free descriptor: the socket stays readable, and the next try would fail, too.
            log.error(
                "cannot accept connections of other nodes, trying again in a second: %s", error.strerror
            )
            loop.remove_reader(listening)
            loop.call_later(_ACCEPT_PAUSE_S, self._accept_again, listening)
            return
        unproven = [link for link in self._links if not link.is_open]
        if len(unproven) >= self.limits.unproven_max:
            self.cut_off(unproven[0], "too many connections that have not proved the cluster secret")
        link = IncomingLink(self)
        self._links[link] = None
        link.connecting = loop.create_task(self._connect(accepted, link))

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _connect(self, accepted: socket.socket, link: IncomingLink) -> None:
        accepted.setblocking(False)
        tls = self.security.accept_tls if accepted.family != socket.AF_UNIX else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: link.channel, accepted, ssl=tls)
        except (OSError, asyncio.CancelledError) as error:
            accepted.close()
            link.channel.close(str(error) or "it did not finish its TLS handshake")
        finally:
            link.connecting = None

    def cut_off(self, link: IncomingLink, reason: str) -> None:
        if link.connecting is not None:
            link.connecting.cancel()
        link.channel.close(reason)

    def _tick(self) -> None:
        for link in list(self._links):
            link.tick()
        self._ticker = asyncio.get_running_loop().call_later(self.limits.tick_s, self._tick)


def _private_path(address: str) -> str:
    """Prepares a path at which only this user can connect. Raises OSError."""
    path = Path(address)
    if len(os.fsencode(address)) > _SOCKET_PATH_BYTES_MAX:
        raise OSError(f"the path of the socket {address} is longer than {_SOCKET_PATH_BYTES_MAX} bytes")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OSError(f"others can read {path.parent}, where processes reach each other: chmod 700 it")
    if path.is_socket():
        path.unlink()  # of a process that was killed
    return address
