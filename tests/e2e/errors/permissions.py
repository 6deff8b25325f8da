"""Permissions."""

from __future__ import annotations

from typing import Any

from e2e.errors.row import ACCOUNT, missing, parameter, sqs


def _permit(label: str = "l", accounts: tuple[str, ...] = (ACCOUNT,), *actions: str) -> dict[str, Any]:
    return {"QueueUrl": "std", "Label": label, "AWSAccountIds": list(accounts), "Actions": list(actions)}


_NO_LABEL = "Value L for parameter Label is invalid. Reason: can't find label."
_OWNER_ONLY = (
    "Value SQS:{} for parameter ActionName is invalid. "
    "Reason: Only the queue owner is allowed to invoke this action."
)
_UNKNOWN_ACTION = (
    "Value SQS:{} for parameter ActionName is invalid. "
    "Reason: Please refer to the appropriate WSDL for a list of valid actions."
)

PERMISSIONS = [
    parameter("no policy at all", "RemovePermission", {"QueueUrl": "std", "Label": "L"}, _NO_LABEL),
    missing("a label", "AddPermission", _permit("", (ACCOUNT,), "*"), "Label"),
    missing("some actions", "AddPermission", _permit(), "Actions"),
    missing("some accounts", "AddPermission", _permit("l", (), "*"), "PrincipalId"),
    *(parameter("not the owner's", "AddPermission", _permit("l", (ACCOUNT,), action), _OWNER_ONLY.format(action))
      for action in ("AddPermission", "CreateQueue", "DeleteQueue", "SetQueueAttributes", "StartMessageMoveTask")),
    *(parameter("known actions", "AddPermission", _permit("l", (ACCOUNT,), action), _UNKNOWN_ACTION.format(action))
      for action in ("X", "SendMessageBatch")),
    parameter("an account", "AddPermission", _permit("l", ("123",), "*"),
              "Value [123] for parameter PrincipalId is invalid. Reason: Unable to verify."),
    sqs("OverLimit", "seven actions at most", "AddPermission",
        _permit("l", (ACCOUNT,), "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility",
                "GetQueueAttributes", "GetQueueUrl", "PurgeQueue", "ListDeadLetterSourceQueues"),
        "8 Actions were found, maximum allowed is 7."),
]  # fmt: skip
