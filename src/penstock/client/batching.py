"""Which messages go into the next batch, and when. Pure rules: the time is an argument.

A batch is sent when it is full, or when its first message has waited for ``linger_s``. A message that has to be sent
again waits for its own time and then goes first.

On a FIFO queue a message must not overtake an earlier one of its group, also if that one failed and is sent again.
The entries of a batch can fail one by one, so a batch has one message of a group, and the group waits for its result.
With ``batch_groups`` a batch takes further messages of a group along: ten times as many in a request, for servers on
which a single entry fails only for good. Penstock is one: the other entries of a batch are one commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from penstock.client.limits import ENTRIES_MAX, MESSAGE_BYTES_MAX
from penstock.client.structs import AttributeValue, to_attribute


def message_size(body: str, attributes: Mapping[str, AttributeValue] | None) -> int:
    """The size in bytes, as SQS counts them: the body, and names, types and values of the attributes."""
    size = len(body.encode("utf-8", "surrogatepass"))
    for name, value in (attributes or {}).items():
        attribute = to_attribute(name, value)
        text = f"{name}{attribute.data_type}{attribute.string_value or ''}"
        size += len(text.encode("utf-8", "surrogatepass")) + len(attribute.binary_value or b"")
    return size


class BatchLimits(NamedTuple):
    linger_s: float = 0.005
    count_max: int = ENTRIES_MAX
    bytes_max: int = MESSAGE_BYTES_MAX


R = TypeVar("R")


class PendingSend(Generic[R]):
    """A message on its way. ``request`` is what its owner needs to send it."""

    __slots__ = ("added_s", "alone", "attempts", "group", "request", "size")

    def __init__(self, request: R, size: int, group: str | None = None) -> None:
        self.request = request
        self.size = size
        self.group = group
        self.added_s = 0.0
        self.attempts = 0
        self.alone = False  # in a batch of its own, since a batch with it was refused as a whole


class _Lane(Generic[R]):
    """A group, while one of its messages is ready, under way, or waits to be sent again."""

    __slots__ = ("unsettled", "waiting")

    def __init__(self) -> None:
        self.unsettled = 1
        self.waiting: deque[PendingSend[R]] = deque()


class Batcher(Generic[R]):
    """``take`` hands out messages. Each comes back by ``settle`` or ``retry``."""

    def __init__(self, limits: BatchLimits, *, ordered: bool = False, batch_groups: bool = False) -> None:
        self._limits = limits
        self._ordered = ordered
        self._batch_groups = batch_groups
        self._ready: deque[PendingSend[R]] = deque()
        self._lanes: dict[str, _Lane[R]] = {}
        self._later: list[tuple[float, int, PendingSend[R]]] = []
        self._retries = 0

    def add(self, message: PendingSend[R], now_s: float) -> None:
        message.added_s = now_s
        if self._ordered and message.group is not None:
            if message.group in self._lanes:
                self._lanes[message.group].waiting.append(message)
                return
            self._lanes[message.group] = _Lane()
        self._ready.append(message)

    def take(self, now_s: float, *, flush: bool = False) -> list[PendingSend[R]]:
        """The next batch, if it is to be sent now; ``flush`` does not wait for more messages."""
        self._revive(now_s)
        batch, is_full = self._first_batch()
        if batch and not (is_full or flush or now_s >= batch[0].added_s + self._limits.linger_s):
            self._ready.extendleft(reversed(batch))
            return []
        return self._with_more_of_groups(batch) if self._batch_groups else batch

    def next_due_s(self) -> float | None:
        """When ``take`` may have a batch that it does not have now."""
        due = [self._later[0][0]] if self._later else []
        if self._ready:
            due.append(self._ready[0].added_s + self._limits.linger_s)
        return min(due, default=None)

    def settle(self, message: PendingSend[R]) -> None:
        """Note that a message was sent, or never will be: the next one of its group may be sent."""
        if (lane := self._lane(message)) is None:
            return
        assert message.group is not None
        lane.unsettled -= 1
        if lane.unsettled == 0 and lane.waiting:
            lane.unsettled = 1
            self._ready.append(lane.waiting.popleft())
        elif lane.unsettled == 0:
            del self._lanes[message.group]

    def retry(self, failed: Iterable[PendingSend[R]], due_s: float) -> None:
        """Send these of one batch again, those of a group one after the other."""
        first_of: set[str] = set()
        behind: list[tuple[_Lane[R], PendingSend[R]]] = []
        for message in failed:
            lane = self._lane(message)
            if lane is not None and message.group in first_of:
                behind.append((lane, message))
                continue
            if message.group is not None:
                first_of.add(message.group)
            self._retries += 1
            heappush(self._later, (due_s, self._retries, message))
        for lane, message in reversed(behind):
            lane.unsettled -= 1
            lane.waiting.appendleft(message)

    def _lane(self, message: PendingSend[R]) -> _Lane[R] | None:
        return self._lanes[message.group] if self._ordered and message.group is not None else None

    def _revive(self, now_s: float) -> None:
        """Put the messages whose time has come to the front."""
        due = []
        while self._later and self._later[0][0] <= now_s:
            due.append(heappop(self._later)[2])
        self._ready.extendleft(reversed(due))

    def _first_batch(self) -> tuple[list[PendingSend[R]], bool]:
        """The messages at the front that fit into one batch, and whether it is full."""
        batch: list[PendingSend[R]] = []
        size = 0
        while self._ready:
            message = self._ready[0]
            if batch and (message.alone or size + message.size > self._limits.bytes_max):
                return batch, True
            batch.append(self._ready.popleft())
            size += message.size
            if message.alone or len(batch) == self._limits.count_max:
                return batch, True
        return batch, size >= self._limits.bytes_max

    def _with_more_of_groups(self, batch: list[PendingSend[R]]) -> list[PendingSend[R]]:
        size = sum(message.size for message in batch)
        for first in list(batch):
            lane = None if first.alone else self._lane(first)
            while lane is not None and lane.waiting and len(batch) < self._limits.count_max:
                message = lane.waiting[0]
                if message.alone or size + message.size > self._limits.bytes_max:
                    break
                batch.append(lane.waiting.popleft())
                size += message.size
                lane.unsettled += 1
        return batch
