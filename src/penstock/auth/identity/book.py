"""What the credentials file says, as values: one struct for each kind of table, with the names of the file.

Rule 1: nothing is passed over: an unknown name in the file is an error.
Rule 2: secrets stand in it sealed, so a copy of the file gives none away.
Rule 3: a user or role without an id of its own gets one from its ARN. One that the commands make has its own, so
that whoever is made again under an old name is somebody else: sessions of the first do not become the second's.
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
# A running server reads a changed file about two seconds later, and does not know until then what was ended.
TAKE_UP = timedelta(seconds=5)
KEYS_MAX = 2  # AWS: as many as a rotation without downtime needs, and no forgotten ones

ROOT = "root"  # no user's name: it stands for the account itself wherever a user can be named

Document = str | dict[str, Any]
"""A policy: JSON as text, or the same as TOML tables."""


class CredentialsError(Exception):
    """One line for the operator."""


class CredentialsUnreadable(CredentialsError):
    """Nothing is known to be wrong with the file: another try may do."""


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table of the file."""


class Owner(Entry, kw_only=True):
    """Whatever sessions can come from."""

    sessions_since: datetime | None = None  # sessions that began earlier are refused

    def end_sessions(self, now: datetime) -> None:
        """All so far, and those that begin before servers have read of it."""
        self.sessions_since = now + TAKE_UP

    def ended(self, issued_s: int) -> bool:
        return self.sessions_since is not None and issued_s < self.sessions_since.timestamp()


class AccessKey(Owner, kw_only=True):
    id: Annotated[str, Meta(pattern=rf"^{KEY_ID}\Z")]
    secret: str
    created: datetime | None = None
    status: Literal["active", "inactive"] = "active"

    @property
    def active(self) -> bool:
        return self.status == "active"


class Holder(Owner, kw_only=True):
    """Whoever policies can be attached to."""

    id: str = ""
    created: datetime | None = None
    tags: dict[str, str] = {}
    policies: list[str] = []  # names: of the file's own policies, or built in
    inline: dict[str, Document] = {}


class User(Holder, kw_only=True):
    keys: list[AccessKey] = []


class Role(Holder, kw_only=True):
    trust: Document
    max_session: Annotated[int, Meta(ge=DEFAULT_MAX_SESSION_S, le=MAX_SESSION_S)] = DEFAULT_MAX_SESSION_S


class Account(Owner, kw_only=True):
    """``keys`` are the root's: whoever has one may do everything in the account."""

    keys: list[AccessKey] = []
    users: dict[str, User] = {}
    roles: dict[str, Role] = {}


class Book(Entry, kw_only=True):
    version: Literal[1] = 1
    policies: dict[str, Document] = {}
    accounts: dict[str, Account] = {}

    def account(self, number: str) -> Account:
        """The account, made if it is not there."""
        return self.accounts.setdefault(number, Account())


class Keyed(NamedTuple):
    """A key and whose it is; the name is None for the root of the account."""

    key: AccessKey
    account: str
    name: str | None


def all_keys(book: Book) -> Iterator[Keyed]:
    for number, account in book.accounts.items():
        for key in account.keys:
            yield Keyed(key, number, None)
        for name, user in account.users.items():
            for key in user.keys:
                yield Keyed(key, number, name)


def root_arn(account: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:root"


def user_arn(account: str, name: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:user/{name}"


def role_arn(account: str, name: str) -> str:
    return f"arn:{PARTITION}:iam::{account}:role/{name}"


def unique_id(holder: Holder, arn: str) -> str:
    """As AWS shapes them: AIDA for a user, AROA for a role, and 17 characters."""
    if holder.id:
        return holder.id
    prefix = "AROA" if isinstance(holder, Role) else "AIDA"
    return prefix + base64.b32encode(hashlib.sha256(arn.encode()).digest())[:17].decode()
