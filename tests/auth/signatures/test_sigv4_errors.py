"""The errors for a signature that cannot be read or does not match."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from botocore.auth import SigV4Auth
from botocore.credentials import Credentials

from penstock.auth.errors import IncompleteSignature, InvalidSignature, InvalidToken
from penstock.auth.sigv4.verify import MISMATCH, Signed, Verifier
from support.rows import every_row

from .signing import KEY, SECRET, TOKEN, Sent, in_header, message, outcome, presigned, replaced, secrets, send

INCOMPLETE, WRONG, UNKNOWN = IncompleteSignature, InvalidSignature, InvalidToken
EMPTY_HASH = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def authorized(value: bytes) -> Callable[[Sent], Sent]:
    return lambda sent: sent.with_header("authorization", value)


MALFORMED = {
    "empty": (
        authorized(b""),
        INCOMPLETE,
        "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. "
        "Authorization header requires 'SignedHeaders' parameter. "
        f"(Hashed with SHA-256 and encoded with Base64) Authorization={EMPTY_HASH}",
    ),
    "empty and undated": (
        lambda sent: authorized(b"")(sent.with_header("x-amz-date", None)),
        INCOMPLETE,
        "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. "
        "Authorization header requires 'SignedHeaders' parameter. "
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        f"(Hashed with SHA-256 and encoded with Base64) Authorization={EMPTY_HASH}",
    ),
    "another scheme": (
        authorized(b"Bearer abc"),
        INCOMPLETE,
        "Invalid key=value pair (missing equal-sign) in Authorization header "
        "(hashed with SHA-256 and encoded with Base64): 'w1Xc6WwWEogNEZQP/dkBTThsJT4MNlKmzQanIm970rY='.",
    ),
    "another scheme, like a key and a value": (
        authorized(b"Basic YTpi="),
        INCOMPLETE,
        "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. "
        "Authorization header requires 'SignedHeaders' parameter. (Hashed with SHA-256 and encoded with Base64) "
        "Authorization=tfPysZrU720W7KcwExDE4oLWa7sgFT8KOS3YneReoec=",
    ),
    "SigV4A": (
        replaced(b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256"),
        INCOMPLETE,
        "Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now).",
    ),
    "host not signed": (
        replaced(b";host", b""),
        WRONG,
        "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.",
    ),
    "target not signed": (
        replaced(b";x-amz-target", b""),
        WRONG,
        "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.",
    ),
    "token not signed": (
        lambda sent: sent.with_header("x-amz-security-token", TOKEN.encode()),
        WRONG,
        "'X-Amz-Security-Token' must be a 'SignedHeader' in the AWS Authorization.",
    ),
    "a header signed twice": (
        replaced(b";host", b";host;host"),
        INCOMPLETE,
        "SignedHeaders must not name a header twice.",
    ),
    "a credential without scope": (
        lambda sent: authorized(b"AWS4-HMAC-SHA256 Credential=AKID,SignedHeaders=host,Signature=a")(sent),
        INCOMPLETE,
        "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'AKID'",
    ),
    "another terminator": (
        replaced(b"aws4_request", b"aws5_request"),
        WRONG,
        "Credential should be scoped with a valid terminator: 'aws4_request', not 'aws5_request'.",
    ),
    "no region": (
        replaced(b"us-east-1", b""),
        WRONG,
        "Credential should be scoped to a valid region.",
    ),
    "a region that is no word": (
        replaced(b"us-east-1", b"us\xff"),
        WRONG,
        "Credential should be scoped to a valid region.",
    ),
    "another region than signed": (replaced(b"us-east-1", b"us-east-2"), WRONG, MISMATCH),
    "another service than signed": (replaced(b"/sqs/", b"/sts/"), WRONG, MISMATCH),
    "unknown key": (
        replaced(KEY.encode(), b"AKIDOTHER"),
        UNKNOWN,
        "The security token included in the request is invalid.",
    ),
    "a date in another form": (
        lambda sent: sent.with_header("x-amz-date", b"2026-01-01T00:00:00Z"),
        INCOMPLETE,
        "Date must be in ISO-8601 'basic format'. Got '2026-01-01T00:00:00Z'. "
        "See http://en.wikipedia.org/wiki/ISO_8601",
    ),
    "both forms": (
        lambda sent: sent._replace(target=b"/?X-Amz-Signature=" + b"0" * 64),
        WRONG,
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    ),
    "another body than hashed": (
        lambda sent: sent.with_header("x-amz-content-sha256", b"0" * 64),
        WRONG,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
    "a body in pieces": (
        lambda sent: sent.with_header("x-amz-content-sha256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        INCOMPLETE,
        "A body that is signed in pieces ('STREAMING-AWS4-HMAC-SHA256-PAYLOAD') is not supported.",
    ),
    "the body's signature taken away": (
        lambda sent: sent.with_header("x-amz-content-sha256", b"UNSIGNED-PAYLOAD"),
        WRONG,
        MISMATCH,
    ),
}


@every_row("name", MALFORMED)
def test_a_malformed_header(name: str) -> None:
    spoil, kind, text = MALFORMED[name]
    refused = outcome(spoil(in_header()))
    assert (type(refused), str(refused)) == (kind, text)


MALFORMED_URLS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing but an algorithm": (
        lambda query: b"X-Amz-Algorithm",
        "AWS query-string parameters must include 'X-Amz-Algorithm'. AWS query-string parameters must include "
        "'X-Amz-Credential'. AWS query-string parameters must include 'X-Amz-Signature'. AWS query-string parameters "
        "must include 'X-Amz-SignedHeaders'. AWS query-string parameters must include 'X-Amz-Date'. "
        "Re-examine the query-string parameters.",
    ),
    "two signatures": (
        lambda query: query + b"&X-Amz-Signature=" + b"0" * 64,
        "AWS query-string parameters must include 'X-Amz-Signature' only once.",
    ),
    "no lifetime": (
        lambda query: query.replace(b"Expires=3600", b"Expires="),
        "X-Amz-Expires should be a number",
    ),
    "a lifetime of zero": (
        lambda query: query.replace(b"Expires=3600", b"Expires=0"),
        "X-Amz-Expires must be between 1 and 604800 seconds",
    ),
    "a lifetime of more than a week": (
        lambda query: query.replace(b"Expires=3600", b"Expires=604801"),
        "X-Amz-Expires must be between 1 and 604800 seconds",
    ),
    "SigV4A": (
        lambda query: query.replace(b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256"),
        "Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now).",
    ),
}


@pytest.mark.parametrize("name", MALFORMED_URLS)
def test_a_malformed_url(name: str) -> None:
    spoil, text = MALFORMED_URLS[name]
    sent = presigned()
    path, _, query = sent.target.partition(b"?")
    refused = outcome(sent._replace(target=path + b"?" + spoil(query)))
    assert (type(refused), str(refused)) == (INCOMPLETE, text)


def test_a_service_read_from_the_scope_is_only_reported() -> None:
    """The dispatcher checks the service: only it knows the action."""
    signer = SigV4Auth(Credentials(KEY, SECRET), "sts", "us-east-1")
    signed = outcome(send(signer, "POST", "/", [], b"Action=GetCallerIdentity"))
    assert isinstance(signed, Signed)
    assert signed.service == "sts"


def test_regions_can_be_chosen() -> None:
    only = Verifier(secrets, regions=["eu-central-1"])
    assert isinstance(outcome(in_header(region="eu-central-1"), only), Signed)
    assert (
        message(outcome(in_header(region="eu-west-1"), only))
        == "Credential should be scoped to a valid region."
    )
