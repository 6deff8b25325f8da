"""AddPermission and RemovePermission: statements of the queue's policy, by label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.services.sqs.operations import AddPermissionRequest, RemovePermissionRequest
from penstock.services.sqs.policy import check_actions, known_accounts, with_permission, without_permission
from penstock.services.sqs.queue_urls import held_queue
from penstock.services.sqs.validation import check_label, required
from penstock.wire.call import Call
from penstock.wire.faults import missing_parameter

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


async def add_permission(broker: Broker, request: AddPermissionRequest, call: Call) -> None:
    queue = held_queue(broker, request.QueueUrl, call)
    label = required(request.Label, "Label")
    if not request.Actions:
        raise missing_parameter("Actions")
    if not request.AWSAccountIds:
        raise missing_parameter("PrincipalId")
    check_label(label)
    check_actions(request.Actions)
    accounts = known_accounts(request.AWSAccountIds)
    policy = with_permission(queue.settings.policy, queue.name.arn, label, accounts, request.Actions)
    await broker.configure(queue, msgspec.structs.replace(queue.settings, policy=policy))


async def remove_permission(broker: Broker, request: RemovePermissionRequest, call: Call) -> None:
    queue = held_queue(broker, request.QueueUrl, call)
    policy = without_permission(queue.settings.policy, required(request.Label, "Label"))
    await broker.configure(queue, msgspec.structs.replace(queue.settings, policy=policy))
