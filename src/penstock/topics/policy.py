"""The policy of a topic that has none of its own, and the actions that policies of topics are about."""

from __future__ import annotations

import json

from penstock.topics.names import TopicName

DEFAULT_ACTIONS = (
    "GetTopicAttributes", "SetTopicAttributes", "AddPermission", "RemovePermission", "DeleteTopic", "Subscribe",
    "ListSubscriptionsByTopic", "Publish",
)  # fmt: skip
"""Those of the default policy, which a policy may grant to other accounts."""

POLICY_ACTIONS = (*DEFAULT_ACTIONS, "Receive")
"""Those that a policy may name. SNS: nothing asks for Receive any more."""


def default_policy(topic: TopicName) -> str:
    """SNS: AWS:SourceOwner is known only of a service that acts for an account, so this allows nothing to users."""
    statement = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{action}" for action in DEFAULT_ACTIONS],
        "Resource": topic.arn,
        "Condition": {"StringEquals": {"AWS:SourceOwner": topic.account}},
    }
    document = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
    return json.dumps(document, separators=(",", ":"))
