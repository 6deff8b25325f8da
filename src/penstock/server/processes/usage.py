"""What each account holds, shared by all processes in memory that all of them map: quotas hold for them together.

Each process writes a table of its own and reads those of the others, so that none waits for another. What another
process accepted is seen when its commit is durable: messages that several processes accept within the same few
milliseconds can exceed a quota by as many.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from hashlib import blake2b

_ROWS = 1 << 16  # accounts of one process; beyond them some are not shared
_PROBES = 64
_COLUMNS = 3  # account plus one (0: a free row), messages, bytes
_TABLE_BYTES = _ROWS * _COLUMNS * 8


class SharedUsage:
    def __init__(self, descriptor: int, process: int, processes: int) -> None:
        """``process``: from 1."""
        memory = memoryview(mmap.mmap(descriptor, _TABLE_BYTES * processes)).cast("q")
        size = _ROWS * _COLUMNS
        tables = [memory[start : start + size] for start in range(0, size * processes, size)]
        self._own = tables.pop(process - 1)
        self._others = tables

    def clear(self) -> None:
        """Clear the row of this process. Call it when the process that had the row before has given up its shards,
        or has died."""
        for at in range(0, _ROWS * _COLUMNS, _COLUMNS):
            if self._own[at]:
                self._own[at + 1] = self._own[at + 2] = 0

    def publish(self, account: str, messages: int, size: int) -> None:
        """Store what the account holds in this process now."""
        key, own = int(account) + 1, self._own
        for at in _places(account):
            if own[at] in (0, key):
                own[at + 1], own[at + 2] = messages, size
                own[at] = key
                return

    def elsewhere(self, account: str) -> tuple[int, int]:
        """Messages and bytes that the account holds in the other processes."""
        key, messages, size = int(account) + 1, 0, 0
        for table in self._others:
            for at in _places(account):
                found = table[at]
                if found == key:
                    messages += table[at + 1]
                    size += table[at + 2]
                if found in (0, key):
                    break
        return messages, size


def usage_bytes(processes: int) -> int:
    """How much memory the tables of all processes need. It is empty at first."""
    return _TABLE_BYTES * processes


def shared_memory(size: int) -> int:
    """A descriptor to be passed on to other processes, which map it."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("penstock")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _places(account: str) -> range:
    """Where the row of an account can be: the first that has it, or that is free."""
    digest = blake2b(account.encode(), digest_size=8).digest()
    row = int.from_bytes(digest, "big") % (_ROWS - _PROBES)
    return range(row * _COLUMNS, (row + _PROBES) * _COLUMNS, _COLUMNS)
