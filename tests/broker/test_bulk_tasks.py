"""Bulk tasks: many messages are changed by a filter, whatever happens meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.encrypted_world import KMS, EncryptedWorld
from penstock.broker.bulk_tasks import BULK_TASKS, TARGET_MISSING, BulkTaskRecord, DryRun
from penstock.broker.operations import Operation
from penstock.broker.outbox import OUTBOX
from penstock.broker.summaries import TaskPlace, TasksQuestion
from penstock.errors import (
    FilterInvalid,
    KeyDisabled,
    QuotaReached,
    StoreFull,
    TaskInvalid,
    TaskMissing,
    TaskNotRunning,
    TaskRunning,
)
from penstock.limits import HOUR, MINUTE
from penstock.names import Requester
from penstock.queues.filters import MessageFilter
from penstock.store.changes import Changes
from penstock.store.port import LAST, Mark
from support.cluster import Cluster, Fault
from support.generated import HISTORIES
from support.texts import says
from support.world import ROOMY, SECOND, TINY, World, name_of, outgoing

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])
EVERYTHING = MessageFilter()


def begin(
    world: World,
    short: str,
    operation: Operation,
    to: str | None = None,
    filter: MessageFilter = EVERYTHING,
    rate: int | None = None,
) -> BulkTaskRecord:
    queue, target = world.queue(short), None if to is None else name_of(to)
    return world.do(world.broker.partition_of(queue).bulk_tasks.begin(queue, operation, target, filter, rate))


def dry_run(
    world: World,
    short: str,
    operation: Operation,
    to: str | None = None,
    filter: MessageFilter = EVERYTHING,
) -> DryRun:
    queue, target = world.queue(short), None if to is None else name_of(to)
    return world.do(world.broker.partition_of(queue).bulk_tasks.dry_run(queue, operation, target, filter))


def all_tasks(world: World, short: str) -> list[BulkTaskRecord]:
    """The tasks of all queues in the shard of this one."""
    queue = world.queue(short)
    return world.broker.partition_of(queue).bulk_tasks.of_account(queue.name.account)


def latest(world: World, short: str) -> BulkTaskRecord:
    queue = world.queue(short)
    return world.broker.partition_of(queue).bulk_tasks.of(queue)[0]


def cancel(world: World, short: str, task: BulkTaskRecord) -> BulkTaskRecord:
    queue = world.queue(short)
    return world.do(world.broker.partition_of(queue).bulk_tasks.cancel(queue, task.id))


def bodies(world: World, short: str) -> list[str]:
    """Returns the bodies of all messages of a queue, in order of position."""
    queue = world.queue(short)
    page = world.do(world.broker.partition_of(queue).inspection.list(queue, EVERYTHING, limit=1000))
    return [view.content.body for view in page.messages if view.content is not None]


def fill(world: World, short: str, bodies: Sequence[str], **settings: Any) -> None:
    world.create(short, visibility_ms=HOUR, **settings)
    for i, body in enumerate(bodies):
        world.send(short, body, group=f"g{i % 3}", dedup_id=body if short.endswith(".fifo") else None)


SENT = [f"m{i:02}" for i in range(30)]


@KINDS
def test_messages_that_match_are_deleted(world: World, kind: str) -> None:
    fill(world, "q" + kind, SENT)
    task = begin(world, "q" + kind, Operation.DELETE, filter=MessageFilter(regex="[05]$"))
    assert (task.status, task.total, task.done) == ("running", 30, 0)
    world.advance(SECOND)
    assert bodies(world, "q" + kind) == [body for body in SENT if body[-1] not in "05"]
    task = latest(world, "q" + kind)
    assert (task.status, task.looked_at, task.matched, task.done, task.cannot) == ("completed", 30, 6, 6, {})
    assert task.ended_ms is not None
    assert world.counts("q" + kind) == (24, 0, 0)


@KINDS
def test_messages_are_moved_and_keep_their_ids(world: World, kind: str) -> None:
    fill(world, "q" + kind, SENT)
    world.create("other" + kind)
    moved = world.send("q" + kind, "m1-last", group="g0", dedup_id="last" if kind else None)
    begin(world, "q" + kind, Operation.MOVE, "other" + kind, MessageFilter(body="m1"))
    world.advance(SECOND)
    assert bodies(world, "other" + kind) == [body for body in SENT if body.startswith("m1")] + ["m1-last"]
    assert bodies(world, "q" + kind) == [body for body in SENT if not body.startswith("m1")]
    other = world.queue("other" + kind)
    assert world.do(world.broker.partition_of(other).inspection.get(other, moved.id)).content is not None


@KINDS
def test_messages_are_copied(world: World, kind: str) -> None:
    fill(world, "q" + kind, SENT)
    world.create("other" + kind)
    begin(world, "q" + kind, Operation.COPY, "other" + kind)
    world.advance(SECOND)
    assert bodies(world, "q" + kind) == SENT
    assert bodies(world, "other" + kind) == SENT
    ids = [
        {m.content.id for m in world.drain_up_to(queue + kind, 30, visibility_ms=SECOND)}
        for queue in ("q", "other")
    ]
    assert not ids[0] & ids[1]


@KINDS
def test_dead_letters_and_back(world: World, kind: str) -> None:
    world.create("dead" + kind)
    fill(world, "q" + kind, SENT, dead_letters=("dead" + kind, 3))
    begin(world, "q" + kind, Operation.DEAD_LETTER, filter=MessageFilter(body="m2"))
    world.advance(SECOND)
    dead = [body for body in SENT if body.startswith("m2")]
    assert bodies(world, "dead" + kind) == dead
    world.send("dead" + kind, "sent here directly", group="g")
    begin(world, "dead" + kind, Operation.REDRIVE)
    world.advance(SECOND)
    assert bodies(world, "dead" + kind) == ["sent here directly"]
    assert sorted(bodies(world, "q" + kind)) == SENT
    task = latest(world, "dead" + kind)
    assert (task.matched, task.done, sum(task.cannot.values())) == (11, 10, 1)


def test_the_history_says_who_began_the_task(world: World) -> None:
    fill(world, "q", SENT[:1])
    queue, (row,) = world.queue("q"), world.stored("q")
    admin = Requester("admin", "10.0.0.1", "cli")
    tasks = world.broker.partition_of(queue).bulk_tasks
    world.do(tasks.begin(queue, Operation.DELETE, None, EVERYTHING, rate=1, by=admin))
    world.advance(SECOND)
    last = queue.history(row.seq).events[-1]
    assert (last.event, last.requester) == ("deleted", admin)


def test_delayed_messages_are_released_and_counts_reset(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send_all("q", *SENT[:10], delay_ms=10 * MINUTE)
    assert world.counts("q") == (0, 0, 10)
    begin(world, "q", Operation.RELEASE, filter=MessageFilter(regex="[0-4]$"))
    world.advance(SECOND)
    assert world.counts("q") == (5, 0, 5)
    assert sorted(world.drain("q")) == SENT[:5]
    world.advance(SECOND)
    begin(world, "q", Operation.RESET, filter=MessageFilter(receives_min=1))
    world.advance(SECOND)
    assert latest(world, "q").done == 5
    assert {row.receives for row in world.stored("q")} == {0}


@KINDS
def test_messages_in_flight_stay_and_are_counted(world: World, kind: str) -> None:
    fill(world, "q" + kind, SENT)
    received = {message.content.body for message in world.receive("q" + kind, 3)}
    assert dry_run(world, "q" + kind, Operation.DELETE) == DryRun(
        matched=30, can=30 - len(received), cannot={"in flight": len(received)}, looked_at=30, complete=True
    )
    begin(world, "q" + kind, Operation.DELETE)
    world.advance(SECOND)
    assert set(bodies(world, "q" + kind)) == received
    task = latest(world, "q" + kind)
    assert (task.done, task.cannot) == (30 - len(received), {"in flight": len(received)})


def test_what_cannot_be_moved_is_counted_with_its_reason(world: World) -> None:
    world.create("q")
    world.create("other.fifo")
    world.send_all("q", "a", "b", group="g")
    world.send_all("q", "c", "d", "e")
    expected = dry_run(world, "q", Operation.MOVE, "other.fifo")
    assert (expected.matched, expected.can, sum(expected.cannot.values())) == (5, 2, 3)
    assert all("group" in reason for reason in expected.cannot)
    begin(world, "q", Operation.MOVE, "other.fifo")
    world.advance(SECOND)
    task = latest(world, "q")
    assert (task.matched, task.done, task.cannot) == (expected.matched, expected.can, expected.cannot)
    assert bodies(world, "other.fifo") == ["a", "b"]
    assert bodies(world, "q") == ["c", "d", "e"]


def test_the_target_is_missing(world: World) -> None:
    fill(world, "q", SENT)
    assert dry_run(world, "q", Operation.MOVE, "nowhere").cannot == {TARGET_MISSING: 30}
    begin(world, "q", Operation.MOVE, "nowhere")
    world.advance(SECOND)
    assert latest(world, "q").cannot == {TARGET_MISSING: 30}
    assert latest(world, "q").status == "completed"
    assert bodies(world, "q") == SENT


@pytest.mark.parametrize("operation", list(Operation))
def test_a_dry_run_changes_nothing(world: World, operation: Operation) -> None:
    world.create("dead")
    fill(world, "q", SENT[:12], dead_letters=("dead", 3))
    world.send("q", "later", delay_ms=MINUTE)
    world.create("other")
    world.receive("q", 2)
    world.advance(SECOND)
    before = stored(world)
    to = "other" if operation in (Operation.MOVE, Operation.COPY) else None
    expected = dry_run(world, "q", operation, to)
    world.advance(SECOND)
    assert stored(world) == before
    assert all_tasks(world, "q") == []
    begin(world, "q", operation, to)
    world.advance(SECOND)
    task = latest(world, "q")
    assert (task.matched, task.done, task.cannot) == (expected.matched, expected.can, expected.cannot)


def stored(world: World) -> Any:
    return world.store.scan(0, LAST, LAST, LAST), world.store.usage(), world.store.records("bulk_task")


def test_a_dry_run_looks_at_a_bounded_number(roomy: World) -> None:
    roomy.create("q")
    for i in range(21):
        roomy.send_all("q", *[f"{i}-{j}" for j in range(1000)])
    found = dry_run(roomy, "q", Operation.DELETE, filter=MessageFilter(receives_max=0))
    assert (found.looked_at, found.matched, found.complete) == (20_000, 20_000, False)


def test_what_arrives_later_is_not_changed(world: World) -> None:
    fill(world, "q", SENT[:6])
    begin(world, "q", Operation.DELETE, rate=2)
    for i in range(10):
        world.send("q", f"later{i}")
        world.advance(SECOND)
    task = latest(world, "q")
    assert (task.status, task.done, task.total) == ("completed", 6, 6)
    assert bodies(world, "q") == [f"later{i}" for i in range(10)]


def test_the_rate(world: World) -> None:
    fill(world, "q", SENT)
    begin(world, "q", Operation.DELETE, rate=5)
    world.advance(2 * SECOND)
    left = len(bodies(world, "q"))
    assert 5 <= 30 - left <= 12, f"{30 - left} in two seconds at five a second"
    task = latest(world, "q")
    assert (task.done, task.status) == (30 - left, "running")
    world.advance(10 * SECOND)
    assert latest(world, "q").status == "completed"


def test_contents_of_a_few_large_messages_are_in_memory_at_a_time(
    roomy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy.create("q")
    roomy.create("other")
    for i in range(8):
        roomy.send("q", str(i) + "x" * 1_000_000)
    read: list[int] = []
    contents = roomy.store.contents

    def counted(seqs: Sequence[int]) -> dict[int, bytes]:
        read.append(len(seqs))
        return contents(seqs)

    monkeypatch.setattr(roomy.store, "contents", counted)
    begin(roomy, "q", Operation.MOVE, "other")
    roomy.advance(SECOND)
    assert (latest(roomy, "q").done, max(read)) == (8, 3)


def test_cancel(world: World) -> None:
    fill(world, "q", SENT)
    task = begin(world, "q", Operation.DELETE, rate=2)
    world.advance(SECOND)
    assert cancel(world, "q", task).status == "cancelled"
    left = bodies(world, "q")
    world.advance(10 * SECOND)
    world.crash()
    world.advance(10 * SECOND)
    assert bodies(world, "q") == left
    assert latest(world, "q").done == 30 - len(left) > 0
    with pytest.raises(TaskNotRunning):
        cancel(world, "q", task)
    world.create("other")
    with pytest.raises(TaskMissing):
        cancel(world, "other", task)


def test_a_cancel_during_a_chunk(world: World) -> None:
    fill(world, "q", SENT)
    task = begin(world, "q", Operation.DELETE, rate=100)
    world.hold_commits()
    world.advance(SECOND)
    queue = world.queue("q")
    cancelled = world.start(world.broker.partition_of(queue).bulk_tasks.cancel(queue, task.id))
    world.release_commits()
    assert cancelled.done
    world.advance(10 * SECOND)
    after = latest(world, "q")
    assert (after.status, after.done) == ("cancelled", 30 - len(bodies(world, "q")))


@KINDS
def test_a_task_goes_on_after_a_crash_and_does_nothing_twice(world: World, kind: str) -> None:
    fill(world, "q" + kind, SENT)
    world.create("other" + kind)
    begin(world, "q" + kind, Operation.COPY, "other" + kind, rate=10)
    for _ in range(6):
        world.advance(300)
        world.crash()
    world.advance(20 * SECOND)
    task = latest(world, "q" + kind)
    assert (task.status, task.done, task.looked_at) == ("completed", 30, 30)
    assert bodies(world, "other" + kind) == SENT


def test_a_crash_between_decision_and_commit(world: World) -> None:
    fill(world, "q", SENT)
    world.create("other")
    begin(world, "q", Operation.COPY, "other", rate=10)
    world.hold_commits()
    world.advance(3 * SECOND)
    world.crash()
    world.advance(30 * SECOND)
    assert bodies(world, "other") == SENT
    assert latest(world, "q").done == 30


def test_a_refused_commit_is_tried_again(world: World) -> None:
    fill(world, "q", SENT)
    world.create("other")
    begin(world, "q", Operation.COPY, "other", rate=20)
    world.refuse_next_commit()
    world.advance(30 * SECOND)
    assert bodies(world, "other") == SENT
    assert (latest(world, "q").status, latest(world, "q").done) == ("completed", 30)


def test_a_restart(world: World) -> None:
    fill(world, "q", SENT)
    begin(world, "q", Operation.DELETE, rate=5)
    world.advance(2 * SECOND)
    world.restart()
    world.advance(10 * SECOND)
    assert bodies(world, "q") == []
    assert (latest(world, "q").status, latest(world, "q").done) == ("completed", 30)


def test_a_purge_during_a_task(world: World) -> None:
    fill(world, "q", SENT)
    begin(world, "q", Operation.DELETE, rate=1)
    world.advance(SECOND)
    world.purge("q")
    world.send("q", "later")
    world.advance(10 * SECOND)
    assert latest(world, "q").status == "completed"
    assert bodies(world, "q") == ["later"]


def test_the_tasks_of_a_deleted_queue_go_with_it(world: World) -> None:
    fill(world, "q", SENT)
    begin(world, "q", Operation.DELETE, rate=1)
    world.drop("q")
    world.advance(5 * SECOND)
    assert world.store.records("bulk_task") == {}


def test_a_few_tasks_run_at_a_time_and_some_are_remembered(world: World) -> None:
    fill(world, "q", SENT)
    for _ in range(5):
        begin(world, "q", Operation.RELEASE, rate=1)
    with pytest.raises(TaskRunning):
        begin(world, "q", Operation.RELEASE)
    world.advance(MINUTE)
    ids = []
    for _ in range(25):
        ids.append(begin(world, "q", Operation.RELEASE).id)
        world.advance(SECOND)
    queue = world.queue("q")
    assert [task.id for task in world.broker.partition_of(queue).bulk_tasks.of(queue)] == ids[:-21:-1]
    world.crash()
    queue = world.queue("q")
    assert len(world.broker.partition_of(queue).bulk_tasks.of(queue)) == 20


@pytest.mark.parametrize(
    ("operation", "to", "rate", "text"),
    [
        (Operation.MOVE, None, None, "name of the queue"),
        (Operation.COPY, "q", None, "another queue"),
        (Operation.DELETE, "other", None, "leave it out"),
        (Operation.DELETE, None, 0, "1 or more"),
    ],
)
def test_what_is_wrong_says_what_to_write(
    world: World, operation: Operation, to: str | None, rate: int | None, text: str
) -> None:
    world.create("q")
    with pytest.raises(TaskInvalid, match=text):
        begin(world, "q", operation, to, rate=rate)
    with pytest.raises(FilterInvalid):
        begin(world, "q", Operation.DELETE, filter=MessageFilter(regex="("))
    with pytest.raises(FilterInvalid):
        dry_run(world, "q", Operation.DELETE, filter=MessageFilter(state="hidden"))


def test_a_slow_regular_expression_ends_a_task(world: World) -> None:
    fill(world, "q", ["a" * 200 + "b"])
    begin(world, "q", Operation.DELETE, filter=MessageFilter(regex="^(a|aa)+$"))
    world.advance(SECOND)
    task = latest(world, "q")
    assert task.status == "failed"
    assert task.failure is not None
    assert "takes too long" in task.failure


def test_waiting_receives_get_what_is_released(world: World) -> None:
    world.create("q")
    world.send_all("q", "a", "b", delay_ms=MINUTE)
    poll = world.poll("q", 2)
    begin(world, "q", Operation.RELEASE)
    world.advance(SECOND)
    assert poll.done
    assert set(poll.bodies) <= {"a", "b"}


def test_messages_under_a_disabled_key() -> None:
    with EncryptedWorld() as world:
        world.create("q", **KMS)
        world.create("other")
        world.send("q", "secret")
        world.configure("q", managed_key=False, encryption_key=None)
        world.send("q", "plain")
        world.enable("alias/orders", False)
        begin(world, "q", Operation.COPY, "other")
        world.advance(SECOND)
        task = latest(world, "q")
        ((reason, count),) = task.cannot.items()
        assert (task.done, count) == (1, 1)
        says(reason, "encryption key")
        begin(world, "q", Operation.DELETE)
        world.advance(SECOND)
        assert latest(world, "q").done == 2


# -- two shards ----------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("operation", [Operation.MOVE, Operation.COPY])
def test_messages_for_another_shard(operation: Operation, kind: str) -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, kind), cluster.name("there", 1, kind)
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT)
        begin(source, here, operation, there, rate=50)
        for _ in range(4):
            cluster.advance(100)
            source.crash()
        cluster.advance(20 * SECOND)
        task = latest(source, here)
        assert (task.status, task.done, task.cannot) == ("completed", 30, {})
        assert bodies(target, there) == SENT
        assert bodies(source, here) == (SENT if operation is Operation.COPY else [])


@pytest.mark.parametrize("operation", [Operation.MOVE, Operation.COPY])
def test_a_task_ends_when_its_messages_have_arrived(operation: Operation) -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5])
        cluster.network.faults.extend(["request lost"] * 5)
        begin(source, here, operation, there)
        cluster.advance(SECOND)
        task = latest(source, here)
        assert (task.status, task.done, task.looked_through) == ("running", 5, True)
        cluster.advance(20 * SECOND)
        assert latest(source, here).status == "completed"
        assert bodies(target, there) == SENT[:5]


@pytest.mark.parametrize("operation", [Operation.MOVE, Operation.COPY])
@pytest.mark.parametrize("is_purged", [False, True])
def test_messages_that_the_other_shard_refuses_are_counted(operation: Operation, is_purged: bool) -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5])
        cluster.network.faults.extend(["request lost"] * 5)
        begin(source, here, operation, there)
        cluster.advance(SECOND)
        assert latest(source, here).done == 5
        target.drop(there)
        if is_purged:
            source.purge(here)
        cluster.advance(20 * SECOND)
        task = latest(source, here)
        assert (task.status, task.done, task.cannot) == ("completed", 0, {TARGET_MISSING: 5})
        assert sorted(bodies(source, here)) == ([] if is_purged else SENT[:5])


def test_a_refusal_is_counted_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5], dead_letters=(there, 3))
        cluster.advance(SECOND)
        contents, unreadable = source.store.contents, source.stored(here)[0].seq

        def refuse(seqs: Sequence[int]) -> dict[int, bytes]:
            if unreadable in seqs:
                raise KeyDisabled("a key")
            return contents(seqs)

        monkeypatch.setattr(source.store, "contents", refuse)
        begin(source, here, Operation.DEAD_LETTER)
        cluster.advance(20 * SECOND)
        task = latest(source, here)
        assert (task.status, task.done) == ("completed", 4)
        assert task.cannot == {"an encryption key cannot be used": 1}


def test_a_task_waits_for_a_shard_that_cannot_be_reached() -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5])
        cluster.network.cut.add(1)
        begin(source, here, Operation.MOVE, there)
        cluster.advance(MINUTE)
        assert (latest(source, here).status, latest(source, here).cannot) == ("running", {})
        cluster.network.cut.clear()
        cluster.advance(20 * SECOND)
        assert (latest(source, here).status, latest(source, here).done) == ("completed", 5)
        assert bodies(target, there) == SENT[:5]


def test_a_task_skips_no_message_because_of_an_error_of_the_store_of_its_target() -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5])
        target.hold_commits()
        target.sending(there, outgoing("refused"))
        begin(source, here, Operation.MOVE, there)
        cluster.run()
        target.refuse_next_commit(StoreFull("no space left"))
        target.release_commits()
        cluster.advance(20 * SECOND)
        task = latest(source, here)
        assert (task.status, task.done, task.cannot) == ("completed", 5, {})
        assert bodies(target, there) == SENT[:5]


def test_a_task_does_not_wait_for_a_shard_that_gets_none_of_its_messages() -> None:
    with Cluster() as cluster:
        here, there, away = (
            cluster.name("here", 0, ""), cluster.name("there", 1, ""), cluster.name("away", 2, "")
        )  # fmt: skip
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        cluster.node(away).create(away)
        fill(source, here, SENT)
        cluster.network.cut.add(2)
        apply = source.broker.partition(0).editing.send_to
        source.start(apply(source.queue(here), source.stored(here)[0].seq, name_of(away)))
        dead = cluster.name("dying", 0, "")
        fill(source, dead, ["poison"], dead_letters=(away, 1))
        source.receive(dead, visibility_ms=0)
        source.poll(dead, wait_ms=0)
        cluster.advance(2 * SECOND)
        assert source.stored(dead) == [], "it is on its way to the shard that cannot be reached"
        for restarts in (False, True):
            begin(source, here, Operation.DELETE, filter=MessageFilter(regex=f"1{int(restarts)}$"))
            begin(source, here, Operation.MOVE, there, filter=MessageFilter(regex=f"2{int(restarts)}$"))
            if restarts:
                source.crash()
            cluster.advance(20 * SECOND)
            assert [(task.status, task.done) for task in all_tasks(source, here)[:2]] == [
                ("completed", 1)
            ] * 2
        assert bodies(target, there) == ["m20", "m21"]


def test_a_task_waits_for_its_own_messages_after_a_restart() -> None:
    with Cluster() as cluster:
        here, away = cluster.name("here", 0, ""), cluster.name("away", 2, "")
        source, target = cluster.node(here), cluster.node(away)
        target.create(away)
        fill(source, here, SENT)
        cluster.network.faults.extend(["request lost"] * 1000)
        begin(source, here, Operation.MOVE, away)
        cluster.advance(10 * SECOND)
        source.crash()
        cluster.advance(10 * SECOND)
        task = latest(source, here)
        assert (task.status, task.looked_through, task.done) == ("running", True, 30)
        cluster.network.faults.clear()
        cluster.advance(10 * SECOND)
        assert (latest(source, here).status, bodies(target, away)) == ("completed", SENT)


def test_a_task_sends_no_more_until_its_last_messages_have_arrived() -> None:
    """Messages of others take the same way, and would come behind thousands of its own."""
    with Cluster() as cluster:
        here, away = cluster.name("here", 0, ""), cluster.name("away", 2, "")
        dead = cluster.name("dead", 0, "")
        source = cluster.node(here)
        cluster.node(away).create(away)
        for queue in (here, dead):
            fill(source, queue, [f"m{n}" for n in range(1000)])
        fill(source, cluster.name("work", 0, ""), [], dead_letters=(dead, 1))
        cluster.network.faults.extend(["request lost"] * 1000)
        begin(source, here, Operation.MOVE, away)
        redrive = source.broker.partition(0).moves.begin(source.queue(dead), name_of(away), None)
        source.start(redrive)
        cluster.advance(MINUTE)
        on_the_way = source.store.usage(OUTBOX)[OUTBOX].messages
        assert 0 < on_the_way <= 200 + 100, "one chunk of each"
        cluster.network.faults.clear()
        cluster.advance(MINUTE)
        assert cluster.node(away).counts(away)[0] == 2000
        assert latest(source, here).status == "completed"


def test_a_stop_ends_tasks_that_wait_for_their_messages() -> None:
    with Cluster() as cluster:
        here, away = cluster.name("here", 0, ""), cluster.name("away", 2, "")
        source = cluster.node(here)
        cluster.node(away).create(away)
        fill(source, here, [f"m{n}" for n in range(300)])
        cluster.network.faults.extend(["request lost"] * 1000)
        begin(source, here, Operation.MOVE, away)
        cluster.advance(SECOND)
        source.do(source.broker.stop())
        source.crash()
        cluster.network.faults.clear()
        cluster.advance(MINUTE)
        assert (latest(source, here).status, cluster.node(away).counts(away)[0]) == ("completed", 300)


def test_a_task_of_an_earlier_version_waits_for_all_shards() -> None:
    """Its record does not say which shards its messages are for."""
    with Cluster() as cluster:
        here, away = cluster.name("here", 0, ""), cluster.name("away", 2, "")
        source = cluster.node(here)
        cluster.node(away).create(away)
        fill(source, here, SENT[:3])
        cluster.network.faults.extend(["request lost"] * 1000)
        begin(source, here, Operation.MOVE, away)
        cluster.advance(SECOND)
        task = latest(source, here)
        (position,) = task.departures.values()
        former = msgspec.structs.replace(task, departures={}, outbox_position=position)
        source.shard.changes.records[BULK_TASKS.name, task.id] = BULK_TASKS.encode(former)
        source.do(source.broker.stop())
        source.crash()
        cluster.advance(10 * SECOND)
        assert latest(source, here) == former
        cluster.network.faults.clear()
        cluster.advance(10 * SECOND)
        assert latest(source, here).status == "completed"


def test_dead_letters_for_another_shard() -> None:
    with Cluster() as cluster:
        here, there = cluster.name("here", 0, ""), cluster.name("there", 1, "")
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        fill(source, here, SENT[:5], dead_letters=(there, 3))
        begin(source, here, Operation.DEAD_LETTER, filter=MessageFilter(regex="[0-2]$"))
        cluster.advance(20 * SECOND)
        assert (latest(source, here).status, latest(source, here).done) == ("completed", 3)
        assert bodies(target, there) == SENT[:3]
        assert {row.source for row in target.stored(there)} == {source.queue(here).arn}
        target.drop(there)
        begin(source, here, Operation.DEAD_LETTER)
        cluster.advance(20 * SECOND)
        assert latest(source, here).cannot == {TARGET_MISSING: 2}
        assert bodies(source, here) == SENT[3:5]


# -- generated histories -------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 8)),
    st.tuples(st.just("receive"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(1, 3)),
    st.tuples(st.just("advance"), st.sampled_from([10, 300, SECOND, 5 * SECOND])),
    st.tuples(st.just("crash"), st.just(0)),
    st.tuples(st.just("refuse"), st.just(0)),
    st.tuples(st.just("task"), st.integers(0, 3)),
)


@HISTORIES
@given(st.lists(STEPS, max_size=30), st.sampled_from(["", ".fifo"]), st.booleans())
def test_nothing_is_lost_or_doubled(steps: list[tuple[str, int]], kind: str, roomy: bool) -> None:
    """Whatever happens, each message is in one of the queues, or was deleted by a client or by a task."""
    work, other = "work" + kind, "other" + kind
    sent, deleted = 0, Counter[str]()
    with World(ROOMY if roomy else TINY) as world:
        world.create(work, visibility_ms=SECOND)
        world.create(other, visibility_ms=SECOND)
        for step, n in [*steps, ("advance", MINUTE)]:
            if step == "send":
                names = [f"m{sent + i}" for i in range(n)]
                sent += n
                for body in names:
                    world.send(work, body, group=f"g{n % 3}", dedup_id=body if kind else None)
            elif step == "receive":
                world.receive(work, n)
            elif step == "delete":
                for message in world.receive(work, n):
                    world.delete(work, message)
                    deleted[message.content.body] += 1
            elif step == "advance":
                world.advance(n)
            elif step == "crash":
                world.crash()
            elif step == "refuse":
                world.refuse_next_commit()
                world.do(world.broker.settled())
                world.advance(1)
                world.store.refusals.clear()
            elif len(all_tasks(world, work)) < 5:
                operation = (Operation.MOVE, Operation.MOVE, Operation.RESET, Operation.DELETE)[n]
                to = other if operation is Operation.MOVE else None
                wanted = MessageFilter(regex="[02468]$") if n != 3 else MessageFilter(body="3")
                begin(world, work, operation, to, wanted, rate=7)
        tasks = all_tasks(world, work)
        assert all(task.status == "completed" for task in tasks)
        left = Counter(bodies(world, work)) + Counter(bodies(world, other))
        by_tasks = sum(task.done for task in tasks if task.operation is Operation.DELETE)
        everything = left + deleted
        assert max(everything.values(), default=1) == 1
        assert sum(everything.values()) + by_tasks == sent
        moved = sum(task.done for task in tasks if task.operation is Operation.MOVE)
        assert len(bodies(world, other)) == moved


CLUSTER_STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 6)),
    st.tuples(st.just("task"), st.sampled_from([Operation.MOVE, Operation.COPY, Operation.DEAD_LETTER])),
    st.tuples(st.just("advance"), st.sampled_from([10, 300, SECOND])),
    st.tuples(st.just("crash"), st.sampled_from([0, 1])),
    st.tuples(st.just("fault"), st.sampled_from(get_args(Fault))),
    st.tuples(st.just("cut"), st.just(1)),
    st.tuples(st.just("mend"), st.just(0)),
)


@HISTORIES
@given(st.lists(CLUSTER_STEPS, max_size=20))
def test_nothing_is_lost_or_doubled_on_the_way_to_another_shard(steps: list[tuple[str, Any]]) -> None:
    with Cluster() as cluster:
        here, there, dead = (cluster.name(*each, "") for each in (("here", 0), ("there", 1), ("dead", 1)))
        source, target = cluster.node(here), cluster.node(there)
        target.create(there)
        target.create(dead)
        source.create(here, dead_letters=(dead, 5))
        sent = tasks = 0
        for step, what in steps:
            if step == "send":
                source.send_all(here, *[f"m{sent + i}" for i in range(what)])
                sent += what
            elif step == "task" and tasks < 5:
                tasks += 1
                begin(source, here, what, None if what is Operation.DEAD_LETTER else there, rate=20)
            elif step == "advance":
                cluster.advance(what)
            elif step == "crash":
                cluster.nodes[what].crash()
            elif step == "fault":
                cluster.network.faults.append(what)
            elif step == "cut":
                cluster.network.cut.add(1)
            elif step == "mend":
                cluster.network.cut.clear()
        cluster.network.cut.clear()
        cluster.advance(2 * MINUTE)
        ended = all_tasks(source, here)
        assert all(task.status == "completed" for task in ended)
        assert {reason for task in ended for reason in task.cannot} <= {
            "gone meanwhile"
        }  # another task was first
        done = Counter[str]()
        for task in ended:
            done[task.operation] += task.done
        copies, left, gone = bodies(target, there), bodies(source, here), bodies(target, dead)
        assert len(copies) == done["move"] + done["copy"]
        assert len(gone) == done["dead-letter"]
        assert len(left) == sent - done["move"] - done["dead-letter"]
        assert len({*left, *gone, *copies}) == sent
        assert len(set(left)) == len(left) and not set(left) & set(gone)


LONG = MessageFilter(body="m", regex="m|" + 490 * "€")


def stored_bytes(world: World, *kinds: str) -> int:
    return sum(len(data) for kind in kinds for data in world.store.records(kind).values())


def test_a_long_filter_is_stored_once_and_forgotten_at_the_end(world: World) -> None:
    fill(world, "q", SENT)
    task = begin(world, "q", Operation.DELETE, filter=LONG, rate=1)
    tasks = world.broker.partition_of(world.queue("q")).bulk_tasks
    assert tasks.filter_of(task) == LONG
    assert task.filter_cut and task.filter == LONG.cut()
    assert stored_bytes(world, "bulk_task") < 1000 < stored_bytes(world, "bulk_task_filter")
    world.crash()
    tasks = world.broker.partition_of(world.queue("q")).bulk_tasks
    assert tasks.filter_of(tasks.of(world.queue("q"))[0]) == LONG
    world.advance(MINUTE)
    ended = latest(world, "q")
    assert (ended.status, ended.looked_at, ended.filter, ended.filter_cut) == (
        "completed",
        30,
        LONG.cut(),
        True,
    )
    assert world.store.records("bulk_task_filter") == {}


def test_the_long_filter_of_a_running_task_decides(world: World) -> None:
    fill(world, "q", SENT)
    several = MessageFilter(regex="|".join([*SENT[::2], *["unused"] * 40]))
    assert several.cut() != several
    begin(world, "q", Operation.DELETE, filter=several)
    world.advance(SECOND)
    assert bodies(world, "q") == SENT[1::2]


def test_the_filter_goes_with_a_deleted_queue_and_with_a_cancelled_task(world: World) -> None:
    fill(world, "q", SENT)
    cancel(world, "q", begin(world, "q", Operation.DELETE, filter=LONG, rate=1))
    assert world.store.records("bulk_task_filter") == {}
    begin(world, "q", Operation.DELETE, filter=LONG, rate=1)
    world.drop("q")
    world.advance(SECOND)
    assert world.store.records("bulk_task_filter") == {}


def test_the_tasks_of_an_account_are_counted(world: World) -> None:
    limits = msgspec.structs.replace(world.broker.limits, tasks_active_max=3, tasks_max=6)
    world.broker.change_limits(limits)
    for n in range(4):
        fill(world, f"q{n}", SENT[:1])
    for n in range(3):
        begin(world, f"q{n}", Operation.RELEASE, filter=MessageFilter(body="m"), rate=1)
    with pytest.raises(QuotaReached, match="running tasks"):
        begin(world, "q3", Operation.RELEASE)
    world.advance(MINUTE)
    for n in range(4):
        for _ in range(4):
            begin(world, f"q{n}", Operation.RELEASE)
            world.advance(SECOND)
    kept = world.do(world.broker.ask(TasksQuestion(world.queue("q0").name.space)))
    assert [task.queue.name for task in kept] == ["q3"] * 4 + ["q2"] * 2
    assert len(world.store.records("bulk_task")) == 6


def test_tasks_are_listed_in_pages(world: World) -> None:
    for n in range(3):
        fill(world, f"q{n}", SENT[:1])
    begun = []
    for _ in range(3):
        begun += [begin(world, f"q{n}", Operation.RELEASE).id for n in range(3)]
        world.advance(SECOND)
    space, listed, after = world.queue("q0").name.space, [], None
    while page := world.do(world.broker.ask(TasksQuestion(space, None, 2, after))):
        assert len(page) <= 2
        listed += [task.id for task in page]
        after = TaskPlace.of(page[-1])
    assert sorted(listed) == sorted(begun) and listed[-1] in begun[:3] and listed[0] in begun[-3:]
    of_one = world.do(world.broker.ask(TasksQuestion(space, "q1", 2)))
    assert [task.queue.name for task in of_one] == ["q1", "q1"]


def test_a_filter_of_an_earlier_version_is_cut_when_its_task_has_ended(world: World) -> None:
    fill(world, "q", SENT)
    begin(world, "q", Operation.RELEASE)
    world.advance(SECOND)
    huge = MessageFilter(id=tuple(1000 * "x" for _ in range(1990)))
    ((key, data),) = world.store.records("bulk_task").items()
    before = msgspec.structs.replace(BULK_TASKS.decode(data), filter=huge)
    running = msgspec.structs.replace(
        before, id="running", status="running", ended_ms=None, after=None, looked_through=False
    )
    world.do(world.broker.stop())
    changes = Changes(world.store.end().number + 1, world.store.end().number)
    for task in (before, running):
        changes.records["bulk_task", task.id] = BULK_TASKS.encode(task)
    world.store.append(changes, Mark(1_000_000, world.clock.now_ms(), world.clock.wall_ms()))
    world.crash()
    assert {task.id for task in all_tasks(world, "q")} == {key, "running"}
    world.send("q", "makes a commit")
    world.advance(SECOND)
    assert stored_bytes(world, "bulk_task") < 5000
    failed = world.broker.partition_of(world.queue("q")).bulk_tasks.get(world.queue("q"), "running")
    assert (failed.status, failed.failure) == ("failed", "id: write at most 36 characters")
