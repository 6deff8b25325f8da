"""STS on a secured server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.auth.identity.admin import find_user, trust_document
from penstock.auth.policy import Question, decide
from penstock.auth.principal import ANONYMOUS
from penstock.services.sts import ACTIONS
from penstock.wire.shapes import ListOf, StructOf, struct_shape
from services.sts_client import MODEL, ROLE, TRUST_ALICE, Sts, assume, denied
from support.identities import ABROAD, HOME, Accounts, allow, document

# -- the wire ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_members_are_those_of_the_model(action: str) -> None:
    request, response = ACTIONS[action].request, ACTIONS[action].response
    assert response is not None
    operation = MODEL.operation_model(action)
    for ours, theirs in ((request, operation.input_shape), (response, operation.output_shape)):
        _same_members(struct_shape(ours), theirs)


def _same_members(ours: StructOf, theirs: Any) -> None:
    assert {field.name for field in ours.fields} <= set(theirs.members)
    for field in ours.fields:
        shape, member = field.shape, theirs.members[field.name]
        if isinstance(shape, ListOf):
            shape, member = shape.member, member.member
        if isinstance(shape, StructOf):
            _same_members(shape, member)


def test_an_answer_to_the_byte(sts: Sts, accounts: Accounts) -> None:
    alice = accounts.principal("alice")
    answer = sts.answer(alice, b"Action=GetCallerIdentity&Version=2011-06-15")
    assert answer.status == 200
    assert dict(answer.headers)[b"Content-Type"] == b"text/xml"
    assert answer.body.decode() == (
        '<?xml version="1.0"?><GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        f"<GetCallerIdentityResult><UserId>{alice.id}</UserId><Account>{HOME}</Account><Arn>{alice.arn}</Arn>"
        "</GetCallerIdentityResult><ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata>"
        "</GetCallerIdentityResponse>"
    )


def test_parameters_may_stand_in_the_url(sts: Sts, accounts: Accounts) -> None:
    query = b"Action=GetCallerIdentity&Version=2011-06-15"
    assert sts.answer(accounts.principal("alice"), b"", method=b"GET", query=query).status == 200


def test_an_error_to_the_byte(sts: Sts) -> None:
    answer = sts.answer(ANONYMOUS, b"Action=GetCallerIdentity&Version=2011-06-15")
    assert answer.status == 403
    assert answer.body.decode() == (
        '<?xml version="1.0"?><ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>'
        "<Type>Sender</Type><Code>MissingAuthenticationToken</Code>"
        "<Message>Request is missing Authentication Token</Message></Error>"
        "<RequestId>rid</RequestId></ErrorResponse>"
    )


@pytest.mark.parametrize("action", ["GetSessionToken", "AssumeRole"])
def test_an_unsigned_request_is_refused(sts: Sts, action: str) -> None:
    members = assume(f"arn:aws:iam::{HOME}:role/worker") if action == "AssumeRole" else {}
    assert sts.refused(ANONYMOUS, action, **members)[:2] == (403, "MissingAuthenticationToken")


# -- GetCallerIdentity ---------------------------------------------------------------------------------------


def test_get_caller_identity(sts: Sts, accounts: Accounts) -> None:
    role = accounts.role("worker", TRUST_ALICE)
    accounts.user("root")
    alice, root = accounts.principal("alice"), accounts.principal("root")
    session = sts.principal(sts(alice, "AssumeRole", **assume(role)))
    for who in (alice, root, session):
        reply = sts(who, "GetCallerIdentity")
        assert (reply["UserId"], reply["Account"], reply["Arn"]) == (who.id, HOME, who.arn)
    assert session.arn == f"arn:aws:sts::{HOME}:assumed-role/worker/job-7"


# -- GetSessionToken -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked_s", "given_s"), [(None, 43_200), (900, 900), (129_600, 129_600)])
def test_get_session_token(sts: Sts, accounts: Accounts, asked_s: int | None, given_s: int) -> None:
    members = {} if asked_s is None else {"DurationSeconds": asked_s}
    reply = sts(accounts.principal("alice"), "GetSessionToken", **members)
    now = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)
    assert reply["Credentials"]["Expiration"] == now + timedelta(seconds=given_s)
    assert sts.principal(reply).arn == accounts.principal("alice").arn


def test_root_gets_a_session_of_one_hour(sts: Sts, accounts: Accounts) -> None:
    accounts.user("root")
    reply = sts(accounts.principal("root"), "GetSessionToken", DurationSeconds=129_600)
    now = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)
    assert reply["Credentials"]["Expiration"] == now + timedelta(hours=1)
    assert sts.principal(reply).kind == "root"


def test_session_credentials_cannot_get_a_session_token(sts: Sts, accounts: Accounts) -> None:
    session = sts.principal(sts(accounts.principal("alice"), "GetSessionToken"))
    denied = (403, "AccessDenied", "Cannot call GetSessionToken with session credentials")
    assert sts.refused(session, "GetSessionToken") == denied


# -- AssumeRole: what comes of it ----------------------------------------------------------------------------


def test_a_role_that_trusts_the_user(sts: Sts, accounts: Accounts) -> None:
    role = accounts.role("worker", TRUST_ALICE, "sqs-send", max_session_s=43_200)
    reply = sts(accounts.principal("alice"), "AssumeRole", **assume(role, DurationSeconds=43_200))
    now = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)
    assert reply["Credentials"]["Expiration"] == now + timedelta(hours=12)
    assert reply["Credentials"]["AccessKeyId"].startswith("ASIA")
    session = sts.principal(reply)
    assert reply["AssumedRoleUser"] == {"AssumedRoleId": session.id, "Arn": session.arn}
    assert "PackedPolicySize" not in reply
    queue = f"arn:aws:sqs:us-east-1:{HOME}:q"
    assert decide(Question(session, "sqs:SendMessage", queue, HOME)).allowed
    assert not decide(Question(session, "sqs:ReceiveMessage", queue, HOME)).allowed
    assert sts.call.resource_arn == role and sts.call.verdict.allowed


def test_a_session_policy_narrows(sts: Sts, accounts: Accounts) -> None:
    role = accounts.role("worker", TRUST_ALICE, "sqs-full-access")
    narrow = document(allow("sqs:SendMessage", Resource="*"))
    reply = sts(accounts.principal("alice"), "AssumeRole", **assume(role, Policy=narrow))
    assert reply["PackedPolicySize"] == -(-100 * len(narrow) // 4096)
    session, queue = sts.principal(reply), f"arn:aws:sqs:us-east-1:{HOME}:q"
    assert decide(Question(session, "sqs:SendMessage", queue, HOME)).allowed
    assert not decide(Question(session, "sqs:PurgeQueue", queue, HOME)).allowed


def test_session_tags_and_transitive_tags(sts: Sts, accounts: Accounts) -> None:
    first = accounts.role("first", TRUST_ALICE)
    trust = document(
        allow(["sts:AssumeRole", "sts:TagSession"], Principal={"AWS": f"arn:aws:iam::{HOME}:role/first"})
    )
    second = accounts.role("second", trust)
    tags = [{"Key": "Team", "Value": "orders"}, {"Key": "cost", "Value": "7"}]
    reply = sts(
        accounts.principal("alice"), "AssumeRole", **assume(first, Tags=tags, TransitiveTagKeys=["team"])
    )
    session = sts.principal(reply)
    assert session.tags == {"Team": "orders", "cost": "7"}
    chained = sts.principal(
        sts(session, "AssumeRole", **assume(second, Tags=[{"Key": "cost", "Value": "8"}]))
    )
    assert chained.tags == {"Team": "orders", "cost": "8"}
    assert chained.transitive == ("Team",)
    assert chained.parent_key == accounts.keys["alice"], "the key that it all began with"
    status, code, _ = sts.refused(
        session, "AssumeRole", **assume(second, Tags=[{"Key": "TEAM", "Value": "x"}])
    )
    assert (status, code) == (400, "InvalidParameterValue")
    too_long = sts.refused(session, "AssumeRole", **assume(second, DurationSeconds=3601))
    assert too_long == (
        400,
        "ValidationError",
        "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.",
    )


# -- AssumeRole: who may -------------------------------------------------------------------------------------


def test_a_missing_role_is_refused_like_one_that_does_not_trust_the_caller(
    sts: Sts, accounts: Accounts
) -> None:
    accounts.user("bob", "assume-roles")
    role, bob = accounts.role("worker", TRUST_ALICE), accounts.principal("bob")
    nowhere = f"arn:aws:iam::{HOME}:role/nowhere"
    assert sts.refused(bob, "AssumeRole", **assume(role)) == denied(bob, role)
    assert sts.refused(bob, "AssumeRole", **assume(nowhere)) == denied(bob, nowhere)


def test_a_role_that_trusts_the_account_leaves_it_to_the_account_s_policies(
    sts: Sts, accounts: Accounts
) -> None:
    role = accounts.role("worker", trust_document([HOME], HOME, None))
    accounts.user("bob", document(allow("sts:AssumeRole", Resource=role)))
    alice, bob = accounts.principal("alice"), accounts.principal("bob")
    assert sts.refused(alice, "AssumeRole", **assume(role)) == denied(alice, role)
    assert "Credentials" in sts(bob, "AssumeRole", **assume(role))


def test_from_another_account_both_sides_must_allow(sts: Sts, accounts: Accounts) -> None:
    accounts.user("carol", account=ABROAD)
    accounts.user("dave", "assume-roles", account=ABROAD)
    carol, dave = accounts.principal("carol"), accounts.principal("dave")
    role = accounts.role("guest", trust_document([carol.arn, dave.arn], HOME, None))
    closed = accounts.role("closed", TRUST_ALICE)
    assert sts.refused(carol, "AssumeRole", **assume(role)) == denied(carol, role)
    assert sts.refused(dave, "AssumeRole", **assume(closed)) == denied(dave, closed)
    assert sts.principal(sts(dave, "AssumeRole", **assume(role))).account == HOME


def test_an_explicit_deny_of_the_caller_wins(sts: Sts, accounts: Accounts) -> None:
    accounts.user("bob", document({"Effect": "Deny", "Action": "sts:*", "Resource": "*"}))
    role, bob = accounts.role("worker", trust_document(["bob"], HOME, None)), accounts.principal("bob")
    assert sts.refused(bob, "AssumeRole", **assume(role)) == denied(bob, role)


def test_the_external_id_must_match(sts: Sts, accounts: Accounts) -> None:
    role, alice = (
        accounts.role("worker", trust_document(["alice"], HOME, "secret-7")),
        accounts.principal("alice"),
    )
    assert sts.refused(alice, "AssumeRole", **assume(role)) == denied(alice, role)
    assert sts.refused(alice, "AssumeRole", **assume(role, ExternalId="other")) == denied(alice, role)
    assert "Credentials" in sts(alice, "AssumeRole", **assume(role, ExternalId="secret-7"))


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, True),
        ({"IpAddress": {"aws:SourceIp": "192.168.0.0/16"}}, False),
        ({"StringLike": {"sts:RoleSessionName": "job-*"}}, True),
        ({"StringLike": {"sts:RoleSessionName": "${aws:username}"}}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, False),
    ],
)
def test_conditions_of_a_trust_policy(sts: Sts, accounts: Accounts, condition: Any, allowed: bool) -> None:
    statement = allow(
        "sts:AssumeRole", Principal={"AWS": accounts.principal("alice").arn}, Condition=condition
    )
    role = accounts.role("worker", document(statement))
    assert ("Credentials" in sts(accounts.principal("alice"), "AssumeRole", **assume(role))) is allowed


def test_tagging_a_session_is_a_permission_of_its_own(sts: Sts, accounts: Accounts) -> None:
    alice = accounts.principal("alice")
    role = accounts.role("worker", trust_document(["alice"], HOME, None))
    tags = [{"Key": "team", "Value": "a"}]
    assert sts.refused(alice, "AssumeRole", **assume(role, Tags=tags)) == denied(
        alice, role, "sts:TagSession"
    )
    assert "Credentials" in sts(alice, "AssumeRole", **assume(role))


def test_root_assumes_no_role(sts: Sts, accounts: Accounts) -> None:
    accounts.user("root")
    role = accounts.role("worker", trust_document([HOME, "alice"], HOME, None))
    refused = sts.refused(accounts.principal("root"), "AssumeRole", **assume(role))
    assert refused == (403, "AccessDenied", "Roles may not be assumed by root accounts.")


def test_a_removed_user_s_role_session_is_refused(sts: Sts, accounts: Accounts) -> None:
    role = accounts.role("worker", TRUST_ALICE)
    reply = sts(accounts.principal("alice"), "AssumeRole", **assume(role))
    accounts.change(lambda content: find_user(content, "alice", None).keys.clear())
    with pytest.raises(Exception, match="The security token included in the request is invalid"):
        sts.principal(reply)


# -- what a request may hold ---------------------------------------------------------------------------------


def test_validation_ends_after_ten_findings(sts: Sts, accounts: Accounts) -> None:
    tags = [{"Key": "!", "Value": "x"} for _ in range(200)]
    _, code, message = sts.refused(accounts.principal("alice"), "AssumeRole", **assume(ROLE, Tags=tags))
    assert code == "ValidationError" and message.startswith(
        "10 validation errors detected: Value '200' at 'tags'"
    )
    assert "tags.9.member.key" in message and "tags.10.member.key" not in message


@pytest.mark.parametrize("member", ["Tags", "TransitiveTagKeys", "PolicyArns", "ProvidedContexts"])
def test_lists_are_bounded_like_those_of_sqs(sts: Sts, accounts: Accounts, member: str) -> None:
    inner: list[Any] = [] if member == "TransitiveTagKeys" else [{}]
    body = json.dumps({member: (inner or ["k"]) * 2001}).encode()
    answer = sts.answer_json(accounts.principal("alice"), "AssumeRole", body)
    assert answer.status == 400 and b"SerializationException" in answer.body


def one(value: str, at: str, rule: str) -> str:
    return f"1 validation error detected: Value '{value}' at '{at}' failed to satisfy constraint: Member must {rule}"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"RoleArn": None, "RoleSessionName": None},
            "2 validation errors detected: Value null at 'roleArn' failed to satisfy constraint: Member must not be "
            "null; Value null at 'roleSessionName' failed to satisfy constraint: Member must not be null",
        ),
        ({"RoleArn": "worker"}, one("worker", "roleArn", "have length greater than or equal to 20")),
        ({"RoleArn": "w" * 30}, "w" * 30 + " is invalid"),
        ({"RoleArn": f"arn:aws:iam::{HOME}:user/worker"}, f"arn:aws:iam::{HOME}:user/worker is invalid"),
        (
            {"RoleSessionName": "a b"},
            one("a b", "roleSessionName", r"satisfy regular expression pattern: [\w+=,.@-]*"),
        ),
        ({"RoleSessionName": "a"}, one("a", "roleSessionName", "have length greater than or equal to 2")),
        (
            {"RoleSessionName": "a" * 65},
            one("a" * 65, "roleSessionName", "have length less than or equal to 64"),
        ),
        (
            {"DurationSeconds": 899},
            one("899", "durationSeconds", "have value greater than or equal to 900"),
        ),
        (
            {"DurationSeconds": 43_201},
            one("43201", "durationSeconds", "have value less than or equal to 43200"),
        ),
        (
            {"DurationSeconds": 3_601},
            "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.",
        ),
        ({"Policy": "x" * 2049}, one("x" * 2049, "policy", "have length less than or equal to 2048")),
        ({"ExternalId": "x"}, one("x", "externalId", "have length greater than or equal to 2")),
        (
            {"Tags": [{"Key": "", "Value": "x"}]},
            one("", "tags.1.member.key", "have length greater than or equal to 1"),
        ),
        (
            {"Tags": [{"Key": "k", "Value": "!"}]},
            one("!", "tags.1.member.value", r"satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]*"),
        ),
        (
            {"Tags": [{"Key": f"k{n}", "Value": ""} for n in range(51)]},
            one("51", "tags", "have length less than or equal to 50"),
        ),
        ({"SourceIdentity": "me"}, "SourceIdentity is not supported by this server."),
        ({"PolicyArns": [{"arn": ROLE}]}, "PolicyArns is not supported by this server."),
    ],
)  # fmt: skip
def test_what_assume_role_refuses(
    sts: Sts, accounts: Accounts, members: dict[str, Any], message: str
) -> None:
    accounts.role("worker", TRUST_ALICE)
    given = {key: value for key, value in assume(ROLE, **members).items() if value is not None}
    assert sts.refused(accounts.principal("alice"), "AssumeRole", **given) == (
        400,
        "ValidationError",
        message,
    )


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"Policy": "{}"}, "MalformedPolicyDocument"),
        ({"Policy": "no JSON"}, "MalformedPolicyDocument"),
        ({"Tags": [{"Key": f"k{n}", "Value": "v" * 250} for n in range(20)]}, "PackedPolicyTooLarge"),
        ({"Tags": [{"Key": "k", "Value": ""}, {"Key": "K", "Value": ""}]}, "InvalidParameterValue"),
        ({"Tags": [{"Key": "aws:k", "Value": ""}]}, "InvalidParameterValue"),
        ({"TransitiveTagKeys": ["k"]}, "InvalidParameterValue"),
        ({"SerialNumber": "arn:aws:iam::1:mfa/x", "TokenCode": "123456"}, "AccessDenied"),
    ],
)
def test_other_refusals_of_assume_role(
    sts: Sts, accounts: Accounts, members: dict[str, Any], code: str
) -> None:
    accounts.role("worker", TRUST_ALICE)
    status, found, _ = sts.refused(accounts.principal("alice"), "AssumeRole", **assume(ROLE, **members))
    assert (status, found) == (403 if code == "AccessDenied" else 400, code)


@pytest.mark.parametrize(
    ("seconds", "rule"),
    [(899, "greater than or equal to 900"), (129_601, "less than or equal to 129600")],
)
def test_the_duration_of_a_session_token_is_limited(
    sts: Sts, accounts: Accounts, seconds: int, rule: str
) -> None:
    refused = sts.refused(accounts.principal("alice"), "GetSessionToken", DurationSeconds=seconds)
    assert refused == (400, "ValidationError", one(str(seconds), "durationSeconds", f"have value {rule}"))


def test_mfa_codes_are_refused(sts: Sts, accounts: Accounts) -> None:
    members = {"SerialNumber": "arn:aws:iam::1:mfa/x", "TokenCode": "123456"}
    refused = sts.refused(accounts.principal("alice"), "GetSessionToken", **members)
    assert refused[1:] == (
        "AccessDenied",
        "MultiFactorAuthentication failed with invalid MFA one time pass code.",
    )
