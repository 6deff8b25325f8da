"""Visibility: how long a received message is hidden, by whom that is set, and what a handle can do."""

from __future__ import annotations

import pytest

from penstock.errors import HandleExpired, HandleInvalid, MessageNotAvailable, VisibilityTooLong
from penstock.limits import HOUR, MINUTE
from sim.world import SECOND, World


def test_the_queues_own_visibility_is_used_when_the_receive_names_none(world: World) -> None:
    world.create("q", visibility_ms=7 * SECOND)
    world.send("q", "m")
    assert world.bodies("q") == ["m"]
    world.advance(7 * SECOND - 1)
    assert world.bodies("q") == []
    world.advance(1)
    assert world.bodies("q") == ["m"]


def test_the_receive_may_name_another(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    assert world.bodies("q", visibility_ms=90 * SECOND) == ["m"]
    world.advance(90 * SECOND - 1)
    assert world.bodies("q") == []
    world.advance(1)
    assert world.bodies("q") == ["m"]


def test_a_new_setting_counts_for_the_next_receive(world: World) -> None:
    world.create("q", visibility_ms=5 * SECOND)
    world.send("q", "m")
    world.receive("q")
    world.configure("q", visibility_ms=HOUR)
    world.advance(5 * SECOND)
    assert world.bodies("q") == ["m"]
    world.advance(MINUTE)
    assert world.bodies("q") == []


def test_zero_delivers_counts_and_leaves_visible(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    counts = [world.receive("q", visibility_ms=0)[0].receives for _ in range(3)]
    assert counts == [1, 2, 3]
    assert world.counts("q") == (1, 0, 0)


def test_zero_gives_no_message_twice_in_one_answer(world: World) -> None:
    world.create("q")
    world.send_all("q", "a", "b")
    assert sorted(world.bodies("q", 10, visibility_ms=0)) in (["a", "b"], ["a"])


def test_change_to_zero_shows_at_once(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    (message,) = world.receive("q")
    world.change("q", message, 0)
    assert world.bodies("q") == ["m"]


def test_change_counts_from_the_call(world: World) -> None:
    world.create("q", visibility_ms=10 * SECOND)
    world.send("q", "m")
    (message,) = world.receive("q")
    world.advance(8 * SECOND)
    world.change("q", message, 10 * SECOND)
    world.advance(10 * SECOND - 1)
    assert world.bodies("q") == []
    world.advance(1)
    assert world.bodies("q") == ["m"]


def test_change_can_shorten(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send("q", "m")
    (message,) = world.receive("q")
    world.change("q", message, SECOND)
    world.advance(SECOND)
    assert world.bodies("q") == ["m"]


def test_a_change_applies_once(world: World) -> None:
    world.create("q", visibility_ms=5 * SECOND)
    world.send("q", "m")
    (message,) = world.receive("q")
    world.change("q", message, MINUTE)
    world.advance(MINUTE)
    assert world.bodies("q") == ["m"]
    world.advance(5 * SECOND)
    assert world.bodies("q") == ["m"]


def test_hidden_for_twelve_hours_in_all_at_the_most(world: World) -> None:
    world.create("q")
    world.send("q", "m")
    (message,) = world.receive("q", visibility_ms=12 * HOUR)
    world.advance(SECOND)
    world.change("q", message, 12 * HOUR - SECOND)
    with pytest.raises(VisibilityTooLong):
        world.change("q", message, 12 * HOUR - SECOND + 1)
    world.advance(HOUR)
    world.change("q", message, 11 * HOUR - SECOND)
    with pytest.raises(VisibilityTooLong):
        world.change("q", message, 11 * HOUR)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_change_of_a_deleted_message(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "m", group="g")
    (message,) = world.receive(queue)
    world.delete(queue, message)
    with pytest.raises(MessageNotAvailable):
        world.change(queue, message, 10)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_delete_is_idempotent(world: World, queue: str) -> None:
    world.create(queue)
    world.send(queue, "m", group="g")
    (message,) = world.receive(queue)
    world.delete(queue, message)
    world.delete(queue, message)
    world.crash()
    world.delete(queue, message)
    assert world.counts(queue) == (0, 0, 0)


def test_standard_an_expired_handle_still_deletes(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send_all("q", *"abcdefgh")
    received = [world.receive("q", 1)[0] for _ in range(8)]
    world.advance(2 * SECOND)
    world.delete("q", received[0], received[7])
    world.counts("q")
    assert sorted(world.drain("q", visibility_ms=HOUR)) == list("bcdefg")


def test_standard_a_superseded_handle_still_deletes(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "m")
    (old,) = world.receive("q")
    world.advance(SECOND)
    (new,) = world.receive("q")
    assert new.handle != old.handle
    world.delete("q", old)
    world.advance(HOUR)
    assert world.bodies("q") == []


def test_standard_an_expired_handle_hides_anew(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "m")
    (message,) = world.receive("q")
    world.advance(2 * SECOND)
    world.change("q", message, 10 * SECOND)
    assert world.counts("q") == (0, 1, 0)
    assert world.bodies("q") == []
    world.advance(10 * SECOND)
    assert world.bodies("q") == ["m"]


def test_standard_a_superseded_handle_shows_what_a_newer_receive_holds(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "m")
    (old,) = world.receive("q")
    world.advance(SECOND)
    world.receive("q", visibility_ms=HOUR)
    world.change("q", old, 0)
    assert world.bodies("q") == ["m"]


def test_standard_a_handle_works_behind_a_paged_backlog(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "old")
    (old,) = world.receive("q")
    world.send_all("q", *[f"m{i}" for i in range(30)])
    world.advance(2 * SECOND)
    world.crash()
    world.change("q", old, HOUR)
    assert world.counts("q") == (30, 1, 0)
    world.delete("q", old)
    world.delete("q", old)
    assert world.counts("q") == (30, 0, 0)
    assert "old" not in world.drain("q")


def test_fifo_a_delete_needs_the_message_to_be_hidden(world: World) -> None:
    world.create("q.fifo", visibility_ms=SECOND)
    world.send("q.fifo", "m", group="g")
    (message,) = world.receive("q.fifo")
    world.advance(SECOND)
    with pytest.raises(HandleExpired):
        world.delete("q.fifo", message)
    assert world.bodies("q.fifo") == ["m"]


def test_fifo_an_extension_counts_for_the_delete(world: World) -> None:
    world.create("q.fifo", visibility_ms=SECOND)
    world.send("q.fifo", "m", group="g")
    (message,) = world.receive("q.fifo")
    world.change("q.fifo", message, MINUTE)
    world.advance(MINUTE - 1)
    world.delete("q.fifo", message)
    assert world.counts("q.fifo") == (0, 0, 0)


def test_fifo_a_superseded_handle_neither_deletes_nor_changes(world: World) -> None:
    world.create("q.fifo", visibility_ms=SECOND)
    world.send("q.fifo", "m", group="g")
    (old,) = world.receive("q.fifo")
    world.advance(SECOND)
    (new,) = world.receive("q.fifo")
    with pytest.raises(HandleExpired):
        world.delete("q.fifo", old)
    with pytest.raises(MessageNotAvailable):
        world.change("q.fifo", old, 0)
    world.delete("q.fifo", new)


def test_fifo_an_expired_handle_does_not_change(world: World) -> None:
    world.create("q.fifo", visibility_ms=SECOND)
    world.send("q.fifo", "m", group="g")
    (message,) = world.receive("q.fifo")
    world.advance(SECOND)
    with pytest.raises(MessageNotAvailable):
        world.change("q.fifo", message, MINUTE)


def test_handles_of_other_queues_and_made_up_ones_are_invalid(world: World) -> None:
    world.create("q")
    world.create("other")
    world.send("q", "m")
    (message,) = world.receive("q")
    flipped = message.handle[:-1] + ("A" if message.handle[-1] != "A" else "B")
    for queue, handle in (
        ("other", message.handle),
        ("q", "garbage"),
        ("q", ""),
        ("q", flipped),
        ("q", "é" * 68),
    ):
        (answer,) = world.do(world.broker.delete(world.queue(queue), [handle]))
        assert isinstance(answer, HandleInvalid)
    assert world.counts("q") == (0, 1, 0)


def test_handles_from_before_a_restart_work_after_it(world: World) -> None:
    world.create("q")
    world.create("q.fifo")
    for queue in ("q", "q.fifo"):
        world.send(queue, "m", group="g")
    received = {queue: world.receive(queue)[0] for queue in ("q", "q.fifo")}
    world.crash()
    for queue, message in received.items():
        assert world.counts(queue) == (0, 1, 0)
        world.change(queue, message, MINUTE)
        world.delete(queue, message)
        assert world.counts(queue) == (0, 0, 0)


def test_receive_count_and_first_receive_time(world: World) -> None:
    world.create("q", visibility_ms=SECOND)
    world.send("q", "m")
    world.advance(3 * SECOND)
    (first,) = world.receive("q")
    assert (first.receives, first.first_received_ms) == (1, world.clock.wall_ms())
    world.advance(5 * SECOND)
    (second,) = world.receive("q")
    assert (second.receives, second.first_received_ms) == (2, first.first_received_ms)
    world.crash()
    world.advance(5 * SECOND)
    (third,) = world.receive("q")
    assert (third.receives, third.first_received_ms) == (3, first.first_received_ms)
    assert third.content.sent_ms == first.content.sent_ms


def test_the_deadline_of_a_hidden_message_survives_a_crash(world: World) -> None:
    world.create("q", visibility_ms=MINUTE)
    world.send("q", "m")
    world.receive("q")
    world.advance(MINUTE - SECOND)
    world.crash()
    assert world.bodies("q") == []
    world.advance(SECOND)
    assert world.bodies("q") == ["m"]
