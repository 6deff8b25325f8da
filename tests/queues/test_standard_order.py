"""Standard queues: the order in which messages come, and who comes behind."""

from __future__ import annotations

from sim.world import SECOND, World


def test_messages_come_in_the_order_they_were_sent(world: World) -> None:
    world.create("q")
    sent = [f"m{i}" for i in range(40)]
    world.send_all("q", *sent[:25])
    world.send_all("q", *sent[25:])
    assert world.drain("q") == sent


def test_order_survives_a_crash(world: World) -> None:
    world.create("q")
    sent = [f"m{i}" for i in range(20)]
    world.send_all("q", *sent)
    world.crash()
    assert world.drain("q") == sent


def test_one_receive_gives_as_many_as_asked_when_memory_has_them(roomy: World) -> None:
    roomy.create("q")
    roomy.send_all("q", *"abcdefghijkl")
    assert roomy.bodies("q", 10) == list("abcdefghij")
    assert roomy.bodies("q", 1) == ["k"]


def test_a_message_that_comes_back_takes_its_old_place(world: World) -> None:
    world.create("q")
    world.send_all("q", "first", "second", "third")
    assert world.bodies("q", 1, visibility_ms=SECOND) == ["first"]
    world.advance(SECOND)
    assert world.drain("q") == ["first", "second", "third"]


def test_from_the_third_receive_on_a_message_goes_behind(world: World) -> None:
    world.create("q")
    world.send_all("q", "tired", "fresh", "fresher")
    for _ in range(3):
        assert world.bodies("q", 1, visibility_ms=SECOND) == ["tired"]
        world.advance(SECOND)
    assert world.drain("q") == ["fresh", "fresher", "tired"]


def test_the_place_behind_survives_a_crash(world: World) -> None:
    world.create("q")
    world.send_all("q", "tired", "fresh")
    for _ in range(3):
        world.receive("q", 1, visibility_ms=SECOND)
        world.advance(SECOND)
    world.crash()
    assert world.drain("q") == ["fresh", "tired"]


def test_groups_on_a_standard_queue_never_lock(world: World) -> None:
    world.create("q")
    world.send_all("q", "one", "two", group="tenant")
    assert world.bodies("q", 1) == ["one"]
    (second,) = world.receive("q", 1)
    assert (second.content.body, second.group, second.sequence) == ("two", "tenant", None)


def test_three_disjoint_counters(world: World) -> None:
    world.create("q")
    assert world.counts("q") == (0, 0, 0)
    world.send_all("q", *"abcdef")
    world.send_all("q", "x", "y", delay_ms=10 * SECOND)
    world.receive("q", 1)
    assert world.counts("q") == (5, 1, 2)
    world.crash()
    assert world.counts("q") == (5, 1, 2)
    world.advance(10 * SECOND)
    world.counts("q")
    assert world.counts("q") == (7, 1, 0)


def test_message_ids_differ_and_have_the_form_of_a_uuid(roomy: World) -> None:
    roomy.create("q")
    ids = {sent.id for _ in range(20) for sent in roomy.send_all("q", *"0123456789")}
    assert len(ids) == 200
    assert all(len(id) == 36 and id[14] == "4" and id[19] in "89ab" for id in ids)
