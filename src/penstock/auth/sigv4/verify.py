"""Verifies Signature Version 4: whether a request was sent by the owner of the access key that it names.

A signature covers one method, path, query, body and time, and the headers it names. It must name Host and every
``x-amz-*`` header of the request: X-Amz-Target is the action, and no proxy on the way may change it.

What is cached was proven by a signature, and is bounded. The secret is looked up for each request and a signing
key is cached by its secret, so that a changed or withdrawn secret takes effect at once.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from penstock.auth.errors import AuthenticationError, IncompleteSignature, InvalidSignature
from penstock.auth.sigv4.canonical import (
    canonical_path,
    canonical_query,
    read_parameters,
)
from penstock.auth.sigv4.clock_skew import ClockSkew, from_date_header
from penstock.auth.sigv4.parse import (
    ALGORITHM,
    RequestHead,
    Scope,
    Signed,
    is_presigned,
    printable,
    read_authorization,
    read_presigned,
    undated,
    unsigned_header,
    wrong_region,
)
from penstock.cache import BoundedCache

if TYPE_CHECKING:
    from _hashlib import HASH

__all__ = ["MISMATCH", "Secrets", "Signed", "Verifier"]

Secrets = Callable[[str, str | None], str]
"""(access key, session token) -> the secret. Raises AuthenticationError if there is none."""

MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
    "Key and signing method. Consult the service documentation for details."
)

# It stands in place of the hash of the body, if the sender leaves the body unsigned.
_UNSIGNED_PAYLOAD = b"UNSIGNED-PAYLOAD"
# OpenSSL looks an algorithm up by its name each time; a copy of an empty hash has it.
_new_sha256 = sha256().copy
_SIGNATURE_BYTES = 64
_CACHED_ENTRIES = 4096
_CACHED_BYTES_MAX = 1024  # of one scope: SDKs need 250


class Verifier:
    def __init__(self, secrets: Secrets, *, regions: Collection[str] | None = None) -> None:
        """``regions`` are those a request may be signed for; None for any."""
        self.secrets = secrets
        self._regions = None if regions is None else frozenset(regions)
        self._clock_skew = ClockSkew()
        # By the header Authorization without the signature.
        self._scopes: BoundedCache[bytes, Scope] = BoundedCache(_CACHED_ENTRIES)
        # By secret and scope.
        self._keys: BoundedCache[tuple[str, bytes], SigningKey] = BoundedCache(_CACHED_ENTRIES)

    def verify(
        self,
        method: bytes,
        target: bytes,
        headers: Mapping[bytes, bytes],
        body: bytes,
        now_s: float,
    ) -> Signed | None:
        """Who signed this request; None if it has no signature. Raises AuthenticationError.

        ``headers`` are by their lower-case names; see :func:`~penstock.auth.sigv4.canonical.merged_headers`.
        """
        authorization = headers.get(b"authorization")
        payload_hash = headers.get(b"x-amz-content-sha256")
        token = headers.get(b"x-amz-security-token")
        query = b"" if target == b"/" else target.partition(b"?")[2]
        known: Scope | None = None
        if query and is_presigned(query):
            if authorization is not None:
                raise InvalidSignature(
                    "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
                )
            scope, signature, stamp, lifetime_s, url_token, url_payload_hash = read_presigned(
                read_parameters(query)
            )
            payload_hash, token = url_payload_hash or payload_hash, url_token or token
            self._clock_skew.check(stamp, now_s, lifetime_s)
        elif authorization is None:
            return None
        else:
            known = self._scopes.get(authorization[:-_SIGNATURE_BYTES])
            if known is not None:
                scope, signature = known, authorization[-_SIGNATURE_BYTES:]
            else:
                dated = b"x-amz-date" in headers or b"date" in headers
                scope, signature = read_authorization(authorization, dated=dated)
            stamp = headers.get(b"x-amz-date") or _date(authorization, headers)
            clock_skew = self._clock_skew
            if stamp != clock_skew.accepted or int(now_s) != clock_skew.second:
                clock_skew.check(stamp, now_s)
        if scope.day != stamp[:8] or self._regions is not None:
            self._check_scope(scope, stamp)
        session = None if token is None else token.decode("ascii", "replace")
        # Before anything is hashed: a large body costs nothing without a valid access key.
        secret = self.secrets(scope.signed.access_key, session)

        names = tuple(headers)
        if names != scope.checked_names:
            _check_covered(scope, names)
        canonical = _head(scope, method, target, headers).copy()
        if payload_hash is None:
            payload_hash = _payload_hash(body)
        elif payload_hash != _UNSIGNED_PAYLOAD and payload_hash != _payload_hash(body):
            raise _wrong_payload(payload_hash)
        canonical.update(payload_hash)
        cached_key = self._keys.get((secret, scope.text))
        key = cached_key or SigningKey(secret, scope.text)
        if not compare_digest(key.sign(stamp, canonical.hexdigest().encode()), signature):
            raise InvalidSignature(MISMATCH)
        if cached_key is None and len(scope.text) <= _CACHED_BYTES_MAX:
            self._keys.put((secret, scope.text), key)
        if known is None and authorization is not None:
            self._cache(authorization, scope)
        return scope.signed if session is None else scope.signed._replace(token=session)

    def _cache(self, authorization: bytes, scope: Scope) -> None:
        """Clients send the same header again and again, apart from the signature at its end."""
        rest = authorization[:-_SIGNATURE_BYTES]
        if len(rest) <= _CACHED_BYTES_MAX and rest.endswith((b" Signature=", b",Signature=")):
            self._scopes.put(rest, scope)

    def _check_scope(self, scope: Scope, stamp: bytes) -> None:
        if self._regions is not None and scope.signed.region not in self._regions:
            raise wrong_region()
        day = stamp[:8]
        if scope.day != day:
            dates = f"'{printable(scope.day)}' != '{day.decode()}', from '{stamp.decode()}'"
            raise InvalidSignature(
                f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: {dates}."
            )


def _date(authorization: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    date = headers.get(b"date")
    if date is None:
        raise undated(authorization)
    return from_date_header(date)


def _check_covered(scope: Scope, names: tuple[bytes, ...]) -> None:
    for name in names:
        if name not in scope.covered and name.startswith(b"x-amz-"):
            raise unsigned_header(name)
    if sum(map(len, names)) <= _CACHED_BYTES_MAX:
        scope.checked_names = names


def _head(scope: Scope, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> HASH:
    """The SHA-256 of the canonical request up to the hash of its body. That of the last request is kept."""
    try:
        made_of = method, target, scope.lines.values(headers)
        if scope.head is not None and scope.head.made_of == made_of:
            return scope.head.state
        lines = scope.lines.of(headers)
    except KeyError:
        raise InvalidSignature(MISMATCH) from None
    path, _, query = target.partition(b"?")
    parameters = canonical_query(read_parameters(query)) if query else b""
    state = sha256(
        b"%b\n%b\n%b\n%b\n%b\n" % (method, canonical_path(path), parameters, lines, scope.signed_headers)
    )
    if len(target) + len(lines) <= _CACHED_BYTES_MAX:
        scope.head = RequestHead(made_of, state)
    return state


def _payload_hash(body: bytes) -> bytes:
    hashed = _new_sha256()
    hashed.update(body)
    return hashed.hexdigest().encode()


def _wrong_payload(claimed: bytes) -> AuthenticationError:
    if claimed.startswith(b"STREAMING-"):
        return IncompleteSignature(
            f"A body that is signed in pieces ('{printable(claimed)}') is not supported."
        )
    return InvalidSignature("The provided 'x-amz-content-sha256' header does not match what was computed.")


_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


class SigningKey:
    """An HMAC key of one secret, day, region and service.

    The SHA-256 states that depend on the key alone (RFC 2104), or on the key and the time of the last signature, are
    kept: copying them takes half the time of ``hmac``, which creates Python objects for each signature.
    """

    __slots__ = ("_dated", "_inner", "_outer", "_scope", "_stamp")

    def __init__(self, secret: str, scope: bytes) -> None:
        key = b"AWS4" + secret.encode()
        for part in scope.split(b"/"):
            key = hmac.digest(key, part, "sha256")
        block = key.ljust(64, b"\0")
        self._scope = scope
        self._inner = self._dated = sha256(block.translate(_INNER_PAD))
        self._outer = sha256(block.translate(_OUTER_PAD))
        self._stamp = b""

    def sign(self, stamp: bytes, digest: bytes) -> bytes:
        """``digest`` is that of the canonical request, in hexadecimal digits."""
        if stamp != self._stamp:
            self._dated = self._inner.copy()
            self._dated.update(b"%b\n%b\n%b\n" % (ALGORITHM, stamp, self._scope))
            self._stamp = stamp
        inner = self._dated.copy()
        inner.update(digest)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest().encode()
