"""A producer or a publisher on an event loop in a thread of its own, for programs without asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

_STEPS_MAX = 100


class Sending(Protocol):
    """What runs in the thread."""

    async def flush(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...


P = TypeVar("P", bound=Sending)
T = TypeVar("T")


class _Step(NamedTuple, Generic[P]):
    run: Callable[[P], Awaitable[None]]
    result: Future[Any]


class SendingThread(Generic[P]):
    """Runs what ``make`` makes, which gets the threads that call a blocking client."""

    def __init__(self, make: Callable[[ThreadPoolExecutor], P], what: str, *, requests_max: int) -> None:
        """``what``: what it is called in errors. Raises what ``make`` raises."""
        self._what = what
        self._steps: Queue[_Step[P] | None] = Queue(_STEPS_MAX)  # None: there are no more
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_idle = False
        self._loop = asyncio.new_event_loop()
        threads = ThreadPoolExecutor(requests_max, f"penstock-{what}")
        started: Future[None] = Future()
        work = self._work(started, threads, make)
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(work,), daemon=True)
        self._thread.start()
        started.result()

    def submit(self, call: Callable[[P], Awaitable[asyncio.Future[T]]]) -> Future[T]:
        """Hand a message over. The future has its result, or the error. Raises RuntimeError once it is closed."""
        result: Future[T] = Future()

        async def submit(sending: P) -> None:
            outcome = await call(sending)
            outcome.add_done_callback(lambda done: self._copy(done, result))

        self._hand_over(_Step(submit, result))
        return result

    def flush(self) -> None:
        """Wait until each message that was submitted is stored or has failed. Raises RuntimeError once it is
        closed."""
        result: Future[None] = Future()

        async def flush(sending: P) -> None:
            await sending.flush()
            result.set_result(None)

        self._hand_over(_Step(flush, result))
        result.result()

    def close(self) -> None:
        """Refuse further messages, send the rest, and end the thread."""
        if not self._is_closed:
            self._hand_over(None)
        self._thread.join()
        self._loop.close()

    def _hand_over(self, step: _Step[P] | None) -> None:
        """Waits if too many are on their way."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"the {self._what} is closed")
            self._is_closed = step is None
            self._steps.put(step)
            if self._is_idle:
                self._is_idle = False
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- in the other thread ---------------------------------------------------------------------------------

    async def _work(
        self, started: Future[None], threads: ThreadPoolExecutor, make: Callable[[ThreadPoolExecutor], P]
    ) -> None:
        self._wake = asyncio.Event()
        with threads:
            try:
                made = make(threads)
                started.set_result(None)
            except Exception as error:
                started.set_exception(error)
                return
            async with made as sending:
                while (step := await self._next_step()) is not None:
                    if not step.result.set_running_or_notify_cancel():
                        continue
                    try:
                        await step.run(sending)
                    except Exception as error:
                        step.result.set_exception(error)

    async def _next_step(self) -> _Step[P] | None:
        while self._steps.empty():
            self._is_idle = True  # a thread looks at it after it has handed over, so nothing is missed
            if self._steps.empty():
                await self._wake.wait()
            self._wake.clear()
        return self._steps.get_nowait()

    def _copy(self, done: asyncio.Future[T], result: Future[T]) -> None:
        if done.cancelled():
            result.set_exception(RuntimeError(f"the {self._what} is closed"))
        elif (error := done.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(done.result())
