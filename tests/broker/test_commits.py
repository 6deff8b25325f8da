"""Commits: a reply waits for the disk, and memory never runs ahead of it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from penstock.errors import DataRefused, DecideAgain, QueueMissing, StoreBroken, StoreError, StoreLost
from penstock.limits import HOUR
from penstock.promise import Promise
from penstock.queues.settings import QueueSettings
from support.generated import examples
from support.world import SECOND, UNMETERED, World, name_of, outgoing

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


@KINDS
def test_a_message_is_acknowledged_and_receivable_only_when_durable(world: World, queue: str) -> None:
    world.create(queue)
    world.hold_commits()
    sent = world.sending(queue, outgoing("m", group="g"))
    world.run()
    assert not sent.done
    assert world.receive(queue) == []
    world.release_commits()
    assert sent.done
    assert world.bodies(queue) == ["m"]


@KINDS
def test_an_unacknowledged_send_is_lost_in_a_crash_an_acknowledged_one_is_not(
    world: World, queue: str
) -> None:
    world.create(queue)
    world.send(queue, "kept", group="g")
    world.hold_commits()
    world.sending(queue, outgoing("lost", group="g"))
    world.run()
    world.crash()
    assert world.drain(queue) == ["kept"]


def test_one_send_alone_is_written_at_the_next_turn_of_the_loop(roomy: World) -> None:
    roomy.create("orders")
    before = len(roomy.store.appended)
    roomy.sending("orders", outgoing("alone"))
    roomy.runtime.step()  # the loop
    roomy.runtime.step()  # the thread that writes
    assert len(roomy.store.appended) == before + 1


def test_sends_that_keep_coming_share_a_commit_but_not_for_long(roomy: World) -> None:
    roomy.create("orders")
    before = len(roomy.store.appended)
    for _ in range(5):
        assert len(roomy.store.appended) == before
        roomy.sending("orders", outgoing("one"))
        roomy.sending("orders", outgoing("other"))
        roomy.runtime.step()  # a turn of the loop
    roomy.sending("orders", outgoing("too late"))
    roomy.runtime.step()  # another, which finds a commit under way
    roomy.runtime.step()  # the thread that writes
    assert [len(changes.added) for changes in roomy.store.appended[before:]] == [10]


def test_decisions_made_meanwhile_share_the_next_commit(world: World) -> None:
    world.create("q")
    world.hold_commits()
    sends = []
    for i in range(20):
        sends.append(world.sending("q", outgoing(f"m{i}")))
        world.run()
    before = len(world.store.appended)
    world.release_commits()
    assert all(send.done for send in sends)
    assert len(world.store.appended) - before == 2


@KINDS
def test_a_deleted_message_stays_deleted(world: World, queue: str) -> None:
    world.create(queue)
    for i in range(6):
        world.send(queue, f"m{i}", group=f"g{i}")
    deleted = []
    for message in world.drain_up_to(queue, 3):
        world.delete(queue, message)
        deleted.append(message.content.body)
    world.crash()
    world.advance(HOUR)
    assert sorted(world.drain(queue, visibility_ms=HOUR) + deleted) == [f"m{i}" for i in range(6)]


@KINDS
def test_an_unacknowledged_delete_is_undone_by_a_crash(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "m", group="g")
    (message,) = world.receive(queue)
    world.advance(100)  # by then the receive is durable on a standard queue too
    world.hold_commits()
    world.start(world.queue(queue).delete([message.handle]))
    world.run()
    world.crash()
    assert world.counts(queue) == (0, 1, 0)


def test_standard_a_receive_is_written_within_100_ms(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.receive("q")
    world.advance(99)
    assert [row.receives for row in world.stored("q")] == [0]
    world.advance(2)
    assert [row.receives for row in world.stored("q")] == [1]


def test_standard_a_receive_that_was_not_written_is_undone_by_a_crash(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    (message,) = world.receive("q")
    world.crash()
    (again,) = world.receive("q")
    assert (again.content.id, again.receives) == (message.content.id, 1)
    world.delete("q", message)
    assert world.counts("q") == (0, 0, 0)


def test_standard_a_message_deleted_soon_after_its_receive_is_not_written_twice(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.delete("q", *world.receive("q"))
    world.advance(SECOND)
    assert not any(changes.updated for changes in world.store.appended)
    assert world.stored("q") == []


def test_standard_a_clean_stop_writes_receives(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.receive("q")
    world.restart()
    assert world.counts("q") == (0, 1, 0)


def test_standard_receives_that_were_not_written_are_undone_with_a_refused_commit(world: World) -> None:
    for queue in ("q", "other"):
        world.create(queue)
    world.send("q", "m")
    world.receive("q")
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.send("other", "refused")
    assert world.counts("q") == (1, 0, 0)
    assert world.bodies("q") == ["m"]


def test_standard_a_receive_does_not_wait_for_its_mark(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.hold_commits()
    assert world.bodies("q") == ["m"]
    world.crash()
    assert world.receive("q")[0].receives == 1, "the mark was lost: one delivery more"


def test_fifo_a_receive_waits_for_its_mark(world: World) -> None:
    world.create("q.fifo")
    world.send("q.fifo", "m", group="g")
    world.hold_commits()
    poll = world.poll("q.fifo")
    assert not poll.done
    world.release_commits()
    assert poll.bodies == ["m"]


@KINDS
def test_a_refused_commit_fails_its_requests_and_undoes_them(world: World, queue: str) -> None:
    world.create(queue)
    for i in range(8):
        world.send(queue, f"m{i}", group=f"g{i % 2}")
    (message,) = world.receive(queue, 1)
    world.advance(100)
    counts = world.counts(queue)
    world.refuse_next_commit()
    attempts: list[Promise[Any]] = [
        world.sending(queue, outgoing("lost", group="g")),
        world.start(world.queue(queue).delete([message.handle])),
    ]
    world.run()
    for attempt in attempts:
        with pytest.raises(StoreError):
            attempt.result()
    assert world.counts(queue) == counts
    world.delete(queue, message)
    world.send(queue, "next", group="g")
    assert sum(world.counts(queue)) == 8


@KINDS
def test_decisions_on_top_of_a_refused_commit_fail_too(world: World, queue: str) -> None:
    world.create(queue)
    world.hold_commits()
    world.refuse_next_commit()
    first = world.sending(queue, outgoing("first", group="g"))
    world.run()
    on_top = world.sending(queue, outgoing("on top", group="g"))
    world.run()
    world.release_commits()
    for failed in (first, on_top):
        with pytest.raises(StoreError):
            failed.result()
    assert world.counts(queue) == (0, 0, 0)
    world.send(queue, "m", group="g")
    assert world.drain(queue) == ["m"]


def test_a_refused_queue_does_not_exist(world: World) -> None:
    world.refuse_next_commit()
    created = world.start(world.broker.create(name_of("q"), QueueSettings(), {}))
    world.run()
    with pytest.raises(StoreError):
        created.result()
    with pytest.raises(QueueMissing):
        world.queue("q")
    world.create("q")


def test_a_refused_deletion_leaves_the_queue_and_its_messages(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.refuse_next_commit()
    dropped = world.start(world.broker.drop(world.queue("q")))
    world.run()
    with pytest.raises(StoreError):
        dropped.result()
    assert world.bodies("q") == ["m"]


def test_a_refused_setting_is_not_set(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.configure("q", visibility_ms=HOUR)
    assert world.queue("q").settings.visibility_ms == SECOND
    world.send("q", "m")
    world.receive("q")
    world.advance(SECOND)
    assert world.bodies("q") == ["m"]


def test_other_queues_go_on_after_a_refused_commit(world: World) -> None:
    world.create("q")
    world.create("other")
    world.send("other", "m")
    world.refuse_next_commit()
    world.sending("q", outgoing("lost"))
    world.run()
    assert world.bodies("other") == ["m"]


@pytest.mark.parametrize("seed", range(examples(10)))
def test_nothing_is_lost_or_doubled_while_data_is_refused(world: World, seed: int) -> None:
    """Commits of many queues wait behind one another, and the store refuses the data of some."""
    chance = random.Random(seed)
    queues = ["a", "b", "a.fifo", "b.fifo"]
    for queue in queues:
        world.create(queue, visibility_ms=HOUR)
    there: dict[str, set[str]] = {queue: set() for queue in queues}
    for turn in range(30):
        received = [
            (queue, each) for queue in queues for each in world.receive(queue, chance.randrange(1, 3))
        ]
        world.hold_commits()
        sent: list[tuple[str, str, Promise[Any]]] = []
        deleted: list[tuple[str, str, Promise[Any]]] = []
        for number in range(chance.randrange(1, 8)):
            if chance.random() < 0.4 and received:
                queue, message = received.pop()
                promise = world.start(world.queue(queue).delete([message.handle]))
                deleted.append((queue, message.content.body, promise))
            else:
                queue, body = chance.choice(queues), f"{turn}-{number}"
                sending = outgoing(body, group=body, dedup_id=body if queue.endswith("fifo") else None)
                for _ in range(
                    chance.randrange(1, 3) if queue.endswith("fifo") else 1
                ):  # the second is a duplicate
                    sent.append((queue, body, world.sending(queue, sending)))
            if chance.random() < 0.3:
                world.run()
        world.store.refusals += [DataRefused("a key has a NUL")] * chance.randrange(3)
        world.release_commits()
        for queue, body, promise in sent:
            if _succeeded(promise):
                there[queue].add(body)
        for queue, body, promise in deleted:
            if _succeeded(promise):
                there[queue].remove(body)
        world.store.refusals.clear()
        world.advance(chance.choice([0, SECOND, 20 * SECOND]))
    world.crash()
    world.advance(2 * HOUR)
    for queue in queues:
        found: list[str] = []
        while messages := world.receive(queue):
            world.delete(queue, *messages)
            found += [message.content.body for message in messages]
        assert sorted(found) == sorted(there[queue])


def _succeeded(promise: Promise[Any]) -> bool:
    try:
        promise.result()
    except (DecideAgain, DataRefused):
        return False
    return True


def write_alone(world: World) -> None:
    """The store refuses data: for a while each request gets a commit of its own."""
    world.create("refused")
    world.refuse_next_commit(DataRefused("a key has a NUL"))
    world.sending("refused", outgoing("has a NUL"))
    world.run()


def test_fifo_a_delete_that_serves_a_waiting_receive_is_durable_when_it_answers() -> None:
    """Each request has a commit of its own: the one that is served must not close that of the delete before it is
    complete."""
    with World(UNMETERED) as world:
        world.create("q.fifo", visibility_ms=HOUR)
        world.send_all("q.fifo", "a", "b", group="g")
        (first,) = world.receive("q.fifo", 1)
        poll = world.poll("q.fifo", 1, wait_ms=20 * SECOND)
        write_alone(world)
        world.hold_commits()
        deleted = world.start(world.queue("q.fifo").delete([first.handle]))
        world.run()
        assert not deleted.done
        world.release_commits()
        assert deleted.done and poll.bodies == ["b"]
        world.crash()
        world.advance(HOUR)
        assert world.bodies("q.fifo") == ["b"]


def test_a_queue_that_is_deleted_and_created_again_by_a_refused_commit_is_there() -> None:
    with World(msgspec.structs.replace(UNMETERED, delete_pause_ms=0)) as world:
        queue = world.create("q")
        world.send("q", "m")
        world.refuse_next_commit()
        dropped = world.start(world.broker.drop(queue))
        created = world.start(world.broker.create(name_of("q"), queue.settings, {}))
        world.run()
        assert dropped.failed and created.failed
        assert world.bodies("q") == ["m"]


@pytest.mark.parametrize("error", [StoreBroken("fsync failed"), StoreLost("taken")])
def test_when_the_truth_is_no_longer_known_the_process_stops(roomy: World, error: StoreError) -> None:
    roomy.create("q")
    roomy.refuse_next_commit(error)
    sent = roomy.sending("q", outgoing("m"))
    roomy.run()
    assert roomy.fatal == [error]
    with pytest.raises(type(error)):
        sent.result()


def test_a_clean_stop_makes_everything_durable(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    world.receive("q", visibility_ms=HOUR)
    world.restart()
    assert world.counts("q") == (0, 1, 0)


def test_a_thousand_acknowledged_messages_are_there_once_after_a_crash(world: World) -> None:
    world.create("q")
    sent = [f"m{i}" for i in range(1000)]
    for i in range(0, 1000, 100):
        world.send_all("q", *sent[i : i + 100])
    world.crash()
    assert sorted(world.drain("q", visibility_ms=HOUR)) == sorted(sent)
