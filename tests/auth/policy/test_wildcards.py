"""Patterns: as a slow matcher says, and never slow themselves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.auth.policy.wildcards import pattern
from support.cpu import cost
from support.generated import examples
from support.rows import every_row

from .slow import like, plain

SMALL = st.text("ab", max_size=8)


@settings(max_examples=examples(500))
@given(st.text("aab*", max_size=8) | st.text("ab*?", max_size=8), SMALL)
def test_any_pattern_on_any_text(wanted: str, text: str) -> None:
    assert pattern(wanted)(text) == like(plain(wanted), text)


@every_row(
    ("wanted", "text", "matches"),
    [
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*a*", "a", False),
        ("*ab*ab*", "aab", False),
        ("a*b*b", "ab", False),
        ("a*bb*b", "aabb", False),
        ("**", "", True),
        ("", "", True),
        ("", "a", False),
        ("?", "", False),
    ],
)
def test_no_character_is_matched_twice(wanted: str, text: str, matches: bool) -> None:
    assert pattern(wanted)(text) is matches


@given(st.data(), SMALL)
def test_a_pattern_made_of_the_text_matches_it(data: st.DataObject, text: str) -> None:
    wanted = "".join(data.draw(st.sampled_from([character, "?", "*", f"*{character}"])) for character in text)
    assert pattern(wanted)(text)


@pytest.mark.parametrize("piece", ["*a", "*a*", "?*a", "*?", "*ab?"])
def test_no_pattern_takes_exponential_time(piece: str) -> None:
    """Backtracking would take longer than the universe has: this takes milliseconds."""
    match = pattern(piece * 2000 + "b")
    assert not match("a" * 2048)
    assert cost(lambda: match("a" * 2048)) < 1000
