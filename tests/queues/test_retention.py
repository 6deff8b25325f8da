"""Retention: a message goes when its time is over, wherever it is."""

from __future__ import annotations

import pytest

from penstock.limits import DAY, HOUR, MINUTE, SECOND
from queues.harness import Queues

KINDS = pytest.mark.parametrize("queue", ["q", "q.fifo"])


@KINDS
def test_a_waiting_message_goes(queues: Queues, queue: str) -> None:
    queues.create(queue, retention_ms=MINUTE)
    queues.send(queue, "m", group="g")
    queues.advance(MINUTE - 1)
    assert queues.counts(queue) == (1, 0, 0)
    queues.advance(1)
    assert queues.bodies(queue) == []
    assert queues.counts(queue) == (0, 0, 0)


@KINDS
def test_a_message_in_flight_goes_too_and_its_delete_succeeds(queues: Queues, queue: str) -> None:
    queues.create(queue, retention_ms=MINUTE)
    queues.send(queue, "m", group="g")
    (message,) = queues.receive(queue, visibility_ms=HOUR)
    queues.advance(MINUTE)
    assert queues.counts(queue) == (0, 0, 0)
    queues.delete(queue, message)
    queues.advance(HOUR)
    assert queues.bodies(queue) == []


def test_a_delayed_message_goes_too(queues: Queues) -> None:
    queues.create("q", retention_ms=MINUTE)
    queues.send("q", "m", delay_ms=15 * MINUTE)
    queues.advance(MINUTE)
    assert queues.counts("q") == (0, 0, 0)
    queues.advance(15 * MINUTE)
    assert queues.bodies("q") == []


def test_delayed_messages_that_only_the_store_has_go_too(queues: Queues) -> None:
    queues.create("q", retention_ms=MINUTE)
    for number in range(40):
        queues.send("q", str(number), delay_ms=15 * MINUTE)
    assert queues.counts("q") == (0, 0, 40)
    queues.advance(MINUTE)
    assert queues.bodies("q") == []
    assert queues.counts("q") == (0, 0, 0)
    queues.send("q", "later", delay_ms=SECOND)
    assert queues.counts("q") == (0, 0, 1)


@KINDS
def test_a_message_that_comes_back_is_as_old_as_it_was(queues: Queues, queue: str) -> None:
    queues.create(queue, retention_ms=MINUTE)
    queues.send(queue, "m", group="g")
    queues.receive(queue, visibility_ms=40 * SECOND)
    queues.advance(40 * SECOND)
    queues.receive(queue, visibility_ms=10 * SECOND)
    queues.advance(20 * SECOND)
    assert queues.bodies(queue) == []


@KINDS
def test_a_new_retention_is_retroactive(queues: Queues, queue: str) -> None:
    queues.create(queue)
    queues.send(queue, "old", group="g")
    queues.advance(2 * MINUTE)
    queues.send(queue, "young", group="g")
    queues.configure(queue, retention_ms=MINUTE)
    assert queues.drain(queue) == ["young"]


@KINDS
def test_what_a_receive_finds_too_old_is_removed_for_good(queues: Queues, queue: str) -> None:
    queues.create(queue, retention_ms=MINUTE)
    queues.advance(SECOND)
    queues.send(queue, "m", group="g")
    queues.advance(MINUTE)
    assert queues.receive(queue) == []
    assert not queues.rows


def test_the_default_is_four_days(queues: Queues) -> None:
    queues.create("q")
    queues.send("q", "m")
    queues.advance(4 * DAY - 1)
    assert queues.bodies("q", visibility_ms=0) == ["m"]
    queues.advance(1)
    assert queues.bodies("q") == []


def test_an_expired_fifo_head_frees_its_group(queues: Queues) -> None:
    queues.create("q.fifo", retention_ms=MINUTE)
    queues.send("q.fifo", "head", group="g")
    queues.receive("q.fifo", visibility_ms=HOUR)
    queues.advance(30 * SECOND)
    queues.send("q.fifo", "next", group="g")
    assert queues.bodies("q.fifo") == []
    queues.advance(30 * SECOND)
    assert queues.bodies("q.fifo") == ["next"]
