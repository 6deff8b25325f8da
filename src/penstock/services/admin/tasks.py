"""StartTask, ListTasks, GetTask, CancelTask: the same change of all messages of a queue that match a filter."""

from __future__ import annotations

import msgspec

from penstock.broker.bulk_tasks import BulkTaskRecord, BulkTasks, DryRun
from penstock.broker.live_queue import LiveQueue
from penstock.broker.operations import Operation
from penstock.broker.summaries import TaskPlace, TasksQuestion
from penstock.names import Arn, QueueName
from penstock.queues.filters import MessageFilter
from penstock.services.admin.messages import message_filter
from penstock.services.admin.resources import Admin, authorize_any_target, authorize_target, queue_named
from penstock.services.admin.shown import choice_of, limit_of, page_token, read_page_token, wall_time
from penstock.services.admin.structs import (
    AboutTask,
    Cannot,
    Filter,
    ListTasksRequest,
    ListTasksResult,
    StartTaskRequest,
    Task,
)
from penstock.wire.service import Call

_OPERATIONS = tuple(operation.value for operation in Operation)
_TASKS_DEFAULT, TASKS_MAX = 100, 1000


async def start_task(admin: Admin, request: StartTaskRequest, call: Call) -> Task:
    """Change all messages that match a filter, in the background; or say what that would do."""
    queue: LiveQueue = call.resource.queue
    operation = Operation(choice_of(request.operation, "operation", _OPERATIONS))
    wanted = message_filter(request.filter or Filter())
    to = None
    if request.to is not None:
        to = queue_named(request.to, queue.name.account, call)
        await authorize_target(admin, to, call)
    if operation is Operation.REDRIVE:
        await _authorize_redrive(admin, queue, wanted, call)
    tasks = admin.broker.partition_of(queue).bulk_tasks
    if request.dry_run:
        return _shown_dry_run(request, queue, await tasks.dry_run(queue, operation, to, wanted))
    return _whole_task(
        tasks, await tasks.begin(queue, operation, to, wanted, request.rate, by=call.requester)
    )


async def list_tasks(admin: Admin, request: ListTasksRequest, call: Call) -> ListTasksResult:
    """The tasks of all queues, or of one, that run or ran lately; the latest first, in pages."""
    limit = limit_of(request.limit, _TASKS_DEFAULT, TASKS_MAX)
    after = None if request.after is None else read_page_token(request.after, TaskPlace)
    # One more than a page, to see whether there is another one.
    found = await admin.broker.ask(TasksQuestion(call.space, request.queue, limit + 1, after))
    page = found[:limit]
    following = page_token(TaskPlace.of(page[-1])) if len(found) > limit else None
    return ListTasksResult(tasks=[shown_task(task) for task in page], next=following)


async def get_task(admin: Admin, request: AboutTask, call: Call) -> Task:
    """One task with its progress."""
    queue: LiveQueue = call.resource.queue
    tasks = admin.broker.partition_of(queue).bulk_tasks
    return _whole_task(tasks, tasks.get(queue, request.id))


async def cancel_task(admin: Admin, request: AboutTask, call: Call) -> Task:
    """End a running task. What it has done stays done."""
    queue: LiveQueue = call.resource.queue
    return shown_task(await admin.broker.partition_of(queue).bulk_tasks.cancel(queue, request.id))


async def _authorize_redrive(admin: Admin, queue: LiveQueue, wanted: MessageFilter, call: Call) -> None:
    """Dead letters go back to the queues that they say. A caller who may send to some queues only has to name one."""
    if call.principal is None:
        return
    if wanted.source is None:
        authorize_any_target(queue.name, call)
        return
    arn = Arn.parse(wanted.source)
    name = QueueName(queue.name.account, queue.name.region, wanted.source) if arn is None else arn.queue
    await authorize_target(admin, name, call)


def _whole_task(tasks: BulkTasks, task: BulkTaskRecord) -> Task:
    """Shows a task with its whole filter while it runs."""
    shown = shown_task(task)
    if task.is_active and task.filter_cut:
        shown.filter, shown.filter_cut = _shown_filter(tasks.filter_of(task)), None
    return shown


def shown_task(task: BulkTaskRecord) -> Task:
    return Task(
        id=task.id,
        queue=task.queue.name,
        operation=task.operation.value,
        to=None if task.to is None else task.to.name,
        status=task.status.value,
        matched=task.matched,
        done=task.done,
        looked_at=task.looked_at,
        total=task.total,
        cannot=_shown_reasons(task.cannot),
        rate=task.rate,
        started_at=wall_time(task.started_ms),
        ended_at=None if task.ended_ms is None else wall_time(task.ended_ms),
        failure=task.failure,
        filter=_shown_filter(task.filter),
        filter_cut=task.filter_cut or None,
    )


def _shown_dry_run(request: StartTaskRequest, queue: LiveQueue, found: DryRun) -> Task:
    return Task(
        queue=queue.name.name,
        operation=request.operation,
        to=request.to,
        dry_run=True,
        matched=found.matched,
        can=found.can,
        looked_at=found.looked_at,
        cannot=_shown_reasons(found.cannot),
        complete=found.complete,
        filter=request.filter,
    )


def _shown_reasons(cannot: dict[str, int]) -> list[Cannot]:
    """The reasons, the most frequent first."""
    ordered = sorted(cannot.items(), key=lambda each: (-each[1], each[0]))
    return [Cannot(reason=reason, count=count) for reason, count in ordered]


def _shown_filter(wanted: MessageFilter) -> Filter:
    return msgspec.convert(msgspec.to_builtins(wanted), Filter)  # both have the same members
