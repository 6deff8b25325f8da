"""The actions of SQS, one row each: everything that is known about an action stands here.

Batch actions need the permission of the single action. An action that is grantable can be allowed by a
queue's policy to other accounts and to callers without a signature; all others are the owner's.
``root_always``: the account's root can find, read and replace a policy that denies everything to everyone.

The audit members are an allow list. Never on it: bodies, message attributes, receipt and task handles, message
groups and deduplication ids. For messages, counts are written.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.services.sqs import structs as st
from penstock.services.sqs.move_tasks import (
    cancel_message_move_task,
    list_message_move_tasks,
    source_of_handle,
    source_of_tasks,
    source_to_move,
    start_message_move_task,
)
from penstock.services.sqs.permissions import add_permission, remove_permission
from penstock.services.sqs.queues import (
    all_queues,
    create_queue,
    delete_queue,
    get_queue_attributes,
    get_queue_url,
    list_dead_letter_source_queues,
    list_queues,
    new_queue,
    purge_queue,
    queue_by_name,
    set_queue_attributes,
)
from penstock.services.sqs.receipts import (
    change_message_visibility,
    change_message_visibility_batch,
    delete_message,
    delete_message_batch,
)
from penstock.services.sqs.receiving import receive_message
from penstock.services.sqs.resources import queue_of_url
from penstock.services.sqs.sending import send_message, send_message_batch
from penstock.services.sqs.tags import list_queue_tags, queue_to_tag, queue_to_untag, tag_queue, untag_queue
from penstock.wire.service import Action, AuditRule

_ENTRIES = "count(Entries) as numberOfEntries"
_BATCH_RESULT = ("count(Successful) as numberOfSuccessful", "count(Failed) as numberOfFailed")

_ROWS = (
    Action(
        "AddPermission", st.AddPermissionRequest, None, add_permission, queue_of_url, "sqs:AddPermission",
        audit=AuditRule("Management", ("QueueUrl", "Label", "AWSAccountIds", "Actions")),
    ),
    Action(
        "CancelMessageMoveTask", st.CancelMessageMoveTaskRequest, st.CancelMessageMoveTaskResult,
        cancel_message_move_task, source_of_handle, "sqs:CancelMessageMoveTask",
        audit=AuditRule("Management"),
    ),
    Action(
        "ChangeMessageVisibility", st.ChangeMessageVisibilityRequest, None,
        change_message_visibility, queue_of_url, "sqs:ChangeMessageVisibility",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl", "VisibilityTimeout")),
    ),
    Action(
        "ChangeMessageVisibilityBatch",
        st.ChangeMessageVisibilityBatchRequest, st.ChangeMessageVisibilityBatchResult,
        change_message_visibility_batch, queue_of_url, "sqs:ChangeMessageVisibility",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl", _ENTRIES), _BATCH_RESULT),
    ),
    Action(
        "CreateQueue", st.CreateQueueRequest, st.CreateQueueResult,
        create_queue, new_queue, "sqs:CreateQueue",
        audit=AuditRule("Management", ("QueueName", "Attributes", "tags"), ("QueueUrl",)),
    ),
    Action(
        "DeleteMessage", st.DeleteMessageRequest, None, delete_message, queue_of_url, "sqs:DeleteMessage",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl",)),
    ),
    Action(
        "DeleteMessageBatch", st.DeleteMessageBatchRequest, st.DeleteMessageBatchResult,
        delete_message_batch, queue_of_url, "sqs:DeleteMessage",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl", _ENTRIES), _BATCH_RESULT),
    ),
    Action(
        "DeleteQueue", st.DeleteQueueRequest, None, delete_queue, queue_of_url, "sqs:DeleteQueue",
        audit=AuditRule("Management", ("QueueUrl",)),
    ),
    Action(
        "GetQueueAttributes", st.GetQueueAttributesRequest, st.GetQueueAttributesResult,
        get_queue_attributes, queue_of_url, "sqs:GetQueueAttributes",
        grantable=True, root_always=True, anonymous=True, read_only=True,
        audit=AuditRule(None, ("QueueUrl", "AttributeNames")),
    ),
    Action(
        "GetQueueUrl", st.GetQueueUrlRequest, st.GetQueueUrlResult,
        get_queue_url, queue_by_name, "sqs:GetQueueUrl",
        grantable=True, root_always=True, anonymous=True, read_only=True,
        audit=AuditRule(None, ("QueueName", "QueueOwnerAWSAccountId")),
    ),
    Action(
        "ListDeadLetterSourceQueues",
        st.ListDeadLetterSourceQueuesRequest, st.ListDeadLetterSourceQueuesResult,
        list_dead_letter_source_queues, queue_of_url, "sqs:ListDeadLetterSourceQueues",
        grantable=True, anonymous=True, read_only=True,
        audit=AuditRule(None, ("QueueUrl", "MaxResults")),
    ),
    Action(
        "ListMessageMoveTasks", st.ListMessageMoveTasksRequest, st.ListMessageMoveTasksResult,
        list_message_move_tasks, source_of_tasks, "sqs:ListMessageMoveTasks",
        read_only=True,
        audit=AuditRule(None, ("SourceArn", "MaxResults")),
    ),
    Action(
        "ListQueueTags", st.ListQueueTagsRequest, st.ListQueueTagsResult,
        list_queue_tags, queue_of_url, "sqs:ListQueueTags",
        read_only=True,
        audit=AuditRule(None, ("QueueUrl",)),
    ),
    Action(
        "ListQueues", st.ListQueuesRequest, st.ListQueuesResult, list_queues, all_queues, "sqs:ListQueues",
        root_always=True, read_only=True,
        audit=AuditRule(None, ("QueueNamePrefix", "MaxResults")),
    ),
    Action(
        "PurgeQueue", st.PurgeQueueRequest, None, purge_queue, queue_of_url, "sqs:PurgeQueue",
        grantable=True, anonymous=True,
        audit=AuditRule("Management", ("QueueUrl",)),
    ),
    Action(
        "ReceiveMessage", st.ReceiveMessageRequest, st.ReceiveMessageResult,
        receive_message, queue_of_url, "sqs:ReceiveMessage",
        grantable=True, anonymous=True, read_only=True, has_effects=True,
        audit=AuditRule(
            "Data",
            ("QueueUrl", "MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds"),
            ("count(Messages) as numberOfMessages",),
        ),
    ),
    Action(
        "RemovePermission", st.RemovePermissionRequest, None,
        remove_permission, queue_of_url, "sqs:RemovePermission",
        root_always=True,
        audit=AuditRule("Management", ("QueueUrl", "Label")),
    ),
    Action(
        "SendMessage", st.SendMessageRequest, st.SendMessageResult,
        send_message, queue_of_url, "sqs:SendMessage",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl", "DelaySeconds"), ("MessageId", "SequenceNumber")),
    ),
    Action(
        "SendMessageBatch", st.SendMessageBatchRequest, st.SendMessageBatchResult,
        send_message_batch, queue_of_url, "sqs:SendMessage",
        grantable=True, anonymous=True,
        audit=AuditRule("Data", ("QueueUrl", _ENTRIES), _BATCH_RESULT),
    ),
    Action(
        "SetQueueAttributes", st.SetQueueAttributesRequest, None,
        set_queue_attributes, queue_of_url, "sqs:SetQueueAttributes",
        root_always=True,
        audit=AuditRule("Management", ("QueueUrl", "Attributes")),
    ),
    Action(
        "StartMessageMoveTask", st.StartMessageMoveTaskRequest, st.StartMessageMoveTaskResult,
        start_message_move_task, source_to_move, "sqs:StartMessageMoveTask",
        audit=AuditRule("Management", ("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond")),
    ),
    Action(
        "TagQueue", st.TagQueueRequest, None, tag_queue, queue_to_tag, "sqs:TagQueue",
        audit=AuditRule("Management", ("QueueUrl", "Tags")),
    ),
    Action(
        "UntagQueue", st.UntagQueueRequest, None, untag_queue, queue_to_untag, "sqs:UntagQueue",
        audit=AuditRule("Management", ("QueueUrl", "TagKeys")),
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}

_FIND = ("sqs:GetQueueUrl", "sqs:GetQueueAttributes")

POLICIES: Mapping[str, tuple[str, ...]] = {
    "sqs-read-only": (
        *_FIND, "sqs:ListQueues", "sqs:ListQueueTags", "sqs:ListDeadLetterSourceQueues", "sqs:ListMessageMoveTasks",
    ),
    "sqs-send": (*_FIND, "sqs:SendMessage"),
    "sqs-receive": (*_FIND, "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"),
    "sqs-full-access": ("sqs:*",),
}  # fmt: skip
"""Built-in policies. Together with those of the other services they are enough for most users."""
