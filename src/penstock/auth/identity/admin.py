"""Changes to the content of the credentials file, for the commands. All raise CredentialsError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.identity.access_keys import TEMPORARY, Pair, encrypted_key, new_id, new_pair
from penstock.auth.identity.file import check_name
from penstock.auth.identity.model import (
    KEY_ID,
    KEYS_MAX,
    ROOT,
    AccessKey,
    Account,
    CredentialsContent,
    CredentialsError,
    PolicyHolder,
    Role,
    User,
    role_arn,
    root_arn,
    user_arn,
)
from penstock.auth.identity.principals import named_policy
from penstock.auth.policy.vocabulary import builtin_policies


class Subject(NamedTuple):
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
    def holder(self) -> PolicyHolder:
        """The user or role that has the policies. Raises CredentialsError for root, which has none."""
        if isinstance(self.owner, Account):
            raise CredentialsError("the root of an account has no policies: it may do everything in it")
        return self.owner

    @property
    def keys(self) -> list[AccessKey]:
        assert not isinstance(self.owner, Role)
        return self.owner.keys


# -- finding -------------------------------------------------------------------------------------------------


def find_user(content: CredentialsContent, name: str, account: str | None) -> Subject:
    found: list[Subject] = []
    for number in _accounts(content, account):
        entry = content.accounts[number]
        if name == ROOT and entry.keys:
            found.append(Subject(number, name, entry))
        elif name in entry.users:
            found.append(Subject(number, name, entry.users[name]))
    return _only(found, "user", name)


def find_role(content: CredentialsContent, name: str, account: str | None) -> Subject:
    found = [
        Subject(number, name, content.accounts[number].roles[name])
        for number in _accounts(content, account)
        if name in content.accounts[number].roles
    ]
    return _only(found, "role", name)


def _accounts(content: CredentialsContent, account: str | None) -> list[str]:
    return [number for number in content.accounts if account in (None, number)]


def _only(found: list[Subject], word: str, name: str) -> Subject:
    if not found:
        raise CredentialsError(f'there is no {word} "{name}": see penstock {word} ls')
    if len(found) > 1:
        accounts = ", ".join(each.account for each in found)
        raise CredentialsError(f'{word} "{name}" is in the accounts {accounts}: choose one with --account')
    return found[0]


# -- users and roles -----------------------------------------------------------------------------------------


def add_user(content: CredentialsContent, account: str, name: str, now: datetime) -> Subject:
    entry = content.account(account)
    if name == ROOT:
        if entry.keys:
            raise CredentialsError(
                f"the root of account {account} has a key already: create another with penstock user rotate"
            )
        return Subject(account, name, entry)
    _check_new(name, entry.users, "user", account)
    entry.users[name] = User(id=new_id("AIDA", 21), created=now)
    return Subject(account, name, entry.users[name])


def add_role(
    content: CredentialsContent, account: str, name: str, trust: str, max_session_s: int, now: datetime
) -> Subject:
    entry = content.account(account)
    _check_new(name, entry.roles, "role", account)
    role = Role(id=new_id("AROA", 21), created=now, trust=trust, max_session=max_session_s)
    entry.roles[name] = role
    return Subject(account, name, role)


def _check_new(name: str, there: Mapping[str, PolicyHolder], word: str, account: str) -> None:
    check_name(name, word)
    if name in there:
        raise CredentialsError(f'{word} "{name}" exists already in account {account}')


def remove(content: CredentialsContent, subject: Subject) -> None:
    account = content.accounts[subject.account]
    match subject.owner:
        case Account():
            account.keys = []
        case User():
            del account.users[subject.name]
        case Role():
            del account.roles[subject.name]
    if not (account.keys or account.users or account.roles):
        del content.accounts[subject.account]


def trust_document(
    principals: Sequence[str], account: str, external_id: str | None, *, allow_tags: bool = False
) -> str:
    """A trust policy for ARNs, accounts (twelve digits), and users of the role's own account by name.

    Tags of a session replace those of the role, and policies trust them: ``allow_tags`` must be given explicitly.
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


def add_key(subject: Subject, root_key: RootKey, now: datetime, pair: Pair | None = None) -> Pair:
    """Add a new key, or ``pair``, which clients already have.

    An imported key may have been here before: sessions that were created with it then stay ended.
    """
    if len(subject.keys) >= KEYS_MAX:
        ids = " and ".join(key.id for key in subject.keys)
        raise CredentialsError(
            f'"{subject.name}" has two keys, {ids}: first retire one with --finish or --retire'
        )
    made = pair or new_pair()
    key = encrypted_key(root_key, made, now)
    if pair is not None:
        key.end_sessions(now)
    subject.keys.append(key)
    return made


def imported_key(key_id: str, secret: str) -> Pair:
    """Check a key that clients already have."""
    if not re.fullmatch(KEY_ID, key_id):
        raise CredentialsError(f'invalid access key "{key_id}": expected 4 to 128 letters and digits')
    if key_id.startswith(TEMPORARY):
        raise CredentialsError(f"{key_id} is the key of a session: those are not stored in the file")
    if not secret:
        raise CredentialsError("no secret was given on standard input")
    if any(character.isspace() for character in secret):
        raise CredentialsError("invalid secret: expected no spaces")
    if not secret.isprintable():  # `penstock env` prints it, for shells to run
        raise CredentialsError("invalid secret: expected printable characters only")
    return Pair(key_id, secret)


def find_key(subject: Subject, key_id: str) -> AccessKey:
    for key in subject.keys:
        if key.id == key_id:
            return key
    raise CredentialsError(f'"{subject.name}" has no key {key_id}')


def retire_older_keys(subject: Subject) -> list[str]:
    """Remove all keys but the newest. Returns the ids of the removed ones."""
    if len(subject.keys) < 2:
        raise CredentialsError(f'"{subject.name}" has no older key to retire')
    *older, newest = subject.keys
    if not newest.active:
        raise CredentialsError(
            f"the newest key, {newest.id}, is inactive: activate it first, or use --retire"
        )
    subject.keys[:] = [newest]
    return [key.id for key in older]


# -- policies ------------------------------------------------------------------------------------------------


def put_policy(content: CredentialsContent, name: str, text: str) -> None:
    check_name(name, "policy")
    if name in builtin_policies():
        raise CredentialsError(f'"{name}" is the name of a built-in policy: choose another')
    content.policies[name] = text


def attach(content: CredentialsContent, subject: Subject, policy: str) -> None:
    holder = subject.holder
    named_policy(content, policy)
    if policy not in holder.policies:
        holder.policies.append(policy)


def detach(subject: Subject, policy: str) -> None:
    holder = subject.holder
    if policy in holder.policies:
        holder.policies.remove(policy)
    elif policy in holder.inline:
        del holder.inline[policy]
    else:
        raise CredentialsError(f'policy "{policy}" is not attached to "{subject.name}"')


def attached_to(content: CredentialsContent, policy: str) -> list[str]:
    return [
        name
        for account in content.accounts.values()
        for name, holder in (*account.users.items(), *account.roles.items())
        if policy in holder.policies
    ]


def remove_policy(content: CredentialsContent, name: str) -> None:
    if name not in content.policies:
        raise CredentialsError(f'there is no policy "{name}" in the file')
    holders = attached_to(content, name)
    if holders:
        raise CredentialsError(f'policy "{name}" is attached to {", ".join(holders)}: detach it first')
    del content.policies[name]
