"""Temporary credentials: a session is a sealed token that its holder keeps.

Rule 1: nothing about a session is stored: the token carries it, and only the root key opens it. So sessions survive
a restart and cost no memory. The secret is not even in the token: it follows from the access key and the root key.
Rule 2: a token says how it came about, back to the long-term key: whatever ends a session on the way ends those that
were made with it.
"""

from __future__ import annotations

import base64
import hmac
from typing import Literal, NamedTuple

import msgspec

from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.access_keys import new_access_key_id

_PURPOSE = b"session/1"
_TOKEN_LENGTH_MAX = 16_384


OwnerKind = Literal["root", "user", "role"]


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """A session in a chain of them: whose it was, and when it began."""

    kind: OwnerKind
    account: str
    owner: str
    owner_id: str
    issued_s: int


Chain = tuple[Hop, ...]


def extended(chain: Chain, hop: Hop) -> Chain:
    """A role that is assumed again in the same chain counts once, with its first session: nothing that ends a later
    one spares that. So a chain that goes round in circles does not grow."""
    if any(_whose(each) == _whose(hop) for each in chain):
        return chain
    return (*chain, hop)


def _whose(hop: Hop) -> tuple[str, str, str, str]:
    return hop.kind, hop.account, hop.owner, hop.owner_id


class Session(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a token says. ``owner`` and ``owner_id`` are the user's or role's; for the root the account's own."""

    kind: OwnerKind
    account: str
    owner: str
    owner_id: str
    parent_key: str  # the long-term key behind it, through a chain of sessions the first
    parent_id: str  # whose key that was: ids of keys can be given to others
    issued_s: int
    expires_s: int
    name: str = ""  # RoleSessionName
    policy: str | None = None
    tags: dict[str, str] = {}
    transitive: tuple[str, ...] = ()  # keys of the tags that the next session in a chain inherits
    chain: Chain = ()  # the sessions it came from, the first one first

    @property
    def hop(self) -> Hop:
        return Hop(self.kind, self.account, self.owner, self.owner_id, self.issued_s)


class Issued(NamedTuple):
    access_key: str
    secret: str
    token: str


class Sessions:
    def __init__(self, root_key: RootKey) -> None:
        self._root_key = root_key
        self._secret_key = root_key.derive(b"session secrets")
        self._decoder = msgspec.msgpack.Decoder(Session)

    def issue(self, session: Session) -> Issued:
        access_key = new_access_key_id(temporary=True)
        sealed = self._root_key.seal(_PURPOSE, msgspec.msgpack.encode(session), access_key.encode())
        return Issued(access_key, self.secret(access_key), base64.b64encode(sealed).decode())

    def secret(self, access_key: str) -> str:
        return base64.b64encode(hmac.digest(self._secret_key, access_key.encode(), "sha256"))[:40].decode()

    def open(self, access_key: str, token: str) -> Session | None:
        """None if the token is not one of ours, or belongs to another access key."""
        if len(token) > _TOKEN_LENGTH_MAX:
            return None
        try:
            sealed = base64.b64decode(token, validate=True)
            return self._decoder.decode(self._root_key.open(_PURPOSE, sealed, access_key.encode()))
        except (RootKeyError, ValueError, msgspec.DecodeError):
            return None
