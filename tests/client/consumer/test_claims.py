"""When messages are extended, together with which others, for how long, and when they are lost."""

from __future__ import annotations

from penstock.client.consumer.leases import HeldLeases, Lease

HOUR = 3600.0


def seconds(due: list[tuple[Lease, int]]) -> dict[str, int]:
    return {lease.message: each for lease, each in due}


def extend(leases: HeldLeases, now: float) -> dict[str, int]:
    """What a server that answers at once would do."""
    due = leases.due(now)
    for lease, each in due:
        leases.extended(lease, each, now)
    return seconds(due)


def test_extended_at_half_of_the_visibility_timeout() -> None:
    leases = HeldLeases(30, HOUR)
    lease = leases.take("a", 100.0)
    assert leases.next_at() == 115
    assert leases.due(114.9) == []
    assert extend(leases, 115.0) == {"a": 30}
    assert (lease.until, leases.next_at()) == (145, 130)


def test_what_is_due_soon_is_extended_in_the_same_request() -> None:
    leases = HeldLeases(30, HOUR)
    for name, at in (("a", 0.0), ("b", 3.0), ("c", 10.0)):
        leases.take(name, at)
    assert extend(leases, 15.0) == {"a": 30, "b": 30}
    assert extend(leases, 25.0) == {"c": 30}


def test_not_extended_beyond_the_maximum() -> None:
    leases = HeldLeases(30, 50)
    lease = leases.take("a", 0.0)
    assert extend(leases, 15.0) == {"a": 30}
    assert extend(leases, 30.0) == {"a": 20}, "until second 50"
    assert extend(leases, 40.0) == {}
    assert leases.next_at() == lease.until == 50
    assert leases.ended(49.9) == []
    assert leases.ended(50.0) == [lease] and lease.is_lost


def test_the_time_that_a_message_waits_does_not_count_for_its_handler() -> None:
    leases = HeldLeases(30, 50)
    lease = leases.take("a", 0.0)
    extend(leases, 15.0)
    extend(leases, 30.0)
    extend(leases, 40.0)  # no more to have
    leases.begin(lease, 45.0)
    assert extend(leases, 45.0) == {"a": 30}
    assert lease.end_at == 95


def test_a_handler_asks_for_more_time() -> None:
    leases = HeldLeases(30, 50)
    lease = leases.take("a", 0.0)
    leases.begin(lease, 0.0)
    leases.extend(lease, 100, 20.0)
    assert lease.end_at == 120
    leases.extend(lease, 1, 20.0)
    assert lease.end_at == 120, "never less"
    leases.extend(lease, 1e6, 20.0)
    assert lease.end_at < 43_200, "SQS: twelve hours in all"


def test_without_heartbeats_only_what_the_handler_asks_for_is_extended() -> None:
    leases = HeldLeases(30, HOUR, heartbeat=False)
    lease = leases.take("a", 0.0)
    assert leases.next_at() == 30 and leases.due(20.0) == []
    leases.extend(lease, 5, 20.0)
    assert leases.due(20.0) == [], "it has them"
    leases.extend(lease, 90, 20.0)
    assert extend(leases, 20.0) == {"a": 90}
    assert leases.next_at() == lease.until == 110


def test_a_request_without_an_answer_is_repeated_until_the_message_is_lost() -> None:
    leases = HeldLeases(30, HOUR)
    lease = leases.take("a", 0.0)
    now, tries = 0.0, 0
    while not leases.ended(now):
        now = leases.next_at()
        if due := leases.due(now):
            tries += 1
            leases.not_extended([lease for lease, _ in due], now)
    assert now == 30.0 and 5 < tries < 40
    assert lease.is_lost and len(leases) == 0 and leases.next_at() == float("inf")


def test_a_late_answer_counts_from_when_it_was_asked_for() -> None:
    leases = HeldLeases(30, HOUR)
    lease = leases.take("a", 0.0)
    leases.extended(lease, 30, asked_at=15.0)  # answered at second 29
    assert lease.until == 45


def test_a_message_that_the_queue_refuses_is_lost() -> None:
    leases = HeldLeases(30, HOUR)
    lease, other = leases.take("a", 0.0), leases.take("b", 0.0)
    leases.refused(lease)
    assert lease.is_lost and not leases.release(lease)
    assert leases.release(other) and not other.is_lost


def test_what_is_settled_is_not_extended() -> None:
    leases = HeldLeases(30, HOUR)
    assert leases.release(leases.take("a", 0.0))
    assert leases.due(100.0) == [] and leases.ended(100.0) == []
