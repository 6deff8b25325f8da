"""Queue policies: which documents are taken, and how AddPermission and RemovePermission write them.

A policy that was set as an attribute is kept and shown byte for byte. Only the permission actions rewrite it: so what
could not be rewritten without loss is not taken, and where such a policy is there already, they leave it alone.
"""

from __future__ import annotations

from typing import Any

from penstock.auth.policy import PolicyInvalid, compile_policy, editable_document, read_document
from penstock.auth.policy.facts import SQS_OWNER_ONLY
from penstock.names import PARTITION, is_account
from penstock.services.sqs.documents import write
from penstock.services.sqs.faults import invalid_attribute, invalid_value, sqs_fault
from penstock.services.sqs.validation import is_legal, utf8_length

_BYTES_MAX = 8192
_STATEMENTS_MAX = 20
_PRINCIPALS_MAX = 50  # of all statements
_CONDITIONS_MAX = 10  # of one statement: one for each operator and key
_ACTIONS_MAX = 7  # of one statement
_ACCOUNTS_MAX = 1000  # more would not fit the document anyway
_ACCOUNT_LENGTH_MAX = 64  # more is padding, not a mistake
_TOO_LARGE = "Submitted policy is over max allowed size."

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


def check_policy(text: str) -> None:
    """Raise the Fault that SQS answers a policy with that it does not accept.

    A resource may be any text; principals and conditions must have their form.
    """
    if utf8_length(text) > _BYTES_MAX:
        raise sqs_fault("OverLimit", _TOO_LARGE)
    try:
        if not is_legal(text):
            raise invalid_attribute("Policy")
        compile_policy(text, kind="resource")
        rewritten = write(editable_document(text))
    except PolicyInvalid:
        raise invalid_attribute("Policy") from None
    if not is_legal(rewritten):
        raise invalid_attribute("Policy")
    statements = read_document(text, "resource").statements
    _check_count(len(statements), "statements", "", _STATEMENTS_MAX)
    _check_count(_principals_in(text), "principals", "", _PRINCIPALS_MAX)
    for statement in statements:
        _check_count(len(statement.actions.values), "actions", "a statement from ", _ACTIONS_MAX)
        _check_count(len(statement.conditions), "conditions", "a statement from ", _CONDITIONS_MAX)


def _check_count(count: int, what: str, part: str, most: int) -> None:
    if count > most:
        message = f"{count} {what} were found in {part}the submitted policy, max allowed is {most}"
        raise sqs_fault("OverLimit", message)


def _principals_in(text: str) -> int:
    try:
        document = read_document(text, "resource")
    except PolicyInvalid:
        return 0  # it was set before SQS's grammar was checked here; it stays as it is
    return sum(statement.principals_count for statement in document.statements)


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed = document.get("Statement")
    statements = [listed] if isinstance(listed, dict) else listed
    if not isinstance(statements, list) or not all(isinstance(each, dict) for each in statements):
        raise invalid_attribute("Policy")
    return statements


def check_actions(actions: list[str]) -> None:
    if len(actions) > _ACTIONS_MAX:
        message = f"{len(actions)} Actions were found, maximum allowed is {_ACTIONS_MAX}."
        raise sqs_fault("OverLimit", message)
    for action in actions:
        if action in SQS_OWNER_ONLY:
            reason = "Only the queue owner is allowed to invoke this action."
            raise invalid_value(f"SQS:{action}", "ActionName", reason)
        if action not in _GRANTABLE:
            reason = "Please refer to the appropriate WSDL for a list of valid actions."
            raise invalid_value(f"SQS:{action}", "ActionName", reason)


def known_accounts(accounts: list[str]) -> list[str]:
    """Each once. SQS: what is no account is dropped, as long as one is left and all could be mistaken for one."""
    if len(accounts) > _ACCOUNTS_MAX:
        message = f"{len(accounts)} AWSAccountIds were found, maximum allowed is {_ACCOUNTS_MAX}."
        raise sqs_fault("OverLimit", message)
    known = [account for account in dict.fromkeys(accounts) if is_account(account)]
    if not known or any(len(account) > _ACCOUNT_LENGTH_MAX for account in accounts):
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
    if utf8_length(written) > _BYTES_MAX:
        raise sqs_fault("OverLimit", _TOO_LARGE)
    found = _principals_in(written)
    if found > _PRINCIPALS_MAX:
        message = f"{found} Principals were found, maximum allowed is {_PRINCIPALS_MAX}."
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
    if not policy:
        return None
    try:
        return editable_document(policy)
    except PolicyInvalid:
        # It may forbid anything: to put another in its place would open what it closes.
        raise invalid_attribute("Policy") from None


def _one_or_list(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
