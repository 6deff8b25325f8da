"""One budget of bytes for all that queues keep in memory beyond their floors.

The deduplication memory is counted separately (:class:`penstock.queues.dedup.DedupUsage`). It cannot be given back
before it expires: as part of this budget it would push every other queue's messages out of memory."""

from __future__ import annotations

ENTRY_BYTES = 320  # an entry with its numbers and its places in index and lane, measured
LANE_BYTES = 480  # a group with its places in the queue


class Budget:
    """Counts what is kept. It never refuses: whoever keeps something asks :meth:`room` first."""

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def room(self) -> bool:
        return self.used < self.bytes_max

    def keep(self, content: bytes | None) -> None:
        self.used += ENTRY_BYTES + (len(content) if content else 0)

    def drop(self, content: bytes | None) -> None:
        self.used -= ENTRY_BYTES + (len(content) if content else 0)
