"""Decides whose turn it is, where few can work at a time: accounts share the turns, however much each of them
wants."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairShare:
    """Some at a time, and fewer of one account. The account that has the fewest goes first, and by turns."""

    def __init__(self, at_a_time: int, of_one_account: int) -> None:
        self._at_a_time: float = at_a_time
        self._of_one_account: float = of_one_account
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        await self.take(account)
        try:
            yield
        finally:
            self.give_back(account)

    async def take(self, account: str) -> None:
        """Wait for a turn, which the caller gives back."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(account)
            raise

    def give_back(self, account: str) -> None:
        self._running[account] -= 1
        if not self._running[account]:
            del self._running[account]
        self._give_turns()

    def lift(self) -> None:
        """Releases everyone who waits, now and later."""
        self._at_a_time = self._of_one_account = float("inf")
        self._give_turns()

    def _give_turns(self) -> None:
        while self._running.total() < self._at_a_time:
            waiting = [each for each in self._waiting if self._running[each] < self._of_one_account]
            if not waiting:
                return
            account = min(waiting, key=self._running.__getitem__)
            turn = self._waiting[account].popleft()
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                self._running[account] += 1
                self._waiting[account] = self._waiting.pop(account)  # behind the others that have as few
            if not self._waiting[account]:
                del self._waiting[account]
