"""What an operator does with messages of one queue: edit, release, reset, delete; one or many."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.operations import Edit, Operation
from penstock.errors import (
    ContentOutdated,
    MessageInFlight,
    MessageNotAvailable,
    NotPossible,
    PenstockError,
    QuotaReached,
    StoreError,
    StoreFull,
)
from penstock.limits import HOUR, MINUTE, Limits
from penstock.names import Requester
from penstock.queues.messages import Attribute, Content, decode_content
from penstock.store.changes import EntryRow
from support.world import SECOND, World

KINDS = pytest.mark.parametrize("name", ["q", "q.fifo"])


def filled(world: World, name: str, *bodies: str, **settings: Any) -> dict[str, int]:
    """A queue with these messages; the seq of each body."""
    world.create(name, **{"visibility_ms": HOUR, **settings})
    world.send_all(name, *bodies, group="g")
    return dict(zip(bodies, [row.seq for row in world.stored(name)], strict=True))


def row(world: World, name: str, seq: int) -> EntryRow:
    (found,) = [each for each in world.stored(name) if each.seq == seq]
    return found


def content(world: World, seq: int) -> Content:
    return decode_content(world.store.contents([seq])[seq])


def edit(world: World, name: str, seq: int, if_version: int | None = None, **changed: Any) -> None:
    queue = world.queue(name)
    world.do(world.broker.partition_of(queue).editing.edit(queue, seq, Edit(**changed), if_version))


def apply(world: World, name: str, seqs: list[int], operation: str) -> list[PenstockError | None]:
    queue = world.queue(name)
    return world.do(world.broker.partition_of(queue).editing.apply(queue, seqs, Operation(operation)))


def one(world: World, name: str, seq: int, operation: str) -> None:
    (outcome,) = apply(world, name, [seq], operation)
    if outcome is not None:
        raise outcome


# -- edit ----------------------------------------------------------------------------------------------------


@KINDS
def test_body_and_attributes(world: World, name: str) -> None:
    seqs = filled(world, name, "a", "b")
    before = content(world, seqs["b"])
    edit(world, name, seqs["b"], body="edited", attributes={"n": Attribute("Number", "1")})
    world.crash()
    first, second = sorted(world.drain_up_to(name, 2), key=lambda each: each.content.body)
    assert (first.content.body, first.content.edited) == ("a", False)
    assert second.content == Content(
        before.id, "edited", before.sender, before.sent_ms, {"n": Attribute("Number", "1")}, None,
        before.dedup_id, True,
    )  # fmt: skip
    assert row(world, name, seqs["b"]).version == 2


def test_attributes_are_removed_and_the_rest_stays(world: World) -> None:
    world.create("q")
    world.send("q", "a", attributes={"n": Attribute("Number", "1")}, trace="t")
    (stored,) = world.stored("q")
    edit(world, "q", stored.seq, attributes={})
    edited = content(world, stored.seq)
    assert (edited.body, edited.attributes, edited.trace) == ("a", None, "t")


@KINDS
def test_the_mark_of_an_edit_survives_later_changes(world: World, name: str) -> None:
    seqs = filled(world, name, "a")
    one(world, name, seqs["a"], "release")
    one(world, name, seqs["a"], "reset")
    assert not content(world, seqs["a"]).edited
    edit(world, name, seqs["a"], body="b")
    one(world, name, seqs["a"], "reset")
    assert content(world, seqs["a"]).edited
    assert row(world, name, seqs["a"]).version == 5


@KINDS
def test_another_group(world: World, name: str) -> None:
    seqs = filled(world, name, "a", "b", "c")
    (held,) = world.receive(name, 1)
    assert held.content.body == "a"
    edit(world, name, seqs["c"], group="h")
    if name == "q.fifo":
        assert world.bodies(name) == ["c"], "its group is not blocked"
    else:
        assert {m.content.body: m.group for m in world.drain_up_to(name, 2)} == {"b": "g", "c": "h"}
    assert row(world, name, seqs["c"]).group == "h"


def test_a_message_leaves_its_group(world: World) -> None:
    seqs = filled(world, "q", "a")
    edit(world, "q", seqs["a"], group="")
    (received,) = world.receive("q")
    assert received.group is None
    fifo = filled(world, "q.fifo", "a")
    with pytest.raises(NotPossible, match="has a group"):
        edit(world, "q.fifo", fifo["a"], group="")


def test_a_delay(world: World) -> None:
    seqs = filled(world, "q", "a")
    edit(world, "q", seqs["a"], delay_ms=MINUTE)
    assert world.counts("q") == (0, 0, 1)
    world.crash()
    poll = world.poll("q")
    world.advance(19 * SECOND)
    edit(world, "q", seqs["a"], delay_ms=0)
    assert poll.bodies == ["a"]


def test_a_delay_that_cannot_be(world: World) -> None:
    fifo = filled(world, "q.fifo", "a")
    with pytest.raises(NotPossible, match="delay of its queue"):
        edit(world, "q.fifo", fifo["a"], delay_ms=0)
    seqs = filled(world, "q", "a")
    world.receive("q", visibility_ms=0)
    with pytest.raises(NotPossible, match="reset it first"):
        edit(world, "q", seqs["a"], delay_ms=MINUTE)
    one(world, "q", seqs["a"], "reset")
    edit(world, "q", seqs["a"], delay_ms=MINUTE)
    assert world.counts("q") == (0, 0, 1)


def test_a_message_within_the_maximum_size_of_its_queue(world: World) -> None:
    seqs = filled(world, "q", "x" * 20, message_bytes_max=16)
    (seq,) = seqs.values()
    with pytest.raises(NotPossible, match="16 bytes"):
        edit(world, "q", seq, body="x" * 21)
    edit(world, "q", seq, body="x" * 19)  # no larger than it was
    edit(world, "q", seq, body="x" * 16)
    with pytest.raises(NotPossible):
        edit(world, "q", seq, body="x" * 13, attributes={"n": Attribute("S", "ä")})
    edit(world, "q", seq, body="x" * 12, attributes={"n": Attribute("S", "ä")})


def test_quotas_follow_the_size_of_what_was_edited() -> None:
    with World(Limits(quota_bytes=2_000, quota_messages=2)) as world:
        seqs = filled(world, "q", "a", "b")
        edit(world, "q", seqs["a"], body="a" * 1_000)  # as many messages as there may be
        with pytest.raises(QuotaReached):
            edit(world, "q", seqs["b"], body="b" * 1_000)
        edit(world, "q", seqs["a"], body="a")
        edit(world, "q", seqs["b"], body="b" * 1_000)


@KINDS
def test_a_duplicate_of_an_edited_message_is_still_one(world: World, name: str) -> None:
    if name == "q":
        return
    seqs = filled(world, name, "a")
    (first,) = world.stored(name)
    edit(world, name, seqs["a"], body="edited", group="h")
    assert world.send(name, "a", group="g").sequence == first.position >> 20
    world.send(name, "edited", group="h")
    assert world.bodies(name) == ["edited", "edited"]


# -- what is refused -----------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("operation", ["delete", "release", "reset"])
def test_a_stale_version(world: World, name: str, operation: str) -> None:
    seqs = filled(world, name, "a", "b")
    queue = world.queue(name)
    editing = world.broker.partition_of(queue).editing
    world.do(editing.move_to_back(queue, seqs["a"], 1))
    before = world.stored(name)
    asked = [
        getattr(editing, operation)(queue, seqs["a"], 1),
        editing.move_to_front(queue, seqs["a"], 1),
        editing.move_before(queue, seqs["a"], seqs["b"], 1),
        editing.edit(queue, seqs["a"], Edit(body="x"), 1),
    ]
    for each in asked:
        with pytest.raises(ContentOutdated) as refused:
            world.do(each)
        assert refused.value.version == 2
    assert world.stored(name) == before
    world.do(getattr(editing, operation)(queue, seqs["a"], 2))


@KINDS
@pytest.mark.parametrize("operation", ["delete", "release", "reset"])
def test_a_message_in_flight_or_gone(world: World, name: str, operation: str) -> None:
    seqs = filled(world, name, "a")
    (received,) = world.receive(name, visibility_ms=MINUTE)
    world.advance(20 * SECOND)
    with pytest.raises(MessageInFlight) as refused:
        one(world, name, seqs["a"], operation)
    assert refused.value.visible_in_ms == 40 * SECOND
    world.delete(name, received)
    with pytest.raises(MessageNotAvailable):
        one(world, name, seqs["a"], operation)


@KINDS
@pytest.mark.parametrize("operation", ["delete", "release", "reset"])
def test_what_expired_or_was_purged(world: World, name: str, operation: str) -> None:
    seqs = filled(world, name, "a", retention_ms=MINUTE)
    world.advance(MINUTE)
    with pytest.raises(MessageNotAvailable):
        one(world, name, seqs["a"], operation)
    world.send(name, "b", group="g")
    seq = world.stored(name)[-1].seq
    world.purge(name)
    with pytest.raises(MessageNotAvailable):
        one(world, name, seq, operation)
    assert world.counts(name) == (0, 0, 0)


@KINDS
def test_a_purge_that_comes_between(world: World, name: str) -> None:
    """The edit has found the message when the purge is decided: it must not come back."""
    for steps in range(12):
        queue_name = name.replace("q", f"q{steps}")
        seqs = filled(world, queue_name, "a", "b")
        queue = world.queue(queue_name)
        moving = world.start(world.broker.partition_of(queue).editing.move_to_back(queue, seqs["a"]))
        for _ in range(steps):
            world.runtime.step()
        purging = world.start(world.broker.purge(queue))
        world.run()
        assert purging.done and moving.done
        assert world.counts(queue_name) == (0, 0, 0)
        world.crash()
        assert world.counts(queue_name) == (0, 0, 0)
        assert world.bodies(queue_name) == []


@KINDS
@pytest.mark.parametrize("operation", ["delete", "release", "reset"])
def test_a_refused_commit_changes_nothing(world: World, name: str, operation: str) -> None:
    seqs = filled(world, name, "a", "b")
    before, held = world.stored(name), content(world, seqs["a"])
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        one(world, name, seqs["a"], operation)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        edit(world, name, seqs["a"], body="edited")
    for _ in range(2):
        assert (world.stored(name), content(world, seqs["a"])) == (before, held)
        assert world.counts(name) == (2, 0, 0)
        world.crash()
    one(world, name, seqs["a"], operation)


def test_a_full_disk_refuses_an_edit_before_its_commit(world: World) -> None:
    seqs = filled(world, "q", "a", "b")
    world.store.full = True
    with pytest.raises(StoreFull):
        world.send("q", "c")
    commits = len(world.store.appended)
    with pytest.raises(StoreFull):
        edit(world, "q", seqs["a"], body="edited")
    with pytest.raises(StoreFull):
        one(world, "q", seqs["a"], "reset")
    assert len(world.store.appended) == commits
    one(world, "q", seqs["a"], "delete")  # which gives space back


# -- release and reset ---------------------------------------------------------------------------------------


def test_a_released_message_goes_to_who_waits(world: World) -> None:
    world.create("q")
    world.send_all("q", *"abc", delay_ms=15 * MINUTE)
    poll = world.poll("q", 1)
    assert not poll.done
    one(world, "q", world.stored("q")[1].seq, "release")
    assert poll.bodies == ["b"]
    assert world.counts("q") == (0, 1, 2)


def test_on_a_fifo_queue_too(world: World) -> None:
    seqs = filled(world, "q.fifo", "a", "b", delay_ms=10 * MINUTE)
    poll = world.poll("q.fifo", 10)
    one(world, "q.fifo", seqs["b"], "release")
    assert not poll.done, "a message before it in its group is delayed"
    one(world, "q.fifo", seqs["a"], "release")
    assert poll.bodies == ["a", "b"]


def test_a_fifo_message_that_would_expire_is_not_released(world: World) -> None:
    seqs = filled(world, "q.fifo", "a", delay_ms=10 * MINUTE, retention_ms=MINUTE)
    with pytest.raises(NotPossible, match="retention"):
        one(world, "q.fifo", seqs["a"], "release")


@KINDS
def test_a_reset_message_is_as_just_sent(world: World, name: str) -> None:
    seqs = filled(world, name, "a", retention_ms=10 * MINUTE)
    for _ in range(3):
        world.receive(name, visibility_ms=0)
    world.advance(9 * MINUTE)
    one(world, name, seqs["a"], "reset")
    world.advance(9 * MINUTE)
    sent_ms = content(world, seqs["a"]).sent_ms
    assert world.clock.wall_ms() - sent_ms == 9 * MINUTE
    (received,) = world.receive(name)
    assert received.receives == 1
    assert received.first_received_ms == world.clock.wall_ms()


def test_a_handle_from_before_a_reset_is_not_current_on_fifo(world: World) -> None:
    seqs = filled(world, "q.fifo", "a")
    (before,) = world.receive("q.fifo", visibility_ms=SECOND)
    world.advance(MINUTE)
    one(world, "q.fifo", seqs["a"], "reset")
    world.advance(1)
    (after,) = world.receive("q.fifo")
    assert before.receives == after.receives == 1
    with pytest.raises(PenstockError):
        world.delete("q.fifo", before)
    world.delete("q.fifo", after)
    assert world.counts("q.fifo") == (0, 0, 0)


# -- many ----------------------------------------------------------------------------------------------------


@KINDS
def test_many_in_one_commit_each_with_its_outcome(world: World, name: str) -> None:
    bodies = [f"m{i:03d}" for i in range(300)]
    seqs = filled(world, name, *bodies)
    (held,) = world.receive(name, 1)
    commits = len(world.store.appended)
    asked = [*seqs.values(), 10**9, seqs["m007"]]
    outcomes = apply(world, name, asked, "delete")
    failed = {asked[i]: type(outcome) for i, outcome in enumerate(outcomes) if outcome is not None}
    assert failed == {seqs[held.content.body]: MessageInFlight, 10**9: MessageNotAvailable}
    assert len(world.store.appended) <= commits + 2  # one may be for the receive
    assert world.counts(name) == (0, 1, 0)
    world.delete(name, held)


def test_who_did_it_stands_in_the_history(world: World) -> None:
    seqs = filled(world, "q", "a")
    queue, by = world.queue("q"), Requester("anna", "10.0.0.1", "cli")
    editing = world.broker.partition_of(queue).editing
    world.do(editing.edit(queue, seqs["a"], Edit(body="b", delay_ms=MINUTE), by=by))
    world.do(editing.release(queue, seqs["a"], by=by))
    with pytest.raises(ContentOutdated):
        world.do(editing.delete(queue, seqs["a"], 1, by=by))
    world.do(editing.delete(queue, seqs["a"], 3, by=by))
    events = [(each.event, each.requester, each.detail) for each in queue.history(seqs["a"]).events]
    assert events[1:] == [("edited", by, "body, delay"), ("released", by, None), ("deleted", by, None)]
