"""Questions that shards ask each other about queues. The structs are what processes exchange."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from penstock.broker.questions import OtherShards, ShardQuestion
from penstock.cache import BoundedCache
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.limits import SECOND
from penstock.names import QueueName, Space, shard_of
from penstock.promise import run_detached
from penstock.queues.settings import QueueRecord
from penstock.store.port import LAST

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

_NAMES_PER_PIECE = 2000
_REMEMBERED_MS = 5 * SECOND
_REMEMBERED_MAX = 4096


class DefinitionQuestion(ShardQuestion[QueueRecord | None], frozen=True):
    """The definition of a queue; None if it does not exist."""

    kind: ClassVar[str] = "definition"
    name: QueueName

    def shards(self, count: int) -> Iterable[int]:
        return [shard_of(self.name, count)]

    async def answer(self, partition: Partition) -> QueueRecord | None:
        queue = partition.catalogue.get(self.name)
        if queue is None:
            return None
        await partition.shard.settled()
        return queue.record


class NameList(ShardQuestion[list[QueueName]], frozen=True, kw_only=True):
    """The first names of some queues beyond one, in order."""

    after: str = ""
    names_max: int = LAST

    def merge(self, answers: list[list[QueueName]]) -> list[QueueName]:
        return list(islice(merge(*answers), self.names_max))

    async def in_pieces(self, ask: Callable[[Self], Coroutine[Any, Any, list[QueueName]]]) -> list[QueueName]:
        found: list[QueueName] = []
        while True:
            size = min(_NAMES_PER_PIECE, self.names_max - len(found))
            after = found[-1].name if found else self.after
            piece = await ask(msgspec.structs.replace(self, after=after, names_max=size))
            found += piece
            if len(piece) < size or len(found) == self.names_max:
                return found


class NamesQuestion(NameList, frozen=True):
    """The queues of a space."""

    kind: ClassVar[str] = "names"
    space: Space
    prefix: str = ""

    async def answer(self, partition: Partition) -> list[QueueName]:
        names = partition.catalogue.names(self.space, self.prefix, self.after, self.names_max)
        await partition.shard.settled()
        return names


class SourcesQuestion(NameList, frozen=True):
    """The queues that name this one as their dead-letter queue."""

    kind: ClassVar[str] = "sources"
    target: QueueName

    async def answer(self, partition: Partition) -> list[QueueName]:
        names = partition.catalogue.sources_of(self.target, self.after)
        await partition.shard.settled()
        return names[: self.names_max]


class CountQuestion(ShardQuestion[int], frozen=True):
    """How many queues an account has, in all regions."""

    kind: ClassVar[str] = "count"
    account: str

    async def answer(self, partition: Partition) -> int:
        return partition.catalogue.count(self.account)

    def merge(self, answers: list[int]) -> int:
        return sum(answers)


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
        """Whether a queue may exist, as far as is known now. What is unknown or out of date is asked in the
        background.

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
        """Ask now. Raises Unreachable, or an error of the store of the other shard."""
        record = await self._others.ask(DefinitionQuestion(name))
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
