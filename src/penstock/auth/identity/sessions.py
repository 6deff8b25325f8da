"""Temporary credentials: a session is an encrypted token that the client keeps.

Nothing about a session is stored: the token carries it, and only the root key decrypts it. So sessions
survive a restart and cost no memory. The secret is not in the token: it is derived from the access key and
the root key. A token names all sessions it came from, back to the long-term key: ending one of them ends
those that were created with it.
"""

from __future__ import annotations

import base64
import hmac
import re
from typing import Literal, NamedTuple

import msgspec

from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.access_keys import new_access_key_id, new_secret

_PURPOSE = b"session/1"
_TOKEN_LENGTH_MAX = 16_384
_OPEN_TOKEN = re.compile(rb"penstock open session of ([0-9]{12})")


OwnerKind = Literal["root", "user", "role"]


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """A session in a chain of sessions: its owner, and when it began."""

    kind: OwnerKind
    account: str
    owner: str
    owner_id: str
    issued_s: int


Chain = tuple[Hop, ...]


def extended(chain: Chain, hop: Hop) -> Chain:
    """A role that is assumed again in the same chain counts once, with its first session: whatever ends a later one
    ends that, too. So a chain of roles that assume each other does not grow."""
    if any(_owner_of(each) == _owner_of(hop) for each in chain):
        return chain
    return (*chain, hop)


def _owner_of(hop: Hop) -> tuple[str, str, str, str]:
    return hop.kind, hop.account, hop.owner, hop.owner_id


class Session(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The content of a token. ``owner`` and ``owner_id`` are those of the user or role; for root, of the account."""

    kind: OwnerKind
    account: str
    owner: str
    owner_id: str
    parent_key: str  # the long-term key that the chain of sessions began with
    parent_id: str  # the owner of that key then: an id can be given to another key later
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
        encrypted = self._root_key.encrypt(_PURPOSE, msgspec.msgpack.encode(session), access_key.encode())
        return Issued(access_key, self.secret(access_key), base64.b64encode(encrypted).decode())

    def secret(self, access_key: str) -> str:
        return base64.b64encode(hmac.digest(self._secret_key, access_key.encode(), "sha256"))[:40].decode()

    def open(self, access_key: str, token: str) -> Session | None:
        """None if the token was not issued here, or belongs to another access key."""
        if len(token) > _TOKEN_LENGTH_MAX:
            return None
        try:
            encrypted = base64.b64decode(token, validate=True)
            return self._decoder.decode(self._root_key.decrypt(_PURPOSE, encrypted, access_key.encode()))
        except (RootKeyError, ValueError, msgspec.DecodeError):
            return None


# -- on an open server, which does not authenticate ----------------------------------------------------------


def open_session(account: str) -> Issued:
    """A session whose token only names the account it acts in. It holds no secret, protects nothing and stays valid
    after a restart; a secured server refuses it."""
    token = base64.b64encode(f"penstock open session of {account}".encode()).decode()
    return Issued(new_access_key_id(temporary=True), new_secret(), token)


def open_account(token: str) -> str | None:
    """The account that the session acts in; None if the token does not come from an open server."""
    try:
        found = _OPEN_TOKEN.fullmatch(base64.b64decode(token, validate=True))
    except ValueError:
        return None
    return found[1].decode() if found else None
