"""What holds for every policy: it never raises, it is compiled once, and a refusal reads as on AWS."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from penstock.auth.policy import Policy, PolicyInvalid, Question, compile_policy, decide, refusal
from penstock.auth.policy.operators import OPERATORS
from penstock.auth.principal import ANONYMOUS
from support.generated import examples
from support.rows import every_row

from .principals import CALLERS, OTHER, OWN, action_facts, queue

ORDERS = queue("orders")
OPEN = '{"Statement":{"Sid":"Open","Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}'
CLOSED = '{"Statement":{"Sid":"Closed","Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}'
ALL = '{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}'


def ask(who: str, action: str = "sqs:SendMessage", policy: str | None = None, **more: Any) -> Question:
    compiled = compile_policy(policy, kind="resource") if policy else None
    facts = {**action_facts(action), **more}
    return Question(CALLERS[who], resource=ORDERS, resource_account=OWN, resource_policy=compiled, **facts)


# ------------------------------------------------------------------ never raises

PIECES = [
    "*",
    "?",
    "${",
    "}",
    "aws:username",
    ", 'x'",
    "${*}",
    "arn:aws:sqs:",
    ":",
    "sqs:SendMessage",
    "::::::",
    "é\ud800",
]
WORDS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(max_size=8)
RESOURCES = st.lists(WORDS.map("arn:aws:sqs:::{}".format) | st.just("*"), min_size=1)
NUMBERS = st.sampled_from(
    ["1e999999", "-0", "2026", "2026-01", "0001-01-01T00:00+23:59", "9" * 60, "::1", "0.0.0.0/0"]
)
OPERATOR = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "ForAnyValue:", "ForAllValues:"]),
    st.sampled_from([*OPERATORS, "null"]),
    st.sampled_from(["", "IfExists"]),
)
KEYS = st.sampled_from(
    [
        "aws:CurrentTime",
        "aws:EpochTime",
        "aws:SourceIp",
        "aws:TagKeys",
        "aws:PrincipalTag/",
        "aws:username",
        "",
        "/",
        "x",
    ]
)
STATEMENTS = st.fixed_dictionaries(
    {
        "Effect": st.sampled_from(["Allow", "Deny"]),
        "Action": st.just("*"),
        "Resource": RESOURCES,
    },
    optional={
        "Principal": st.just("*"),
        "Condition": st.dictionaries(
            OPERATOR, st.dictionaries(KEYS, st.lists(WORDS | NUMBERS, max_size=2)), max_size=2
        ),
    },
)


@every_row(
    ("key", "unknown"),
    [
        ("aws:SourceIp", False),
        ("AWS:sourceip", False),
        ("aws:TokenIssueTime", False),
        ("aws:PrincipalTag/aws:x", False),
        ("sts:ExternalId", False),
        ("s3:prefix", False),  # its statement is about another service
        ("aws:SourceVpc", True),
        ("aws:PrincipalTag", True),
        ("aws:PrincipalTags/team", True),
        ("sts:ExternId", True),
        ("sqs:Colour", True),
        ("SourceIp", True),
    ],
)
def test_unknown_condition_keys_are_recognised(key: str, unknown: bool) -> None:
    condition = {"StringEquals": {key: "x", "aws:userid": "y"}, "StringNotLike": {key: "z"}}
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}
    policy = compile_policy(json.dumps({"Statement": [statement, statement]}), kind="identity")
    assert policy.unknown_keys == ((key,) if unknown else ())


@settings(max_examples=examples(300))
@given(
    st.lists(STATEMENTS, min_size=1, max_size=3),
    st.sampled_from(sorted(CALLERS)),
    st.sampled_from(["", "x", "::ffff:10.0.0.1", "fe80::1%eth0"]),
    st.sampled_from(["2012-10-17", "2008-10-17"]),
)
def test_every_valid_policy_can_be_evaluated(statements: list[Any], who: str, ip: str, version: str) -> None:
    text = json.dumps({"Version": version, "Statement": statements})
    kind: Any = "resource" if all("Principal" in statement for statement in statements) else "identity"
    try:
        policy = compile_policy(text, kind=kind)
    except PolicyInvalid:
        event("refused")
        return
    event("taken")
    principal = CALLERS[who]
    if kind == "identity":
        principal = msgspec.structs.replace(principal, policies=(policy,))
    tags = {"": "x", "é": "1e5"}
    decide(
        Question(
            principal, "sqs:SendMessage", ORDERS, OWN, policy if kind == "resource" else None,
            resource_tags=tags, tag_keys=tuple(tags), source_ip=ip, now_s=1767225600.5, keys={"x": "y", "": "z"},
        )
    )  # fmt: skip


# ------------------------------------------------------------------ compiled once


def test_a_policy_is_compiled_once_for_each_name_and_kind() -> None:
    assert compile_policy(ALL, kind="identity") is compile_policy(ALL, kind="identity")
    assert compile_policy(ALL, kind="identity") is not compile_policy(ALL, kind="session")
    named = compile_policy(ALL, kind="identity", name="everything")
    who = msgspec.structs.replace(CALLERS["alice"], policies=(named,))
    assert decide(ask("alice")._replace(principal=who)).policy == "identity:everything"


def test_what_is_cached_for_a_policy_is_bounded() -> None:
    policy: Policy = compile_policy(OPEN, kind="resource", name="bounded")
    for number in range(2000):
        assert policy.applicable("sqs:sendmessage", f"arn:{number}").allows
    assert len(policy._applicable) <= 512


# ------------------------------------------------------------------ words and facts


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (
            ask("alice"),
            f"User: {CALLERS['alice'].arn} is not authorized to perform: sqs:sendmessage on resource: {ORDERS} "
            "because no identity-based policy allows the sqs:sendmessage action",
        ),
        (
            ask("other-root", "sqs:ReceiveMessage"),
            f"User: arn:aws:iam::{OTHER}:root is not authorized to perform: sqs:receivemessage on resource: {ORDERS} "
            "because no resource-based policy allows the sqs:receivemessage action",
        ),
        (
            ask("worker", policy=CLOSED),
            f"User: arn:aws:sts::{OWN}:assumed-role/worker/w1 is not authorized to perform: sqs:sendmessage on "
            f"resource: {ORDERS} with an explicit deny in a resource-based policy",
        ),
        (
            ask("alice", "penstock:ListQueues"),
            f"User: {CALLERS['alice'].arn} is not authorized to perform: penstock:ListQueues on resource: {ORDERS} "
            "because no identity-based policy allows the penstock:ListQueues action",
        ),
        (ask("anonymous"), "Access to the resource https://sqs.example/ is denied."),
    ],
)
def test_a_refusal_has_the_text_of_aws(question: Question, sentence: str) -> None:
    verdict = decide(question)
    assert not verdict.allowed
    assert refusal(question, verdict, address="https://sqs.example/") == sentence


def test_a_refusal_names_the_session_policy() -> None:
    narrow = '{"Statement":{"Effect":"Allow","Action":"sqs:DeleteMessage","Resource":"*"}}'
    who = msgspec.structs.replace(CALLERS["worker"], session_policy=compile_policy(narrow, kind="session"))
    question = ask("worker", policy=OPEN)._replace(principal=who)
    assert decide(question).reason == "because no session policy allows the sqs:sendmessage action"


def test_facts_of_the_action_hold_whatever_the_policies_say() -> None:
    assert decide(ask("anonymous", policy=OPEN)).allowed
    assert not decide(ask("anonymous", policy=OPEN, grantable=False)).allowed
    assert decide(ask("root", policy=OPEN, grantable=False)).allowed
    assert not decide(ask("root", policy=CLOSED)).allowed
    assert decide(ask("root", policy=CLOSED, root_always=True)).allowed


def test_a_trust_policy_is_asked_as_the_policy_of_its_role() -> None:
    trust = compile_policy(
        json.dumps(
            {
                "Statement": {
                    "Sid": "Vendor",
                    "Effect": "Allow",
                    "Principal": {"AWS": OTHER},
                    "Action": "sts:AssumeRole",
                    "Condition": {"StringEquals": {"sts:ExternalId": "42"}},
                }
            }
        ),
        kind="trust",
    )
    question = Question(
        CALLERS["other-root"], "sts:AssumeRole", f"arn:aws:iam::{OWN}:role/worker", OWN, trust
    )
    assert not decide(question).allowed
    assert not decide(question._replace(keys={"sts:externalid": "43"})).allowed
    assert decide(question._replace(keys={"sts:externalid": "42"})).statement == "Vendor"


def test_an_anonymous_caller_belongs_to_no_account() -> None:
    """A resource whose account is unknown does not belong to those who have none."""
    assert not decide(
        Question(
            ANONYMOUS,
            resource="arn:aws:sqs:x::q",
            resource_account="",
            resource_policy=compile_policy(OPEN, kind="resource"),
            **action_facts("sqs:DeleteQueue"),
        )
    ).allowed
