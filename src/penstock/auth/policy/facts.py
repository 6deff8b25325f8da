"""What holds for a service whatever the policies say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SQS_OWNER_ONLY = (
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
)


class Facts(NamedTuple):
    """Actions in lower case, with their prefix."""

    owner_only: frozenset[str]  # never for another account
    repairs: frozenset[str]  # the owner's root can always do these, so that nobody is locked out for good
    means: Mapping[str, str]  # actions that policies know under another name


SQS = Facts(
    owner_only=frozenset(f"sqs:{action.lower()}" for action in SQS_OWNER_ONLY),
    # AWS: root can edit or delete a queue's policy that denies all principals. For that it has to find and read it.
    repairs=frozenset(
        (
            "sqs:setqueueattributes",
            "sqs:removepermission",
            "sqs:getqueueattributes",
            "sqs:getqueueurl",
            "sqs:listqueues",
        )
    ),
    # AWS: there are no actions for batches. Who may send may send ten; a policy that names the batch covers nothing.
    means={
        "sqs:sendmessagebatch": "sqs:sendmessage",
        "sqs:deletemessagebatch": "sqs:deletemessage",
        "sqs:changemessagevisibilitybatch": "sqs:changemessagevisibility",
    },
)
