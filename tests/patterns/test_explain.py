"""What people who test a filter are told."""

from __future__ import annotations

from penstock.patterns import Outcome, TermFinding, body_subject, compile_pattern, explain
from support.rows import every_row

from .messages import subject


def test_each_condition_is_told_with_what_it_found() -> None:
    policy = (
        '{ "a": ["x", {"prefix": "y"}], "b": {"c": [{"exists": false}, {"numeric": [">", 5]}]}, "d": [null] }'
    )
    explained = explain(
        compile_pattern(policy, nested=True), body_subject('{"a":["yes","no"],"b":{"c":1.50}}')
    )
    assert explained.outcome is Outcome.MISMATCH
    assert explained.reason == "No condition passed for: b.c, d."
    assert list(explained.findings) == [
        TermFinding("a", '"x"', ('"yes"', '"no"'), False, "none of 2 values matches"),
        TermFinding("a", '{"prefix":"y"}', ('"yes"', '"no"'), True, '"yes" matches'),
        TermFinding("b.c", '{"exists":false}', ("1.50",), False, "it is present"),
        TermFinding("b.c", '{"numeric":[">",5]}', ("1.50",), False, "1.50 does not match"),
        TermFinding("d", "null", (), False, "it is absent"),
    ]


@every_row(
    ("scope", "policy", "message", "outcome", "reason"),
    [
        (
            "B",
            '{"a":["x"]}',
            '{"a":"x"}',
            Outcome.MATCHED,
            "Every key of the policy has a condition that passed.",
        ),
        (
            "B",
            '{"a":[{"exists":false}]}',
            '{"b":"x"}',
            Outcome.MATCHED,
            "Every key of the policy has a condition that passed.",
        ),
        (
            "B",
            '{"r":{"a":["x"],"b":["y"]}}',
            '{"r":[{"a":"x"},{"b":"y"}]}',
            Outcome.MISMATCH,
            "Every key has a condition that passed, but not in the same element of an array.",
        ),
        (
            "B",
            '{"$or":[{"a":["x"]},{"b":["y"]}]}',
            '{"b":"x"}',
            Outcome.MISMATCH,
            "No condition passed for: a, b.",
        ),
        (
            "B",
            '{"a":["x"]}',
            "{}",
            Outcome.MISMATCH,
            "The body is an empty object, which no filter policy matches.",
        ),
        (
            "B",
            '{"a":["x"]}',
            "[]",
            Outcome.INVALID_BODY,
            "The body is not a JSON object, so no filter policy on bodies matches it.",
        ),
        (
            "A",
            '{"a":["x"]}',
            "",
            Outcome.NO_ATTRIBUTES,
            "The message has no attributes, so no filter policy on attributes matches it.",
        ),
        (
            "A",
            '{"a":["x"]}',
            "a=S:x; b=N:x",
            Outcome.INVALID_ATTRIBUTES,
            "An attribute of type Number or String.Array is not JSON, so no filter policy on attributes matches the "
            "message.",
        ),
    ],
)
def test_a_reason(scope: str, policy: str, message: str, outcome: Outcome, reason: str) -> None:
    explained = explain(compile_pattern(policy, nested=scope == "B"), subject(scope, message))
    assert (explained.outcome, explained.reason) == (outcome, reason)


def test_only_the_start_of_much_is_shown() -> None:
    body = '{"a":[' + ",".join(['"' + "x" * 1000 + '"'] * 100) + "]}"
    [finding] = explain(compile_pattern('{"a":["y"]}', nested=True), body_subject(body)).findings
    assert len(finding.found) == 20
    assert max(map(len, finding.found)) == 200
    assert finding.reason == "none of 100 values matches"


def test_a_binary_attribute_is_told() -> None:
    [finding] = explain(compile_pattern('{"a":["y"]}', nested=False), subject("A", "a=Binary")).findings
    assert finding.found == ("(binary)",)
