"""Which connection gives way when the server is full: of connections, or of memory.

The newest one does not: it may be the honest one. At ``connections_max`` the oldest connection that had time to send
a whole request and did not gives way to a new one. If there is none, a few more are accepted for health checks only.

Where all connections together hold too much memory, the client that holds the most gives first, and of its
connections the one that holds the most. So small requests get through while large ones are refused, whatever their
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from penstock.server.http.limits import HttpLimits

T = TypeVar("T")


class Admission(Enum):
    """What becomes of a new connection."""

    ACCEPTED = "accepted"
    RESERVED = "reserved"  # for health checks only
    DISPLACES = "displaces"  # takes the place of the oldest silent connection
    REFUSED = "refused"
    CLIENT_REFUSED = "client refused"  # its client has too many already


def admission(
    limits: HttpLimits, connections: int, of_client: int | None, oldest_silent_is_reserved: bool | None
) -> Admission:
    """``of_client``: how many its client has; None: that is not limited. A silent connection never sent a whole
    request; ``oldest_silent_is_reserved`` is None if there is none."""
    share = limits.connections_per_address_max
    if of_client is not None and share and of_client >= share:
        return Admission.CLIENT_REFUSED
    if connections < limits.connections_max:
        return Admission.ACCEPTED
    reserved_left = connections < limits.connections_max + limits.reserved_connections
    if oldest_silent_is_reserved is False or (oldest_silent_is_reserved and not reserved_left):
        return Admission.DISPLACES
    return Admission.RESERVED if reserved_left else Admission.REFUSED


class MemoryUse(NamedTuple, Generic[T]):
    by: T
    client: str | None  # None: counted by itself
    bytes: int


def choose_victims(uses: Iterable[MemoryUse[T]], excess: int) -> list[T]:
    """Who gives up, so that at least ``excess`` bytes become free, or all there are."""
    by_client: dict[object, list[MemoryUse[T]]] = {}
    for use in uses:
        if use.bytes > 0:
            by_client.setdefault(use.by if use.client is None else use.client, []).append(use)
    heap = []
    for number, own in enumerate(by_client.values()):
        own.sort(key=lambda use: use.bytes)
        heap.append((-sum(use.bytes for use in own), number, own))
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
