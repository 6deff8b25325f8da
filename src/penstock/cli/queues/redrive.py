"""``penstock redrive``: the message move tasks of SQS."""

from __future__ import annotations

import time

import click

from penstock.cli.arguments import QUEUE, RATE, queue_argument
from penstock.cli.failure import Breakdown
from penstock.cli.groups import CommandGroup
from penstock.cli.output import counted_messages
from penstock.cli.queues.facts import list_queues, queue_arn
from penstock.cli.target import Target, with_target
from penstock.cli.times import rfc3339, shown_time
from penstock.client.api import Json
from penstock.client.queue_names import queue_name
from penstock.clock import real_s

_POLL_S = 0.3
_TASKS_MAX = 10  # that SQS lists of a queue


_MISSING = {
    "create": 'use "penstock redrive start"',
    "set": 'a task cannot be changed: use "penstock redrive cancel", then "penstock redrive start"',
    "delete": 'use "penstock redrive cancel"; what has ended is forgotten in time',
}


@click.group("redrive", cls=CommandGroup, missing=_MISSING)
def command() -> None:
    """Move all messages of a dead-letter queue back to where they came from, or to another queue.

    To redrive some of the messages only, use "penstock dlq redrive" or "penstock grep".

    \b
    Examples:
      penstock redrive start orders-dlq --wait
      penstock redrive ls
      penstock redrive show orders-dlq
      penstock redrive cancel orders-dlq
    """


@command.command("start")
@queue_argument
@click.option(
    "--to", type=QUEUE, metavar="QUEUE", help="Where to. Default: to the queue that each came from."
)
@click.option(
    "--rate", type=RATE, metavar="RATE", help="At most this many messages a second; SQS: at most 500."
)
@click.option("--wait", is_flag=True, help="Wait until all are moved, with a progress bar in a terminal.")
@with_target
def start(target: Target, queue: str, to: str | None, rate: float | None, wait: bool) -> None:
    """Start to move all messages of a dead-letter queue. The server continues if this command ends.

    Exit code 1 with --wait: the task failed or was cancelled.

    \b
    Examples:
      penstock redrive start orders-dlq
      penstock redrive start orders-dlq --wait --rate 50/s
      penstock redrive start orders-dlq --to orders-inspection
    """
    move_all(target, queue, to, rate, wait=wait)


def move_all(target: Target, queue: str, to: str | None, rate: float | None, *, wait: bool) -> None:
    """Starts a task and says so, or waits until it has ended and says how."""
    source = queue_arn(target, queue)
    handle = target.sqs(
        "StartMessageMoveTask",
        SourceArn=source,
        DestinationArn=None if to is None else queue_arn(target, to),
        MaxNumberOfMessagesPerSecond=None if rate is None else max(1, round(rate)),
    )["TaskHandle"]
    if wait:
        _report_end(target, _followed(target, source, handle))
        return
    task = _latest(target, source, handle)
    if target.out.as_json:
        target.out.json(_shown(task))
    else:
        target.out.line(f"started to move {_about(task)} of {queue_name(source)}")


def _report_end(target: Target, task: Json) -> None:
    if target.out.as_json:
        target.out.json(_shown(task))
    else:
        moved = counted_messages(task.get("ApproximateNumberOfMessagesMoved", 0))
        target.out.line(f"{task['Status'].lower()}: {moved} moved")
    if task["Status"] != "COMPLETED":
        reason = f": {task['FailureReason']}" if task.get("FailureReason") else ""
        raise Breakdown(f"the task is {task['Status'].lower()}{reason}")


@command.command("ls")
@click.argument("queue", type=QUEUE, required=False)
@with_target
def ls(target: Target, queue: str | None) -> None:
    """List the tasks of a dead-letter queue, or of all of them, the latest first.

    \b
    Examples:
      penstock redrive ls
      penstock redrive ls orders-dlq --json | jq -r .status
    """
    if queue is not None:
        sources = [queue_arn(target, queue)]
    else:
        sources = [each["arn"] for each in list_queues(target, kind="dlq")]
    tasks = [task for source in sources for task in _tasks(target, source)]
    if target.out.as_json:
        target.out.json_lines(map(_shown, tasks))
    elif not tasks:
        target.out.note("no tasks")
    else:
        target.out.table(
            ["QUEUE", "STATUS", "MOVED", "OF ABOUT", "TO", "RATE", "STARTED", "FAILURE"],
            (
                [
                    shown["queue"], shown["status"], shown["done"], shown["total"], shown.get("to", "sources"),
                    shown.get("rate"), shown_time(shown["started_at"], target.out), shown.get("failure"),
                ]
                for shown in map(_shown, tasks)
            ),
        )  # fmt: skip


@command.command("show")
@queue_argument
@click.option("--wait", is_flag=True, help="Wait until it has ended, with a progress bar in a terminal.")
@with_target
def show(target: Target, queue: str, wait: bool) -> None:
    """Show the latest task of a dead-letter queue: how far it is, and why it failed.

    Exit code 1 with --wait: it failed or was cancelled.

    \b
    Examples:
      penstock redrive show orders-dlq
      penstock redrive show orders-dlq --wait
    """
    source = queue_arn(target, queue)
    tasks = _tasks(target, source)
    if not tasks:
        raise Breakdown(f"there is no task of {queue_name(source)}")
    task = tasks[0]
    if wait:
        # Only a running task has a handle; one that has ended or is being cancelled is found as the latest.
        _report_end(target, _followed(target, source, task.get("TaskHandle", "")))
        return
    shown = _shown(task)
    if target.out.as_json:
        target.out.json(shown)
        return
    total = shown.get("total")
    target.out.facts(
        [
            ("queue", shown["queue"]),
            ("to", shown.get("to", "the queues that each came from")),
            ("status", shown["status"]),
            ("moved", f"{shown['done']}" if total is None else f"{shown['done']} of about {total}"),
            ("rate", f"{shown['rate']} a second" if "rate" in shown else None),
            ("started", shown_time(shown["started_at"], target.out)),
            ("failure", shown.get("failure")),
        ]
    )


@command.command("cancel")
@queue_argument
@with_target
def cancel(target: Target, queue: str) -> None:
    """Cancel the running task of a dead-letter queue. Messages that were moved stay where they are.

    \b
    Examples:
      penstock redrive cancel orders-dlq
    """
    source = queue_arn(target, queue)
    handle = next(
        (task["TaskHandle"] for task in _tasks(target, source) if task["Status"] == "RUNNING"), None
    )
    if handle is None:
        raise Breakdown(f"no task of {queue_name(source)} is running")
    moved = target.sqs("CancelMessageMoveTask", TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    if target.out.as_json:
        target.out.json({"queue": queue_name(source), "status": "cancelling", "done": moved})
    else:
        target.out.line(f"cancelled after {counted_messages(moved)}")


def _tasks(target: Target, source: str) -> list[Json]:
    answer = target.sqs("ListMessageMoveTasks", SourceArn=source, MaxResults=_TASKS_MAX)
    return answer.get("Results") or []


def _latest(target: Target, source: str, handle: str) -> Json:
    """The task as it is. Only a running one has a handle: without it, the task is the one that ended last."""
    # SQS: a task may be listed a moment after it was started.
    started = {"SourceArn": source, "Status": "RUNNING", "StartedTimestamp": real_s() * 1000}
    tasks = [*_tasks(target, source), started]
    return next((task for task in tasks if task.get("TaskHandle") == handle), tasks[0])


def _followed(target: Target, source: str, handle: str) -> Json:
    task = _latest(target, source, handle)
    total = task.get("ApproximateNumberOfMessagesToMove")
    with target.out.progress(f"redrive {queue_name(source)}", total) as progress:
        while task["Status"] in ("RUNNING", "CANCELLING"):
            progress(task.get("ApproximateNumberOfMessagesMoved", 0))
            time.sleep(_POLL_S)
            task = _latest(target, source, handle)
    return task


def _about(task: Json) -> str:
    total = task.get("ApproximateNumberOfMessagesToMove")
    return "the messages" if total is None else counted_messages(total)


def _shown(task: Json) -> Json:
    """Describes a task in the words of the admin API."""
    shown = {
        "queue": queue_name(task["SourceArn"]),
        "operation": "redrive",
        "status": task["Status"].lower(),
        "done": task.get("ApproximateNumberOfMessagesMoved", 0),
        "total": task.get("ApproximateNumberOfMessagesToMove"),
        "started_at": rfc3339(task["StartedTimestamp"] / 1000),
        "to": queue_name(task["DestinationArn"]) if "DestinationArn" in task else None,
        "rate": task.get("MaxNumberOfMessagesPerSecond"),
        "failure": task.get("FailureReason"),
        "id": task.get("TaskHandle"),
    }
    return {name: value for name, value in shown.items() if value is not None}
