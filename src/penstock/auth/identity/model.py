"""The content of the credentials file: one struct for each kind of table, with the names of the file.

Unknown names in the file are errors. Secrets are encrypted, so that a copy of the file reveals none. A user or role
without an id gets one from its ARN. The commands give each its own id, so that one that is created again under an old
name is another principal, and does not inherit the sessions of the first.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from penstock.names import PARTITION

MAX_SESSION_S = 43_200
DEFAULT_MAX_SESSION_S = 3_600
KEY_ID = "[A-Za-z0-9_]{4,128}"
# A running server reads a changed file about two seconds later: sessions that begin until then are refused, too.
_RELOAD_TIME = timedelta(seconds=5)
KEYS_MAX = 2  # AWS: as many as a rotation without downtime needs

ROOT = "root"  # not a user: the account itself, wherever a user can be named

PolicyDocument = str | dict[str, Any]
"""A policy: JSON as text, or the same as TOML tables."""


class CredentialsError(Exception):
    """One line for the operator."""


class CredentialsUnreadable(CredentialsError):
    """The file could not be read this time; another try may succeed."""


class Table(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table of the file."""


class SessionOwner(Table, kw_only=True):
    """A table whose sessions can be ended."""

    sessions_since: datetime | None = None  # sessions that began earlier are refused

    def end_sessions(self, now: datetime) -> None:
        """All sessions so far, and those that begin before servers have read the change."""
        self.sessions_since = now + _RELOAD_TIME

    def has_ended(self, issued_s: int) -> bool:
        return self.sessions_since is not None and issued_s < self.sessions_since.timestamp()


class AccessKey(SessionOwner, kw_only=True):
    id: Annotated[str, Meta(pattern=rf"^{KEY_ID}\Z")]
    secret: str
    created: datetime | None = None
    status: Literal["active", "inactive"] = "active"

    @property
    def active(self) -> bool:
        return self.status == "active"


class PolicyHolder(SessionOwner, kw_only=True):
    """A user or role: policies can be attached to it."""

    id: str = ""
    created: datetime | None = None
    tags: dict[str, str] = {}
    policies: list[str] = []  # names of policies in the file, or built in
    inline: dict[str, PolicyDocument] = {}


class User(PolicyHolder, kw_only=True):
    keys: list[AccessKey] = []


class Role(PolicyHolder, kw_only=True):
    trust: PolicyDocument
    max_session: Annotated[int, Meta(ge=DEFAULT_MAX_SESSION_S, le=MAX_SESSION_S)] = DEFAULT_MAX_SESSION_S


class Account(SessionOwner, kw_only=True):
    """``keys`` are those of root, which may do everything in the account."""

    keys: list[AccessKey] = []
    users: dict[str, User] = {}
    roles: dict[str, Role] = {}


class CredentialsContent(Table, kw_only=True):
    version: Literal[1] = 1
    policies: dict[str, PolicyDocument] = {}
    accounts: dict[str, Account] = {}

    def account(self, number: str) -> Account:
        """The account, created if necessary."""
        return self.accounts.setdefault(number, Account())


class OwnedKey(NamedTuple):
    """A key and its owner; the name is None for the root of the account."""

    key: AccessKey
    account: str
    name: str | None


def all_keys(content: CredentialsContent) -> Iterator[OwnedKey]:
    for number, account in content.accounts.items():
        for key in account.keys:
            yield OwnedKey(key, number, None)
        for name, user in account.users.items():
            for key in user.keys:
                yield OwnedKey(key, number, name)


def root_arn(account: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:root"


def user_arn(account: str, name: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:user/{name}"


def role_arn(account: str, name: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:role/{name}"


def unique_id(holder: PolicyHolder, arn: str) -> str:
    """The id has the form of AWS: AIDA for a user, AROA for a role, and 17 characters."""
    if holder.id:
        return holder.id
    prefix = "AROA" if isinstance(holder, Role) else "AIDA"
    return prefix + base64.b32encode(hashlib.sha256(arn.encode()).digest())[:17].decode()
