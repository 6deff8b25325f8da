"""What each account holds, shared by all workers in memory that all of them map: quotas hold for them together.

Each worker writes a table of its own and reads those of the others, so that none waits for another. What another
worker accepted is seen when its commit is durable: messages that several workers accept within the same few
milliseconds can exceed a quota by as many.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from hashlib import blake2b

_ROWS = 1 << 16  # accounts of one worker; beyond them some are not shared
_PROBES = 64
_COLUMNS = 3  # account plus one (0: a free row), messages, bytes
_TABLE_BYTES = _ROWS * _COLUMNS * 8


class SharedUsage:
    def __init__(self, descriptor: int, worker: int, workers: int) -> None:
        """``worker``: from 1."""
        memory = memoryview(mmap.mmap(descriptor, _TABLE_BYTES * workers)).cast("q")
        size = _ROWS * _COLUMNS
        tables = [memory[start : start + size] for start in range(0, size * workers, size)]
        self._own = tables.pop(worker - 1)
        self._others = tables

    def clear(self) -> None:
        """To be called when the worker before it in its place has given up its shards, or has died."""
        for at in range(0, _ROWS * _COLUMNS, _COLUMNS):
            if self._own[at]:
                self._own[at + 1] = self._own[at + 2] = 0

    def publish(self, account: str, messages: int, size: int) -> None:
        """What the account holds in this worker now."""
        key, own = int(account) + 1, self._own
        for at in _places(account):
            if own[at] in (0, key):
                own[at + 1], own[at + 2] = messages, size
                own[at] = key
                return

    def elsewhere(self, account: str) -> tuple[int, int]:
        """Messages and bytes that the account holds in the other workers."""
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


def usage_bytes(workers: int) -> int:
    """Returns the size of the shared memory, which is zeroed at first."""
    return _TABLE_BYTES * workers


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
