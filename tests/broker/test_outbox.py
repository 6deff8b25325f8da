"""Messages that change shards: dead letters and moves, whatever fails between the two shards."""

from __future__ import annotations

import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from penstock.broker.delivery import Refusal
from penstock.broker.handover import UNREADABLE, Cause, Handover, QueueTarget, Taken
from penstock.broker.inbox import INBOXES, Inbox
from penstock.broker.live_queue import LiveQueue
from penstock.broker.move_tasks import MoveFailure
from penstock.broker.outbox import (
    ARRIVAL_MS_MAX,
    LOG_KIND,
    ON_THE_WAY,
    OUTBOX,
    Departure,
    Outbox,
    decode_departure,
    encode_departure,
)
from penstock.broker.quotas import Quotas
from penstock.broker.shard import SETTLED
from penstock.broker.waiting import Ask
from penstock.errors import (
    DataRefused,
    KeyDisabled,
    SourceNotDeadLetterQueue,
    StoreAway,
    StoreBroken,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnknown,
)
from penstock.limits import DAY, HOUR, MINUTE
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.messages import Outgoing
from penstock.store.changes import Changes
from penstock.store.port import LAST, JournalEnd, Mark, ShardState
from support.cluster import Cluster, Fault, Node
from support.shards import ShardsWorld
from support.texts import says
from support.world import ROOMY, SECOND, UNMETERED, Caller, FaultyStore, name_of, outgoing

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


class Queues:
    """A queue of shard 0 with a dead-letter queue in shard 1, and one more in shard 2."""

    def __init__(self, cluster: Cluster, kind: str = "") -> None:
        self.cluster = cluster
        self.dead, self.work, self.other = (
            cluster.name(base, shard, kind) for base, shard in (("dead", 1), ("work", 0), ("other", 2))
        )
        cluster.node(self.dead).create(self.dead)
        cluster.node(self.other).create(self.other)
        cluster.node(self.work).create(self.work, dead_letters=(self.dead, 1), visibility_ms=SECOND)

    def send(self, count: int, group: str | None = "g") -> None:
        node = self.cluster.node(self.work)
        for i in range(count):
            node.send(self.work, f"m{i}", group=group, dedup_id=f"m{i}")

    def kill(self) -> None:
        """Receive everything and let it come back; receiving again makes it dead letters."""
        node = self.cluster.node(self.work)
        while node.drain(self.work):
            self.cluster.advance(SECOND)

    def count(self, short: str) -> tuple[int, int, int]:
        return self.cluster.node(short).counts(short)

    def bodies(self, short: str) -> list[str]:
        """All that can be received, in order."""
        node = self.cluster.node(short)
        found = []
        while batch := node.receive(short, visibility_ms=HOUR):
            found += [message.content.body for message in batch]
            node.delete(short, *batch)
        return found

    def on_the_way(self) -> int:
        stores = [node.store for node in self.cluster.nodes]
        logged = sum(
            len(s.log(LOG_KIND, str(i), 0, LAST)) for s in stores for i in range(self.cluster.shards)
        )
        rows = sum(usage.messages for s in stores for usage in s.usage(OUTBOX).values())
        assert logged == rows
        return logged


@KINDS
def test_a_dead_letter_goes_to_the_other_shard(cluster: Cluster, kind: str) -> None:
    queues = Queues(cluster, kind)
    queues.send(25)
    queues.kill()
    assert queues.count(queues.work) == (0, 0, 0)
    assert queues.count(queues.dead) == (25, 0, 0)
    assert queues.on_the_way() == 0
    bodies = queues.bodies(queues.dead)
    assert (
        bodies == [f"m{i}" for i in range(25)]
        if kind
        else sorted(bodies) == sorted(f"m{i}" for i in range(25))
    )


def test_it_keeps_what_it_was(cluster: Cluster) -> None:
    queues = Queues(cluster)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    sent = node.send(queues.work, "m", group="g")
    (first,) = node.receive(queues.work)
    cluster.advance(SECOND)
    assert node.receive(queues.work) == []
    (letter,) = dead.receive(queues.dead)
    assert (letter.content, letter.group) == (first.content, "g")
    assert letter.content.id == sent.id
    assert letter.receives == 2
    assert letter.first_received_ms == first.first_received_ms
    assert letter.source == node.queue(queues.work).arn


def test_retention_goes_on_although_the_clocks_differ(cluster: Cluster) -> None:
    queues = Queues(cluster)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    dead.configure(queues.dead, retention_ms=10 * MINUTE)
    node.send(queues.work, "m")
    node.receive(queues.work)
    cluster.advance(6 * MINUTE)
    assert node.receive(queues.work) == []
    assert queues.count(queues.dead) == (1, 0, 0)
    cluster.advance(3 * MINUTE)
    assert queues.count(queues.dead) == (1, 0, 0)
    cluster.advance(MINUTE + SECOND)
    assert queues.count(queues.dead) == (0, 0, 0)


def test_a_message_that_is_not_in_memory(cluster: Cluster) -> None:
    """The content of a message that was received is only in the store, and that of a large one never is elsewhere."""
    queues = Queues(cluster)
    node = cluster.node(queues.work)
    for letter in "abcdefgh":
        node.send(queues.work, letter * 300_000)
    queues.kill()
    assert sorted(body[0] for body in queues.bodies(queues.dead)) == list("abcdefgh")


def test_an_unreachable_shard_gets_its_messages_later(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(3)
    cluster.network.cut.add(1)
    queues.kill()
    cluster.advance(10 * MINUTE)
    assert queues.on_the_way() == 3
    assert queues.count(queues.work) == (0, 0, 0)
    cluster.network.cut.clear()
    cluster.advance(5 * SECOND)
    assert queues.count(queues.dead) == (3, 0, 0)


def test_retries_become_rarer() -> None:
    with Cluster(limits=UNMETERED) as cluster:
        queues = Queues(cluster)
        queues.send(1)
        cluster.network.cut.add(1)
        queues.kill()
        fired = cluster.nodes[0].runtime.fired
        cluster.advance(MINUTE)
        assert cluster.nodes[0].runtime.fired - fired < 25


def test_a_full_disk_of_the_other_shard(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(2)
    dead = cluster.node(queues.dead)
    dead.store.full = True
    queues.kill()
    cluster.advance(MINUTE)
    assert queues.on_the_way() == 2
    dead.store.full = False
    cluster.advance(MINUTE)
    assert queues.count(queues.dead) == (2, 0, 0)


@KINDS
def test_a_queue_that_is_gone_gives_the_message_back(cluster: Cluster, kind: str) -> None:
    queues = Queues(cluster, kind)
    node = cluster.node(queues.work)
    queues.send(4)
    assert len(node.drain(queues.work)) == 4
    cluster.advance(SECOND)
    cluster.node(queues.dead).drop(queues.dead)
    assert node.drain(queues.work) == [], "they leave, are refused, and are back"
    assert node.drain(queues.work, visibility_ms=HOUR) == [f"m{i}" for i in range(4)]
    received = node.queue(queues.work).rules.backlog.index.values()
    assert [entry.receives for entry in received] == [2] * 4
    assert queues.on_the_way() == 0


def test_it_comes_back_to_its_place(cluster: Cluster) -> None:
    """A dead-letter queue that was deleted a moment ago is not yet known to be gone."""
    queues = Queues(cluster, ".fifo")
    node = cluster.node(queues.work)
    queues.send(3)
    assert node.bodies(queues.work, 1) == ["m0"]
    cluster.advance(SECOND)
    cluster.network.cut.add(1)
    assert node.bodies(queues.work, 1, visibility_ms=MINUTE) == ["m1"], "m0 has left"
    assert queues.on_the_way() == 1
    cluster.network.cut.clear()
    cluster.node(queues.dead).drop(queues.dead)
    cluster.advance(5 * SECOND)
    assert queues.on_the_way() == 0
    assert node.bodies(queues.work) == ["m0"], "before m1, which is in flight, and without m2"


def test_a_queue_that_is_created_again_gets_dead_letters_again(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    dead.drop(queues.dead)
    for _ in range(7):
        assert node.drain(queues.work) == ["m0"], "there is no other place for it"
        cluster.advance(10 * SECOND)
    dead.create(queues.dead)
    assert node.drain(queues.work) == []
    assert queues.count(queues.dead) == (1, 0, 0)


@pytest.mark.parametrize("change", ["drop", "purge"])
def test_what_comes_back_to_a_queue_that_was_emptied_is_gone(cluster: Cluster, change: str) -> None:
    queues = Queues(cluster)
    queues.send(3)
    node = cluster.node(queues.work)
    node.drain(queues.work)
    cluster.advance(SECOND)
    cluster.network.cut.add(1)
    node.drain(queues.work)
    cluster.node(queues.dead).drop(queues.dead)
    getattr(node, change)(queues.work)
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert queues.on_the_way() == 0
    if change == "purge":
        assert queues.count(queues.work) == (0, 0, 0)


@KINDS
def test_moves_to_other_shards(cluster: Cluster, kind: str) -> None:
    queues = Queues(cluster, kind)
    queues.send(12)
    queues.kill()
    dead = cluster.node(queues.dead)
    dead.start_move(queues.dead, queues.other)
    cluster.advance(10 * SECOND)
    task = dead.move_task(queues.dead)
    assert (task.status, task.moved) == ("COMPLETED", 12)
    assert queues.count(queues.dead) == (0, 0, 0)
    bodies = queues.bodies(queues.other)
    assert bodies == [f"m{i}" for i in range(12)] if kind else len(set(bodies)) == len(bodies) == 12


def test_a_moved_message_is_a_new_one(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(1)
    queues.kill()
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    (letter,) = dead.receive(queues.dead, visibility_ms=0)
    cluster.advance(HOUR)
    node.configure(queues.work, delay_ms=5 * SECOND)
    dead.start_move(queues.dead)
    cluster.advance(4 * SECOND)
    assert queues.count(queues.work) == (0, 0, 1), "the delay of the queue it joins"
    cluster.advance(5 * SECOND)
    (message,) = node.receive(queues.work)
    assert message.content.body == letter.content.body
    assert message.content.id != letter.content.id
    assert message.content.sent_ms > letter.content.sent_ms
    assert (message.receives, message.source) == (1, None)


def test_a_move_is_complete_when_everything_has_arrived(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(5)
    queues.kill()
    dead = cluster.node(queues.dead)
    cluster.network.faults.extend(["request lost"] * 20)
    dead.start_move(queues.dead, queues.other)
    cluster.advance(5 * SECOND)
    assert (dead.move_task(queues.dead).status, queues.on_the_way()) == ("RUNNING", 5)
    dead.crash()
    cluster.advance(SECOND)
    assert (dead.move_task(queues.dead).status, queues.on_the_way()) == ("RUNNING", 5)
    cluster.network.faults.clear()
    cluster.advance(10 * SECOND)
    assert (dead.move_task(queues.dead).status, queues.count(queues.other)) == ("COMPLETED", (5, 0, 0))


def test_a_move_to_a_queue_that_vanishes_fails_and_its_messages_are_back(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(5)
    queues.kill()
    dead = cluster.node(queues.dead)
    cluster.network.faults.extend(["request lost"] * 3)
    dead.start_move(queues.dead, queues.other, rate=1)
    cluster.node(queues.other).drop(queues.other)
    cluster.advance(20 * SECOND)
    task = dead.move_task(queues.dead)
    assert (task.status, task.failure, task.moved) == ("FAILED", MoveFailure.DESTINATION_MISSING, 0)
    assert queues.count(queues.dead) == (5, 0, 0)
    assert queues.on_the_way() == 0


def test_a_move_waits_while_the_shard_of_its_destination_is_unreachable(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(5)
    queues.kill()
    dead = cluster.node(queues.dead)
    dead.start_move(queues.dead, queues.other, rate=1)
    cluster.network.cut.add(2)
    cluster.advance(MINUTE)
    assert dead.move_task(queues.dead).status == "RUNNING"
    cluster.network.cut.clear()
    cluster.advance(MINUTE)
    assert (dead.move_task(queues.dead).status, queues.count(queues.other)) == ("COMPLETED", (5, 0, 0))


def test_a_move_does_not_wait_for_a_shard_that_gets_none_of_its_messages(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(5)
    queues.kill()
    dead = cluster.node(queues.dead)
    dying, away = cluster.name("dying", 1), cluster.name("away", 0)
    cluster.node(away).create(away)
    dead.create(dying, dead_letters=(away, 1))
    dead.send(dying, "poison")
    dead.receive(dying, visibility_ms=0)
    cluster.network.cut.add(0)
    dead.poll(dying, wait_ms=0)
    cluster.advance(2 * SECOND)
    assert dead.stored(dying) == [], "it is on its way to the shard that cannot be reached"
    cluster.network.cut.clear()
    dead.start_move(queues.dead, queues.other)
    cluster.network.cut.add(0)
    cluster.advance(10 * SECOND)
    assert (dead.move_task(queues.dead).status, queues.count(queues.other)) == ("COMPLETED", (5, 0, 0))


@pytest.mark.parametrize(
    "error", [StoreFull("no space left"), StoreAway("no connection"), StoreClosed("it stops")]
)
def test_a_move_goes_on_after_an_error_of_the_store_of_its_destination(
    cluster: Cluster, error: StoreError
) -> None:
    queues = Queues(cluster)
    queues.send(5)
    queues.kill()
    dead, other = cluster.node(queues.dead), cluster.node(queues.other)
    dead.start_move(queues.dead, queues.other, rate=1)
    other.hold_commits()
    other.sending(queues.other, Outgoing(body="refused", sender="a client"))
    cluster.advance(SECOND)
    other.refuse_next_commit(error)
    other.release_commits()
    assert dead.move_task(queues.dead).status == "RUNNING"
    cluster.advance(10 * SECOND)
    assert (dead.move_task(queues.dead).status, queues.count(queues.other)) == ("COMPLETED", (5, 0, 0))


@KINDS
def test_messages_that_left_with_a_commit_whose_outcome_was_known_late(cluster: Cluster, kind: str) -> None:
    queues = Queues(cluster, kind)
    queues.send(2)
    node = cluster.node(queues.work)
    assert len(node.drain(queues.work)) == 2
    cluster.advance(SECOND)
    append, end = node.store.append, node.store.end

    def lose_the_answer(changes: Changes, mark: Mark) -> Set[int]:
        append(changes, mark)
        raise StoreUnknown("the connection was lost")

    def no_answer() -> JournalEnd:
        raise StoreAway("no connection")

    node.store.append, node.store.end = lose_the_answer, no_answer  # type: ignore[method-assign]
    receiving = node.poll(queues.work, wait_ms=0)
    cluster.advance(10 * SECOND)
    assert receiving.done and queues.on_the_way() == 2
    node.store.append, node.store.end = append, end  # type: ignore[method-assign]
    cluster.advance(10 * SECOND)
    assert queues.on_the_way() == 0
    assert queues.bodies(queues.dead) == ["m0", "m1"]


def test_only_a_dead_letter_queue_of_some_shard_is_moved_from(cluster: Cluster) -> None:
    queues = Queues(cluster)
    with pytest.raises(SourceNotDeadLetterQueue):
        cluster.node(queues.other).start_move(queues.other, queues.work)


@pytest.mark.parametrize("fault", get_args(Fault))
def test_a_fault_of_the_network(cluster: Cluster, fault: Fault) -> None:
    queues = Queues(cluster, ".fifo")
    queues.send(5)
    cluster.network.faults.append(fault)
    queues.kill()
    cluster.advance(10 * SECOND)
    cluster.network.deliver_late()
    cluster.advance(10 * SECOND)
    assert queues.on_the_way() == 0
    assert queues.bodies(queues.dead) == [f"m{i}" for i in range(5)]


def test_a_late_request_does_not_bring_back_what_was_refused(cluster: Cluster) -> None:
    """The message is in its queue again; the queue that it was for exists again; then an old request arrives."""
    queues = Queues(cluster)
    queues.send(2)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    node.drain(queues.work)
    cluster.advance(SECOND)
    cluster.network.faults.append("request late")
    dead.drop(queues.dead)
    node.drain(queues.work)
    cluster.advance(2 * MINUTE)
    dead.create(queues.dead)
    cluster.network.deliver_late()
    cluster.run()
    assert queues.count(queues.work) == (2, 0, 0)
    assert queues.count(queues.dead) == (0, 0, 0)


def test_a_refusal_is_remembered_until_the_message_is_back(cluster: Cluster) -> None:
    """The answer is lost, and the queue exists again when it is asked for again."""
    queues = Queues(cluster)
    queues.send(2)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    node.drain(queues.work)
    dead.drop(queues.dead)
    cluster.advance(MINUTE)
    (outbox,) = [part for part in node.broker.partition(0).parts if isinstance(part, Outbox)]
    outbox.remote.note(name_of(queues.dead), exists=True)  # what was known before it was deleted
    cluster.network.faults.append("answer lost")
    assert not node.poll(queues.work, wait_ms=0).done
    assert (queues.on_the_way(), cluster.network.faults) == (2, deque())
    dead.create(queues.dead)
    cluster.advance(10 * SECOND)
    assert queues.count(queues.work) == (2, 0, 0)
    assert queues.count(queues.dead) == (0, 0, 0)
    assert queues.on_the_way() == 0


def refused_on_the_way(queues: Queues) -> None:
    """A dead letter leaves for a queue that was just deleted, and the answer of the other shard is on its way."""
    cluster = queues.cluster
    node = cluster.node(queues.work)
    queues.send(1)
    node.drain(queues.work)
    cluster.advance(SECOND)
    cluster.node(queues.dead).drop(queues.dead)
    node.begin_poll(queues.work)
    while not cluster.network.answers:
        assert cluster.step()


def test_a_message_that_is_refused_while_its_shard_is_given_back_returns_at_the_next_owner(
    cluster: Cluster,
) -> None:
    queues = Queues(cluster)
    node = cluster.node(queues.work)
    refused_on_the_way(queues)
    closing = node.start(node.broker.close_shard(0))
    cluster.network.step()
    cluster.run()
    assert closing.done
    assert queues.on_the_way() == 1
    node.crash()
    cluster.advance(MINUTE)
    assert (queues.count(queues.work), queues.on_the_way()) == ((1, 0, 0), 0)


def test_a_message_that_cannot_be_decrypted_stays_and_does_not_block_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = Queues(cluster)
    queues.send(3)
    node = cluster.node(queues.work)
    unreadable = node.stored(queues.work)[1].seq
    contents = node.store.contents

    def refuse(seqs: Sequence[int]) -> dict[int, bytes]:
        if unreadable in seqs:
            raise KeyDisabled("a key")
        return contents(seqs)

    node.drain(queues.work)
    cluster.advance(SECOND)
    monkeypatch.setattr(node.store, "contents", refuse)
    assert node.drain(queues.work) == []
    assert queues.count(queues.dead) == (2, 0, 0)
    assert queues.count(queues.work) == (0, 1, 0), "it is tried again in a minute"
    cluster.advance(MINUTE)
    monkeypatch.setattr(node.store, "contents", contents)
    assert node.drain(queues.work) == []
    assert queues.count(queues.dead) == (3, 0, 0)


class Unreadable:
    """A node whose key for one message is disabled and enabled again."""

    def __init__(self, node: Node, seq: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_disabled = False
        contents = node.store.contents

        def refuse(seqs: Sequence[int]) -> dict[int, bytes]:
            if self.is_disabled and seq in seqs:
                raise KeyDisabled("a key")
            return contents(seqs)

        monkeypatch.setattr(node.store, "contents", refuse)


@KINDS
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "then"])
def test_a_key_that_changes_while_an_answer_is_lost(
    cluster: Cluster, kind: str, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two messages is unreadable at the first try or at the second one, but not at both."""
    queues = Queues(cluster, kind)
    node = cluster.node(queues.work)
    queues.send(2)
    key = Unreadable(node, node.stored(queues.work)[0].seq, monkeypatch)
    node.drain(queues.work)
    cluster.advance(SECOND)
    key.is_disabled = is_first
    cluster.network.faults.append("answer lost")
    node.begin_poll(queues.work)
    while cluster.network.faults:
        assert cluster.step()
    key.is_disabled = not is_first
    cluster.advance(10 * SECOND)
    key.is_disabled = False
    cluster.advance(2 * MINUTE)
    queues.kill()
    cluster.advance(10 * SECOND)
    assert (queues.count(queues.work), queues.on_the_way()) == ((0, 0, 0), 0)
    assert sorted(queues.bodies(queues.dead)) == ["m0", "m1"]


def test_an_unreadable_message_of_an_earlier_release_returns_to_its_queue(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That release handed over only what it could decrypt. The other shard has taken what came behind it."""
    queues = Queues(cluster)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    queues.send(2)
    cluster.network.cut.add(1)
    queues.kill()
    first, last = node.store.log(LOG_KIND, "1", 0, LAST)
    node.store.close()
    with closing(sqlite3.connect(node._directory / "penstock.db")) as database:
        for entry in (first, last):
            departure = decode_departure(entry.data)
            form = (departure.seq, departure.queue, departure.leaving, departure.targets[0].queue)
            database.execute(
                "UPDATE logs SET data = ? WHERE position = ?", (msgspec.msgpack.encode(form), entry.position)
            )
        database.commit()
    taken = dead.broker.partition(1).shard.table(INBOXES)
    taken.put("0", Taken(last.position))
    dead.run()
    dead.crash()
    node.crash()
    key = Unreadable(node, decode_departure(first.data).seq, monkeypatch)
    key.is_disabled = True
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert (queues.count(queues.work), queues.on_the_way()) == ((0, 1, 0), 0), "it is tried again in a minute"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["source", "target"])
def test_a_crash_at_every_step(victim: int) -> None:
    """A node crashes at each step of a hand-over in which one message is refused and two arrive."""
    step, more = 0, True
    while more:
        with Cluster() as cluster:
            queues = Queues(cluster, ".fifo")
            lost = cluster.name("lost", 1, ".fifo")
            node, dead = cluster.node(queues.work), cluster.node(queues.dead)
            dead.create(lost)
            doomed = cluster.name("doomed", 0, ".fifo")
            node.create(doomed, dead_letters=(lost, 1), visibility_ms=SECOND)
            queues.send(2)
            node.send(doomed, "refused", group="g", dedup_id="x")
            node.drain(queues.work)
            node.drain(doomed)
            cluster.advance(SECOND)
            dead.drop(lost)
            polls = [node.start(node.queue(short).counts()) for short in (doomed, queues.work)]
            cluster.run()
            assert all(poll.done for poll in polls)
            for short in (queues.work, doomed):
                node.start(node.queue(short).receive(Ask(10, None, None), Caller(), 0))
            more = cluster.steps(step)
            cluster.nodes[victim].crash()
            cluster.advance(10 * SECOND)
            queues.kill()
            cluster.advance(10 * SECOND)
            assert queues.on_the_way() == 0
            assert queues.bodies(queues.dead) == ["m0", "m1"], step
            assert queues.bodies(doomed) == ["refused"], step
        step += 1
    assert step > 15


def test_what_is_handed_over_again_waits_for_the_commit_that_took_it(cluster: Cluster) -> None:
    """The store refuses data in the commit that took a message. Later commits are written all the same."""
    queues = Queues(cluster)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    elsewhere = cluster.name("elsewhere", 1)
    dead.create(elsewhere)
    node.receive(queues.work)
    cluster.advance(SECOND)
    dead.hold_commits()
    node.start(node.queue(queues.work).receive(Ask(10, None, None), Caller(), 0))
    cluster.run()
    sent = dead.sending(elsewhere, outgoing("for another queue"))
    node.crash()
    cluster.run()
    dead.refuse_next_commit(DataRefused("a request of the same commit has a NUL"))
    dead.release_commits()
    cluster.advance(10 * SECOND)
    assert sent.done and not sent.failed
    assert queues.bodies(queues.dead) == ["m0"]
    assert queues.on_the_way() == 0


def test_a_power_failure_that_loses_commits_loses_no_later_message(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sync at every commit, the other shard may have taken messages that the source has lost."""
    queues = Queues(cluster)
    node = cluster.node(queues.work)
    synced = node._directory.with_name("synced")
    node.store.close()
    shutil.copytree(node._directory, synced)
    node.crash()
    queues.send(20)
    queues.kill()
    assert len(queues.bodies(queues.dead)) == 20

    node.store.close()
    shutil.rmtree(node._directory)
    synced.rename(node._directory)
    open_store = FaultyStore.open

    def open_without_syncs(store: FaultyStore) -> ShardState:
        store._synchronous = "normal"
        return open_store(store)

    monkeypatch.setattr(FaultyStore, "open", open_without_syncs)
    node.crash()
    cluster.network.crashed(node)
    node.send(queues.work, "later")
    queues.kill()
    cluster.advance(SECOND)
    assert queues.bodies(queues.dead)[-1] == "later"


class UnsyncedDisks:
    """The disks of a cluster with less than full durability: a power failure leaves what was synced last."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._synced: dict[Path, Path] = {}
        self.syncs = 0
        monkeypatch.setattr(FaultyStore, "syncs_late", True)
        monkeypatch.setattr(FaultyStore, "sync", lambda store: self._sync(store))
        for node in cluster.nodes:
            node.store.sync()

    def _sync(self, store: FaultyStore) -> None:
        self.syncs += 1
        synced = self._synced[store._directory] = self._directory / f"synced-{self.syncs}"
        shutil.copytree(store._directory, synced)

    def fail(self) -> None:
        """The power of all nodes fails, and comes back."""
        for node in self._cluster.nodes:
            node.store.close()
            shutil.rmtree(node._directory)
            shutil.copytree(self._synced[node._directory], node._directory)
            node.crash()


def test_a_power_failure_loses_no_message_that_arrived_after_the_last_sync_of_its_shard(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queues = Queues(cluster)
    queues.send(20)
    disks = UnsyncedDisks(cluster, monkeypatch, tmp_path)
    cluster.advance(HOUR)
    queues.kill()
    assert (queues.count(queues.work), queues.count(queues.dead)) == ((0, 0, 0), (20, 0, 0))
    cluster.node(queues.work).store.sync()  # its interval ends before that of the other shard
    disks.fail()
    cluster.advance(MINUTE)
    assert (queues.count(queues.work), queues.count(queues.dead)) == ((0, 0, 0), (20, 0, 0))


def test_a_power_failure_loses_no_message_that_was_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other shard forgets the refusal when it gets the next page."""
    queues = Queues(cluster)
    lost, doomed = cluster.name("lost", 1), cluster.name("doomed", 0)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    dead.create(lost)
    node.create(doomed, dead_letters=(lost, 1), visibility_ms=SECOND)
    node.send(doomed, "refused")
    node.drain(doomed)
    cluster.advance(SECOND)
    dead.drop(lost)
    disks = UnsyncedDisks(cluster, monkeypatch, tmp_path)
    node.start(node.queue(doomed).receive(Ask(10, None, None), Caller(), 0))
    while not node.store.log(LOG_KIND, "1", 0, LAST):
        assert cluster.step()
    node.store.sync()
    cluster.run()
    queues.send(1)
    queues.kill()
    disks.fail()
    cluster.advance(MINUTE)
    assert queues.bodies(doomed) == ["refused"]


def test_each_page_is_synced_once_unless_every_commit_is(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queues = Queues(cluster)
    pages: list[Handover] = []
    take = Inbox.take

    async def counted(inbox: Inbox, handover: Handover) -> Taken:
        pages.append(handover)
        return await take(inbox, handover)

    monkeypatch.setattr(Inbox, "take", counted)
    disks = UnsyncedDisks(cluster, monkeypatch, tmp_path)
    before = disks.syncs
    queues.send(10)
    queues.kill()
    assert disks.syncs - before == len(pages) > 0

    monkeypatch.setattr(FaultyStore, "syncs_late", False)
    synced = disks.syncs
    queues.send(10)
    queues.kill()
    assert queues.count(queues.dead) == (20, 0, 0)
    assert disks.syncs == synced
    assert cluster.node(queues.dead).shard.synced() is SETTLED, "the thread that writes is not asked"


def test_a_sync_that_fails_ends_the_shard(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(store: FaultyStore) -> None:
        raise StoreBroken("the disk is gone")

    queues = Queues(cluster)
    queues.send(1)
    monkeypatch.setattr(FaultyStore, "syncs_late", True)
    monkeypatch.setattr(FaultyStore, "sync", fail)
    queues.kill()
    assert [str(error) for error in cluster.node(queues.dead).fatal] == ["the disk is gone"]
    assert queues.on_the_way() == 1, "the source keeps what may be lost"


def test_a_source_whose_store_is_gone_with_its_process_begins_anew(cluster: Cluster) -> None:
    """The next process of ``--memory`` gives the numbers again that other shards have taken."""
    queues = Queues(cluster)
    node = cluster.node(queues.work)
    queues.send(30)
    queues.kill()
    assert len(queues.bodies(queues.dead)) == 30

    node.store.close()
    shutil.rmtree(node._directory)
    node.crash()
    node.create(queues.work, dead_letters=(queues.dead, 1), visibility_ms=SECOND)
    queues.send(10)
    queues.kill()
    assert sorted(queues.bodies(queues.dead)) == sorted(f"m{i}" for i in range(10))
    assert queues.on_the_way() == 0

    # It is the same store as before: nothing is taken twice.
    queues.send(1)
    cluster.network.faults.append("answer lost")
    queues.kill()
    node.crash()
    cluster.advance(10 * SECOND)
    assert queues.bodies(queues.dead) == ["m0"]


# -- where a dead letter is when the answer leaves -----------------------------------------------------------


@KINDS
def test_a_dead_letter_has_arrived_when_the_answer_leaves(cluster: Cluster, kind: str) -> None:
    queues = Queues(cluster, kind)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    node.receive(queues.work)
    cluster.advance(SECOND)
    poll = node.begin_poll(queues.work)
    while not poll.done:
        assert cluster.step()
    assert poll.answer.result() == []
    assert len(dead.stored(queues.dead)) == 1


def test_it_has_arrived_when_a_receive_with_other_messages_answers(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    node.receive(queues.work)
    node.send(queues.work, "young")
    cluster.advance(SECOND)
    poll = node.begin_poll(queues.work)
    while not poll.done:
        assert cluster.step()
    assert [message.content.body for message in poll.answer.result()] == ["young"]
    assert len(dead.stored(queues.dead)) == 1


def test_it_takes_two_commits(cluster: Cluster) -> None:
    """The one that takes it out of its queue, and the one that adds it to the other: nothing is read in between."""
    queues = Queues(cluster)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    node.receive(queues.work)
    cluster.advance(SECOND)
    node.receive(queues.work)  # the first one: the route learns that its log is empty
    queues.send(1)
    node.receive(queues.work)
    cluster.advance(SECOND)
    shards = [each.broker.partition(each.index).shard for each in (node, dead)]
    before = [shard.commits for shard in shards]
    logs_read = node.store.logs_read
    poll = node.begin_poll(queues.work)
    while not poll.done:
        assert cluster.step()
    assert [shard.commits for shard in shards] == [before[0] + 1, before[1] + 1]
    assert node.store.logs_read == logs_read


def test_a_receive_waits_a_second_for_a_shard_that_cannot_be_reached(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(2)
    node = cluster.node(queues.work)
    node.receive(queues.work)
    cluster.advance(SECOND)
    cluster.network.cut.add(1)
    poll = node.poll(queues.work, wait_ms=0)
    cluster.advance(ARRIVAL_MS_MAX - 1)
    assert not poll.done
    cluster.advance(1)
    assert poll.answer.result() == []
    assert node.poll(queues.work, wait_ms=0).done, "a receive that moves nothing does not wait"


def test_a_receive_does_not_wait_for_what_others_moved_meanwhile(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(1)
    node = cluster.node(queues.work)
    (message,) = node.receive(queues.work, visibility_ms=HOUR)
    (row,) = node.stored(queues.work)
    cluster.network.cut.add(1)
    poll = node.begin_poll(queues.work, wait_ms=10 * SECOND)
    node.start(node.queue(queues.work).dead_letter(message.handle, row.seq))
    cluster.run()
    node.send(queues.work, "new")
    assert poll.done and poll.bodies == ["new"]


def test_the_receiver_who_gives_a_message_up_finds_it_in_the_other_queue(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(1)
    node, dead = cluster.node(queues.work), cluster.node(queues.dead)
    (message,) = node.receive(queues.work)
    (row,) = node.stored(queues.work)
    given_up = node.start(node.queue(queues.work).dead_letter(message.handle, row.seq))
    while not given_up.done:
        assert cluster.step()
    assert len(dead.stored(queues.dead)) == 1


@pytest.mark.parametrize("target", ["dead", "other"])
def test_an_operator_who_moves_a_message_finds_it_in_the_other_queue(cluster: Cluster, target: str) -> None:
    queues = Queues(cluster)
    queues.send(1)
    name = queues.dead if target == "dead" else queues.other
    moved = move(cluster, queues, name)
    while not moved.done:
        assert cluster.step()
    moved.result()
    assert len(cluster.node(name).stored(name)) == 1


@pytest.mark.parametrize("target", ["dead", "other"])
def test_a_delayed_message_that_returns_is_still_delayed(cluster: Cluster, target: str) -> None:
    queues = Queues(cluster)
    node, name = cluster.node(queues.work), getattr(queues, target)
    node.send(queues.work, "later", delay_ms=10 * MINUTE)
    move(cluster, queues, name)
    while node.stored(queues.work):
        assert cluster.step()
    taker = cluster.node(name)
    taker.start(taker.broker.drop(taker.queue(name)))
    cluster.run()
    cluster.advance(5 * SECOND)
    assert (queues.count(queues.work), queues.on_the_way()) == ((0, 0, 1), 0)
    cluster.advance(10 * MINUTE)
    assert queues.bodies(queues.work) == ["later"]


def test_a_redriven_message_that_returns_is_not_delayed(cluster: Cluster) -> None:
    """It was hidden for the time of the move."""
    queues = Queues(cluster)
    dead = cluster.node(queues.dead)
    dead.send(queues.dead, "never received")
    source = dead.queue(queues.dead)
    dead.start(dead.broker.partition_of(source).moves.begin(source, name_of(queues.other), None))
    while dead.stored(queues.dead):
        assert cluster.step()
    taker = cluster.node(queues.other)
    taker.start(taker.broker.drop(taker.queue(queues.other)))
    cluster.advance(SECOND)
    assert queues.count(queues.dead) == (1, 0, 0)


def test_a_departure_of_an_earlier_release_has_no_delay() -> None:
    stored = Departure(1, Cause.MOVE, (), "q", due_ms=5)
    assert decode_departure(encode_departure(stored)) == stored
    earlier = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_departure(stored)[1:])[:-3])
    assert decode_departure(b"\x02" + earlier).due_ms == 0


def test_a_move_within_a_shard_does_not_wait_for_what_left_the_queue_before(cluster: Cluster) -> None:
    queues = Queues(cluster)
    queues.send(2)
    near = cluster.name("near", 0)
    cluster.node(near).create(near)
    waiting = move(cluster, queues, queues.dead)
    while len(cluster.node(queues.work).stored(queues.work)) == 2:
        assert cluster.step()
    cluster.network.cut.add(1)
    cluster.run()
    assert not waiting.done
    moved = move(cluster, queues, near)
    cluster.run()
    assert moved.done and not waiting.done
    cluster.advance(ARRIVAL_MS_MAX)
    assert waiting.done, "it waits for a second"


def move(cluster: Cluster, queues: Queues, target: str) -> Promise[None]:
    """An operator begins to move the first message of the work queue."""
    node = cluster.node(queues.work)
    queue, first = node.queue(queues.work), node.stored(queues.work)[0]
    editing = node.broker.partition_of(queue).editing
    return node.start(editing.send_to(queue, first.seq, name_of(target)))


# -- messages of services ------------------------------------------------------------------------------------


def deliver(cluster: Cluster, targets: list[str], body: str = "news", **more: Any) -> list[Refusal]:
    """Delivers from shard 0. Returns the refusals of queues of that shard."""
    delivery, refused = cluster.nodes[0].broker.partition(0).delivery, list[Refusal]()
    message = Outgoing(body=body, sender="a service", **more)
    cluster.nodes[0].do(
        delivery.deliver(
            message, [QueueTarget(name_of(each), each) for each in targets], "toy", "the toy", refused.extend
        )
    )
    cluster.run()
    return refused


def message_of(refusal: Refusal) -> Outgoing:
    assert refusal.message is not None
    return refusal.message


def test_one_message_for_queues_of_all_shards(cluster: Cluster) -> None:
    targets = [cluster.name(f"target-{i}-", shard) for shard in range(3) for i in range(4)]
    for target in targets:
        cluster.node(target).create(target)
    before = len(cluster.nodes[0].store.appended)
    assert deliver(cluster, targets) == []
    for target in targets:
        node = cluster.node(target)
        (message,) = node.receive(target)
        assert (message.content.body, message.content.sender) == ("news", "a service")
        assert node.queue(target).metrics.sent == 1
    ids = {message.content.id for target in targets for message in cluster.node(target).receive(target)}
    assert "" not in ids
    # One row for each queue of this shard, and one for each other shard.
    appended = cluster.nodes[0].store.appended[before:]
    assert sum(len(changes.added) for changes in appended) == 4 + 2


def test_a_large_message_for_many_queues_arrives_in_commits_of_bounded_size(cluster: Cluster) -> None:
    targets = [cluster.name(f"target-{i}-", 1) for i in range(40)]
    for target in targets:
        cluster.node(target).create(target)
    body = "x" * 250_000
    deliver(cluster, targets, body)
    assert all(cluster.node(target).counts(target) == (1, 0, 0) for target in targets)
    assert max(changes.bytes for changes in cluster.nodes[1].store.appended) <= 5 * 1024 * 1024
    assert cluster.nodes[0].store.usage(OUTBOX) == {}


def test_deduplication_is_the_same_in_every_shard(cluster: Cluster) -> None:
    targets = [cluster.name("target", shard, ".fifo") for shard in range(3)]
    for target in targets:
        cluster.node(target).create(target)
    deliver(cluster, targets, "first", group="g", dedup_id="same")
    deliver(cluster, targets, "again", group="g", dedup_id="same")
    for target in targets:
        node = cluster.node(target)
        assert node.bodies(target) == ["first"]
        assert (node.queue(target).metrics.sent, node.queue(target).metrics.duplicates) == (1, 1)


def test_the_delay_of_a_message_is_the_same_in_every_shard(cluster: Cluster) -> None:
    targets = [cluster.name("target", shard) for shard in range(3)]
    for target in targets:
        cluster.node(target).create(target, delay_ms=HOUR)
    cluster.network.cut.add(2)
    deliver(cluster, targets, delay_ms=MINUTE)
    deliver(cluster, targets, delay_ms=0)
    cluster.advance(20 * SECOND)
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    for target in targets:
        assert cluster.node(target).counts(target) == (1, 0, 1)
    cluster.advance(29 * SECOND)
    for target in targets:
        assert cluster.node(target).counts(target) == (1, 0, 1)
    cluster.advance(SECOND)
    for target in targets:
        assert cluster.node(target).counts(target) == (2, 0, 0), "the time on the way is a part of it"


def test_a_delay_that_ends_on_the_way_is_over(cluster: Cluster) -> None:
    target = cluster.name("target", 1)
    cluster.node(target).create(target, delay_ms=HOUR)
    cluster.network.cut.add(1)
    deliver(cluster, [target], delay_ms=SECOND)
    cluster.advance(MINUTE)
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert cluster.node(target).counts(target) == (1, 0, 0)


def test_the_service_is_told_the_delay_of_a_message_that_is_refused(cluster: Cluster) -> None:
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    deliver(cluster, [cluster.name("gone", 1)], delay_ms=MINUTE)
    assert [message_of(each).delay_ms for each in refused] == [MINUTE]


def test_a_service_is_asked_about_refused_messages(cluster: Cluster) -> None:
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    good, gone = cluster.name("good", 1), cluster.name("gone", 1)
    fifo, gone_here = cluster.name("fifo", 2, ".fifo"), cluster.name("gone", 0)
    for target in (good, fifo):
        cluster.node(target).create(target)
    here = deliver(cluster, [good, gone, fifo, gone_here])
    assert [(each.target.token, each.reason) for each in here] == [(gone_here, "QueueMissing")]
    found = sorted((each.target.token, each.reason, message_of(each).body) for each in refused)
    assert found == [(fifo, "NotPossible", "news"), (gone, "QueueMissing", "news")]
    assert cluster.node(good).bodies(good) == ["news"]
    assert cluster.nodes[0].store.usage(OUTBOX) == {}


def test_the_quota_of_the_account_of_a_queue_holds_in_every_shard() -> None:
    limits = msgspec.structs.replace(ROOMY, quota_messages=1)
    with Cluster(limits=limits) as cluster:
        refused: list[Refusal] = []
        cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
        target = cluster.name("target", 1)
        cluster.node(target).create(target)
        deliver(cluster, [target])
        deliver(cluster, [target], "too much")
        assert [(each.reason, message_of(each).body) for each in refused] == [("QuotaReached", "too much")]
        assert cluster.node(target).counts(target) == (1, 0, 0)


@pytest.mark.parametrize("shard", [0, 1], ids=["here", "elsewhere"])
@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_a_queue_that_fails_unexpectedly_refuses_alone(
    cluster: Cluster, shard: int, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``is_late``: when the message is in the open commit already."""
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    good, bad = cluster.name("good", shard), cluster.name("bad", shard)
    node = cluster.node(bad)
    node.create(good)
    node.create(bad)
    broken, decide_send = node.queue(bad), LiveQueue.decide_send

    def fail(queue: LiveQueue, messages: list[Outgoing], now_ms: int) -> Any:
        if queue is broken and not is_late:
            raise ValueError("a bug")
        decided = decide_send(queue, messages, now_ms)
        if queue is broken:
            raise ValueError("a bug")
        return decided

    monkeypatch.setattr(LiveQueue, "decide_send", fail)
    here = deliver(cluster, [good, bad, good])
    cluster.advance(MINUTE)
    assert node.counts(good) == (2, 0, 0)
    assert node.counts(bad) == (0, 0, 0)
    assert [(each.target.token, each.reason) for each in here + refused] == [(bad, "ValueError")]


def test_the_size_of_messages_is_limited_in_every_shard(cluster: Cluster) -> None:
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    targets = [cluster.name("target", shard) for shard in range(3)]
    for target in targets:
        cluster.node(target).create(target, message_bytes_max=1024)
    here = deliver(cluster, targets, "x" * 1025)
    assert sorted(each.target.token for each in here + refused) == sorted(targets)
    assert {each.reason for each in here + refused} == {"NotPossible"}
    assert deliver(cluster, targets, "x" * 1024) == []
    for target in targets:
        node = cluster.node(target)
        assert node.counts(target) == (1, 0, 0)
        assert node.queue(target).metrics.sizes == {1024: 1}


def test_a_quota_is_computed_once_for_a_message_to_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = msgspec.structs.replace(ROOMY, quota_messages=60)
    with Cluster(limits=limits) as cluster:
        targets = [cluster.name(f"target-{i}-", shard) for i in range(40) for shard in (0, 1)]
        for target in targets:
            cluster.node(target).create(target)
        computed, used = [0], Quotas.used

        def count(quotas: Quotas, account: str) -> tuple[int, int]:
            computed[0] += 1
            return used(quotas, account)

        monkeypatch.setattr(Quotas, "used", count)
        here, there = targets[::2], targets[1::2]
        assert deliver(cluster, targets) == []
        assert computed[0] <= 4
        refused = deliver(cluster, here)
        assert len(refused) == 20, "40 of them were in the queues of this process"
        assert {each.reason for each in refused} == {"QuotaReached"}
        assert cluster.node(there[0]).counts(there[0]) == (1, 0, 0)


def test_messages_for_a_shard_that_cannot_be_reached_are_not_kept_in_memory(cluster: Cluster) -> None:
    target, node = cluster.name("target", 1), cluster.nodes[0]
    cluster.node(target).create(target)
    cluster.network.cut.add(1)
    for number in range(50):
        deliver(cluster, [target], f"m{number}")
    (outbox,) = [part for part in node.broker.partition(0).parts if isinstance(part, Outbox)]
    assert not outbox._routes[1]._fresh
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    for number in range(50, 60):
        deliver(cluster, [target], f"m{number}")
    assert cluster.node(target).drain(target) == [f"m{number}" for number in range(60)]


def test_a_message_of_a_service_whose_content_is_damaged_keeps_no_others_waiting(cluster: Cluster) -> None:
    target = cluster.name("target", 1)
    cluster.node(target).create(target)
    source = cluster.nodes[0]
    refused: list[Refusal] = []
    source.broker.partition(0).delivery.on_refused("toy", refused.append)
    cluster.network.cut.add(1)
    for body in ("first", "damaged", "third"):
        deliver(cluster, [target], body)
    with closing(sqlite3.connect(source._directory / "penstock.db")) as database:
        (seq,) = database.execute(
            "SELECT seq FROM entries WHERE queue = 0 ORDER BY seq LIMIT 1 OFFSET 1"
        ).fetchone()
        database.execute("UPDATE entries SET content = substr(content, 1, 4) WHERE seq = ?", (seq,))
        database.commit()
    source.crash()
    source.broker.partition(0).delivery.on_refused("toy", refused.append)
    cluster.network.cut.clear()
    cluster.advance(MINUTE)
    assert sorted(cluster.node(target).bodies(target)) == ["first", "third"]
    assert [(each.message, each.reason) for each in refused] == [(None, UNREADABLE)]


@pytest.mark.parametrize("data", [b"\x03of a later version", b"\x02\x91", b"", b"\xc1"])
def test_a_departure_that_cannot_be_read_keeps_no_others_waiting(
    cluster: Cluster, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    queues = Queues(cluster)
    queues.send(3)
    node = cluster.node(queues.work)
    cluster.network.cut.add(1)
    queues.kill()
    first, *_ = node.store.log(LOG_KIND, "1", 0, LAST)
    with closing(sqlite3.connect(node._directory / "penstock.db")) as database, database:
        database.execute(
            "UPDATE logs SET data = ? WHERE kind = ? AND position = ?", (data, LOG_KIND, first.position)
        )
    node.crash()
    node._log.addHandler(caplog.handler)
    cluster.network.cut.clear()
    cluster.advance(MINUTE)
    assert queues.count(queues.dead) == (2, 0, 0)
    assert node.store.log(LOG_KIND, "1", 0, LAST) == []
    (left,) = node.store.lookup(OUTBOX, 0, [decode_departure(first.data).seq])
    assert left.queue == OUTBOX, "it can still be repaired"
    says(caplog.text, "outbox", f"entry {first.position}", "shard 1")


def test_shards_that_do_not_answer_leave_pages_for_others() -> None:
    """Those of a node that hangs, with messages from more shards of one process than it has pages in memory."""
    with ShardsWorld(shards=20) as world:
        hanging = [world.name(f"hanging-{shard}-", shard) for shard in range(3)]
        good = world.name("good", 3)
        for name in (*hanging, good):
            world.create(name)
        answer = Promise[None]()

        def hang(inbox: Inbox) -> None:
            take = inbox.take

            async def take_later(handover: Handover) -> Taken:
                await answer
                return await take(handover)

            inbox.take = take_later  # type: ignore[method-assign]

        for shard in range(3):
            hang(world.broker.partition(shard).inbox)
        for source in range(4, 20):
            delivery = world.broker.partition(source).delivery
            message = Outgoing(body=str(source), sender="a service")
            for name in hanging:
                world.do(delivery.deliver(message, [QueueTarget(name_of(name))], "toy", "the toy"))
        delivery = world.broker.partition(19).delivery
        world.do(delivery.deliver(message, [QueueTarget(name_of(good))], "toy", "the toy"))
        assert world.counts(good) == (1, 0, 0)
        assert [world.counts(name) for name in hanging] == [(0, 0, 0)] * 3
        answer.resolve(None)
        world.run()
        assert [world.counts(name) for name in hanging] == [(16, 0, 0)] * 3


def test_what_waits_for_a_shard_is_bounded_by_the_quota() -> None:
    limits = msgspec.structs.replace(ROOMY, quota_messages=5)
    with Cluster(limits=limits) as cluster:
        target, node = cluster.name("target", 1), cluster.nodes[0]
        cluster.node(target).create(target)
        cluster.network.cut.add(1)
        refused = [each for i in range(8) for each in deliver(cluster, [target], f"m{i}")]
        assert [(each.reason, message_of(each).body) for each in refused] == [
            ("QuotaReached", f"m{i}") for i in (5, 6, 7)
        ]
        assert node.store.usage(OUTBOX)[OUTBOX].messages == 5
        node.crash()
        assert deliver(cluster, [target])[0].reason == "QuotaReached", "it is known after a restart"
        cluster.network.cut.clear()
        cluster.advance(10 * SECOND)
        assert cluster.node(target).counts(target) == (5, 0, 0)
        assert node.store.records(ON_THE_WAY.name) == {}


def test_a_service_is_asked_about_messages_that_waited_for_four_days(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.outbox._RETRY_MAX_MS", MINUTE)  # days have fewer tries then
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    target = cluster.name("target", 1)
    cluster.node(target).create(target)
    cluster.network.cut.add(1)
    deliver(cluster, [target], "old")
    cluster.advance(DAY)
    deliver(cluster, [target], "young")
    cluster.advance(3 * DAY - MINUTE)
    assert refused == []
    cluster.advance(2 * MINUTE)
    assert [(each.reason, message_of(each).body) for each in refused] == [("Expired", "old")]
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert cluster.node(target).bodies(target) == ["young"]
    assert cluster.nodes[0].store.usage(OUTBOX) == {}


def test_a_service_is_told_of_a_message_that_cannot_be_decrypted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Refusal] = []
    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", refused.append)
    target = cluster.name("target", 1)
    cluster.node(target).create(target)

    def refuse(seqs: Sequence[int]) -> dict[int, bytes]:
        raise KeyDisabled("a key")

    cluster.network.cut.add(1)
    deliver(cluster, [target])
    monkeypatch.setattr(cluster.nodes[0].store, "contents", refuse)
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert [(each.target.token, each.message, each.reason) for each in refused] == [
        (target, None, "KeyUnavailable")
    ]
    assert cluster.nodes[0].store.usage(OUTBOX) == {}


def test_a_service_that_fails_to_decide_blocks_no_others(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(refusal: Refusal) -> None:
        raise ValueError(refusal.reason)

    cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", fail)
    gone, good = cluster.name("gone", 1), cluster.name("good", 1)
    cluster.node(good).create(good)
    deliver(cluster, [gone])
    deliver(cluster, [good], "later")
    assert cluster.node(good).bodies(good) == ["later"]
    assert cluster.nodes[0].store.usage(OUTBOX) == {}
    assert cluster.nodes[0].store.log(LOG_KIND, "1", 0, LAST) == []
    assert "nothing was decided" in caplog.text


def test_a_log_that_names_a_message_which_is_gone_blocks_no_others(cluster: Cluster) -> None:
    """An earlier version removed the row and not the entry of the log."""
    good, node = cluster.name("good", 1), cluster.nodes[0]
    cluster.node(good).create(good)
    cluster.network.cut.add(1)
    deliver(cluster, [good], "first")
    deliver(cluster, [good], "second")
    (first, _) = node.store.lookup(OUTBOX, 0, [each.seq for each in departures(node)])
    node.shard.changes.remove(OUTBOX, first)
    node.do(_settled(node))
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert cluster.node(good).bodies(good) == ["second"]
    assert (node.store.usage(OUTBOX), departures(node)) == ({}, [])


def departures(node: Node) -> list[Departure]:
    """Those on their way from this node to shard 1."""
    return [decode_departure(entry.data) for entry in node.store.log(LOG_KIND, "1", 0, LAST)]


async def _settled(node: Node) -> None:
    await node.shard.settled()


@pytest.mark.parametrize("is_behind", [False, True], ids=["fresh", "behind"])
def test_pages_are_small_for_the_shard_that_takes_them(
    cluster: Cluster, is_behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages are decided at a time, and however many queues each is for."""
    targets = [cluster.name(f"target-{i}-", 1) for i in range(400)]
    for target in targets:
        cluster.node(target).create(target)
    pages: list[Handover] = []
    monkeypatch.setattr(cluster.network, "send", _recorded(cluster.network.send, pages))
    node, delivery = cluster.nodes[0], cluster.nodes[0].broker.partition(0).delivery
    if is_behind:
        cluster.network.cut.add(1)
    message = Outgoing(body="x" * 4000, sender="a service")
    to = [QueueTarget(name_of(each), "token" * 20) for each in targets]
    for _ in range(6):
        node.start(delivery.deliver(message, to, "toy", "the toy"))
    cluster.run()
    cluster.network.cut.clear()
    cluster.advance(10 * SECOND)
    assert cluster.node(targets[0]).counts(targets[0]) == (6, 0, 0)
    assert max(sum(len(each.targets) for each in page.messages) for page in pages) <= 500
    assert max(changes.bytes for changes in cluster.nodes[1].store.appended) <= 5 * 1024 * 1024


def _recorded(send: Callable[..., Any], pages: list[Handover]) -> Callable[..., Any]:
    def recorded(caller: Node, handover: Handover) -> Any:
        pages.append(handover)
        return send(caller, handover)

    return recorded


def test_a_queue_that_refuses_for_another_reason_still_exists() -> None:
    limits = msgspec.structs.replace(ROOMY, quota_messages=3)
    with Cluster(limits=limits) as cluster:
        queues = Queues(cluster)
        cluster.nodes[0].broker.partition(0).delivery.on_refused("toy", lambda refusal: None)
        node, dead = cluster.node(queues.work), cluster.node(queues.dead)
        for _ in range(3):
            dead.send(queues.dead, "full")
        node.send(queues.work, "poison")
        node.drain(queues.work)
        cluster.advance(SECOND)
        deliver(cluster, [queues.dead])
        assert node.drain(queues.work) == [], "it is a dead letter"
        assert queues.count(queues.dead) == (4, 0, 0)


def test_a_departure_of_an_earlier_release_is_understood() -> None:
    work, dead = QueueName("1", "r", "work"), QueueName("1", "r", "dead")
    encode = msgspec.msgpack.encode
    forms = {
        (7, 1, work, dead): Cause.DEAD_LETTER,
        (7, 1, work, dead, "task"): Cause.REDRIVE,
        (7, 1, work, dead, "task", "move"): Cause.MOVE,
        (7, 1, work, dead, None, "dead-letter"): Cause.DEAD_LETTER,
    }
    for form, cause in forms.items():
        departure = decode_departure(encode(form))
        assert (departure.seq, departure.cause, departure.queue) == (7, cause, 1)
        assert (departure.targets, departure.leaving) == ((QueueTarget(dead),), work)
        assert msgspec.to_builtins(decode_departure(encode_departure(departure))) == msgspec.to_builtins(
            departure
        )
    before_delays = (8, "service", [[dead, "token"]], "a topic", OUTBOX, None, None, "toy", False, "1")
    departure = decode_departure(b"\x02" + encode(before_delays))
    assert (departure.targets, departure.service) == ((QueueTarget(dead, "token"),), "toy")
    assert (departure.is_last, departure.account, departure.delay_ms) == (False, "1", None)
    copy = decode_departure(encode((7, OUTBOX, work, dead, None, "copy")))
    assert (copy.cause, copy.queue, copy.leaving) == (Cause.COPY, OUTBOX, None)
