"""What a request says about its own signature: who signed it, when, for which region and service, over which headers.

Two forms say the same: the header Authorization, and the parameters of a presigned URL. Nothing here is believed;
it is only read, and refused in AWS's words if it cannot be read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.auth.sigv4.canonical import HeaderLines, Parameters
from penstock.names import is_region
from penstock.wire.faults import incomplete_signature, wrong_signature
from penstock.wire.registry import Fault

ALGORITHM = b"AWS4-HMAC-SHA256"
LIFETIME_S_MAX = 604_800  # of a presigned URL: a week

_TERMINATOR = b"aws4_request"
_PRESIGNED = re.compile(rb"(?:^|&)X-Amz-(?:Algorithm|Credential|Signature)(?:[=&]|$)")
_REQUIRED = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date")
_OPTIONAL = ("X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Content-Sha256")
_ONCE = frozenset(name.encode() for name in _REQUIRED + _OPTIONAL)
_SERVICE = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(rb"[0-9]{1,9}")
_UNPRINTABLE = re.compile(rb"[^ -~]")
_SHOWN_MAX = 128

# A signature covers the first two without naming them: they are part of what is hashed. The third is read by
# nobody, and SDKs leave it out of presigned URLs.
_COVERED = frozenset((b"x-amz-date", b"x-amz-content-sha256", b"x-amz-user-agent"))


class Signed(NamedTuple):
    """Who signed a request, and for what."""

    access_key: str
    date: str
    region: str
    service: str
    token: str | None


class Claim(NamedTuple):
    """What is the same in all requests that one client signs on one day."""

    by: Signed  # as far as the claim goes: it knows no token
    day: bytes
    scope: bytes  # date/region/service/aws4_request, as it was sent
    signed_headers: bytes  # as they were sent
    lines: HeaderLines
    covered: frozenset[bytes]  # headers that cannot be changed without breaking the signature


class Presigned(NamedTuple):
    """The claim of a presigned URL, with what else its parameters say."""

    claim: Claim
    signature: bytes
    stamp: bytes
    lifetime_s: int | None
    token: bytes | None
    payload_hash: bytes | None


def is_presigned(query: bytes) -> bool:
    return _PRESIGNED.search(query) is not None


def read_authorization(header: bytes, *, dated: bool) -> tuple[Claim, bytes]:
    """The claim of an Authorization header, and the signature."""
    algorithm, _, rest = header.partition(b" ")
    parts: dict[bytes, bytes] = {}
    for pair in rest.replace(b",", b" ").split():
        name, equals, value = pair.partition(b"=")
        if not equals or name in parts:
            problem = f"Repeated '{shown(name)}'" if equals else "Invalid key=value pair (missing equal-sign)"
            hashed = f"(hashed with SHA-256 and encoded with Base64): '{_hashed(header)}'"
            raise incomplete_signature(f"{problem} in Authorization header {hashed}.")
        parts[name] = value
    missing = [
        f"Authorization header requires '{name}' parameter."
        for name in ("Credential", "Signature", "SignedHeaders")
        if not parts.get(name.encode())
    ]
    if missing or not dated:
        raise _incomplete(missing, header, dated=dated)
    return _claim(algorithm, parts[b"Credential"], parts[b"SignedHeaders"]), parts[b"Signature"]


def undated(header: bytes) -> Fault:
    return _incomplete([], header, dated=False)


def read_presigned(parameters: Parameters) -> Presigned:
    given: dict[bytes, bytes] = {}
    for name, value in parameters:
        if name in given and name in _ONCE:
            raise incomplete_signature(f"AWS query-string parameters must include '{shown(name)}' only once.")
        given[name] = value
    missing = [name for name in _REQUIRED if not given.get(name.encode())]
    if missing:
        sentences = [f"AWS query-string parameters must include '{name}'." for name in missing]
        raise incomplete_signature(" ".join([*sentences, "Re-examine the query-string parameters."]))
    return Presigned(
        _claim(given[b"X-Amz-Algorithm"], given[b"X-Amz-Credential"], given[b"X-Amz-SignedHeaders"]),
        given[b"X-Amz-Signature"],
        given[b"X-Amz-Date"],
        _lifetime_s(given.get(b"X-Amz-Expires")),
        given.get(b"X-Amz-Security-Token"),
        given.get(b"X-Amz-Content-Sha256"),
    )


def unsigned_header(name: bytes) -> Fault:
    title = "'Host' or ':authority'" if name == b"host" else f"'{shown(name).title()}'"
    return wrong_signature(f"{title} must be a 'SignedHeader' in the AWS Authorization.")


def wrong_region() -> Fault:
    return wrong_signature("Credential should be scoped to a valid region.")


def shown(value: bytes) -> str:
    """What was sent, fit to stand in an error's text."""
    return _UNPRINTABLE.sub(b"?", value[:_SHOWN_MAX]).decode()


def _claim(algorithm: bytes, credential: bytes, signed_headers: bytes) -> Claim:
    if algorithm != ALGORITHM:
        only = "(only AWS4-HMAC-SHA256 for now)"
        raise incomplete_signature(f"Unsupported AWS 'algorithm': '{shown(algorithm)}' {only}.")
    names = tuple(signed_headers.split(b";"))
    distinct = frozenset(names)
    if b"host" not in distinct:
        raise unsigned_header(b"host")
    if len(distinct) < len(names):
        # Also a bound: a large header that is named a thousand times would be hashed as often.
        raise incomplete_signature("SignedHeaders must not name a header twice.")
    elements = credential.split(b"/")
    if len(elements) != 5:
        example = "e.g. keyid/date/region/service/term"
        raise incomplete_signature(
            f"Credential must have exactly 5 slash-delimited elements, {example}, got '{shown(credential)}'"
        )
    if elements[-1] != _TERMINATOR:
        wrong = f"'aws4_request', not '{shown(elements[-1])}'"
        raise wrong_signature(f"Credential should be scoped with a valid terminator: {wrong}.")
    if not _SERVICE.fullmatch(elements[3]):
        raise wrong_signature("Credential should be scoped to a valid service.")
    access_key, date, region, service = (element.decode("ascii", "replace") for element in elements[:-1])
    if not is_region(region):
        raise wrong_region()
    scope = b"/".join(elements[1:])
    signed = Signed(access_key, date, region, service, None)
    return Claim(signed, elements[1], scope, signed_headers, HeaderLines(names), distinct | _COVERED)


def _lifetime_s(expires: bytes | None) -> int | None:
    if expires is None:
        return None
    if not _NUMBER.fullmatch(expires):
        raise incomplete_signature("X-Amz-Expires should be a number")
    if not 1 <= int(expires) <= LIFETIME_S_MAX:
        raise incomplete_signature(f"X-Amz-Expires must be between 1 and {LIFETIME_S_MAX} seconds")
    return int(expires)


def _incomplete(missing: Sequence[str], header: bytes, *, dated: bool) -> Fault:
    date = (
        []
        if dated
        else ["Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."]
    )
    # Amazon shows a hash of the header: whoever uses another scheme may have put a password there.
    hashed = f"(Hashed with SHA-256 and encoded with Base64) Authorization={_hashed(header)}"
    return incomplete_signature(" ".join([*missing, *date, hashed]))


def _hashed(header: bytes) -> str:
    return base64.b64encode(hashlib.sha256(header).digest()).decode()
