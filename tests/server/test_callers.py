"""Who sends a request: callers of an open and of a secured server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.auth.errors import (
    AuthenticationError,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    InvalidToken,
)
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.names import Requester, Space
from penstock.server.callers import _FAULTS, Caller, OpenCallers, Requesters, SignedCallers, sender_id
from penstock.server.http.request import Origin, Peer, Request
from penstock.server.origin import Origins
from penstock.wire.service import Fault
from support.harness import HOME, made_request, signed
from support.signer import KEY, NOW_S, SECRET, sign_header

CALLERS = OpenCallers(HOME, Origins(None, ()))


@pytest.mark.parametrize(
    ("credential", "space"),
    [
        ("AKIDEXAMPLE/20260101/eu-west-1/sqs/aws4_request", Space("000000000000", "eu-west-1")),
        ("123456789012/20260101/eu-west-1/sqs/aws4_request", Space("123456789012", "eu-west-1")),
        ("1234567890123/20260101/eu-west-1/sqs/aws4_request", Space("000000000000", "eu-west-1")),
        ("AKID/20260101/sqs/aws4_request", Space("000000000000", "us-east-1")),
        ("AKID/20260101/EU:WEST/sqs/aws4_request", Space("000000000000", "us-east-1")),
        ("rubbish", Space("000000000000", "us-east-1")),
    ],
)
def test_account_and_region_come_from_the_credential(credential: str, space: Space) -> None:
    assert CALLERS.of(made_request(authorization=signed(credential))).space == space


def test_the_credential_of_a_presigned_url() -> None:
    scope = b"111122223333%2F20260101%2Feu-west-3%2Fsqs%2Faws4_request"
    caller = CALLERS.of(made_request(b"/?Action=X&X-Amz-Credential=" + scope))
    assert caller.space == Space("111122223333", "eu-west-3")


def test_the_credential_among_very_many_parameters() -> None:
    scope = b"111122223333%2F20260101%2Feu-west-3%2Fsqs%2Faws4_request"
    many = b"".join(b"&a=%d" % number for number in range(1500))
    caller = CALLERS.of(made_request(b"/?Action=X&X-Amz-Credential=" + scope + many))
    assert caller.space == Space("111122223333", "eu-west-3")
    for none in (b"x", b"", b"%", b"%ff%2F+"):
        caller = CALLERS.of(made_request(b"/?Action=X&X-Amz-Credential=" + none + many))
        assert caller.space == Space("000000000000", "us-east-1")
    assert CALLERS.of(made_request(b"/?Not-X-Amz-Credential=" + scope)).space == Space(
        "000000000000", "us-east-1"
    )


@pytest.mark.parametrize("authorization", ["", "Bearer x", "AWS4-HMAC-SHA256 Credential=", "\xff\xfe"])
def test_without_a_credential_the_defaults_hold(authorization: str) -> None:
    assert CALLERS.of(made_request(authorization=authorization)).space == Space("000000000000", "us-east-1")
    assert CALLERS.of(made_request()).space == Space("000000000000", "us-east-1")


def test_the_sender_is_stable_and_not_the_account() -> None:
    first = CALLERS.of(made_request(authorization=signed("123456789012/1/eu-west-1/sqs/aws4_request"))).sender
    again = CALLERS.of(made_request(authorization=signed("123456789012/2/eu-west-2/sqs/aws4_request"))).sender
    assert first == again == sender_id("123456789012")
    assert first.startswith("AIDA") and len(first) == 21 and "123456789012" not in first
    assert sender_id("other") != first


def test_cached_callers_are_bounded() -> None:
    callers = OpenCallers(HOME, Origins(None, ()))
    for number in range(5000):
        callers.of(made_request(authorization=signed(f"K{number}/1/eu-west-1/sqs/aws4_request")))
    assert 100 < len(callers._cache) < 2500


# -- a secured server -----------------------------------------------------------------------------------------


def directory(name: str, secret: str) -> Any:
    arn = f"arn:aws:iam::111111111111:user/{name}"
    user = Principal(kind="user", account="111111111111", arn=arn, id="AIDA", name=name)
    return SimpleNamespace(secret=lambda key, token: secret, principal=lambda key, token: user)


class Reloaded:
    """Credentials whose file has changed with each access."""

    def __init__(self, *directories: Any) -> None:
        self._directories = iter(directories)

    @property
    def directory(self) -> Any:
        return next(self._directories)


def callers(*directories: Any) -> SignedCallers:
    credentials: Any = Reloaded(directory("at-the-start", "none"), *directories)
    return SignedCallers(credentials, Origins(None, ()), HOME, now_s=lambda: NOW_S)


def incoming() -> Request:
    sent = sign_header("/", {}, {"X-Amz-Target": "AmazonSQS.ListQueues"}, "{}")
    request = Request(Peer("192.0.2.7", "http", "127.0.0.1:9324"))
    request.method, request.target, request.body = b"POST", sent.target.encode(), sent.body.encode()
    request.raw_headers = [(name.encode(), value.encode()) for name, value in sent.headers.items()]
    request.headers = {name.lower(): value for name, value in request.raw_headers}
    assert KEY.encode() in request.headers[b"authorization"]
    return request


def test_secret_and_principal_come_from_the_same_state_of_the_file() -> None:
    one, other = directory("one", SECRET), directory("other", SECRET)
    asked = callers(one, other)
    for name in ("one", "other"):
        principal = asked.of(incoming()).principal
        assert principal is not None and principal.name == name


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (IncompleteSignature("why"), "IncompleteSignature", 400),
        (InvalidSignature("why"), "SignatureDoesNotMatch", 403),
        (InvalidToken(), "InvalidClientTokenId", 403),
        (ExpiredToken(), "ExpiredToken", 403),
    ],
)
def test_authentication_errors_become_faults_of_aws(
    error: AuthenticationError, code: str, status: int
) -> None:
    def secret(key: str, token: str | None) -> str:
        raise error

    with pytest.raises(Fault) as raised:
        callers(SimpleNamespace(secret=secret)).of(incoming())
    assert (raised.value.code, raised.value.status, raised.value.message) == (code, status, str(error))


def test_every_authentication_error_has_a_fault() -> None:
    assert set(_FAULTS) == set(AuthenticationError.__subclasses__())


def test_a_changed_secret_counts_at_once() -> None:
    asked = callers(directory("one", SECRET), directory("one", "rotated"))
    asked.of(incoming())
    with pytest.raises(Fault):
        asked.of(incoming())


# -- who made a request, for the history of messages -------------------------------------------------------------


def principal(**more: Any) -> Principal:
    return Principal(**{"kind": "user", "account": "1" * 12, "id": "AIDA1", "access_key": "AKIA1", **more})


@pytest.mark.parametrize(
    ("who", "by"),
    [
        (None, "000000000000"),
        (principal(arn=f"arn:aws:iam::{'1' * 12}:user/alice", name="alice"), "alice (AKIA1)"),
        (principal(kind="root", arn=f"arn:aws:iam::{'1' * 12}:root"), "root (AKIA1)"),
        (
            principal(kind="session", arn=f"arn:aws:sts::{'1' * 12}:assumed-role/worker/s1"),
            "assumed-role/worker/s1 (AKIA1)",
        ),
        (ANONYMOUS, "anonymous"),
    ],
)
def test_a_requester_is_named_as_an_operator_knows_it(who: Principal | None, by: str) -> None:
    key = Caller(HOME, "AIDA1", who), Origin("http://x", "10.0.0.1", False), b"agent/1"
    assert Requesters().of(Peer("10.0.0.9", "http", "x"), key) == Requester(by, "10.0.0.1", "agent/1")


def test_a_connection_knows_whether_its_last_caller_was_verified() -> None:
    peer, origin = Peer("10.0.0.9", "http", "x"), Origin("http://x", "10.0.0.1", False)
    arn = f"arn:aws:iam::{'1' * 12}:user/alice"
    for who, verified in ((principal(arn=arn), arn), (ANONYMOUS, ""), (principal(arn=arn), arn), (None, "")):
        Requesters().of(peer, (Caller(HOME, "AIDA1", who), origin, b""))
        assert peer.verified == verified


def test_requesters_are_shared_by_connections_and_bounded_in_length() -> None:
    requesters, caller = Requesters(), Caller(HOME, "AIDA1")
    origin = Origin("http://x", "10.0.0.1", False)
    one, two = Peer("10.0.0.1", "http", "x"), Peer("10.0.0.1", "http", "x")
    first = requesters.of(one, (caller, origin, b"agent/1"))
    assert requesters.of(two, (caller, origin, b"agent/1")) is first is one.requester is two.requester
    assert len(requesters.of(one, (caller, origin, b"x" * 5000)).user_agent) == 256
