"""A value that arrives later, and running a coroutine without an event-loop task.

Handlers are plain ``async def`` functions. Most requests wait once, for their commit, so a task for each would cost
more than the work itself: :func:`run` executes the coroutine in place, and what it awaits calls it back. It may
await a :class:`Promise` and an asyncio future or task, in any order. Anything else raises TypeError in it.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError, Event, isfuture
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

import msgspec

log = logging.getLogger(__name__)

T = TypeVar("T")


class Promise(msgspec.Struct, Generic[T], eq=False):
    """A result that is set once, by :meth:`resolve` or :meth:`fail`, and read by ``await`` or :meth:`on_done`.

    Every request makes or awaits a few of these: a struct, because its constructor runs no Python.
    """

    done: bool = False
    _value: Any = None
    _error: BaseException | None = None
    _callbacks: list[Callable[[Promise[T]], None]] | None = None

    def resolve(self, value: T) -> None:
        assert not self.done, "a promise is set once"
        self.done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback(self)
            except Exception:
                # Many requests wait for one commit: an error in one must not keep the others from their answers.
                log.exception("a callback of a promise failed")

    def fail(self, error: BaseException) -> None:
        assert not self.done, "a promise is set once"
        self._error = error
        self.resolve(None)  # type: ignore[arg-type]

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    @property
    def failed(self) -> bool:
        return self._error is not None

    def on_done(self, callback: Callable[[Promise[T]], None]) -> None:
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]


class Running(msgspec.Struct, eq=False):
    """A coroutine under way, and what the promise or future that it awaits calls back.

    A subclass says in :meth:`ended` what becomes of the outcome. One object does both, because a closure that names
    itself is a reference cycle, which only the garbage collector would free.
    """

    coroutine: Any

    def ended(self, value: Any, error: BaseException | None) -> None:
        """This is called once, with the value that the coroutine returned or the error that it raised."""
        raise NotImplementedError

    def __call__(self, _: object = None) -> None:
        """Run until the coroutine waits or ends."""
        try:
            awaited = self.coroutine.send(None)
            while type(awaited) is not Promise:
                if isfuture(awaited):
                    awaited._asyncio_future_blocking = False  # as a task does: we took over the wait
                    awaited.add_done_callback(self)
                    return
                refused = TypeError(f"cannot await {type(awaited).__name__} here: only promises and futures")
                awaited = self.coroutine.throw(refused)
        except StopIteration as stop:
            self.ended(stop.value, None)
        except (Exception, CancelledError) as error:
            self.ended(None, error)
        else:
            if awaited._callbacks is None:
                awaited._callbacks = [self]
            else:
                awaited._callbacks.append(self)


class _Callback(Running):
    done: Callable[[Any, BaseException | None], None]

    def ended(self, value: Any, error: BaseException | None) -> None:
        self.done(value, error)


def run(coroutine: Coroutine[Any, None, T], done: Callable[[T | None, BaseException | None], None]) -> None:
    """Run ``coroutine`` until it ends, here and in the callbacks of what it awaits; then call ``done`` once."""
    _Callback(coroutine, done)()


def start(coroutine: Coroutine[Any, None, T]) -> Promise[T]:
    """Run ``coroutine``; the promise gets its outcome."""
    promise: Promise[T] = Promise()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is None:
            promise.resolve(value)  # type: ignore[arg-type]
        else:
            promise.fail(error)

    run(coroutine, done)
    return promise


async def outcome(promise: Promise[T]) -> T:
    """Lets a task of the event loop wait for a promise, which it cannot await."""
    done = Event()
    promise.on_done(lambda _: done.set())
    await done.wait()
    return promise.result()


def run_detached(coroutine: Coroutine[Any, None, Any]) -> None:
    """Run ``coroutine`` in the background and log its error, if it ends with one."""

    def done(_: Any, error: BaseException | None) -> None:
        if error is not None:
            log.error("background work failed", exc_info=error)

    run(coroutine, done)
