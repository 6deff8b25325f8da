"""Makes principals from the tables of the credentials file, with compiled policies and the tags of their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.auth.identity.model import (
    AccessKey,
    Account,
    CredentialsContent,
    CredentialsError,
    PolicyDocument,
    PolicyHolder,
    Role,
    User,
    role_arn,
    root_arn,
    unique_id,
    user_arn,
)
from penstock.auth.identity.sessions import Chain, Hop, OwnerKind, Session, extended
from penstock.auth.policy import Kind, Policy, PolicyInvalid, compile_policy
from penstock.auth.policy.vocabulary import builtin_policies
from penstock.auth.principal import Principal
from penstock.names import PARTITION, in_partition


class SessionPrincipal(Principal, frozen=True, kw_only=True):
    """A caller with temporary credentials; holds what the next session in a chain inherits."""

    parent_key: str
    parent_id: str
    chain: Chain  # this session and those before it
    transitive: tuple[str, ...] = ()


def document_text(document: PolicyDocument) -> str:
    return document if isinstance(document, str) else msgspec.json.encode(document).decode()


def named_policy(content: CredentialsContent, name: str) -> PolicyDocument:
    """Raises CredentialsError."""
    found = content.policies.get(name) or builtin_policies().get(name)
    if found is None:
        raise CredentialsError(f'there is no policy "{name}": see penstock policy ls')
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
    def __init__(self, content: CredentialsContent, partition: str = PARTITION) -> None:
        """``partition``: of the ARNs. Ids do not depend on it. Raises CredentialsError for an unknown policy name or
        an invalid policy."""
        self._content = content
        self._in_partition = partial(in_partition, partition)
        self.warnings: dict[str, None] = {}  # about policies that are probably mistaken, each line once
        for name, document in content.policies.items():
            if name in builtin_policies():
                raise CredentialsError(f'policy "{name}" has the name of a built-in one')
            self._compiled(document, name)
        for account in content.accounts.values():
            for holder in (*account.users.values(), *account.roles.values()):
                self.policies(holder)

    def root(self, account: str, access_key: str) -> Principal:
        return Principal(
            kind="root",
            account=account,
            arn=self._in_partition(root_arn(account)),
            id=account,
            access_key=access_key,
        )

    def user(self, account: str, name: str, access_key: str) -> Principal:
        user, arn = self._content.accounts[account].users[name], user_arn(account, name)
        return Principal(
            kind="user", account=account, arn=self._in_partition(arn), id=unique_id(user, arn), name=name,
            tags=user.tags,
            policies=self.policies(user), access_key=access_key,
        )  # fmt: skip

    def roles(self) -> Iterator[KnownRole]:
        for number, account in self._content.accounts.items():
            for name, role in account.roles.items():
                arn = role_arn(number, name)
                trust = self._compiled(role.trust, name, "trust")
                named = number, name, self._in_partition(arn), unique_id(role, arn)
                yield KnownRole(*named, role.max_session, role.tags, trust)

    def policies(self, holder: PolicyHolder) -> tuple[Policy, ...]:
        named = [(name, named_policy(self._content, name)) for name in holder.policies]
        return tuple(self._compiled(document, name) for name, document in [*named, *holder.inline.items()])

    def is_valid(self, session: Session, key: AccessKey, parent: Principal) -> bool:
        """A session ends with anything it came from: its user or role, those of the sessions before it in a
        chain, and the long-term key. ``parent`` is the present owner of that key."""
        hops = (*session.chain, session.hop)
        began_s = min(hop.issued_s for hop in hops)
        began = Hop(
            "root" if parent.kind == "root" else "user",
            parent.account,
            parent.name or "",
            session.parent_id,
            began_s,
        )
        return not key.has_ended(began_s) and all(map(self._exists, (began, *hops)))

    def session(self, session: Session, access_key: str) -> SessionPrincipal:
        """The principal of a valid session."""
        match session.kind:
            case "role":
                return self._role_session(session, access_key)
            case "root":
                base = self.root(session.account, access_key)
            case "user":
                base = self.user(session.account, session.owner, access_key)
        return SessionPrincipal(
            **{**msgspec.structs.asdict(base), "issued_s": session.issued_s},
            parent_key=session.parent_key, parent_id=session.parent_id, chain=(session.hop,),
        )  # fmt: skip

    def _role_session(self, session: Session, access_key: str) -> SessionPrincipal:
        role = self._content.accounts[session.account].roles[session.owner]
        arn = self._in_partition(role_arn(session.account, session.owner))
        policy = None if session.policy is None else compile_policy(session.policy, kind="session")
        # AWS: a tag of the session replaces the role's own, whatever the case of its key.
        replaced = {key.lower() for key in session.tags}
        tags = {key: value for key, value in role.tags.items() if key.lower() not in replaced} | session.tags
        return SessionPrincipal(
            kind="session", account=session.account, arn=self._in_partition(assumed_role_arn(session)),
            id=f"{session.owner_id}:{session.name}", role_arn=arn, tags=tags,
            policies=self.policies(role), session_policy=policy, access_key=access_key,
            issued_s=session.issued_s, parent_key=session.parent_key, parent_id=session.parent_id,
            chain=extended(session.chain, session.hop), transitive=session.transitive,
        )  # fmt: skip

    def _compiled(self, document: PolicyDocument, name: str, kind: Kind = "identity") -> Policy:
        try:
            policy = compile_policy(document_text(document), kind=kind, name=name)
        except PolicyInvalid as error:
            raise CredentialsError(f"{_called(kind, name)}: {error}") from None
        if policy.unknown_keys:
            self.warnings[unknown_keys_warning(policy)] = None
        return policy

    def _exists(self, hop: Hop) -> bool:
        """Whether the owner of this session exists, is still the same one, and did not end the session."""
        owner = self._owner(hop.kind, hop.account, hop.owner)
        if owner is None or owner.has_ended(hop.issued_s):
            return False
        match owner:
            case Account():
                return hop.owner_id == hop.account
            case User():
                return hop.owner_id == unique_id(owner, user_arn(hop.account, hop.owner))
            case Role():
                return hop.owner_id == unique_id(owner, role_arn(hop.account, hop.owner))

    def _owner(self, kind: OwnerKind, account: str, name: str) -> Account | User | Role | None:
        entry = self._content.accounts.get(account)
        if entry is None or kind == "root":
            return entry
        return entry.roles.get(name) if kind == "role" else entry.users.get(name)


def check_content(content: CredentialsContent) -> None:
    """Raises CredentialsError for what a server would refuse, except for the secrets."""
    for _ in Principals(content).roles():
        pass


def assumed_role_arn(session: Session) -> str:
    return f"arn:{PARTITION}:sts::{session.account}:assumed-role/{session.owner}/{session.name}"


def unknown_keys_warning(policy: Policy) -> str:
    keys = " and ".join(policy.unknown_keys)
    return f"{_called(policy.kind, policy.name)} has conditions on {keys}, which no request has here: never present"


def _called(kind: Kind, name: str) -> str:
    names: dict[Kind, str] = {
        "trust": f'the trust policy of role "{name}"',
        "resource": "the policy of the queue",
    }
    return names.get(kind, f'policy "{name}"')
