"""Signature Version 4, from the server's side: is this request what the owner of an access key sent?

Rule 1: a signature holds for one method, path, query, body and time, and for the headers it names. It must name
Host and every ``x-amz-*`` header that is there: X-Amz-Target is the action, and nobody on the way may change it.
Rule 2: whatever is sent, the outcome is :class:`Signed`, None or a Fault, in linear time.
Rule 3: what is remembered was proven by a signature, and is bounded. The secret is asked for each time, and a
signing key is remembered by its secret, so that one that was changed or withdrawn counts no more.
Rule 4: no secret, and nothing made of one, is in an error or a repr.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Generic, TypeVar

from penstock.auth.sigv4.canonical import canonical_path, canonical_query, merged_headers, read_parameters
from penstock.auth.sigv4.clock_skew import Freshness, from_date_header
from penstock.auth.sigv4.parse import (
    ALGORITHM,
    Claim,
    Signed,
    is_presigned,
    read_authorization,
    read_presigned,
    shown,
    undated,
    unsigned_header,
    wrong_region,
)
from penstock.wire.faults import incomplete_signature, wrong_signature

__all__ = ["MISMATCH", "Secrets", "Signed", "Verifier"]

Headers = Sequence[tuple[bytes, bytes]]
Secrets = Callable[[str, str | None], str]
"""(access key, session token) -> the secret. Raises the Fault to answer if there is none."""

MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
    "Key and signing method. Consult the service documentation for details."
)

_UNSIGNED_PAYLOAD = b"UNSIGNED-PAYLOAD"
_SIGNATURE_BYTES = 64
_REMEMBERED_MAX = 4096
_REMEMBERED_BYTES_MAX = 1024  # of what one claim says: SDKs need 250

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Verifier:
    def __init__(self, secrets: Secrets, *, regions: Collection[str] | None = None) -> None:
        """``regions`` are those a request may be signed for; None for any."""
        self.secrets = secrets
        self._regions = None if regions is None else frozenset(regions)
        self._freshness = Freshness()
        self._claims: _Remembered[bytes, Claim] = _Remembered()  # by all of Authorization but the signature
        self._keys: _Remembered[tuple[str, bytes], SigningKey] = _Remembered()  # by secret and scope

    def verify(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        by_name: Mapping[bytes, bytes],
        body: bytes,
        now_s: float,
    ) -> Signed | None:
        """Who signed this request; None if nobody claims to have.

        ``headers`` are as they were received, ``by_name`` the same by their lower-case names.
        """
        path, _, query = (target, b"", b"") if target == b"/" else target.partition(b"?")
        authorization = by_name.get(b"authorization")
        payload_hash = by_name.get(b"x-amz-content-sha256")
        token = by_name.get(b"x-amz-security-token")
        parameters = read_parameters(query) if query else []
        if query and is_presigned(query):
            if authorization is not None:
                raise wrong_signature(
                    "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
                )
            given = read_presigned(parameters)
            claim, signature, stamp = given.claim, given.signature, given.stamp
            payload_hash, token = given.payload_hash or payload_hash, given.token or token
            self._freshness.check(stamp, now_s, given.lifetime_s)
        elif authorization is None:
            return None
        else:
            known = self._claims.get(authorization[:-_SIGNATURE_BYTES])
            if known is not None:
                claim, signature = known, authorization[-_SIGNATURE_BYTES:]
            else:
                dated = b"x-amz-date" in by_name or b"date" in by_name
                claim, signature = read_authorization(authorization, dated=dated)
            stamp = by_name.get(b"x-amz-date") or _date(authorization, by_name)
            self._freshness.check(stamp, now_s)
        if claim.day != stamp[:8] or self._regions is not None:
            self._check_scope(claim, stamp)
        session = None if token is None else token.decode("ascii", "replace")
        secret = self.secrets(claim.by.access_key, session)  # first: who has no key has no large body hashed
        canonical = b"%b\n%b\n%b\n%b\n%b\n%b" % (
            method,
            path if path == b"/" else canonical_path(path),
            canonical_query(parameters) if parameters else b"",
            _header_lines(claim, headers, by_name),
            claim.signed_headers,
            _payload(body, payload_hash),
        )
        self._prove(claim, stamp, canonical, signature, secret)
        if authorization is not None and known is None:
            self._remember(authorization, claim)
        return claim.by if session is None else claim.by._replace(token=session)

    def _remember(self, authorization: bytes, claim: Claim) -> None:
        """Clients send the same header again and again, apart from the signature at its end."""
        rest = authorization[:-_SIGNATURE_BYTES]
        if len(rest) <= _REMEMBERED_BYTES_MAX and rest.endswith((b" Signature=", b",Signature=")):
            self._claims.add(rest, claim)

    def _check_scope(self, claim: Claim, stamp: bytes) -> None:
        if self._regions is not None and claim.by.region not in self._regions:
            raise wrong_region()
        day = stamp[:8]
        if claim.day != day:
            dates = f"'{shown(claim.day)}' != '{day.decode()}', from '{stamp.decode()}'"
            raise wrong_signature(
                f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: {dates}."
            )

    def _prove(self, claim: Claim, stamp: bytes, canonical: bytes, signature: bytes, secret: str) -> None:
        remembered = self._keys.get((secret, claim.scope))
        key = remembered or SigningKey(secret, claim.scope)
        digest = sha256(canonical).hexdigest().encode()
        expected = key.sign(b"%b\n%b\n%b\n%b" % (ALGORITHM, stamp, claim.scope, digest))
        if not compare_digest(expected, signature):
            raise wrong_signature(MISMATCH)
        if remembered is None and len(claim.scope) <= _REMEMBERED_BYTES_MAX:
            self._keys.add((secret, claim.scope), key)


class _Remembered(Generic[K, V]):
    """The last so many; the oldest makes room."""

    __slots__ = ("_items", "get")

    def __init__(self) -> None:
        self._items: dict[K, V] = {}
        self.get = self._items.get

    def add(self, name: K, item: V) -> None:
        if name not in self._items:
            if len(self._items) >= _REMEMBERED_MAX:
                del self._items[next(iter(self._items))]
            self._items[name] = item


def _date(authorization: bytes, by_name: Mapping[bytes, bytes]) -> bytes:
    date = by_name.get(b"date")
    if date is None:
        raise undated(authorization)
    return from_date_header(date)


def _header_lines(claim: Claim, headers: Headers, by_name: Mapping[bytes, bytes]) -> bytes:
    for name in by_name:
        if name not in claim.covered and name.startswith(b"x-amz-"):
            raise unsigned_header(name)
    try:
        return claim.lines.of(merged_headers(headers, by_name))
    except KeyError:
        raise wrong_signature(MISMATCH) from None


def _payload(body: bytes, claimed: bytes | None) -> bytes:
    """What stands for the body: its hash, or the caller's word that it is not signed."""
    if claimed == _UNSIGNED_PAYLOAD:
        return claimed
    digest = sha256(body).hexdigest().encode()
    if claimed is None or claimed == digest:
        return digest
    if claimed.startswith(b"STREAMING-"):
        raise incomplete_signature(f"A body that is signed in pieces ('{shown(claimed)}') is not supported.")
    raise wrong_signature("The provided 'x-amz-content-sha256' header does not match what was computed.")


class SigningKey:
    """Of one secret, day, region and service. What of the HMAC only the key goes into is done once."""

    __slots__ = ("_keyed",)

    def __init__(self, secret: str, scope: bytes) -> None:
        key = b"AWS4" + secret.encode()
        for part in scope.split(b"/"):
            key = hmac.digest(key, part, "sha256")
        self._keyed = hmac.new(key, digestmod="sha256")

    def sign(self, text: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(text)
        return keyed.hexdigest().encode()
