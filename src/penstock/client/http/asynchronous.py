"""Exchanges on asyncio. A task that is cancelled closes the connection of its exchange, and no other."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from penstock.client.http.exchange import (
    Address,
    Answer,
    AnswerReader,
    ExchangeFailed,
    IdleConnections,
    Sink,
    TlsContexts,
    no_connection,
    reason_of,
)

T = TypeVar("T")


class AsyncConnection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = AnswerReader()
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[Answer] | None = None
        self._was_used = False
        self._is_connected = False
        self._poll = select.poll()

    async def exchange(self, request: bytes, timeout_s: float, sink: Sink | None) -> Answer:
        """Raises ExchangeFailed; then, and if it is cancelled, the connection is closed."""
        self._reader.expect(sink)
        waiting: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting = waiting
        timer = self._loop.call_later(timeout_s, self._time_out, timeout_s)
        self._transport.write(request)
        try:
            return await waiting
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiting = None
            self._was_used = True

    @property
    def may_go_on(self) -> bool:
        """With another request."""
        return self._is_connected

    @property
    def is_open(self) -> bool:
        """Nothing was asked: whatever can be read now is the end of the stream, which the loop has not seen yet."""
        return self._is_connected and not self._poll.poll(0)

    def close(self) -> None:
        self._is_connected = False
        self._transport.abort()

    def _fail(self, failure: ExchangeFailed) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(failure)

    def _time_out(self, timeout_s: float) -> None:
        self._fail(ExchangeFailed.to_answer(timeout_s))

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._is_connected = True

    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            self.close()  # nothing was asked
            return
        try:
            answer = self._reader.feed(data)
        except ExchangeFailed as failure:
            waiting.set_exception(failure)
            return
        if answer is not None:
            if not self._reader.may_go_on:
                self.close()
            waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_connected = False
        where = " in the middle of its answer" if self._reader.has_begun else ""
        reason = f"the server closed the connection{where}" if error is None else reason_of(error)
        self._fail(ExchangeFailed(reason, is_stale=self._was_used and not where))


class AsyncNetwork:
    """At most ``max_connections`` exchanges at a time; more of them wait. It belongs to the event loop of its first
    exchange."""

    def __init__(self, max_connections: int) -> None:
        self._limit = max_connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(max_connections)
        self._idle: IdleConnections[AsyncConnection] = IdleConnections()
        self._tls = TlsContexts()

    async def exchange(
        self, address: Address, request: bytes, timeout_s: float, sink: Sink | None = None
    ) -> Answer:
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
            answer = await connection.exchange(request, timeout_s, sink)
            if connection.may_go_on:
                self._idle.put(address, connection)
            return answer
        finally:
            self._free.release()

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
        self._idle.close()
        await asyncio.sleep(0)  # connections end in the next turn of the loop
