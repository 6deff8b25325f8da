"""Which documents are policies, and what is said about those that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.auth.policy import Kind, PolicyInvalid, compile_policy

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("identity", "x", "a policy must be valid JSON"),
        ("identity", "[" * 10_000, "a policy must be valid JSON"),
        ("identity", "[]", "a policy must be a JSON object"),
        ("identity", document(BASE).ljust(20_481), "a policy has 20480 bytes at most"),
        ("identity", "{}", "Statement must be a statement or a list of them"),
        ("identity", document(), "Statement must be a statement or a list of them"),
        ("identity", document("x"), "statement 1 must be a JSON object"),
        ("identity", document(BASE, Version="2020-01-01"), "Version must be one of 2012-10-17, 2008-10-17"),
        ("identity", document(BASE, Id=["x"]), "Id must be a text"),
        (
            "identity",
            document(BASE, Statements=[]),
            "unknown element Statements: expected Version, Id and Statement",
        ),
        ("identity", '{"Statement":[],"Statement":[]}', "Statement is repeated"),
        ("identity", '{"Id":NaN}', "NaN is not a number"),
        (
            "identity",
            document(BASE, {**BASE, "Effect": "allow"}),
            "statement 2: Effect must be Allow or Deny",
        ),
        ("identity", document({**BASE, "Sid": ["x"]}), "statement 1: Sid must be a text"),
        ("identity", document(*[{**BASE, "Sid": "a"}] * 2), "each Sid may be used only once in a policy"),
        ("identity", document(without(BASE, "Action")), "statement 1 needs Action or NotAction, one of them"),
        (
            "identity",
            document(without(BASE, "Resource")),
            "statement 1 needs Resource or NotResource, one of them",
        ),
        (
            "identity",
            document({**BASE, "NotAction": "x:y"}),
            "statement 1 needs Action or NotAction, one of them",
        ),
        ("identity", document({**BASE, "Action": []}), "statement 1: Action must not be empty"),
        (
            "identity",
            document({**BASE, "Action": {}}),
            "statement 1: Action must be a text or a list of texts",
        ),
        (
            "identity",
            document({**BASE, "Action": "SendMessage"}),
            'statement 1: invalid action SendMessage: expected a service and an action, as in "sqs:SendMessage"',
        ),
        (
            "identity",
            document({**BASE, "Resource": "q"}),
            'statement 1: invalid resource q: expected an ARN or "*"',
        ),
        (
            "identity",
            document({**BASE, "Resource": "arn:aws:sqs:*:${aws:x}:q"}, Version="2012-10-17"),
            "statement 1: arn:aws:sqs:*:${aws:x}:q has a variable before its fifth colon",
        ),
        ("identity", document(PUBLIC), "statement 1: there is no Principal in a policy of this kind"),
        ("session", document(PUBLIC), "statement 1: there is no Principal in a policy of this kind"),
        (
            "identity",
            document({**BASE, "Conditions": {}}),
            "statement 1: there is no Conditions in a policy of this kind",
        ),
        ("trust", document(PUBLIC), "statement 1: there is no Resource in a policy of this kind"),
        ("resource", document(BASE), "statement 1 needs Principal or NotPrincipal, one of them"),
        (
            "resource",
            document({**BASE, "NotPrincipal": "*"}),
            "statement 1: NotPrincipal is allowed with Deny only",
        ),
        (
            "resource",
            for_principal("111122223333"),
            'statement 1: Principal must be "*" or an object such as {"AWS": "..."}',
        ),
        (
            "resource",
            for_principal({}),
            'statement 1: Principal must be "*" or an object such as {"AWS": "..."}',
        ),
        ("resource", for_principal({"aws": "*"}), "statement 1: aws is not a type of principal"),
        ("resource", for_principal({"AWS": []}), "statement 1: Principal must not be empty"),
        *(
            (
                "resource",
                for_principal({"AWS": name}),
                f"statement 1: {name} is neither an account nor the ARN of a user, role or session",
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
            "statement 1: Condition must be an object of operators, each with an object of keys",
        ),
        (
            "identity",
            when({"Bool": "true"}),
            "statement 1: Condition must be an object of operators, each with an object of keys",
        ),
        ("identity", when({"Bool": {"k": {}}}), "statement 1: k must be a text or a list of texts"),
        (
            "identity",
            when({"StringEqual": {"k": "x"}}),
            "statement 1: StringEqual is not a condition operator",
        ),
        (
            "identity",
            when({"ForSome:Bool": {"k": "true"}}),
            "statement 1: ForSome:Bool is not a condition operator",
        ),
        (
            "identity",
            when({"NullIfExists": {"k": "true"}}),
            "statement 1: NullIfExists is not a condition operator: use Null alone",
        ),
        (
            "identity",
            when({"Null": {"k": "yes"}}),
            "statement 1: invalid value for Null: expected true or false",
        ),
        ("identity", when({"Bool": {"k": "yes"}}), "statement 1: yes is not a truth value"),
        ("identity", when({"NumericEquals": {"k": "ten"}}), "statement 1: ten is not a number"),
        ("identity", when({"NumericEquals": {"k": "NaN"}}), "statement 1: NaN is not a number"),
        ("identity", when({"DateLessThan": {"k": "tomorrow"}}), "statement 1: tomorrow is not a date"),
        ("identity", when({"BinaryEquals": {"k": "?"}}), "statement 1: ? is not a base64 text"),
        (
            "identity",
            when({"IpAddress": {"k": "10.0.0.0/33"}}),
            "statement 1: 10.0.0.0/33 is not an address or network",
        ),
    ],
)
def test_an_invalid_policy(kind: Kind, text: str, why: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy(text, kind=kind)
    assert str(caught.value) == why
