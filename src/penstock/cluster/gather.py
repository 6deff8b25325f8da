"""What this process asks about shards of other processes: one question to each owner, one answer from all.

An owner answers for exactly the shards that it was asked for, or says which of them it does not own. Then that is
asked again, of the next owner: shards move, and have no owner for a moment. An answer is complete, with every shard
in it once, or it is an error. Asking again is always safe: what was handed over before is not taken again, and
everything else only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.broker.bulk_tasks import BulkTaskRecord
from penstock.broker.other_shards import (
    TOTALS,
    CountQuestion,
    Handover,
    NamesQuestion,
    OwnedShards,
    ShardQuestion,
    SourcesQuestion,
    Taken,
    first_names,
)
from penstock.broker.queue_series import QueueSeries, SeriesQuery, SeriesQuestion, first_series
from penstock.broker.summaries import (
    QueueQuery,
    QueueSummary,
    ShardStatus,
    StatusQuestion,
    SummariesQuestion,
    TargetsQuestion,
    TaskPlace,
    TasksQuestion,
    all_statuses,
    first_summaries,
    first_tasks,
)
from penstock.cluster.accepting import LinkListener
from penstock.cluster.link import Peers
from penstock.cluster.owners import Owners
from penstock.errors import NotOwned, PenstockError, Unreachable
from penstock.names import QueueName, Space, shard_of
from penstock.promise import start
from penstock.queues.settings import QueueRecord

Q = TypeVar("Q")
A = TypeVar("A")

_NAMES_PER_PAGE = 2000


class GatherLimits(NamedTuple):
    """How long an owner is looked for."""

    wait_s: float = 5.0
    pause_s_min: float = 0.02  # between two looks, doubled each time
    pause_s_max: float = 0.3


DESCRIBE = ShardQuestion("describe", QueueName, QueueRecord | None, OwnedShards.describe)
NAMES = ShardQuestion("names", NamesQuestion, list[QueueName], OwnedShards.names)
SOURCES = ShardQuestion("sources", SourcesQuestion, list[QueueName], OwnedShards.sources_of)
COUNT = ShardQuestion("count", CountQuestion, int, OwnedShards.count)
DELIVER = ShardQuestion("deliver", Handover, Taken, OwnedShards.deliver)
SUMMARIES = ShardQuestion("summaries", SummariesQuestion, list[QueueSummary], OwnedShards.summaries)
SERIES = ShardQuestion("series", SeriesQuestion, list[QueueSeries], OwnedShards.series)
TARGETS = ShardQuestion("targets", TargetsQuestion, set[str], OwnedShards.targets)
TASKS = ShardQuestion("tasks", TasksQuestion, list[BulkTaskRecord], OwnedShards.tasks)
STATUSES = ShardQuestion("statuses", StatusQuestion, list[ShardStatus], OwnedShards.statuses)

QUESTIONS: tuple[ShardQuestion[Any, Any], ...] = (
    DESCRIBE, NAMES, SOURCES, COUNT, DELIVER, SUMMARIES, TOTALS, SERIES, TARGETS, TASKS, STATUSES,
)  # fmt: skip


def answer_others(
    listener: LinkListener, owned: OwnedShards, more: Iterable[ShardQuestion[Any, Any]] = ()
) -> None:
    """Answer what other processes ask about the shards of this one."""
    for question in (*QUESTIONS, *more):
        listener.handle(question.kind, question.serve(owned))


class ClusterShards:
    """All shards of a store, whichever process owns them."""

    def __init__(
        self,
        address: str,
        owners: Owners,
        peers: Peers,
        owned: OwnedShards,
        limits: GatherLimits = GatherLimits(),  # noqa: B008  # it never changes
    ) -> None:
        """``address``: under which others reach this process."""
        self._address = address
        self._owners = owners
        self._peers = peers
        self._owned = owned
        self._limits = limits

    async def ask(
        self, question: ShardQuestion[Q, A], shards: list[int], about: Callable[[list[int]], Q]
    ) -> list[A]:
        return await self._gather(question, shards, about)

    async def describe(self, name: QueueName) -> QueueRecord | None:
        shard = shard_of(name, self._owned.shards)
        (record,) = await self._gather(DESCRIBE, [shard], lambda shards: name)
        return record

    async def names(self, space: Space, prefix: str, after: str, names_max: int) -> list[QueueName]:
        def question(shards: list[int], after: str, names_max: int) -> NamesQuestion:
            return NamesQuestion(shards, space, prefix, after, names_max)

        return await self._pages(NAMES, question, after, names_max)

    async def sources_of(self, name: QueueName, after: str, names_max: int) -> list[QueueName]:
        def question(shards: list[int], after: str, names_max: int) -> SourcesQuestion:
            return SourcesQuestion(shards, name, after, names_max)

        return await self._pages(SOURCES, question, after, names_max)

    async def count(self, account: str) -> int:
        every = list(range(self._owned.shards))
        return sum(await self._gather(COUNT, every, lambda shards: CountQuestion(shards, account)))

    async def deliver(self, handover: Handover) -> Taken:
        """Tried once: the outbox tries again, and does not keep messages in memory meanwhile."""
        (taken,) = await self._gather(DELIVER, [handover.target], lambda shards: handover, wait_s=0.0)
        return taken

    async def summaries(self, query: QueueQuery) -> list[QueueSummary]:
        every = list(range(self._owned.shards))
        found = await self._gather(SUMMARIES, every, lambda shards: SummariesQuestion(shards, query))
        return first_summaries(found, query)

    async def series(self, query: SeriesQuery) -> list[QueueSeries]:
        shards, named = self._owned.shards, query.named
        asked = list(range(shards)) if named is None else sorted({shard_of(name, shards) for name in named})
        found = await self._gather(SERIES, asked, lambda shards: SeriesQuestion(shards, query))
        return first_series(found, query)

    async def targets(self, space: Space) -> set[str]:
        every = list(range(self._owned.shards))
        found = await self._gather(TARGETS, every, lambda shards: TargetsQuestion(shards, space))
        return set[str]().union(*found)

    async def tasks(
        self, space: Space, queue: str | None, tasks_max: int, after: TaskPlace | None
    ) -> list[BulkTaskRecord]:
        def question(shards: list[int]) -> TasksQuestion:
            return TasksQuestion(shards, space, queue, tasks_max, after)

        return first_tasks(await self._gather(TASKS, list(range(self._owned.shards)), question), tasks_max)

    async def statuses(self) -> list[ShardStatus]:
        """Asked once: the answer is for a person who wants to know what is wrong now."""
        groups = self._by_owner(list(range(self._owned.shards)))
        asked = [
            (owner or self._address, start(self._ask(STATUSES, owner, StatusQuestion(group))))
            for owner, group in groups.items()
        ]
        found: list[ShardStatus] = []
        for owner, answer in asked:
            with suppress(NotOwned, Unreachable):
                found += [msgspec.structs.replace(status, owner=owner) for status in await answer]
        return all_statuses(found, self._owned.shards)

    async def _pages(
        self,
        question: ShardQuestion[Q, list[QueueName]],
        about: Callable[[list[int], str, int], Q],
        after: str,
        names_max: int,
    ) -> list[QueueName]:
        """A long list is asked for in pieces, which bounds what travels at a time."""
        every = list(range(self._owned.shards))
        found: list[QueueName] = []
        while True:
            size = min(_NAMES_PER_PAGE, names_max - len(found))
            start_after = found[-1].name if found else after

            def of_page(shards: list[int], start_after: str = start_after, size: int = size) -> Q:
                return about(shards, start_after, size)

            page = first_names(await self._gather(question, every, of_page), size)
            found += page
            if len(page) < size or len(found) == names_max:
                return found

    async def _gather(
        self,
        question: ShardQuestion[Q, A],
        shards: list[int],
        about: Callable[[list[int]], Q],
        wait_s: float | None = None,
    ) -> list[A]:
        """The answers of all owners, which together are about each of these shards once. Raises Unreachable."""
        loop, limits = asyncio.get_running_loop(), self._limits
        until = loop.time() + (limits.wait_s if wait_s is None else wait_s)
        pause_s = limits.pause_s_min
        answers: list[A] = []
        missing = shards
        while True:
            asked = [
                (group, start(self._ask(question, owner, about(group))))
                for owner, group in self._by_owner(missing).items()
            ]
            missing, why = [], None
            for group, answer in asked:
                try:
                    answers.append(await answer)
                except (NotOwned, Unreachable) as error:
                    missing += group
                    why = error
            if not missing:
                return answers
            for refreshed in [start(self._owners.refresh(shard)) for shard in missing]:
                with suppress(PenstockError):  # then what is known of the owners has to do
                    await refreshed
            if loop.time() >= until:
                text = "No node serves it at present." if isinstance(why, NotOwned) else str(why)
                raise Unreachable(f"Shard {missing[0]} cannot be asked. {text} Try again.")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, limits.pause_s_max)

    def _by_owner(self, shards: list[int]) -> dict[str | None, list[int]]:
        """Groups shards by the address of the owner; None stands for this process or an unknown owner."""
        groups: dict[str | None, list[int]] = {}
        for shard in shards:
            address = None if shard in self._owned else self._owners.address_of(shard)
            groups.setdefault(None if address == self._address else address, []).append(shard)
        return groups

    async def _ask(self, question: ShardQuestion[Q, A], owner: str | None, about: Q) -> A:
        if owner is None:
            return await question.answer(self._owned, about)
        return question.decode_answer(await self._peers.call(owner, question.kind, question.encode(about)))
