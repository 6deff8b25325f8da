"""The store in memory: what it adds to the contract is that a long queue stays quick."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from penstock.store import memory
from penstock.store.memory import SortedKeys

keys = st.tuples(st.just(0), st.integers(0, 50), st.integers(0, 3))


@given(st.lists(keys, unique=True, max_size=60), st.data())
def test_keys_are_sorted_through_adds_and_removals(
    added: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    before, memory._BLOCK_MAX = memory._BLOCK_MAX, 4
    try:
        found, expected = SortedKeys(), list[tuple[int, int, int]]()
        for key in added:
            found.add(key)
            expected = sorted([*expected, key])
            if data.draw(st.booleans()):
                gone = data.draw(st.sampled_from(expected))
                found.remove(gone)
                expected.remove(gone)
            start = data.draw(keys)
            assert list(found.after(start)) == expected[bisect_right(expected, start) :]
            assert bool(found) is bool(expected)
        assert list(found.after((-1, -1, -1))) == expected
    finally:
        memory._BLOCK_MAX = before
