"""Signatures: signed requests, changed in any way. A request that still verifies must mean what its signer meant.

A signature itself cannot be forged; what can go wrong is that two requests with different meanings have one canonical
form. An input is a request as on the wire, apart from its length: a line, headers, an empty line, a body.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import unquote

from penstock.auth.errors import AuthenticationError, InvalidToken
from penstock.auth.sigv4.canonical import merged_headers
from penstock.auth.sigv4.verify import Signed, Verifier
from penstock.errors import QueueMissing
from penstock.services.sqs.resources import read_url
from penstock.wire.query import Branch, read_form
from support.signer import (
    HOST,
    KEY,
    NOW_S,
    SECRET,
    STAMP,
    TOKEN,
    SignedRequest,
    claimed_by,
    sign_header,
    sign_url,
)

_JSON = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_UNSIGNED = "UNSIGNED-PAYLOAD"
_BODY = '{"QueueUrl":"q","MessageBody":"x"}'

_ORIGINALS = [
    sign_header("/", {}, _JSON, _BODY),
    sign_header("/", {}, {**_JSON, "X-Amz-Security-Token": TOKEN, "User-Agent": "sdk/1  x"}, _BODY),
    sign_header("/", {}, _JSON, _BODY, payload=_UNSIGNED),
    sign_header("/111122223333/q", {"Action": "SendMessage", "MessageBody": "a b"}, _FORM, "DelaySeconds=1"),
    sign_header("/111122223333/q", {}, _FORM, "Action=ReceiveMessage"),
    sign_url("/111122223333/q", {"Action": "ReceiveMessage", "Version": "2012-11-05"}),
    sign_url("/", {"Action": "ListQueues", "QueueNamePrefix": "%/+ é"}),
]

WORDS = [
    *(b"Authorization: ", b"X-Amz-Date: ", b"X-Amz-Target: "),
    *(b"X-Amz-Security-Token: ", b"X-Amz-Content-Sha256: "),
    *(b"Host: ", b"Date: Mon, 02 Feb 2026 02:40:00 GMT", b"AWS4-HMAC-SHA256 ", b"Credential=", b"SignedHeaders="),
    *(b"Signature=", b"host;", b";x-amz-date", b";x-amz-target"),
    *(b"content-type;", b"aws4_request", b"/us-east-1/sqs/"),
    *(b"&X-Amz-Signature=", b"&X-Amz-Expires=", b"&X-Amz-Algorithm=AWS4-HMAC-SHA256", b"&X-Amz-Credential="),
    *(b"&X-Amz-SignedHeaders=host", b"&X-Amz-Security-Token="),
    *(b"&X-Amz-Date=", b"&Action=DeleteQueue", b"?", b"%"),
    *(b"/../", b"/./", b"//", b"%2F", b"%2f", b"+", b"%20"),
    *(b"&", b"=", b"\r\n", b"\r\n\r\n", b", ", b"  ", b"\t"),
    *(b"UNSIGNED-PAYLOAD", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    *(b"20260202", b"T024000Z", b"\r\n ", b"GET ", b"PUT "),
    *(KEY.encode(), TOKEN.encode(), STAMP.encode(), HOST.encode()),
]  # fmt: skip


class Sent(NamedTuple):
    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    by_name: dict[bytes, bytes]
    body: bytes


class Meaning(NamedTuple):
    """How the server interprets a request."""

    method: bytes
    queue: str
    parameters: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes


def seeds() -> list[bytes]:
    return [original.http for original in _ORIGINALS]


def check(data: bytes) -> None:
    sent = _read(data)
    first = _outcome(_REMEMBERING, sent)
    assert first == _outcome(Verifier(_secret), sent), "the cache changes the outcome"
    if first is None:
        assert b"authorization" not in sent.by_name, "a wrong signature counts as no signature"
    elif isinstance(first, Signed):
        originals = claimed_by(data, _ORIGINALS)
        assert originals, "this was never signed"
        assert first.access_key == KEY
        assert any(_means_the_same(sent, original) for original in originals), "the meaning was changed"


def _secret(access_key: str, token: str | None) -> str:
    if access_key != KEY or token not in (None, TOKEN):
        raise InvalidToken
    return SECRET


_REMEMBERING = Verifier(_secret)


def _outcome(verifier: Verifier, sent: Sent) -> Signed | Literal["refused"] | None:
    try:
        return verifier.verify(sent.method, sent.target, merged_headers(sent.headers), sent.body, NOW_S + 1)
    except AuthenticationError as error:
        assert SECRET not in str(error)
        return "refused"


def _read(data: bytes) -> Sent:
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    method, target, _ = (line.split(b" ", 2) + [b""] * 3)[:3]
    headers: list[tuple[bytes, bytes]] = []
    by_name: dict[bytes, bytes] = {}
    for name, _, value in (line.partition(b":") for line in lines):
        headers.append((name, value))
        name, value = name.lower(), value.strip()
        by_name[name] = by_name[name] + b", " + value if name in by_name else value
    return Sent(method, target, headers, by_name, body)


def _means_the_same(sent: Sent, original: SignedRequest) -> bool:
    meant = _meaning(_read(original.http), original)
    found = _meaning(sent, original)
    if not found.queue:  # a path without a queue can be signed too
        meant = meant._replace(queue="")
    if original.headers.get("X-Amz-Content-Sha256") == _UNSIGNED:
        meant = meant._replace(body=found.body)
    return found == meant


def _meaning(sent: Sent, original: SignedRequest) -> Meaning:
    path, _, query = sent.target.partition(b"?")
    signed = {name.lower().encode() for name in original.headers} - {b"authorization"}
    every = {name for name in sent.by_name if name.startswith(b"x-amz-")} | signed
    ignored = (
        b"x-amz-date",
        b"x-amz-content-sha256",
        b"x-amz-user-agent",
    )  # without influence on the action
    return Meaning(
        sent.method,
        _queue(unquote(path.decode("latin-1"), errors="replace").rstrip("/")),
        _flat(read_form(query)),
        {name: b" ".join(sent.by_name.get(name, b"").split()) for name in every.difference(ignored)},
        sent.body,
    )


def _queue(path: str) -> str:
    try:
        name = read_url(path, "111122223333", "us-east-1") if path else None
    except QueueMissing:
        return ""
    return "" if name is None or not name.account.isdecimal() or name.name in (".", "..") else name.arn


def _flat(branch: Branch, name: str = "") -> dict[str, str]:
    """Parameters as the server reads them, without those of the signature."""
    found = {} if branch.value is None or name.startswith(".X-Amz-") else {name: branch.value}
    for level, below in branch.below.items():
        found |= _flat(below, f"{name}.{level}")
    return found
