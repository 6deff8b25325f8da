"""A value that comes later, and the few lines that run a coroutine over such values without a task.

Handlers are plain ``async def`` functions that await nothing but :class:`Promise`. Most requests never suspend
more than once (for their commit), so an event-loop task for each would cost more than the work itself:
:func:`run` runs the coroutine in place, and the thing it waits for calls it back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Promise(Generic[T]):
    """Set once, by :meth:`resolve` or :meth:`fail`; read by ``await`` or :meth:`on_done`."""

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    def resolve(self, value: T) -> None:
        assert not self.done, "a Promise is set once"
        self._value = value
        self._finish()

    def fail(self, error: BaseException) -> None:
        assert not self.done, "a Promise is set once"
        self._error = error
        self._finish()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value

    def on_done(self, callback: Callable[[Promise[T]], None]) -> None:
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _finish(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                # Many strangers wait for one commit: what goes wrong for one must not reach the others.
                log.exception("a callback failed")

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.done:
            yield self
        return self.result()


Outcome = Callable[[T | None, BaseException | None], None]


class _Run(Generic[T]):
    """A coroutine under way. It is itself what its awaited value calls back: a closure that named itself would be a
    circle, and every request would wait for the garbage collector to be taken apart."""

    __slots__ = ("_done", "_send")

    def __init__(self, coroutine: Coroutine[Promise[Any], None, T], done: Outcome[T]) -> None:
        self._send = coroutine.send
        self._done = done

    def __call__(self, _: Promise[Any] | None = None) -> None:
        try:
            awaited = self._send(None)
        except StopIteration as stop:
            self._done(stop.value, None)
        except Exception as error:
            self._done(None, error)
        else:
            awaited.on_done(self)


def run(coroutine: Coroutine[Promise[Any], None, T], done: Outcome[T]) -> None:
    """Run ``coroutine`` until it ends, here and in the callbacks of what it awaits; then call ``done`` once."""
    _Run(coroutine, done)()


def start(coroutine: Coroutine[Promise[Any], None, T]) -> Promise[T]:
    """Run ``coroutine`` on its own; its outcome is the returned value."""
    later: Promise[T] = Promise()

    def done(value: T | None, error: BaseException | None) -> None:
        if error is None:
            later.resolve(value)  # type: ignore[arg-type]
        else:
            later.fail(error)

    run(coroutine, done)
    return later


def run_detached(coroutine: Coroutine[Promise[Any], None, Any]) -> None:
    """Run ``coroutine`` with nobody waiting for it; what goes wrong is logged."""

    def done(_: Any, error: BaseException | None) -> None:
        if error is not None:
            log.error("work in the background failed", exc_info=error)

    run(coroutine, done)
