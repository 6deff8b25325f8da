"""What of a request and its answer may be written, action by action.

An allow list, so that a member that is new, or that nobody thought of, is not written. Never on it: bodies,
message attributes, receipt and task handles, group and deduplication ids, secrets and tokens. Of messages there
are counts. Names are those of CloudTrail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_Tell = Callable[[Any], Any]


class _Member(msgspec.Struct, frozen=True):
    field: str  # dots lead into structs
    name: str
    tell: _Tell

    def told_of(self, struct: Any) -> Any:
        value = struct
        for part in self.field.split("."):
            value = getattr(value, part, None)
        return None if value is None else self.tell(value)


def _as_it_is(value: Any) -> Any:
    return value


def _shown(*fields: str) -> list[_Member]:
    """``QueueUrl`` is told as ``queueUrl``; CloudTrail leaves a name alone that begins with an abbreviation."""
    return [
        _Member(field, field if field[1].isupper() else field[0].lower() + field[1:], _as_it_is)
        for field in fields
    ]


def _count(field: str, name: str) -> _Member:
    return _Member(field, name, len)


_QUEUE = _shown("QueueUrl")
_BATCH = [*_QUEUE, _count("Entries", "numberOfEntries")]
_BATCH_ANSWER = [_count("Successful", "numberOfSuccessful"), _count("Failed", "numberOfFailed")]

PARAMETERS: dict[str, dict[str, list[_Member]]] = {
    "sqs": {
        "AddPermission": [*_QUEUE, *_shown("Label", "AWSAccountIds", "Actions")],
        "CancelMessageMoveTask": [],
        "ChangeMessageVisibility": [*_QUEUE, *_shown("VisibilityTimeout")],
        "ChangeMessageVisibilityBatch": _BATCH,
        "CreateQueue": [*_shown("QueueName", "Attributes", "tags")],
        "DeleteMessage": _QUEUE,
        "DeleteMessageBatch": _BATCH,
        "DeleteQueue": _QUEUE,
        "GetQueueAttributes": [*_QUEUE, *_shown("AttributeNames")],
        "GetQueueUrl": _shown("QueueName", "QueueOwnerAWSAccountId"),
        "ListDeadLetterSourceQueues": [*_QUEUE, *_shown("MaxResults")],
        "ListMessageMoveTasks": _shown("SourceArn", "MaxResults"),
        "ListQueueTags": _QUEUE,
        "ListQueues": _shown("QueueNamePrefix", "MaxResults"),
        "PurgeQueue": _QUEUE,
        "ReceiveMessage": [*_QUEUE, *_shown("MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds")],
        "RemovePermission": [*_QUEUE, *_shown("Label")],
        "SendMessage": [*_QUEUE, *_shown("DelaySeconds")],
        "SendMessageBatch": _BATCH,
        "SetQueueAttributes": [*_QUEUE, *_shown("Attributes")],
        "StartMessageMoveTask": _shown("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond"),
        "TagQueue": [*_QUEUE, *_shown("Tags")],
        "UntagQueue": [*_QUEUE, *_shown("TagKeys")],
    },
    "sts": {
        "AssumeRole": [
            *_shown("RoleArn", "RoleSessionName", "DurationSeconds", "Policy"),
            _Member("Tags", "tags", lambda tags: {str(tag.Key): tag.Value for tag in tags}),
        ],
        "GetCallerIdentity": [],
        "GetSessionToken": _shown("DurationSeconds"),
    },
}

RESPONSES: dict[str, dict[str, list[_Member]]] = {
    "sqs": {
        "ChangeMessageVisibilityBatch": _BATCH_ANSWER,
        "CreateQueue": _QUEUE,
        "DeleteMessageBatch": _BATCH_ANSWER,
        "ReceiveMessage": [_count("Messages", "numberOfMessages")],
        "SendMessage": _shown("MessageId", "SequenceNumber"),
        "SendMessageBatch": _BATCH_ANSWER,
    },
    "sts": {
        "AssumeRole": [
            _Member("Credentials.AccessKeyId", "accessKeyId", _as_it_is),
            _Member("AssumedRoleUser.Arn", "assumedRoleArn", _as_it_is),
        ],
        "GetSessionToken": [_Member("Credentials.AccessKeyId", "accessKeyId", _as_it_is)],
    },
}


def safe_parameters(service: str, action: str, request: msgspec.Struct) -> dict[str, Any] | None:
    return _told(PARAMETERS, service, action, request)


def safe_response(service: str, action: str, response: msgspec.Struct | None) -> dict[str, Any] | None:
    return None if response is None else _told(RESPONSES, service, action, response)


def _told(
    lists: Mapping[str, Mapping[str, list[_Member]]], service: str, action: str, struct: msgspec.Struct
) -> dict[str, Any] | None:
    told = {}
    for member in lists.get(service, {}).get(action, ()):
        value = member.told_of(struct)
        if value is not None:
            told[member.name] = value
    return told or None
