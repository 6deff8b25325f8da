"""Queue policies: which documents are taken, and how AddPermission and RemovePermission write them.

A policy that was set as an attribute is kept and shown byte for byte. Only the permission actions rewrite it.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.names import PARTITION
from penstock.services.sqs.documents import read_object, write
from penstock.services.sqs.faults import invalid_value, sqs_fault
from penstock.services.sqs.validation import is_legal

_BYTES_MAX = 8192
_STATEMENTS_MAX = 20
_ACTIONS_MAX = 7
_ACCOUNTS_MAX = 1000  # more would not fit the document anyway
_VERSIONS = ("2012-10-17", "2008-10-17")
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)

_GRANTABLE = {
    "*",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "SendMessage",
}
_OWNER_ONLY = {
    "AddPermission",
    "CancelMessageMoveTask",
    "CreateQueue",
    "DeleteQueue",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "ListQueues",
    "RemovePermission",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
}


def is_policy(text: str) -> bool:
    """Whether SQS takes the document. What its ARNs and principals mean is not looked at."""
    document = read_object(text)
    if document is None or len(text.encode()) > _BYTES_MAX or not is_legal(text):
        return False
    if not document.keys() <= {"Version", "Id", "Statement"}:
        return False
    if document.get("Version", _VERSIONS[0]) not in _VERSIONS:
        return False
    statements = _statements(document)
    return bool(statements) and all(_is_statement(statement) for statement in statements)


def _statements(document: dict[str, Any]) -> list[Any]:
    statements = document.get("Statement")
    if isinstance(statements, dict):
        return [statements]
    return statements if isinstance(statements, list) else []


def _is_statement(statement: Any) -> bool:
    if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
        return False
    return all(statement.get(key) or statement.get(f"Not{key}") for key in ("Action", "Resource"))


def check_actions(actions: list[str]) -> None:
    if len(actions) > _ACTIONS_MAX:
        message = f"{len(actions)} Actions were found, maximum allowed is {_ACTIONS_MAX}."
        raise sqs_fault("OverLimit", message)
    for action in actions:
        if action in _OWNER_ONLY:
            reason = "Only the queue owner is allowed to invoke this action."
            raise invalid_value(f"SQS:{action}", "ActionName", reason)
        if action not in _GRANTABLE:
            reason = "Please refer to the appropriate WSDL for a list of valid actions."
            raise invalid_value(f"SQS:{action}", "ActionName", reason)


def known_accounts(accounts: list[str]) -> list[str]:
    """Each once. SQS: what is no account is dropped, as long as one is left."""
    if len(accounts) > _ACCOUNTS_MAX:
        message = f"{len(accounts)} AWSAccountIds were found, maximum allowed is {_ACCOUNTS_MAX}."
        raise sqs_fault("OverLimit", message)
    known = [account for account in dict.fromkeys(accounts) if _ACCOUNT.fullmatch(account)]
    if not known:
        raise invalid_value(f"[{', '.join(accounts)}]", "PrincipalId", "Unable to verify.")
    return known


def with_permission(policy: str | None, arn: str, label: str, accounts: list[str], actions: list[str]) -> str:
    document = _document(policy) or {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [],
    }
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_list([f"arn:{PARTITION}:iam::{account}:root" for account in accounts])},
        "Action": _one_or_list([f"SQS:{action}" for action in dict.fromkeys(actions)]),
        "Resource": arn,
    }
    statements = _statements(document)
    for existing in statements:
        if existing == statement:
            return write(document)
        if existing.get("Sid") == label:
            raise invalid_value(label, "Label", "Already exists.")
    document["Statement"] = [*statements, statement]
    if len(document["Statement"]) > _STATEMENTS_MAX:
        message = f"{len(document['Statement'])} Statements were found, maximum allowed is {_STATEMENTS_MAX}."
        raise sqs_fault("OverLimit", message)
    written = write(document)
    size = len(written.encode())
    if size > _BYTES_MAX:
        message = f"The policy would have {size} bytes, maximum allowed is {_BYTES_MAX}."
        raise sqs_fault("OverLimit", message)
    return written


def without_permission(policy: str | None, label: str) -> str | None:
    """The rest of the policy; None if nothing is left of it."""
    document = _document(policy)
    if document is None:
        raise invalid_value(label, "Label", "can't find label.")
    statements = _statements(document)
    left = [statement for statement in statements if statement.get("Sid") != label]
    if len(left) == len(statements):
        raise invalid_value(label, "Label", "can't find label on existing policy.")
    return write({**document, "Statement": left}) if left else None


def _document(policy: str | None) -> dict[str, Any] | None:
    return read_object(policy) if policy else None


def _one_or_list(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
