"""Messages that left memory while the store could still show them.

Between the decision to remove a message and the commit that does it, a read brings it back as if it were alive.
Whoever reads asks here first.
"""

from __future__ import annotations

from collections import deque


class Ghosts:
    __slots__ = ("_order", "_seqs")

    def __init__(self) -> None:
        self._order: deque[tuple[int, int]] = deque()
        self._seqs: set[int] = set()

    def __contains__(self, seq: int) -> bool:
        return seq in self._seqs

    def add(self, seq: int, commit: int) -> None:
        self._order.append((commit, seq))
        self._seqs.add(seq)

    def discard(self, seq: int) -> None:
        """It is back."""
        self._seqs.discard(seq)

    def lay(self, durable: int) -> None:
        """Forget those whose removal is durable. Not while a read is under way that may have begun before."""
        while self._order and self._order[0][0] <= durable:
            self._seqs.discard(self._order.popleft()[1])

    def clear(self) -> None:
        self._order.clear()
        self._seqs.clear()
