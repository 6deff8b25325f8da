"""Changes of many messages by a filter: a count first, a question, then a task on the server with its progress."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from penstock.cli.arguments import RATE, yes_option
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.messages.admin_queue import AdminQueue
from penstock.cli.output import counted_messages
from penstock.cli.target import Target
from penstock.client.api import Json, quoted

_POLL_S = 0.3


class TaskFlags(NamedTuple):
    rate: float | None
    dry_run: bool
    no_wait: bool
    yes: bool


def with_task_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags of a task; passes them as ``task``."""

    @functools.wraps(function)
    def run(rate: float | None, dry_run: bool, no_wait: bool, yes: bool, **arguments: Any) -> Any:
        return function(task=TaskFlags(rate, dry_run, no_wait, yes), **arguments)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def change_matching(
    target: Target, admin: AdminQueue, operation: str, chosen: Json, to: str | None, flags: TaskFlags,
    *, question: str, done: str,
) -> None:  # fmt: skip
    """``done``: what then has happened to the messages, "deleted". Exit code 1: no message matches, or none can."""
    if flags.rate is not None and flags.rate < 1:
        raise Failure("a task changes at least one message a second: give --rate 1 or more")
    request: Json = {"operation": operation, "filter": chosen, **({} if to is None else {"to": to})}
    found = admin.call("POST", "/tasks", body=request | {"dry_run": True})
    if not found["complete"]:
        found["matched"] = _matching(target, admin, chosen)
    if flags.dry_run:
        target.out.json(found) if target.out.as_json else target.out.line(_counted(found))
        return
    target.out.note(_counted(found))
    if not found["can"] and (found["complete"] or not found["matched"]):
        raise SystemExit(1)
    target.out.confirm(question, flags.yes)
    if flags.rate is not None:
        request["rate"] = round(flags.rate)
    task = admin.call("POST", "/tasks", body=request)
    report_task(target, task if flags.no_wait else followed_task(target, admin, task), done)


def _matching(target: Target, admin: AdminQueue, chosen: Json) -> int:
    """Counts all of them. A dry run ends early in a long queue, but a question has to name the number."""
    count = 0
    with target.out.progress("counting") as progress:
        for page, _ in admin.pages({**chosen, "body_bytes": 0}):
            count += len(page)
            progress(count)
    return count


def _counted(dry_run: Json) -> str:
    """Says in one line how many match, and why some of them cannot be changed."""
    matched, looked_at = dry_run["matched"], dry_run["looked_at"]
    verb = "matches" if matched == 1 else "match"
    cannot = "".join(f", {each['count']} cannot ({each['reason']})" for each in dry_run["cannot"])
    if dry_run["complete"]:
        return f"{counted_messages(matched)} of {looked_at} {verb}{cannot}"
    return f"{counted_messages(matched)} {verb}" + (
        f"; of the first {looked_at} in the queue{cannot}" if cannot else ""
    )


def followed_task(target: Target, admin: AdminQueue, task: Json) -> Json:
    """The task when it has ended."""
    path = f"/tasks/{quoted(task['id'])}"
    try:
        with target.out.progress(task["operation"], task.get("total")) as progress:
            while task["status"] == "running":
                progress(task["looked_at"])
                time.sleep(_POLL_S)
                task = admin.call("GET", path)
    except KeyboardInterrupt:
        target.out.note(f"the task continues; to end it: penstock task cancel {admin.name} {task['id']}")
        raise
    return task


def report_task(target: Target, task: Json, done: str) -> None:
    """Prints how it has ended, or that it runs. ``done``: what has happened to its messages."""
    if target.out.as_json:
        target.out.json(task)
    elif task["status"] == "running":
        target.out.line(f"task {task['id']} is running")
    else:
        target.out.line(f"{counted_messages(task['done'])} {done}{could_not(task)}")
    if task["status"] == "failed":
        raise Breakdown(f"the task failed: {task.get('failure')}")
    if task["status"] == "cancelled":
        raise Breakdown("the task was cancelled")


def could_not(task: Json) -> str:
    return "".join(f", {each['count']} could not ({each['reason']})" for each in task["cannot"])


_OPTIONS = (
    click.option("--rate", type=RATE, metavar="RATE", help="Change at most this many messages a second."),
    click.option("--dry-run", is_flag=True, help="Only say how many messages match, and how many cannot."),
    click.option("--no-wait", is_flag=True, help="Return when the task has started."),
    yes_option,
)
