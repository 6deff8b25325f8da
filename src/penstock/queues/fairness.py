"""Fair queues: one tenant's backlog must not delay the others.

Rule 1: a tenant is a message group on a standard queue; messages without a group belong to nobody and are quiet.
Rule 2: a tenant turns noisy when more than a tenth of all messages in flight are its own, and at least thirty.
Rule 3: it turns quiet again when its backlog is drained, or five minutes after its last send.
Rule 4: quiet tenants are served first, oldest message first; among noisy ones the one with fewest in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Generic, TypeVar

from penstock.limits import Limits
from penstock.queues.lane import Lane


class Tenant(Lane):
    __slots__ = ("last_sent_ms", "noisy", "offered")

    def __init__(self, group: str | None, loaded_to: int, now_ms: int) -> None:
        super().__init__(group, loaded_to)
        self.last_sent_ms = now_ms
        self.noisy = False
        self.offered: int | None = None  # the position under which it stands in line

    @property
    def head_position(self) -> int | None:
        raise NotImplementedError


T = TypeVar("T", bound=Tenant)


class Fairness(Generic[T]):
    """Chooses whose turn it is. Quiet tenants stand in line by their oldest message; noisy ones apart."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._line: list[tuple[int, int, T]] = []  # a heap; a place is void if the tenant was offered another
        self._noisy: dict[str | None, T] = {}
        self._alone = True  # with one tenant there is nothing to choose, and no line to keep

    def clear(self) -> None:
        self._line.clear()
        self._noisy.clear()
        self._alone = True

    @property
    def noisy_ready(self) -> int:
        return sum(tenant.ready for tenant in self._noisy.values())

    def offer(self, tenant: T) -> None:
        """The tenant has a message to hand out, or another one first in its lane than before."""
        if self._alone or tenant.noisy:
            return
        position = tenant.head_position
        if position is None:
            tenant.offered = None
        elif position != tenant.offered:
            tenant.offered = position
            heappush(self._line, (position, id(tenant), tenant))

    def forget(self, tenant: T) -> None:
        tenant.offered = None
        self._noisy.pop(tenant.group, None)

    def choose(self, tenants: Mapping[str | None, T], in_flight: int, now_ms: int) -> T | None:
        """The tenant to serve next; it has a message in memory."""
        if len(tenants) == 1:
            (only,) = tenants.values()
            if not self._alone:
                self._alone, only.offered = True, None
                self._line.clear()
            return only if only.ready else None
        if self._alone:
            self._alone = False
            for tenant in tenants.values():
                self.offer(tenant)
        self._hush(now_ms)
        while self._line:
            position, _, tenant = self._line[0]
            if tenant.offered != position or tenant.noisy or not tenant.ready:
                heappop(self._line)
            elif self._is_noisy(tenant, in_flight, now_ms):
                heappop(self._line)
                tenant.noisy, tenant.offered = True, None
                self._noisy[tenant.group] = tenant
            else:
                return tenant
        return min((t for t in self._noisy.values() if t.ready), key=lambda t: t.in_flight, default=None)

    def _is_noisy(self, tenant: T, in_flight: int, now_ms: int) -> bool:
        return (
            tenant.group is not None
            and tenant.in_flight >= self._limits.noisy_in_flight_min
            and tenant.in_flight > in_flight * self._limits.noisy_share
            and now_ms - tenant.last_sent_ms <= self._limits.noisy_quiet_after_ms
        )

    def _hush(self, now_ms: int) -> None:
        for tenant in list(self._noisy.values()):
            drained = not tenant.ready and not tenant.spilled
            if drained or now_ms - tenant.last_sent_ms > self._limits.noisy_quiet_after_ms:
                del self._noisy[tenant.group]
                tenant.noisy = False
                self.offer(tenant)
