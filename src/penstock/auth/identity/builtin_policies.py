"""Built-in policies: enough for most users. They are attached by name."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.auth.policy import compile_policy

_FIND = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]


def _allow(*actions: str) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


# In each service those that allow least are first.
BUILTIN_POLICIES: Mapping[str, str] = {
    "sqs-read-only": _allow(
        *_FIND,
        "sqs:ListQueues",
        "sqs:ListQueueTags",
        "sqs:ListDeadLetterSourceQueues",
        "sqs:ListMessageMoveTasks",
    ),
    "sqs-send": _allow(*_FIND, "sqs:SendMessage"),
    "sqs-receive": _allow(*_FIND, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
    "sqs-full-access": _allow("sqs:*"),
    "cloudwatch-read-only": _allow("cloudwatch:Describe*", "cloudwatch:Get*", "cloudwatch:List*"),
    "cloudwatch-put-metrics": _allow("cloudwatch:PutMetricData"),
    "cloudwatch-full-access": _allow("cloudwatch:*"),
    "penstock-read-only": _allow("penstock:Get*", "penstock:List*"),
    "penstock-full-access": _allow("penstock:*"),
    "assume-roles": _allow("sts:AssumeRole", "sts:TagSession"),
    "administrator": _allow("*"),
}


def policy_that_allows(action: str) -> str:
    """The name of the built-in policy that allows an action, and little else."""
    names = (
        name
        for name, text in BUILTIN_POLICIES.items()
        if compile_policy(text, kind="identity", name=name).applicable(action.lower(), "*").allows
    )
    return next(names)
