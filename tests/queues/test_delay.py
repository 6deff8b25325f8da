"""Delays: per queue and per message on a standard queue, per queue only on FIFO."""

from __future__ import annotations

from penstock.limits import MINUTE, SECOND
from queues.harness import Queues


def test_the_delay_of_the_queue(queues: Queues) -> None:
    queues.create("q", delay_ms=5 * SECOND)
    queues.send("q", "m")
    assert queues.counts("q") == (0, 0, 1)
    queues.advance(5 * SECOND - 1)
    assert queues.bodies("q") == []
    queues.advance(1)
    assert queues.bodies("q") == ["m"]


def test_the_delay_of_the_message_wins_even_if_it_is_zero(queues: Queues) -> None:
    queues.create("q", delay_ms=MINUTE)
    queues.send("q", "now", delay_ms=0)
    queues.send("q", "soon", delay_ms=SECOND)
    assert queues.bodies("q") == ["now"]
    queues.advance(SECOND)
    assert queues.bodies("q") == ["soon"]


def test_standard_a_new_delay_is_not_retroactive(queues: Queues) -> None:
    queues.create("q", delay_ms=MINUTE)
    queues.send("q", "old")
    queues.configure("q", delay_ms=0)
    assert queues.bodies("q") == []
    queues.send("q", "new")
    assert queues.bodies("q") == ["new"]
    queues.advance(MINUTE)
    assert queues.bodies("q", 1) == ["old"]


def test_delayed_messages_page_and_come_in_time(queues: Queues) -> None:
    queues.create("q")
    for i in range(30):
        queues.send("q", f"m{i}", delay_ms=(30 - i) * SECOND)
    assert queues.counts("q") == (0, 0, 30)
    for i in reversed(range(30)):
        queues.advance(SECOND)
        assert queues.bodies("q") == [f"m{i}"]


def test_thousands_due_in_the_same_millisecond(queues: Queues) -> None:
    queues.create("q")
    sent = [f"m{i}" for i in range(200)]
    for i in range(0, 200, 10):
        queues.send_all("q", *sent[i : i + 10], delay_ms=15 * MINUTE)
    queues.advance(15 * MINUTE - 1)
    assert queues.bodies("q") == []
    queues.advance(1)
    assert sorted(queues.drain("q", visibility_ms=MINUTE)) == sorted(sent)


def test_delays_survive_a_crash(queues: Queues) -> None:
    queues.create("q")
    for i in range(12):
        queues.send("q", f"m{i}", delay_ms=(i + 1) * SECOND)
    queues.advance(3 * SECOND)
    queues.reload()
    assert queues.counts("q") == (3, 0, 9)
    assert sorted(queues.drain("q", visibility_ms=MINUTE)) == ["m0", "m1", "m2"]
    queues.advance(9 * SECOND)
    assert sorted(queues.drain("q", visibility_ms=MINUTE)) == sorted(f"m{i}" for i in range(3, 12))


def test_a_delayed_message_does_not_hold_up_the_others(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "later", delay_ms=SECOND)
    queues.send("q", "now")
    assert queues.bodies("q") == ["now"]


def test_fifo_the_delay_of_the_queue_holds_for_each_message(queues: Queues) -> None:
    queues.create("q.fifo", delay_ms=5 * SECOND)
    queues.send("q.fifo", "first", group="g")
    queues.advance(2 * SECOND)
    queues.send("q.fifo", "second", group="g")
    assert queues.counts("q.fifo") == (0, 0, 2)
    queues.advance(3 * SECOND)
    assert queues.bodies("q.fifo") == ["first"]
    assert queues.counts("q.fifo") == (0, 1, 1)
    queues.advance(2 * SECOND)
    assert queues.bodies("q.fifo") == []


def test_fifo_a_new_delay_is_retroactive(queues: Queues) -> None:
    queues.create("q.fifo", delay_ms=MINUTE)
    queues.send("q.fifo", "m", group="g")
    queues.configure("q.fifo", delay_ms=0)
    assert queues.bodies("q.fifo") == ["m"]


def test_fifo_a_longer_delay_is_retroactive_too(queues: Queues) -> None:
    queues.create("q.fifo")
    queues.send("q.fifo", "m", group="g")
    queues.configure("q.fifo", delay_ms=10 * SECOND)
    assert queues.bodies("q.fifo") == []
    assert queues.counts("q.fifo") == (0, 0, 1)
    queues.advance(10 * SECOND)
    assert queues.bodies("q.fifo") == ["m"]


def test_fifo_a_delayed_message_does_not_block_the_earlier_ones_of_its_group(queues: Queues) -> None:
    queues.create("q.fifo", delay_ms=5 * SECOND)
    queues.send("q.fifo", "first", group="g")
    queues.advance(4 * SECOND)
    queues.send("q.fifo", "second", group="g")
    queues.advance(SECOND)
    (first,) = queues.receive("q.fifo")
    assert first.content.body == "first"
    queues.delete("q.fifo", first)
    queues.advance(4 * SECOND)
    assert queues.bodies("q.fifo") == ["second"]
