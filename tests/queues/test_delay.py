"""Delays: per queue and per message on a standard queue, per queue only on FIFO."""

from __future__ import annotations

from penstock.limits import MINUTE
from sim.world import SECOND, World


def test_the_delay_of_the_queue(world: World) -> None:
    world.create("q", delay_ms=5 * SECOND)
    world.send("q", "m")
    assert world.counts("q") == (0, 0, 1)
    world.advance(5 * SECOND - 1)
    assert world.bodies("q") == []
    world.advance(1)
    assert world.bodies("q") == ["m"]


def test_the_delay_of_the_message_wins_even_if_it_is_zero(world: World) -> None:
    world.create("q", delay_ms=MINUTE)
    world.send("q", "now", delay_ms=0)
    world.send("q", "soon", delay_ms=SECOND)
    assert world.bodies("q") == ["now"]
    world.advance(SECOND)
    assert world.bodies("q") == ["soon"]


def test_standard_a_new_delay_is_not_retroactive(world: World) -> None:
    world.create("q", delay_ms=MINUTE)
    world.send("q", "old")
    world.configure("q", delay_ms=0)
    assert world.bodies("q") == []
    world.send("q", "new")
    assert world.bodies("q") == ["new"]
    world.advance(MINUTE)
    assert world.bodies("q", 1) == ["old"]


def test_delayed_messages_page_and_come_in_time(world: World) -> None:
    world.create("q")
    for i in range(30):
        world.send("q", f"m{i}", delay_ms=(30 - i) * SECOND)
    assert world.counts("q") == (0, 0, 30)
    for i in reversed(range(30)):
        world.advance(SECOND)
        assert world.bodies("q") == [f"m{i}"]


def test_thousands_due_in_the_same_millisecond(world: World) -> None:
    world.create("q")
    sent = [f"m{i}" for i in range(200)]
    for i in range(0, 200, 10):
        world.send_all("q", *sent[i : i + 10], delay_ms=15 * MINUTE)
    world.advance(15 * MINUTE - 1)
    assert world.bodies("q") == []
    world.advance(1)
    assert sorted(world.drain("q", visibility_ms=MINUTE)) == sorted(sent)


def test_delays_survive_a_crash(world: World) -> None:
    world.create("q")
    for i in range(12):
        world.send("q", f"m{i}", delay_ms=(i + 1) * SECOND)
    world.advance(3 * SECOND)
    world.crash()
    assert world.counts("q") == (3, 0, 9)
    assert sorted(world.drain("q", visibility_ms=MINUTE)) == ["m0", "m1", "m2"]
    world.advance(9 * SECOND)
    assert sorted(world.drain("q", visibility_ms=MINUTE)) == sorted(f"m{i}" for i in range(3, 12))


def test_a_delayed_message_does_not_hold_up_the_others(world: World) -> None:
    world.create("q")
    world.send("q", "later", delay_ms=SECOND)
    world.send("q", "now")
    assert world.bodies("q") == ["now"]


def test_fifo_the_delay_of_the_queue_holds_for_each_message(world: World) -> None:
    world.create("q.fifo", delay_ms=5 * SECOND)
    world.send("q.fifo", "first", group="g")
    world.advance(2 * SECOND)
    world.send("q.fifo", "second", group="g")
    assert world.counts("q.fifo") == (0, 0, 2)
    world.advance(3 * SECOND)
    assert world.bodies("q.fifo") == ["first"]
    assert world.counts("q.fifo") == (0, 1, 1)
    world.advance(2 * SECOND)
    assert world.bodies("q.fifo") == []


def test_fifo_a_new_delay_is_retroactive(world: World) -> None:
    world.create("q.fifo", delay_ms=MINUTE)
    world.send("q.fifo", "m", group="g")
    world.configure("q.fifo", delay_ms=0)
    assert world.bodies("q.fifo") == ["m"]


def test_fifo_a_longer_delay_is_retroactive_too(world: World) -> None:
    world.create("q.fifo")
    world.send("q.fifo", "m", group="g")
    world.configure("q.fifo", delay_ms=10 * SECOND)
    assert world.bodies("q.fifo") == []
    assert world.counts("q.fifo") == (0, 0, 1)
    world.advance(10 * SECOND)
    assert world.bodies("q.fifo") == ["m"]


def test_fifo_a_delayed_message_does_not_block_the_earlier_ones_of_its_group(world: World) -> None:
    world.create("q.fifo", delay_ms=5 * SECOND)
    world.send("q.fifo", "first", group="g")
    world.advance(4 * SECOND)
    world.send("q.fifo", "second", group="g")
    world.advance(SECOND)
    (first,) = world.receive("q.fifo")
    assert first.content.body == "first"
    world.delete("q.fifo", first)
    world.advance(4 * SECOND)
    assert world.bodies("q.fifo") == ["second"]
