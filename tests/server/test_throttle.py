"""A rate for each caller, held at any pace, with bounded memory."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.processes.usage import shared_memory
from penstock.server.throttle import SHARED_BYTES, WORK_S, SharedThrottle, Throttle

PAUSES = st.lists(st.floats(0, 3), min_size=1, max_size=200)


def test_a_burst_then_the_steady_rate() -> None:
    throttle = Throttle(10, 5)
    assert [throttle.accept("a", 0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert not throttle.accept("a", 0.09)
    assert [throttle.accept("a", 0.11) for _ in range(2)] == [True, False]
    assert sum(throttle.accept("a", 0.2 + step / 1000) for step in range(10_000)) == 100


def test_each_caller_has_its_own_rate() -> None:
    throttle = Throttle(1, 1)
    assert throttle.accept("a", 0.0) and not throttle.accept("a", 0.0)
    assert throttle.accept("b", 0.0)


def test_a_burst_of_zero_still_allows_the_rate() -> None:
    throttle = Throttle(2, 0)
    assert [throttle.accept("a", now / 4) for now in range(5)] == [True, False, True, False, True]


def test_processes_share_an_allowance() -> None:
    descriptor = shared_memory(SHARED_BYTES)
    one, other = (SharedThrottle(10, 5, descriptor, b"key") for _ in range(2))
    assert [each.accept("a", 7.0) for each in (one, other) * 3] == [True] * 5 + [False]
    assert other.accept("b", 7.0)
    assert other.accept("a", 7.11) and not one.accept("a", 7.11)
    assert sum((one, other)[step % 2].accept("a", 7.2 + step / 1000) for step in range(10_000)) == 100
    os.close(descriptor)


@pytest.mark.parametrize("shared", [False, True])
def test_how_long_to_wait_and_what_is_given_back(shared: bool) -> None:
    descriptor = shared_memory(SHARED_BYTES)
    throttle = SharedThrottle(0.5, 2, descriptor, b"key") if shared else Throttle(0.5, 2)
    assert throttle.wait_s("a", 7.0) == 0
    assert [throttle.accept("a", 7.0) for _ in range(3)] == [True, True, False]
    assert (throttle.wait_s("a", 7.0), throttle.wait_s("a", 8.5), throttle.wait_s("b", 7.0)) == (2, 0.5, 0)
    throttle.give_back("a")
    assert [throttle.accept("a", 7.0) for _ in range(2)] == [True, False]
    os.close(descriptor)


@pytest.mark.parametrize("shared", [False, True])
def test_a_request_that_computes_for_long_counts_as_several(shared: bool) -> None:
    descriptor = shared_memory(SHARED_BYTES)
    throttle = SharedThrottle(100, 5, descriptor, b"key") if shared else Throttle(100, 5)
    assert throttle.accept("a", 7.0)
    throttle.worked("a", 9 * WORK_S, 7.0)
    assert not throttle.accept("a", 7.0) and throttle.accept("b", 7.0)
    assert round(throttle.wait_s("a", 7.0), 6) == 0.06
    os.close(descriptor)


@pytest.mark.parametrize("shared", [False, True])
def test_computing_counts_from_its_end_at_every_rate(shared: bool) -> None:
    waits = {}
    for rate in (0.1, 1, 50, 200, 1000, 20_000):
        descriptor = shared_memory(SHARED_BYTES)
        throttle = SharedThrottle(rate, 1, descriptor, b"key") if shared else Throttle(rate, 1)
        assert throttle.accept("a", 1000.0)
        throttle.worked("a", 8.0, 1010.0)  # others had the rest of the ten seconds
        waits[rate] = round(throttle.wait_s("a", 1010.0), 6)
        os.close(descriptor)
    assert waits == {0.1: 32, 1: 32, 50: 32, 200: 8, 1000: 1.6, 20_000: 0.08}


def test_computing_counts_for_a_caller_that_was_forgotten_meanwhile() -> None:
    throttle = Throttle(1000, 1, callers_max=2)
    assert throttle.accept("a", 0.0)
    assert throttle.accept("b", 7.0) and throttle.accept("c", 7.0), "there is room: a is forgotten"
    throttle.worked("a", 8.0, 8.0)
    assert not throttle.accept("a", 8.5) and throttle.accept("d", 8.5)


@given(st.sampled_from([0.5, 1, 7, 1000]), st.integers(0, 50), PAUSES)
def test_no_stretch_of_time_has_more_than_burst_and_rate(
    rate: float, burst: int, pauses: list[float]
) -> None:
    throttle, now, taken = Throttle(rate, burst), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if throttle.accept("a", now):
            taken.append(now)
    for first, begun in enumerate(taken):
        for last in range(first, len(taken)):
            allowed = max(burst, 1) + (taken[last] - begun) * rate
            assert last - first + 1 <= allowed + 1e-6


@given(st.sampled_from([0.5, 1, 7]), st.integers(1, 20), PAUSES)
def test_a_caller_within_the_rate_is_never_refused(rate: float, burst: int, pauses: list[float]) -> None:
    throttle, now = Throttle(rate, burst), 0.0
    for pause in pauses:
        now += 1.000001 / rate + pause
        assert throttle.accept("a", now)


def test_idle_callers_are_not_remembered() -> None:
    throttle = Throttle(1, 1, callers_max=100)
    for number in range(10_000):
        assert throttle.accept(f"caller {number}", number / 50)
        assert len(throttle) <= 101


def test_more_busy_callers_than_can_be_remembered_share_one_allowance() -> None:
    throttle = Throttle(1, 2, callers_max=10)
    assert sum(throttle.accept(f"caller {number}", 0.0) for number in range(1000)) == 12
    assert len(throttle) == 11
    assert throttle.accept("caller 3", 0.0), "those that are known keep their own"
