"""StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks.

SQS: a task handle is the base64 of a JSON object that names the task and its source.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from penstock.auth.authorize import authorize, authorize_send
from penstock.broker.move_tasks import MoveFailure, MoveTaskRecord
from penstock.broker.other_shards import SourcesQuestion
from penstock.names import Arn, QueueName
from penstock.services.sqs.faults import resource_missing
from penstock.services.sqs.limits import MOVE_TASKS_LISTED_MAX
from penstock.services.sqs.redrive import read_object, write_object
from penstock.services.sqs.resources import (
    AbsentQueue,
    QueueResource,
    Sqs,
    can_exist,
    queue_of_any_shard,
    queue_resource,
)
from penstock.services.sqs.structs import (
    CancelMessageMoveTaskRequest,
    CancelMessageMoveTaskResult,
    ListMessageMoveTasksRequest,
    ListMessageMoveTasksResult,
    ListMessageMoveTasksResultEntry,
    StartMessageMoveTaskRequest,
    StartMessageMoveTaskResult,
)
from penstock.services.sqs.validation import required
from penstock.wire.faults import invalid_parameter
from penstock.wire.service import Call

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

_TO_TAKE_MESSAGES = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


def source_to_move(sqs: Sqs, request: StartMessageMoveTaskRequest, call: Call) -> QueueResource | AbsentQueue:
    source = _arn(required(request.SourceArn, "SourceArn"), "SourceArn")
    if request.DestinationArn:
        _arn(request.DestinationArn, "DestinationArn")
    rate = request.MaxNumberOfMessagesPerSecond
    _check_between(rate, sqs.broker.limits.move_rate_max, "MaxNumberOfMessagesPerSecond")
    return _queue(sqs, source, call, "SourceArn")


async def start_message_move_task(
    sqs: Sqs, request: StartMessageMoveTaskRequest, call: Call
) -> StartMessageMoveTaskResult:
    source, rate = _permitted_source(sqs, call), request.MaxNumberOfMessagesPerSecond
    if request.DestinationArn:
        destination = await _destination(sqs, _arn(request.DestinationArn, "DestinationArn"), source, call)
        task = await sqs.broker.partition_of(source).moves.begin(source, destination, rate)
    else:
        sources = await _permitted_sources(sqs, source, call)
        task = await sqs.broker.partition_of(source).moves.begin(source, None, rate, sources)
    return StartMessageMoveTaskResult(TaskHandle=_handle(task))


def source_of_handle(
    sqs: Sqs, request: CancelMessageMoveTaskRequest, call: Call
) -> QueueResource | AbsentQueue:
    _, source = _read_handle(required(request.TaskHandle, "TaskHandle"))
    return _queue(sqs, source, call, "SourceArn")


async def cancel_message_move_task(
    sqs: Sqs, request: CancelMessageMoveTaskRequest, call: Call
) -> CancelMessageMoveTaskResult:
    source = _permitted_source(sqs, call)
    task_id, _ = _read_handle(required(request.TaskHandle, "TaskHandle"))
    task = await sqs.broker.partition_of(source).moves.cancel(source, task_id)
    return CancelMessageMoveTaskResult(ApproximateNumberOfMessagesMoved=task.moved)


def source_of_tasks(
    sqs: Sqs, request: ListMessageMoveTasksRequest, call: Call
) -> QueueResource | AbsentQueue:
    source = _arn(required(request.SourceArn, "SourceArn"), "SourceArn")
    _check_between(request.MaxResults, MOVE_TASKS_LISTED_MAX, "MaxResults")
    return _queue(sqs, source, call, "SourceArn")


async def list_message_move_tasks(
    sqs: Sqs, request: ListMessageMoveTasksRequest, call: Call
) -> ListMessageMoveTasksResult:
    source = _permitted_source(sqs, call)
    await source.shard.settled()
    tasks = sqs.broker.partition_of(source).moves.of(source)[: request.MaxResults or 1]
    return ListMessageMoveTasksResult(Results=[_entry(task) for task in tasks] or None)


_FAILURE_REASONS: dict[str, str] = {
    MoveFailure.DESTINATION_MISSING: "AWS.SimpleQueueService.NonExistentQueue",
    MoveFailure.SOURCE_UNKNOWN: "CouldNotDetermineMessageSource",
    MoveFailure.NOT_PERMITTED: "AccessDenied",
    MoveFailure.KEY_DISABLED: "KMS.DisabledException",
    MoveFailure.KEY_MISSING: "KMS.NotFoundException",
    MoveFailure.INTERNAL: "InternalError",
}


def _entry(task: MoveTaskRecord) -> ListMessageMoveTasksResultEntry:
    return ListMessageMoveTasksResultEntry(
        TaskHandle=_handle(task) if task.status == "RUNNING" else None,
        Status=task.status,
        SourceArn=task.source.arn,
        DestinationArn=task.destination.arn if task.destination else None,
        MaxNumberOfMessagesPerSecond=task.rate,
        ApproximateNumberOfMessagesMoved=task.moved,
        ApproximateNumberOfMessagesToMove=task.to_move,
        FailureReason=_failure_reason(task.failure) if task.status == "FAILED" else None,
        StartedTimestamp=task.started_ms,
    )


def _failure_reason(failure: str | None) -> str | None:
    # Tasks of earlier versions are stored with the words of SQS.
    return None if failure is None else _FAILURE_REASONS.get(failure, failure)


def _arn(text: str, parameter: str) -> Arn:
    arn = Arn.parse(text)
    if arn is None:
        raise invalid_parameter(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return arn


def _queue(sqs: Sqs, arn: Arn, call: Call, parameter: str) -> QueueResource | AbsentQueue:
    return queue_resource(sqs, _queue_name(arn, call, parameter), missing=resource_missing(parameter))


def _queue_name(arn: Arn, call: Call, parameter: str) -> QueueName:
    if arn.service != "sqs" or arn.queue.space != call.space or not can_exist(arn.queue):
        raise resource_missing(parameter)
    return arn.queue


def _permitted_source(sqs: Sqs, call: Call) -> LiveQueue:
    """SQS: a caller that moves messages out of a queue must be allowed to take them from there."""
    source: LiveQueue = call.resource.queue
    for action in _TO_TAKE_MESSAGES:
        authorize(call, sqs.actions[action], call.resource)
    return source


async def _permitted_sources(sqs: Sqs, dead_letters: LiveQueue, call: Call) -> frozenset[QueueName] | None:
    """The queues that messages may go back to. None on an open server: wherever they came from."""
    if call.principal is None:
        return None
    sources = await sqs.broker.ask(SourcesQuestion(dead_letters.name))
    for name in sources:
        authorize_send(call, await queue_of_any_shard(sqs, name))
    return frozenset(sources)


async def _destination(sqs: Sqs, arn: Arn, source: LiveQueue, call: Call) -> QueueName:
    name = _queue_name(arn, call, "DestinationArn")
    resource = await queue_of_any_shard(sqs, name, missing=resource_missing("DestinationArn"))
    authorize_send(call, resource)
    settings = resource.queue.settings
    if name == source.name:
        raise invalid_parameter("Source queue arn and destination queue arn cannot be the same.")
    if settings.fifo != source.settings.fifo:
        raise invalid_parameter("The source queue and destination queue must be of the same queue type.")
    return name


def _check_between(value: int | None, high: int, parameter: str) -> None:
    if value is not None and not 1 <= value <= high:
        raise invalid_parameter(
            f"Value for parameter {parameter} is invalid. "
            f"Reason: You must enter a number that's between 1 and {high}."
        )


def _handle(task: MoveTaskRecord) -> str:
    return base64.b64encode(write_object({"taskId": task.id, "sourceArn": task.source.arn}).encode()).decode()


def _read_handle(handle: str) -> tuple[str, Arn]:
    try:
        document = read_object(base64.b64decode(handle, validate=True)) or {}
    except ValueError:
        document = {}
    task_id, source = document.get("taskId"), document.get("sourceArn")
    arn = Arn.parse(source) if isinstance(source, str) else None
    if not isinstance(task_id, str) or arn is None:
        raise invalid_parameter("Value for parameter TaskHandle is invalid.")
    return task_id, arn
