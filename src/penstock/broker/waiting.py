"""Receives that wait: long polls, and short ones whose messages are being read from the store.

Nothing polls: every decision on the queue serves its waiting receives, first come first served. While there are any,
one timer is set to the next moment when a message can become available.

A decision that has moved many dead letters pauses all receives of the queue until its commit is durable. So thousands
of them become many small commits, between which others have the loop, and the message behind them is still found.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from penstock.broker.handover import Departed
from penstock.broker.runtime import Timer
from penstock.broker.shard import Shard
from penstock.errors import PenstockError, StoreError
from penstock.names import Requester
from penstock.promise import Promise
from penstock.queues.backlog import NEVER
from penstock.queues.messages import Delivery

_ENDED_PER_TURN = 250  # about ten milliseconds: thousands in one turn would delay all other requests


class Client(Protocol):
    """The client that sent a request, and may close its connection."""

    gone: bool
    on_gone: Callable[[], None] | None  # called when the connection is closed
    if_unread: Callable[[], None] | None  # called when the response could not be written


class Ask(msgspec.Struct, eq=False):
    """What a receive asks for."""

    messages_max: int
    visibility_ms: int | None  # None: the queue's own
    attempt_id: str | None
    requester: Requester | None = None
    left: Departed | None = None  # the last dead letter that it has moved


class Waiter:
    __slots__ = ("answer", "ask", "caller", "timer")

    def __init__(self, ask: Ask, caller: Client) -> None:
        self.ask = ask
        self.caller = caller
        self.answer: Promise[list[Delivery]] = Promise()
        self.timer: Timer | None = None

    def stop_waiting(self) -> None:
        self.caller.on_gone = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class WaitingReceives:
    """The waiting receives of one queue."""

    __slots__ = ("_decide", "_due", "_shard", "_timer", "_timer_ms", "long_polls", "paused", "short_polls")

    def __init__(
        self, shard: Shard, decide: Callable[[Ask, int], list[Delivery]], due: Callable[[], None]
    ) -> None:
        """``decide`` makes a receive; ``due`` is called when a message can become available."""
        self._shard = shard
        self._decide = decide
        self._due = due
        # Ordered, and quick to leave when ten thousand connections are closed at once.
        self.long_polls: OrderedDict[Waiter, None] = OrderedDict()
        # They wait only while messages are being read, or while receives are paused.
        self.short_polls: OrderedDict[Waiter, None] = OrderedDict()
        self.paused = False  # whether no receive is decided for now
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __bool__(self) -> bool:
        return bool(self.long_polls or self.short_polls)

    def wait(self, ask: Ask, caller: Client, wait_ms: int) -> Promise[list[Delivery]]:
        """What can be handed out within the time; nothing if that ends or the connection is closed."""
        waiter = Waiter(ask, caller)
        line = self.long_polls if wait_ms else self.short_polls
        line[waiter] = None

        def leave() -> None:
            if waiter in line:
                del line[waiter]
                waiter.stop_waiting()
                waiter.answer.resolve([])

        caller.on_gone = leave
        if wait_ms:
            waiter.timer = self._shard.runtime.at(self._shard.clock.now_ms() + wait_ms, leave)
        return waiter.answer

    def serve(self, now_ms: int) -> None:
        """Hand out what there is."""
        if self._shard.may_have_new_owner():
            return  # they end when the shard is dropped
        for line in (self.short_polls, self.long_polls):
            while line and not self.paused:
                waiter = next(iter(line))
                deliveries = self._decide(waiter.ask, now_ms)
                if not deliveries:
                    break
                # The answer may run anything, even another receive on this queue: take it out first.
                del line[waiter]
                waiter.stop_waiting()
                self._shard.answer(waiter.answer, deliveries)

    def pause(self) -> None:
        """Decide no receive before the open commit is durable, and then serve those that wait."""
        done = self._shard.open_commit.done
        # While the outcome of an earlier commit is unknown, the open one has failed already, and is never written.
        if not done.done:
            self.paused = True
            done.on_done(self._commit_ended)

    def _commit_ended(self, outcome: Promise[None]) -> None:
        try:
            outcome.result()
        except StoreError as error:
            # A short poll rests on the commit. A long one goes on.
            self._end_some(deque(self.short_polls), error)
        # The requests of the commit are answered first.
        self._shard.runtime.soon(self._end_pause)

    def _end_pause(self) -> None:
        self.paused = False
        if self:
            self._due()

    def end_short_polls(self) -> None:
        """Answer all short polls with no messages: there is no read that could bring messages for them."""
        while self.short_polls:
            waiter, _ = self.short_polls.popitem(last=False)
            waiter.stop_waiting()
            self._shard.answer(waiter.answer, [])

    def end(self, error: PenstockError | None = None) -> None:
        """End all waiting now: with nothing, or with this error."""
        self._end_some(deque((*self.short_polls, *self.long_polls)), error)

    def _end_some(self, ending: deque[Waiter], error: PenstockError | None) -> None:
        for _ in range(min(len(ending), _ENDED_PER_TURN)):
            waiter = ending.popleft()
            line = self.long_polls if waiter in self.long_polls else self.short_polls
            if waiter not in line:
                continue  # its time ended, its connection was closed, or it was served before its turn came
            del line[waiter]
            waiter.stop_waiting()
            if error is not None:
                waiter.answer.fail(error)
            else:
                waiter.answer.resolve([])
        if ending:
            self._shard.runtime.soon(partial(self._end_some, ending, error))
        elif not self:
            self.set_timer(NEVER)

    def set_timer(self, due_ms: int) -> None:
        """``due_ms``: when a message can become available next; NEVER if none can."""
        if not self or self.paused:
            due_ms = NEVER  # the end of a pause looks for what has become due
        if self._timer is not None:
            if self._timer_ms == due_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms != NEVER:
            self._timer_ms = due_ms
            self._timer = self._shard.runtime.at(due_ms, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._due()
