"""FIFO: a send that is repeated within five minutes is taken once."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest

from penstock.errors import DedupFull
from penstock.limits import MINUTE, SECOND
from penstock.queues.deduplication import SendDigests, content_id
from penstock.queues.messages import Attribute
from queues.harness import Queues, outgoing
from support.world import ROOMY

Q = "q.fifo"


def test_a_duplicate_answers_as_the_first_send_did(queues: Queues) -> None:
    queues.create(Q)
    first = queues.send(Q, "one", group="g", dedup_id="d")
    again = queues.send(Q, "another body", group="g", dedup_id="d")
    assert again == first
    assert queues.drain(Q) == ["one"]


def test_the_window_is_five_minutes_from_the_first_send_and_duplicates_do_not_extend_it(
    queues: Queues,
) -> None:
    queues.create(Q)
    first = queues.send(Q, "m", group="g", dedup_id="d")
    queues.advance(4 * MINUTE)
    assert queues.send(Q, "m", group="g", dedup_id="d") == first
    queues.advance(MINUTE - 1)
    assert queues.send(Q, "m", group="g", dedup_id="d") == first
    queues.advance(1)
    assert queues.send(Q, "m", group="g", dedup_id="d") != first


def test_it_survives_receive_and_delete(queues: Queues) -> None:
    queues.create(Q)
    first = queues.send(Q, "m", group="g", dedup_id="d")
    queues.delete(Q, *queues.receive(Q))
    assert queues.send(Q, "m", group="g", dedup_id="d") == first
    assert queues.counts(Q) == (0, 0, 0)


def test_it_survives_a_crash(queues: Queues) -> None:
    queues.create(Q)
    first = queues.send(Q, "m", group="g", dedup_id="d")
    queues.advance(2 * MINUTE)
    queues.reload()
    assert queues.send(Q, "m", group="g", dedup_id="d") == first
    queues.advance(3 * MINUTE)
    queues.reload()
    assert queues.send(Q, "m", group="g", dedup_id="d") != first


def test_it_does_not_survive_a_purge(queues: Queues) -> None:
    queues.create(Q)
    first = queues.send(Q, "m", group="g", dedup_id="d")
    queues.purge(Q)
    second = queues.send(Q, "m", group="g", dedup_id="d")
    assert second != first
    queues.reload()
    assert queues.send(Q, "m", group="g", dedup_id="d") == second
    assert queues.drain(Q) == ["m"]


def test_without_an_id_the_body_stands_for_it_whatever_the_attributes(queues: Queues) -> None:
    queues.create(Q, content_dedup=True)
    first = queues.send(Q, "same", group="g")
    again = queues.send(Q, "same", group="g", attributes={"a": Attribute("String", "x")})
    assert again == first
    assert queues.send(Q, "other", group="g") != first


def test_the_id_made_of_the_body_is_its_sha256(queues: Queues) -> None:
    queues.create(Q, content_dedup=True)
    queues.send(Q, "same", group="g")
    (message,) = queues.receive(Q)
    assert message.content.dedup_id is not None
    assert message.content.dedup_id.startswith("0967115f") and message.content.dedup_id.endswith("b5d5")


def test_an_explicit_id_wins_over_the_body(queues: Queues) -> None:
    queues.create(Q, content_dedup=True)
    first = queues.send(Q, "same", group="g", dedup_id="a")
    assert queues.send(Q, "same", group="g", dedup_id="b") != first
    assert queues.drain(Q) == ["same", "same"]


def test_scope_queue_the_same_id_in_another_group_is_a_duplicate(queues: Queues) -> None:
    queues.create(Q)
    assert queues.send(Q, "m", group="g1", dedup_id="d") == queues.send(Q, "m", group="g2", dedup_id="d")


def test_scope_group_the_same_id_in_another_group_is_none(queues: Queues) -> None:
    queues.create(Q, dedup_scope="messageGroup")
    first = queues.send(Q, "m", group="g1", dedup_id="d")
    assert queues.send(Q, "m", group="g2", dedup_id="d") != first
    assert queues.send(Q, "m", group="g1", dedup_id="d") == first
    assert queues.counts(Q) == (2, 0, 0)


def test_a_duplicate_within_one_batch(queues: Queues) -> None:
    queues.create(Q)
    first, again = queues.send_messages(
        Q, outgoing("a", group="g", dedup_id="d"), outgoing("b", group="g", dedup_id="d")
    )
    assert first == again
    assert queues.drain(Q) == ["a"]


def test_the_memory_has_a_limit_and_frees_itself() -> None:
    queues = Queues(msgspec.structs.replace(ROOMY, dedup_entries_max=3))
    queues.create(Q)
    for i in range(3):
        queues.send(Q, f"m{i}", group="g")
    with pytest.raises(DedupFull):
        queues.send(Q, "m3", group="g")
    queues.advance(5 * MINUTE + SECOND)
    queues.send(Q, "m3", group="g")
    assert queues.counts(Q) == (4, 0, 0)


def test_an_account_cannot_use_up_the_memory_of_another() -> None:
    queues = Queues(msgspec.structs.replace(ROOMY, dedup_entries_max=3))
    queues.create("greedy.fifo", account="111111111111")
    queues.create("other.fifo", account="222222222222")
    queues.send_all("greedy.fifo", "a", "b", "c", group="g")
    with pytest.raises(DedupFull):
        queues.send("greedy.fifo", "d", group="g")
    queues.send_all("other.fifo", "a", "b", "c", group="g")


def test_at_the_total_every_account_still_has_an_equal_share() -> None:
    limits = msgspec.structs.replace(ROOMY, dedup_entries_max=4, dedup_entries_total_max=6)
    queues = Queues(limits)
    for digit in "123":
        queues.create(f"{digit}.fifo", account=digit * 12)
    queues.send_all("1.fifo", "a", "b", "c", "d", group="g")
    queues.send_all("2.fifo", "a", "b", "c", group="g")
    with pytest.raises(DedupFull):
        queues.send("2.fifo", "d", group="g")
    queues.send_all("3.fifo", "a", "b", group="g")
    with pytest.raises(DedupFull):
        queues.send("3.fifo", "c", group="g")


def test_digests_are_keyed_so_that_bodies_cannot_be_guessed() -> None:
    body = content_id("PIN 4711")
    ours, theirs = SendDigests(b"k" * 32), SendDigests(b"l" * 32)
    assert ours(body, None) == SendDigests(b"k" * 32)(body, None)
    assert ours(body, None) != theirs(body, None)
    assert ours("d", "g") != ours("d", None) != ours("d", "h")
    assert len(ours("d", "g")) == 16
    assert ours(body, None) != blake2b(body.encode(), digest_size=16).digest()
