"""A flood of requests that change nothing is visible, and does not fill the disk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.audit.rate_cap import (
    CALLERS_MAX,
    EVENTS_MAX,
    OTHERS,
    UNVERIFIED_EVENTS_MAX,
    UNVERIFIED_NAMED_MAX,
    WINDOW_MS,
    Outcome,
    RateCap,
)

OUTCOMES: tuple[Outcome, ...] = ("denied", "unchanged", "credentials")


def unverified() -> RateCap:
    return RateCap(total_max=UNVERIFIED_EVENTS_MAX, named_max=UNVERIFIED_NAMED_MAX)


def test_the_first_events_of_a_caller_are_written_and_the_rest_counted() -> None:
    cap = RateCap()
    written = [cap.admit("a", "denied", 0) for _ in range(EVENTS_MAX + 5)]
    assert written == [True] * EVENTS_MAX + [False] * 5
    assert cap.admit("b", "denied", 0)
    assert cap.end_window() == [("a", "denied", 5)]


def test_outcomes_have_limits_of_their_own() -> None:
    cap = RateCap()
    for outcome in OUTCOMES:
        assert all(cap.admit("a", outcome, 0) for _ in range(EVENTS_MAX))
        assert not cap.admit("a", outcome, 0)
    assert cap.end_window() == [("a", outcome, 1) for outcome in sorted(OUTCOMES)]


def test_unverified_callers_share_a_limit() -> None:
    cap = unverified()
    written = [cap.admit(f"caller-{number}", "denied", 0) for number in range(UNVERIFIED_EVENTS_MAX + 3)]
    assert sum(written) == UNVERIFIED_EVENTS_MAX
    assert len(cap.end_window()) == 3


def test_a_window_starts_with_its_first_event_and_lasts_a_minute() -> None:
    cap = RateCap()
    assert not cap.is_over(10 * WINDOW_MS)
    cap.admit("a", "denied", 1000)
    assert not cap.is_over(1000 + WINDOW_MS - 1)
    assert cap.is_over(1000 + WINDOW_MS)
    assert cap.is_over(999), "the clock was set back"
    cap.end_window()
    assert not cap.is_over(1000 + WINDOW_MS)
    assert cap.admit("a", "denied", 2000)


def test_the_largest_counts_are_reported_by_name() -> None:
    cap = unverified()
    for number in range(UNVERIFIED_NAMED_MAX + 10):
        for _ in range(EVENTS_MAX + 1 + number):
            cap.admit(f"caller-{number}", "denied", 0)
    counts = cap.end_window()
    assert len(counts) == UNVERIFIED_NAMED_MAX + 1
    assert counts[0].caller == f"caller-{UNVERIFIED_NAMED_MAX + 9}"
    assert counts[-1].caller == OTHERS


def test_every_principal_is_reported_by_name() -> None:
    cap = RateCap()
    names = [f"arn:aws:iam::111111111111:user/{number}" for number in range(CALLERS_MAX)]
    for name in names:
        for number in range(3 * EVENTS_MAX):
            cap.admit(name, OUTCOMES[number % 2], 0)
    for _ in range(EVENTS_MAX + 1):
        cap.admit("one too many", "denied", 0)
    counts = cap.end_window()
    for outcome in OUTCOMES[:2]:
        assert {each.caller for each in counts if each.outcome == outcome} - {OTHERS} == set(names)
    assert counts[-1] == (OTHERS, "denied", 1)


@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 3 * CALLERS_MAX), st.sampled_from(OUTCOMES)), max_size=400),
    st.integers(0, 2 * CALLERS_MAX),
)
def test_every_event_is_written_or_counted_and_memory_is_limited(
    verified: bool, calls: list[tuple[int, Outcome]], more: int
) -> None:
    cap = RateCap() if verified else unverified()
    events = [(f"other-{number}", OUTCOMES[0]) for number in range(more)]
    events += [(str(caller), outcome) for caller, outcome in calls]
    written = sum(cap.admit(caller, outcome, 0) for caller, outcome in events)
    assert len(cap._callers) <= CALLERS_MAX and len(cap._seen) <= 3 * (CALLERS_MAX + 1)
    assert verified or written <= UNVERIFIED_EVENTS_MAX
    counts = cap.end_window()
    assert verified or len(counts) <= UNVERIFIED_NAMED_MAX + 3
    assert written + sum(each.events for each in counts) == len(events)
