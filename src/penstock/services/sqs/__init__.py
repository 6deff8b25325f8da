"""The face of Amazon SQS: what its clients say and hear, on top of the broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.auth.policy.facts import SQS_OWNER_ONLY
from penstock.services.sqs import batches, messages, moves, permissions, queues, tags
from penstock.services.sqs import operations as op
from penstock.services.sqs.faults import to_fault
from penstock.services.sqs.queues import create_queue
from penstock.wire.service import Action, Service

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

__all__ = ["ACTIONS", "create_queue", "sqs_service"]

_Handler = Callable[[Any, Any, Any], Coroutine[Any, None, Any]]
_Action = tuple[type[msgspec.Struct], type[msgspec.Struct] | None, _Handler]

ACTIONS: dict[str, _Action] = {
    "AddPermission": (op.AddPermissionRequest, None, permissions.add_permission),
    "CancelMessageMoveTask": (
        op.CancelMessageMoveTaskRequest,
        op.CancelMessageMoveTaskResult,
        moves.cancel_message_move_task,
    ),
    "ChangeMessageVisibility": (op.ChangeMessageVisibilityRequest, None, messages.change_message_visibility),
    "ChangeMessageVisibilityBatch": (
        op.ChangeMessageVisibilityBatchRequest,
        op.ChangeMessageVisibilityBatchResult,
        batches.change_message_visibility_batch,
    ),
    "CreateQueue": (op.CreateQueueRequest, op.CreateQueueResult, queues.create_queue_action),
    "DeleteMessage": (op.DeleteMessageRequest, None, messages.delete_message),
    "DeleteMessageBatch": (
        op.DeleteMessageBatchRequest,
        op.DeleteMessageBatchResult,
        batches.delete_message_batch,
    ),
    "DeleteQueue": (op.DeleteQueueRequest, None, queues.delete_queue),
    "GetQueueAttributes": (
        op.GetQueueAttributesRequest,
        op.GetQueueAttributesResult,
        queues.get_queue_attributes,
    ),
    "GetQueueUrl": (op.GetQueueUrlRequest, op.GetQueueUrlResult, queues.get_queue_url),
    "ListDeadLetterSourceQueues": (
        op.ListDeadLetterSourceQueuesRequest,
        op.ListDeadLetterSourceQueuesResult,
        queues.list_dead_letter_source_queues,
    ),
    "ListMessageMoveTasks": (
        op.ListMessageMoveTasksRequest,
        op.ListMessageMoveTasksResult,
        moves.list_message_move_tasks,
    ),
    "ListQueueTags": (op.ListQueueTagsRequest, op.ListQueueTagsResult, tags.list_queue_tags),
    "ListQueues": (op.ListQueuesRequest, op.ListQueuesResult, queues.list_queues),
    "PurgeQueue": (op.PurgeQueueRequest, None, queues.purge_queue),
    "ReceiveMessage": (op.ReceiveMessageRequest, op.ReceiveMessageResult, messages.receive_message),
    "RemovePermission": (op.RemovePermissionRequest, None, permissions.remove_permission),
    "SendMessage": (op.SendMessageRequest, op.SendMessageResult, messages.send_message),
    "SendMessageBatch": (op.SendMessageBatchRequest, op.SendMessageBatchResult, batches.send_message_batch),
    "SetQueueAttributes": (op.SetQueueAttributesRequest, None, queues.set_queue_attributes),
    "StartMessageMoveTask": (
        op.StartMessageMoveTaskRequest,
        op.StartMessageMoveTaskResult,
        moves.start_message_move_task,
    ),
    "TagQueue": (op.TagQueueRequest, None, tags.tag_queue),
    "UntagQueue": (op.UntagQueueRequest, None, tags.untag_queue),
}


def sqs_service(broker: Broker) -> Service:
    return Service(
        signing_name="sqs",
        target_prefix="AmazonSQS",
        shape_namespace="com.amazonaws.sqs",
        xml_namespace="http://queue.amazonaws.com/doc/2012-11-05/",
        actions={
            name: Action(name, request, response, handler, anonymous=name not in SQS_OWNER_ONLY)
            for name, (request, response, handler) in ACTIONS.items()
        },
        to_fault=to_fault,
        context=broker,
    )
