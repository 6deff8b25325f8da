"""Policies of topics: which documents SNS accepts; AddPermission and RemovePermission, which edit one by labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.auth.policy import (
    PolicyInvalid,
    PrincipalInvalid,
    compile_policy,
    editable_document,
    read_document,
)
from penstock.names import is_account, partition_of
from penstock.services.sns.faults import AttributeInvalid
from penstock.services.sns.limits import POLICY_BYTES_MAX, POLICY_STATEMENTS_MAX
from penstock.services.sns.validation import utf8_length
from penstock.topics.names import TopicName
from penstock.topics.policy import POLICY_ACTIONS, default_policy

OUT_OF_SCOPE = "Policy statement action out of service scope!"
_INVALID = "Policy Error: null"
_NO_PRINCIPAL = "Policy Error: PrincipalNotFound"
_TOO_LARGE = (
    f"Policy Error: a policy has at most {POLICY_BYTES_MAX} bytes and {POLICY_STATEMENTS_MAX} statements"
)
_KNOWN_ACTIONS = frozenset(f"sns:{action}".lower() for action in POLICY_ACTIONS)


def checked_policy(text: str) -> str:
    """The policy as SNS stores it: without spaces, the order kept. Raises AttributeInvalid."""
    if utf8_length(text) > POLICY_BYTES_MAX:
        raise AttributeInvalid(_TOO_LARGE)
    try:
        document = read_document(text, "resource")
        compile_policy(text, kind="resource")
        compact = _written(editable_document(text))
    except PrincipalInvalid:
        raise AttributeInvalid(_NO_PRINCIPAL) from None
    except PolicyInvalid:
        raise AttributeInvalid(_INVALID) from None
    for statement in document.statements:
        # SNS: no action may have a wildcard, and so NotAction has no meaning.
        if statement.actions.negated or not _KNOWN_ACTIONS.issuperset(
            map(str.lower, statement.actions.values)
        ):
            raise AttributeInvalid(OUT_OF_SCOPE)
    if len(document.statements) > POLICY_STATEMENTS_MAX:
        raise AttributeInvalid(_TOO_LARGE)
    return compact


def with_permission(
    policy: str | None, topic: TopicName, label: str, accounts: Sequence[str], actions: Sequence[str]
) -> str:
    """Raises AttributeInvalid."""
    known = {action.lower(): action for action in POLICY_ACTIONS}
    if not actions or not all(action.lower() in known for action in actions):
        raise AttributeInvalid(OUT_OF_SCOPE)
    if not accounts or not all(map(is_account, accounts)):
        raise AttributeInvalid(_NO_PRINCIPAL)
    roots = [f"arn:{partition_of(topic.region)}:iam::{each}:root" for each in dict.fromkeys(accounts)]
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_list(roots)},
        "Action": _one_or_list([f"SNS:{known[action.lower()]}" for action in dict.fromkeys(actions)]),
        "Resource": topic.arn,
    }
    document = editable_document(policy or default_policy(topic))
    statements = _statements(document)
    for existing in statements:
        if existing == statement:  # SNS: the same call again changes nothing
            return _written(document)
        if existing.get("Sid") == label:
            raise AttributeInvalid("Statement already exists")
    document["Statement"] = [*statements, statement]
    return checked_policy(_written(document))


def without_permission(policy: str | None, topic: TopicName, label: str) -> str:
    """Raises AttributeInvalid. SNS: a label that is not there is no error."""
    document = editable_document(policy or default_policy(topic))
    statements = _statements(document)
    left = [statement for statement in statements if statement.get("Sid") != label]
    if not left:
        raise AttributeInvalid(f"{label} Reason: Policy must include at least one statement")
    document["Statement"] = left
    return _written(document)


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed = document["Statement"]
    return [listed] if isinstance(listed, dict) else listed


def _one_or_list(values: list[str]) -> str | list[str]:
    # SNS: one value stays a text.
    return values[0] if len(values) == 1 else values


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
