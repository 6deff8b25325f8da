"""A flood of requests that get nothing done is seen, and does not fill the disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.audit.rate_cap import (
    CALLERS_MAX,
    OTHERS,
    PRINCIPALS,
    SESSIONS,
    STRANGERS,
    WINDOW_MS,
    Bound,
    Flood,
)


def test_the_first_of_a_caller_are_written_and_the_rest_counted() -> None:
    flood = Flood(STRANGERS)
    written = [flood.take("a", 0, denied=True) for _ in range(STRANGERS.per_caller + 5)]
    assert written == [True] * STRANGERS.per_caller + [False] * 5
    assert flood.take("b", 0, denied=True)
    assert flood.end() == [("a", True, 5)]


def test_what_was_denied_and_what_was_not_share_a_bound_and_are_told_apart() -> None:
    flood = Flood(STRANGERS)
    written = [flood.take("a", 0, denied=number < 3) for number in range(STRANGERS.per_caller)]
    assert all(written)
    for denied in (True, False, False):
        assert not flood.take("a", 0, denied=denied)
    assert flood.end() == [("a", False, 2), ("a", True, 1)]


def test_all_callers_together_have_a_bound() -> None:
    flood = Flood(STRANGERS)
    written = [flood.take(f"caller-{number}", 0, denied=True) for number in range(STRANGERS.in_all + 3)]
    assert sum(written) == STRANGERS.in_all
    assert len(flood.end()) == 3


def test_the_bound_is_the_one_that_was_given() -> None:
    sessions = Flood(SESSIONS)
    written = [sessions.take("a", 0, denied=False) for _ in range(SESSIONS.per_caller + 1)]
    assert written == [True] * SESSIONS.per_caller + [False]
    assert sum(sessions.take(f"b-{number}", 0, denied=False) for number in range(SESSIONS.in_all)) == (
        SESSIONS.in_all - SESSIONS.per_caller
    )


def test_a_window_begins_with_its_first_request_and_lasts_a_minute() -> None:
    flood = Flood(STRANGERS)
    assert not flood.is_over(10 * WINDOW_MS)
    flood.take("a", 1000, denied=True)
    assert not flood.is_over(1000 + WINDOW_MS - 1)
    assert flood.is_over(1000 + WINDOW_MS)
    assert flood.is_over(999)
    flood.end()
    assert not flood.is_over(1000 + WINDOW_MS)
    assert flood.take("a", 2000, denied=True)


def test_the_worst_are_told_by_name() -> None:
    flood = Flood(STRANGERS)
    for number in range(STRANGERS.counts + 10):
        for _ in range(STRANGERS.per_caller + 1 + number):
            flood.take(f"caller-{number}", 0, denied=True)
    told = flood.end()
    assert len(told) == STRANGERS.counts + 1
    assert told[0].caller == f"caller-{STRANGERS.counts + 9}"
    assert told[-1].caller == OTHERS


def test_every_principal_is_told_by_name() -> None:
    flood = Flood(PRINCIPALS)
    names = [f"arn:aws:iam::111111111111:user/{number}" for number in range(CALLERS_MAX)]
    for name in names:
        for number in range(2 * PRINCIPALS.per_caller):
            flood.take(name, 0, denied=number % 2 == 0)
    flood.take("one too many", 0, denied=True)
    told = flood.end()
    for denied in (True, False):
        assert {each.caller for each in told if each.denied == denied} - {OTHERS} == set(names)
    assert told[-1] == (OTHERS, True, 1)


@given(
    st.sampled_from([STRANGERS, PRINCIPALS]),
    st.lists(st.integers(0, 3 * CALLERS_MAX), max_size=400),
    st.integers(0, 2 * CALLERS_MAX),
)
def test_every_request_is_written_or_counted_and_memory_is_bounded(
    bound: Bound, callers: list[int], strangers: int
) -> None:
    flood = Flood(bound)
    calls = [*(f"stranger-{number}" for number in range(strangers)), *map(str, callers)]
    written = sum(flood.take(caller, 0, denied=number % 3 == 0) for number, caller in enumerate(calls))
    assert len(flood._seen) <= CALLERS_MAX + 1
    assert written <= bound.in_all
    told = flood.end()
    assert len(told) <= bound.counts + 2
    assert written + sum(each.requests for each in told) == len(calls)
