"""One state of the credentials file, indexed for requests: the secret and the principal of each access key.

An unknown key, an inactive one, a token from elsewhere and one whose owner is gone get the same answer, so that
callers cannot find out which keys exist. A session is valid as long as the long-term key it came from and everything
in between: deactivating a leaked key ends all sessions that were created with it.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.errors import ExpiredToken, InvalidToken
from penstock.auth.identity.access_keys import decrypted_secret
from penstock.auth.identity.model import AccessKey, CredentialsContent, all_keys
from penstock.auth.identity.principals import KnownRole, Principals
from penstock.auth.identity.sessions import Sessions
from penstock.auth.policy import PolicyInvalid
from penstock.auth.principal import Principal
from penstock.cache import BoundedCache
from penstock.clock import Clock
from penstock.names import PARTITION, without_partition

# A token holds the session's policy, which takes 100 times as much memory when it is compiled.
_CACHED_TOKEN_CHARACTERS = 2_000_000


class _Known(NamedTuple):
    secret: str
    principal: Principal
    key: AccessKey


class _KnownSession(NamedTuple):
    secret: str
    principal: Principal
    expires_ms: int


class Directory:
    def __init__(
        self, content: CredentialsContent, root_key: RootKey, clock: Clock, partition: str = PARTITION
    ) -> None:
        """``partition``: of the ARNs of users, roles and sessions. Raises CredentialsError for anything wrong in the
        file, not only when it is first needed."""
        self.content = content
        self.sessions = Sessions(root_key)
        self._clock = clock
        self.partition = partition
        self._principals = Principals(content, partition)
        self._by_key: dict[str, _Known] = {}
        self._sessions: BoundedCache[tuple[str, str], _KnownSession] = BoundedCache(
            _CACHED_TOKEN_CHARACTERS, lambda key: 128 + len(key[1])
        )
        for key, account, name in all_keys(content):
            secret = decrypted_secret(root_key, key)
            if key.active:
                principal = (
                    self._principals.root(account, key.id)
                    if name is None
                    else self._principals.user(account, name, key.id)
                )
                self._by_key[key.id] = _Known(secret, principal, key)
        self._roles = {without_partition(role.arn): role for role in self._principals.roles()}
        self.warnings = [*self._principals.warnings]
        if not self._by_key:
            self.warnings.insert(0, "no access key is active: every signed request is refused")

    def secret(self, access_key: str, token: str | None) -> str:
        """The secret that the request must be signed with. Raises AuthenticationError."""
        known = self._by_key.get(access_key) if token is None else None
        return self._known(access_key, token).secret if known is None else known.secret

    def principal(self, access_key: str, token: str | None) -> Principal:
        """Raises AuthenticationError."""
        return self._known(access_key, token).principal

    def role(self, arn: str) -> KnownRole | None:
        """The role of this ARN, whose partition does not matter."""
        return self._roles.get(without_partition(arn))

    def _known(self, access_key: str, token: str | None) -> _Known | _KnownSession:
        if not token:
            known = self._by_key.get(access_key)
            if known is None:
                raise InvalidToken
            return known
        key = access_key, token
        session = self._sessions.get(key) or self._sessions.put(key, self._open_session(access_key, token))
        if session.expires_ms <= self._clock.wall_ms():
            raise ExpiredToken
        return session

    def _open_session(self, access_key: str, token: str) -> _KnownSession:
        session = self.sessions.open(access_key, token)
        parent = None if session is None else self._by_key.get(session.parent_key)
        if session is None or parent is None:
            raise InvalidToken
        if not self._principals.is_valid(session, parent.key, parent.principal):
            raise InvalidToken
        try:
            principal = self._principals.session(session, access_key)
        except PolicyInvalid:  # it was valid when the session began, and a newer version has stricter rules
            raise InvalidToken from None
        secret = self.sessions.secret(access_key)
        return _KnownSession(secret, principal, session.expires_s * 1000)
