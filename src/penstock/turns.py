"""Long work on the event loop, done in short turns so that other requests are answered between them.

Work that may take longer than a few milliseconds is a generator that yields wherever it may pause
(:data:`Steps`). :class:`Turns` runs such work: in each turn of the loop one piece of it, for about
``TURN_S``, and the accounts that have some take turns. So however much is asked for, and by however many, the
loop is kept for one piece at a time.

A request that computes as long as it likes (:meth:`Turns.alone`) is the only one of its account that does, and has a
budget of time. It ends when its client is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from time import perf_counter, thread_time
from typing import Any, TypeVar

from penstock.errors import ClientGone, TooManyWaiting, TooMuchWork
from penstock.promise import Promise

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Yields wherever it may pause, at least every half millisecond; returns its result. Everything else may change at a
yield: what it reads afterwards is its own, a copy, or never changes."""

TURN_S = 0.002
_BUDGET_S = 10.0
WAITING_MAX = 20  # requests of one account; each holds what it asks for in memory
_PIECE = 256

IsGone = Callable[[], bool]
"""Whether the client of a request has disconnected."""


def finished(steps: Steps[T]) -> T:
    """The result, without a pause: in a thread, or where no loop runs."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def in_pieces(members: Iterable[T], size: int = _PIECE) -> Iterator[list[T]]:
    """Some members at a time: work pauses between them."""
    rest = iter(members)
    while piece := list(islice(rest, size)):
        yield piece


class LongWork:
    """What one request or one background task does in turns, and how long that took so far."""

    def __init__(self, turns: Turns, of: str, budget_s: float, is_gone: IsGone | None = None) -> None:
        self.seconds = 0.0
        self._is_gone = is_gone
        self._turns = turns
        self._of = of
        self._budget_s = budget_s

    async def do(self, steps: Steps[T]) -> T:
        """Raises TooMuchWork when the budget of time is spent, ClientGone, and whatever the steps raise."""
        self.check_client()
        pending = _PendingSteps(self, steps)
        return await self._turns.result_of(self._of, pending)  # type: ignore[no-any-return]

    def spend(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds > self._budget_s:
            raise TooMuchWork
        self.check_client()

    def check_client(self) -> None:
        """Raises ClientGone."""
        if self._is_gone is not None and self._is_gone():
            raise ClientGone


class _PendingSteps:
    """Does the steps of one piece of work, some in each turn, and has their result."""

    __slots__ = ("done", "error", "promise", "steps", "value", "work")

    def __init__(self, work: LongWork, steps: Steps[Any]) -> None:
        self.work = work
        self.steps = steps
        self.promise: Promise[None] = Promise()
        self.done = False
        self.value: Any = None
        self.error: Exception | None = None

    def do_piece(self) -> bool:
        """Do some steps, for about ``TURN_S``. Returns whether that was the end of the work."""
        step = self.steps.__next__
        began_s = thread_time()
        ends_s = perf_counter() + TURN_S
        try:
            step()
            while perf_counter() < ends_s:
                step()
            self.work.spend(thread_time() - began_s)
        except StopIteration as stop:
            self.value = stop.value
            self.work.seconds += thread_time() - began_s
        except Exception as error:
            self.error = error
            self.steps.close()
        else:
            return False
        self.done = True
        return True

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


_Waiting = deque[tuple[LongWork, Promise[None]]]
"""Requests of one account, each with what tells it that its turn has come."""


def _remove_gone(waiting: _Waiting) -> None:
    """Remove the requests whose clients are gone."""
    for place in list(waiting):
        try:
            place[0].check_client()
        except ClientGone as error:
            waiting.remove(place)
            place[1].fail(error)


class Turns:
    """Runs all long work of one process."""

    def __init__(self, soon: Callable[[Callable[[], None]], Any] | None = None) -> None:
        """``soon``: calls back when the events at hand are done. None: nothing else waits, so that work is done at
        once."""
        self._soon = soon
        # By whose they are; those that come first are next.
        self._pending: dict[str, deque[_PendingSteps]] = {}
        self._computing: dict[tuple[str, str], _Waiting] = {}  # who waits, by account and purpose
        self._used_s = 0.0  # of this turn of the loop, by what was done at once
        self._paused: deque[Promise[None]] = deque()

    def pause(self, soon: Callable[[Callable[[], None]], Any]) -> Promise[None]:
        """Returns a promise that is resolved when the events at hand are done, and for one of all that pause in each
        turn of the loop. It is for work that is not a generator, because it awaits other things between its pieces.
        ``soon``: as that of the constructor."""

        def go_on() -> None:
            paused = self._paused.popleft()
            if self._paused:
                soon(go_on)
            paused.resolve(None)

        if not self._paused:
            soon(go_on)
        promise: Promise[None] = Promise()
        self._paused.append(promise)
        return promise

    async def run(self, steps: Steps[T], of: str = "") -> T:
        """Work without a budget, which is bounded by itself. ``of``: the account for which it is done."""
        return await LongWork(self, of, float("inf")).do(steps)

    @asynccontextmanager
    async def alone(
        self,
        account: str,
        budget_s: float = _BUDGET_S,
        is_gone: IsGone | None = None,
        *,
        purpose: str = "",
        waiting_max: int = WAITING_MAX,
    ) -> AsyncIterator[LongWork]:
        """Wait until no other request of the account has this purpose. Raises TooManyWaiting or ClientGone."""
        work = LongWork(self, account, budget_s, is_gone)
        key = account, purpose
        waiting = self._computing.get(key)
        if waiting is None:
            waiting = self._computing[key] = deque()
        else:
            if len(waiting) >= waiting_max:
                _remove_gone(waiting)
            if len(waiting) >= waiting_max:
                raise TooManyWaiting
            turn: Promise[None] = Promise()
            waiting.append((work, turn))
            await turn
        try:
            work.check_client()
            yield work
        finally:
            if waiting:
                waiting.popleft()[1].resolve(None)
            else:
                del self._computing[key]

    async def result_of(self, of: str, pending: _PendingSteps) -> Any:
        """Do the steps, at once or in turns, and wait for it."""
        # What is short is done at once, unless much was in this turn of the loop, or something long has begun.
        if self._soon is None:
            while not pending.do_piece():
                pass
        elif self._pending or self._used_s >= TURN_S or not self._done_at_once(pending):
            if not self._pending:
                self._soon(self._do_next_piece)
            self._pending.setdefault(of, deque()).append(pending)
            await pending.promise
        return pending.result()

    def _done_at_once(self, pending: _PendingSteps) -> bool:
        assert self._soon is not None
        if not self._used_s:
            self._soon(self._begin_turn)
        began_s = perf_counter()
        try:
            return pending.do_piece()
        finally:
            self._used_s += perf_counter() - began_s

    def _begin_turn(self) -> None:
        self._used_s = 0.0

    def _do_next_piece(self) -> None:
        """Do one piece of the work of the next account."""
        assert self._soon is not None
        of = next(iter(self._pending))
        of_account = self._pending.pop(of)
        pending = of_account.popleft()
        if not pending.do_piece():
            of_account.append(pending)
        if of_account:
            self._pending[of] = of_account  # behind the others
        if self._pending:
            self._soon(self._do_next_piece)
        if pending.done:
            pending.promise.resolve(None)
