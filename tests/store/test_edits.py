"""Edits of messages on every store: what was written is what is found after a restart, and is counted."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.operations import Edit, Operation
from penstock.errors import ContentOutdated, PenstockError, StoreError
from penstock.queues.messages import Attribute, decode_content
from penstock.store.changes import EntryRow
from penstock.store.port import Usage
from store.store_broker import StoreBroker, name_of
from store.store_driver import Driver

SIZES = pytest.mark.parametrize("size", [10, 5000], ids=["small", "large"])


@pytest.fixture
def world(driver: Driver) -> StoreBroker:
    return StoreBroker(driver)


def rows(world: StoreBroker, name: str) -> list[EntryRow]:
    return world.driver.all(world.queue(name).id)


def edit(world: StoreBroker, name: str, seq: int, if_version: int | None = None, **changed: Any) -> None:
    queue = world.queue(name)
    world.do(world.broker.partition_of(queue).editing.edit(queue, seq, Edit(**changed), if_version))


def apply(
    world: StoreBroker, name: str, seqs: list[int], operation: Operation, target: str = "other"
) -> list[PenstockError | None]:
    queue = world.queue(name)
    return world.do(world.broker.partition_of(queue).editing.apply(queue, seqs, operation, name_of(target)))


def check_usage(world: StoreBroker, *names: str) -> None:
    for name in names:
        held, id = rows(world, name), world.queue(name).id
        expected = {id: Usage(len(held), sum(row.size for row in held))} if held else {}
        assert {
            key: usage for key, usage in world.driver.store.usage(id).items() if usage.messages
        } == expected
        contents = world.driver.store.contents([row.seq for row in held])
        assert [len(contents[row.seq]) for row in held] == [row.size for row in held]


@SIZES
def test_content_group_and_delay(world: StoreBroker, size: int) -> None:
    world.create("q")
    ids = world.send("q", "a" * size, "b" * size, "c", group="g")
    seqs = [row.seq for row in rows(world, "q")]
    edit(world, "q", seqs[0], 1, body="A" * (5010 - size), attributes={"n": Attribute("Binary", b"\x00")})
    edit(world, "q", seqs[1], 1, group="h", delay_ms=5_000)
    with pytest.raises(ContentOutdated):
        edit(world, "q", seqs[1], 1, body="too late")
    world.crash()
    check_usage(world, "q")
    assert [(row.version, row.group) for row in rows(world, "q")] == [(2, "g"), (2, "h"), (1, "g")]
    received = {message.content.id: message for message in world.receive("q")}
    assert received.keys() == {ids[0], ids[2]}
    assert received[ids[0]].content.body == "A" * (5010 - size)
    assert received[ids[0]].content.attributes == {"n": Attribute("Binary", b"\x00")}
    assert received[ids[0]].content.edited
    world.clock.advance(5_000)
    (later,) = world.receive("q")
    assert (later.content.id, later.content.body, later.group) == (ids[1], "b" * size, "h")


@SIZES
@pytest.mark.parametrize("kind", ["", ".fifo"])
def test_moves_dead_letters_and_copies(world: StoreBroker, kind: str, size: int) -> None:
    work, dead, other = f"work{kind}", f"dead{kind}", f"other{kind}"
    for name, dead_letters in ((dead, None), (other, None), (work, dead)):
        world.create(name, dead_letters)
    ids = world.send(work, *(body * size for body in "abcd"), group="g")
    seqs = [row.seq for row in rows(world, work)]
    assert apply(world, work, seqs[:1], Operation.MOVE, other) == [None]
    assert apply(world, work, seqs[1:2], Operation.DEAD_LETTER) == [None]
    assert apply(world, work, seqs[2:3], Operation.COPY, other) == [None]
    assert apply(world, work, seqs[3:], Operation.DELETE) == [None]
    world.crash()
    check_usage(world, work, dead, other)
    moved, copy = world.receive(other)
    assert (moved.content.id, moved.content.body) == (ids[0], "a" * size)
    assert (copy.content.id not in ids, copy.content.body) == (True, "c" * size)
    assert apply(world, dead, seqs[1:2], Operation.REDRIVE) == [None]
    world.crash()
    check_usage(world, work, dead, other)
    assert [message.content.id for message in world.receive(work)] == ids[2:0:-1]


def test_release_and_reset(world: StoreBroker) -> None:
    world.create("q")
    (id,) = world.send("q", "a")
    (row,) = rows(world, "q")
    world.receive("q", visibility_ms=0)
    world.clock.advance(1_000)
    assert apply(world, "q", [row.seq], Operation.RESET) == [None]
    edit(world, "q", row.seq, delay_ms=60_000)
    assert world.receive("q") == []
    assert apply(world, "q", [row.seq], Operation.RELEASE) == [None]
    world.crash()
    (after,) = rows(world, "q")
    assert (after.version, after.receives, after.enqueued_ms) == (4, 0, world.clock.now_ms())
    (received,) = world.receive("q")
    assert (received.content.id, received.receives) == (id, 1)
    assert received.content.sent_ms == world.clock.wall_ms()


def test_the_order_of_a_group(world: StoreBroker) -> None:
    world.create("q.fifo")
    world.send("q.fifo", *"abc", group="g")
    a, b, c = (row.seq for row in rows(world, "q.fifo"))
    queue = world.queue("q.fifo")
    editing = world.broker.partition_of(queue).editing
    world.do(editing.move_to_back(queue, a, 1))
    world.do(editing.move_before(queue, c, b, 1))
    world.do(editing.move_to_front(queue, a, 2))
    world.crash()
    assert [message.content.body for message in world.receive("q.fifo")] == ["a", "c", "b"]
    assert [row.version for row in rows(world, "q.fifo")] == [3, 2, 1]


@pytest.mark.parametrize("operation", [Operation.MOVE, Operation.RESET, Operation.DELETE])
def test_a_refused_commit_changes_nothing(
    world: StoreBroker, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("q")
    world.create("other")
    world.send("q", "a", "b")
    before = rows(world, "q")

    def refuse(changes: object, mark: object) -> set[int]:
        raise StoreError("refused by the test")

    with monkeypatch.context() as patched:
        patched.setattr(world.driver.store, "append", refuse)
        with pytest.raises(StoreError):
            apply(world, "q", [row.seq for row in before], operation)
        with pytest.raises(StoreError):
            edit(world, "q", before[0].seq, body="edited")
    for _ in range(2):
        assert rows(world, "q") == before
        contents = world.driver.store.contents([row.seq for row in before])
        assert [decode_content(contents[row.seq]).body for row in before] == ["a", "b"]
        check_usage(world, "q", "other")
        world.crash()
    assert apply(world, "q", [row.seq for row in before], operation) == [None, None]
