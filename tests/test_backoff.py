from __future__ import annotations

from penstock.backoff import backoff


def test_pauses_double_up_to_the_longest() -> None:
    assert [backoff(attempt, 100, 500) for attempt in range(1, 6)] == [100, 200, 400, 500, 500]
    assert backoff(10**6, 1, 900.0) == 900
    assert [backoff(attempt, 1, 100, factor=3) for attempt in (1, 2, 3)] == [1, 3, 9]


def test_a_part_of_a_pause_is_random() -> None:
    assert backoff(3, 1, 100, jitter=0.5, chance=0) == 4
    assert backoff(3, 1, 100, jitter=0.5, chance=1) == 2
    assert backoff(3, 1, 100, jitter=1, chance=0.75) == 1
