"""FIFO: a receive repeated with the same ReceiveRequestAttemptId gives the same answer again."""

from __future__ import annotations

from penstock.limits import MINUTE, SECOND
from penstock.queues.messages import Received
from queues.harness import Queues

Q = "q.fifo"


def start(queues: Queues) -> list[Received]:
    queues.create(Q)
    queues.send_all(Q, "a", "b", "c", group="g")
    queues.send("q.fifo", "d", group="h")
    return queues.receive(Q, 2, attempt_id="try", visibility_ms=MINUTE)


def test_the_same_messages_and_handles_hidden_again(queues: Queues) -> None:
    first = start(queues)
    queues.advance(50 * SECOND)
    assert queues.receive(Q, 2, attempt_id="try", visibility_ms=MINUTE) == first
    queues.advance(50 * SECOND)
    queues.delete(Q, *first)


def test_another_id_is_another_receive(queues: Queues) -> None:
    first = start(queues)
    other = queues.receive(Q, 2, attempt_id="other")
    assert {m.content.body for m in other}.isdisjoint(m.content.body for m in first)


def test_not_after_one_was_deleted(queues: Queues) -> None:
    first = start(queues)
    queues.delete(Q, first[0])
    again = queues.receive(Q, 2, attempt_id="try")
    assert first[0].content.body not in [m.content.body for m in again]
    assert again != first


def test_not_after_one_was_changed(queues: Queues) -> None:
    first = start(queues)
    queues.advance(SECOND)
    queues.change(Q, first[0], MINUTE)
    assert queues.receive(Q, 2, attempt_id="try") != first


def test_not_after_they_became_visible(queues: Queues) -> None:
    first = start(queues)
    queues.advance(MINUTE)
    again = queues.receive(Q, 1, attempt_id="try")
    assert again[0].receives in (1, 2)
    assert again != first


def test_not_after_five_minutes(queues: Queues) -> None:
    queues.create(Q)
    queues.send(Q, "a", group="g")
    first = queues.receive(Q, 1, attempt_id="try", visibility_ms=10 * MINUTE)
    queues.advance(5 * MINUTE - 1)
    assert queues.receive(Q, 1, attempt_id="try", visibility_ms=10 * MINUTE) == first
    queues.advance(5 * MINUTE)
    assert queues.receive(Q, 1, attempt_id="try") == []


def test_a_standard_queue_ignores_it(queues: Queues) -> None:
    queues.create("q")
    queues.send_all("q", "a", "b")
    assert queues.bodies("q", 1, attempt_id="try") == ["a"]
    assert queues.bodies("q", 1, attempt_id="try") == ["b"]
