"""The actions of the toy service, one row each."""

from __future__ import annotations

from penstock.wire.service import Action, AuditRule

from . import handlers as h

_ROWS = (
    Action(
        "CreateTopic", h.CreateTopicRequest, h.CreateTopicResult, h.create_topic, h.named_topic, "toy:CreateTopic",
        audit=AuditRule("Management", ("Name",), ("TopicArn",)),
    ),
    Action(
        "ListTopics", h.ListTopicsRequest, h.ListTopicsResult, h.list_topics, h.all_topics, "toy:ListTopics",
        read_only=True,
        audit=AuditRule(None, ("After",)),
    ),
    Action(
        "Subscribe", h.SubscribeRequest, None, h.subscribe, h.topic_of_subscription, "toy:Subscribe",
        audit=AuditRule("Management", ("TopicArn", "Endpoint")),
    ),
    Action(
        "ListSubscriptions", h.OnTopic, h.ListSubscriptionsResult, h.list_subscriptions, h.topic_of_arn,
        "toy:ListSubscriptions",
        read_only=True,
        audit=AuditRule(None, ("TopicArn",)),
    ),
    Action(
        "Publish", h.PublishRequest, None, h.publish, h.topic_of_arn, "toy:Publish",
        audit=AuditRule("Data", ("TopicArn",)),
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}
