"""Caches that are bounded by the size of their keys, not by their number.

What is made of a text can take a hundred times its size, and whoever may set a policy chooses the text: a number of
entries would say nothing about memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRY_SIZE = 128  # of a key besides its text: many small ones count too


class SizedCache(Generic[K, V]):
    """What ``make`` made of the last keys; the oldest make room."""

    def __init__(self, make: Callable[[K], V], size_of: Callable[[K], int], size_max: int) -> None:
        self._make = make
        self._size_of = size_of
        self._size_max = size_max
        self._size = 0
        self._made: dict[K, V] = {}
        # Credentials are read again in a thread of their own, and bring policies with them.
        self._lock = Lock()

    def __call__(self, key: K) -> V:
        made = self._made.get(key)
        if made is None:
            made = self._make(key)
            with self._lock:
                self._add(key, made)
        return made

    def _add(self, key: K, made: V) -> None:
        if key not in self._made:  # or another thread was quicker
            self._made[key] = made
            self._size += _ENTRY_SIZE + self._size_of(key)
            while self._size > self._size_max:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._made))
        del self._made[oldest]
        self._size -= _ENTRY_SIZE + self._size_of(oldest)
