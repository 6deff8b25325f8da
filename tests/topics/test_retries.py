"""The pauses between deliveries: the phases of a policy, the back-off functions, the fixed schedules."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.limits import DAY, HOUR
from penstock.topics.retries import FUNCTIONS, MAIL_RETRIES, QUEUE_RETRIES, Retries, pause_ms


def pauses(retries: Retries) -> list[int]:
    found: list[int] = []
    while (pause := pause_ms(retries, len(found) + 1)) is not None:
        found.append(pause)
    return found


@pytest.mark.parametrize(
    ("function", "growing"),
    [
        ("linear", [1000, 4750, 8500, 12250, 16000]),
        ("arithmetic", [1000, 2500, 5500, 10000, 16000]),
        ("exponential", [1000, 2000, 4000, 8000, 16000]),
        ("geometric", [1000, 2000, 4000, 8000, 16000]),
    ],
)
def test_the_phases_of_a_policy(function: str, growing: list[int]) -> None:
    retries = Retries(
        immediate=2, first=1, growing=5, last=2, shortest_ms=1000, longest_ms=16000, function=function
    )
    assert pauses(retries) == [0, 0, 1000, *growing, 16000, 16000]
    assert retries.count == 10
    assert retries.total_ms == sum(pauses(retries))


def test_functions_differ_where_the_longest_pause_is_no_power_of_two() -> None:
    shapes = {
        function: pauses(Retries(growing=4, shortest_ms=10_000, longest_ms=90_000, function=function))
        for function in FUNCTIONS
    }
    assert shapes == {
        "linear": [10_000, 36_667, 63_333, 90_000],
        "arithmetic": [10_000, 23_333, 50_000, 90_000],
        "exponential": [10_000, 21_429, 44_286, 90_000],
        "geometric": [10_000, 20_801, 43_267, 90_000],
    }


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_pauses_grow_from_the_shortest_to_the_longest(function: str, count: int) -> None:
    found = pauses(Retries(growing=count, shortest_ms=1000, longest_ms=3_600_000, function=function))
    assert len(found) == count
    assert found[0] == 1000
    assert count == 1 or found[-1] == 3_600_000
    assert all(a <= b for a, b in pairwise(found))


def test_equal_pauses_stay_equal() -> None:
    for function in FUNCTIONS:
        assert (
            pauses(Retries(growing=3, shortest_ms=20_000, longest_ms=20_000, function=function))
            == [20_000] * 3
        )


def test_without_retries_there_is_one_attempt() -> None:
    assert pauses(Retries(shortest_ms=1, longest_ms=1)) == []


def test_queues_are_tried_for_23_days() -> None:
    assert QUEUE_RETRIES.count == 100_015
    assert 23 * DAY < QUEUE_RETRIES.total_ms < 24 * DAY
    assert [pause_ms(QUEUE_RETRIES, attempt) for attempt in (1, 3, 4, 5, 6, 15, 16, 100_015)] == [
        0, 0, 1000, 1000, 1000, 20_000, 20_000, 20_000,
    ]  # fmt: skip
    assert pause_ms(QUEUE_RETRIES, 100_016) is None


def test_mail_is_tried_for_six_hours() -> None:
    assert MAIL_RETRIES.count == 50
    assert 6 * HOUR < MAIL_RETRIES.total_ms < 7 * HOUR
    assert pauses(MAIL_RETRIES)[:3] == [10_000, 10_000, 10_000]
