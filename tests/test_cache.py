"""The bounded cache: what was used last stays, and never more than its capacity is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import BoundedCache


def test_returns_what_was_put_and_none_for_the_rest() -> None:
    cache: BoundedCache[str, int] = BoundedCache(10)
    assert cache.get("a") is None
    assert cache.put("a", 1) == 1
    assert cache.get("a") == 1
    cache.put("a", 2)
    assert cache.get("a") == 2 and len(cache) == 1


@given(st.integers(2, 40), st.lists(st.integers(0, 60), max_size=300))
def test_holds_at_most_its_capacity(capacity: int, keys: list[int]) -> None:
    cache: BoundedCache[int, str] = BoundedCache(capacity)
    for key in keys:
        assert cache.get(key) in (None, str(key))
        cache.put(key, str(key))
        assert cache.get(key) == str(key)
        assert len(cache) <= capacity


@given(st.integers(2, 40), st.lists(st.integers(0, 60), min_size=1, max_size=300))
def test_keeps_the_entries_used_last(capacity: int, keys: list[int]) -> None:
    cache: BoundedCache[int, int] = BoundedCache(capacity)
    for key in keys:
        if cache.get(key) is None:
            cache.put(key, key)
    last = list(dict.fromkeys(reversed(keys)))[: capacity // 2]
    assert all(cache.get(key) == key for key in last)


def test_an_entry_in_use_outlives_any_number_of_others() -> None:
    cache: BoundedCache[int, str] = BoundedCache(8)
    cache.put(-1, "used")
    for key in range(1000):
        cache.put(key, "once")
        assert cache.get(-1) == "used"
    assert cache.get(1) is None


@given(st.integers(10, 2000), st.lists(st.text(max_size=300)))
def test_capacity_can_count_sizes(capacity: int, keys: list[str]) -> None:
    cache: BoundedCache[str, str] = BoundedCache(capacity, size_of=len)
    for key in keys:
        cache.put(key, key)
        assert cache.get(key) == (key if len(key) <= capacity // 2 else None)
    kept = {key for key in keys if cache.get(key) is not None}
    assert sum(map(len, kept)) <= capacity


def test_an_entry_that_is_too_large_drops_no_others() -> None:
    cache: BoundedCache[str, int] = BoundedCache(100, size_of=len)
    cache.put("small", 1)
    assert cache.put("x" * 51, 2) == 2
    assert cache.get("x" * 51) is None and cache.get("small") == 1


def test_clear_drops_both_generations() -> None:
    cache: BoundedCache[int, int] = BoundedCache(4)
    for key in range(4):
        cache.put(key, key)
    cache.clear()
    assert len(cache) == 0 and all(cache.get(key) is None for key in range(4))
    cache.put(1, 1)
    assert cache.get(1) == 1


def test_a_hit_runs_no_python_code() -> None:
    cache: BoundedCache[str, int] = BoundedCache(4)
    cache.put("a", 1)
    assert calls_of(lambda: cache.get("a")) == 1  # the lambda
    assert calls_of(lambda: cache.get("b")) > 1


def calls_of(function: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def test_threads_can_share_it() -> None:
    cache: BoundedCache[int, int] = BoundedCache(64)

    def work(first: int) -> None:
        for key in range(first, first + 5000):
            assert cache.get(key % 200) in (None, key % 200)
            cache.put(key % 200, key % 200)

    with ThreadPoolExecutor(4) as threads:
        for outcome in [threads.submit(work, first) for first in (0, 50, 100, 150)]:
            outcome.result(30)
    assert len(cache) <= 64 and cache._size == len(cache._young)
