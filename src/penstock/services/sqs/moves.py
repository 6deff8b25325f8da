"""StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks.

A task handle is the base64 of a JSON object that names the task and its source, as Amazon's is.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from penstock.errors import QueueMissing
from penstock.names import Arn, QueueName
from penstock.services.sqs.access import check_sending, check_taking, permitted_queue
from penstock.services.sqs.documents import read_object, write
from penstock.services.sqs.faults import resource_missing
from penstock.services.sqs.operations import (
    CancelMessageMoveTaskRequest,
    CancelMessageMoveTaskResult,
    ListMessageMoveTasksRequest,
    ListMessageMoveTasksResult,
    ListMessageMoveTasksResultEntry,
    StartMessageMoveTaskRequest,
    StartMessageMoveTaskResult,
)
from penstock.services.sqs.validation import can_be_queue, required
from penstock.store.changes import MoveTaskRecord
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue

_LISTED_MAX = 10


async def start_message_move_task(
    broker: Broker, request: StartMessageMoveTaskRequest, call: Call
) -> StartMessageMoveTaskResult:
    source_arn = _arn(required(request.SourceArn, "SourceArn"), "SourceArn")
    destination_arn = _arn(request.DestinationArn, "DestinationArn") if request.DestinationArn else None
    rate = request.MaxNumberOfMessagesPerSecond
    _check_between(rate, broker.limits.move_rate_max, "MaxNumberOfMessagesPerSecond")
    source = _source(broker, source_arn, call)
    if destination_arn is None:
        task = await broker.start_move(source, None, rate, _ways_back(broker, source, call))
    else:
        task = await broker.start_move(source, _destination(broker, destination_arn, source, call), rate)
    return StartMessageMoveTaskResult(TaskHandle=_handle(task))


async def cancel_message_move_task(
    broker: Broker, request: CancelMessageMoveTaskRequest, call: Call
) -> CancelMessageMoveTaskResult:
    task_id, source_arn = _read_handle(required(request.TaskHandle, "TaskHandle"))
    source = _source(broker, source_arn, call)
    task = await broker.cancel_move(source, task_id)
    return CancelMessageMoveTaskResult(ApproximateNumberOfMessagesMoved=task.moved)


async def list_message_move_tasks(
    broker: Broker, request: ListMessageMoveTasksRequest, call: Call
) -> ListMessageMoveTasksResult:
    source_arn = _arn(required(request.SourceArn, "SourceArn"), "SourceArn")
    _check_between(request.MaxResults, _LISTED_MAX, "MaxResults")
    source = _source(broker, source_arn, call)
    await broker.settled()
    tasks = broker.moves(source)[: request.MaxResults or 1]
    return ListMessageMoveTasksResult(Results=[_entry(task) for task in tasks] or None)


def _entry(task: MoveTaskRecord) -> ListMessageMoveTasksResultEntry:
    return ListMessageMoveTasksResultEntry(
        TaskHandle=_handle(task) if task.status == "RUNNING" else None,
        Status=task.status,
        SourceArn=task.source.arn,
        DestinationArn=task.destination.arn if task.destination else None,
        MaxNumberOfMessagesPerSecond=task.rate,
        ApproximateNumberOfMessagesMoved=task.moved,
        ApproximateNumberOfMessagesToMove=task.to_move,
        FailureReason=task.failure if task.status == "FAILED" else None,
        StartedTimestamp=task.started_ms,
    )


def _arn(text: str, parameter: str) -> Arn:
    arn = Arn.parse(text)
    if arn is None:
        raise invalid_parameter(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return arn


def _source(broker: Broker, arn: Arn, call: Call) -> LiveQueue:
    try:
        _check_ours(arn, call)
        if call.principal is None:
            return broker.find(arn.queue)
        source = permitted_queue(broker, arn.queue, call)
    except QueueMissing:
        raise resource_missing("SourceArn") from None
    check_taking(source, call)
    return source


def _ways_back(broker: Broker, source: LiveQueue, call: Call) -> frozenset[QueueName] | None:
    """The queues that the caller may send dead letters back to. None on an open server: wherever they came from."""
    if call.principal is None:
        return None
    sources = broker.sources_of(source.name)
    check_sending(broker, sources, call)
    return frozenset(sources)


def _destination(broker: Broker, arn: Arn, source: LiveQueue, call: Call) -> LiveQueue:
    """Where all messages go."""
    try:
        _check_ours(arn, call)
        check_sending(broker, [arn.queue], call)
        destination = broker.find(arn.queue)
    except QueueMissing:
        raise resource_missing("DestinationArn") from None
    if destination.id == source.id:
        raise invalid_parameter("Source queue arn and destination queue arn cannot be the same.")
    if destination.settings.fifo != source.settings.fifo:
        raise invalid_parameter("The source queue and destination queue must be of the same queue type.")
    return destination


def _check_ours(arn: Arn, call: Call) -> None:
    if arn.service != "sqs" or arn.queue.space != call.space or not can_be_queue(arn.account, arn.resource):
        raise QueueMissing


def _check_between(value: int | None, high: int, parameter: str) -> None:
    if value is not None and not 1 <= value <= high:
        raise invalid_parameter(
            f"Value for parameter {parameter} is invalid. "
            f"Reason: You must enter a number that's between 1 and {high}."
        )


def _handle(task: MoveTaskRecord) -> str:
    return base64.b64encode(write({"taskId": task.id, "sourceArn": task.source.arn}).encode()).decode()


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
