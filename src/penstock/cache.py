"""The one bounded cache: the least recently used entries are dropped, and a hit runs no Python code.

Entries live in two generations. A hit in the young one is a plain dictionary lookup. A hit in the old one moves the
entry back to the young one. When the young generation is full it becomes the old one, and what was in the old one
has not been used for a whole generation and is dropped. Each generation holds half the capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """
    found = cache.get(key)
    if found is None:
        found = cache.put(key, make(key))

    The capacity counts entries, or what ``size_of`` returns for each key: where callers choose the size of keys, a
    number of entries says nothing about memory. Values are never None. Several threads may use one cache.
    """

    __slots__ = ("_half", "_lock", "_old", "_size", "_size_of", "_young", "get")

    def __init__(self, capacity: int, size_of: Callable[[K], int] | None = None) -> None:
        self._half = max(1, capacity // 2)
        self._size_of = size_of
        self._size = 0  # of the young generation
        self._young: _Young[K, V] = _Young(self._promoted)
        self._old: dict[K, V] = {}
        self._lock = Lock()
        self.get: Callable[[K], V | None] = self._young.__getitem__

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def put(self, key: K, value: V) -> V:
        """Returns the value. An entry larger than half the capacity is not kept."""
        size = 1 if self._size_of is None else self._size_of(key)
        if size > self._half:
            return value
        with self._lock:
            young = self._young
            if key not in young:
                if self._size + size > self._half:
                    self._old = dict(young)
                    young.clear()
                    self._size = 0
                self._size += size
            young[key] = value
        return value

    def clear(self) -> None:
        with self._lock:
            self._old = {}
            self._young.clear()
            self._size = 0

    def _promoted(self, key: K) -> V | None:
        value = self._old.get(key)
        return None if value is None else self.put(key, value)


class _Young(dict[K, V]):
    """A dictionary that asks ``missing`` for what it does not hold."""

    __slots__ = ("_missing",)

    def __init__(self, missing: Callable[[K], V | None]) -> None:
        self._missing = missing

    def __missing__(self, key: K) -> V | None:
        return self._missing(key)
