"""The evaluator against a slow, obvious one, over policies and questions that meet often."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from penstock.auth.policy import Kind, Question, Verdict, compile_policy, decide
from support.generated import examples

from .principals import CALLERS, OTHER, OWN, REGION, action_facts, queue
from .slow import Documents, slow_decide

ACTIONS = [
    "sqs:SendMessage",
    "sqs:ReceiveMessage",
    "sqs:SetQueueAttributes",
    "sqs:SendMessageBatch",
    "sqs:PurgeQueue",
]
ACTION_PATTERNS = [
    "*",
    "sqs:*",
    "SQS:SendMessage",
    "sqs:*Message",
    "sqs:?e*Message",
    "sqs:Set*",
    "sqs:receivemessage",
]
RESOURCES = [queue("orders"), queue("alice-in"), queue("orders-*")]
RESOURCE_PATTERNS = [
    "*",
    queue("orders"),
    queue("*"),
    queue("o?ders"),
    queue("orders-${*}"),
    queue("${aws:username}-*"),
    queue("${aws:username, 'orders'}*"),
    f"arn:aws:sqs:*:{OWN}:*-*",
    f"arn:aws:sqs:{REGION}:*",
]
PRINCIPALS = [
    "*",
    OWN,
    OTHER,
    f"arn:aws:iam::{OWN}:root",
    *(principal.arn for name, principal in CALLERS.items() if name != "anonymous"),
    *(principal.role_arn for principal in CALLERS.values() if principal.role_arn),
]
TEXTS = [
    "red",
    "blue",
    "RED",
    "r*",
    "5",
    "alice",
    "${aws:PrincipalTag/team}",
    "${aws:username}",
    "${aws:nothing, 'red'}",
]
ARNS = [
    f"arn:aws:iam::{OWN}:*",
    "arn:aws:iam::*:user/a*",
    f"arn:aws:iam::{OWN}:role/worker",
    "*",
    "arn:aws:sns:*:*:topic",
    "${aws:PrincipalArn}",
    "no-arn",
]
TIMES = ["2024-01-01T00:00:00Z", "2026-06-01", "1767225600", "2026-01-01T01:00+01:00"]
NUMBERS = ["5", "4.5", "1767225600", "-1"]
NETWORKS = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "0.0.0.0/0"]

STRING_KEYS = [
    "aws:PrincipalTag/team",
    "aws:resourcetag/Team",
    "aws:RequestTag/team",
    "aws:username",
    "AWS:PrincipalType",
    "aws:TagKeys",
    "aws:PrincipalAccount",
    "sts:ExternalId",
    "aws:RequestedRegion",
]


def some(values: list[str], least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=3)


def one_or_some(values: list[str]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values) | some(values)


def operators(names: list[str]) -> st.SearchStrategy[str]:
    prefix = st.sampled_from(["", "", "ForAnyValue:", "ForAllValues:"])
    return st.builds("{}{}{}".format, prefix, st.sampled_from(names), st.sampled_from(["", "", "IfExists"]))


def compared(family: str) -> list[str]:
    relations = ["Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals"]
    return [family + relation for relation in relations]


def condition(
    names: list[str], keys: list[str], values: list[str]
) -> st.SearchStrategy[tuple[str, str, Any]]:
    return st.tuples(operators(names), st.sampled_from(keys), one_or_some(values) | some(values, 0))


STRING_OPERATORS = [
    "StringEquals",
    "StringNotEquals",
    "StringLike",
    "StringNotLike",
    "StringEqualsIgnoreCase",
]
CONDITIONS = st.one_of(
    condition([*STRING_OPERATORS, "StringNotEqualsIgnoreCase"], STRING_KEYS, TEXTS),
    condition(
        ["ArnEquals", "ArnNotEquals", "ArnLike", "ArnNotLike"], ["aws:PrincipalArn", "aws:SourceArn"], ARNS
    ),
    condition(compared("Date"), ["aws:CurrentTime", "aws:EpochTime", "aws:TokenIssueTime"], TIMES),
    condition(compared("Numeric"), ["aws:PrincipalTag/grade", "aws:EpochTime", "aws:username"], NUMBERS),
    condition(["IpAddress", "NotIpAddress"], ["aws:SourceIp"], NETWORKS),
    condition(
        ["Bool"],
        ["aws:SecureTransport", "aws:ViaAWSService", "aws:MultiFactorAuthPresent"],
        ["true", "false"],
    ),
    condition(["BinaryEquals"], ["sts:Blob"], ["QUJD", "REVG"]),
    st.tuples(st.just("Null"), st.sampled_from(STRING_KEYS), st.sampled_from(["true", "false"])),
)


@st.composite
def statements(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    effect = draw(st.sampled_from(["Allow", "Allow", "Deny"]))
    action = draw(st.sampled_from(["Action", "Action", "Action", "NotAction"]))
    resource = draw(st.sampled_from(["Resource", "Resource", "Resource", "NotResource"]))
    statement: dict[str, Any] = {
        "Effect": effect,
        action: draw(one_or_some(ACTION_PATTERNS)),
        resource: draw(one_or_some(RESOURCE_PATTERNS)),
    }
    if kind == "resource":
        principal = "NotPrincipal" if effect == "Deny" and draw(st.booleans()) else "Principal"
        statement[principal] = draw(st.just("*") | st.fixed_dictionaries({"AWS": one_or_some(PRINCIPALS)}))
    block: dict[str, dict[str, Any]] = {}
    for operator, key, values in draw(st.just([]) | st.lists(CONDITIONS, max_size=2)):
        block.setdefault(operator, {})[key] = values
    if block:
        statement["Condition"] = block
    return statement


def documents(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "Version": st.sampled_from(["2012-10-17", "2012-10-17", "2008-10-17"]),
            "Statement": st.lists(statements(kind), min_size=1, max_size=3) | statements(kind),
        }
    )


def tags(*keys: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(["red", "blue", "5"]))


# Keys that differ only in case have their own tests: a condition on them cannot be evaluated.
TAGS = tags("team", "x") | tags("Team", "x")


@st.composite
def questions(draw: st.DrawFn) -> tuple[Question, Documents]:
    who = draw(st.sampled_from(list(CALLERS.values())))
    has_identity = who.kind in ("user", "session")
    found = Documents(
        identity=draw(st.lists(documents("identity"), min_size=draw(st.sampled_from([0, 1, 1])), max_size=2))
        if has_identity
        else [],
        session=draw(st.none() | documents("session")) if who.role_arn else None,
        resource=draw(documents("resource") | documents("resource") | st.none()),
    )
    principal = msgspec.structs.replace(
        who,
        policies=tuple(compile_policy(json.dumps(each), kind="identity") for each in found.identity),
        session_policy=compile_policy(json.dumps(found.session), kind="session") if found.session else None,
    )
    policy = compile_policy(json.dumps(found.resource), kind="resource") if found.resource else None
    request_tags = draw(TAGS)
    return (
        Question(
            principal=principal,
            **action_facts(draw(st.sampled_from(ACTIONS))),
            resource=draw(st.sampled_from(RESOURCES)),
            resource_account=OWN,
            resource_policy=policy,
            resource_tags=draw(TAGS),
            request_tags=request_tags,
            tag_keys=tuple(request_tags),
            source_ip=draw(st.sampled_from(["", "10.1.2.3", "192.0.2.7", "2001:db8::1"])),
            secure=draw(st.booleans()),
            now_s=draw(st.sampled_from([1767225600.0, 1767225600.9, 1700000000.0])),
            source_arn=draw(st.sampled_from(["", "arn:aws:sns:us-east-2:1:topic"])),
            keys=draw(st.sampled_from([{}, {"sts:externalid": "red", "sts:blob": "QUJD"}])),
        ),
        found,
    )


def said(verdict: Verdict) -> str:
    if verdict.allowed:
        return "allow"
    if verdict.policy is not None:
        return f"deny {verdict.policy}"
    return "no " + verdict.reason.removeprefix("because no ").partition("-based ")[0].partition(" policy")[0]


@settings(max_examples=examples(400), deadline=None)
@given(questions())
def test_both_implementations_agree(asked: tuple[Question, Documents]) -> None:
    question, found = asked
    expected = slow_decide(question, found)
    event(expected)
    assert said(decide(question)) == expected
    assert said(decide(question)) == expected, "what is remembered changes nothing"
