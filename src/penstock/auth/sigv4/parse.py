"""Parses what a request says about its signature: who signed it, when, for which region and service, which headers.

It stands in the header Authorization, or in the parameters of a presigned URL. Nothing is verified here.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.auth.errors import AuthenticationError, IncompleteSignature, InvalidSignature
from penstock.auth.sigv4.canonical import HeaderLines, Parameters
from penstock.names import is_region

if TYPE_CHECKING:
    from _hashlib import HASH

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
_PRINTABLE_MAX = 128

# A signature covers the first two without naming them: they are part of what is hashed. The third is never read,
# and SDKs leave it out of presigned URLs.
_COVERED = frozenset((b"x-amz-date", b"x-amz-content-sha256", b"x-amz-user-agent"))


class Signed(NamedTuple):
    """Who signed a request, and for what."""

    access_key: str
    date: str
    region: str
    service: str
    token: str | None


class RequestHead(NamedTuple):
    """What is signed of a request besides its body: the canonical form up to the hash of the body, in SHA-256."""

    made_of: object  # method, target and values of the signed headers
    state: HASH


class Scope:
    """What is the same in all requests that one client signs on one day, as it was sent."""

    __slots__ = ("checked_names", "covered", "day", "head", "lines", "signed", "signed_headers", "text")

    def __init__(
        self, signed: Signed, day: bytes, text: bytes, signed_headers: bytes, names: tuple[bytes, ...]
    ):
        self.signed = signed  # without a token: that is not part of the scope
        self.day = day
        self.text = text  # date/region/service/aws4_request
        self.signed_headers = signed_headers
        self.lines = HeaderLines(names)
        self.head: RequestHead | None = None  # of the last request: mostly the same within a second
        self.covered = _COVERED.union(names)  # headers that cannot be changed without breaking the signature
        # Those of the last request whose x-amz-* headers were all covered.
        self.checked_names: tuple[bytes, ...] = ()


class Presigned(NamedTuple):
    """What the parameters of a presigned URL say."""

    scope: Scope
    signature: bytes
    stamp: bytes
    lifetime_s: int | None
    token: bytes | None
    payload_hash: bytes | None


def is_presigned(query: bytes) -> bool:
    return _PRESIGNED.search(query) is not None


def read_authorization(header: bytes, *, dated: bool) -> tuple[Scope, bytes]:
    """The scope and the signature."""
    algorithm, _, rest = header.partition(b" ")
    parts: dict[bytes, bytes] = {}
    for pair in rest.replace(b",", b" ").split():
        name, equals, value = pair.partition(b"=")
        if not equals or name in parts:
            problem = (
                f"Repeated '{printable(name)}'" if equals else "Invalid key=value pair (missing equal-sign)"
            )
            hashed = f"(hashed with SHA-256 and encoded with Base64): '{_hashed(header)}'"
            raise IncompleteSignature(f"{problem} in Authorization header {hashed}.")
        parts[name] = value
    missing = [
        f"Authorization header requires '{name}' parameter."
        for name in ("Credential", "Signature", "SignedHeaders")
        if not parts.get(name.encode())
    ]
    if missing or not dated:
        raise _incomplete(missing, header, dated=dated)
    return _scope(algorithm, parts[b"Credential"], parts[b"SignedHeaders"]), parts[b"Signature"]


def undated(header: bytes) -> AuthenticationError:
    return _incomplete([], header, dated=False)


def read_presigned(parameters: Parameters) -> Presigned:
    given: dict[bytes, bytes] = {}
    for name, value in parameters:
        if name in given and name in _ONCE:
            raise IncompleteSignature(
                f"AWS query-string parameters must include '{printable(name)}' only once."
            )
        given[name] = value
    missing = [name for name in _REQUIRED if not given.get(name.encode())]
    if missing:
        sentences = [f"AWS query-string parameters must include '{name}'." for name in missing]
        raise IncompleteSignature(" ".join([*sentences, "Re-examine the query-string parameters."]))
    return Presigned(
        _scope(given[b"X-Amz-Algorithm"], given[b"X-Amz-Credential"], given[b"X-Amz-SignedHeaders"]),
        given[b"X-Amz-Signature"],
        given[b"X-Amz-Date"],
        _lifetime_s(given.get(b"X-Amz-Expires")),
        given.get(b"X-Amz-Security-Token"),
        given.get(b"X-Amz-Content-Sha256"),
    )


def unsigned_header(name: bytes) -> AuthenticationError:
    title = "'Host' or ':authority'" if name == b"host" else f"'{printable(name).title()}'"
    return InvalidSignature(f"{title} must be a 'SignedHeader' in the AWS Authorization.")


def wrong_region() -> AuthenticationError:
    return InvalidSignature("Credential should be scoped to a valid region.")


def printable(value: bytes) -> str:
    """What was sent, for the text of an error."""
    return _UNPRINTABLE.sub(b"?", value[:_PRINTABLE_MAX]).decode()


def _scope(algorithm: bytes, credential: bytes, signed_headers: bytes) -> Scope:
    if algorithm != ALGORITHM:
        only = "(only AWS4-HMAC-SHA256 for now)"
        raise IncompleteSignature(f"Unsupported AWS 'algorithm': '{printable(algorithm)}' {only}.")
    names = tuple(signed_headers.split(b";"))
    distinct = frozenset(names)
    if b"host" not in distinct:
        raise unsigned_header(b"host")
    if len(distinct) < len(names):
        # Otherwise one large header could be hashed a thousand times.
        raise IncompleteSignature("SignedHeaders must not name a header twice.")
    elements = credential.split(b"/")
    if len(elements) != 5:
        example = "e.g. keyid/date/region/service/term"
        raise IncompleteSignature(
            f"Credential must have exactly 5 slash-delimited elements, {example}, got '{printable(credential)}'"
        )
    if elements[-1] != _TERMINATOR:
        wrong = f"'aws4_request', not '{printable(elements[-1])}'"
        raise InvalidSignature(f"Credential should be scoped with a valid terminator: {wrong}.")
    if not _SERVICE.fullmatch(elements[3]):
        raise InvalidSignature("Credential should be scoped to a valid service.")
    access_key, date, region, service = (element.decode("ascii", "replace") for element in elements[:-1])
    if not is_region(region):
        raise wrong_region()
    signed = Signed(access_key, date, region, service, None)
    return Scope(signed, elements[1], b"/".join(elements[1:]), signed_headers, names)


def _lifetime_s(expires: bytes | None) -> int | None:
    if expires is None:
        return None
    if not _NUMBER.fullmatch(expires):
        raise IncompleteSignature("X-Amz-Expires should be a number")
    if not 1 <= int(expires) <= LIFETIME_S_MAX:
        raise IncompleteSignature(f"X-Amz-Expires must be between 1 and {LIFETIME_S_MAX} seconds")
    return int(expires)


def _incomplete(missing: Sequence[str], header: bytes, *, dated: bool) -> AuthenticationError:
    date = (
        []
        if dated
        else ["Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."]
    )
    # AWS shows a hash of the header: with another scheme it may hold a password.
    hashed = f"(Hashed with SHA-256 and encoded with Base64) Authorization={_hashed(header)}"
    return IncompleteSignature(" ".join([*missing, *date, hashed]))


def _hashed(header: bytes) -> str:
    return base64.b64encode(hashlib.sha256(header).digest()).decode()
