"""What shards ask each other: which queues there are, and to take messages.

Every question names the shards that it is about. A process answers it for exactly these shards or not at all
(:class:`OwnedShards`), so that answers put together leave no shard out and count none twice. The structs are what
travels between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from penstock.broker.failures import FailureReport
from penstock.broker.queue_series import QueueSeries, SeriesQuery, SeriesQuestion, first_series, series_of
from penstock.broker.summaries import (
    QueueQuery,
    QueueSummary,
    QueueTotals,
    ShardStatus,
    StatusQuestion,
    SummariesQuestion,
    TargetsQuestion,
    TaskPlace,
    TasksQuestion,
    TotalsQuestion,
    all_statuses,
    first_summaries,
    first_tasks,
    status_of,
    sum_totals,
    summaries_of,
    targets_of,
    tasks_of,
    totals_of,
)
from penstock.cache import BoundedCache
from penstock.clock import Clock
from penstock.errors import NotOwned, PenstockError, Unreachable
from penstock.limits import SECOND
from penstock.names import QueueName, Space, shard_of
from penstock.promise import run_detached
from penstock.queues.settings import QueueRecord

if TYPE_CHECKING:
    from penstock.broker.bulk_tasks import BulkTaskRecord
    from penstock.broker.partition import Partition

Q = TypeVar("Q")
A = TypeVar("A")

_REMEMBERED_MS = 5 * SECOND
_REMEMBERED_MAX = 4096


class NamesQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The first names of a space, in order."""

    shards: list[int]
    space: Space
    prefix: str
    after: str  # only names beyond this one
    names_max: int


class SourcesQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The first queues, in order, that name this one as their dead-letter queue."""

    shards: list[int]
    target: QueueName
    after: str
    names_max: int


class CountQuestion(msgspec.Struct, frozen=True, array_like=True):
    """How many queues an account has, in all regions."""

    shards: list[int]
    account: str


class HandedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way to a queue of another shard, as it was when it left."""

    position: int  # in the log of the shard it comes from: only ever grows
    target: QueueName
    source: QueueName
    is_dead_letter: bool  # else it is moved
    group: str | None
    age_ms: int  # clocks of two processes differ, so that times are given as ages
    receives: int
    first_received_ms: int
    content: bytes
    failures: tuple[FailureReport, ...] = ()
    keeps_id: bool = False  # an operator moves it
    version: int = 1  # that it has in the other queue


class Handover(msgspec.Struct, frozen=True, array_like=True):
    source: int  # shard
    target: int  # shard
    messages: list[HandedMessage]  # the first ones that the source still has for this target, in order


class Taken(msgspec.Struct, frozen=True):
    """Every message up to a position was added, except those whose queue does not exist."""

    position: int
    refused: tuple[int, ...] = ()  # positions


class ShardQuestion(Generic[Q, A]):
    """One kind of question: how it travels, and what answers it in the process that owns the shards."""

    def __init__(
        self,
        kind: str,
        asked: type[Q],
        answered: Any,
        answer: Callable[[OwnedShards, Q], Coroutine[Any, Any, A]],
    ) -> None:
        """``answer`` raises NotOwned if a shard of the question is not owned."""
        self.kind = kind
        self.answer = answer
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode_question = msgspec.msgpack.Decoder(asked).decode
        self.decode_answer: Callable[[bytes], A] = msgspec.msgpack.Decoder(answered).decode

    def serve(self, owned: OwnedShards) -> Callable[[bytes], Coroutine[Any, Any, bytes]]:
        async def handle(payload: bytes) -> bytes:
            return self.encode(await self.answer(owned, self.decode_question(payload)))

        return handle


class OtherShards(Protocol):
    """Answers for all shards together. Raises Unreachable if one owner does not answer: never a part."""

    async def ask(
        self, question: ShardQuestion[Q, A], shards: list[int], about: Callable[[list[int]], Q]
    ) -> list[A]:
        """The answers of all owners of these shards. ``about``: what one of them is asked about its shards. It may be
        asked again: that must change nothing more."""

    async def describe(self, name: QueueName) -> QueueRecord | None:
        """The definition of a queue; None if it does not exist."""

    async def names(self, space: Space, prefix: str, after: str, names_max: int) -> list[QueueName]:
        """The first names beyond ``after``, sorted."""

    async def sources_of(self, name: QueueName, after: str, names_max: int) -> list[QueueName]:
        """The first queues beyond ``after`` that name this one as their dead-letter queue, sorted."""

    async def count(self, account: str) -> int:
        """How many queues an account has, in all regions."""

    async def deliver(self, handover: Handover) -> Taken:
        """May be repeated: what was taken before is not taken again."""

    async def summaries(self, query: QueueQuery) -> list[QueueSummary]:
        """The first queues in the order of the query."""

    async def series(self, query: SeriesQuery) -> list[QueueSeries]:
        """Returns the series of the first queues, in order of name."""

    async def targets(self, space: Space) -> set[str]:
        """The names that queues have as their dead-letter queue."""

    async def tasks(
        self, space: Space, queue: str | None, tasks_max: int, after: TaskPlace | None
    ) -> list[BulkTaskRecord]:
        """The first bulk tasks of a space, or of one of its queues, behind a place; the latest first."""

    async def statuses(self) -> list[ShardStatus]:
        """Returns the state of every shard, in order. One whose owner does not answer is shown as not open."""


class OwnedShards:
    """What this process answers about its shards, to itself and to others. Raises NotOwned. Answers are durable."""

    def __init__(self, partition: Callable[[int], Partition], shards: int) -> None:
        """``partition``: that of a shard; raises NotOwned."""
        self.shards = shards
        self._partition = partition

    def __contains__(self, shard: int) -> bool:
        try:
            self._partition(shard)
        except NotOwned:
            return False
        return True

    async def describe(self, name: QueueName) -> QueueRecord | None:
        partition = self._partition(shard_of(name, self.shards))
        queue = partition.catalogue.get(name)
        if queue is None:
            return None
        await partition.shard.settled()
        return queue.record

    async def names(self, question: NamesQuestion) -> list[QueueName]:
        partitions = [self._partition(shard) for shard in question.shards]
        found = [
            each.catalogue.names(question.space, question.prefix, question.after, question.names_max)
            for each in partitions
        ]
        for partition in partitions:
            await partition.shard.settled()
        return first_names(found, question.names_max)

    async def sources_of(self, question: SourcesQuestion) -> list[QueueName]:
        partitions = [self._partition(shard) for shard in question.shards]
        found = [each.catalogue.sources_of(question.target, question.after) for each in partitions]
        for partition in partitions:
            await partition.shard.settled()
        return first_names(found, question.names_max)

    async def count(self, question: CountQuestion) -> int:
        return sum(self._partition(shard).catalogue.count(question.account) for shard in question.shards)

    async def deliver(self, handover: Handover) -> Taken:
        return await self._partition(handover.target).inbox.take(handover)

    async def summaries(self, question: SummariesQuestion) -> list[QueueSummary]:
        partitions = [self._partition(shard) for shard in question.shards]
        found = [await summaries_of(each, question.query) for each in partitions]
        return first_summaries(found, question.query)

    async def totals(self, question: TotalsQuestion) -> QueueTotals:
        partitions = [self._partition(shard) for shard in question.shards]
        return sum_totals([await totals_of(each, question.query, question.targets) for each in partitions])

    async def series(self, question: SeriesQuestion) -> list[QueueSeries]:
        partitions = [self._partition(shard) for shard in question.shards]
        return first_series([await series_of(each, question.query) for each in partitions], question.query)

    async def targets(self, question: TargetsQuestion) -> set[str]:
        partitions = [self._partition(shard) for shard in question.shards]
        return set[str]().union(*[await targets_of(each, question.space) for each in partitions])

    async def tasks(self, question: TasksQuestion) -> list[BulkTaskRecord]:
        partitions = [self._partition(shard) for shard in question.shards]
        found = [tasks_of(each, question) for each in partitions]
        for partition in partitions:
            await partition.shard.settled()
        return first_tasks(found, question.tasks_max)

    async def statuses(self, question: StatusQuestion) -> list[ShardStatus]:
        return [await status_of(self._partition(shard)) for shard in question.shards if shard in self]


TOTALS = ShardQuestion("totals", TotalsQuestion, QueueTotals, OwnedShards.totals)


def first_names(found: Iterable[list[QueueName]], names_max: int) -> list[QueueName]:
    """Merges sorted lists that have no name in common."""
    return list(islice(merge(*found), names_max))


class LocalShards:
    """All shards belong to this process."""

    def __init__(self, owned: OwnedShards) -> None:
        self._owned = owned
        self._all = list(range(owned.shards))

    async def ask(
        self, question: ShardQuestion[Q, A], shards: list[int], about: Callable[[list[int]], Q]
    ) -> list[A]:
        if not shards:
            return []
        with _all_open():
            return [await question.answer(self._owned, about(shards))]

    async def describe(self, name: QueueName) -> QueueRecord | None:
        with _all_open():
            return await self._owned.describe(name)

    async def names(self, space: Space, prefix: str, after: str, names_max: int) -> list[QueueName]:
        with _all_open():
            return await self._owned.names(NamesQuestion(self._all, space, prefix, after, names_max))

    async def sources_of(self, name: QueueName, after: str, names_max: int) -> list[QueueName]:
        with _all_open():
            return await self._owned.sources_of(SourcesQuestion(self._all, name, after, names_max))

    async def count(self, account: str) -> int:
        with _all_open():
            return await self._owned.count(CountQuestion(self._all, account))

    async def deliver(self, handover: Handover) -> Taken:
        with _all_open():
            return await self._owned.deliver(handover)

    async def summaries(self, query: QueueQuery) -> list[QueueSummary]:
        with _all_open():
            return await self._owned.summaries(SummariesQuestion(self._all, query))

    async def series(self, query: SeriesQuery) -> list[QueueSeries]:
        with _all_open():
            return await self._owned.series(SeriesQuestion(self._all, query))

    async def targets(self, space: Space) -> set[str]:
        with _all_open():
            return await self._owned.targets(TargetsQuestion(self._all, space))

    async def tasks(
        self, space: Space, queue: str | None, tasks_max: int, after: TaskPlace | None
    ) -> list[BulkTaskRecord]:
        with _all_open():
            return await self._owned.tasks(TasksQuestion(self._all, space, queue, tasks_max, after))

    async def statuses(self) -> list[ShardStatus]:
        found = await self._owned.statuses(StatusQuestion(self._all))
        return all_statuses(found, self._owned.shards)


@contextmanager
def _all_open() -> Iterator[None]:
    """NotOwned would pass the request on to another process, and there is none."""
    try:
        yield
    except NotOwned as error:
        raise Unreachable(f"shard {error.shard} is not open: repeat the request") from None


class Existence(msgspec.Struct, frozen=True):
    """What was last said of a queue."""

    exists: bool
    until_ms: int  # then it is asked for again


class RemoteQueues:
    """Which queues of other shards exist, as far as this shard knows at once: remembered for a short time."""

    def __init__(self, others: OtherShards, clock: Clock) -> None:
        self._others = others
        self._clock = clock
        self._known: BoundedCache[QueueName, Existence] = BoundedCache(_REMEMBERED_MAX)
        self._asking: set[QueueName] = set()

    def may_exist(self, name: QueueName) -> bool:
        """Answers at once; what is not known or was said a while ago is asked for meanwhile.

        A queue is assumed to exist until it is known that it does not: a message that was sent there in vain comes
        back."""
        known = self._known.get(name)
        if (known is None or known.until_ms <= self._clock.now_ms()) and name not in self._asking:
            self._asking.add(name)
            run_detached(self._ask(name))
            known = self._known.get(name)
        return known is None or known.exists

    def note(self, name: QueueName, *, exists: bool) -> None:
        self._known.put(name, Existence(exists, self._clock.now_ms() + _REMEMBERED_MS))

    async def find(self, name: QueueName) -> QueueRecord | None:
        """Ask now. Raises Unreachable."""
        record = await self._others.describe(name)
        self.note(name, exists=record is not None)
        return record

    async def _ask(self, name: QueueName) -> None:
        try:
            await self.find(name)
        except PenstockError:
            known = self._known.get(name)  # not to be asked again with every receive
            self.note(name, exists=known is None or known.exists)
        finally:
            self._asking.discard(name)
