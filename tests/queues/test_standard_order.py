"""Standard queues: the order in which messages come, and who comes behind."""

from __future__ import annotations

from penstock.limits import SECOND
from queues.harness import Queues


def test_messages_come_in_the_order_they_were_sent(queues: Queues) -> None:
    queues.create("q")
    sent = [f"m{i}" for i in range(40)]
    queues.send_all("q", *sent[:25])
    queues.send_all("q", *sent[25:])
    assert queues.drain("q") == sent


def test_order_survives_a_crash(queues: Queues) -> None:
    queues.create("q")
    sent = [f"m{i}" for i in range(20)]
    queues.send_all("q", *sent)
    queues.reload()
    assert queues.drain("q") == sent


def test_one_receive_gives_as_many_as_asked_when_memory_has_them(roomy: Queues) -> None:
    roomy.create("q")
    roomy.send_all("q", *"abcdefghijkl")
    assert roomy.bodies("q", 10) == list("abcdefghij")
    assert roomy.bodies("q", 1) == ["k"]


def test_a_message_that_comes_back_takes_its_old_place(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "first", "second", "third")
    assert queues.bodies("q", 1, visibility_ms=SECOND) == ["first"]
    queues.advance(SECOND)
    assert queues.drain("q") == ["first", "second", "third"]


def test_from_the_third_receive_on_a_message_goes_behind(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "tired", "fresh", "fresher")
    for _ in range(3):
        assert queues.bodies("q", 1, visibility_ms=SECOND) == ["tired"]
        queues.advance(SECOND)
    assert queues.drain("q") == ["fresh", "fresher", "tired"]


def test_the_place_behind_survives_a_crash(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "tired", "fresh")
    for _ in range(3):
        queues.receive("q", 1, visibility_ms=SECOND)
        queues.advance(SECOND)
    queues.reload()
    assert queues.drain("q") == ["fresh", "tired"]


def test_groups_on_a_standard_queue_never_lock(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "one", "two", group="tenant")
    assert queues.bodies("q", 1) == ["one"]
    (second,) = queues.receive("q", 1)
    assert (second.content.body, second.group, second.sequence) == ("two", "tenant", None)


def test_three_disjoint_counters(queues: Queues) -> None:
    queues.create("q")
    assert queues.counts("q") == (0, 0, 0)
    queues.send_all("q", *"abcdef")
    queues.send_all("q", "x", "y", delay_ms=10 * SECOND)
    queues.receive("q", 1)
    assert queues.counts("q") == (5, 1, 2)
    queues.reload()
    assert queues.counts("q") == (5, 1, 2)
    queues.advance(10 * SECOND)
    queues.counts("q")
    assert queues.counts("q") == (7, 1, 0)


def test_message_ids_differ_and_have_the_form_of_a_uuid(roomy: Queues) -> None:
    roomy.create("q")
    ids = {sent.id for _ in range(20) for sent in roomy.send_all("q", *"0123456789")}
    assert len(ids) == 200
    assert all(len(id) == 36 and id[14] == "4" and id[19] in "89ab" for id in ids)
