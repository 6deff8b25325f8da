"""Queue policies: which documents SQS accepts; AddPermission and RemovePermission, which edit one by labels.

A policy that was set as an attribute is stored and shown byte for byte. The permission actions write it
again: what they could not write without loss is not accepted, and a stored policy that they cannot read is
left alone.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from penstock.auth.policy import PolicyInvalid, compile_policy, editable_document, read_document
from penstock.names import is_account
from penstock.services.sqs.faults import invalid_attribute, invalid_value, sqs_fault
from penstock.services.sqs.limits import (
    PERMISSION_ACCOUNT_LENGTH_MAX,
    PERMISSION_ACCOUNTS_MAX,
    POLICY_ACTIONS_MAX,
    POLICY_BYTES_MAX,
    POLICY_CONDITIONS_MAX,
    POLICY_PRINCIPALS_MAX,
    POLICY_STATEMENTS_MAX,
    QUEUE_NAME_LENGTH_MAX,
)
from penstock.services.sqs.redrive import write_object
from penstock.services.sqs.resources import Sqs
from penstock.services.sqs.structs import AddPermissionRequest, RemovePermissionRequest
from penstock.services.sqs.validation import is_legal, required, utf8_length
from penstock.wire.faults import missing_parameter
from penstock.wire.service import Call, Fault

_LABEL = re.compile(rf"[A-Za-z0-9_-]{{1,{QUEUE_NAME_LENGTH_MAX}}}")
_TOO_LARGE = "Submitted policy is over max allowed size."


async def add_permission(sqs: Sqs, request: AddPermissionRequest, call: Call) -> None:
    queue = call.resource.queue
    label = required(request.Label, "Label")
    if not request.Actions:
        raise missing_parameter("Actions")
    if not request.AWSAccountIds:
        raise missing_parameter("PrincipalId")
    if not _LABEL.fullmatch(label):
        characters = "Can only include alphanumeric characters, hyphens, or underscores"
        raise invalid_value(label, "Label", f"{characters}. 1 to {QUEUE_NAME_LENGTH_MAX} in length.")
    _check_actions(sqs, request.Actions)
    accounts = _known_accounts(request.AWSAccountIds)
    policy = with_permission(queue.settings.policy, queue.name.arn, label, accounts, request.Actions)
    await sqs.broker.configure(queue, msgspec.structs.replace(queue.settings, policy=policy))


async def remove_permission(sqs: Sqs, request: RemovePermissionRequest, call: Call) -> None:
    queue = call.resource.queue
    policy = without_permission(queue.settings.policy, required(request.Label, "Label"))
    await sqs.broker.configure(queue, msgspec.structs.replace(queue.settings, policy=policy))


def check_policy(text: str) -> None:
    """Raises the Fault of SQS if it does not accept the policy.

    A resource may be any text; principals and conditions must have their form.
    """
    if utf8_length(text) > POLICY_BYTES_MAX:
        raise sqs_fault("OverLimit", _TOO_LARGE)
    try:
        if not is_legal(text):
            raise invalid_attribute("Policy")
        compile_policy(text, kind="resource")
        rewritten = write_object(editable_document(text))
    except PolicyInvalid:
        raise invalid_attribute("Policy") from None
    if not is_legal(rewritten):
        raise invalid_attribute("Policy")
    statements = read_document(text, "resource").statements
    _check_count(len(statements), "statements", "", POLICY_STATEMENTS_MAX)
    _check_count(_principals_in(text), "principals", "", POLICY_PRINCIPALS_MAX)
    for statement in statements:
        _check_count(len(statement.actions.values), "actions", "a statement from ", POLICY_ACTIONS_MAX)
        _check_count(len(statement.conditions), "conditions", "a statement from ", POLICY_CONDITIONS_MAX)


def with_permission(policy: str | None, arn: str, label: str, accounts: list[str], actions: list[str]) -> str:
    _, partition, _ = arn.split(":", 2)
    document = _document(policy) or {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [],
    }
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_list([f"arn:{partition}:iam::{account}:root" for account in accounts])},
        "Action": _one_or_list([f"SQS:{action}" for action in dict.fromkeys(actions)]),
        "Resource": arn,
    }
    statements = _statements(document)
    for existing in statements:
        if existing == statement:
            return write_object(document)
        if existing.get("Sid") == label:
            raise invalid_value(label, "Label", "Already exists.")
    document["Statement"] = [*statements, statement]
    if len(statements) + 1 > POLICY_STATEMENTS_MAX:
        raise _too_many(len(statements) + 1, "Statements", POLICY_STATEMENTS_MAX)
    written = write_object(document)
    if utf8_length(written) > POLICY_BYTES_MAX:
        raise sqs_fault("OverLimit", _TOO_LARGE)
    found = _principals_in(written)
    if found > POLICY_PRINCIPALS_MAX:
        raise _too_many(found, "Principals", POLICY_PRINCIPALS_MAX)
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
    return write_object({**document, "Statement": left}) if left else None


def _check_actions(sqs: Sqs, actions: list[str]) -> None:
    if len(actions) > POLICY_ACTIONS_MAX:
        raise _too_many(len(actions), "Actions", POLICY_ACTIONS_MAX)
    for action in actions:
        row = sqs.actions.get(action)
        if action == "*" or (row is not None and row.grantable and row.permission == f"sqs:{action}"):
            continue
        if row is None or row.grantable:  # SQS: there is no permission of the name of a batch action.
            reason = "Please refer to the appropriate WSDL for a list of valid actions."
        else:
            reason = "Only the queue owner is allowed to invoke this action."
        raise invalid_value(f"SQS:{action}", "ActionName", reason)


def _known_accounts(accounts: list[str]) -> list[str]:
    """Each once. SQS: other texts are dropped if at least one is an account and none is too long."""
    if len(accounts) > PERMISSION_ACCOUNTS_MAX:
        raise _too_many(len(accounts), "AWSAccountIds", PERMISSION_ACCOUNTS_MAX)
    known = [account for account in dict.fromkeys(accounts) if is_account(account)]
    if not known or any(len(account) > PERMISSION_ACCOUNT_LENGTH_MAX for account in accounts):
        raise invalid_value(f"[{', '.join(accounts)}]", "PrincipalId", "Unable to verify.")
    return known


def _document(policy: str | None) -> dict[str, Any] | None:
    if not policy:
        return None
    try:
        return editable_document(policy)
    except PolicyInvalid:
        # It may deny anything: to replace it would allow what it denies.
        raise invalid_attribute("Policy") from None


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    listed = document.get("Statement")
    statements = [listed] if isinstance(listed, dict) else listed
    if not isinstance(statements, list) or not all(isinstance(each, dict) for each in statements):
        raise invalid_attribute("Policy")
    return statements


def _principals_in(text: str) -> int:
    try:
        document = read_document(text, "resource")
    except PolicyInvalid:
        return 0  # it was stored before its grammar was checked, and stays as it is
    return sum(statement.principals_count for statement in document.statements)


def _one_or_list(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _check_count(count: int, what: str, part: str, most: int) -> None:
    if count > most:
        message = f"{count} {what} were found in {part}the submitted policy, max allowed is {most}"
        raise sqs_fault("OverLimit", message)


def _too_many(count: int, what: str, most: int) -> Fault:
    return sqs_fault("OverLimit", f"{count} {what} were found, maximum allowed is {most}.")
