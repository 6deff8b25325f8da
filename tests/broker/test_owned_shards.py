"""Shards of one process: each with its own queues, given back, lost and opened again while requests run."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar

import pytest

from penstock.broker.broker import Broker
from penstock.broker.handover import Handover
from penstock.broker.live_queue import LiveQueue
from penstock.broker.other_shards import CountQuestion, DefinitionQuestion, NamesQuestion, SourcesQuestion
from penstock.broker.partition import Partition
from penstock.broker.questions import ShardQuestion
from penstock.broker.summaries import QueueQuery, SummariesQuestion
from penstock.broker.waiting import Ask
from penstock.errors import (
    HandleInvalid,
    NotOwned,
    PenstockError,
    QueueMissing,
    QuotaReached,
    StoreClosed,
    StoreError,
    StoreLost,
    StoreUnknown,
    Unreachable,
)
from penstock.limits import SECOND, Limits
from penstock.names import shard_of
from penstock.promise import Promise, start
from penstock.queues.settings import QueueSettings
from penstock.store.port import JournalEnd
from support.rows import every_row
from support.shards import SHARDS, ShardsWorld
from support.world import ROOMY, TINY, Caller, name_of, outgoing


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def world(request: pytest.FixtureRequest) -> Iterator[ShardsWorld]:
    with ShardsWorld(request.param) as world:
        yield world


@pytest.fixture
def roomy() -> Iterator[ShardsWorld]:
    with ShardsWorld() as world:
        yield world


def failure(outcome: Promise[Any]) -> BaseException:
    with pytest.raises(PenstockError) as caught:
        outcome.result()
    return caught.value


def test_queues_of_all_shards_are_found_and_listed_in_order(world: ShardsWorld) -> None:
    names = [f"q{i:02d}" for i in range(20)]
    for name in names:
        world.create(name)
        world.send(name, f"to {name}")
    used = {shard_of(name_of(name), SHARDS) for name in names}
    assert used == world.broker.owned == {0, 1, 2}
    ids = [world.queue(name).id for name in names]
    assert len(set(ids)) < len(ids), "ids are unique within a shard only"
    assert [found.name for found in world.do(world.broker.ask(NamesQuestion(name_of("q").space)))] == names
    world.crash()
    assert [world.bodies(name) for name in names] == [[f"to {name}"] for name in names]


def test_only_queues_of_owned_shards_are_answered_for(roomy: ShardsWorld) -> None:
    ours, theirs = roomy.name("ours", 0), roomy.name("theirs", 1)
    for short in (ours, theirs):
        roomy.create(short)
    stale = roomy.queue(theirs)
    roomy.close_shard(1)
    roomy.run()
    broker, missing = roomy.broker, name_of(roomy.name("missing", 1))
    assert broker.owned == {0, 2}
    with pytest.raises(Unreachable):
        roomy.do(broker.ask(NamesQuestion(missing.space)))  # never a part
    with pytest.raises(QueueMissing):
        broker.find(name_of(roomy.name("missing", 0)))
    for name in (stale.name, missing):
        with pytest.raises(NotOwned) as caught:
            broker.find(name)
        assert caught.value.shard == 1
        with pytest.raises(NotOwned):
            broker.check_owned(name)
        with pytest.raises(NotOwned):
            roomy.do(broker.create(name, QueueSettings(), {}))
    for asked in _all_requests(broker, stale):
        with pytest.raises((NotOwned, Unreachable)):  # a move looks at the queues of all shards first
            roomy.do(asked())


def _all_requests(broker: Broker, queue: LiveQueue) -> list[Callable[[], Coroutine[Any, None, Any]]]:
    """Everything that can be asked of a queue that was found."""

    return [
        lambda: broker.configure(queue, QueueSettings()),
        lambda: broker.tag(queue, {"a": "b"}),
        lambda: broker.purge(queue),
        lambda: broker.drop(queue),
        lambda: queue.counts(),
        lambda: queue.send([outgoing("x")]),
        lambda: queue.receive(Ask(1, None, None), Caller(), 0),
        lambda: queue.delete(["handle"]),
        lambda: queue.change_visibility([("handle", 0)]),
        lambda: broker.partition_of(queue).moves.begin(queue, None, None),
        lambda: broker.partition_of(queue).moves.cancel(queue, "task"),
    ]


def test_a_shard_that_comes_back_knows_what_was_decided(world: ShardsWorld) -> None:
    standard, fifo = world.name("s", 1), world.name("f", 1, ".fifo")
    world.create(standard)
    world.create(fifo)
    world.send_all(standard, "a", "b")
    first = world.send(fifo, "1", group="g", dedup_id="1")
    world.send(fifo, "2", group="g", dedup_id="2")
    (received,) = world.receive(standard, 1, visibility_ms=60 * SECOND)
    world.receive(fifo, 1, visibility_ms=60 * SECOND)
    world.reopen(1)
    assert world.bodies(standard) == ["b"], "a receive that was put off is written"
    assert world.bodies(fifo) == [], "its group stays locked"
    assert world.send(fifo, "1", group="g", dedup_id="1") == first, "and duplicates are still found"
    world.delete(standard, received)
    world.advance(61 * SECOND)
    assert world.bodies(standard) == ["b"]
    assert world.bodies(fifo, 1) == ["1"]


def test_a_handle_of_another_shard_is_refused(roomy: ShardsWorld) -> None:
    names = [roomy.name("q", 0), roomy.name("q", 1)]
    for name in names:
        roomy.create(name)
        roomy.send(name, "x")
    assert roomy.queue(names[0]).id == roomy.queue(names[1]).id
    (received,) = roomy.receive(names[0])
    with pytest.raises(HandleInvalid):
        roomy.delete(names[1], received)


def test_polls_end_when_their_shard_is_given_back_and_others_wait_on(world: ShardsWorld) -> None:
    closed, kept = world.name("q", 1), world.name("q", 2)
    polls = {}
    for short in (closed, kept):
        world.create(short)
        polls[short] = [world.poll(short) for _ in range(600)]
    closing = world.close_shard(1)
    world.run()
    assert closing.done
    assert all(poll.bodies == [] for poll in polls[closed])
    assert not any(poll.done for poll in polls[kept])
    world.send(kept, "on")
    assert polls[kept][0].bodies == ["on"]


@pytest.mark.parametrize("ends", ["given back", "stopped"])
def test_a_poll_whose_queue_is_loaded_when_its_shard_ends_does_not_wait(
    roomy: ShardsWorld, ends: str
) -> None:
    short = roomy.name("q", 1)
    roomy.create(short)
    roomy.reopen(1)
    roomy.runtime.reader.paused = True
    poll = roomy.poll(short)
    ended = roomy.close_shard(1) if ends == "given back" else roomy.start(roomy.broker.stop())
    roomy.run()
    assert not poll.done
    roomy.runtime.reader.paused = False
    roomy.run()
    assert ended.done and poll.bodies == []


def test_a_poll_that_comes_after_its_shard_was_given_back_does_not_wait(roomy: ShardsWorld) -> None:
    """Its queue was found before."""
    short, other = roomy.name("q", 1), roomy.name("other", 1)
    queue = roomy.create(short)
    roomy.create(other)
    roomy.hold_commits()
    roomy.sending(other, outgoing("a"))
    closing = roomy.close_shard(1)
    roomy.run()
    late = roomy.start(queue.receive(Ask(1, None, None), Caller(), 20 * SECOND))
    roomy.release_commits()
    assert closing.done and late.result() == []


def test_nothing_is_answered_from_memory_when_the_lease_has_ended(roomy: ShardsWorld) -> None:
    """The process has paused: others may have taken the shard, and it is dropped in a moment."""
    short = roomy.name("q", 1)
    roomy.create(short)
    roomy.send(short, "later", delay_ms=SECOND)
    poll = roomy.poll(short)
    shard = roomy.broker.partition(1).shard
    shard.may_have_new_owner = lambda: True
    roomy.clock.advance(SECOND)
    roomy.runtime.fire()
    for _ in range(100):
        roomy.runtime.step()
    assert not poll.done
    owned = roomy.broker.owned_shards
    assert 1 not in owned
    for asked in (
        DefinitionQuestion(name_of(short)),
        NamesQuestion(name_of(short).space),
        SourcesQuestion(name_of(short)),
        CountQuestion(name_of(short).account),
        Handover(0, 1, "", []),
    ):
        assert isinstance(failure(start(owned.answer(asked, [1]))), NotOwned)
    shard.may_have_new_owner = lambda: False
    roomy.advance(SECOND)
    assert poll.bodies == ["later"]


@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize("way", ["given back", "lost", "its lease ends"])
def test_an_answer_never_leaves_out_queues_of_a_shard_that_goes(way: str, is_partial: bool) -> None:
    """It goes after each number of steps: the answer is whole, or an error, or says that the shard is absent."""

    class Listing(ShardQuestion[list[str]], frozen=True):
        kind: ClassVar[str] = "listing"

        async def answer(self, partition: Partition) -> list[str]:
            query = QueueQuery(name_of("q").space, 100)
            found = await SummariesQuestion(query).answer(partition)
            return [each.name.name for each in found]

        def merge(self, answers: list[list[str]]) -> list[str]:
            return sorted(each for answer in answers for each in answer)

        def absent(self, shard: int) -> list[str]:
            return [f"absent {shard}"]

    Listing.is_partial = is_partial
    with ShardsWorld() as world:
        names = [f"q{number}" for number in range(30)]
        for name in names:
            world.create(name)
            world.send(name, "x")
        remaining = sorted(each for each in names if shard_of(name_of(each), SHARDS) != 1)
        steps, outcomes = 0, set[str]()
        while "whole" not in outcomes:
            world.broker.questions.append(Listing)
            asked = start(world.broker.ask(Listing()))
            for _ in range(steps):
                world.runtime.step()
            if asked.done:
                outcomes.add("whole")
                assert asked.result() == sorted(names)
            shard = world.broker.partition(1).shard
            if way == "given back":
                world.close_shard(1)
            elif way == "lost":
                world.broker.drop_shard(1)
            else:
                shard.may_have_new_owner = lambda: True
            world.run()
            if "whole" not in outcomes:
                if is_partial:
                    assert asked.result() in (["absent 1", *remaining], sorted(names)), steps
                elif asked.failed:
                    assert isinstance(failure(asked), Unreachable)
                else:
                    assert asked.result() == sorted(names), steps
                outcomes.add("part" if is_partial or asked.failed else "late")
            steps += 1
            world.crash()
        assert "part" in outcomes


def test_shards_make_the_commits_side_by_side_that_an_answer_rests_on() -> None:
    """More is decided in each of them all the time."""
    with ShardsWorld(shards=8) as world:
        names = [world.name("q", shard) for shard in reversed(range(8))]
        for short in names:
            world.create(short)
        before = {index: len(store.appended) for index, store in world.stores.items()}

        def changing(short: str) -> Promise[None]:
            return world.start(world.broker.tag(world.queue(short), {"a": "b"}))

        changes = {short: changing(short) for short in names}
        listing = world.start(world.broker.ask(NamesQuestion(name_of("q").space)))
        while not listing.done:
            changes = {short: changing(short) if each.done else each for short, each in changes.items()}
            world.runtime.step()
        assert len(listing.result()) == 8
        made = [len(store.appended) - before[index] for index, store in world.stores.items()]
        assert max(made) <= 2, made


def test_a_question_that_was_not_registered_is_refused_at_once(roomy: ShardsWorld) -> None:
    class Forgotten(ShardQuestion[int], frozen=True):
        kind: ClassVar[str] = "forgotten"

        async def answer(self, partition: Partition) -> int:
            return 1

    with pytest.raises(AssertionError, match="other processes"):
        start(roomy.broker.ask(Forgotten(), [1])).result()


def test_a_shard_is_given_back_when_its_commits_are_durable(world: ShardsWorld) -> None:
    short = world.name("q", 1)
    world.create(short)
    world.hold_commits()
    first = world.sending(short, outgoing("under way"))
    world.run()
    second = world.sending(short, outgoing("open"))
    closing = world.close_shard(1)
    world.run()
    with pytest.raises(NotOwned):
        world.sending(short, outgoing("late"))
    assert not first.done and not second.done and not closing.done
    world.release_commits()
    assert len(first.result()) == len(second.result()) == 1
    assert closing.done
    world.open_shard(1)
    assert sorted(world.bodies(short)) == ["open", "under way"]


def forgotten_handles(world: ShardsWorld, short: str) -> list[str]:
    """Returns the handles of messages that became visible again, most of which only the store knows."""
    received = world.drain_up_to(short, 20, visibility_ms=SECOND)
    world.advance(2 * SECOND)
    world.reopen(1)
    return [each.handle for each in received]


def test_deletes_that_look_their_messages_up_end_before_the_shard_is_given_back() -> None:
    with ShardsWorld(TINY) as world:
        short = world.name("q", 1)
        world.create(short)
        world.send_all(short, *map(str, range(40)))
        handles = forgotten_handles(world, short)
        world.runtime.reader.paused = True
        deleting = world.start(world.queue(short).delete(handles))
        closing = world.close_shard(1)
        world.run()
        assert not deleting.done and not closing.done
        world.runtime.reader.paused = False
        world.run()
        assert deleting.result() == [None] * 20 and closing.done
        world.open_shard(1)
        assert sum(world.counts(short)) == 20


def test_a_move_task_goes_on_at_the_next_owner(world: ShardsWorld) -> None:
    source, dead = world.name("q", 0), world.name("dead", 1)
    world.create(dead)
    world.create(source, dead_letters=(dead, 1))
    world.send_all(dead, *map(str, range(30)))
    world.start_move(dead, source, rate=10)
    world.advance(SECOND)
    world.reopen(1)
    assert world.move_task(dead).status == "RUNNING"
    world.advance(10 * SECOND)
    task = world.move_task(dead)
    assert (task.status, task.moved) == ("COMPLETED", 30)
    assert sorted(world.drain(source), key=int) == list(map(str, range(30)))


def test_a_move_within_a_shard_that_is_given_back_during_a_chunk_goes_on_at_the_next_owner() -> None:
    """The contents of the chunk are being read when the destination is not found any more."""
    with ShardsWorld(TINY) as world:
        source, dead = world.name("q", 1), world.name("dead", 1)
        world.create(dead)
        world.create(source, dead_letters=(dead, 1))
        world.send_all(dead, *map(str, range(30)))
        task = world.start_move(dead, source, rate=10)
        world.advance(SECOND)
        moved = world.move_task(dead).moved
        assert 0 < moved < 30 and task.id == world.move_task(dead).id
        world.runtime.reader.paused = True
        world.advance(10 * SECOND)
        closing = world.close_shard(1)
        world.run()
        world.runtime.reader.paused = False
        world.run()
        closing.result()
        world.open_shard(1)
        world.advance(20 * SECOND)
        task = world.move_task(dead)
        assert (task.status, task.moved) == ("COMPLETED", 30)


def test_a_lost_shard_ends_alone(world: ShardsWorld) -> None:
    lost, kept = world.name("q", 1), world.name("q", 2)
    for short in (lost, kept):
        world.create(short)
    poll = world.poll(lost)
    sending = world.sending(lost, outgoing("x"))
    world.stores[1].refusals.append(StoreLost("another owner"))
    world.run()
    assert isinstance(failure(sending), StoreLost)
    assert len(world.fatal) == 1, "the server hears of it"
    world.broker.drop_shard(1)
    world.run()
    assert isinstance(failure(poll.answer), NotOwned)
    with pytest.raises(NotOwned):
        world.queue(lost)
    world.send(kept, "y")
    assert world.bodies(kept) == ["y"]


def test_a_dropped_shard_answers_requests_whose_outcome_is_not_known(roomy: ShardsWorld) -> None:
    """The database does not answer, and the lease has ended: nothing more can be found out."""
    short = roomy.name("q", 1)
    roomy.create(short)
    store = roomy.stores[1]

    def unreachable() -> JournalEnd:
        raise StoreError("no connection")

    store.end = unreachable
    store.refusals.append(StoreUnknown("the connection was lost"))
    sending = roomy.sending(short, outgoing("x"))
    roomy.run()
    closing = roomy.close_shard(1)
    roomy.advance(4 * SECOND)
    assert not sending.done and not closing.done
    roomy.broker.drop_shard(1)
    roomy.advance(SECOND)
    assert isinstance(failure(sending), StoreUnknown)
    assert closing.done, "so that it can be opened again"


def test_nothing_is_written_after_a_drop(roomy: ShardsWorld) -> None:
    short = roomy.name("q", 1)
    roomy.create(short)
    roomy.hold_commits()
    under_way = roomy.sending(short, outgoing("under way"))
    roomy.run()
    open_commit = roomy.sending(short, outgoing("open"))
    roomy.broker.drop_shard(1)
    roomy.release_commits()
    assert under_way.result(), "it was made durable, and that is what the client hears"
    assert isinstance(failure(open_commit), StoreClosed)
    assert len(roomy.stores[1].appended) == 2, "the queue, and the first message"


def test_quotas_count_all_shards_of_the_process() -> None:
    with ShardsWorld(Limits(quota_messages=4, quota_queues=2)) as world:
        names = [world.name("q", 0), world.name("q", 1)]
        for short in names:
            world.create(short)
            world.send_all(short, "a", "b")
        with pytest.raises(QuotaReached):
            world.create(world.name("q", 2))
        for short in names:
            with pytest.raises(QuotaReached):
                world.send(short, "too many")
        closing = world.close_shard(1)
        world.run()
        assert closing.done
        world.send_all(names[0], "c", "d")  # what another process owns is not counted here
        world.open_shard(1)
        with pytest.raises(QuotaReached):
            world.send(names[0], "too many")


def test_memory_of_an_idle_shard_gives_way_to_a_busy_one() -> None:
    with ShardsWorld(Limits(memory_budget_bytes=60_000)) as world:
        idle, busy = world.name("idle", 0), world.name("busy", 1)
        for short in (idle, busy):
            world.create(short)
        for _ in range(4):
            world.send_all(idle, *["x" * 1000] * 10)
        held = world.broker.budget.used
        assert held > 40_000
        for _ in range(20):
            world.send_all(busy, *["y" * 1000] * 10)
        assert world.broker.budget.used < 2 * 60_000
        kept = sum(len(entry.content or b"") for entry in world.queue(idle).rules.backlog.index.values())
        assert kept < 20_000, "its messages wait in the store"
        assert len(world.drain(idle)) == 40


@pytest.mark.slow
@every_row("seed", range(40))
def test_what_got_not_owned_has_had_no_effect(seed: int) -> None:
    """Requests run while their shard is given back at any moment: each is answered, and in full or not at all."""
    chance = random.Random(seed)
    limits = TINY if seed % 2 else ROOMY
    with ShardsWorld(limits, choose=chance.randrange) as world:
        short = world.name("q", 1)
        world.create(short)
        world.send_all(short, *(f"before {i}" for i in range(20)))
        received = world.drain_up_to(short, 10, visibility_ms=600 * SECOND)
        world.reopen(1)
        queue = world.queue(short)
        sends: dict[str, Promise[Any]] = {}
        deletes: dict[str, Promise[Any]] = {}
        for i in range(10):
            sends[f"sent {i}"] = _started(world, lambda i=i: queue.send([outgoing(f"sent {i}")]))  # type: ignore[misc]
            one = received[i]
            deletes[one.content.body] = _started(world, lambda one=one: queue.delete([one.handle]))  # type: ignore[misc]
            for _ in range(chance.randrange(4)):
                world.runtime.step()
            if i == seed % 10:
                closing = world.close_shard(1)
        world.run()
        assert closing.done
        outcomes = {body: _outcome(asked) for body, asked in {**sends, **deletes}.items()}
        world.open_shard(1)
        world.advance(601 * SECOND)
        stored = set(world.drain(short, visibility_ms=3600 * SECOND))
        for body in sends:
            assert (body in stored) == (outcomes[body] is None), body
        for body in deletes:
            assert (body not in stored) == (outcomes[body] is None), body
        assert {type(each) for each in outcomes.values()} <= {type(None), NotOwned}
        assert len(stored & {f"before {i}" for i in range(20)}) >= 10


def _started(world: ShardsWorld, asked: Callable[[], Coroutine[Any, None, Any]]) -> Promise[Any]:
    return world.start(asked())


def _outcome(asked: Promise[Any]) -> BaseException | None:
    assert asked.done
    try:
        asked.result()
    except PenstockError as error:
        return error
    return None


def test_a_batch_that_is_done_in_part_is_not_passed_on() -> None:
    """Some of its messages are in memory and deleted at once; for the others the store is asked."""
    with ShardsWorld(TINY) as world:
        short = world.name("q", 1)
        world.create(short)
        world.send_all(short, *map(str, range(40)))
        handles = forgotten_handles(world, short)
        (known,) = world.receive(short, 1)
        world.runtime.reader.paused = True
        deleting = world.start(world.queue(short).delete([known.handle, *handles]))
        world.run()
        assert not deleting.done, "the test needs messages that are not in memory"
        world.broker.drop_shard(1)
        world.runtime.reader.paused = False
        world.run()
        assert isinstance(failure(deleting), StoreClosed)
