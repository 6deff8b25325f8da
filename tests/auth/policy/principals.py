"""The principals of these tests. Queues belong to account OWN; OTHER is another account."""

from __future__ import annotations

from typing import Any

from penstock.auth.principal import ANONYMOUS, Principal
from penstock.services.sqs import ACTIONS

OWN = "444455556666"
OTHER = "111122223333"
REGION = "us-east-2"
BEGAN_S = 1767225600  # when sessions began: the first second of 2026


def queue(name: str) -> str:
    return name if name.startswith("arn:") else f"arn:aws:sqs:{REGION}:{OWN}:{name}"


def root(account: str) -> Principal:
    return Principal(kind="root", account=account, arn=f"arn:aws:iam::{account}:root", id=account)


def user(account: str, name: str, path: str = "", **tags: str) -> Principal:
    return Principal(
        kind="user",
        account=account,
        arn=f"arn:aws:iam::{account}:user/{path}{name}",
        id=f"AIDA{name.upper()}",
        name=name,
        tags=tags,
    )


def session(account: str, role: str, name: str, **tags: str) -> Principal:
    return Principal(
        kind="session",
        account=account,
        arn=f"arn:aws:sts::{account}:assumed-role/{role}/{name}",
        id=f"AROA{role.upper()}:{name}",
        role_arn=f"arn:aws:iam::{account}:role/{role}",
        tags=tags,
        issued_s=BEGAN_S,
    )


CALLERS: dict[str, Principal] = {
    "anonymous": ANONYMOUS,
    "root": root(OWN),
    "alice": user(OWN, "alice", team="red", Grade="5"),
    "bob": user(OWN, "bob", path="ops/"),
    "worker": session(OWN, "worker", "w1", team="red"),
    "worker-2": session(OWN, "worker", "w2"),
    "other-root": root(OTHER),
    "username1": user(OTHER, "username1", team="blue"),
    "carol": user(OTHER, "carol"),
    "role1": session(OTHER, "role1", "s1"),
}


def action_facts(action: str) -> dict[str, Any]:
    """The members of a Question that the row of an SQS action gives: ``action_facts("sqs:SendMessageBatch")``."""
    rows = {f"sqs:{name}".lower(): row for name, row in ACTIONS.items()}
    row = rows.get(action.lower())
    if row is None:
        return {"action": action}
    return {"action": row.permission, "grantable": row.grantable, "root_always": row.root_always}
