"""What is compiled is remembered, but never more than its bound allows, whatever the policies look like."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.policy import compile_policy
from penstock.auth.policy.caching import SizedCache

MANY = [chr(code) for code in range(0x4E00, 0x4E00 + 2600)]


@given(st.lists(st.text(max_size=300)), st.integers(0, 2000))
def test_the_newest_are_kept_as_far_as_there_is_room(keys: list[str], size_max: int) -> None:
    made: list[str] = []
    cache: SizedCache[str, tuple[str]] = SizedCache(lambda key: (made.append(key), (key,))[1], len, size_max)
    for key in keys:
        assert cache(key) == (key,)
        assert 0 <= cache._size <= size_max
        assert cache._size == sum(128 + len(each) for each in cache._made)
    if size_max > 1000:
        for key in made[-2:]:
            made.clear()
            assert cache(key) == (key,)
            assert not made


def in_two_threads(*calls: Callable[[], object]) -> None:
    """At the same time; raises what one of them raised."""
    with ThreadPoolExecutor(2) as threads:
        for outcome in [threads.submit(call) for call in calls]:
            outcome.result(10)


def test_what_two_threads_make_at_the_same_time_counts_once() -> None:
    both = Barrier(2, timeout=10)
    cache: SizedCache[str, tuple[str]] = SizedCache(lambda key: (both.wait(), (key,))[1], len, 1000)
    in_two_threads(lambda: cache("key"), lambda: cache("key"))
    assert cache._made == {"key": ("key",)} and cache._size == 128 + 3


def test_two_threads_do_not_change_it_at_the_same_time() -> None:
    both, met = Barrier(2, timeout=0.2), []

    def size(key: str) -> int:
        with suppress(BrokenBarrierError):
            both.wait()
            met.append(key)
        return len(key)

    cache: SizedCache[str, tuple[str]] = SizedCache(lambda key: (key,), size, 1000)
    in_two_threads(lambda: cache("one"), lambda: cache("other"))
    assert not met
    assert sorted(cache._made) == ["one", "other"] and cache._size == 2 * 128 + 8


def test_a_policy_is_compiled_once() -> None:
    text = '{"Statement":{"Effect":"Allow","Action":"sqs:once","Resource":"*"}}'
    assert compile_policy(text, kind="identity") is compile_policy(text, kind="identity")
    assert compile_policy(text, kind="identity") is not compile_policy(text, kind="session")


@pytest.mark.parametrize("resources", [["?" + "".join(MANY)], [f"?{number:x}" for number in range(1100)]])
def test_what_is_compiled_is_not_much_larger_than_the_text(resources: list[str]) -> None:
    """The worst that is known: a ``?`` before thousands of different characters, and very many patterns."""
    statement = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": resources}
    text = json.dumps({"Statement": statement}, ensure_ascii=False, separators=(",", ":"))
    tracemalloc.start()
    try:
        policy = compile_policy(text, kind="resource")
        policy.about("sqs:sendmessage", "arn:aws:sqs:us-east-1:111122223333:q")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 250 * len(text)
