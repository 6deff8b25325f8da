"""What is recorded of each action, divided as CloudTrail divides them.

Management events change or protect queues and are always written. Data events are the traffic of messages and are
written on request. Reading actions are written only if they are denied.

Members are listed, so that a new one is not written unless it is added here. Never listed: bodies, message
attributes, receipt and task handles, group and deduplication ids, secrets and tokens.
"""

from __future__ import annotations

from penstock.wire.service import AuditRule

_BATCH = ("QueueUrl", "count(Entries) as numberOfEntries")
_BATCH_RESULT = ("count(Successful) as numberOfSuccessful", "count(Failed) as numberOfFailed")

RULES: dict[str, dict[str, AuditRule]] = {
    "sqs": {
        "AddPermission": AuditRule("Management", ("QueueUrl", "Label", "AWSAccountIds", "Actions")),
        "CancelMessageMoveTask": AuditRule("Management"),
        "ChangeMessageVisibility": AuditRule("Data", ("QueueUrl", "VisibilityTimeout")),
        "ChangeMessageVisibilityBatch": AuditRule("Data", _BATCH, _BATCH_RESULT),
        "CreateQueue": AuditRule("Management", ("QueueName", "Attributes", "tags"), ("QueueUrl",)),
        "DeleteMessage": AuditRule("Data", ("QueueUrl",)),
        "DeleteMessageBatch": AuditRule("Data", _BATCH, _BATCH_RESULT),
        "DeleteQueue": AuditRule("Management", ("QueueUrl",)),
        "GetQueueAttributes": AuditRule(None, ("QueueUrl", "AttributeNames")),
        "GetQueueUrl": AuditRule(None, ("QueueName", "QueueOwnerAWSAccountId")),
        "ListDeadLetterSourceQueues": AuditRule(None, ("QueueUrl", "MaxResults")),
        "ListMessageMoveTasks": AuditRule(None, ("SourceArn", "MaxResults")),
        "ListQueueTags": AuditRule(None, ("QueueUrl",)),
        "ListQueues": AuditRule(None, ("QueueNamePrefix", "MaxResults")),
        "PurgeQueue": AuditRule("Management", ("QueueUrl",)),
        "ReceiveMessage": AuditRule(
            "Data",
            ("QueueUrl", "MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds"),
            ("count(Messages) as numberOfMessages",),
        ),
        "RemovePermission": AuditRule("Management", ("QueueUrl", "Label")),
        "SendMessage": AuditRule("Data", ("QueueUrl", "DelaySeconds"), ("MessageId", "SequenceNumber")),
        "SendMessageBatch": AuditRule("Data", _BATCH, _BATCH_RESULT),
        "SetQueueAttributes": AuditRule("Management", ("QueueUrl", "Attributes")),
        "StartMessageMoveTask": AuditRule(
            "Management", ("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond")
        ),
        "TagQueue": AuditRule("Management", ("QueueUrl", "Tags")),
        "UntagQueue": AuditRule("Management", ("QueueUrl", "TagKeys")),
    },
    "sts": {
        "AssumeRole": AuditRule(
            "Management",
            ("RoleArn", "RoleSessionName", "DurationSeconds", "Policy", "pairs(Tags) as tags"),
            ("Credentials.AccessKeyId as accessKeyId", "AssumedRoleUser.Arn as assumedRoleArn"),
            gives_credentials=True,
        ),
        "GetCallerIdentity": AuditRule("Management"),
        "GetSessionToken": AuditRule(
            "Management",
            ("DurationSeconds",),
            ("Credentials.AccessKeyId as accessKeyId",),
            gives_credentials=True,
        ),
    },
}

_READ_ONLY = {"ReceiveMessage", "AssumeRole", "GetCallerIdentity", "GetSessionToken"}
_UNKNOWN = AuditRule("Management")


def rule_of(service: str, action: str) -> tuple[AuditRule, bool]:
    """The rule, and whether the action only reads. An unknown action is recorded, without its parameters."""
    rule = RULES.get(service, {}).get(action, _UNKNOWN)
    return rule, rule.category is None or action in _READ_ONLY
