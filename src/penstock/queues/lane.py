"""A lane: the messages of one group, the first of them in memory, the rest in the store.

``spilled`` is a bound, never an exact count: at most so many more wait in the store, all behind ``loaded_to``. It
may be too high (a message can expire unseen) and is put right by the next read that comes back short; it is
never too low, or a message would be stuck.
"""

from __future__ import annotations


class Lane:
    __slots__ = ("group", "in_flight", "loaded_to", "reading", "ready", "spilled", "spilled_since_read")

    def __init__(self, group: str | None, loaded_to: int) -> None:
        self.group = group
        self.ready = 0  # waiting in memory
        self.in_flight = 0
        self.spilled = 0
        self.spilled_since_read = 0
        self.loaded_to = loaded_to
        self.reading = False

    @property
    def empty(self) -> bool:
        return not (self.ready or self.in_flight or self.spilled or self.reading)

    def spill(self) -> None:
        """One more waits in the store only."""
        self.spilled += 1
        self.spilled_since_read += 1

    def start_read(self) -> None:
        self.reading = True
        self.spilled_since_read = 0

    def end_read(self, last_position: int | None, found: int, short: bool) -> None:
        """A read came back with ``found`` new messages; ``short``: there were no more behind them."""
        self.reading = False
        if last_position is not None and last_position > self.loaded_to:
            self.loaded_to = last_position
        self.spilled = self.spilled_since_read if short else max(1, self.spilled - found)
