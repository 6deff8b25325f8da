"""``penstock task``: changes of many messages that grep and dlq redrive have started on the server."""

from __future__ import annotations

import click

from penstock.cli.arguments import QUEUE, queue_argument
from penstock.cli.groups import CommandGroup
from penstock.cli.messages.admin_queue import AdminQueue
from penstock.cli.messages.bulk import could_not, followed_task, report_task
from penstock.cli.output import counted_messages
from penstock.cli.target import Target, with_target
from penstock.cli.times import shown_time
from penstock.client.api import Json, quoted
from penstock.client.queue_names import queue_name

_PAGE = 1000


_MISSING = {
    "create": '"penstock grep" and "penstock dlq redrive" start tasks',
    "set": 'a task cannot be changed: use "penstock task cancel", and start another',
    "delete": 'use "penstock task cancel"; what has ended is forgotten in time',
}


@click.group("task", cls=CommandGroup, missing=_MISSING)
def command() -> None:
    """Changes of many messages that run on the server, as grep and dlq redrive start them. They need Penstock.

    For the move tasks of SQS, see penstock redrive.

    \b
    Examples:
      penstock task ls
      penstock task show orders 0f6c… --wait
      penstock task cancel orders 0f6c…
    """


@command.command("ls")
@click.argument("queue", type=QUEUE, required=False)
@with_target
def list_(target: Target, queue: str | None) -> None:
    """List the tasks that run or ran lately, of all queues or of one, the latest first.

    \b
    Examples:
      penstock task ls
      penstock task ls orders --json | jq 'select(.status == "running") | .id'
    """
    target.need_penstock("task ls")
    query = {"limit": _PAGE} if queue is None else {"limit": _PAGE, "queue": queue_name(queue)}
    tasks = list(target.admin_pages("/tasks", "tasks", query))
    if target.out.as_json:
        target.out.json_lines(tasks)
    elif not tasks:
        target.out.note("no tasks")
    else:
        columns = ["ID", "QUEUE", "OPERATION", "TO", "STATUS", "DONE", "LOOKED AT", "OF", "STARTED"]
        target.out.table(
            columns,
            [
                [
                    task["id"], task["queue"], task["operation"], task.get("to"), task["status"], task["done"],
                    task["looked_at"], task["total"], shown_time(task["started_at"], target.out),
                ]
                for task in tasks
            ],
        )  # fmt: skip


@command.command("show")
@queue_argument
@click.argument("id")
@click.option("--wait", is_flag=True, help="Wait until it has ended, with a progress bar in a terminal.")
@with_target
def show(target: Target, queue: str, id: str, wait: bool) -> None:
    """Show a task of QUEUE: how far it is, and why messages could not be changed.

    Exit code 1 with --wait: it failed or was cancelled.

    \b
    Examples:
      penstock task show orders 0f6c…
      penstock task show orders 0f6c… --wait
    """
    target.need_penstock("task show")
    admin = AdminQueue(target, queue)
    task = admin.call("GET", f"/tasks/{quoted(id)}")
    if wait:
        report_task(target, followed_task(target, admin, task), "done")
    elif target.out.as_json:
        target.out.json(task)
    else:
        _show(target, task)


@command.command("cancel")
@queue_argument
@click.argument("id")
@with_target
def cancel(target: Target, queue: str, id: str) -> None:
    """End a task that runs. What it has done stays done.

    \b
    Examples:
      penstock task cancel orders 0f6c…
    """
    target.need_penstock("task cancel")
    task = AdminQueue(target, queue).call("DELETE", f"/tasks/{quoted(id)}")
    if target.out.as_json:
        target.out.json(task)
    else:
        target.out.line(f"{task['status']} after {counted_messages(task['done'])}")


def _show(target: Target, task: Json) -> None:
    conditions = ", ".join(f"{name} {value}" for name, value in (task.get("filter") or {}).items())
    ended = task.get("ended_at")
    target.out.facts(
        [
            ("id", task["id"]),
            ("operation", f"{task['operation']} of {task['queue']}"),
            ("to", task.get("to")),
            ("conditions", f"{conditions}, and more" if task.get("filter_cut") else conditions or None),
            ("status", task["status"]),
            ("looked at", f"{task['looked_at']} of {task['total']}"),
            ("done", f"{task['done']} of {task['matched']} that match{could_not(task)}"),
            ("rate", f"{task['rate']} a second" if "rate" in task else None),
            ("started", shown_time(task["started_at"], target.out)),
            ("ended", None if ended is None else shown_time(ended, target.out)),
            ("failure", task.get("failure")),
        ]
    )
