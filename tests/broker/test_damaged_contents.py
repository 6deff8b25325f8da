"""Messages whose stored content is damaged: they hold up no others, none is lost, and none is doubled."""

from __future__ import annotations

from typing import Any

import pytest

from broker.test_bulk_tasks import begin, dry_run, latest
from broker.test_editing import edit, work_off
from broker.test_internal_queues import Errand, Errands
from broker.test_outbox import Queues
from penstock.broker.internal_queues import JobKind
from penstock.broker.live_queue import LiveQueue
from penstock.broker.move_tasks import MoveFailure
from penstock.broker.operations import Operation
from penstock.errors import ContentDamaged
from penstock.limits import HOUR, MINUTE
from penstock.promise import Promise
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import decode_content
from penstock.store.port import LAST
from support.cluster import Cluster
from support.texts import says
from support.world import SECOND, World, name_of

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


def fill(world: World, name: str, *bodies: str, **settings: Any) -> None:
    world.create(name, **settings)
    for body in bodies:
        world.send(name, body, group=body, dedup_id=body)


def seqs(world: World) -> list[int]:
    """Returns the seqs of all stored messages, in their order."""
    world.shard.write_later()
    world.do(world.broker.settled())
    return [row.seq for row in world.store.scan(0, LAST, 100, LAST)]


@pytest.mark.parametrize("damaged", [b"", b"\x91", b"\x03", b"\x92\xa2\xff\xfe\xa0", b"\xc1"])
def test_a_content_that_cannot_be_decoded(damaged: bytes) -> None:
    with pytest.raises(ContentDamaged):
        decode_content(damaged)


@KINDS
def test_a_damaged_message_does_not_hold_up_a_receive(
    roomy: World, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = roomy
    world._log.addHandler(caplog.handler)
    world.create("dead" + kind)
    fill(world, "q" + kind, *"abcde", dead_letters=("dead" + kind, 2), visibility_ms=HOUR)
    world.damage(seqs(world)[0])
    world.crash()
    assert sorted(world.bodies("q" + kind)) == [*"bcde"]
    says(caplog.text, "content of message", "damaged")
    for _ in range(2):
        world.advance(HOUR)
        world.bodies("q" + kind)
    assert world.counts("dead" + kind) == (5, 0, 0), "it was received too often, as the others"


@KINDS
def test_a_damaged_message_stays_until_its_retention_ends(world: World, kind: str) -> None:
    fill(world, "q" + kind, "a", retention_ms=HOUR, visibility_ms=SECOND)
    world.damage(seqs(world)[0])
    world.crash()
    for _ in range(10):
        assert world.bodies("q" + kind) == []
        world.advance(SECOND)
    assert world.counts("q" + kind) == (1, 0, 0)
    world.advance(HOUR)
    assert world.counts("q" + kind) == (0, 0, 0)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_damaged_job_is_dropped_and_holds_up_no_others(
    ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kind = JobKind(
        "errands", Errand, pauses_ms=(), visibility_ms=SECOND, running_per_group_max=1, ordered=ordered
    )
    with Errands(kind) as world:
        world._log.addHandler(caplog.handler)
        world.hanging[0] = Promise()
        for number in range(5):
            world.add(number, group="g")
        world.damage(seqs(world)[2])
        world.hanging.clear()
        world.crash()
        world.advance(MINUTE)
        assert sorted(number for number, _ in world.done) == [0, 1, 3, 4]
        assert world.waiting() == 0
        says(caplog.text, "errands", "dropped")


def test_a_consumer_of_jobs_survives_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = LiveQueue.receive
    bug = RuntimeError("a bug")

    async def fail(*_: object) -> None:
        raise bug

    with Errands() as world:
        monkeypatch.setattr(LiveQueue, "receive", fail)
        world.bug[0] = bug
        world.add(1)
        world.advance(MINUTE)
        monkeypatch.setattr(LiveQueue, "receive", receive)
        world.advance(MINUTE)
        assert world.done == [(1, 1)]


@KINDS
def test_a_redrive_leaves_a_damaged_message_where_it_is(world: World, kind: str) -> None:
    dead, work = "dead" + kind, "work" + kind
    world.create(dead)
    fill(world, work, *"abcde", dead_letters=(dead, 1), visibility_ms=SECOND)
    while world.receive(work):
        world.advance(SECOND)
    world.damage(world.stored(dead)[2].seq)
    world.crash()
    world.start_move(dead)
    world.advance(5 * MINUTE)
    task = world.move_task(dead)
    assert (task.status, task.moved) == ("COMPLETED", 4)
    assert (world.counts(work), world.counts(dead)) == ((4, 0, 0), (1, 0, 0))
    assert sorted(work_off(world, work)) == [*"abde"]


def test_a_redrive_elsewhere_leaves_a_damaged_message_where_it_is() -> None:
    with Cluster() as cluster:
        queues = Queues(cluster)
        queues.send(3)
        queues.kill()
        dead = cluster.node(queues.dead)
        dead.damage(dead.stored(queues.dead)[0].seq)
        dead.crash()
        dead.start_move(queues.dead, queues.other)
        cluster.advance(2 * MINUTE)
        task = dead.move_task(queues.dead)
        assert (task.status, task.moved) == ("COMPLETED", 2)
        assert (queues.count(queues.dead), queues.count(queues.other)) == ((1, 0, 0), (2, 0, 0))


def test_a_redrive_ends_if_the_other_shard_refuses_a_message_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Here, because its content was damaged on the way."""
    with Cluster() as cluster:
        queues = Queues(cluster)
        queues.send(3)
        queues.kill()
        dead = cluster.node(queues.dead)
        dead._log.addHandler(caplog.handler)
        source = dead.queue(queues.dead)
        moves = dead.broker.partition_of(source).moves
        dead.start(moves.begin(source, name_of(queues.other), None))
        while not queues.on_the_way():
            assert cluster.step()
        cluster.network.cut.add(2)
        dead.damage(dead.store.scan(0, LAST, 1, LAST)[0].seq)
        dead.crash()
        cluster.network.cut.clear()
        commits = len(dead.store.appended)
        cluster.advance(2 * MINUTE)
        task = dead.move_task(queues.dead)
        assert (task.status, task.moved, task.failure) == ("FAILED", 2, MoveFailure.INTERNAL)
        assert (queues.count(queues.dead), queues.count(queues.other)) == ((1, 0, 0), (2, 0, 0))
        assert len(dead.store.appended) < commits + 20
        says(caplog.text, "move task", "refused", "ContentDamaged")


@KINDS
@pytest.mark.parametrize("operation", [Operation.MOVE, Operation.COPY])
def test_a_bulk_task_leaves_a_damaged_message_out(world: World, operation: Operation, kind: str) -> None:
    fill(world, "a" + kind, *"01234")
    world.create("b" + kind)
    world.damage(seqs(world)[2])
    plan = dry_run(world, "a" + kind, operation, "b" + kind)
    assert (plan.can, plan.cannot) == (4, {"damaged": 1})
    begin(world, "a" + kind, operation, "b" + kind)
    world.advance(MINUTE)
    task = latest(world, "a" + kind)
    assert (task.status, task.done, task.cannot) == ("completed", 4, {"damaged": 1})
    world.crash()
    assert sorted(work_off(world, "b" + kind)) == [*"0134"]
    stayed = [] if operation is Operation.MOVE else [*"0134"]
    assert sorted(work_off(world, "a" + kind)) == stayed
    assert len(world.stored("a" + kind)) == 1


def test_messages_of_a_bulk_move_that_fails_are_in_one_queue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it are moved by the commit that says that the task has failed."""
    fill(world, "a", *"01234")
    world.create("b")
    world.receive("a", visibility_ms=0)  # so that it is in memory
    delivery = world.broker.partition(0).delivery
    move, bug = delivery.move, RuntimeError("a bug")

    def fail(row: Any, *args: Any) -> Any:
        if row.seq == damaged:
            raise bug
        return move(row, *args)

    damaged = seqs(world)[2]
    monkeypatch.setattr(delivery, "move", fail)
    with pytest.raises(RuntimeError):
        begin(world, "a", Operation.MOVE, "b")
    world.bugs.clear()
    assert latest(world, "a").status == "failed"
    assert (sorted(work_off(world, "a")), sorted(work_off(world, "b"))) == ([*"234"], [*"01"])


def test_operators_see_a_damaged_message_and_can_delete_it(world: World) -> None:
    fill(world, "q", "a", "b")
    seq = seqs(world)[0]
    world.damage(seq)
    queue = world.queue("q")
    partition = world.broker.partition_of(queue)
    page = world.do(partition.inspection.list(queue, MessageFilter()))
    assert [view.unreadable for view in page.messages] == [True, False]
    page = world.do(partition.inspection.list(queue, MessageFilter(regex="a|b")))
    assert [view.row.seq for view in page.messages] == seqs(world)[1:]
    with pytest.raises(ContentDamaged):
        edit(world, "q", seq, body="other")
    with pytest.raises(ContentDamaged):
        edit(world, "q", seq, group="other")
    with pytest.raises(ContentDamaged):
        world.do(partition.editing.reset(queue, seq))
    world.do(partition.editing.delete(queue, seq))
    assert world.drain("q") == ["b"]
