"""Which received message is handled next, and how many more to receive.

Messages are received in advance only as far as they can be begun soon: what waits here cannot be handled by another
worker. On a FIFO queue the messages of a group are handled in their order, by one call of the handler at a time, and
different groups in parallel. After a failure nothing that follows in its group is handled: it is given back, last
message first.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from penstock.client.consumer.claims import Claim
from penstock.client.limits import ENTRIES_MAX

_AHEAD_S_MAX = 2.0  # of work that waits here
_AHEAD_PART = 0.25  # of the visibility timeout
_WEIGHT = 0.2  # of the last duration in the mean
_CAREFUL_S = 60.0  # after a failure on a FIFO queue; see FifoSchedule.wanted


class Ahead:
    """How much work may wait for each handler: what it does in two seconds, by the time that messages took."""

    def __init__(self, visibility_s: float, prefetch_max: int) -> None:
        self._ahead_s = min(_AHEAD_S_MAX, visibility_s * _AHEAD_PART)
        self._prefetch_max = prefetch_max
        self._mean_s: float | None = None

    def observe(self, seconds: float) -> None:
        """Records how long a message took."""
        mean_s = self._mean_s
        self._mean_s = seconds if mean_s is None else mean_s + (seconds - mean_s) * _WEIGHT

    def per_handler(self) -> int:
        """None before it is known how long messages take."""
        if self._mean_s is None:
            return 0
        return int(min(self._prefetch_max, self._ahead_s / max(self._mean_s, 1e-6)))


class Schedule(Protocol):
    def add(self, claims: list[Claim], now: float) -> None:
        """Add messages that were received in this order."""

    def start(self, now: float) -> list[Claim] | None:
        """Returns what the next call of the handler gets, if one may begin: one message, or a batch."""

    def start_at(self) -> float:
        """Returns when :meth:`start` would give a batch that waits to become larger."""

    def finish(self, claims: list[Claim], now: float, *, failed: bool) -> list[Claim]:
        """Note that a call has ended. Returns which messages are given back, in this order."""

    def lost(self, claim: Claim) -> list[Claim]:
        """Remove a waiting message that is not ours any more. Returns which messages are given back, in this
        order."""

    def drain(self) -> list[Claim]:
        """Remove all messages that wait. Returns them in the order in which they are given back."""

    def wanted(self, now: float) -> int:
        """Returns how many messages to receive now; 0 if enough are here."""


class StandardSchedule:
    def __init__(
        self, concurrency: int, ahead: Ahead, batch_size: int = 1, batch_wait_s: float = 0.0
    ) -> None:
        self._concurrency = concurrency
        self._ahead = ahead
        self._batch_size = batch_size
        self._batch_wait_s = batch_wait_s
        self._waiting: deque[tuple[float, Claim]] = deque()
        self._running = 0  # calls of the handler
        self._handled = 0  # messages in them

    def add(self, claims: list[Claim], now: float) -> None:
        self._waiting.extend((now, claim) for claim in claims)

    def start(self, now: float) -> list[Claim] | None:
        if self._running >= self._concurrency or not self._waiting or now < self.start_at():
            return None
        count = min(self._batch_size, len(self._waiting))
        claims = [self._waiting.popleft()[1] for _ in range(count)]
        self._running += 1
        self._handled += count
        return claims

    def start_at(self) -> float:
        if self._running >= self._concurrency or not self._waiting:
            return float("inf")
        is_full = len(self._waiting) >= self._batch_size
        return 0.0 if is_full else self._waiting[0][0] + self._batch_wait_s

    def finish(self, claims: list[Claim], now: float, *, failed: bool) -> list[Claim]:
        self._running -= 1
        self._handled -= len(claims)
        return []

    def lost(self, claim: Claim) -> list[Claim]:
        self._waiting = deque(each for each in self._waiting if each[1] is not claim)
        return []

    def drain(self) -> list[Claim]:
        given_back = [claim for _, claim in reversed(self._waiting)]
        self._waiting.clear()
        return given_back

    def wanted(self, now: float) -> int:
        ahead = self._concurrency * self._ahead.per_handler()
        room = self._concurrency * self._batch_size + ahead - self._handled - len(self._waiting)
        # While something waits, a few at once: a request for each message would cost more than it does.
        return room if not self._waiting or room >= min(ENTRIES_MAX, max(1, ahead // 2)) else 0


class _HeldGroup:
    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Claim] = deque()
        self.running: list[Claim] | None = None


class FifoSchedule:
    def __init__(self, concurrency: int, ahead: Ahead, batch_size: int = 1) -> None:
        self._concurrency = concurrency
        self._ahead = ahead
        self._batch_size = batch_size
        self._groups: dict[str, _HeldGroup] = {}  # those with messages here
        self._ready: deque[str] = deque()  # that wait and do not run, in the order in which they can
        self._running = 0
        self._careful_until = 0.0

    def add(self, claims: list[Claim], now: float) -> None:
        for claim in claims:
            group = self._groups.setdefault(group_of(claim), _HeldGroup())
            if not group.waiting and group.running is None:
                self._ready.append(group_of(claim))
            group.waiting.append(claim)

    def start(self, now: float) -> list[Claim] | None:
        if self._running >= self._concurrency or not self._ready:
            return None
        group = self._groups[self._ready.popleft()]
        group.running = [group.waiting.popleft() for _ in range(min(self._batch_size, len(group.waiting)))]
        self._running += 1
        return group.running

    def start_at(self) -> float:
        return 0.0 if self._ready and self._running < self._concurrency else float("inf")

    def finish(self, claims: list[Claim], now: float, *, failed: bool) -> list[Claim]:
        name = group_of(claims[0])
        group = self._groups[name]
        assert group.running is claims, "one call of the handler for a group at a time"
        group.running = None
        self._running -= 1
        given_back: list[Claim] = []
        if failed:
            self._careful_until = now + _CAREFUL_S
            given_back = list(reversed(group.waiting))
            group.waiting.clear()
        if group.waiting:
            self._ready.append(name)
        else:
            del self._groups[name]
        return given_back

    def lost(self, claim: Claim) -> list[Claim]:
        name = group_of(claim)
        group = self._groups.get(name)
        if group is None:
            return []
        if group.running is not None and claim in group.running:
            behind = list(group.waiting)
            group.waiting.clear()
        elif claim in group.waiting:
            place = group.waiting.index(claim)
            behind = list(group.waiting)[place + 1 :]
            group.waiting = deque(list(group.waiting)[:place])
        else:
            return []
        if not group.waiting and group.running is None:
            self._ready.remove(name)
            del self._groups[name]
        return behind[::-1]

    def drain(self) -> list[Claim]:
        given_back: list[Claim] = []
        for name, group in list(self._groups.items()):
            given_back += reversed(group.waiting)
            group.waiting.clear()
            if group.running is None:
                del self._groups[name]
        self._ready.clear()
        return given_back

    def wanted(self, now: float) -> int:
        """SQS: a receive takes as many messages as it can from one group, and counts each as received. Those behind a
        message that fails would be received as often as that one, and be dead letters with it, without ever having
        been handled. So for a minute after a failure messages are received one by one."""
        if len(self._groups) >= self._concurrency:
            return 0
        if now < self._careful_until:
            return 1
        return min(ENTRIES_MAX, max(self._batch_size, 1 + self._ahead.per_handler()))


def group_of(claim: Claim) -> str:
    group: str = claim.message.attributes.get("MessageGroupId", "")
    return group
