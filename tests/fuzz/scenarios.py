"""Typical series of requests: the seeds of the AWS JSON target."""

from __future__ import annotations

import json
from typing import Any

from fuzz.server import QUEUE_ARN
from fuzz.targets.policy import QUEUE_POLICY

_DEAD_ARN = "arn:aws:sqs:us-east-1:111122223333:dead"
_REDRIVE = json.dumps({"maxReceiveCount": "5", "deadLetterTargetArn": _DEAD_ARN})
_ALLOW = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [QUEUE_ARN]})
_URL = "http://localhost/111122223333/q"
_ATTRIBUTES: list[tuple[str, dict[str, Any]]] = [
    ("Binary", {"BinaryValue": "AAE="}),
    ("Binary", {"StringValue": "s"}),
    ("String", {}),
    ("Number.float", {"StringValue": "0x1"}),
    ("x", {"StringListValues": ["s"]}),
]


def _line(who: str, action: str, **members: Any) -> str:
    return f"{who} AmazonSQS.{action} {json.dumps(members, separators=(',', ':'))}"


def _attribute(kind: str, **value: Any) -> dict[str, Any]:
    return {"a.b": {"DataType": kind, **value}}


_ENTRIES = [
    {"Id": "1", "MessageBody": "x", "MessageAttributes": _attribute("Number", StringValue="1e3")},
    {"Id": "2", "MessageBody": "", "DelaySeconds": 901, "MessageGroupId": "g"},
]
_HANDLES = [
    {"Id": "1", "ReceiptHandle": "$ReceiptHandle", "VisibilityTimeout": 30},
    {"Id": "2", "ReceiptHandle": "x"},
]
_FIFO = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
SCENARIOS = [
    [
        _line("open", "SendMessage", QueueUrl=_URL, MessageBody="x", DelaySeconds=1),
        _line(
            "mallory",
            "SendMessage",
            QueueUrl=_URL,
            MessageBody="x",
            MessageAttributes=_attribute("String", StringValue="v"),
        ),
    ],
    [
        _line(
            "open", "SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes=_attribute(kind, **value)
        )
        for kind, value in _ATTRIBUTES
    ],
    [
        _line(
            "open",
            "SendMessage",
            QueueUrl="q",
            MessageBody="x",
            MessageSystemAttributes={
                "AWSTraceHeader": {
                    "DataType": "String",
                    "StringValue": "Root=1-5e3d83c1-e6a0db584850d61342823d4c",
                }
            },
        )
    ],
    [_line("q", "SendMessageBatch", QueueUrl="q", Entries=_ENTRIES), _line("q", "PurgeQueue", QueueUrl="q")],
    [
        _line(
            "open",
            "SendMessage",
            QueueUrl="q.fifo",
            MessageBody="x",
            MessageGroupId="g",
            MessageDeduplicationId="d",
        ),
        _line(
            "open",
            "ReceiveMessage",
            QueueUrl="q.fifo",
            ReceiveRequestAttemptId="a",
            MessageSystemAttributeNames=["All"],
        ),
    ],
    [
        _line(
            "alice",
            "ReceiveMessage",
            QueueUrl="q",
            MaxNumberOfMessages=10,
            WaitTimeSeconds=20,
            VisibilityTimeout=0,
        ),
        _line(
            "alice",
            "ChangeMessageVisibility",
            QueueUrl="q",
            ReceiptHandle="$ReceiptHandle",
            VisibilityTimeout=43200,
        ),
        _line("alice", "ChangeMessageVisibilityBatch", QueueUrl="q", Entries=_HANDLES),
        _line("alice", "DeleteMessage", QueueUrl="q", ReceiptHandle="$ReceiptHandle"),
        _line("alice", "DeleteMessageBatch", QueueUrl="q", Entries=_HANDLES),
    ],
    [
        _line(
            "open",
            "ReceiveMessage",
            QueueUrl="q",
            AttributeNames=["All"],
            MessageAttributeNames=["a*", ".*", "x.*"],
        )
    ]
    * 4,
    [
        _line("open", "CreateQueue", QueueName="new.fifo", Attributes=_FIFO, tags={"k": "v"}),
        _line("open", "CreateQueue", QueueName="new.fifo", Attributes={**_FIFO, "DelaySeconds": "5"}),
        _line(
            "open",
            "SetQueueAttributes",
            QueueUrl="new.fifo",
            Attributes={"ContentBasedDeduplication": "true"},
        ),
        _line("open", "DeleteQueue", QueueUrl="new.fifo"),
        _line("open", "CreateQueue", QueueName="new.fifo"),
    ],
    [
        _line(
            "alice",
            "SetQueueAttributes",
            QueueUrl="q",
            Attributes={"RedrivePolicy": _REDRIVE, "VisibilityTimeout": "0"},
        ),
        _line("alice", "SetQueueAttributes", QueueUrl="dead", Attributes={"RedriveAllowPolicy": _ALLOW}),
        _line("alice", "SetQueueAttributes", QueueUrl="q.fifo", Attributes={"RedrivePolicy": _REDRIVE}),
        _line("alice", "ListDeadLetterSourceQueues", QueueUrl="dead", MaxResults=1),
        _line("alice", "GetQueueAttributes", QueueUrl="q", AttributeNames=["All", "RedrivePolicy"]),
    ],
    [
        _line("open", "SetQueueAttributes", QueueUrl="q", Attributes={"KmsMasterKeyId": "alias/aws/sqs"}),
        _line(
            "open",
            "SetQueueAttributes",
            QueueUrl="q",
            Attributes={"SqsManagedSseEnabled": "true", "KmsMasterKeyId": "k"},
        ),
    ],
    [
        _line("open", "CreateQueue", QueueName="a"),
        _line("open", "ListQueues", MaxResults=1, QueueNamePrefix=""),
        _line("open", "ListQueues", MaxResults=1, QueueNamePrefix="", NextToken="$NextToken"),
    ],
    [
        _line("alice", "StartMessageMoveTask", SourceArn=_DEAD_ARN, MaxNumberOfMessagesPerSecond=1),
        _line("alice", "ListMessageMoveTasks", SourceArn=_DEAD_ARN, MaxResults=10),
        _line("alice", "CancelMessageMoveTask", TaskHandle="$TaskHandle"),
    ],
    [
        _line("alice", "StartMessageMoveTask", SourceArn=_DEAD_ARN, DestinationArn=QUEUE_ARN + suffix)
        for suffix in ("", ".fifo")
    ],
    [
        _line("alice", "SetQueueAttributes", QueueUrl="q", Attributes={"Policy": QUEUE_POLICY}),
        _line("mallory", "ReceiveMessage", QueueUrl=_URL),
        _line("anonymous", "SendMessage", QueueUrl=_URL, MessageBody="x"),
        _line(
            "alice",
            "AddPermission",
            QueueUrl="q",
            Label="new",
            AWSAccountIds=["123456789012"],
            Actions=["SendMessage", "*"],
        ),
        _line("alice", "RemovePermission", QueueUrl="q", Label="s"),
    ],
    [
        _line("worker", "RemovePermission", QueueUrl="q", Label="l"),
        _line("worker", "DeleteQueue", QueueUrl="dead"),
        _line("mallory", "GetQueueUrl", QueueName="q"),
    ],
    [_line("mallory", "GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId="111122223333")],
    [
        _line("alice", "TagQueue", QueueUrl="q", Tags={"k": "v"}),
        _line("q", "UntagQueue", QueueUrl="q", TagKeys=["team"]),
        _line("alice", "ListQueueTags", QueueUrl="q"),
        _line("open", "DeleteQueue", QueueUrl="q"),
    ],
]
