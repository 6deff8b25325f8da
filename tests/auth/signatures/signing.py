"""Requests as botocore signs them, and what the verifier says to them."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Callable
from time import strptime
from typing import NamedTuple
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penstock.auth.errors import AuthenticationError, InvalidToken
from penstock.auth.sigv4.canonical import merged_headers
from penstock.auth.sigv4.clock_skew import to_stamp
from penstock.auth.sigv4.verify import Signed, Verifier

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "session+token/=="
HOST = "localhost:9324"
BODY = b'{"MessageBody":"hello"}'
JSON = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}


class Sent(NamedTuple):
    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    made_s: int

    def header(self, name: str) -> bytes:
        return next(value for given, value in self.headers if given.lower() == name.encode())

    def with_header(self, name: str, value: bytes | None) -> Sent:
        """Returns the request with this value of a header, or without the header."""
        others = [header for header in self.headers if header[0].lower() != name.encode()]
        return self._replace(headers=others if value is None else [*others, (name.encode(), value)])


def secrets(access_key: str, token: str | None) -> str:
    if access_key != KEY or token not in (None, TOKEN):
        raise InvalidToken
    return SECRET


def outcome(
    sent: Sent, verifier: Verifier | None = None, *, after_s: float = 0
) -> Signed | AuthenticationError | None:
    verifier = verifier or Verifier(secrets)
    try:
        return verifier.verify(
            sent.method, sent.target, merged_headers(sent.headers), sent.body, sent.made_s + after_s
        )
    except AuthenticationError as error:
        assert SECRET not in repr(error) and SECRET not in repr(vars(error))
        return error


def send(signer: SigV4Auth, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Sent:
    request = AWSRequest(method, f"http://{HOST}{target}", data=body)
    for name, value in headers:
        request.headers.add_header(name, value)
    signer.add_auth(request)
    url = urlsplit(request.url)
    received = [("Host", HOST), *request.headers.items(), ("Content-Length", str(len(body)))]
    return Sent(
        method.encode(),
        (url.path + (f"?{url.query}" if url.query else "")).encode(),
        [(name.encode(), value.encode()) for name, value in received],
        body,
        timegm(strptime(request.context["timestamp"], "%Y%m%dT%H%M%SZ")),
    )


def in_header(
    target: str = "/",
    *,
    method: str = "POST",
    headers: list[tuple[str, str]] | None = None,
    body: bytes = BODY,
    token: str | None = None,
    region: str = "us-east-1",
) -> Sent:
    signer = SigV4Auth(Credentials(KEY, SECRET, token), "sqs", region)
    return send(signer, method, target, list(JSON.items()) if headers is None else headers, body)


def presigned(target: str = "/?Action=ListQueues", *, token: str | None = None, expires: int = 3600) -> Sent:
    signer = SigV4QueryAuth(Credentials(KEY, SECRET, token), "sqs", "us-east-1", expires=expires)
    return send(signer, "GET", target, [], b"")


def signed_by(sent: Sent, token: str | None = None) -> Signed:
    return Signed(KEY, to_stamp(sent.made_s)[:8].decode(), "us-east-1", "sqs", token)


def message(result: Signed | AuthenticationError | None) -> str:
    assert isinstance(result, AuthenticationError), result
    return str(result)


def is_refused(sent: Sent) -> bool:
    return isinstance(outcome(sent), AuthenticationError)


def replaced(old: bytes, new: bytes) -> Callable[[Sent], Sent]:
    """Another word in the Authorization header, wherever it stands."""
    return lambda sent: sent.with_header("authorization", sent.header("authorization").replace(old, new))
