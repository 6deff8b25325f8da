"""The Principal element of a statement: whether it names the caller, and how directly.

IAM: a statement that names only an account leaves the decision to that account's own policies; one that names a role,
or everyone, is limited by the session's policy; one that names the user or the very session is not.

An account is the same in all regions, whose ARNs have different partitions. So the partition of a name is not
compared: the policy of a queue in China may name ``arn:aws-cn:iam::…``, that of another queue ``arn:aws:iam::…``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum

from penstock.auth.policy.document import Listed, PrincipalInvalid
from penstock.auth.principal import Principal
from penstock.names import is_account, without_partition


class MatchLevel(IntEnum):
    """How directly a statement names the caller."""

    NONE = 0
    ACCOUNT = 1
    BOUNDED = 2
    DIRECT = 3


NONE, ACCOUNT, BOUNDED, DIRECT = MatchLevel

LevelOf = Callable[[Principal], MatchLevel]

_ROOT = re.compile(r"iam::(\d{12}):root", re.ASCII)
_ARN = re.compile(
    r"arn:[a-z0-9-]+:(iam::\d{12}:(root|(user|role)/[^*?]+)|sts::\d{12}:(assumed-role/[^*?/]+/|federated-user/)[^*?/]+)",
    re.ASCII,
)


def compile_principals(listed: Listed, services: tuple[str, ...]) -> LevelOf:
    names = frozenset(listed.values) - {"*"}
    for name in names:
        if not is_account(name) and not _ARN.fullmatch(name):
            raise PrincipalInvalid(f"{name} is neither an account nor the ARN of a user, role or session")
    names = frozenset(map(without_partition, names))
    accounts = frozenset(filter(is_account, names)) | {
        root[1] for name in names if (root := _ROOT.fullmatch(name))
    }
    everyone = "*" in listed.values
    make = _all_but if listed.negated else _these
    return make(everyone, names, accounts, frozenset(services))


def _these(
    everyone: bool, names: frozenset[str], accounts: frozenset[str], services: frozenset[str]
) -> LevelOf:
    def level_of(principal: Principal) -> MatchLevel:
        if without_partition(principal.arn) in names or (
            principal.kind == "service" and principal.id in services
        ):
            return DIRECT
        if everyone or without_partition(principal.role_arn or "") in names:
            return BOUNDED
        if principal.account in accounts:
            return DIRECT if principal.kind == "root" else ACCOUNT
        return NONE

    return level_of


def _all_but(
    everyone: bool, names: frozenset[str], accounts: frozenset[str], services: frozenset[str]
) -> LevelOf:
    """IAM: a session is excepted only if its account, its role and the session itself are all named."""

    def level_of(principal: Principal) -> MatchLevel:
        if everyone:
            return NONE
        if principal.kind == "service":
            return NONE if principal.id in services else DIRECT
        is_excepted = (
            principal.account in accounts
            and (principal.kind == "root" or without_partition(principal.arn) in names)
            and (principal.role_arn is None or without_partition(principal.role_arn) in names)
        )
        return NONE if is_excepted else DIRECT

    return level_of
