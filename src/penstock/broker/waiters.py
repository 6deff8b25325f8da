"""Receives that wait: long polls, and short ones whose messages are on their way from the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.broker.runtime import Timer
from penstock.promise import Promise
from penstock.queues.messages import Delivery


class Caller(Protocol):
    """Whoever asked, and may hang up."""

    gone: bool
    on_gone: Callable[[], None] | None
    if_unread: Callable[[], None] | None


class Ask(NamedTuple):
    """What a receive asks for."""

    messages_max: int
    visibility_ms: int | None  # None: the queue's own
    attempt_id: str | None


class Waiter:
    __slots__ = ("answer", "ask", "caller", "timer")

    def __init__(self, ask: Ask, caller: Caller) -> None:
        self.ask = ask
        self.caller = caller
        self.answer: Promise[list[Delivery]] = Promise()
        self.timer: Timer | None = None

    def resolve(self, deliveries: list[Delivery]) -> None:
        self.leave()
        self.answer.resolve(deliveries)

    def fail(self, error: Exception) -> None:
        self.leave()
        self.answer.fail(error)

    def leave(self) -> None:
        self.caller.on_gone = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
