"""Who sends a request: one question, answered differently by an open and by a secured server.

An open server checks no signature and needs none. It still reads the credential scope: the region always, and the
access key as the account if it is twelve digits, so that several people or test runs can share a server without
seeing each other's queues. A session of a role that STS gave out acts in the role's account.

A secured server verifies every signature. A request without one is anonymous, a request with a wrong one is refused.
The account is the principal's, whatever the access key looks like; the region is the one that was signed for.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from penstock.auth.errors import (
    AuthenticationError,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    InvalidToken,
)
from penstock.auth.identity import Credentials
from penstock.auth.identity.sessions import open_account
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.auth.sigv4.verify import Signed, Verifier
from penstock.cache import BoundedCache
from penstock.clock import real_s
from penstock.names import Requester, Space, is_account, is_region
from penstock.server.client_addresses import caller_name
from penstock.server.http.request import Origin, Peer, Request
from penstock.server.origin import Origins
from penstock.wire.faults import expired_token, incomplete_signature, unknown_client, wrong_signature
from penstock.wire.service import Fault

_FAULTS: dict[type[AuthenticationError], Callable[[str], Fault]] = {
    IncompleteSignature: incomplete_signature,
    InvalidSignature: wrong_signature,
    InvalidToken: unknown_client,
    ExpiredToken: lambda _: expired_token(),
}
_CACHED_MAX = 4096
_CACHED_BYTES_MAX = 64 * 1024  # of credentials that are not checked
_CREDENTIAL = re.compile(rb"Credential=([^\s,]+)")
_PRESIGNED = re.compile(rb"(?:^|&)X-Amz-Credential=([^&]+)")
_REQUESTERS_MAX = 1024
_NAME_MAX, _USER_AGENT_SHOWN_MAX = 128, 256
SIGNATURE_BYTES = 64  # at the end of Authorization; the rest is the same for a whole day


class Caller(NamedTuple):
    space: Space
    sender: str
    principal: Principal | None = None  # None: the server is open
    signed_for: str | None = None  # the service in the credential scope


class OpenCallers:
    """Believes what requests say."""

    def __init__(self, home: Space, origins: Origins) -> None:
        self._home = home
        self._origins = origins
        self._unsigned = Caller(home, sender_id(""))
        self._cache: BoundedCache[bytes, Caller] = BoundedCache(_CACHED_BYTES_MAX, len)

    def of(self, request: Request) -> Caller:
        headers, peer = request.headers, request.peer
        authorization = headers.get(b"authorization")
        constant = None if authorization is None else authorization[:-SIGNATURE_BYTES]
        token = headers.get(b"x-amz-security-token")
        if constant is not None and constant == peer.caller_key and token is None:
            found: Caller = peer.caller
            return found
        caller = self._read(request)
        if token is not None and (account := open_account(token.decode("latin-1"))) is not None:
            return caller._replace(space=Space(account, caller.space.region))
        if constant is not None and constant.endswith(b"Signature=") and caller.signed_for is not None:
            peer.caller, peer.caller_key = caller, constant
        return caller

    def _read(self, request: Request) -> Caller:
        credential = claimed_credential(request)
        if not credential:
            region = self._origins.region_of(request)
            unsigned = self._unsigned
            return unsigned if region is None else unsigned._replace(space=Space(self._home.account, region))
        caller = self._cache.get(credential)
        if caller is None:
            # Credential scope: access key / date / region / service / aws4_request
            key, *scope = credential.decode("utf-8", "replace").split("/")
            account = key if is_account(key) else self._home.account
            if len(scope) != 4 or not is_region(scope[1]):
                region = self._origins.region_of(request) or self._home.region
                return Caller(Space(account, region), sender_id(key))
            caller = Caller(Space(account, scope[1]), sender_id(key), signed_for=scope[2])
            self._cache.put(credential, caller)
        return caller


class SignedCallers:
    """Verifies signatures. One request sees one state of the credentials file, in its secret and its principal."""

    def __init__(
        self,
        credentials: Credentials,
        origins: Origins,
        home: Space,
        *,
        regions: Collection[str] = (),
        now_s: Callable[[], float] = real_s,
    ) -> None:
        self._credentials = credentials
        self._origins = origins
        self._home = home  # of anonymous requests, as far as their queue URL does not say
        self._now_s = now_s
        self._directory = credentials.directory
        self._cache: BoundedCache[Signed, Caller] = BoundedCache(_CACHED_MAX)  # of that directory
        self._verifier = Verifier(self._directory.secret, regions=regions or None)

    def of(self, request: Request) -> Caller:
        """Raises the Fault to respond with."""
        directory = self._credentials.directory
        if directory is not self._directory:
            self._directory = directory
            self._cache.clear()
            self._verifier.secrets = directory.secret
        headers = self._origins.as_signed(request)
        try:
            signed = self._verifier.verify(
                request.method, request.target, headers, request.body, self._now_s()
            )
            if signed is None:
                region = self._origins.region_of(request) or self._home.region
                return Caller(Space(self._home.account, region), ANONYMOUS.id, ANONYMOUS)
            return self._cache.get(signed) or self._new_caller(signed)
        except AuthenticationError as error:
            raise _FAULTS[type(error)](str(error)) from None

    def _new_caller(self, signed: Signed) -> Caller:
        principal = self._directory.principal(signed.access_key, signed.token)
        caller = Caller(Space(principal.account, signed.region), principal.id, principal, signed.service)
        if signed.token is None:  # tokens are long, and sessions have a cache of their own
            self._cache.put(signed, caller)
        return caller


class Requesters:
    """Who made a request, in the words of the history of messages: one object for many requests, since thousands of
    events refer to it."""

    def __init__(self) -> None:
        self._cache: BoundedCache[Requester, Requester] = BoundedCache(_REQUESTERS_MAX)

    def of(self, peer: Peer, key: tuple[Caller, Origin, bytes]) -> Requester:
        """Returns the requester, which is kept with the connection: its next request is mostly the same client's.
        What clients choose is cut."""
        caller, origin, agent = key
        by = caller.space.account if caller.principal is None else _name_of(caller.principal)
        found = Requester(by[:_NAME_MAX], origin.source_ip, agent[:_USER_AGENT_SHOWN_MAX].decode("latin-1"))
        found = self._cache.get(found) or self._cache.put(found, found)
        peer.requester, peer.requester_key = found, key
        is_verified = caller.principal is not None and caller.principal.kind != "anonymous"
        peer.verified = caller_name(caller.principal, origin.source_ip) if is_verified else ""
        return found


def _name_of(principal: Principal) -> str:
    name = principal.name or principal.arn.rpartition(":")[2] or principal.id
    if principal.kind == "anonymous":
        name = principal.id
    return f"{name} ({principal.access_key})" if principal.access_key else name


def sender_id(access_key: str) -> str:
    """Returns an id that looks like the unique id of an IAM user. SQS: a sender is never shown by the account
    number."""
    digest = hashlib.sha256(b"sender:" + access_key.encode()).digest()
    return "AIDA" + base64.b32encode(digest)[:17].decode()


def claimed_credential(request: Request) -> bytes:
    """The access key and its scope as the request has them, unverified; empty if there are none."""
    authorization = request.headers.get(b"authorization")
    if authorization is not None:
        found = _CREDENTIAL.search(authorization)
        return found[1] if found else b""
    if b"X-Amz-Credential=" not in request.target:
        return b""
    found = _PRESIGNED.search(request.query)
    return unquote_to_bytes(found[1].replace(b"+", b" ")) if found else b""
