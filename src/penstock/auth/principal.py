"""Who calls: the account's root, a user, a session, a service of this server, or an anonymous caller.

A session of GetSessionToken has the ARN and name of the user it was created for; that of root stays
``root``. A session of AssumeRole has an ARN of its own, and ``role_arn`` names the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:  # policies import principals
    from penstock.auth.policy import Policy

_NO_TAGS: Mapping[str, str] = MappingProxyType({})


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["anonymous", "root", "user", "session", "service"]
    account: str  # "" for an anonymous caller and for a service
    arn: str  # arn:aws:iam::A:root, arn:aws:iam::A:user/N, arn:aws:sts::A:assumed-role/R/S; "*" if anonymous
    id: str  # aws:userid: AIDA..., AROA...:session-name, root's is the account
    name: str | None = None  # aws:username: of users, and of their sessions of GetSessionToken
    role_arn: str | None = None
    tags: Mapping[str, str] = _NO_TAGS
    policies: tuple[Policy, ...] = ()  # of the user or role
    session_policy: Policy | None = None  # the Policy of AssumeRole
    access_key: str = ""
    issued_s: float | None = None  # when its session began; None without one


def service_principal(name: str) -> Principal:
    """The principal ``{"Service": name}`` of policies, such as sns.amazonaws.com."""
    return Principal(kind="service", account="", arn=name, id=name)


ANONYMOUS = Principal(kind="anonymous", account="", arn="*", id="anonymous")
