"""What travels from one shard to another: messages for its queues, and the answer about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from penstock.broker.failures import FailureReport
from penstock.broker.questions import ShardQuestion
from penstock.errors import KeyUnavailable
from penstock.names import QueueName

if TYPE_CHECKING:
    from penstock.broker.outbox import Route
    from penstock.broker.partition import Partition


class Cause(StrEnum):
    """Why a message goes to a queue."""

    DEAD_LETTER = "dead-letter"  # it was received too often, or its receiver or an operator gave it up
    REDRIVE = "redrive"  # a move task of SQS
    MOVE = "move"  # an operator, or a bulk task
    COPY = "copy"  # an operator, or a bulk task
    SERVICE = "service"  # an alarm, a topic, a schedule


class QueueTarget(msgspec.Struct, frozen=True, array_like=True):
    """A queue that a message is for."""

    queue: QueueName
    token: str = ""
    """What a service wants to know if the queue refuses its message, such as a subscription."""
    insertion: str = ""
    """A text that only this queue gets, in the body of the message (:attr:`Outgoing.insert_at`)."""


class SentFor(msgspec.Struct, frozen=True, array_like=True):
    """The resource for which a service sends a message. The policy of the queue is asked whether it may."""

    service: str  # "sns.amazonaws.com"
    arn: str
    account: str


class HandedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way to queues of another shard, as it was when it left."""

    position: int  # in the log of the shard it comes from: only ever grows
    cause: Cause
    targets: tuple[QueueTarget, ...]  # one, unless it is a message of a service
    source: str  # the name of the queue that it left, or what caused it
    source_arn: str  # of the queue that it left, if it left one
    group: str | None
    age_ms: int  # clocks of two processes differ, so that times are given as ages
    receives: int
    first_received_ms: int
    content: bytes | None  # None: it cannot be decrypted, and every queue refuses it
    failures: tuple[FailureReport, ...] = ()
    version: int = 1  # that it has in the other queue
    delay_ms: int | None = None  # of its own; its age is a part of it
    insert_at: int | None = None  # where in the body the queues get their insertions
    sent_for: SentFor | None = None


UNREADABLE = KeyUnavailable.__name__
"""Why queues refuse a message that its own shard cannot decrypt."""


class TargetRefusal(msgspec.Struct, frozen=True, array_like=True):
    """A queue does not take a message."""

    position: int  # of the message
    place: int  # of the queue among the targets of the message
    reason: str  # the name of the error


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every message up to a position was added, except where queues refused one. The target shard stores this."""

    position: int
    refused: tuple[int, ...] = ()  # positions: written up to release 0.2, when a message had one target
    refusals: tuple[TargetRefusal, ...] = ()
    store: str = ""  # of the source, whose positions these are; empty: written by an earlier release

    def is_about(self, store: str) -> bool:
        """Whether these are positions of this store of the source."""
        return self.store in ("", store)

    @property
    def refused_positions(self) -> frozenset[int]:
        return frozenset(refusal.position for refusal in self.all_refusals)

    @property
    def all_refusals(self) -> tuple[TargetRefusal, ...]:
        first_form = tuple(TargetRefusal(position, 0, "QueueMissing") for position in self.refused)
        return (*first_form, *self.refusals)


class Handover(ShardQuestion[Taken], frozen=True):
    """Asks a shard to take messages. What was taken before is not taken again.

    It is tried once: the outbox tries again, and does not keep messages in memory meanwhile."""

    kind: ClassVar[str] = "deliver"
    waits: ClassVar[bool] = False
    source: int  # shard
    target: int  # shard
    store: str  # the id of the store of the source: another store counts its positions from the beginning
    messages: list[HandedMessage]  # the first ones that the source still has for this target, in order

    def shards(self, count: int) -> Iterable[int]:
        return [self.target]

    async def answer(self, partition: Partition) -> Taken:
        return await partition.inbox.take(self)


class Departed(NamedTuple):
    """Where a message is that the open commit moves or copies to another queue."""

    position: int  # in the outbox, or a number of the shard
    route: Route | None  # on which it is; None: it joins its queue with the same commit


def last_departures(before: Mapping[int, int], departed: Iterable[Departed]) -> dict[int, int]:
    """The position of the last message of a task for each other shard, with these that left later."""
    last = dict(before)
    last.update((each.route.target, each.position) for each in departed if each.route is not None)
    return last
