"""The Principal of a statement: whether it means the caller, and how closely.

How closely matters to IAM: a statement that names an account only lets that account's own policies decide; one that
names a role, or everyone, is bounded by the session's policy; one that names the user or the very session is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.auth.policy.document import Listed, PolicyInvalid
from penstock.auth.principal import Principal
from penstock.names import PARTITION, is_account

NOBODY, ACCOUNT, BOUNDED, DIRECT = range(4)
Means = Callable[[Principal], int]

_ROOT = re.compile(rf"arn:{PARTITION}:iam::(\d{{12}}):root", re.ASCII)
_ARN = re.compile(
    r"arn:[a-z0-9-]+:(iam::\d{12}:(root|(user|role)/[^*?]+)|sts::\d{12}:(assumed-role/[^*?/]+/|federated-user/)[^*?/]+)",
    re.ASCII,
)


def compile_principals(listed: Listed) -> Means:
    names = frozenset(listed.values) - {"*"}
    for name in names:
        if not is_account(name) and not _ARN.fullmatch(name):
            raise PolicyInvalid(f"{name} is no account, and no ARN of a user, role or session")
    accounts = frozenset(filter(is_account, names)) | {
        root[1] for name in names if (root := _ROOT.fullmatch(name))
    }
    everyone = "*" in listed.values
    return _all_but(everyone, names, accounts) if listed.negated else _these(everyone, names, accounts)


def _these(everyone: bool, names: frozenset[str], accounts: frozenset[str]) -> Means:
    def means(principal: Principal) -> int:
        if principal.arn in names:
            return DIRECT
        if everyone or principal.role_arn in names:
            return BOUNDED
        if principal.account in accounts:
            return DIRECT if principal.kind == "root" else ACCOUNT
        return NOBODY

    return means


def _all_but(everyone: bool, names: frozenset[str], accounts: frozenset[str]) -> Means:
    """IAM looks at the account, then the role, then the session: to be spared, all of them must be named."""

    def means(principal: Principal) -> int:
        if everyone:
            return NOBODY
        is_spared = (
            principal.account in accounts
            and (principal.kind == "root" or principal.arn in names)
            and (principal.role_arn is None or principal.role_arn in names)
        )
        return NOBODY if is_spared else DIRECT

    return means
