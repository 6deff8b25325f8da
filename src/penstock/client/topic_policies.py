"""The statement in the policy of a queue that lets a topic send to it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

_SERVICE = "sns.amazonaws.com"


def with_topic(policy: str, queue_arn: str, topic_arn: str) -> str | None:
    """The policy of a queue with a statement that allows the topic; None if there is such a statement. ``policy``: an
    empty text if the queue has none. Raises ValueError for what is not a policy."""
    read: Any = json.loads(policy) if policy else {"Version": "2012-10-17", "Statement": []}
    if not isinstance(read, dict):
        raise ValueError("the policy of the queue is not an object")
    statements = read.get("Statement", [])
    statements = statements if isinstance(statements, list) else [statements]
    name = f"penstock-{sha256(topic_arn.encode()).hexdigest()[:16]}"
    statement = {
        "Sid": name,
        "Effect": "Allow",
        "Principal": {"Service": _SERVICE},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }
    if statement in statements:
        return None
    others = [each for each in statements if not isinstance(each, dict) or each.get("Sid") != name]
    return json.dumps({**read, "Statement": [*others, statement]})
