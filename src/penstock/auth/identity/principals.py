"""From the tables of the file to principals: their policies compiled, their sessions' names and tags in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from penstock.auth.identity.book import (
    Book,
    CredentialsError,
    Document,
    Holder,
    Owner,
    role_arn,
    root_arn,
    unique_id,
    user_arn,
)
from penstock.auth.identity.managed import MANAGED
from penstock.auth.identity.sessions import Session
from penstock.auth.policy import Kind, Policy, PolicyInvalid, compile_policy
from penstock.auth.principal import Principal
from penstock.names import PARTITION


class SessionPrincipal(Principal, frozen=True, kw_only=True):
    """Whoever calls with temporary credentials; what the next session in a chain has to know about this one."""

    parent_key: str
    chained: bool  # it is a role's: AWS keeps what follows from it to an hour
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
        for name, document in book.policies.items():
            if name in MANAGED:
                raise CredentialsError(f'policy "{name}" has the name of a built-in one')
            _compiled(document, name)
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
                trust = _compiled(role.trust, name, "trust")
                yield KnownRole(number, name, arn, unique_id(role, arn), role.max_session, role.tags, trust)

    def policies(self, holder: Holder) -> tuple[Policy, ...]:
        named = [(name, named_policy(self._book, name)) for name in holder.policies]
        return tuple(_compiled(document, name) for name, document in [*named, *holder.inline.items()])

    def session(self, session: Session, access_key: str, parent: Principal) -> SessionPrincipal | None:
        """None if whoever it belongs to is gone, or if they or whoever began it ended their sessions."""
        owner = self._owner(session.kind, session.account, session.owner)
        began_by = self._owner(parent.kind, parent.account, parent.name or "")
        if owner is None or began_by is None or _ended(owner, session) or _ended(began_by, session):
            return None
        if session.kind == "role":
            return self._role_session(session, access_key)
        whole = (
            self.root(session.account, access_key)
            if session.kind == "root"
            else self.user(session.account, session.owner, access_key)
        )
        if whole.id != session.owner_id:
            return None
        return SessionPrincipal(**msgspec.structs.asdict(whole), parent_key=session.parent_key, chained=False)

    def _role_session(self, session: Session, access_key: str) -> SessionPrincipal | None:
        role = self._book.accounts[session.account].roles[session.owner]
        arn = role_arn(session.account, session.owner)
        if unique_id(role, arn) != session.owner_id:
            return None
        policy = None if session.policy is None else compile_policy(session.policy, kind="session")
        # AWS: a tag of the session replaces the role's own, whatever the case of its key.
        replaced = {key.lower() for key in session.tags}
        tags = {key: value for key, value in role.tags.items() if key.lower() not in replaced} | session.tags
        return SessionPrincipal(
            kind="session", account=session.account, arn=assumed_role_arn(session),
            id=f"{session.owner_id}:{session.name}", role_arn=arn, tags=tags,
            policies=self.policies(role), session_policy=policy, access_key=access_key,
            parent_key=session.parent_key, chained=True, transitive=session.transitive,
        )  # fmt: skip

    def _owner(self, kind: str, account: str, name: str) -> Owner | None:
        held = self._book.accounts.get(account)
        if held is None or kind == "root":
            return held
        return (held.roles if kind == "role" else held.users).get(name)


def check_book(book: Book) -> None:
    """Raises CredentialsError for whatever a server would refuse, but for the secrets."""
    for _ in Principals(book).roles():
        pass


def assumed_role_arn(session: Session) -> str:
    return f"arn:{PARTITION}:sts::{session.account}:assumed-role/{session.owner}/{session.name}"


def _ended(owner: Owner, session: Session) -> bool:
    return owner.sessions_since is not None and session.issued_s < owner.sessions_since.timestamp()


def _compiled(document: Document, name: str, kind: Kind = "identity") -> Policy:
    try:
        return compile_policy(document_text(document), kind=kind, name=name)
    except PolicyInvalid as error:
        where = f'the trust policy of role "{name}"' if kind == "trust" else f'policy "{name}"'
        raise CredentialsError(f"{where}: {error}") from None
