"""Built-in policies: enough for most users. They are attached by name."""

from __future__ import annotations

import json
from collections.abc import Mapping

_FIND = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]


def _allow(*actions: str) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


BUILTIN_POLICIES: Mapping[str, str] = {
    "sqs-full-access": _allow("sqs:*"),
    "sqs-read-only": _allow(
        *_FIND,
        "sqs:ListQueues",
        "sqs:ListQueueTags",
        "sqs:ListDeadLetterSourceQueues",
        "sqs:ListMessageMoveTasks",
    ),
    "sqs-send": _allow(*_FIND, "sqs:SendMessage"),
    "sqs-receive": _allow(*_FIND, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
    "cloudwatch-full-access": _allow("cloudwatch:*"),
    "cloudwatch-read-only": _allow("cloudwatch:Describe*", "cloudwatch:Get*", "cloudwatch:List*"),
    "cloudwatch-put-metrics": _allow("cloudwatch:PutMetricData"),
    "penstock-read-only": _allow("penstock:Get*", "penstock:List*"),
    "penstock-full-access": _allow("penstock:*"),
    "assume-roles": _allow("sts:AssumeRole", "sts:TagSession"),
}
