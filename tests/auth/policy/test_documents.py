"""Which documents are policies, and what is said about those that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.auth.policy import Kind, PolicyInvalid, compile_policy
from support.rows import every_row
from support.texts import says

BASE: dict[str, Any] = {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}
PUBLIC = {**BASE, "Principal": "*"}
TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "111122223333"}}


def document(*statements: Any, **others: Any) -> str:
    return json.dumps({"Statement": list(statements), **others})


def without(statement: dict[str, Any], part: str) -> dict[str, Any]:
    return {key: value for key, value in statement.items() if key != part}


def when(condition: Any) -> str:
    return document({**BASE, "Condition": condition})


def for_principal(principal: Any) -> str:
    return document({**BASE, "Principal": principal})


@every_row(
    ("kind", "text"),
    [
        ("identity", document(BASE)),
        ("identity", document(BASE, Id="x", Version="2008-10-17")),
        ("identity", document({**BASE, "Sid": "a"}, {**BASE, "Sid": "b"}, BASE, BASE)),
        ("identity", json.dumps({"Statement": BASE})),
        ("session", document(BASE)),
        ("resource", document(PUBLIC)),
        ("resource", document({**PUBLIC, "Sid": "a"}, {**PUBLIC, "Sid": "a"})),
        ("resource", document({**PUBLIC, "Resource": "${sqs_queue_arn}"}, Version="2012-10-17")),
        ("resource", for_principal({"AWS": ["*", "111122223333", "arn:aws:iam::111122223333:root"]})),
        ("resource", for_principal({"AWS": "arn:aws:iam::111122223333:user/a/b c"})),
        ("resource", for_principal({"AWS": "arn:aws-cn:iam::111122223333:role/r"})),
        ("resource", for_principal({"AWS": "arn:aws:sts::111122223333:assumed-role/r/s"})),
        ("resource", for_principal({"AWS": "arn:aws:sts::111122223333:federated-user/f"})),
        (
            "resource",
            for_principal({"Service": ["sns.amazonaws.com"], "Federated": "x", "CanonicalUser": "y"}),
        ),
        ("trust", document(TRUST)),
        ("identity", when({})),
        ("identity", when({"stringEQUALS": {"AWS:username": "x"}})),
        ("identity", when({"NumericLessThan": {"x": 123456789012345678901234567890}})),
        ("identity", when({"Bool": {"aws:SecureTransport": True}})),
        ("identity", when({"StringEquals": {"aws:username": []}})),
    ],
)
def test_a_valid_policy(kind: Kind, text: str) -> None:
    assert compile_policy(text, kind=kind).kind == kind


@every_row(
    ("kind", "text", "why"),
    [
        ("identity", "x", "policy valid JSON"),
        ("identity", "[" * 10_000, "policy valid JSON"),
        ("identity", "[]", "policy JSON object"),
        ("identity", document(BASE).ljust(20_481), "policy 20480 bytes"),
        ("identity", "{}", "Statement list"),
        ("identity", document(), "Statement list"),
        ("identity", document("x"), "statement 1 JSON object"),
        ("identity", document(BASE, Version="2020-01-01"), "Version 2012-10-17 2008-10-17"),
        ("identity", document(BASE, Id=["x"]), "Id text"),
        (
            "identity",
            document(BASE, Statements=[]),
            "unknown Statements Version Id Statement",
        ),
        ("identity", '{"Statement":[],"Statement":[]}', "Statement repeated"),
        ("identity", '{"Id":NaN}', "NaN number"),
        (
            "identity",
            document(BASE, {**BASE, "Effect": "allow"}),
            "statement 2: Effect Allow Deny",
        ),
        ("identity", document({**BASE, "Sid": ["x"]}), "statement 1: Sid text"),
        ("identity", document(*[{**BASE, "Sid": "a"}] * 2), "Sid once"),
        ("identity", document(without(BASE, "Action")), "statement 1 Action NotAction one"),
        (
            "identity",
            document(without(BASE, "Resource")),
            "statement 1 Resource NotResource one",
        ),
        (
            "identity",
            document({**BASE, "NotAction": "x:y"}),
            "statement 1 Action NotAction one",
        ),
        ("identity", document({**BASE, "Action": []}), "statement 1: Action empty"),
        (
            "identity",
            document({**BASE, "Action": {}}),
            "statement 1: Action text list",
        ),
        (
            "identity",
            document({**BASE, "Action": "SendMessage"}),
            'statement 1: invalid action SendMessage: "sqs:SendMessage"',
        ),
        (
            "identity",
            document({**BASE, "Resource": "q"}),
            'statement 1: invalid resource q: ARN "*"',
        ),
        (
            "identity",
            document({**BASE, "Resource": "arn:aws:sqs:*:${aws:x}:q"}, Version="2012-10-17"),
            "statement 1: arn:aws:sqs:*:${aws:x}:q variable fifth colon",
        ),
        ("identity", document(PUBLIC), "statement 1: no Principal"),
        ("session", document(PUBLIC), "statement 1: no Principal"),
        (
            "identity",
            document({**BASE, "Conditions": {}}),
            "statement 1: no Conditions",
        ),
        ("trust", document(PUBLIC), "statement 1: no Resource"),
        ("resource", document(BASE), "statement 1 Principal NotPrincipal one"),
        (
            "resource",
            document({**BASE, "NotPrincipal": "*"}),
            "statement 1: NotPrincipal Deny",
        ),
        (
            "resource",
            for_principal("111122223333"),
            'statement 1: Principal "*" {"AWS": "..."}',
        ),
        (
            "resource",
            for_principal({}),
            'statement 1: Principal "*" {"AWS": "..."}',
        ),
        ("resource", for_principal({"aws": "*"}), "statement 1: aws type principal"),
        ("resource", for_principal({"AWS": []}), "statement 1: Principal empty"),
        *(
            (
                "resource",
                for_principal({"AWS": name}),
                f"statement 1: {name} account ARN",
            )
            for name in (
                "",
                "1111",
                "1111222233334",
                "arn:aws:iam::111122223333:*",
                "arn:aws:iam::111122223333:user/*",
                "arn:aws:iam::1111:root",
                "arn:aws:iam::111122223333:group/g",
                "arn:aws:sts::111122223333:assumed-role/r",
                "AIDAEXAMPLE",
            )
        ),
        (
            "identity",
            when([]),
            "statement 1: Condition operators keys",
        ),
        (
            "identity",
            when({"Bool": "true"}),
            "statement 1: Condition operators keys",
        ),
        ("identity", when({"Bool": {"k": {}}}), "statement 1: k text list"),
        (
            "identity",
            when({"StringEqual": {"k": "x"}}),
            "statement 1: StringEqual operator",
        ),
        (
            "identity",
            when({"ForSome:Bool": {"k": "true"}}),
            "statement 1: ForSome:Bool operator",
        ),
        (
            "identity",
            when({"NullIfExists": {"k": "true"}}),
            "statement 1: NullIfExists operator Null",
        ),
        (
            "identity",
            when({"Null": {"k": "yes"}}),
            "statement 1: invalid Null true false",
        ),
        ("identity", when({"Bool": {"k": "yes"}}), "statement 1: yes truth"),
        ("identity", when({"NumericEquals": {"k": "ten"}}), "statement 1: ten number"),
        ("identity", when({"NumericEquals": {"k": "NaN"}}), "statement 1: NaN number"),
        ("identity", when({"DateLessThan": {"k": "tomorrow"}}), "statement 1: tomorrow date"),
        ("identity", when({"BinaryEquals": {"k": "?"}}), "statement 1: ? base64"),
        (
            "identity",
            when({"IpAddress": {"k": "10.0.0.0/33"}}),
            "statement 1: 10.0.0.0/33 address network",
        ),
    ],
)
def test_an_invalid_policy(kind: Kind, text: str, why: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy(text, kind=kind)
    says(str(caught.value), *why.split())
