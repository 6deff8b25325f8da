"""Messages that an operator sends to another queue, of the same shard or of another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from broker.encrypted_world import KMS, OTHER, EncryptedWorld
from penstock.broker.operations import Edit, Operation
from penstock.broker.outbox import OUTBOX
from penstock.errors import (
    KeyDisabled,
    MessageInFlight,
    NotPossible,
    PenstockError,
    QueueMissing,
    QuotaReached,
    StoreError,
    Unreachable,
)
from penstock.limits import HOUR, MINUTE, Limits
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Received
from penstock.store.port import LAST, Selection
from support.cluster import Cluster, Fault, Node
from support.shards import ShardsWorld
from support.world import ROOMY, SECOND, World, name_of

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


def send_to(world: World, name: str, seq: int, target: str, if_version: int | None = None) -> None:
    queue = world.queue(name)
    world.do(world.broker.partition_of(queue).editing.send_to(queue, seq, name_of(target), if_version))


def apply(
    world: World, name: str, seqs: list[int], operation: str, target: str | None = None
) -> list[PenstockError | None]:
    queue = world.queue(name)
    to = None if target is None else name_of(target)
    return world.do(world.broker.partition_of(queue).editing.apply(queue, seqs, Operation(operation), to))


def seqs_of(world: World, name: str) -> list[int]:
    return [row.seq for row in world.store.select(Selection(world.queue(name).id), rows_max=LAST)]


def received_from(world: World, name: str) -> list[Received]:
    """Everything that a queue has, received and deleted."""
    found: list[Received] = []
    while batch := world.receive(name):
        found += batch
        world.delete(name, *batch)
    return found


def wired(world: World, kind: str = "", **settings: Any) -> tuple[str, str, str]:
    """A queue, its dead-letter queue, and another one."""
    work, dead, other = f"work{kind}", f"dead{kind}", f"other{kind}"
    world.create(dead)
    world.create(other)
    world.create(work, dead_letters=(dead, 3), visibility_ms=HOUR, **settings)
    return work, dead, other


@KINDS
def test_a_moved_message_starts_again_under_its_id(world: World, kind: str) -> None:
    work, _, other = wired(world, kind)
    world.configure(other, delay_ms=MINUTE)
    sent = world.send(work, "a", group="g")
    world.receive(work, visibility_ms=0)
    world.advance(HOUR)
    poll = world.poll(other, wait_ms=20 * SECOND)
    send_to(world, work, seqs_of(world, work)[0], other)
    assert world.counts(work) == (0, 0, 0)
    assert world.counts(other) == (0, 0, 1)
    assert not poll.done
    world.crash()
    world.advance(MINUTE)
    (received,) = world.receive(other)
    assert (received.content.id, received.content.body, received.group) == (sent.id, "a", "g")
    assert (received.receives, received.source) == (1, None)
    assert world.clock.wall_ms() - received.content.sent_ms == MINUTE
    queue = world.queue(other)
    assert queue.rules.message_id.number_of(sent.id) == world.stored_number(other, received.handle)


@KINDS
def test_who_waits_at_the_other_queue_is_served(world: World, kind: str) -> None:
    work, _, other = wired(world, kind)
    world.send(work, "a", group="g")
    poll = world.poll(other)
    send_to(world, work, seqs_of(world, work)[0], other)
    assert poll.bodies == ["a"]


@KINDS
@pytest.mark.parametrize("operation", ["move", "dead-letter"])
def test_a_dead_letter_by_hand_and_back(world: World, kind: str, operation: str) -> None:
    """Whether it is moved to the dead-letter queue or dead-lettered is the same."""
    work, dead, _ = wired(world, kind)
    sent = world.send(work, "a", group="g")
    world.receive(work, visibility_ms=0)
    (seq,) = seqs_of(world, work)
    assert apply(world, work, [seq], operation, dead) == [None]
    (letter,) = world.receive(dead, visibility_ms=0)
    assert (letter.content.id, letter.receives) == (sent.id, 2)
    assert letter.source == name_of(work).arn
    assert apply(world, dead, [seq], "redrive") == [None]
    (again,) = world.receive(work)
    assert (again.content.id, again.receives, again.source) == (sent.id, 1, None)
    world.delete(work, again)


def test_what_has_nowhere_to_go(world: World) -> None:
    work, dead, other = wired(world)
    world.send(other, "a")
    (seq,) = seqs_of(world, other)
    for operation, reason in (
        ("dead-letter", "no dead-letter queue"),
        ("redrive", "came from"),
    ):
        (refused,) = apply(world, other, [seq], operation)
        assert isinstance(refused, NotPossible)
        assert reason in str(refused)
    (refused,) = apply(world, other, [seq], "move", other)
    assert isinstance(refused, NotPossible)
    with pytest.raises(QueueMissing):
        send_to(world, other, seq, "missing")
    world.send(work, "b")
    (letter,) = seqs_of(world, work)
    apply(world, work, [letter], "dead-letter")
    world.drop(work)
    (refused,) = apply(world, dead, [letter], "redrive")
    assert isinstance(refused, QueueMissing)
    assert world.counts(dead) == (1, 0, 0)


def test_a_fifo_queue_takes_messages_with_a_group(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.create("q.fifo")
    world.send("q", "a")
    (seq,) = seqs_of(world, "q")
    with pytest.raises(NotPossible, match="group"):
        send_to(world, "q", seq, "q.fifo")
    queue = world.queue("q")
    world.do(world.broker.partition_of(queue).editing.edit(queue, seq, Edit(group="g")))
    send_to(world, "q", seq, "q.fifo")
    (received,) = world.receive("q.fifo", visibility_ms=0)
    assert (received.group, received.sequence) == ("g", world.stored("q.fifo")[0].position >> 20)
    assert received.content.dedup_id, "every message of a FIFO queue has one"
    dedup_id = received.content.dedup_id
    send_to(world, "q.fifo", seq, "q")
    (received,) = world.receive("q")
    assert (received.group, received.content.dedup_id) == ("g", dedup_id)


def test_a_message_that_the_other_queue_would_not_accept(world: World) -> None:
    world.create("q")
    world.create("small", message_bytes_max=16)
    world.send_all("q", "x" * 17, "x" * 16)
    outcomes = apply(world, "q", seqs_of(world, "q"), "move", "small")
    assert isinstance(outcomes[0], NotPossible)
    assert "16 bytes" in str(outcomes[0])
    assert outcomes[1] is None
    assert (world.counts("q"), world.counts("small")) == ((1, 0, 0), (1, 0, 0))


@KINDS
def test_a_message_in_flight_stays(world: World, kind: str) -> None:
    work, _, other = wired(world, kind)
    world.send(work, "a", group="g")
    (held,) = world.receive(work)
    with pytest.raises(MessageInFlight):
        send_to(world, work, seqs_of(world, work)[0], other)
    world.delete(work, held)
    assert world.counts(other) == (0, 0, 0)


@KINDS
@pytest.mark.parametrize("operation", ["move", "copy", "dead-letter"])
def test_a_refused_commit_changes_nothing(world: World, kind: str, operation: str) -> None:
    work, dead, other = wired(world, kind)
    world.send_all(work, "a", "b", group="g")
    before = world.stored(work)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        apply(world, work, seqs_of(world, work), operation, other)
    for _ in range(2):
        assert world.stored(work) == before
        assert [world.counts(each) for each in (work, dead, other)] == [(2, 0, 0), (0, 0, 0), (0, 0, 0)]
        world.crash()


def test_old_handles_do_not_reach_a_message_that_came_back(world: World) -> None:
    work, _, other = wired(world, ".fifo")
    world.send(work, "a", group="g")
    (old,) = world.receive(work, visibility_ms=SECOND)
    world.advance(MINUTE)
    (seq,) = seqs_of(world, work)
    send_to(world, work, seq, other)
    world.advance(1)
    send_to(world, other, seq, work)
    (new,) = world.receive(work)
    with pytest.raises(PenstockError):
        world.delete(work, old)
    world.delete(work, new)


@KINDS
def test_a_copy_is_a_new_message(world: World, kind: str) -> None:
    work, _, other = wired(world, kind)
    sent = world.send_all(work, "a", "b", group="g")
    before = world.stored(work)
    for target in (other, work):
        assert apply(world, work, [row.seq for row in before], "copy", target) == [None, None]
    assert world.stored(work)[:2] == before
    copies = received_from(world, other) + received_from(world, work)
    assert sorted(each.content.body for each in copies) == ["a", "a", "a", "b", "b", "b"]
    assert len({each.content.id for each in copies}) == 6
    assert {each.id for each in sent} < {each.content.id for each in copies}
    assert {each.receives for each in copies} == {1}


def test_a_copy_is_within_the_quota() -> None:
    with World(Limits(quota_messages=3)) as world:
        world.create("q")
        world.send_all("q", "a", "b")
        outcomes = apply(world, "q", seqs_of(world, "q"), "copy", "q")
        assert [type(outcome) for outcome in outcomes] == [type(None), QuotaReached]
        world.create("other")
        assert apply(world, "q", seqs_of(world, "q"), "move", "other") == [None] * 3


def test_copies_for_another_shard_are_within_the_quota() -> None:
    with ShardsWorld(msgspec.structs.replace(ROOMY, quota_messages=100)) as world:
        here, there = world.name("here", 0), world.name("there", 1)
        world.create(here)
        world.create(there)
        world.send_all(here, *[f"m{n}" for n in range(90)])
        queue = world.queue(here)
        world.do(
            world.broker.partition_of(queue).bulk_tasks.begin(
                queue, Operation.COPY, name_of(there), MessageFilter()
            )
        )
        world.advance(MINUTE)
        assert (world.counts(here)[0], world.counts(there)[0]) == (90, 10)
        (task,) = world.broker.partition_of(queue).bulk_tasks.of(queue)
        assert (task.done, sum(task.cannot.values())) == (10, 80)


# -- encryption ----------------------------------------------------------------------------------------------


def test_a_moved_message_is_encrypted_under_the_key_of_its_queue() -> None:
    with EncryptedWorld(ROOMY) as world:
        world.create("orders", **KMS)
        world.create("others", **OTHER)
        world.send_all("orders", "secret-a", "secret-b")
        first, second = seqs_of(world, "orders")
        queue = world.queue("orders")
        world.do(world.broker.partition_of(queue).editing.edit(queue, second, Edit(body="secret-edited")))
        send_to(world, "orders", first, "others")
        assert b"secret-" not in world.files()
        world.enable("alias/orders", False)
        assert world.bodies("others") == ["secret-a"]
        with pytest.raises(KeyDisabled):
            world.do(world.broker.partition_of(queue).editing.edit(queue, second, Edit(body="x")))
        (outcome,) = apply(world, "orders", [second], "move", "others")
        assert isinstance(outcome, KeyDisabled)
        world.enable("alias/orders", True)
        assert world.bodies("orders") == ["secret-edited"]


def test_a_queue_whose_key_is_disabled_takes_nothing() -> None:
    with EncryptedWorld(ROOMY) as world:
        world.create("q", managed_key=False)
        world.create("orders", **KMS)
        world.send("q", "a")
        world.enable("alias/orders", False)
        with pytest.raises(KeyDisabled):
            send_to(world, "q", seqs_of(world, "q")[0], "orders")
        assert world.bodies("q") == ["a"]


# -- another shard -------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


class Shards:
    """A queue of shard 0 with its dead-letter queue in shard 1, and another queue in shard 2."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster = cluster
        self.work, self.dead, self.other = (
            cluster.name(base, shard, kind) for shard, base in enumerate(("work", "dead", "other"))
        )
        self.node(self.dead).create(self.dead)
        self.node(self.other).create(self.other)
        self.node(self.work).create(self.work, dead_letters=(self.dead, 3), visibility_ms=HOUR)

    def node(self, short: str) -> Node:
        return self.cluster.node(short)

    def apply(self, name: str, operation: str, target: str | None = None) -> list[PenstockError | None]:
        """Applies the operation to all messages of a queue."""
        node = self.node(name)
        outcomes = apply(node, name, seqs_of(node, name), operation, target)
        self.cluster.run()
        return outcomes

    def on_the_way(self) -> int:
        return sum(
            usage.messages for node in self.cluster.nodes for usage in node.store.usage(OUTBOX).values()
        )


@KINDS
def test_a_message_keeps_its_id_in_another_shard(cluster: Cluster, kind: str) -> None:
    shards = Shards(cluster, kind)
    sent = shards.node(shards.work).send(shards.work, "a", group="g")
    shards.node(shards.work).receive(shards.work, visibility_ms=0)
    for source, target in ((shards.work, shards.other), (shards.other, shards.work)):
        assert shards.apply(source, "move", target) == [None]
        assert shards.node(source).counts(source) == (0, 0, 0)
        (moved,) = shards.node(target).receive(target, visibility_ms=0)
        assert (moved.content.id, moved.content.body, moved.group) == (sent.id, "a", "g")
        assert (moved.receives, moved.source) == (1, None)
    assert shards.on_the_way() == 0


@KINDS
def test_a_dead_letter_by_hand_and_back_over_shards(cluster: Cluster, kind: str) -> None:
    shards = Shards(cluster, kind)
    sent = shards.node(shards.work).send(shards.work, "a", group="g")
    shards.node(shards.work).receive(shards.work, visibility_ms=0)
    assert shards.apply(shards.work, "dead-letter") == [None]
    (letter,) = shards.node(shards.dead).receive(shards.dead, visibility_ms=0)
    assert (letter.content.id, letter.receives) == (sent.id, 2)
    assert letter.source == name_of(shards.work).arn
    assert shards.apply(shards.dead, "redrive") == [None]
    (again,) = shards.node(shards.work).receive(shards.work)
    assert (again.content.id, again.receives, again.source) == (sent.id, 1, None)


@KINDS
def test_a_copy_in_another_shard(cluster: Cluster, kind: str) -> None:
    shards = Shards(cluster, kind)
    sent = shards.node(shards.work).send(shards.work, "a", group="g")
    assert shards.apply(shards.work, "copy", shards.other) == [None]
    (copy,) = shards.node(shards.other).receive(shards.other)
    assert copy.content.body == "a"
    assert copy.content.id != sent.id
    assert copy.receives == 1
    assert shards.node(shards.work).counts(shards.work) == (1, 0, 0)
    assert shards.on_the_way() == 0


@pytest.mark.parametrize("operation", ["move", "copy", "dead-letter"])
@pytest.mark.parametrize("fault", get_args(Fault))
def test_whatever_fails_between_the_shards(cluster: Cluster, operation: str, fault: Fault) -> None:
    shards = Shards(cluster, "")
    shards.node(shards.work).send_all(shards.work, *"abcde")
    target = shards.dead if operation == "dead-letter" else shards.other
    cluster.network.faults.append(fault)
    assert shards.apply(shards.work, operation, target) == [None] * 5
    cluster.advance(MINUTE)
    assert shards.node(target).counts(target) == (5, 0, 0)
    assert shards.node(shards.work).counts(shards.work) == (5 if operation == "copy" else 0, 0, 0)
    assert shards.on_the_way() == 0


def test_a_shard_that_cannot_be_reached(cluster: Cluster) -> None:
    shards = Shards(cluster, "")
    shards.node(shards.work).send(shards.work, "a")
    cluster.network.cut.add(2)
    with pytest.raises(Unreachable):
        shards.apply(shards.work, "move", shards.other)
    assert shards.node(shards.work).counts(shards.work) == (1, 0, 0)
    assert shards.apply(shards.work, "move", shards.dead) == [None]


def test_what_the_other_shard_knows_to_refuse(cluster: Cluster) -> None:
    shards = Shards(cluster, "")
    node = shards.node(shards.work)
    fifo = cluster.name("fifo", 1, ".fifo")
    small = cluster.name("small", 2)
    shards.node(fifo).create(fifo)
    shards.node(small).create(small, message_bytes_max=16)
    node.send(shards.work, "x" * 17)
    for target, expected in ((fifo, "group"), (small, "16 bytes")):
        (outcome,) = shards.apply(shards.work, "move", target)
        assert isinstance(outcome, NotPossible)
        assert expected in str(outcome)
    (outcome,) = shards.apply(shards.work, "move", cluster.name("missing", 1))
    assert isinstance(outcome, QueueMissing)
    assert node.counts(shards.work) == (1, 0, 0)


@pytest.mark.parametrize("operation", ["move", "copy"])
def test_a_queue_that_is_deleted_while_messages_are_on_their_way(cluster: Cluster, operation: str) -> None:
    shards = Shards(cluster, "")
    node, other = shards.node(shards.work), shards.node(shards.other)
    node.send_all(shards.work, "a", "b")
    before = node.stored(shards.work)
    seqs = [row.seq for row in before]
    cluster.network.faults.append("request lost")
    assert shards.apply(shards.work, operation, shards.other) == [None, None]
    assert shards.on_the_way() == 2
    other.drop(shards.other)
    cluster.advance(MINUTE)
    assert [row.seq for row in node.stored(shards.work)] == seqs
    assert [row.position for row in node.stored(shards.work)] == [row.position for row in before]
    assert node.counts(shards.work) == (2, 0, 0)
    assert shards.on_the_way() == 0
