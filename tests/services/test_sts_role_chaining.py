"""Role chaining: what a session inherits, what ends it, and which tags conditions see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.auth import authorize
from penstock.auth.errors import InvalidToken
from penstock.auth.identity.admin import attach, find_role, find_user, put_policy, remove, trust_document
from penstock.auth.identity.model import CredentialsContent
from penstock.auth.policy import Question, Verdict, decide
from penstock.auth.principal import Principal
from penstock.services.sts import SERVICE
from services.sts_client import TRUST_ALICE, Sts, assume, denied
from support.identities import HOME, Accounts, allow, document


def test_inherited_tags_need_the_permission_too(sts: Sts, accounts: Accounts) -> None:
    """Else a role that does not let itself be tagged would be tagged by way of one that does."""
    first, name = accounts.role("first", TRUST_ALICE), f"arn:aws:iam::{HOME}:role/first"
    untagged = accounts.role("untagged", document(allow("sts:AssumeRole", Principal={"AWS": name})))
    denying = accounts.role(
        "denying",
        document(
            allow("sts:*", Principal={"AWS": name}),
            {"Effect": "Deny", "Principal": "*", "Action": "sts:TagSession"},
        ),
    )
    tags = {"Tags": [{"Key": "team", "Value": "a"}], "TransitiveTagKeys": ["team"]}
    tagged = sts.principal(sts(accounts.principal("alice"), "AssumeRole", **assume(first, **tags)))
    plain = sts.principal(sts(accounts.principal("alice"), "AssumeRole", **assume(first)))
    for role in (untagged, denying):
        assert sts.refused(tagged, "AssumeRole", **assume(role)) == denied(tagged, role, "sts:TagSession")
        assert sts.principal(sts(plain, "AssumeRole", **assume(role))).tags == {}


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"StringEquals": {"aws:RequestTag/team": "a"}}, True),
        ({"StringEquals": {"aws:RequestTag/team": "b"}}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["team", "cost"]}}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["cost"]}}, False),
        ({"ForAllValues:StringEquals": {"sts:TransitiveTagKeys": ["team", "cost"]}}, True),
        ({"ForAnyValue:StringEquals": {"sts:TransitiveTagKeys": ["team"]}}, True),
        ({"ForAllValues:StringEquals": {"sts:TransitiveTagKeys": ["cost"]}}, False),
        ({"Null": {"sts:TransitiveTagKeys": "true"}}, False),
    ],
)
def test_conditions_see_inherited_tags(sts: Sts, accounts: Accounts, condition: Any, allowed: bool) -> None:
    first = accounts.role("first", TRUST_ALICE)
    trusted = allow(["sts:AssumeRole", "sts:TagSession"], Principal="*", Condition=condition)
    accounts.change(lambda content: attach(content, find_role(content, "first", None), "assume-roles"))
    second = accounts.role("second", document(trusted))
    tags = {"Tags": [{"Key": "team", "Value": "a"}], "TransitiveTagKeys": ["team"]}
    session = sts.principal(sts(accounts.principal("alice"), "AssumeRole", **assume(first, **tags)))
    added = {"Tags": [{"Key": "cost", "Value": "7"}], "TransitiveTagKeys": ["cost"]}
    assert ("Credentials" in sts(session, "AssumeRole", **assume(second, **added))) is allowed


def test_without_tags_no_condition_sees_transitive_ones(sts: Sts, accounts: Accounts) -> None:
    statement = allow(
        "sts:AssumeRole",
        Principal={"AWS": accounts.principal("alice").arn},
        Condition={"Null": {"sts:TransitiveTagKeys": "true", "aws:TokenIssueTime": "true"}},
    )
    role = accounts.role("worker", document(statement))
    assert "Credentials" in sts(accounts.principal("alice"), "AssumeRole", **assume(role))


def test_sessions_issued_before_a_time_can_be_denied(sts: Sts, accounts: Accounts) -> None:
    """What AWS's own revocation of sessions does: a deny on aws:TokenIssueTime."""
    role, queue = accounts.role("worker", TRUST_ALICE, "sqs-full-access"), f"arn:aws:sqs:us-east-1:{HOME}:q"
    alice = accounts.principal("alice")
    replies = [sts(alice, "AssumeRole", **assume(role)), sts(alice, "GetSessionToken")]
    accounts.clock.advance(10_000)
    replies += [sts(alice, "AssumeRole", **assume(role)), sts(alice, "GetSessionToken")]
    moment = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000 - 5, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"DateLessThan": {"aws:TokenIssueTime": moment}}
    deny = document(
        allow("*", Resource="*"), {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": condition}
    )

    def revoke(content: CredentialsContent) -> None:
        put_policy(content, "revoked", deny)
        attach(content, find_role(content, "worker", None), "revoked")
        attach(content, find_user(content, "alice", None), "revoked")

    accounts.change(revoke)
    allowed = [
        decide(Question(sts.principal(reply), "sqs:SendMessage", queue, HOME)).allowed for reply in replies
    ]
    assert allowed == [False, False, True, True]
    assert decide(Question(accounts.principal("alice"), "sqs:SendMessage", queue, HOME)).allowed, "no session"


def test_condition_keys_of_sts_are_known_to_the_policy_review(
    sts: Sts, accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []

    def noted(question: Question) -> Verdict:
        asked.append(question)
        return decide(question)

    monkeypatch.setattr(authorize, "decide", noted)
    role = accounts.role("worker", trust_document(["alice"], HOME, "secret-7", allow_tags=True))
    tags = {"Tags": [{"Key": "team", "Value": "a"}], "TransitiveTagKeys": ["team"]}
    assert "Credentials" in sts(
        accounts.principal("alice"), "AssumeRole", **assume(role, ExternalId="secret-7", **tags)
    )
    assert {key for question in asked for key in question.keys} == set(SERVICE.condition_keys)


def test_a_chain_ends_with_any_role_in_it(sts: Sts, accounts: Accounts) -> None:
    trust = trust_document(["alice", f"arn:aws:iam::{HOME}:role/first"], HOME, None)
    first, second = accounts.role("first", trust), accounts.role("second", trust)
    passing = sts.principal(sts(accounts.principal("alice"), "AssumeRole", **assume(first)))
    through, around = (
        sts(passing, "AssumeRole", **assume(second)),
        sts(passing, "AssumeRole", **assume(first)),
    )
    own = sts(accounts.principal("alice"), "AssumeRole", **assume(second))
    assert [hop.owner for hop in sts.principal(through).chain] == ["first", "second"]
    assert [hop.owner for hop in sts.principal(around).chain] == ["first"], "round and round is no longer"
    accounts.change(lambda content: remove(content, find_role(content, "first", None)))
    for reply in (through, around):
        with pytest.raises(InvalidToken, match="The security token included in the request is invalid"):
            sts.principal(reply)
    sts.principal(own)


def test_a_chain_has_a_limit(sts: Sts, accounts: Accounts) -> None:
    who: Principal = accounts.principal("alice")
    for number in range(16):
        role = accounts.role(f"r{number}", trust_document([who.role_arn or who.arn], HOME, None))
        who = sts.principal(sts(who, "AssumeRole", **assume(role)))
    last = accounts.role("last", trust_document([who.role_arn or ""], HOME, None))
    refused = sts.refused(who, "AssumeRole", **assume(last))
    assert refused == (400, "ValidationError", "A chain of sessions has at most 16 roles.")
