"""Requests that cannot be decoded, and queues that cannot be found."""

from __future__ import annotations

from typing import Any

from e2e.errors.row import ACCOUNT, CORAL, NO_QUEUE, Row, malformed, sending, sqs

_QUEUE_ACTIONS: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "l", "AWSAccountIds": [ACCOUNT], "Actions": ["*"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "h", "VisibilityTimeout": 0},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 0}]},
    "DeleteMessage": {"ReceiptHandle": "h"},
    "DeleteMessageBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "h"}]},
    "DeleteQueue": {},
    "GetQueueAttributes": {"AttributeNames": ["All"]},
    "ListDeadLetterSourceQueues": {},
    "ListQueueTags": {},
    "PurgeQueue": {},
    "ReceiveMessage": {},
    "RemovePermission": {"Label": "l"},
    "SendMessage": {"MessageBody": "b"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "b"}]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"k": "v"}},
    "UntagQueue": {"TagKeys": ["k"]},
}

WIRE = [
    Row("an unknown action", "FooBar", {}, f"{CORAL}UnknownOperationException",
        "The action FooBar is not valid for this endpoint."),
    malformed("a body that is not JSON", "ListQueues", b"{", None),
    malformed("JSON that is not an object", "ListQueues", b"[]", None),
    malformed("text for a number", "ReceiveMessage", {"QueueUrl": "std", "MaxNumberOfMessages": "many"},
              "STRING_VALUE can not be converted to an Integer"),
    malformed("true for a number", "ReceiveMessage", {"QueueUrl": "std", "WaitTimeSeconds": True},
              "TRUE_VALUE can not be converted to an Integer"),
    malformed("a list for text", "SendMessage", {"QueueUrl": "std", "MessageBody": ["b"]},
              "Start of list found where not expected"),
    malformed("a map for text", "SendMessage", {"QueueUrl": "std", "MessageBody": {"b": 1}},
              "Start of structure or map found where not expected."),
    malformed("a list in the attribute map", "CreateQueue", {"QueueName": "new", "Attributes": {"Policy": []}},
              "Unrecognized collection type class java.lang.String"),
]  # fmt: skip

RESOLUTION = [
    *(
        sqs("QueueDoesNotExist", "a queue that is not there", action, {"QueueUrl": "none", **rest}, NO_QUEUE)
        for action, rest in _QUEUE_ACTIONS.items()
    ),
    *(
        sqs("QueueDoesNotExist", "no queue at all", action, rest, NO_QUEUE)
        for action, rest in _QUEUE_ACTIONS.items()
    ),
    sqs("QueueDoesNotExist", "a URL without a path", "SendMessage", sending("http://whatever"), NO_QUEUE),
    sqs("QueueDoesNotExist", "names are case-sensitive", "SendMessage", sending("STD"), NO_QUEUE),
    sqs("QueueDoesNotExist", "a name that is not there", "GetQueueUrl", {"QueueName": "none"}, NO_QUEUE),
    sqs("QueueDoesNotExist", "another account's queue", "GetQueueUrl",
        {"QueueName": "std", "QueueOwnerAWSAccountId": "399999999999"},
        "The specified queue does not exist or you do not have access to it."),
    sqs("InvalidAddress", "a URL of another region and account", "SendMessage",
        sending("https://sqs.eu-west-3.amazonaws.com/399999999999/std"),
        "The address https://sqs.eu-west-3.amazonaws.com/ is not valid for this endpoint."),
]  # fmt: skip
