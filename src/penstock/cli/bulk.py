"""Changes of many messages by a filter: a count first, a question, then a task on the server with its progress."""

from __future__ import annotations

import time
from typing import Any

from penstock.cli.admin_queue import AdminQueue
from penstock.cli.failure import Breakdown
from penstock.cli.target import Target
from penstock.client.api import quoted

Json = dict[str, Any]
_POLL_S = 0.3


def counted(admin: AdminQueue, operation: str, chosen: Json, to: str | None) -> Json:
    """What the task would do. Nothing is changed."""
    return admin.call("POST", "/tasks", body=_request(operation, chosen, to, None) | {"dry_run": True})


def describe(dry_run: Json) -> str:
    """In one sentence: how many match, how many can, and why others cannot."""
    more = "" if dry_run.get("complete", True) else " so far: not all messages were counted"
    text = f"{_messages(dry_run['matched'])} of {dry_run['looked_at']} match{more}"
    for each in dry_run["cannot"]:
        text += f", {each['count']} cannot ({each['reason']})"
    return text


def run_task(
    target: Target,
    admin: AdminQueue,
    operation: str,
    chosen: Json,
    *,
    to: str | None,
    rate: float | None,
    wait: bool,
) -> Json:
    """Starts it, and unless told otherwise waits until it ends. The task goes on if this command is interrupted."""
    task = admin.call("POST", "/tasks", body=_request(operation, chosen, to, rate))
    if not wait:
        return task
    path = f"/tasks/{quoted(task['id'])}"
    with target.out.progress(operation, task.get("total")) as progress:
        while task["status"] == "running":
            time.sleep(_POLL_S)
            task = admin.call("GET", path)
            progress(task["looked_at"])
    return task


def report(target: Target, task: Json, done: str) -> None:
    """``done``: what happened to the messages, "deleted"."""
    if target.out.as_json:
        target.out.json(task)
    elif task["status"] == "running":
        target.out.line(f"task {task['id']} is running")
    else:
        cannot = "".join(f", {each['count']} could not ({each['reason']})" for each in task["cannot"])
        target.out.line(f"{_messages(task['done'])} {done}{cannot}")
    if task["status"] in ("failed", "cancelled"):
        why = f": {task['failure']}" if task.get("failure") else ""
        raise Breakdown(f"the task {task['status']}{why}")


def _request(operation: str, chosen: Json, to: str | None, rate: float | None) -> Json:
    request: Json = {"operation": operation, "filter": chosen}
    if to is not None:
        request["to"] = to
    if rate is not None:
        request["rate"] = max(1, round(rate))
    return request


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
