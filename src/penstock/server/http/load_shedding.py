"""Which connections give up their memory when all of them together hold too much.

Not the newest: it may be the honest one. The client that holds the most gives first, and of its connections the one
that holds the most. So small requests get through while large ones are refused, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Holding(NamedTuple, Generic[T]):
    by: T
    client: str | None  # None: counted by itself
    bytes: int


def choose_victims(holdings: Iterable[Holding[T]], excess: int) -> list[T]:
    """Who gives up, so that at least ``excess`` bytes become free, or all there are."""
    by_client: dict[object, list[Holding[T]]] = {}
    for holding in holdings:
        if holding.bytes > 0:
            by_client.setdefault(holding.by if holding.client is None else holding.client, []).append(holding)
    heap = []
    for number, own in enumerate(by_client.values()):
        own.sort(key=lambda holding: holding.bytes)
        heap.append((-sum(holding.bytes for holding in own), number, own))
    heapify(heap)
    victims: list[T] = []
    while excess > 0 and heap:
        total, number, own = heappop(heap)
        largest = own.pop()
        victims.append(largest.by)
        excess -= largest.bytes
        if own:
            heappush(heap, (total + largest.bytes, number, own))
    return victims
