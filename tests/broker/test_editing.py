"""Messages that are replaced and moved within their queue without being received."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.delivery import Destination, QueueDelivery
from penstock.broker.operations import Edit
from penstock.errors import ContentOutdated, MessageInFlight, MessageNotAvailable, NoRoomBetween
from penstock.limits import HOUR
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.store.changes import EntryRow
from penstock.store.port import Selection
from support.shards import ShardsWorld
from support.world import World, name_of

KINDS = pytest.mark.parametrize("name", ["q", "q.fifo"])


def rows(world: World, name: str) -> list[EntryRow]:
    """Returns the stored rows, once all that was decided is stored."""
    world.shard.write_later()
    world.do(world.broker.settled())
    return world.stored(name)


def fill(world: World, name: str, *bodies: str) -> dict[str, int]:
    """The seq of each body."""
    world.create(name, visibility_ms=HOUR)
    world.send_all(name, *bodies, group="g")
    return dict(zip(bodies, [row.seq for row in rows(world, name)], strict=True))


def work_off(world: World, name: str) -> list[str]:
    done: list[str] = []
    while batch := world.receive(name, 10):
        done += [message.content.body for message in batch]
        world.delete(name, *batch)
    return done


def edit(world: World, name: str, seq: int, if_version: int | None = None, **changed: Any) -> None:
    queue = world.queue(name)
    world.do(world.broker.partition_of(queue).editing.edit(queue, seq, Edit(**changed), if_version))


def replace(world: World, name: str, seq: int, body: str, if_version: int) -> None:
    edit(world, name, seq, if_version, body=body)


@KINDS
def test_content_is_replaced_under_a_new_version(world: World, name: str) -> None:
    seqs = fill(world, name, "a", "b")
    before = {row.seq: row for row in rows(world, name)}
    replace(world, name, seqs["b"], "edited", if_version=1)
    assert [row.version for row in rows(world, name)] == [1, 2]
    ids = {m.content.body: m.content.id for m in world.drain_up_to(name, 2)}
    assert ids.keys() == {"a", "edited"}
    assert before.keys() == {row.seq for row in rows(world, name)}


def test_an_edit_that_the_store_skipped_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message expired in the store between the check and the commit."""
    seqs = fill(world, "q", "a")
    append = world.store.append
    monkeypatch.setattr(world.store, "append", lambda changes, mark: append(changes, mark) | {seqs["a"]})
    with pytest.raises(MessageNotAvailable):
        replace(world, "q", seqs["a"], "edited", if_version=1)


@KINDS
def test_an_outdated_version_is_refused(world: World, name: str) -> None:
    seqs = fill(world, name, "a")
    replace(world, name, seqs["a"], "first", if_version=1)
    with pytest.raises(ContentOutdated) as refused:
        replace(world, name, seqs["a"], "second", if_version=1)
    assert refused.value.version == 2
    assert work_off(world, name) == ["first"]


@KINDS
def test_a_message_in_flight_is_not_edited(world: World, name: str) -> None:
    seqs = fill(world, name, "a", "b")
    (received,) = world.receive(name, 1)
    with pytest.raises(MessageInFlight):
        replace(world, name, seqs["a"], "edited", if_version=1)
    with pytest.raises(MessageInFlight):
        world.do(
            world.broker.partition_of(world.queue(name)).editing.move_to_back(world.queue(name), seqs["a"])
        )
    world.delete(name, received)
    with pytest.raises(MessageNotAvailable):
        world.do(
            world.broker.partition_of(world.queue(name)).editing.move_to_back(world.queue(name), seqs["a"])
        )


@KINDS
def test_a_receive_that_is_not_durable_counts(world: World, name: str) -> None:
    seqs = fill(world, name, "a")
    world.counts(name)
    world.hold_commits()
    world.poll(name, 1)
    edit = world.start(
        world.broker.partition_of(world.queue(name)).editing.move_to_back(world.queue(name), seqs["a"])
    )
    world.release_commits()
    with pytest.raises(MessageInFlight):
        edit.result()


@KINDS
def test_moving_before_another_to_the_front_and_to_the_back(world: World, name: str) -> None:
    seqs = fill(world, name, *"abcdef")
    queue = world.queue(name)
    editing = world.broker.partition_of(queue).editing
    world.do(editing.move_before(queue, seqs["e"], seqs["b"]))
    world.do(editing.move_before(queue, seqs["f"], seqs["b"]))
    world.do(editing.move_to_front(queue, seqs["d"]))
    world.do(editing.move_to_back(queue, seqs["a"]))
    by_seq = {seq: body for body, seq in seqs.items()}
    assert "".join(by_seq[row.seq] for row in rows(world, name)) == "defbca"
    world.crash()
    assert "".join(work_off(world, name)) == "defbca"


def test_edits_at_the_same_time_choose_different_positions(world: World) -> None:
    seqs = fill(world, "q", *"abcde")
    queue = world.queue("q")
    editing = world.broker.partition_of(queue).editing
    edits = [world.start(editing.move_before(queue, seqs[body], seqs["b"])) for body in "cde"]
    world.run()
    assert all(edit.done for edit in edits)
    assert "".join(work_off(world, "q")) == "acdeb"


def test_between_two_messages_there_is_room_for_twenty(roomy: World) -> None:
    seqs = fill(roomy, "q", *(f"m{i}" for i in range(30)))
    queue = roomy.queue("q")
    editing = roomy.broker.partition_of(queue).editing
    moved = 0
    with pytest.raises(NoRoomBetween):
        for body in list(seqs)[2:]:
            roomy.do(editing.move_before(queue, seqs[body], seqs["m1"]))
            moved += 1
    assert moved >= 20
    assert sorted(work_off(roomy, "q")) == sorted(seqs)


def test_a_change_does_not_wait_for_the_target_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard of a target may not answer for seconds. Changes of other queues are not kept waiting by that."""
    with ShardsWorld() as world:
        near, other, far = world.name("near", 0), world.name("other", 0), world.name("far", 1)
        for short in (near, other, far):
            world.create(short)
        world.send(near, "moved")
        world.send_all(other, "a", "b")
        partition, answer = world.broker.partition(0), Promise[None]()

        async def find_later(delivery: QueueDelivery, name: QueueName) -> Destination:
            await answer
            return await find(delivery, name)

        find = QueueDelivery.find
        monkeypatch.setattr(QueueDelivery, "find", find_later)
        (moved,), (first, _) = (
            partition.shard.store.select(Selection(world.queue(short).id), rows_max=2)
            for short in (near, other)
        )
        moving = world.start(partition.editing.send_to(world.queue(near), moved.seq, name_of(far)))
        world.run()
        changed = world.start(partition.editing.move_to_back(world.queue(other), first.seq))
        world.run()
        assert changed.done and not moving.done
        answer.resolve(None)
        world.run()
        moving.result()
        assert world.bodies(far) == ["moved"]
