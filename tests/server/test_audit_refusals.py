"""A flood of refused requests is seen, and does not fill the disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.audit.refusals import (
    CALLERS_MAX,
    IN_ALL_MAX,
    OTHERS,
    PER_CALLER_MAX,
    TOLD_MAX,
    WINDOW_MS,
    Refusals,
)


def test_the_first_of_a_caller_are_written_and_the_rest_counted() -> None:
    refusals = Refusals()
    written = [refusals.take("a", 0) for _ in range(PER_CALLER_MAX + 5)]
    assert written == [True] * PER_CALLER_MAX + [False] * 5
    assert refusals.take("b", 0)
    assert refusals.end() == [("a", 5)]


def test_all_callers_together_have_a_bound() -> None:
    refusals = Refusals()
    written = [refusals.take(f"caller-{number}", 0) for number in range(IN_ALL_MAX + 3)]
    assert sum(written) == IN_ALL_MAX
    assert len(refusals.end()) == 3


def test_a_window_begins_with_its_first_refusal_and_lasts_a_minute() -> None:
    refusals = Refusals()
    assert not refusals.is_over(10 * WINDOW_MS)
    refusals.take("a", 1000)
    assert not refusals.is_over(1000 + WINDOW_MS - 1)
    assert refusals.is_over(1000 + WINDOW_MS)
    assert refusals.is_over(999)
    refusals.end()
    assert not refusals.is_over(1000 + WINDOW_MS)
    assert refusals.take("a", 2000)


def test_the_worst_are_told_by_name() -> None:
    refusals = Refusals()
    for number in range(TOLD_MAX + 10):
        for _ in range(PER_CALLER_MAX + 1 + number):
            refusals.take(f"caller-{number}", 0)
    told = refusals.end()
    assert len(told) == TOLD_MAX + 1
    assert told[0].caller == f"caller-{TOLD_MAX + 9}"
    assert told[-1].caller == OTHERS


@given(st.lists(st.integers(0, 3 * CALLERS_MAX), max_size=400), st.integers(0, 2 * CALLERS_MAX))
def test_every_refusal_is_written_or_counted_and_memory_is_bounded(
    callers: list[int], strangers: int
) -> None:
    refusals = Refusals()
    calls = [*(f"stranger-{number}" for number in range(strangers)), *map(str, callers)]
    written = sum(refusals.take(caller, 0) for caller in calls)
    assert len(refusals._seen) <= CALLERS_MAX + 1
    assert written <= IN_ALL_MAX
    told = refusals.end()
    assert len(told) <= TOLD_MAX + 1
    assert written + sum(each.requests for each in told) == len(calls)
