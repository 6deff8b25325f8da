"""Who calls, on a secured server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuzz.signer import KEY, NOW_S, SECRET, sign_header
from penstock.auth.errors import (
    AuthenticationError,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    InvalidToken,
)
from penstock.auth.principal import Principal
from penstock.names import Space
from penstock.server.callers import _FAULTS, SignedCallers
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.wire.service import Fault

HOME = Space("000000000000", "us-east-1")


def directory(name: str, secret: str) -> Any:
    arn = f"arn:aws:iam::111111111111:user/{name}"
    user = Principal(kind="user", account="111111111111", arn=arn, id="AIDA", name=name)
    return SimpleNamespace(secret=lambda key, token: secret, principal=lambda key, token: user)


class Reloaded:
    """Credentials whose file is read again whenever somebody has looked."""

    def __init__(self, *directories: Any) -> None:
        self._directories = iter(directories)

    @property
    def directory(self) -> Any:
        return next(self._directories)


def gate(*directories: Any) -> SignedCallers:
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


def test_the_principal_comes_from_where_the_secret_did() -> None:
    one, other = directory("one", SECRET), directory("other", SECRET)
    asked = gate(one, other)
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
        gate(SimpleNamespace(secret=secret)).of(incoming())
    assert (raised.value.code, raised.value.status, raised.value.message) == (code, status, str(error))


def test_every_authentication_error_has_a_fault() -> None:
    assert set(_FAULTS) == set(AuthenticationError.__subclasses__())


def test_the_secret_is_the_newest() -> None:
    asked = gate(directory("one", SECRET), directory("one", "rotated"))
    asked.of(incoming())
    with pytest.raises(Fault):
        asked.of(incoming())
