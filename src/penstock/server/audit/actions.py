"""Which actions the trail keeps, divided as CloudTrail divides them.

Management events change or guard queues and are always written. Data events are the traffic of messages, and are
written if the operator asks for them. Looking around (``GetQueueUrl``, ``ListQueues`` ...) is left out;
but a request that was refused is written whatever it asked for.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Category = Literal["Management", "Data"]


class Kept(NamedTuple):
    category: Category | None  # None: left out
    read_only: bool = False
    gives_credentials: bool = False


_MANAGEMENT = Kept("Management")
_DATA = Kept("Data")
_LOOK = Kept(None, read_only=True)

ACTIONS: dict[str, dict[str, Kept]] = {
    "sqs": {
        "AddPermission": _MANAGEMENT,
        "CancelMessageMoveTask": _MANAGEMENT,
        "ChangeMessageVisibility": _DATA,
        "ChangeMessageVisibilityBatch": _DATA,
        "CreateQueue": _MANAGEMENT,
        "DeleteMessage": _DATA,
        "DeleteMessageBatch": _DATA,
        "DeleteQueue": _MANAGEMENT,
        "GetQueueAttributes": _LOOK,
        "GetQueueUrl": _LOOK,
        "ListDeadLetterSourceQueues": _LOOK,
        "ListMessageMoveTasks": _LOOK,
        "ListQueueTags": _LOOK,
        "ListQueues": _LOOK,
        "PurgeQueue": _MANAGEMENT,
        "ReceiveMessage": Kept("Data", read_only=True),
        "RemovePermission": _MANAGEMENT,
        "SendMessage": _DATA,
        "SendMessageBatch": _DATA,
        "SetQueueAttributes": _MANAGEMENT,
        "StartMessageMoveTask": _MANAGEMENT,
        "TagQueue": _MANAGEMENT,
        "UntagQueue": _MANAGEMENT,
    },
    "sts": {
        "AssumeRole": Kept("Management", read_only=True, gives_credentials=True),
        "GetCallerIdentity": Kept("Management", read_only=True),
        "GetSessionToken": Kept("Management", read_only=True, gives_credentials=True),
    },
}


def kept(service: str, action: str) -> Kept:
    """What is known of no service changes something, as far as the trail knows: it is kept."""
    return ACTIONS.get(service, {}).get(action, _MANAGEMENT)


def left_out(*, data_events: bool) -> frozenset[tuple[str, str]]:
    """Services and their actions that are not worth an event, unless they are refused."""
    categories: set[Category | None] = {None} if data_events else {None, "Data"}
    return frozenset(
        (service, action)
        for service, actions in ACTIONS.items()
        for action, kept in actions.items()
        if kept.category in categories
    )
