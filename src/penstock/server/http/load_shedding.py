"""Too much is held at once: whose share is given up first.

Not the newcomer's: it may be the honest one. The client that holds the most gives first, and of what it holds the
largest piece; so small requests get through while large ones are held back, whoever sends those.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Held(NamedTuple, Generic[T]):
    by: T
    client: str | None  # None: one that stands for itself
    bytes: int


def choose(holdings: Iterable[Held[T]], excess: int) -> list[T]:
    """Whose to give up, so that at least ``excess`` bytes come free, or all there is."""
    pieces: dict[object, list[Held[T]]] = {}
    for held in holdings:
        if held.bytes > 0:
            pieces.setdefault(held.by if held.client is None else held.client, []).append(held)
    heap = []
    for number, mine in enumerate(pieces.values()):
        mine.sort(key=lambda held: held.bytes)
        heap.append((-sum(held.bytes for held in mine), number, mine))
    heapify(heap)
    chosen: list[T] = []
    while excess > 0 and heap:
        total, number, mine = heappop(heap)
        largest = mine.pop()
        chosen.append(largest.by)
        excess -= largest.bytes
        if mine:
            heappush(heap, (total + largest.bytes, number, mine))
    return chosen
