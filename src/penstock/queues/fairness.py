"""Fair queues: the backlog of one tenant must not delay the others.

A tenant is a message group of a standard queue; messages without a group are never noisy. Quiet tenants are served
first, oldest message first; among noisy ones the tenant with the fewest messages in flight. In an internal queue, a
tenant with as many messages in flight as its group may have is full, and is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from penstock.limits import Limits
from penstock.queues.backlog import Lane
from penstock.queues.messages import Entry


class TenantLane(Lane):
    """The ready messages of one tenant: new ones in order, and those that came back, by position.

    A message taken out of the middle leaves a void place, counted in ``_void`` and skipped when its turn comes:
    searching for it would cost more the longer the lane is."""

    __slots__ = ("_void", "fresh", "last_sent_ms", "noisy", "offered", "returned")

    def __init__(self, group: str | None, loaded_to: int, now_ms: int) -> None:
        super().__init__(group, loaded_to)
        self.fresh: deque[Entry] = deque()
        self.returned: list[tuple[int, int, Entry]] = []
        self._void: dict[int, int] = {}  # seq -> how many void places it left
        self.last_sent_ms = now_ms
        self.noisy = False
        self.offered: int | None = None  # the position under which it is in the line of quiet tenants

    @property
    def head_position(self) -> int | None:
        if self._void:
            self._skip_void()
        fresh, returned = self.fresh, self.returned
        if returned and (not fresh or returned[0][0] < fresh[0].position):
            return returned[0][0]
        return fresh[0].position if fresh else None

    def put(self, entry: Entry) -> None:
        if not self.fresh or entry.position > self.fresh[-1].position:
            self.fresh.append(entry)
        else:
            heappush(self.returned, (entry.position, entry.seq, entry))
        self.ready += 1

    def put_all(self, entries: list[Entry]) -> None:
        """Put what a read found, in order of position."""
        if entries and (not self.fresh or entries[0].position > self.fresh[-1].position):
            self.fresh.extend(entries)
            self.ready += len(entries)
        else:
            for entry in entries:
                self.put(entry)

    def pop(self) -> Entry:
        if self._void:
            self._skip_void()
        self.ready -= 1
        fresh, returned = self.fresh, self.returned
        if returned and (not fresh or returned[0][0] < fresh[0].position):
            return heappop(returned)[2]
        return fresh.popleft()

    def last(self) -> Entry | None:
        """The newest of the new messages."""
        while self.fresh and self._is_void(self.fresh[-1].seq):
            self.fresh.pop()
        return self.fresh[-1] if self.fresh else None

    def pop_last(self) -> Entry:
        """Take out what :meth:`last` returned."""
        self.ready -= 1
        return self.fresh.pop()

    def take_out(self, entry: Entry) -> None:
        """Take a message out of the middle."""
        self.ready -= 1
        self._void[entry.seq] = self._void.get(entry.seq, 0) + 1
        if len(self._void) > 64 + self.ready:
            self.fresh = deque(waiting for waiting in self.fresh if not self._is_void(waiting.seq))
            self.returned = [item for item in self.returned if not self._is_void(item[1])]
            heapify(self.returned)

    def _skip_void(self) -> None:
        while self._void and self.fresh and self._is_void(self.fresh[0].seq):
            self.fresh.popleft()
        while self._void and self.returned and self._is_void(self.returned[0][1]):
            heappop(self.returned)

    def _is_void(self, seq: int) -> bool:
        """Whether a place is void. This is asked once for each place, which the caller then removes."""
        left = self._void.get(seq)
        if left is None:
            return False
        if left == 1:
            del self._void[seq]
        else:
            self._void[seq] = left - 1
        return True


class NoisyTenants(NamedTuple):
    """How many tenants are noisy, and how many messages are theirs."""

    tenants: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    quiet_oldest_ms: int | None = None  # when the oldest message of the others came, if any are noisy


class Fairness:
    """Chooses the tenant to serve next. Quiet tenants are in a line by their oldest message, noisy ones apart."""

    def __init__(self, limits: Limits, in_flight_max: int = 0) -> None:
        """``in_flight_max``: of a tenant; 0: any number."""
        self._limits = limits
        self.in_flight_max = in_flight_max
        self._full: dict[str | None, TenantLane] = {}
        # A heap; an item is void if the tenant was offered elsewhere since.
        self._line: list[tuple[int, int, TenantLane]] = []
        self._noisy: dict[str | None, TenantLane] = {}
        self._single = True  # with one tenant there is nothing to choose, and no line to keep

    def clear(self) -> None:
        self._full.clear()
        self._line.clear()
        self._noisy.clear()
        self._single = True

    @property
    def passed_over(self) -> int:
        """How many messages the noisy and the full tenants have at hand."""
        noisy = sum(tenant.ready for group, tenant in self._noisy.items() if group not in self._full)
        return noisy + self.full_ready

    @property
    def full_ready(self) -> int:
        return sum(tenant.ready for tenant in self._full.values()) if self._full else 0

    def _is_full(self, tenant: TenantLane) -> bool:
        """Whether the tenant of a group has too many in flight. Messages without a group have no tenant: they are
        never too many."""
        if not self.in_flight_max or tenant.group is None or tenant.in_flight < self.in_flight_max:
            self._full.pop(tenant.group, None)
            return False
        self._full[tenant.group] = tenant
        return True

    def noisy(self, now_ms: int) -> Mapping[str | None, TenantLane]:
        """The tenants that are noisy at this time, by their group."""
        self._quieten(now_ms)
        return self._noisy

    def offer(self, tenant: TenantLane) -> None:
        """The tenant has a message to hand out, or another first message than before."""
        if self.in_flight_max and self._is_full(tenant):
            tenant.offered = None
            return
        if self._single or tenant.noisy:
            return
        position = tenant.head_position
        if position is None:
            tenant.offered = None
        elif position != tenant.offered:
            tenant.offered = position
            heappush(self._line, (position, id(tenant), tenant))

    def forget(self, tenant: TenantLane) -> None:
        tenant.offered = None
        self._noisy.pop(tenant.group, None)
        self._full.pop(tenant.group, None)

    def choose(
        self, tenants: Mapping[str | None, TenantLane], in_flight: int, now_ms: int
    ) -> TenantLane | None:
        """The tenant to serve next, which has a message in memory."""
        if len(tenants) == 1:
            (only,) = tenants.values()
            if not self._single:
                self._single, only.offered = True, None
                self._line.clear()
            return only if only.ready and only.group not in self._full else None
        if self._single:
            self._single = False
            for tenant in tenants.values():
                self.offer(tenant)
        if self._noisy:
            self._quieten(now_ms)
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
        noisy = (t for t in self._noisy.values() if t.ready and t.group not in self._full)
        return min(noisy, key=lambda t: t.in_flight, default=None)

    def _is_noisy(self, tenant: TenantLane, in_flight: int, now_ms: int) -> bool:
        """Whether a tenant is noisy. SQS: it is when more than a tenth of all messages in flight are its own, at
        least thirty."""
        return (
            tenant.in_flight >= self._limits.noisy_in_flight_min
            and tenant.group is not None
            and tenant.in_flight > in_flight * self._limits.noisy_share
            and now_ms - tenant.last_sent_ms <= self._limits.noisy_quiet_after_ms
        )

    def _quieten(self, now_ms: int) -> None:
        """SQS: it is quiet again when its backlog is consumed, or five minutes after its last send."""
        for tenant in list(self._noisy.values()):
            consumed = not tenant.ready and not tenant.stored
            if consumed or now_ms - tenant.last_sent_ms > self._limits.noisy_quiet_after_ms:
                del self._noisy[tenant.group]
                tenant.noisy = False
                self.offer(tenant)
