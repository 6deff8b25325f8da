"""Policies: any text compiles or is refused with a reason, and nothing is allowed that no statement allows.

An input is lines. ``ask alice sqs:SendMessage q 192.0.2.7`` is a question; ``identity {...}``, ``session {...}``,
``resource {...}`` and ``trust {...}`` are the policies that it is asked of.
"""

from __future__ import annotations

import json
from typing import get_args

import msgspec

from fuzz.targets import text_of
from penstock.auth.policy import Kind, Policy, PolicyInvalid, Question, compile_policy, decide, refusal
from penstock.auth.policy.operators import OPERATORS
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.services.sqs.permissions import check_policy
from penstock.wire.service import Fault
from support.identities import ABROAD, HOME

QUEUE_POLICY = (
    '{"Version":"2012-10-17","Id":"i","Statement":[{"Sid":"s","Effect":"Allow","Principal":{"AWS":["444455556666",'
    '"arn:aws:iam::111122223333:role/worker"]},"Action":["sqs:SendMessage","SQS:Receive*"],"Resource":"*","Condition":'
    '{"IpAddress":{"aws:SourceIp":["192.0.2.0/24","2001:db8::/32"]}}},{"Effect":"Deny","NotPrincipal":{"AWS":'
    '"arn:aws:iam::111122223333:root"},"NotAction":"sqs:*","Resource":"arn:aws:sqs:*:111122223333:?"}]}'
)
_IDENTITY_POLICY = (
    '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:*","Resource":'
    '"arn:aws:sqs:*:*:${aws:username, \'q\'}*","Condition":{"ForAnyValue:StringLikeIfExists":{"aws:TagKeys":["a*"]},'
    '"StringNotEquals":{"aws:PrincipalTag/team":"${aws:ResourceTag/team}"},"Null":{"aws:userid":"false"}}}}'
)
_TRUST_POLICY = '{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sts:AssumeRole"}]}'
_CONDITIONS: list[dict[str, dict[str, str | list[str]]]] = [
    {"Bool": {"aws:SecureTransport": "true"}},
    {"NumericLessThanIfExists": {"aws:EpochTime": "4e9"}},
    {"NumericEquals": {"aws:PrincipalTag/a": ["-0", "1.50"]}},
    {"DateGreaterThan": {"aws:CurrentTime": ["2020-01-01T00:00:00Z", "1577836800", "2020"]}},
    {"ArnLike": {"aws:PrincipalArn": ["arn:aws:iam::*:user/*", "*"]}},
    {"ArnNotEquals": {"aws:SourceArn": "arn:aws:sns:${aws:RequestedRegion}:*:?"}},
    {"BinaryEquals": {"sts:ExternalId": "AAE="}},
    {"ForAllValues:StringEqualsIgnoreCase": {"aws:TagKeys": ["TEAM", "${aws:PrincipalType}"]}},
    {"StringNotLike": {"aws:PrincipalType": "Assumed*", "aws:RequestedRegion": "us-*"}},
    {"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}, "Null": {"aws:username": "true"}},
]
_DENY_ALL = compile_policy('{"Statement":{"Effect":"Deny","Action":"*","Resource":"*"}}', kind="identity")
_TAGS = {"team": "red", "Team": "blue", "a": ""}
_PRINCIPALS = {
    "anonymous": ANONYMOUS,
    "root": Principal(kind="root", account=HOME, arn=f"arn:aws:iam::{HOME}:root", id=HOME),
    "alice": Principal(
        kind="user",
        account=HOME,
        arn=f"arn:aws:iam::{HOME}:user/alice",
        id="AIDAALICE",
        name="alice",
        tags=_TAGS,
    ),
    "worker": Principal(
        kind="session",
        account=HOME,
        arn=f"arn:aws:sts::{HOME}:assumed-role/worker/w",
        id="AROAWORKER:w",
        role_arn=f"arn:aws:iam::{HOME}:role/worker",
    ),
    "mallory": Principal(
        kind="user",
        account=ABROAD,
        arn=f"arn:aws:iam::{ABROAD}:user/mallory",
        id="AIDAMALLORY",
        name="mallory",
    ),
}
_DEFAULT_PRINCIPAL = _PRINCIPALS["alice"]
_KINDS: tuple[Kind, ...] = get_args(Kind)

WORDS = [
    *(f'"{operator}":'.encode() for operator in OPERATORS),
    *(f"ask {name} sqs:SendMessage q 192.0.2.7\n".encode() for name in _PRINCIPALS),
    *(f"\n{kind} ".encode() for kind in _KINDS),
    *(b'"ForAllValues:', b'"ForAnyValue:', b'IfExists":', b'"Null":'),
    *(b'"Version":"2012-10-17",', b'"2008-10-17"'),
    *(b'"Statement":', b'"Effect":"Allow",', b'"Effect":"Deny",'),
    *(b'"Action":"*",', b'"NotAction":', b'"Resource":"*"'),
    *(b'"NotResource":', b'"Principal":"*",', b'"NotPrincipal":'),
    *(b'{"AWS":', b'{"Service":"x"}', b'"Sid":', b'"Id":'),
    *(b'"aws:SourceIp":', b'"aws:username":', b'"aws:TagKeys":'),
    *(b'"aws:CurrentTime":', b'"aws:PrincipalTag/Team":'),
    *(b"${aws:username}", b"${*}", b"${$}", b"${aws:x, 'y'}"),
    *(b"${", b"}", b"*", b"?", b"**?*", b"arn:aws:sqs:*:*:q"),
    *(b"::1/0", b"0.0.0.0/0", b"::ffff:192.0.2.7", b"1e400"),
    *(b"NaN", b"-0", b"2020-02-30", b"9999999999999", b"true"),
    *(b"\\ud800", b"\\u0000", b'\\"', b"[[[[", b'{"":{"":[]}}', b"\xc4\xb0", b"\xc3\x9f", b"\xd9\xa0", b"AAE="),
]  # fmt: skip


def seeds() -> list[bytes]:
    alone = [f"\nresource {QUEUE_POLICY}", f"\nidentity {_IDENTITY_POLICY}", f"\ntrust {_TRUST_POLICY}"]
    together = "".join([*alone, f"\nsession {_IDENTITY_POLICY}"])
    questions = [
        f"ask {name} sqs:{action} {resource} {ip}"
        for name in _PRINCIPALS
        for action, resource, ip in (
            ("SendMessage", "q", "192.0.2.7"),
            ("SetQueueAttributes", "alice-1", "::1"),
        )
    ]
    for condition in _CONDITIONS:
        for effect in ("Allow", "Deny"):
            statement = {
                "Effect": effect,
                "Principal": "*",
                "Action": "*",
                "Resource": "*",
                "Condition": condition,
            }
            alone.append("\nresource " + json.dumps({"Version": "2012-10-17", "Statement": statement}))
    return [(question + each).encode() for question in questions for each in (together, *alone)]


def check(data: bytes) -> None:
    asked, _, rest = data.partition(b"\n")
    policies: dict[Kind, list[Policy]] = {kind: [] for kind in _KINDS}
    for line in rest.split(b"\n"):
        kind, _, text = text_of(line).partition(" ")
        _check_accepted_or_refused(text)
        policy = _compiled(text, kind) if kind in _KINDS else None
        if policy is not None:
            policies[policy.kind].append(policy)
    _check_decision(_question(text_of(asked), policies))


def _compiled(text: str, kind: Kind) -> Policy | None:
    try:
        return compile_policy(text, kind=kind)
    except PolicyInvalid as error:
        assert str(error), "an invalid policy is refused with a reason"
        return None


def _check_accepted_or_refused(text: str) -> None:
    """A document that SQS accepts for a queue can be enforced, and is returned unchanged."""
    try:
        check_policy(text)
    except Fault:
        return
    assert _compiled(text, "resource") is not None
    assert isinstance(json.loads(text), dict)


def _question(asked: str, policies: dict[Kind, list[Policy]]) -> Question:
    _, who, action, resource, ip = (asked.split(" ", 4) + [""] * 5)[:5]
    principal = msgspec.structs.replace(
        _PRINCIPALS.get(who, _DEFAULT_PRINCIPAL),
        policies=tuple(policies["identity"]),
        session_policy=next(iter(policies["session"]), None),
    )
    return Question(
        principal=principal,
        action=action,
        resource=f"arn:aws:sqs:us-east-1:{HOME}:{resource}",
        resource_account=HOME,
        resource_policy=next(iter(policies["resource"] + policies["trust"]), None),
        resource_tags=_TAGS,
        request_tags=_TAGS,
        tag_keys=tuple(_TAGS),
        source_ip=ip,
        secure="." in ip,
        now_s=1_770_000_000.5,
        source_arn=f"arn:aws:sns:us-east-1:{HOME}:{resource}",
        keys={"sts:externalid": resource},
    )


def _check_decision(question: Question) -> None:
    verdict = decide(question)
    assert decide(question) == verdict, "the cache changes the decision"
    assert refusal(question, verdict)
    principal, theirs = question.principal, question.resource_policy
    is_own_root = principal.kind == "root"
    if verdict.allowed and not is_own_root:
        asked = (*principal.policies, *([theirs] if theirs else []))
        assert any(each.allows for policy in asked for each in policy.statements), "nothing allows this"
        if principal.kind == "anonymous" or principal.account != question.resource_account:
            assert theirs is not None, "no resource policy admits other accounts"
    denied = msgspec.structs.replace(principal, policies=(*principal.policies, _DENY_ALL))
    assert not decide(question._replace(principal=denied)).allowed, "a deny wins"
