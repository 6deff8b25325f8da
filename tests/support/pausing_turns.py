"""Long work that waits wherever it may, so that everything else can happen meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.promise import Promise
from penstock.turns import Steps, T, Turns


class PausingTurns(Turns):
    """All work waits for a turn before it begins, and at each of its steps."""

    def __init__(self, soon: Callable[[Callable[[], None]], Any]) -> None:
        """``soon``: that of the simulated runtime."""
        super().__init__()
        self._run_soon = soon

    async def run(self, steps: Steps[T], of: str = "") -> T:
        while True:
            turn: Promise[None] = Promise()
            self._run_soon(partial(turn.resolve, None))
            await turn
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
