"""The gate of a secured server: who calls, for sure, before anything is done with a request.

Rule 1: a request without a signature is anonymous, and one with a wrong signature is refused: never the former
for the latter.
Rule 2: one request sees one state of the credentials file: the principal comes from where the secret did.
Rule 3: the account is the principal's own, whatever the access key looks like; the region is what was signed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from penstock.auth.errors import (
    AuthenticationError,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    InvalidToken,
)
from penstock.auth.identity import Credentials
from penstock.auth.principal import ANONYMOUS
from penstock.auth.sigv4.verify import Signed, Verifier
from penstock.names import Space
from penstock.server.caller import Caller
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.wire.faults import expired_token, incomplete_signature, unknown_client, wrong_signature
from penstock.wire.registry import Fault

_FAULTS: dict[type[AuthenticationError], Callable[[str], Fault]] = {
    IncompleteSignature: incomplete_signature,
    InvalidSignature: wrong_signature,
    InvalidToken: unknown_client,
    ExpiredToken: lambda _: expired_token(),
}
_CALLERS_MAX = 4096  # remembered


class Gate:
    def __init__(
        self,
        credentials: Credentials,
        origins: Origins,
        home: Space,
        *,
        regions: Collection[str] = (),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._credentials = credentials
        self._origins = origins
        self._home = home  # where an anonymous request is, as far as its queue's URL does not say
        self._now_s = now_s
        self._directory = credentials.directory
        self._callers: dict[Signed, Caller] = {}  # of that directory
        self._verifier = Verifier(self._directory.secret, regions=regions or None)

    def of(self, request: Request) -> Caller:
        """Raises the Fault to answer with."""
        try:
            return self._verified(request)
        except AuthenticationError as error:
            raise _FAULTS[type(error)](str(error)) from None

    def _verified(self, request: Request) -> Caller:
        directory = self._credentials.directory
        if directory is not self._directory:
            self._directory, self._callers = directory, {}
            self._verifier.secrets = directory.secret
        headers, by_name = self._origins.as_signed(request)
        now_s = self._now_s()
        signed = self._verifier.verify(request.method, request.target, headers, by_name, request.body, now_s)
        if signed is None:
            return Caller(self._home, ANONYMOUS.id, ANONYMOUS, None)
        return self._callers.get(signed) or self._new_caller(signed)

    def _new_caller(self, signed: Signed) -> Caller:
        principal = self._directory.principal(signed.access_key, signed.token)
        caller = Caller(Space(principal.account, signed.region), principal.id, principal, signed.service)
        if signed.token is None:  # a token is long, and its session is remembered elsewhere
            if len(self._callers) >= _CALLERS_MAX:
                self._callers.clear()
            self._callers[signed] = caller
        return caller
