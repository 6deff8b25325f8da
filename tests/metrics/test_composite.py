"""The rules of composite alarms."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RuleInvalid
from penstock.metrics.alarms import AlarmState
from penstock.metrics.composite import CHILDREN_MAX, RULE_LENGTH_MAX, parse_rule
from support.rows import every_row

STATES: Mapping[str, AlarmState] = {
    "a": "ALARM", "b": "OK", "c": "INSUFFICIENT_DATA", "with space (1)": "ALARM",
    "arn:aws:cloudwatch:us-east-1:000000000000:alarm:a": "ALARM",
}  # fmt: skip


@every_row(
    ("text", "holds"),
    [
        ("ALARM(a)", True),
        ("OK(a)", False),
        ('ALARM("a")', True),
        ("ALARM('a')", True),
        (" ALARM ( a ) ", True),
        ('ALARM("with space (1)")', True),
        ("ALARM(arn:aws:cloudwatch:us-east-1:000000000000:alarm:a)", True),
        ("INSUFFICIENT_DATA(c)", True),
        ("ALARM(gone)", False),
        ("TRUE", True),
        ("FALSE", False),
        ("NOT FALSE", True),
        ("NOT NOT ALARM(a)", True),
        ("ALARM(a) AND OK(b)", True),
        ("ALARM(a) AND ALARM(b)", False),
        ("ALARM(b) OR ALARM(a)", True),
        ("FALSE AND FALSE OR TRUE", True),
        ("FALSE AND (FALSE OR TRUE)", False),
        ("NOT TRUE OR TRUE", True),
        ("NOT (TRUE OR TRUE)", False),
        ("(ALARM(a)AND(OK(b)))OR FALSE", True),
        ("ALARM(ANDERS)", False),
    ],
)
def test_a_rule_and_whether_it_holds(text: str, holds: bool) -> None:
    assert parse_rule(text).holds(STATES.get) == holds


@every_row(
    "text",
    [
        "", " ", "ALARM", "ALARM()", "ALARM(a", "ALARM(a) ALARM(b)", "AND ALARM(a)", "ALARM(a) AND", "(TRUE", "TRUE)",
        "alarm(a)", "ALARM(a) and OK(b)", "ALARM(a b)", "TRUEFALSE", "NOT", "MAYBE(a)", "ALARM(\"a')", "1 = 1",
        "(" * 500 + "TRUE" + ")" * 500, "NOT " * 500 + "TRUE", "TRUE" * RULE_LENGTH_MAX,
        " OR ".join(f"ALARM(a{number})" for number in range(CHILDREN_MAX + 1)),
    ],
)  # fmt: skip
def test_a_wrong_rule(text: str) -> None:
    with pytest.raises(RuleInvalid):
        parse_rule(text)


def test_the_alarms_of_a_rule_are_known() -> None:
    rule = parse_rule('ALARM(b) AND (NOT OK("a b") OR ALARM(b)) AND INSUFFICIENT_DATA(c)')
    assert rule.children == ("b", "a b", "c")


_conditions = st.recursive(
    st.sampled_from(["TRUE", "FALSE", "ALARM(a)", "OK(a)", 'ALARM("b")', "INSUFFICIENT_DATA(c)"]),
    lambda inner: st.one_of(
        inner.map(lambda part: f"NOT ({part})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
    ),
    max_leaves=12,
)


@given(_conditions)
def test_rules_mean_what_python_means(text: str) -> None:
    python = text
    for rule, value in (
        ("ALARM(a)", True),
        ("OK(a)", False),
        ('ALARM("b")', False),
        ("INSUFFICIENT_DATA(c)", True),
    ):
        python = python.replace(rule, str(value))
    for word in ("AND", "OR", "NOT"):
        python = python.replace(word, word.lower())
    expected = eval(python.replace("TRUE", "True").replace("FALSE", "False"))
    assert parse_rule(text).holds(STATES.get) == expected


@given(st.text(alphabet="ALRMOKNDTUEFS ()\"'ab_", max_size=60) | st.text(max_size=40))
def test_any_text_is_a_rule_or_is_refused(text: str) -> None:
    try:
        rule = parse_rule(text)
    except RuleInvalid:
        return
    assert rule.holds(STATES.get) in (True, False)
