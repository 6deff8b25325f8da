"""Decides whose request runs next, when more arrive at once than the event loop can serve in a few milliseconds.

Requests have the loop for 2 ms together; then it turns, and everything else has its time: timers, commits, other
sockets. Requests that did not come to it wait in lines, one for each client. The lines of one rank are served in
rotation, one request each, so that a client gains nothing by many connections. Verified callers come first, then
requests that carry a signature, then the rest; but in each turn one request of every rank runs, so that none waits
for ever.

A request that finds no line and time left runs at once: only a busy server has lines.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Protocol

from penstock.turns import TURN_S

VERIFIED, SIGNED, UNSIGNED = range(3)
"""The ranks: the last request of the connection was verified; this one has a signature; it has none."""


class Waiting(Protocol):
    """A connection with a request that may run."""

    def take_turn(self) -> None:
        """Parse and start one request. It takes its time from :attr:`RequestTurns.left_s`."""


_Lines = OrderedDict[Hashable, deque[Waiting]]
"""The connections of each client, in the order of the clients' turns."""


class RequestTurns:
    def __init__(self) -> None:
        self.over = False  # requests have to wait in line
        self.left_s = TURN_S
        self._ranks: tuple[_Lines, ...] = (OrderedDict(), OrderedDict(), OrderedDict())

    def end(self) -> None:
        """The time of this turn is used up."""
        if not self.over:
            self.over = True
            asyncio.get_running_loop().call_soon(self._begin)

    def wait(self, waiting: Waiting, rank: int, client: Hashable) -> None:
        """``client``: whose requests wait in one line."""
        assert self.over, "nothing calls it"
        self._ranks[rank].setdefault(client, deque()).append(waiting)

    def _begin(self) -> None:
        self.left_s = TURN_S
        try:
            while self.left_s > 0 and (lines := next(filter(None, self._ranks), None)) is not None:
                _serve_first(lines)
            for lines in self._ranks[SIGNED:]:
                if lines:
                    _serve_first(lines)
        finally:
            if any(self._ranks):
                asyncio.get_running_loop().call_soon(self._begin)
            else:
                self.over = False


def _serve_first(lines: _Lines) -> None:
    """Run one request of the client whose turn it is; its others wait behind all other clients."""
    client, line = lines.popitem(last=False)
    first = line.popleft()
    if line:
        lines[client] = line
    first.take_turn()
