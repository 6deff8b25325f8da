"""Who calls an open server, as far as the request says so.

No signature is checked, and a request without one is as good. What a signature's credential scope says is still
used: the region always, and the access key as the account if it is twelve
digits, so that several people or test runs can share a server without seeing each other's queues. A session of a
role that STS gave out acts in the role's account.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from penstock.auth.identity.open import open_account
from penstock.auth.principal import Principal
from penstock.names import Space, is_account, is_region
from penstock.server.http.request import Request

_CREDENTIAL = re.compile(rb"Credential=([^\s,]+)")
_PRESIGNED = re.compile(rb"(?:^|&)X-Amz-Credential=([^&]+)")
_REMEMBERED_MAX = 1024


class Caller(NamedTuple):
    space: Space
    sender: str
    principal: Principal | None = None  # None: nobody asked who it is
    signed_for: str | None = None  # the service


class Callers:
    """Reads callers out of requests. A credential is the same for a whole day, so it is read once."""

    def __init__(self, account: str, region: str) -> None:
        self._account = account
        self._region = region
        self._known: dict[bytes, Caller] = {}

    def of(self, request: Request) -> Caller:
        credential = claimed_credential(request)
        caller = self._known.get(credential)
        if caller is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            caller = self._known[credential] = self._read(credential.decode("utf-8", "replace"))
        token = request.headers.get(b"x-amz-security-token")
        if token is not None and (account := open_account(token.decode("latin-1"))) is not None:
            return Caller(Space(account, caller.space.region), caller.sender)
        return caller

    def _read(self, credential: str) -> Caller:
        # Credential scope: access key / date / region / service / aws4_request
        key, _, scope = credential.partition("/")
        parts = scope.split("/")
        named = len(parts) == 4 and is_region(parts[1])
        region = parts[1] if named else self._region
        account = key if is_account(key) else self._account
        return Caller(Space(account, region), sender_id(key))


def sender_id(access_key: str) -> str:
    """Shaped like the unique id of an IAM user. SQS: a sender is never shown by the account number."""
    digest = hashlib.sha256(b"sender:" + access_key.encode()).digest()
    return "AIDA" + base64.b32encode(digest)[:17].decode()


def claimed_credential(request: Request) -> bytes:
    """The access key and its scope, as the request has it; nothing if it says none."""
    authorization = request.headers.get(b"authorization")
    if authorization is not None:
        found = _CREDENTIAL.search(authorization)
        return found[1] if found else b""
    if b"X-Amz-Credential=" not in request.target:
        return b""
    found = _PRESIGNED.search(request.query)
    return unquote_to_bytes(found[1].replace(b"+", b" ")) if found else b""
