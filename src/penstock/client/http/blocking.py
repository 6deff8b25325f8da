"""Exchanges on blocking sockets, for any number of threads. Its coroutines never suspend."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from penstock.client.http.exchange import (
    Abandoned,
    Address,
    AnswerReader,
    ExchangeFailed,
    HttpResponse,
    IdleConnections,
    Sink,
    TlsContexts,
    checked_limit,
    no_connection,
    reason_of,
)

_PIECE_BYTES = 64 * 1024  # more would be mapped and unmapped by malloc each time

T = TypeVar("T")


class BlockingConnection:
    def __init__(self, address: Address, context: ssl.SSLContext | None, timeout_s: float) -> None:
        """Raises ExchangeFailed."""
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
        except (OSError, ValueError) as error:
            raise ExchangeFailed.to_connect(error) from None
        self._timeout_s = timeout_s
        self._reader = AnswerReader()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._was_used = False
        self.may_go_on = True  # with another request

    def exchange(self, request: bytes, timeout_s: float, sink: Sink | None) -> HttpResponse:
        """Raises ExchangeFailed; then, and if anything else interrupts it, the connection is closed."""
        reader, was_used, self._was_used = self._reader, self._was_used, True
        reader.expect(sink)
        try:
            self._wait_at_most(timeout_s)
            self._socket.sendall(request)
            answer = self._received(reader)
            if answer is None:
                answer = self._rest(reader, timeout_s, has_sink=sink is not None)
        except TimeoutError:
            self.close()
            raise ExchangeFailed.to_answer(timeout_s) from None
        except OSError as error:
            self.close()
            is_stale = was_used and not reader.has_begun
            raise ExchangeFailed(reason_of(error), is_stale=is_stale) from None
        except BaseException:
            self.close()
            raise
        if not reader.may_go_on:
            self.may_go_on = False
            self.close()
        return answer

    def _rest(self, reader: AnswerReader, timeout_s: float, *, has_sink: bool) -> HttpResponse:
        end = time.monotonic() + timeout_s
        while True:
            self._wait_at_most(timeout_s if has_sink else max(end - time.monotonic(), 0.001))
            answer = self._received(reader)
            if answer is not None:
                return answer

    def _received(self, reader: AnswerReader) -> HttpResponse | None:
        """The answer, if it is complete with what comes next."""
        data = self._socket.recv(_PIECE_BYTES)
        if data:
            return reader.feed(data)
        answer = reader.end()
        if answer is None:
            where = " in the middle of its answer" if reader.has_begun else ""
            raise ConnectionError(f"the server closed the connection{where}")
        return answer

    def _wait_at_most(self, timeout_s: float) -> None:
        if timeout_s != self._timeout_s:
            self._socket.settimeout(timeout_s)
            self._timeout_s = timeout_s

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used: nothing was asked, so whatever can be read now is the end of the
        stream."""
        return self._socket.fileno() >= 0 and not self._poll.poll(0)

    def close(self) -> None:
        self._socket.close()


class ThreadLock:
    """A lock between threads, for coroutines that never suspend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class BlockingNetwork:
    """Makes at most ``max_connections`` exchanges at a time; more of them wait."""

    def __init__(self, max_connections: int) -> None:
        self._limit = checked_limit(max_connections)
        self._free = _permits(max_connections)
        _networks.add(self)
        self._idle: IdleConnections[BlockingConnection] = IdleConnections()
        self._tls = TlsContexts()

    async def exchange(
        self,
        address: Address,
        request: bytes,
        timeout_s: float,
        sink: Sink | None = None,
        abandoned: Abandoned | None = None,
    ) -> HttpResponse:
        try:
            self._free.get(timeout=timeout_s)
        except Empty:
            raise no_connection(self._limit, timeout_s) from None
        try:
            connection = self._idle.take(address)
            if connection is None:
                connection = BlockingConnection(address, self._tls.of(address), timeout_s)
            answer = connection.exchange(request, timeout_s, sink)
            if connection.may_go_on:
                self._idle.put(address, connection)
            return answer
        finally:
            self._free.put(None)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251

    def lock(self) -> ThreadLock:
        return ThreadLock()

    async def apart(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._idle.close()

    def after_fork(self) -> None:
        """Connections belong to the parent process, which keeps using them, and so do exchanges under way."""
        self._free = _permits(self._limit)
        self._idle.close_all()


def _permits(count: int) -> SimpleQueue[None]:
    """Makes a semaphore; that of ``threading`` costs ten times as much."""
    permits: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        permits.put(None)
    return permits


_networks: weakref.WeakSet[BlockingNetwork] = weakref.WeakSet()


def _after_fork() -> None:
    for network in _networks:
        network.after_fork()


os.register_at_fork(after_in_child=_after_fork)
