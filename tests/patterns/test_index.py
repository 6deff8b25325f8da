"""How much the index looks at: few of many patterns. That it finds the right ones is checked against all of them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.patterns import PatternIndex, attributes_subject, body_subject, compile_pattern
from penstock.patterns import index as index_module
from penstock.patterns.matching import matching_steps
from penstock.patterns.pattern import EventPattern
from penstock.patterns.ranges import RangeTree
from penstock.patterns.subject import FilterSubject
from penstock.patterns.terms import NumberRange
from penstock.patterns.values import number_key
from penstock.turns import Steps
from support.rows import every_row

MANY = 1000


def _index(policy: Callable[[int], str]) -> PatternIndex[int]:
    index: PatternIndex[int] = PatternIndex()
    for number in range(MANY):
        index.add(number, compile_pattern(policy(number), nested=False))
    return index


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[EventPattern]:
    """The patterns that an index has tried one by one."""
    found = []

    def counted(pattern: EventPattern, subject: FilterSubject) -> Steps[bool]:
        found.append(pattern)
        return matching_steps(pattern, subject)

    monkeypatch.setattr(index_module, "matching_steps", counted)
    return found


@every_row(
    ("policy", "attributes", "matching", "tries"),
    [
        ('{{"a":["v{0}"]}}', {"a": ("String", "v7")}, [7], 0),
        ('{{"a":[{0}.5]}}', {"a": ("Number", "7.50")}, [7], 0),
        ('{{"a":[{{"prefix":"{0:04}-"}}]}}', {"a": ("String", "0007-x")}, [7], 0),
        ('{{"a":[{{"equals-ignore-case":"V{0}"}}]}}', {"a": ("String", "v7")}, [7], 0),
        ('{{"a":[{{"numeric":[">=",{0},"<",{0}.5]}}]}}', {"a": ("Number", "7.25")}, [7], 0),
        ('{{"a":[{{"numeric":[">",{0}]}}]}}', {"a": ("Number", "3")}, [0, 1, 2], 0),
        ('{{"a{0}":[{{"exists":true}}]}}', {"a7": ("String", "x")}, [7], 0),
        ('{{"a{0}":[{{"suffix":"x"}}]}}', {"a7": ("String", "x")}, [7], 1),
        (
            '{{"type":["order"],"customer":["c{0}"]}}',
            {"type": ("String", "order"), "customer": ("String", "c7")},
            [7],
            2,
        ),
        ('{{"customer":["c{0}"],"b":[{{"exists":false}}]}}', {"customer": ("String", "c7")}, [7], 1),
        (
            '{{"$or":[{{"a":["v{0}"]}},{{"b":["v{0}"]}}]}}',
            {"a": ("String", "v7"), "b": ("String", "v8")},
            [7, 8],
            0,
        ),
    ],
)
def test_few_of_many_are_tried(
    policy: str,
    attributes: dict[str, tuple[str, str]],
    matching: list[int],
    tries: int,
    tried: list[EventPattern],
) -> None:
    tried.clear()
    index = _index(policy.format)
    assert sorted(index.matching(attributes_subject(attributes))) == matching
    assert len(tried) <= tries


def test_what_no_value_leads_to_is_tried(tried: list[EventPattern]) -> None:
    index = _index('{{"a":[{{"exists":false}},"v{0}"]}}'.format)
    assert index.matching(attributes_subject({"a": ("String", "v7")})) == [7]
    assert len(tried) == MANY


def test_a_key_has_one_pattern() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.remove("it")
    index.add("it", compile_pattern('{"a":["x"]}', nested=True))
    index.add("it", compile_pattern('{"a":["y"]}', nested=True))
    assert "it" in index and len(index) == 1
    assert index.matching(body_subject('{"a":"x"}')) == []
    assert index.matching(body_subject('{"a":"y"}')) == ["it"]
    index.remove("it")
    assert "it" not in index and len(index) == 0
    assert index.matching(body_subject('{"a":"y"}')) == []


def test_a_pattern_may_be_added_and_removed_between_steps() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(50):
        index.add(number, compile_pattern(f'{{"k{number}":[{{"suffix":"x"}}]}}', nested=True))
    members = ",".join(f'"k{number}":"x"' for number in range(50))
    steps = index.matching_steps(body_subject(f"{{{members}}}"))
    next(steps)
    for number in range(50):
        index.remove(number)
        index.add(100 + number, compile_pattern(f'{{"k{number}":[{{"exists":false}}]}}', nested=True))
    with pytest.raises(StopIteration) as stop:
        while True:
            next(steps)
    assert set(stop.value.value) == set(range(50))


def test_all_ranges_between_some_numbers() -> None:
    ends: list[int | None] = [None, *range(5)]
    ranges = [
        NumberRange(bottom, includes_bottom, top, includes_top)
        for bottom, includes_bottom, top, includes_top in product(ends, (False, True), ends, (False, True))
        if bottom is None or top is None or bottom < top
    ]
    tree: RangeTree[int] = RangeTree()
    for thing, numbers in enumerate(ranges):
        tree.add(thing, numbers)
    for gone in (0, len(ranges) // 2):  # at last, all that was added lately and some of the rest is removed
        for thing, numbers in list(enumerate(ranges))[len(ranges) - gone :]:
            tree.remove(thing, numbers)
        for number in map(Decimal, ("-1", "0", "0.5", "1", "2.5", "3", "4", "4.5")):
            left = enumerate(ranges[: len(ranges) - gone])
            assert set(tree.having(number)) == {thing for thing, numbers in left if numbers.has(number)}


_NUMBERS = st.integers(-3, 3) | st.sampled_from(
    [Decimal("0.5"), Decimal("-0.5"), Decimal("1.5"), Decimal("2.0")]
)
_RANGES = st.builds(NumberRange, st.none() | _NUMBERS, st.booleans(), st.none() | _NUMBERS, st.booleans())


@given(
    st.lists(st.tuples(st.integers(0, 60), _RANGES, st.booleans()), max_size=120),
    st.lists(_NUMBERS, max_size=4),
)
def test_ranges_are_found_by_their_numbers(
    changes: list[tuple[int, NumberRange, bool]], numbers: list[int | Decimal]
) -> None:
    tree: RangeTree[int] = RangeTree()
    all_ranges: set[tuple[int, NumberRange]] = set()
    for thing, numbers_of, is_added in changes:
        if (
            numbers_of.bottom is not None
            and numbers_of.top is not None
            and numbers_of.bottom >= numbers_of.top
        ):
            continue
        if is_added and (thing, numbers_of) not in all_ranges:
            tree.add(thing, numbers_of)
            all_ranges.add((thing, numbers_of))
        elif not is_added and all_ranges:
            gone = min(all_ranges, key=repr)
            tree.remove(*gone)
            all_ranges.remove(gone)
    assert len(tree) == len(all_ranges)
    for number in numbers:
        assert set(tree.having(number)) == {
            thing for thing, numbers_of in all_ranges if numbers_of.has(number)
        }


@every_row(
    ("one", "other", "is_same"),
    [
        (5, Decimal("5.000"), True),
        (Decimal("1e9"), 10**9, True),
        (Decimal("0.00001"), Decimal("1e-5"), True),
        (Decimal("0.1"), Decimal("0.10001"), False),
    ],
)
def test_equal_numbers_have_one_key(one: int | Decimal, other: int | Decimal, is_same: bool) -> None:
    assert number_key(one) is not None
    assert (number_key(one) == number_key(other)) is is_same


@every_row(
    "number",
    [10**9 + 1, Decimal("0.000001"), Decimal("0." + "1" * 40), Decimal("1e-999999"), Decimal("1e999999")],
)
def test_other_numbers_have_no_key(number: int | Decimal) -> None:
    assert number_key(number) is None
