"""Visibility: how long a received message is hidden, by whom that is set, and what a handle can do."""

from __future__ import annotations

import msgspec
import pytest

from penstock.errors import HandleExpired, HandleInvalid, MessageNotAvailable, VisibilityTooLong
from penstock.limits import HOUR, MINUTE, SECOND
from queues.harness import Queues


def test_the_queues_own_visibility_is_used_when_the_receive_names_none(queues: Queues) -> None:
    queues.create("q", visibility_ms=7 * SECOND)
    queues.send("q", "m")
    assert queues.bodies("q") == ["m"]
    queues.advance(7 * SECOND - 1)
    assert queues.bodies("q") == []
    queues.advance(1)
    assert queues.bodies("q") == ["m"]


def test_the_receive_may_name_another(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "m")
    assert queues.bodies("q", visibility_ms=90 * SECOND) == ["m"]
    queues.advance(90 * SECOND - 1)
    assert queues.bodies("q") == []
    queues.advance(1)
    assert queues.bodies("q") == ["m"]


def test_a_new_setting_counts_for_the_next_receive(queues: Queues) -> None:
    queues.create("q", visibility_ms=5 * SECOND)
    queues.send("q", "m")
    queues.receive("q")
    queues.configure("q", visibility_ms=HOUR)
    queues.advance(5 * SECOND)
    assert queues.bodies("q") == ["m"]
    queues.advance(MINUTE)
    assert queues.bodies("q") == []


def test_zero_delivers_counts_and_leaves_visible(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "m")
    counts = [queues.receive("q", visibility_ms=0)[0].receives for _ in range(3)]
    assert counts == [1, 2, 3]
    assert queues.counts("q") == (1, 0, 0)


def test_zero_gives_no_message_twice_in_one_answer(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "a", "b")
    assert sorted(queues.bodies("q", 10, visibility_ms=0)) in (["a", "b"], ["a"])


def test_change_to_zero_shows_at_once(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "m")
    (message,) = queues.receive("q")
    queues.change("q", message, 0)
    assert queues.bodies("q") == ["m"]


def test_change_counts_from_the_call(queues: Queues) -> None:
    queues.create("q", visibility_ms=10 * SECOND)
    queues.send("q", "m")
    (message,) = queues.receive("q")
    queues.advance(8 * SECOND)
    queues.change("q", message, 10 * SECOND)
    queues.advance(10 * SECOND - 1)
    assert queues.bodies("q") == []
    queues.advance(1)
    assert queues.bodies("q") == ["m"]


def test_change_can_shorten(queues: Queues) -> None:
    queues.create("q", visibility_ms=HOUR)
    queues.send("q", "m")
    (message,) = queues.receive("q")
    queues.change("q", message, SECOND)
    queues.advance(SECOND)
    assert queues.bodies("q") == ["m"]


def test_a_change_applies_once(queues: Queues) -> None:
    queues.create("q", visibility_ms=5 * SECOND)
    queues.send("q", "m")
    (message,) = queues.receive("q")
    queues.change("q", message, MINUTE)
    queues.advance(MINUTE)
    assert queues.bodies("q") == ["m"]
    queues.advance(5 * SECOND)
    assert queues.bodies("q") == ["m"]


def test_a_message_is_hidden_for_twelve_hours_in_total_at_most(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "m")
    (message,) = queues.receive("q", visibility_ms=12 * HOUR)
    queues.advance(SECOND)
    queues.change("q", message, 12 * HOUR - SECOND)
    with pytest.raises(VisibilityTooLong):
        queues.change("q", message, 12 * HOUR - SECOND + 1)
    queues.advance(HOUR)
    queues.change("q", message, 11 * HOUR - SECOND)
    with pytest.raises(VisibilityTooLong):
        queues.change("q", message, 11 * HOUR)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_change_of_a_deleted_message(queues: Queues, queue: str) -> None:
    queues.create(queue)
    queues.send(queue, "m", group="g")
    (message,) = queues.receive(queue)
    queues.delete(queue, message)
    with pytest.raises(MessageNotAvailable):
        queues.change(queue, message, 10)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_delete_is_idempotent(queues: Queues, queue: str) -> None:
    queues.create(queue)
    queues.send(queue, "m", group="g")
    (message,) = queues.receive(queue)
    queues.delete(queue, message)
    queues.delete(queue, message)
    queues.reload()
    queues.delete(queue, message)
    assert queues.counts(queue) == (0, 0, 0)


def test_standard_an_expired_handle_still_deletes(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send_all("q", *"abcdefgh")
    received = [queues.receive("q", 1)[0] for _ in range(8)]
    queues.advance(2 * SECOND)
    queues.delete("q", received[0], received[7])
    queues.counts("q")
    assert sorted(queues.drain("q", visibility_ms=HOUR)) == list("bcdefg")


def test_standard_a_superseded_handle_still_deletes(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "m")
    (old,) = queues.receive("q")
    queues.advance(SECOND)
    (new,) = queues.receive("q")
    assert new.handle != old.handle
    queues.delete("q", old)
    queues.advance(HOUR)
    assert queues.bodies("q") == []


def test_standard_an_expired_handle_hides_again(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "m")
    (message,) = queues.receive("q")
    queues.advance(2 * SECOND)
    queues.change("q", message, 10 * SECOND)
    assert queues.counts("q") == (0, 1, 0)
    assert queues.bodies("q") == []
    queues.advance(10 * SECOND)
    assert queues.bodies("q") == ["m"]


def test_standard_a_superseded_handle_shows_what_a_newer_receive_holds(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "m")
    (old,) = queues.receive("q")
    queues.advance(SECOND)
    queues.receive("q", visibility_ms=HOUR)
    queues.change("q", old, 0)
    assert queues.bodies("q") == ["m"]


def test_standard_a_handle_works_behind_a_paged_backlog(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "old")
    (old,) = queues.receive("q")
    queues.send_all("q", *[f"m{i}" for i in range(30)])
    queues.advance(2 * SECOND)
    queues.reload()
    queues.change("q", old, HOUR)
    assert queues.counts("q") == (30, 1, 0)
    queues.delete("q", old)
    queues.delete("q", old)
    assert queues.counts("q") == (30, 0, 0)
    assert "old" not in queues.drain("q")


def test_fifo_a_delete_needs_the_message_to_be_hidden(queues: Queues) -> None:
    queues.create("q.fifo", visibility_ms=SECOND)
    queues.send("q.fifo", "m", group="g")
    (message,) = queues.receive("q.fifo")
    queues.advance(SECOND)
    with pytest.raises(HandleExpired):
        queues.delete("q.fifo", message)
    assert queues.bodies("q.fifo") == ["m"]


def test_fifo_an_extension_counts_for_the_delete(queues: Queues) -> None:
    queues.create("q.fifo", visibility_ms=SECOND)
    queues.send("q.fifo", "m", group="g")
    (message,) = queues.receive("q.fifo")
    queues.change("q.fifo", message, MINUTE)
    queues.advance(MINUTE - 1)
    queues.delete("q.fifo", message)
    assert queues.counts("q.fifo") == (0, 0, 0)


def test_fifo_a_superseded_handle_neither_deletes_nor_changes(queues: Queues) -> None:
    queues.create("q.fifo", visibility_ms=SECOND)
    queues.send("q.fifo", "m", group="g")
    (old,) = queues.receive("q.fifo")
    queues.advance(SECOND)
    (new,) = queues.receive("q.fifo")
    with pytest.raises(HandleExpired):
        queues.delete("q.fifo", old)
    with pytest.raises(MessageNotAvailable):
        queues.change("q.fifo", old, 0)
    queues.delete("q.fifo", new)


def test_fifo_an_expired_handle_does_not_change(queues: Queues) -> None:
    queues.create("q.fifo", visibility_ms=SECOND)
    queues.send("q.fifo", "m", group="g")
    (message,) = queues.receive("q.fifo")
    queues.advance(SECOND)
    with pytest.raises(MessageNotAvailable):
        queues.change("q.fifo", message, MINUTE)


def test_handles_of_other_queues_and_made_up_ones_are_invalid(queues: Queues) -> None:
    queues.create("q")
    queues.create("other")
    queues.send("q", "m")
    (message,) = queues.receive("q")
    flipped = message.handle[:-1] + ("A" if message.handle[-1] != "A" else "B")
    for queue, handle in (
        ("other", message.handle),
        ("q", "garbage"),
        ("q", ""),
        ("q", flipped),
        ("q", "é" * 68),
    ):
        with pytest.raises(HandleInvalid):
            queues.delete(queue, msgspec.structs.replace(message, handle=handle))
    assert queues.counts("q") == (0, 1, 0)


def test_handles_from_before_a_restart_work_after_it(queues: Queues) -> None:
    queues.create("q")
    queues.create("q.fifo")
    for queue in ("q", "q.fifo"):
        queues.send(queue, "m", group="g")
    received = {queue: queues.receive(queue)[0] for queue in ("q", "q.fifo")}
    queues.reload()
    for queue, message in received.items():
        assert queues.counts(queue) == (0, 1, 0)
        queues.change(queue, message, MINUTE)
        queues.delete(queue, message)
        assert queues.counts(queue) == (0, 0, 0)


def test_receive_count_and_first_receive_time(queues: Queues) -> None:
    queues.create("q", visibility_ms=SECOND)
    queues.send("q", "m")
    queues.advance(3 * SECOND)
    (first,) = queues.receive("q")
    assert (first.receives, first.first_received_ms) == (1, queues.clock.wall_ms())
    queues.advance(5 * SECOND)
    (second,) = queues.receive("q")
    assert (second.receives, second.first_received_ms) == (2, first.first_received_ms)
    queues.reload()
    queues.advance(5 * SECOND)
    (third,) = queues.receive("q")
    assert (third.receives, third.first_received_ms) == (3, first.first_received_ms)
    assert third.content.sent_ms == first.content.sent_ms


def test_the_deadline_of_a_hidden_message_survives_a_crash(queues: Queues) -> None:
    queues.create("q", visibility_ms=MINUTE)
    queues.send("q", "m")
    queues.receive("q")
    queues.advance(MINUTE - SECOND)
    queues.reload()
    assert queues.bodies("q") == []
    queues.advance(SECOND)
    assert queues.bodies("q") == ["m"]
