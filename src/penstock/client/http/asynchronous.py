"""Exchanges on asyncio. A task that is cancelled ends the connection of its exchange, and no other.

An answer may be on its way then, with messages that it has hidden. So the connection is half-closed, which ends a
long poll of Penstock without messages, and read for another moment: what comes can be given back. TLS cannot do that.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

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

_LATE_S = 2.0  # an answer that was on its way takes milliseconds
_UNDO_S_MAX = 5.0

T = TypeVar("T")


class AsyncConnection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, reader: AnswerReader | None = None) -> None:
        """``reader``: None: one that reads whole answers."""
        self._loop = loop
        self._reader = reader or AnswerReader()
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[HttpResponse] | None = None
        self._was_used = False
        self._is_connected = False
        self._poll = select.poll()
        self._unread: HttpResponse | None = None
        self.late: asyncio.Future[HttpResponse] | None = None

    async def exchange(
        self, request: bytes, timeout_s: float, sink: Sink | None = None, *, keeps_late: bool = False
    ) -> HttpResponse:
        """Raises ExchangeFailed; then, and if it is cancelled, the connection is closed. ``keeps_late``: if it is
        cancelled, it is closed only after the answer came as ``late``."""
        self._reader.expect(sink)
        waiting: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._waiting = waiting
        timer = self._loop.call_later(timeout_s, self._time_out, timeout_s)
        self._transport.write(request)
        try:
            return await waiting
        except BaseException as error:
            if keeps_late and isinstance(error, asyncio.CancelledError):
                self.late = self._late_answer(waiting)
            else:
                self.close()
            raise
        finally:
            timer.cancel()
            if self._waiting is waiting:
                self._waiting = None
            self._was_used = True

    def _late_answer(self, waiting: asyncio.Future[HttpResponse]) -> asyncio.Future[HttpResponse]:
        if not waiting.cancelled():
            return waiting  # it was there already
        late: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._waiting = late
        if self._unread is not None:
            late.set_result(self._unread)
        elif self._is_connected and self._transport.can_write_eof():
            self._transport.write_eof()
            self._loop.call_later(_LATE_S, self._fail_if, late)
        else:  # it is lost, or has TLS
            self._fail_if(late)
        return late

    @property
    def may_go_on(self) -> bool:
        """Whether the connection can take another request."""
        return self._is_connected

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used: nothing was asked, so whatever can be read now is the end of the
        stream, which the loop has not seen yet."""
        return self._is_connected and not self._poll.poll(0)

    def close(self) -> None:
        self._is_connected = False
        self._transport.abort()

    def _fail(self, failure: ExchangeFailed) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(failure)

    def _time_out(self, timeout_s: float) -> None:
        self._fail(ExchangeFailed.to_answer(timeout_s))

    def _fail_if(self, late: asyncio.Future[HttpResponse]) -> None:
        if not late.done():
            late.set_exception(ExchangeFailed("the task was cancelled"))

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._is_connected = True

    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        if waiting is None or (waiting.done() and not waiting.cancelled()):
            self.close()  # nothing was asked
            return
        try:
            answer = self._reader.feed(data)
        except ExchangeFailed as failure:
            self._fail(failure)
            return
        if answer is not None:
            if not self._reader.may_go_on:
                self.close()
            if waiting.cancelled():  # and its task does not know it yet
                self._unread = answer
            else:
                waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_connected = False
        if error is None and (answer := self._reader.end()) is not None:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(answer)
            return
        where = " in the middle of its answer" if self._reader.has_begun else ""
        reason = f"the server closed the connection{where}" if error is None else reason_of(error)
        self._fail(ExchangeFailed(reason, is_stale=self._was_used and not where))


class AsyncNetwork:
    """Makes at most ``max_connections`` exchanges at a time; more of them wait. It belongs to the event loop of its
    first exchange."""

    def __init__(self, max_connections: int) -> None:
        self._limit = checked_limit(max_connections)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(max_connections)
        self._idle: IdleConnections[AsyncConnection] = IdleConnections()
        self._tls = TlsContexts()
        self._afterwards: set[asyncio.Task[None]] = set()

    async def exchange(
        self,
        address: Address,
        request: bytes,
        timeout_s: float,
        sink: Sink | None = None,
        abandoned: Abandoned | None = None,
    ) -> HttpResponse:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop: make one for each loop")
        if self._free.locked():
            await self._wait_for_a_free_one(timeout_s)
        else:
            await self._free.acquire()
        try:
            connection = self._idle.take(address) or await self._connect(address, timeout_s)
            try:
                answer = await connection.exchange(request, timeout_s, sink, keeps_late=abandoned is not None)
            except asyncio.CancelledError:
                if abandoned is not None and connection.late is not None:
                    task = loop.create_task(self._undo(connection, connection.late, abandoned))
                    self._afterwards.add(task)
                    task.add_done_callback(self._afterwards.discard)
                raise
            if connection.may_go_on:
                self._idle.put(address, connection)
            return answer
        finally:
            self._free.release()

    async def _undo(
        self, connection: AsyncConnection, late: asyncio.Future[HttpResponse], abandoned: Abandoned
    ) -> None:
        try:
            answer = await late
        except ExchangeFailed:
            return
        finally:
            connection.close()
        await abandoned(answer)

    async def _wait_for_a_free_one(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise no_connection(self._limit, timeout_s) from None

    async def _connect(self, address: Address, timeout_s: float) -> AsyncConnection:
        loop = asyncio.get_running_loop()
        context = self._tls.of(address)
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: AsyncConnection(loop),
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname=address.host if context is not None else None,
                )
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            raise ExchangeFailed.to_connect(error) from None
        return connection

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    def apart(self, function: Callable[[], T]) -> Awaitable[T]:
        return asyncio.to_thread(function)

    async def close(self) -> None:
        if self._afterwards:
            await asyncio.wait(self._afterwards, timeout=_UNDO_S_MAX)
        self._idle.close()
        await asyncio.sleep(0)  # connections end in the next turn of the loop
