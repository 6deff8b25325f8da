"""From the tables of the file to principals: their policies compiled, their sessions' names and tags in place.

Rule 1: a session goes on as long as everything it came from: its own user or role, those of the sessions before it in
a chain, and the key that it all began with. If one of them is gone, is somebody else by now, or ended its sessions,
it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from penstock.auth.identity.book import (
    AccessKey,
    Account,
    Book,
    CredentialsError,
    Document,
    Holder,
    Role,
    User,
    role_arn,
    root_arn,
    unique_id,
    user_arn,
)
from penstock.auth.identity.managed import MANAGED
from penstock.auth.identity.sessions import Chain, Hop, OwnerKind, Session, extended
from penstock.auth.policy import Kind, Policy, PolicyInvalid, compile_policy
from penstock.auth.principal import Principal
from penstock.names import PARTITION


class SessionPrincipal(Principal, frozen=True, kw_only=True):
    """Whoever calls with temporary credentials; what the next session in a chain has to know about this one."""

    parent_key: str
    parent_id: str
    chain: Chain  # this session and those before it
    transitive: tuple[str, ...] = ()


def document_text(document: Document) -> str:
    return document if isinstance(document, str) else msgspec.json.encode(document).decode()


def named_policy(book: Book, name: str) -> Document:
    """Raises CredentialsError."""
    found = book.policies.get(name) or MANAGED.get(name)
    if found is None:
        raise CredentialsError(f'there is no policy "{name}": penstock policy list shows what there is')
    return found


class KnownRole(NamedTuple):
    account: str
    name: str
    arn: str
    id: str
    max_session_s: int
    tags: Mapping[str, str]
    trust: Policy


class Principals:
    def __init__(self, book: Book) -> None:
        """Raises CredentialsError where the book names what is not there, or holds a policy that is none."""
        self._book = book
        self.oddities: dict[str, None] = {}  # what policies say that can hardly be meant, each line once
        for name, document in book.policies.items():
            if name in MANAGED:
                raise CredentialsError(f'policy "{name}" has the name of a built-in one')
            self._compiled(document, name)
        for account in book.accounts.values():
            for holder in (*account.users.values(), *account.roles.values()):
                self.policies(holder)

    def root(self, account: str, access_key: str) -> Principal:
        return Principal(
            kind="root", account=account, arn=root_arn(account), id=account, access_key=access_key
        )

    def user(self, account: str, name: str, access_key: str) -> Principal:
        user, arn = self._book.accounts[account].users[name], user_arn(account, name)
        return Principal(
            kind="user", account=account, arn=arn, id=unique_id(user, arn), name=name, tags=user.tags,
            policies=self.policies(user), access_key=access_key,
        )  # fmt: skip

    def roles(self) -> Iterator[KnownRole]:
        for number, account in self._book.accounts.items():
            for name, role in account.roles.items():
                arn = role_arn(number, name)
                trust = self._compiled(role.trust, name, "trust")
                yield KnownRole(number, name, arn, unique_id(role, arn), role.max_session, role.tags, trust)

    def policies(self, holder: Holder) -> tuple[Policy, ...]:
        named = [(name, named_policy(self._book, name)) for name in holder.policies]
        return tuple(self._compiled(document, name) for name, document in [*named, *holder.inline.items()])

    def goes_on(self, session: Session, key: AccessKey, parent: Principal) -> bool:
        """Rule 1. ``parent`` is whose key it is today."""
        hops = (*session.chain, session.hop)
        began_s = min(hop.issued_s for hop in hops)
        began = Hop(
            "root" if parent.kind == "root" else "user",
            parent.account,
            parent.name or "",
            session.parent_id,
            began_s,
        )
        return not key.ended(began_s) and all(map(self._stands, (began, *hops)))

    def session(self, session: Session, access_key: str) -> SessionPrincipal:
        """Of a session that goes on."""
        match session.kind:
            case "role":
                return self._role_session(session, access_key)
            case "root":
                whole = self.root(session.account, access_key)
            case "user":
                whole = self.user(session.account, session.owner, access_key)
        return SessionPrincipal(
            **{**msgspec.structs.asdict(whole), "issued_s": session.issued_s},
            parent_key=session.parent_key, parent_id=session.parent_id, chain=(session.hop,),
        )  # fmt: skip

    def _role_session(self, session: Session, access_key: str) -> SessionPrincipal:
        role = self._book.accounts[session.account].roles[session.owner]
        arn = role_arn(session.account, session.owner)
        policy = None if session.policy is None else compile_policy(session.policy, kind="session")
        # AWS: a tag of the session replaces the role's own, whatever the case of its key.
        replaced = {key.lower() for key in session.tags}
        tags = {key: value for key, value in role.tags.items() if key.lower() not in replaced} | session.tags
        return SessionPrincipal(
            kind="session", account=session.account, arn=assumed_role_arn(session),
            id=f"{session.owner_id}:{session.name}", role_arn=arn, tags=tags,
            policies=self.policies(role), session_policy=policy, access_key=access_key,
            issued_s=session.issued_s, parent_key=session.parent_key, parent_id=session.parent_id,
            chain=extended(session.chain, session.hop), transitive=session.transitive,
        )  # fmt: skip

    def _compiled(self, document: Document, name: str, kind: Kind = "identity") -> Policy:
        try:
            policy = compile_policy(document_text(document), kind=kind, name=name)
        except PolicyInvalid as error:
            raise CredentialsError(f"{_called(kind, name)}: {error}") from None
        if policy.unknown_keys:
            self.oddities[oddity(policy)] = None
        return policy

    def _stands(self, hop: Hop) -> bool:
        """Whoever had this session is there, is still the same, and did not end it."""
        owner = self._owner(hop.kind, hop.account, hop.owner)
        if owner is None or owner.ended(hop.issued_s):
            return False
        match owner:
            case Account():
                return hop.owner_id == hop.account
            case User():
                return hop.owner_id == unique_id(owner, user_arn(hop.account, hop.owner))
            case Role():
                return hop.owner_id == unique_id(owner, role_arn(hop.account, hop.owner))

    def _owner(self, kind: OwnerKind, account: str, name: str) -> Account | User | Role | None:
        held = self._book.accounts.get(account)
        if held is None or kind == "root":
            return held
        return held.roles.get(name) if kind == "role" else held.users.get(name)


def check_book(book: Book) -> None:
    """Raises CredentialsError for whatever a server would refuse, but for the secrets."""
    for _ in Principals(book).roles():
        pass


def assumed_role_arn(session: Session) -> str:
    return f"arn:{PARTITION}:sts::{session.account}:assumed-role/{session.owner}/{session.name}"


def oddity(policy: Policy) -> str:
    """Of a policy with unknown keys, for the operator."""
    keys = " and ".join(policy.unknown_keys)
    return f"{_called(policy.kind, policy.name)} looks at {keys}, which no request here has: it counts as missing"


def _called(kind: Kind, name: str) -> str:
    names: dict[Kind, str] = {
        "trust": f'the trust policy of role "{name}"',
        "resource": "the policy of the queue",
    }
    return names.get(kind, f'policy "{name}"')
