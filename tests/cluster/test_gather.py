"""Questions to all shards over real links: complete answers or none, while shards move and nodes are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

import pytest

from cluster.links import QUICK, SECRET
from cluster.nodes import MovingOwners
from penstock.broker import other_shards
from penstock.broker.broker import Broker
from penstock.broker.live_queue import LiveQueue
from penstock.broker.operations import Operation
from penstock.broker.other_shards import DefinitionQuestion, NamesQuestion, SourcesQuestion
from penstock.broker.partition import Partition
from penstock.broker.questions import OwnedShards, ShardQuestion
from penstock.broker.runtime import LoopRuntime, StoreThread
from penstock.broker.shard import Shard
from penstock.broker.summaries import (
    QueueQuery,
    StatusQuestion,
    SummariesQuestion,
    TargetsQuestion,
    TasksQuestion,
)
from penstock.broker.waiting import Ask
from penstock.clock import SystemClock
from penstock.cluster.accepting import LinkListener
from penstock.cluster.gather import ClusterShards, GatherLimits, answer_others
from penstock.cluster.link import Peers
from penstock.errors import Unreachable
from penstock.limits import Limits
from penstock.names import QueueName, Space, shard_of
from penstock.promise import start
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Outgoing
from penstock.queues.settings import QueueSettings, Redrive
from penstock.store.memory import MemorySite
from support.harness import run, until
from support.world import Caller

SHARDS = 6
SPACE = Space("000000000000", "eu-west-1")
WAIT = GatherLimits(wait_s=0.4, pause_s_min=0.01, pause_s_max=0.05)
NAMES = [QueueName(SPACE.account, SPACE.region, f"queue-{number:02}") for number in range(40)]


class BrokerNode:
    """A process with a broker, and links to the others. All use one site of shards in memory."""

    def __init__(self, site: MemorySite, limits: Limits) -> None:
        self._site = site
        self._reader = StoreThread("reader", asyncio.get_running_loop())
        self._runtimes: dict[int, LoopRuntime] = {}
        self.owners = MovingOwners()
        self.links = LinkListener(SECRET, QUICK)
        self.peers = Peers(SECRET, QUICK)
        self.address = ""
        self.limits = limits
        self.broker: Broker
        self.shards: ClusterShards

    async def listen(self) -> None:
        self.address = await self.links.listen("127.0.0.1:0")
        self.peers.start()
        self.broker = Broker(self.limits, SHARDS, others=self._others)
        answer_others(self.links, self.broker.owned_shards, self.broker.questions)

    def _others(self, owned: OwnedShards) -> ClusterShards:
        self.shards = ClusterShards(self.address, lambda: self.owners, self.peers, owned, WAIT)
        return self.shards

    def open(self, index: int) -> None:
        loop, store, clock = asyncio.get_running_loop(), self._site.shard(index), SystemClock()
        runtime = self._runtimes[index] = LoopRuntime(loop, clock, self._reader)
        self.broker.open_shard(
            Shard(store, runtime, clock, self.limits, store.open(), lambda error: None, index)
        )

    async def give_up(self, index: int) -> None:
        await start_on_loop(self.broker.close_shard(index))
        self._runtimes.pop(index).close()

    async def close(self) -> None:
        await start_on_loop(self.broker.stop())
        await self.links.close(0)
        self.peers.close()
        for runtime in self._runtimes.values():
            runtime.close()
        self._reader.close()


def start_on_loop(coroutine: object) -> asyncio.Future[object]:
    """Broker coroutines await promises, which a task of the event loop cannot."""
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def done(promise: object) -> None:
        try:
            future.set_result(promise.result())  # type: ignore[attr-defined]
        except Exception as error:
            future.set_exception(error)

    start(coroutine).on_done(done)  # type: ignore[arg-type]
    return future


@asynccontextmanager
async def brokers(limits: Limits | None = None) -> AsyncIterator[list[BrokerNode]]:
    """Three nodes with two shards each, and forty queues."""
    site = MemorySite(SHARDS)
    made = [BrokerNode(site, limits or Limits()) for _ in range(3)]
    for number, node in enumerate(made):
        await node.listen()
        for shard in (number, number + 3):
            node.open(shard)
    for node in made:
        node.owners.addresses = {shard: made[shard % 3].address for shard in range(SHARDS)}
    try:
        yield made
    finally:
        for node in made:
            await node.close()


async def create(made: list[BrokerNode], name: QueueName, settings: QueueSettings | None = None) -> LiveQueue:
    node = made[shard_of(name, SHARDS) % 3]
    queue = await start_on_loop(node.broker.create(name, settings or QueueSettings(), {}))
    assert isinstance(queue, LiveQueue)
    return queue


def test_names_of_all_shards_in_order_and_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with brokers() as made:
            for name in NAMES:
                await create(made, name)
            for node in made:
                assert await start_on_loop(node.broker.ask(NamesQuestion(SPACE))) == NAMES
                assert await start_on_loop(node.broker.ask(NamesQuestion(SPACE, "queue-1"))) == NAMES[10:20]
                assert (
                    await start_on_loop(
                        node.broker.ask(NamesQuestion(SPACE, "", after="queue-06", names_max=5))
                    )
                    == NAMES[7:12]
                )
            monkeypatch.setattr(other_shards, "_NAMES_PER_PIECE", 7)
            assert await start_on_loop(made[0].broker.ask(NamesQuestion(SPACE))) == NAMES

    run(test)


def test_sources_and_definitions() -> None:
    async def test() -> None:
        async with brokers() as made:
            await create(made, NAMES[0])
            for name in NAMES[1:12]:
                await create(made, name, QueueSettings(redrive=Redrive(NAMES[0], 3)))
            for node in made:
                assert await start_on_loop(node.broker.ask(SourcesQuestion(NAMES[0]))) == NAMES[1:12]
                record = await start_on_loop(node.broker.ask(DefinitionQuestion(NAMES[5])))
                assert record.settings.redrive == Redrive(NAMES[0], 3)  # type: ignore[attr-defined]
                assert await start_on_loop(node.broker.ask(DefinitionQuestion(NAMES[20]))) is None

    run(test)


def test_every_node_shows_the_same_queues_tasks_and_shards() -> None:
    async def test() -> None:
        async with brokers() as made:
            for number, name in enumerate(NAMES):
                queue = await create(made, name, QueueSettings(redrive=Redrive(NAMES[number // 10], 3)))
                owner = made[shard_of(name, SHARDS) % 3].broker
                if number:
                    await start_on_loop(queue.send([Outgoing(body="x", sender="s")] * number))
            tasks = owner.partition_of(queue).bulk_tasks
            await start_on_loop(tasks.begin(queue, Operation.RESET, None, MessageFilter(), rate=1))
            query = QueueQuery(SPACE, 7, sort="visible", descending=True)
            for node in made:
                page: Any = await start_on_loop(node.broker.ask(SummariesQuestion(query)))
                assert [(each.name, each.counts.visible) for each in page] == [
                    (NAMES[number], number) for number in range(39, 32, -1)
                ]
                targets = await start_on_loop(node.broker.ask(TargetsQuestion(SPACE)))
                assert targets == {name.name for name in NAMES[:4]}
                (task,) = cast(Any, await start_on_loop(node.broker.ask(TasksQuestion(SPACE))))
                assert task.queue == NAMES[39] and task.operation is Operation.RESET
                statuses: Any = await start_on_loop(node.broker.ask(StatusQuestion()))
                assert [each.owner for each in statuses] == [made[n % 3].address for n in range(SHARDS)]
                assert sum(each.messages for each in statuses) == sum(range(40))
            await made[1].give_up(4)
            statuses = await start_on_loop(made[0].broker.ask(StatusQuestion()))
            assert [each.is_open for each in statuses] == [True, True, True, True, False, True]

    run(test)


def test_the_quota_of_queues_counts_all_shards() -> None:
    async def test() -> None:
        async with brokers(Limits(quota_queues=9)) as made:
            for name in NAMES[:9]:
                await create(made, name)
            for name in NAMES[9:20]:
                with pytest.raises(Exception, match="queues"):
                    await create(made, name)

    run(test)


def test_a_shard_that_moves_is_neither_left_out_nor_counted_twice() -> None:
    async def test() -> None:
        async with brokers() as made:
            for name in NAMES:
                await create(made, name)
            asked = start_on_loop(made[0].broker.ask(NamesQuestion(SPACE)))
            await made[1].give_up(1)
            again = start_on_loop(made[0].broker.ask(NamesQuestion(SPACE)))
            await asyncio.sleep(0.05)
            made[2].open(1)
            made[0].owners.on_refresh = lambda shard: made[0].owners.addresses.update({1: made[2].address})
            assert await asked == NAMES
            assert await again == NAMES

    run(test)


def test_an_owner_that_does_not_answer_is_an_error_and_no_part_is_answered() -> None:
    async def test() -> None:
        async with brokers() as made:
            for name in NAMES:
                await create(made, name)
            await made[2].links.close(0)
            for question in (
                made[0].broker.ask(NamesQuestion(SPACE)),
                made[0].broker.ask(SourcesQuestion(NAMES[0])),
            ):
                with pytest.raises(Unreachable, match=r"Shard [25] cannot be asked"):
                    await start_on_loop(question)
            del made[0].owners.addresses[1]
            with pytest.raises(Unreachable):
                await start_on_loop(made[0].broker.ask(NamesQuestion(SPACE)))

    run(test)


class ProcessesQuestion(ShardQuestion[list[int]], frozen=True):
    """The first shard of each process that is asked."""

    kind: ClassVar[str] = "processes"
    is_of_process: ClassVar[bool] = True

    async def answer(self, partition: Partition) -> list[int]:
        return [partition.shard.index]

    def merge(self, answers: list[list[int]]) -> list[int]:
        return sorted(index for answer in answers for index in answer)


def test_a_question_that_a_node_does_not_know_is_an_error() -> None:
    async def test() -> None:
        async with brokers() as made:
            with pytest.raises(Unreachable, match="does not know the call 'processes'"):
                await start_on_loop(made[0].shards.ask(ProcessesQuestion()))
            assert await start_on_loop(made[0].shards.ask(ProcessesQuestion(), [3, 0])) == [3]

    run(test)


def test_a_question_about_processes_is_answered_once_by_each() -> None:
    async def test() -> None:
        async with brokers() as made:
            for node in made:
                answer_others(node.links, node.broker.owned_shards, [ProcessesQuestion])
            assert await start_on_loop(made[0].shards.ask(ProcessesQuestion())) == [0, 1, 2]
            assert await start_on_loop(made[0].shards.ask(ProcessesQuestion(), [1, 5, 4])) == [1, 5]
            await made[1].give_up(4)
            with pytest.raises(Unreachable, match="No node serves it"):
                await start_on_loop(made[0].shards.ask(ProcessesQuestion()))

    run(test)


def test_questions_have_kinds_of_their_own() -> None:
    kinds = [question.kind for question in Broker(Limits()).questions]
    assert len(kinds) == len(set(kinds))


def test_dead_letters_and_moves_between_nodes() -> None:
    async def test() -> None:
        async with brokers() as made:
            by_node = {number: [n for n in NAMES if shard_of(n, SHARDS) % 3 == number] for number in range(3)}
            work_name, dead_name, other_name = by_node[0][0], by_node[1][0], by_node[2][0]
            dead, other = await create(made, dead_name), await create(made, other_name)
            redrive = QueueSettings(redrive=Redrive(dead_name, 1), visibility_ms=0)
            work = await create(made, work_name, redrive)
            bodies = [f"m{i}" for i in range(30)]
            for body in bodies:
                await start_on_loop(work.send([Outgoing(body=body, sender="me")]))

            async def received(number: int, queue: LiveQueue) -> list[str]:
                found = await start_on_loop(queue.receive(Ask(10, None, None), Caller(), 0))
                return [message.content.body for message in found]  # type: ignore[attr-defined]

            while await received(0, work):
                pass
            assert dead.rules.backlog.total == 30, "they are there when the receives have answered"
            await start_on_loop(made[1].broker.partition_of(dead).moves.begin(dead, other_name, None))
            await until(lambda: other.rules.backlog.total == 30)
            await until(lambda: made[1].broker.partition_of(dead).moves.of(dead)[0].status == "COMPLETED")
            moved = [body for _ in range(3) for body in await received(2, other)]
            assert sorted(moved) == sorted(bodies)

    run(test)
