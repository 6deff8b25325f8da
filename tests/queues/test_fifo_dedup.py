"""FIFO: a send that is repeated within five minutes is taken once."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest

from penstock.errors import DedupFull
from penstock.limits import MINUTE
from penstock.names import QueueName
from penstock.queues.dedup import SendDigests, content_id
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Attribute
from penstock.queues.settings import QueueSettings
from sim.world import ROOMY, SECOND, World, outgoing

Q = "q.fifo"


def test_a_duplicate_answers_as_the_first_send_did(world: World) -> None:
    world.create(Q)
    first = world.send(Q, "one", group="g", dedup_id="d")
    again = world.send(Q, "another body", group="g", dedup_id="d")
    assert again == first
    assert world.drain(Q) == ["one"]


def test_the_window_is_five_minutes_from_the_first_send_and_duplicates_do_not_extend_it(world: World) -> None:
    world.create(Q)
    first = world.send(Q, "m", group="g", dedup_id="d")
    world.advance(4 * MINUTE)
    assert world.send(Q, "m", group="g", dedup_id="d") == first
    world.advance(MINUTE - 1)
    assert world.send(Q, "m", group="g", dedup_id="d") == first
    world.advance(1)
    assert world.send(Q, "m", group="g", dedup_id="d") != first


def test_it_survives_receive_and_delete(world: World) -> None:
    world.create(Q)
    first = world.send(Q, "m", group="g", dedup_id="d")
    world.delete(Q, *world.receive(Q))
    assert world.send(Q, "m", group="g", dedup_id="d") == first
    assert world.counts(Q) == (0, 0, 0)


def test_it_survives_a_crash(world: World) -> None:
    world.create(Q)
    first = world.send(Q, "m", group="g", dedup_id="d")
    world.advance(2 * MINUTE)
    world.crash()
    assert world.send(Q, "m", group="g", dedup_id="d") == first
    world.advance(3 * MINUTE)
    world.crash()
    assert world.send(Q, "m", group="g", dedup_id="d") != first


def test_it_does_not_survive_a_purge(world: World) -> None:
    world.create(Q)
    first = world.send(Q, "m", group="g", dedup_id="d")
    world.purge(Q)
    second = world.send(Q, "m", group="g", dedup_id="d")
    assert second != first
    world.crash()
    assert world.send(Q, "m", group="g", dedup_id="d") == second
    assert world.drain(Q) == ["m"]


def test_without_an_id_the_body_stands_for_it_whatever_the_attributes(world: World) -> None:
    world.create(Q, content_dedup=True)
    first = world.send(Q, "same", group="g")
    again = world.send(Q, "same", group="g", attributes={"a": Attribute("String", "x")})
    assert again == first
    assert world.send(Q, "other", group="g") != first


def test_the_id_made_of_the_body_is_its_sha256(world: World) -> None:
    world.create(Q, content_dedup=True)
    world.send(Q, "same", group="g")
    (message,) = world.receive(Q)
    assert message.content.dedup_id is not None
    assert message.content.dedup_id.startswith("0967115f") and message.content.dedup_id.endswith("b5d5")


def test_an_explicit_id_wins_over_the_body(world: World) -> None:
    world.create(Q, content_dedup=True)
    first = world.send(Q, "same", group="g", dedup_id="a")
    assert world.send(Q, "same", group="g", dedup_id="b") != first
    assert world.drain(Q) == ["same", "same"]


def test_scope_queue_the_same_id_in_another_group_is_a_duplicate(world: World) -> None:
    world.create(Q)
    assert world.send(Q, "m", group="g1", dedup_id="d") == world.send(Q, "m", group="g2", dedup_id="d")


def test_scope_group_the_same_id_in_another_group_is_none(world: World) -> None:
    world.create(Q, dedup_scope="messageGroup")
    first = world.send(Q, "m", group="g1", dedup_id="d")
    assert world.send(Q, "m", group="g2", dedup_id="d") != first
    assert world.send(Q, "m", group="g1", dedup_id="d") == first
    assert world.counts(Q) == (2, 0, 0)


def test_a_duplicate_within_one_batch(world: World) -> None:
    world.create(Q)
    first, again = world.do(
        world.broker.send(
            world.queue(Q),
            [outgoing("a", group="g", dedup_id="d"), outgoing("b", group="g", dedup_id="d")],
        )
    )
    assert first == again
    assert world.drain(Q) == ["a"]


def test_a_duplicate_of_a_send_that_is_not_durable_yet_waits_for_it(world: World) -> None:
    world.create(Q)
    world.hold_commits()
    first = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    again = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    assert not first.done and not again.done
    world.release_commits()
    assert again.result() == first.result()


def test_a_crash_before_the_commit_forgets_the_send(world: World) -> None:
    world.create(Q)
    world.hold_commits()
    world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    world.crash()
    world.send(Q, "m", group="g", dedup_id="d")
    assert world.drain(Q) == ["m"]


def test_a_refused_send_is_not_remembered(world: World) -> None:
    world.create(Q)
    world.refuse_next_commit()
    failed = world.sending(Q, outgoing("m", group="g", dedup_id="d"))
    world.run()
    with pytest.raises(Exception, match="refused"):
        failed.result()
    world.send(Q, "m", group="g", dedup_id="d")
    assert world.drain(Q) == ["m"]


def test_the_memory_has_a_limit_and_frees_itself() -> None:
    with World(msgspec.structs.replace(ROOMY, dedup_entries_max=3)) as world:
        world.create(Q)
        for i in range(3):
            world.send(Q, f"m{i}", group="g")
        with pytest.raises(DedupFull):
            world.send(Q, "m3", group="g")
        world.advance(5 * MINUTE + SECOND)
        world.send(Q, "m3", group="g")
        assert world.counts(Q) == (4, 0, 0)


def test_an_idle_queue_gives_back_what_expired() -> None:
    """It is neither sent to nor received from: the background round does it, in memory and in the store."""
    with World() as world:
        world.create(Q)
        world.send_all(Q, "a", "b", group="g")
        world.receive(Q, 1, attempt_id="try")
        rules = world.queue(Q).rules
        assert isinstance(rules, FifoQueue) and rules.remembered_attempts == 1
        world.advance(7 * MINUTE)
        assert world.broker.dedup_usage.total == 0
        assert rules.remembered_attempts == 0
        assert world.store.dedup(world.queue(Q).id, now_ms=0) == []


def account_queue(world: World, account: str) -> QueueName:
    name = QueueName(account, "eu-west-1", Q)
    world.do(world.broker.create(name, QueueSettings(fifo=True), {}))
    return name


def send_to(world: World, name: QueueName, *bodies: str) -> None:
    world.do(world.broker.send(world.broker.find(name), [outgoing(body, group="g") for body in bodies]))


def test_an_account_cannot_use_up_the_memory_of_another() -> None:
    with World(msgspec.structs.replace(ROOMY, dedup_entries_max=3)) as world:
        greedy, other = account_queue(world, "111111111111"), account_queue(world, "222222222222")
        send_to(world, greedy, "a", "b", "c")
        with pytest.raises(DedupFull):
            send_to(world, greedy, "d")
        send_to(world, other, "a", "b", "c")


def test_at_the_total_every_account_still_has_an_equal_share() -> None:
    limits = msgspec.structs.replace(ROOMY, dedup_entries_max=4, dedup_entries_total_max=6)
    with World(limits) as world:
        first, second, third = (account_queue(world, digit * 12) for digit in "123")
        send_to(world, first, "a", "b", "c", "d")
        send_to(world, second, "a", "b", "c")
        with pytest.raises(DedupFull):
            send_to(world, second, "d")
        send_to(world, third, "a", "b")
        with pytest.raises(DedupFull):
            send_to(world, third, "c")


def test_digests_are_keyed_so_that_nobody_can_try_bodies_out() -> None:
    body = content_id("PIN 4711")
    ours, theirs = SendDigests(b"k" * 32), SendDigests(b"l" * 32)
    assert ours(body, None) == SendDigests(b"k" * 32)(body, None)
    assert ours(body, None) != theirs(body, None)
    assert ours("d", "g") != ours("d", None) != ours("d", "h")
    assert len(ours("d", "g")) == 16
    assert ours(body, None) != blake2b(body.encode(), digest_size=16).digest()
