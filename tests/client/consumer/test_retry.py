"""What follows a failure: by exception, by attempt, by what the handler asked for."""

from __future__ import annotations

import pytest

from penstock.client.codec import DecodeError
from penstock.client.consumer.retry import (
    GIVE_UP,
    Constant,
    Exponential,
    GiveUp,
    Retry,
    RetryPolicy,
    visibility_s,
)
from penstock.client.limits import VISIBILITY_S_MAX


def test_pauses_grow_up_to_the_longest() -> None:
    backoff = Exponential(first_s=2, factor=3, longest_s=60, jitter=0)
    assert [backoff(attempt) for attempt in range(1, 6)] == [2, 6, 18, 54, 60]
    assert backoff(10_000) == 60


def test_jitter_takes_a_part_of_the_pause_away() -> None:
    policy = RetryPolicy(Exponential(first_s=10, jitter=0.5))
    assert policy.pause_s(OSError(), 1, 0.0) == 10
    assert policy.pause_s(OSError(), 1, 1.0) == 5
    assert RetryPolicy(Constant(10)).pause_s(OSError(), 1, 1.0) == 10


def test_the_nearest_base_class_decides() -> None:
    policy = RetryPolicy(
        Constant(1), {OSError: Constant(2), ConnectionError: Constant(3), LookupError: GIVE_UP}
    )
    assert policy.pause_s(PermissionError(), 1, 0) == 2
    assert policy.pause_s(ConnectionRefusedError(), 1, 0) == 3
    assert policy.pause_s(KeyError(), 1, 0) is None
    assert policy.pause_s(ValueError(), 1, 0) == 1


def test_a_function_is_a_backoff_and_cannot_leave_the_range_of_the_queue() -> None:
    assert RetryPolicy(lambda attempt: attempt * 7.0).pause_s(OSError(), 3, 0.5) == 21
    assert RetryPolicy(lambda attempt: -1.0).pause_s(OSError(), 1, 0) == 0
    assert RetryPolicy(lambda attempt: 1e9).pause_s(OSError(), 1, 0) == VISIBILITY_S_MAX
    assert RetryPolicy(lambda attempt: float("inf")).pause_s(OSError(), 1, 0) == VISIBILITY_S_MAX


def test_a_handler_decides_by_what_it_raises() -> None:
    policy = RetryPolicy(Constant(5))
    assert policy.pause_s(Retry(after=0), 1, 0) == 0
    assert policy.pause_s(Retry(after=90), 1, 0) == 90
    assert policy.pause_s(Retry("busy"), 1, 0) == 5
    assert policy.pause_s(GiveUp("no such customer"), 1, 0) is None


def test_attempts_end() -> None:
    policy = RetryPolicy(Constant(5), attempts_max=3)
    assert [policy.pause_s(OSError(), attempt, 0) for attempt in (1, 2, 3, 4)] == [5, 5, None, None]
    assert policy.pause_s(Retry(after=1), 3, 0) is None


def test_a_body_that_cannot_be_read_is_given_up_unless_the_policy_says_otherwise() -> None:
    error = DecodeError("Order", "expected an object")
    assert RetryPolicy(Constant(5)).pause_s(error, 1, 0) is None
    assert RetryPolicy(Constant(5), {ValueError: Constant(6)}).pause_s(error, 1, 0) is None
    assert RetryPolicy(Constant(5), {DecodeError: Constant(6)}).pause_s(error, 1, 0) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(after=-1),
        lambda: Retry(after=VISIBILITY_S_MAX + 1),
        lambda: RetryPolicy(attempts_max=0),
        lambda: Exponential(first_s=-1),
        lambda: Exponential(factor=0.5),
        lambda: Exponential(first_s=10, longest_s=5),
        lambda: Exponential(jitter=2),
    ],
)
def test_wrong_values_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"invalid .*expected"):
        make()  # type: ignore[operator]


def test_a_pause_becomes_whole_seconds_within_twelve_hours_of_the_receive() -> None:
    assert visibility_s(0, 10) == 0
    assert visibility_s(0.2, 10) == 1
    assert visibility_s(30.5, 10) == 31
    assert visibility_s(VISIBILITY_S_MAX, 3600) < VISIBILITY_S_MAX - 3600
    assert visibility_s(60, VISIBILITY_S_MAX + 100) == 0
