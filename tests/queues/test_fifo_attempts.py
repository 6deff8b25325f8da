"""FIFO: a receive repeated with the same ReceiveRequestAttemptId gives the same answer again."""

from __future__ import annotations

from penstock.limits import MINUTE
from penstock.queues.messages import Received
from sim.world import SECOND, World

Q = "q.fifo"


def start(world: World) -> list[Received]:
    world.create(Q)
    world.send_all(Q, "a", "b", "c", group="g")
    world.send("q.fifo", "d", group="h")
    return world.receive(Q, 2, attempt_id="try", visibility_ms=MINUTE)


def test_the_same_messages_and_handles_hidden_anew(world: World) -> None:
    first = start(world)
    world.advance(50 * SECOND)
    assert world.receive(Q, 2, attempt_id="try", visibility_ms=MINUTE) == first
    world.advance(50 * SECOND)
    world.delete(Q, *first)


def test_another_id_is_another_receive(world: World) -> None:
    first = start(world)
    other = world.receive(Q, 2, attempt_id="other")
    assert {m.content.body for m in other}.isdisjoint(m.content.body for m in first)


def test_not_after_one_was_deleted(world: World) -> None:
    first = start(world)
    world.delete(Q, first[0])
    again = world.receive(Q, 2, attempt_id="try")
    assert first[0].content.body not in [m.content.body for m in again]
    assert again != first


def test_not_after_one_was_changed(world: World) -> None:
    first = start(world)
    world.advance(SECOND)
    world.change(Q, first[0], MINUTE)
    assert world.receive(Q, 2, attempt_id="try") != first


def test_not_after_they_became_visible(world: World) -> None:
    first = start(world)
    world.advance(MINUTE)
    again = world.receive(Q, 1, attempt_id="try")
    assert again[0].receives in (1, 2)
    assert again != first


def test_not_after_five_minutes(world: World) -> None:
    world.create(Q)
    world.send(Q, "a", group="g")
    first = world.receive(Q, 1, attempt_id="try", visibility_ms=10 * MINUTE)
    world.advance(5 * MINUTE - 1)
    assert world.receive(Q, 1, attempt_id="try", visibility_ms=10 * MINUTE) == first
    world.advance(5 * MINUTE)
    assert world.receive(Q, 1, attempt_id="try") == []


def test_a_standard_queue_ignores_it(world: World) -> None:
    world.create("q")
    world.send_all("q", "a", "b")
    assert world.bodies("q", 1, attempt_id="try") == ["a"]
    assert world.bodies("q", 1, attempt_id="try") == ["b"]
