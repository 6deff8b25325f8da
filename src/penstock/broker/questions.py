"""Questions to shards, whichever process owns them.

A question is a struct that says how one shard answers it and how the answers of several shards become one. It works
in the same way within a process and between processes. The shards that it is about travel beside it. A process
answers for exactly these shards, which it owns until it has answered, or not at all (:class:`OwnedShards`), so that
answers put together leave no shard out and count none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, get_args, get_origin

import msgspec

from penstock.errors import NotOwned, Unreachable
from penstock.promise import start

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

A = TypeVar("A")


class ShardQuestion(msgspec.Struct, Generic[A], frozen=True, array_like=True):
    """``class Count(ShardQuestion[int])``: what each shard answers is an int, and so is what all say
    together.

    It may be asked again if an answer is lost: that must change nothing more."""

    kind: ClassVar[str]
    """The name under which it travels."""
    waits: ClassVar[bool] = True
    """It is asked again for some seconds if a shard has no owner that answers: shards move."""
    is_partial: ClassVar[bool] = False
    """A shard without an owner that answers gets :meth:`absent` as its answer. It is not asked again."""
    is_of_process: ClassVar[bool] = False
    """One of the shards of a process answers for all of them. Such a question is not partial."""

    def shards(self, count: int) -> Iterable[int]:
        """The indexes of the shards that the question is about, out of ``count`` shards."""
        return range(count)

    async def answer(self, partition: Partition) -> A:
        """What one shard says. What is not durable yet is awaited, if the answer rests on it."""
        raise NotImplementedError

    def merge(self, answers: list[A]) -> A:
        """Makes one answer of several, which may be merged ones. A question to one shard has no need of it."""
        (answer,) = answers
        return answer

    def absent(self, shard: int) -> A:
        """What is said of a shard that no process answers for, if the question is partial."""
        raise NotOwned(shard)

    def signed(self, answer: A, owner: str) -> A:
        """The answer with the address of the process that it came from, if the question wants to know."""
        return answer

    async def in_pieces(self, ask: Callable[[Self], Coroutine[Any, Any, A]]) -> A:
        """Asks in several steps where that bounds what travels at a time."""
        return await ask(self)


def answer_type(question: type[ShardQuestion[Any]]) -> Any:
    """The type of an answer, which is what the class of the question says in its brackets."""
    bases = (base for each in question.__mro__ for base in each.__dict__.get("__orig_bases__", ()))
    return next(get_args(base)[0] for base in bases if get_origin(base) is ShardQuestion)


class OtherShards(Protocol):
    """Asks shards, whichever process owns them."""

    async def ask(self, question: ShardQuestion[A], shards: Iterable[int] | None = None) -> A:
        """Ask shards, and return what they say together. ``shards``: None for those that the question is about.
        Raises Unreachable if the owner of one does not answer: never a part, unless the question is partial."""


class OwnedShards:
    """Answers for the shards of this process."""

    def __init__(self, partition: Callable[[int], Partition], shards: int) -> None:
        """``partition``: that of a shard; raises NotOwned. ``shards``: how many there are in all."""
        self.shards = shards
        self._partition = partition

    def __contains__(self, shard: int) -> bool:
        try:
            self._partition(shard)
        except NotOwned:
            return False
        return True

    async def answer(self, question: ShardQuestion[A], shards: Iterable[int]) -> A:
        """Raises NotOwned if one of the shards is not owned until it has answered, unless the question is partial."""
        shards = list(shards)
        absent = [shard for shard in shards if shard not in self] if question.is_partial else []
        partitions = [self._partition(shard) for shard in shards if shard not in absent]
        groups = [partitions] if question.is_of_process and partitions else [[each] for each in partitions]
        # All are asked before the first answer is awaited: commits that the answers rest on are made side by side.
        asked = [start(self._answer_of(question, group)) for group in groups]
        answers: list[A] = []
        for answer in asked:
            try:
                answers.append(await answer)
            except NotOwned as error:
                if not question.is_partial:
                    raise
                absent.append(error.shard)
        return question.merge(answers + [question.absent(shard) for shard in absent])

    async def _answer_of(self, question: ShardQuestion[A], partitions: list[Partition]) -> A:
        """The answer of the first of these partitions, which is about all of them. Raises NotOwned."""
        try:
            return await question.answer(partitions[0])
        finally:
            # An answer leaves out the queues of a shard that was given back or lost meanwhile, or fails.
            for each in partitions:
                if self._partition(each.shard.index) is not each:
                    raise NotOwned(each.shard.index)


class LocalShards:
    """Asks the shards of this process, which owns all of them."""

    def __init__(self, owned: OwnedShards) -> None:
        self._owned = owned

    async def ask(self, question: ShardQuestion[A], shards: Iterable[int] | None = None) -> A:
        try:
            return await self._owned.answer(
                question, question.shards(self._owned.shards) if shards is None else shards
            )
        except NotOwned as error:
            # NotOwned would pass the request on to another process, and there is none.
            raise Unreachable(f"shard {error.shard} is not open: repeat the request") from None
