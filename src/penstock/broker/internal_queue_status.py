"""What operators see of the internal queues of all shards."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock.broker.questions import ShardQuestion
from penstock.store.port import LAST

if TYPE_CHECKING:
    from penstock.broker.partition import Partition


class InternalQueuePlace(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, order=True
):
    """Where an internal queue is in the list of all."""

    kind: str
    account: str
    region: str


class InternalQueueStatus(msgspec.Struct, frozen=True, array_like=True):
    """What operators see of an internal queue, or of those that a space has for one kind in several shards."""

    place: InternalQueuePlace
    waiting: int
    running: int
    put_off: int  # among the waiting: they wait for the next try, or for the time when they are due
    oldest_age_ms: int | None  # as FigureReader.oldest defines it

    def __add__(self, other: InternalQueueStatus) -> InternalQueueStatus:
        ages = [age for age in (self.oldest_age_ms, other.oldest_age_ms) if age is not None]
        return InternalQueueStatus(
            self.place,
            self.waiting + other.waiting,
            self.running + other.running,
            self.put_off + other.put_off,
            max(ages, default=None),
        )


AskStatus = Callable[["Partition"], Coroutine[Any, None, InternalQueueStatus | None]]
"""The status of one internal queue; None if it is empty."""


class InternalQueuesQuestion(ShardQuestion[list[InternalQueueStatus]], frozen=True):
    """The first internal queues behind a place that are not empty, of all accounts."""

    kind: ClassVar[str] = "internal-queues"
    rows_max: int = LAST
    after: InternalQueuePlace | None = None

    async def answer(self, partition: Partition) -> list[InternalQueueStatus]:
        await partition.shard.settled()
        by_place: dict[InternalQueuePlace, list[AskStatus]] = {}
        for part in partition.parts:
            for jobs in part.job_queues:
                for consumer in jobs.consumers:
                    if consumer.unfinished and (self.after is None or consumer.place > self.after):
                        by_place.setdefault(consumer.place, []).append(consumer.status)
        found: list[InternalQueueStatus] = []
        for place in sorted(by_place):
            each = [await status_of(partition) for status_of in by_place[place]]
            if statuses := [status for status in each if status is not None]:
                found.append(reduce(add, statuses))
            if len(found) == self.rows_max:
                break
        return found

    def merge(self, answers: list[list[InternalQueueStatus]]) -> list[InternalQueueStatus]:
        by_place: dict[InternalQueuePlace, InternalQueueStatus] = {}
        for status in chain.from_iterable(answers):
            known = by_place.get(status.place)
            by_place[status.place] = status if known is None else known + status
        return [by_place[place] for place in sorted(by_place)[: self.rows_max]]
