"""Who calls: the account's root, a user, a session, a service of this server, or an anonymous caller.

A session that was made with GetSessionToken goes on as whoever asked for it: it has that ARN and name.
Root's stays ``root``. A session that was made with AssumeRole has an ARN of its own, and ``role_arn`` names
the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:  # a policy asks about principals: the import at run time goes that way only
    from penstock.auth.policy import Policy

_NO_TAGS: Mapping[str, str] = MappingProxyType({})


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["anonymous", "root", "user", "session", "service"]
    account: str  # "" for an anonymous caller and for a service
    arn: str  # arn:aws:iam::A:root, arn:aws:iam::A:user/N, arn:aws:sts::A:assumed-role/R/S; "*" if anonymous
    id: str  # aws:userid: AIDA..., AROA...:session-name, root's is the account
    name: str | None = None  # aws:username: users, and what GetSessionToken gave them
    role_arn: str | None = None
    tags: Mapping[str, str] = _NO_TAGS
    policies: tuple[Policy, ...] = ()  # of the identity: all are asked
    session_policy: Policy | None = None  # what AssumeRole narrowed the session to
    access_key: str = ""
    issued_s: float | None = None  # when its session began; None without one


def service_principal(name: str) -> Principal:
    """The principal ``{"Service": name}`` of policies, such as sns.amazonaws.com."""
    return Principal(kind="service", account="", arn=name, id=name)


ANONYMOUS = Principal(kind="anonymous", account="", arn="*", id="anonymous")
