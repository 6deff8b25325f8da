"""Event patterns: the filter policies of subscriptions. Pure: no IO, no clock.

A pattern is compiled once (:func:`compile_pattern`), a message is read once (:func:`attributes_subject`,
:func:`body_subject`), and an index of many patterns finds those that match (:class:`PatternIndex`).
"""

from __future__ import annotations

from penstock.patterns.compiler import compile_pattern
from penstock.patterns.errors import JsonTextError, PatternError
from penstock.patterns.explain import Explanation, TermFinding, explain, explaining_steps
from penstock.patterns.index import PatternIndex
from penstock.patterns.json_text import parse_json
from penstock.patterns.limits import FILTER_POLICY, PatternLimits
from penstock.patterns.matching import judge, matches, matching_steps
from penstock.patterns.pattern import EventPattern as Pattern
from penstock.patterns.subject import FilterOutcome as Outcome
from penstock.patterns.subject import FilterSubject as Subject
from penstock.patterns.subject import attributes_subject, body_subject

__all__ = [
    "FILTER_POLICY",
    "Explanation",
    "JsonTextError",
    "Outcome",
    "Pattern",
    "PatternError",
    "PatternIndex",
    "PatternLimits",
    "Subject",
    "TermFinding",
    "attributes_subject",
    "body_subject",
    "compile_pattern",
    "explain",
    "explaining_steps",
    "judge",
    "matches",
    "matching_steps",
    "parse_json",
]
