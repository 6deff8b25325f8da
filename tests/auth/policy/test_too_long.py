"""A value that cannot be compared (too long, ambiguous) never satisfies an Allow, and always a Deny."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from penstock.auth.policy import Question, compile_policy, decide, operators
from penstock.auth.policy.wildcards import LENGTH_MAX, matcher, tokens
from support.cpu import cost
from support.rows import every_row

from .principals import CALLERS, OWN, queue

HUGE = "a" * 4_000_000
TEXTS = [
    "StringEquals",
    "StringNotEquals",
    "StringLike",
    "StringNotLike",
    "StringEqualsIgnoreCase",
    "ArnNotLike",
]


def allowed(effect: str, condition: Mapping[str, object], tags: dict[str, str], resource: str = "*") -> bool:
    """Asks for root of another account, who needs the queue's policy alone."""
    statements = [
        {
            "Effect": effect,
            "Principal": "*",
            "Action": "sqs:SendMessage",
            "Resource": resource,
            "Condition": condition,
        }
    ]
    if effect == "Deny":
        statements.append({"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"})
    text = json.dumps({"Version": "2012-10-17", "Statement": statements})
    policy = compile_policy(text, kind="resource")
    question = Question(
        CALLERS["other-root"],
        "sqs:SendMessage",
        queue("orders"),
        OWN,
        policy,
        request_tags=tags,
        tag_keys=tuple(tags),
    )
    assert cost(lambda: decide(question), attempts=1) < 200
    return decide(question).allowed


@every_row("operator", TEXTS)
@every_row("wanted", ["a*", "?a", "${aws:PrincipalAccount}"])
def test_a_value_that_long_is_never_allowed(operator: str, wanted: str) -> None:
    for prefix in ("", "ForAnyValue:", "ForAllValues:"):
        condition = {prefix + operator: {"aws:RequestTag/a": wanted}}
        assert not allowed("Allow", condition, {"a": HUGE})
        assert not allowed("Deny", condition, {"a": HUGE})
        keys = {prefix + operator: {"aws:TagKeys": wanted}}
        assert not allowed("Allow", keys, {HUGE: ""})
        assert not allowed("Deny", keys, {HUGE: ""})


@pytest.mark.parametrize("operator", TEXTS)
def test_a_pattern_that_long_after_substitution_is_never_allowed(operator: str) -> None:
    condition = {operator: {"aws:RequestTag/b": "?${aws:RequestTag/a}"}}
    for tags in ({"a": HUGE, "b": "x"}, {"a": "a" * LENGTH_MAX, "b": "x"}):
        assert not allowed("Allow", condition, tags)
        assert not allowed("Deny", condition, tags)
    many = {operator: {"aws:RequestTag/b": "?" + "${aws:RequestTag/a}" * 300}}
    assert not allowed("Allow", many, {"a": "".join(map(chr, range(256, 512))), "b": "x"})


def test_a_resource_that_long_after_substitution_is_never_allowed() -> None:
    resource = queue("${aws:RequestTag/a}")
    assert allowed("Allow", {}, {"a": "orders"}, resource)
    assert not allowed("Deny", {}, {"a": "orders"}, resource)
    assert allowed("Deny", {}, {"a": "other"}, resource)
    assert not allowed("Allow", {}, {"a": HUGE}, resource)
    assert not allowed("Deny", {}, {"a": HUGE}, resource)


def test_a_deny_needs_all_of_its_conditions() -> None:
    long_one = {"StringLike": {"aws:RequestTag/a": "a*"}}
    assert allowed("Deny", {**long_one, "Bool": {"aws:SecureTransport": "true"}}, {"a": HUGE})
    assert not allowed("Deny", {**long_one, "Bool": {"aws:SecureTransport": "false"}}, {"a": HUGE})


@every_row("operator", ["StringEquals", "StringNotEquals", "StringLike", "Null"])
@every_row("value", ["good", "bad", "other", "true", "false"])
def test_tags_that_differ_only_in_case_satisfy_no_allow_and_every_deny(operator: str, value: str) -> None:
    if (operator == "Null") != (value in ("true", "false")):
        return
    condition = {operator: {"aws:RequestTag/x": value}}
    for tags in ({"x": "good", "X": "bad"}, {"X": "good", "x": "bad"}):
        assert not allowed("Allow", condition, tags)
        assert not allowed("Deny", condition, tags)


def test_tags_that_differ_only_in_case_are_compared_if_their_values_are_equal() -> None:
    condition = {"StringEquals": {"aws:RequestTag/x": "good"}}
    assert allowed("Allow", condition, {"x": "good", "X": "good"})
    assert not allowed("Deny", condition, {"x": "good", "X": "good"})


def test_the_longest_that_is_compared_is_compared() -> None:
    assert allowed("Allow", {"StringLike": {"aws:RequestTag/a": "?*"}}, {"a": "a" * LENGTH_MAX})
    assert not allowed("Allow", {"StringLike": {"aws:RequestTag/a": "?*"}}, {"a": "a" * (LENGTH_MAX + 1)})
    filled = {"StringEquals": {"aws:RequestTag/b": "${aws:RequestTag/a}"}}
    assert allowed("Allow", filled, {"a": "a" * LENGTH_MAX, "b": "a" * LENGTH_MAX})


def test_the_worst_pattern_of_that_length_is_quick() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + LENGTH_MAX - 1)))
    assert matcher(tokens("?" + text))("x" + text)
    assert cost(lambda: matcher(tokens("?" + text))("x" + text)) < 100


def test_as_many_patterns_as_a_policy_can_have_are_quick_on_as_many_tags_as_there_can_be() -> None:
    wanted = [f"*a?b*{number:x}" for number in range(700)]
    tags = {"ab" * 62 + f"{number:02}": "" for number in range(50)}
    assert allowed("Allow", {"ForAllValues:StringNotLike": {"aws:TagKeys": wanted}}, tags)


def test_only_texts_as_long_as_an_address_are_cached() -> None:
    before = len(operators._addresses)
    assert not allowed("Allow", {"IpAddress": {"aws:RequestTag/a": "0.0.0.0/0"}}, {"a": "9" * 65})
    assert allowed("Allow", {"NotIpAddress": {"aws:RequestTag/a": "0.0.0.0/0"}}, {"a": "9" * 65})
    assert len(operators._addresses) == before
