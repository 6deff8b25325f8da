"""Move tasks: from a dead-letter queue back to where messages came from, or to anywhere else."""

from __future__ import annotations

import msgspec
import pytest

from penstock.broker.move_tasks import MoveFailure, MoveStatus, MoveTaskRecord
from penstock.broker.other_shards import NamesQuestion
from penstock.errors import MoveTaskMissing, MoveTaskNotRunning, MoveTaskRunning, SourceNotDeadLetterQueue
from penstock.limits import HOUR, MINUTE
from support.world import SECOND, World, name_of

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


def make(world: World, kind: str = "", *, source: str = "source", messages: int = 0) -> None:
    """A source, its dead-letter queue, and this many dead letters from it."""
    if name_of("dead" + kind) not in world.do(world.broker.ask(NamesQuestion(name_of("dead").space))):
        world.create("dead" + kind)
    world.create(source + kind, dead_letters=("dead" + kind, 1), visibility_ms=SECOND)
    for i in range(messages):
        world.send(source + kind, f"{source}{i}", group=f"g{i % 3}")
    while len(world.drain(source + kind)) > 0:
        world.advance(SECOND)


def drain_all(world: World, queue: str) -> list[str]:
    found: list[str] = []
    while batch := world.receive(queue, visibility_ms=HOUR):
        found += [message.content.body for message in batch]
        world.delete(queue, *batch)
    return found


@KINDS
def test_without_destination_each_message_returns_to_its_own_source(world: World, kind: str) -> None:
    make(world, kind, source="alpha", messages=5)
    make(world, kind, source="beta", messages=4)
    assert world.counts("dead" + kind) == (9, 0, 0)
    world.start_move("dead" + kind)
    world.advance(10 * SECOND)
    task = world.move_task("dead" + kind)
    assert (task.status, task.moved, task.to_move) == ("COMPLETED", 9, 9)
    assert world.counts("dead" + kind) == (0, 0, 0)
    assert sorted(drain_all(world, "alpha" + kind)) == [f"alpha{i}" for i in range(5)]
    assert sorted(drain_all(world, "beta" + kind)) == [f"beta{i}" for i in range(4)]


@KINDS
def test_to_a_destination(world: World, kind: str) -> None:
    make(world, kind, messages=7)
    world.create("elsewhere" + kind)
    task = world.start_move("dead" + kind, "elsewhere" + kind)
    world.advance(10 * SECOND)
    assert world.move_task("dead" + kind).id == task.id
    assert sorted(drain_all(world, "elsewhere" + kind)) == [f"source{i}" for i in range(7)]


def test_a_moved_message_is_a_new_one(world: World) -> None:
    make(world, messages=1)
    (dead,) = world.receive("dead", visibility_ms=0)
    world.advance(HOUR)
    world.start_move("dead")
    world.advance(SECOND)
    (message,) = world.receive("source")
    assert message.content.id != dead.content.id
    assert message.content.sent_ms > dead.content.sent_ms
    assert message.content.body == dead.content.body
    assert message.receives == 1, "the redrive policy counts from zero: it is not dead-lettered again at once"
    assert message.source is None


def test_moved_messages_keep_group_and_order_on_fifo(world: World) -> None:
    world.create("dead.fifo")
    world.create("source.fifo", dead_letters=("dead.fifo", 1), visibility_ms=SECOND)
    for i in range(12):
        world.send("dead.fifo", f"m{i:02}", group="g")
    world.start_move("dead.fifo", "source.fifo")
    world.advance(10 * SECOND)
    assert drain_all(world, "source.fifo") == [f"m{i:02}" for i in range(12)]


def test_the_rate(world: World) -> None:
    make(world)
    world.create("elsewhere")
    world.send_all("dead", *[f"m{i}" for i in range(30)])
    world.start_move("dead", "elsewhere", rate=5)
    world.advance(2 * SECOND)
    moved = world.counts("elsewhere")[0]
    assert 5 <= moved <= 12, f"{moved} in two seconds at five a second"
    assert world.move_task("dead").moved == moved
    assert world.move_task("dead").status == "RUNNING"
    world.advance(10 * SECOND)
    assert world.move_task("dead").status == "COMPLETED"
    assert world.counts("elsewhere")[0] == 30


def test_messages_in_flight_stay(world: World) -> None:
    make(world, messages=3)
    world.receive("dead", 1, visibility_ms=HOUR)
    world.start_move("dead")
    world.advance(5 * SECOND)
    assert world.move_task("dead").moved == 2
    assert world.counts("dead") == (0, 1, 0)


def test_cancel(world: World) -> None:
    make(world)
    world.create("elsewhere")
    world.send_all("dead", *[f"m{i}" for i in range(20)])
    task = world.start_move("dead", "elsewhere", rate=2)
    world.advance(SECOND)
    cancelled = world.cancel_move("dead", task.id)
    assert cancelled.moved <= 4
    world.advance(10 * SECOND)
    assert world.move_task("dead").status == "CANCELLED"
    with pytest.raises(MoveTaskNotRunning):
        world.cancel_move("dead", task.id)
    moved = world.counts("elsewhere")[0]
    assert moved == world.move_task("dead").moved
    assert world.counts("dead") == (20 - moved, 0, 0)


def test_cancel_of_an_unknown_task(world: World) -> None:
    make(world)
    with pytest.raises(MoveTaskMissing):
        world.cancel_move("dead", "no-such-task")


def test_one_at_a_time(world: World) -> None:
    make(world)
    world.send_all("dead", "a", "b", "c")
    world.start_move("dead", "source", rate=1)
    with pytest.raises(MoveTaskRunning):
        world.start_move("dead", "source")
    world.advance(10 * SECOND)
    world.start_move("dead", "source")


def test_only_from_a_dead_letter_queue(world: World) -> None:
    world.create("plain")
    with pytest.raises(SourceNotDeadLetterQueue):
        world.start_move("plain")


def test_failure_when_a_message_has_no_source(world: World) -> None:
    make(world, messages=2)
    world.send("dead", "sent here directly")
    world.start_move("dead")
    world.advance(5 * SECOND)
    task = world.move_task("dead")
    assert (task.status, task.failure) == (MoveStatus.FAILED, MoveFailure.SOURCE_UNKNOWN)
    assert sum(world.counts("dead")) + sum(world.counts("source")) == 3
    assert world.counts("dead") == (3 - task.moved, 0, 0), "what was not moved is visible at once"


def test_failure_when_a_message_would_go_where_the_mover_was_not_asked_about(world: World) -> None:
    make(world, source="alpha", messages=2)
    make(world, source="beta", messages=3)
    world.start_move("dead", only_to=frozenset({name_of("alpha")}))
    assert world.move_task("dead").only_to == frozenset(), "the list is stored once, beside the task"
    world.crash()
    world.advance(5 * SECOND)
    task = world.move_task("dead")
    assert (task.status, task.failure, task.moved) == (MoveStatus.FAILED, MoveFailure.NOT_PERMITTED, 2)
    assert world.store.records("move_task_targets") == {}, "and forgotten at its end"
    assert (world.counts("alpha"), world.counts("beta")) == ((2, 0, 0), (0, 0, 0))
    assert world.counts("dead") == (3, 0, 0), "what was not moved is visible at once"


def test_a_task_of_before_there_was_such_a_bound_is_still_read() -> None:
    queue = '{"account":"000000000000","region":"eu-west-1","name":"dead"}'
    stored = (
        f'{{"id":"t","source":{queue},"destination":null,"rate":null,"status":"RUNNING","started_ms":1,'
        '"to_move":2,"moved":1,"failure":null}'
    )
    task = msgspec.json.decode(stored, type=MoveTaskRecord)
    assert (task.source, task.only_to, task.moves_max) == (name_of("dead"), None, None)


def test_failure_when_the_destination_is_gone(world: World) -> None:
    make(world, messages=4)
    world.create("elsewhere")
    world.start_move("dead", "elsewhere", rate=1)
    world.drop("elsewhere")
    world.advance(10 * SECOND)
    task = world.move_task("dead")
    assert (task.status, task.failure) == (MoveStatus.FAILED, MoveFailure.DESTINATION_MISSING)
    assert world.counts("dead")[0] == 4 - task.moved


def test_the_task_goes_on_after_a_crash_with_no_loss_and_no_double(world: World) -> None:
    make(world)
    world.create("elsewhere")
    sent = [f"m{i:02}" for i in range(25)]
    world.send_all("dead", *sent)
    world.start_move("dead", "elsewhere", rate=10)
    for _ in range(6):
        world.advance(300)
        world.crash()
    world.advance(20 * SECOND)
    assert world.move_task("dead").status == "COMPLETED"
    assert world.move_task("dead").moved == 25
    assert sorted(drain_all(world, "elsewhere")) == sent
    assert world.counts("dead") == (0, 0, 0)


def test_a_crash_between_decision_and_commit_moves_nothing_twice(world: World) -> None:
    make(world)
    world.create("elsewhere")
    world.send_all("dead", *"abcdef")
    world.start_move("dead", "elsewhere", rate=1)
    world.hold_commits()
    world.advance(3 * SECOND)
    world.crash()
    world.advance(30 * SECOND)
    assert sorted(drain_all(world, "elsewhere")) == list("abcdef")


def test_a_refused_commit_is_tried_again(world: World) -> None:
    make(world)
    world.create("elsewhere")
    world.send_all("dead", *"abcdef")
    world.start_move("dead", "elsewhere", rate=2)
    world.refuse_next_commit()
    world.advance(30 * SECOND)
    assert world.move_task("dead").status == "COMPLETED"
    assert sorted(drain_all(world, "elsewhere")) == list("abcdef")
    assert world.counts("dead") == (0, 0, 0)


def test_under_load_nothing_is_lost(world: World) -> None:
    make(world)
    sent = [f"m{i:02}" for i in range(30)]
    world.send_all("dead", *sent[:20])
    world.start_move("dead", "source", rate=20)
    done: list[str] = []
    for i in range(60):
        if i < 10:
            world.send("dead", sent[20 + i])
        for queue in ("dead", "source"):
            for message in world.receive(queue, 3, visibility_ms=SECOND):
                if i % 2:
                    done.append(message.content.body)
                    world.delete(queue, message)
        world.advance(200)
    world.advance(MINUTE)
    for queue in ("dead", "source"):
        done += drain_all(world, queue)
    assert sorted(done) == sent


@KINDS
def test_what_arrives_later_does_not_keep_a_task_going(world: World, kind: str) -> None:
    make(world, kind)
    world.create("elsewhere" + kind)
    for i in range(12):
        world.send("dead" + kind, f"before{i:02}", group="g")
    world.start_move("dead" + kind, "elsewhere" + kind, rate=2)
    for i in range(30):
        world.send("dead" + kind, f"later{i:02}", group="g")
        world.advance(SECOND)
        if i % 7 == 0:
            world.crash()
    task = world.move_task("dead" + kind)
    assert (task.status, task.moved, task.to_move) == ("COMPLETED", 12, 12)
    assert drain_all(world, "elsewhere" + kind) == [f"before{i:02}" for i in range(12)]
    assert world.counts("dead" + kind) == (30, 0, 0)


def test_dead_letters_that_fail_again_and_again_do_not_keep_a_task_going(world: World) -> None:
    make(world, messages=5)
    world.start_move("dead", rate=1)
    for _ in range(40):
        world.receive("source")
        world.advance(SECOND)
    assert (world.move_task("dead").status, world.move_task("dead").moved) == ("COMPLETED", 5)


def test_what_was_in_flight_at_the_start_is_moved_if_it_comes_back_in_time(world: World) -> None:
    make(world)
    world.create("elsewhere")
    world.send_all("dead", *"abcdef")
    world.receive("dead", 2, visibility_ms=SECOND)
    world.start_move("dead", "elsewhere", rate=1)
    world.advance(20 * SECOND)
    assert (world.move_task("dead").moved, world.move_task("dead").to_move) == (6, 4)
    assert sorted(drain_all(world, "elsewhere")) == list("abcdef")


def test_tasks_are_listed_newest_first_and_ten_are_kept(world: World) -> None:
    make(world)
    ids = []
    for _ in range(12):
        ids.append(world.start_move("dead", "source").id)
        world.advance(SECOND)
    listed = [
        task.id for task in world.broker.partition_of(world.queue("dead")).moves.of(world.queue("dead"))
    ]
    assert listed == ids[:1:-1]
    world.crash()
    assert [
        task.id for task in world.broker.partition_of(world.queue("dead")).moves.of(world.queue("dead"))
    ] == listed


def test_the_tasks_of_a_deleted_queue_go_with_it(world: World) -> None:
    make(world)
    world.send_all("dead", "a", "b")
    world.start_move("dead", "source", rate=1)
    world.drop("dead")
    world.advance(5 * SECOND)
    assert world.store.records("move_task") == {}


def test_a_purge_during_a_move(world: World) -> None:
    make(world)
    world.send_all("dead", *"abcdefgh")
    world.start_move("dead", "source", rate=1)
    world.purge("dead")
    world.advance(10 * SECOND)
    assert world.move_task("dead").status == "COMPLETED"
    assert world.counts("dead") == (0, 0, 0)
    assert world.counts("source")[0] == world.move_task("dead").moved


def test_the_caller_is_answered_before_the_first_message_moves(world: World) -> None:
    make(world, messages=5)
    in_flight: list[int] = []
    started = world.start(
        world.broker.partition_of(world.queue("dead")).moves.begin(world.queue("dead"), None, None)
    )
    started.on_done(lambda _: in_flight.append(world.queue("dead").rules.backlog.in_flight))
    world.run()
    assert in_flight == [0]
    assert world.move_task("dead").moved == 5
