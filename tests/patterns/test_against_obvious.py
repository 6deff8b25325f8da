"""Compiled patterns and the index against a slow, obvious matcher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.patterns import (
    Outcome,
    Pattern,
    PatternError,
    PatternIndex,
    Subject,
    attributes_subject,
    body_subject,
    compile_pattern,
    explain,
    matches,
)
from support.generated import examples

from .generated import ATTRIBUTES, BODIES, POLICIES_OF_ATTRIBUTES, POLICIES_OF_BODIES
from .obvious import matches_attributes, matches_body

_OPERATIONS = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6)


def _compiled(policies: list[str], *, nested: bool) -> dict[str, Pattern]:
    found = {}
    for policy in policies:
        try:
            found[policy] = compile_pattern(policy, nested=nested)
        except PatternError as error:
            assert "more than 5 keys" in error.reason or "too complex" in error.reason
    return found


def _check(patterns: dict[str, Pattern], subject: Subject, wanted: dict[str, bool]) -> None:
    for policy, pattern in patterns.items():
        assert matches(pattern, subject) is wanted[policy], policy
        assert (explain(pattern, subject).outcome is Outcome.MATCHED) is wanted[policy]


def _check_index(
    patterns: dict[str, Pattern],
    fresh: Callable[[], Subject],
    wanted: dict[str, bool],
    operations: list[tuple[int, bool]],
) -> None:
    """Add all, remove some and add them again, and compare each time."""
    index: PatternIndex[str] = PatternIndex()
    for policy, pattern in patterns.items():
        index.add(policy, pattern)
    policies = list(patterns)
    for number, is_added in [(0, True), *operations]:
        if policies:
            policy = policies[number % len(policies)]
            if is_added:
                index.add(policy, patterns[policy])
            else:
                index.remove(policy)
        found = index.matching(fresh())
        assert len(found) == len(set(found))
        assert set(found) == {policy for policy in policies if policy in index and wanted[policy]}
    for policy in policies:
        index.remove(policy)
    assert vars(index) == vars(PatternIndex())


def test_bodies() -> None:
    outcomes: Counter[bool] = Counter()

    @settings(max_examples=examples(1500))
    @given(st.lists(POLICIES_OF_BODIES, min_size=1, max_size=12), BODIES, _OPERATIONS)
    def check(policies: list[str], body: str, operations: list[tuple[int, bool]]) -> None:
        patterns = _compiled(policies, nested=True)
        wanted = {policy: matches_body(policy, body) for policy in patterns}
        outcomes.update(wanted.values())
        _check(patterns, body_subject(body), wanted)
        _check_index(patterns, lambda: body_subject(body), wanted, operations)

    check()
    _assert_both(outcomes)


def test_attributes() -> None:
    outcomes: Counter[bool] = Counter()

    @settings(max_examples=examples(1000))
    @given(st.lists(POLICIES_OF_ATTRIBUTES, min_size=1, max_size=12), ATTRIBUTES, _OPERATIONS)
    def check(policies: list[str], attributes: dict[str, Any], operations: list[tuple[int, bool]]) -> None:
        patterns = _compiled(policies, nested=False)
        wanted = {policy: matches_attributes(policy, attributes) for policy in patterns}
        outcomes.update(wanted.values())
        _check(patterns, attributes_subject(attributes), wanted)
        _check_index(patterns, lambda: attributes_subject(attributes), wanted, operations)

    check()
    _assert_both(outcomes)


def test_elements_of_arrays() -> None:
    """The same with bodies that are arrays of records, and policies on two or three of their fields."""
    outcomes: Counter[bool] = Counter()
    terms = st.sampled_from(['"x"', '"y"', '{"exists":false}', '{"exists":true}', '{"anything-but":"x"}'])
    values = st.sampled_from(['"x"', '"y"', '["x","y"]', "[]", '{"a":"x"}', '[{"a":"x"},{"b":"y"}]'])
    records = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c.a"]), values, max_size=3), max_size=3)

    def rule(term: str) -> str:
        return f"[{term}]"

    rules = st.dictionaries(
        st.sampled_from(["a", "b", "c.a", "a.a", "a.b"]), terms.map(rule), min_size=2, max_size=3
    )

    def written(members: dict[str, str]) -> str:
        return "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"

    @settings(max_examples=examples(2000))
    @given(rules.map(written), records)
    def check(policy: str, members: list[dict[str, str]]) -> None:
        policy, body = f'{{"r":{policy}}}', f'{{"s":1,"r":[{",".join(map(written, members))}]}}'
        wanted = matches_body(policy, body)
        outcomes[wanted] += 1
        assert matches(compile_pattern(policy, nested=True), body_subject(body)) is wanted

    check()
    _assert_both(outcomes)


def _assert_both(outcomes: Counter[bool]) -> None:
    """Else the comparison would say little."""
    assert min(outcomes[True], outcomes[False]) > outcomes.total() / 40, outcomes
