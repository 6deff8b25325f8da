"""When messages are extended, together with which others, for how long, and when they are lost."""

from __future__ import annotations

from penstock.client.consumer.claims import Claim, HeldClaims

HOUR = 3600.0


def seconds(due: list[tuple[Claim, int]]) -> dict[str, int]:
    return {claim.message: each for claim, each in due}


def extend(claims: HeldClaims, now: float) -> dict[str, int]:
    """What a server that answers at once would do."""
    due = claims.due(now)
    for claim, each in due:
        claims.extended(claim, each, now)
    return seconds(due)


def test_extended_at_half_of_the_visibility_timeout() -> None:
    claims = HeldClaims(30, HOUR)
    claim = claims.take("a", 100.0)
    assert claims.next_at() == 115
    assert claims.due(114.9) == []
    assert extend(claims, 115.0) == {"a": 30}
    assert (claim.until, claims.next_at()) == (145, 130)


def test_what_is_due_soon_is_extended_in_the_same_request() -> None:
    claims = HeldClaims(30, HOUR)
    for name, at in (("a", 0.0), ("b", 3.0), ("c", 10.0)):
        claims.take(name, at)
    assert extend(claims, 15.0) == {"a": 30, "b": 30}
    assert extend(claims, 25.0) == {"c": 30}


def test_not_extended_beyond_the_maximum() -> None:
    claims = HeldClaims(30, 50)
    claim = claims.take("a", 0.0)
    assert extend(claims, 15.0) == {"a": 30}
    assert extend(claims, 30.0) == {"a": 20}, "until second 50"
    assert extend(claims, 40.0) == {}
    assert claims.next_at() == claim.until == 50
    assert claims.ended(49.9) == []
    assert claims.ended(50.0) == [claim] and claim.is_lost


def test_the_time_that_a_message_waits_does_not_count_for_its_handler() -> None:
    claims = HeldClaims(30, 50)
    claim = claims.take("a", 0.0)
    extend(claims, 15.0)
    extend(claims, 30.0)
    extend(claims, 40.0)  # no more to have
    claims.begin(claim, 45.0)
    assert extend(claims, 45.0) == {"a": 30}
    assert claim.end_at == 95


def test_a_handler_asks_for_more_time() -> None:
    claims = HeldClaims(30, 50)
    claim = claims.take("a", 0.0)
    claims.begin(claim, 0.0)
    claims.extend(claim, 100, 20.0)
    assert claim.end_at == 120
    claims.extend(claim, 1, 20.0)
    assert claim.end_at == 120, "never less"
    claims.extend(claim, 1e6, 20.0)
    assert claim.end_at < 43_200, "SQS: twelve hours in all"


def test_without_heartbeats_only_what_the_handler_asks_for_is_extended() -> None:
    claims = HeldClaims(30, HOUR, heartbeat=False)
    claim = claims.take("a", 0.0)
    assert claims.next_at() == 30 and claims.due(20.0) == []
    claims.extend(claim, 5, 20.0)
    assert claims.due(20.0) == [], "it has them"
    claims.extend(claim, 90, 20.0)
    assert extend(claims, 20.0) == {"a": 90}
    assert claims.next_at() == claim.until == 110


def test_a_request_without_an_answer_is_repeated_until_the_message_is_lost() -> None:
    claims = HeldClaims(30, HOUR)
    claim = claims.take("a", 0.0)
    now, tries = 0.0, 0
    while not claims.ended(now):
        now = claims.next_at()
        if due := claims.due(now):
            tries += 1
            claims.not_extended([claim for claim, _ in due], now)
    assert now == 30.0 and 5 < tries < 40
    assert claim.is_lost and len(claims) == 0 and claims.next_at() == float("inf")


def test_a_late_answer_counts_from_when_it_was_asked_for() -> None:
    claims = HeldClaims(30, HOUR)
    claim = claims.take("a", 0.0)
    claims.extended(claim, 30, asked_at=15.0)  # answered at second 29
    assert claim.until == 45


def test_a_message_that_the_queue_refuses_is_lost() -> None:
    claims = HeldClaims(30, HOUR)
    claim, other = claims.take("a", 0.0), claims.take("b", 0.0)
    claims.refused(claim)
    assert claim.is_lost and not claims.release(claim)
    assert claims.release(other) and not other.is_lost


def test_what_is_settled_is_not_extended() -> None:
    claims = HeldClaims(30, HOUR)
    assert claims.release(claims.take("a", 0.0))
    assert claims.due(100.0) == [] and claims.ended(100.0) == []
