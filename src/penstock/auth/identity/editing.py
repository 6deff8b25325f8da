"""Changes to what the credentials file says, as the commands make them. All raise CredentialsError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.identity.access_keys import TEMPORARY, Pair, new_id, new_pair, sealed_key
from penstock.auth.identity.book import (
    KEY_ID,
    KEYS_MAX,
    ROOT,
    AccessKey,
    Account,
    Book,
    CredentialsError,
    Holder,
    Role,
    User,
    role_arn,
    root_arn,
    user_arn,
)
from penstock.auth.identity.managed import MANAGED
from penstock.auth.identity.principals import named_policy
from penstock.auth.identity.toml import check_name


class Found(NamedTuple):
    account: str
    name: str
    owner: Account | User | Role

    @property
    def arn(self) -> str:
        match self.owner:
            case Account():
                return root_arn(self.account)
            case User():
                return user_arn(self.account, self.name)
        return role_arn(self.account, self.name)

    @property
    def holder(self) -> Holder:
        """Root needs no policy, and none would stop it."""
        if isinstance(self.owner, Account):
            raise CredentialsError("the root of an account has no policies: it may do everything in it")
        return self.owner

    @property
    def keys(self) -> list[AccessKey]:
        assert not isinstance(self.owner, Role)
        return self.owner.keys


# -- finding -------------------------------------------------------------------------------------------------


def find_user(book: Book, name: str, account: str | None) -> Found:
    found: list[Found] = []
    for number in _accounts(book, account):
        held = book.accounts[number]
        if name == ROOT and held.keys:
            found.append(Found(number, name, held))
        elif name in held.users:
            found.append(Found(number, name, held.users[name]))
    return _only(found, "user", name)


def find_role(book: Book, name: str, account: str | None) -> Found:
    found = [
        Found(number, name, book.accounts[number].roles[name])
        for number in _accounts(book, account)
        if name in book.accounts[number].roles
    ]
    return _only(found, "role", name)


def _accounts(book: Book, account: str | None) -> list[str]:
    return [number for number in book.accounts if account in (None, number)]


def _only(found: list[Found], word: str, name: str) -> Found:
    if not found:
        raise CredentialsError(f'there is no {word} "{name}": penstock {word} list shows who there is')
    if len(found) > 1:
        accounts = ", ".join(each.account for each in found)
        raise CredentialsError(f'{word} "{name}" is in the accounts {accounts}: say which with --account')
    return found[0]


# -- users and roles -----------------------------------------------------------------------------------------


def add_user(book: Book, account: str, name: str, now: datetime) -> Found:
    held = book.account(account)
    if name == ROOT:
        if held.keys:
            raise CredentialsError(
                f"the root of account {account} has a key: penstock user rotate makes another"
            )
        return Found(account, name, held)
    _check_new(name, held.users, "user", account)
    held.users[name] = User(id=new_id("AIDA", 21), created=now)
    return Found(account, name, held.users[name])


def add_role(book: Book, account: str, name: str, trust: str, max_session_s: int, now: datetime) -> Found:
    held = book.account(account)
    _check_new(name, held.roles, "role", account)
    role = Role(id=new_id("AROA", 21), created=now, trust=trust, max_session=max_session_s)
    held.roles[name] = role
    return Found(account, name, role)


def _check_new(name: str, there: Mapping[str, Holder], word: str, account: str) -> None:
    check_name(name, word)
    if name in there:
        raise CredentialsError(f'{word} "{name}" is there already in account {account}')


def remove(book: Book, found: Found) -> None:
    account = book.accounts[found.account]
    match found.owner:
        case Account():
            account.keys = []
        case User():
            del account.users[found.name]
        case Role():
            del account.roles[found.name]
    if not (account.keys or account.users or account.roles):
        del book.accounts[found.account]


def trust_document(
    principals: Sequence[str], account: str, external_id: str | None, *, allow_tags: bool = False
) -> str:
    """A trust policy for ARNs, accounts (twelve digits), and users of the role's own account by name.

    Tags of a session replace those of the role: whoever may give them chooses what policies see. So it must be said.
    """
    trusted = [_trusted(each, account) for each in principals]
    statement: dict[str, object] = {
        "Effect": "Allow",
        "Principal": {"AWS": trusted},
        "Action": ["sts:AssumeRole", "sts:TagSession"] if allow_tags else "sts:AssumeRole",
    }
    if external_id is not None:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": external_id}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


def _trusted(principal: str, account: str) -> str:
    if principal.startswith("arn:") or principal == "*":
        return principal
    if principal.isdecimal() and len(principal) == 12:
        return root_arn(principal)
    return root_arn(account) if principal == ROOT else user_arn(account, principal)


# -- keys ----------------------------------------------------------------------------------------------------


def add_key(found: Found, root_key: RootKey, now: datetime, pair: Pair | None = None) -> Pair:
    """A new key, or one that clients already have. Nobody will see its secret again without the root key.

    A key that is taken over may have been here before: sessions that were made with it then do not come back.
    """
    if len(found.keys) >= KEYS_MAX:
        ids = " and ".join(key.id for key in found.keys)
        raise CredentialsError(
            f'"{found.name}" has two keys, {ids}: first retire one with --finish or --retire'
        )
    made = pair or new_pair()
    key = sealed_key(root_key, made, now)
    if pair is not None:
        key.end_sessions(now)
    found.keys.append(key)
    return made


def taken_over(key_id: str, secret: str) -> Pair:
    """A key that clients already have."""
    if not re.fullmatch(KEY_ID, key_id):
        raise CredentialsError(f'"{key_id}" is no access key: it has letters and digits, 4 to 128')
    if key_id.startswith(TEMPORARY):
        raise CredentialsError(f"{key_id} is a key of a session: those are not kept in the file")
    if not secret:
        raise CredentialsError("no secret was given on standard input")
    if any(character.isspace() for character in secret):
        raise CredentialsError("a secret has no spaces")
    if not secret.isprintable():  # `penstock env` prints it, for shells to run
        raise CredentialsError("a secret has no control characters, nor any that cannot be printed")
    return Pair(key_id, secret)


def find_key(found: Found, key_id: str) -> AccessKey:
    for key in found.keys:
        if key.id == key_id:
            return key
    raise CredentialsError(f'"{found.name}" has no key {key_id}')


def retire_older_keys(found: Found) -> list[str]:
    """Only the newest key stays. Gives the ids of those that are gone."""
    if len(found.keys) < 2:
        raise CredentialsError(f'"{found.name}" has no older key to retire')
    *older, newest = found.keys
    if not newest.active:
        raise CredentialsError(
            f"the newest key, {newest.id}, is inactive: activate it first, or use --retire"
        )
    found.keys[:] = [newest]
    return [key.id for key in older]


# -- policies ------------------------------------------------------------------------------------------------


def put_policy(book: Book, name: str, text: str) -> None:
    check_name(name, "policy")
    if name in MANAGED:
        raise CredentialsError(f'"{name}" is the name of a built-in policy: choose another')
    book.policies[name] = text


def attach(book: Book, found: Found, policy: str) -> None:
    holder = found.holder
    named_policy(book, policy)
    if policy not in holder.policies:
        holder.policies.append(policy)


def detach(found: Found, policy: str) -> None:
    holder = found.holder
    if policy in holder.policies:
        holder.policies.remove(policy)
    elif policy in holder.inline:
        del holder.inline[policy]
    else:
        raise CredentialsError(f'policy "{policy}" is not attached to "{found.name}"')


def attached_to(book: Book, policy: str) -> list[str]:
    return [
        name
        for account in book.accounts.values()
        for name, holder in (*account.users.items(), *account.roles.items())
        if policy in holder.policies
    ]


def remove_policy(book: Book, name: str) -> None:
    if name not in book.policies:
        raise CredentialsError(f'there is no policy "{name}" of your own')
    holders = attached_to(book, name)
    if holders:
        raise CredentialsError(f'policy "{name}" is attached to {", ".join(holders)}: detach it first')
    del book.policies[name]
