"""``penstock dlq``: dead-letter queues, what is in them and why, and the way back."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.arguments import queue_argument, short_duration
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.messages.admin_queue import AdminQueue, chosen, with_filter
from penstock.cli.messages.bulk import TaskFlags, change_matching, with_task_flags
from penstock.cli.output import counted_messages
from penstock.cli.queues.facts import list_queues, messages_in, queue_facts
from penstock.cli.queues.redrive import move_all
from penstock.cli.target import Target, with_target
from penstock.cli.times import age_s, shown_time
from penstock.client.api import Json
from penstock.client.queue_names import queue_name

_KEYS = ("source", "reason", "age")
_AGES = ((3600, "under 1h"), (86_400, "1h to 1d"), (7 * 86_400, "1d to 7d"))
_OLDER = "over 7d"
_HEADINGS = {"age": "SENT"}
_SOURCES = "the queues that they came from"


_MISSING = {
    "create": 'a dead-letter queue is a queue like others: use "penstock queue create", and name it with '
    '"penstock queue set SOURCE --dead-letter-queue"',
    "set": 'use "penstock queue set"',
    "delete": 'use "penstock queue delete" for a queue, and "penstock queue purge" for its messages',
}


@click.group("dlq", cls=CommandGroup, missing=_MISSING, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Dead-letter queues: what is in them and why, and the way back. Without a command: ls.

    \b
    Examples:
      penstock dlq ls
      penstock dlq show orders-dlq
      penstock dlq redrive orders-dlq --source orders --older-than 1h --rate 50
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, endpoint_url=None, context=None, profile=None, region=None, as_json=False)


@command.command("ls")
@with_target
def list_(target: Target) -> None:
    """List all dead-letter queues with their sources, the number of messages, and the age of the oldest.

    OLDEST is counted from the arrival in the dead-letter queue, as everywhere.

    \b
    Examples:
      penstock dlq ls
      penstock dlq ls --json | jq 'select(.messages > 0)'
    """
    rows = [_summary(queue_facts(target, queue["arn"])) for queue in list_queues(target, kind="dlq")]
    if target.out.as_json:
        target.out.json_lines(rows)
        return
    if not rows:
        target.out.note("no dead-letter queues")
        return
    target.out.table(
        ["QUEUE", "MESSAGES", "OLDEST", "SOURCES"],
        [
            [row["name"], row["messages"], short_duration(row.get("oldest_age_s")), ", ".join(row["sources"])]
            for row in rows
        ],
    )


def _summary(queue: Json) -> Json:
    summary = {"name": queue["name"], "messages": messages_in(queue)}
    if "oldest_age_s" in queue:  # Amazon SQS does not tell it
        summary["oldest_age_s"] = queue["oldest_age_s"]
    return summary | {"sources": queue.get("sources") or []}


@command.command("show")
@queue_argument
@with_filter
@click.option(
    "--by", "keys", multiple=True, type=click.Choice(_KEYS), help="Group by this only. Can be repeated."
)
@with_target
def show(target: Target, queue: str, keys: tuple[str, ...], **flags: Any) -> None:
    """Show the messages of a dead-letter queue in groups: by source, reported reason and age.

    The reason is what a consumer has reported for the message last. Times are those of the first send; SENT is how
    long ago it was. How long messages have been in the dead-letter queue is OLDEST of "penstock dlq ls". EXAMPLE is
    the message of a group that was sent first.

    \b
    Examples:
      penstock dlq show orders-dlq
      penstock dlq show orders-dlq --by reason
      penstock dlq show orders-dlq --source orders --younger-than 1d --json
    """
    target.need_penstock("dlq show")
    by = [key for key in _KEYS if key in keys] or list(_KEYS)
    groups: dict[tuple[str, ...], Json] = {}
    for message in AdminQueue(target, queue).messages({**chosen(flags), "body_bytes": 0}):
        facts = _facts(message)
        since = message["enqueued_at"]
        group = groups.setdefault(
            tuple(facts[key] for key in by),
            {**{key: facts[key] for key in by}, "count": 0, "first_sent_at": since, "last_sent_at": since},
        )
        group["count"] += 1
        group["last_sent_at"] = max(group["last_sent_at"], since)
        if since <= group["first_sent_at"]:
            group |= {"first_sent_at": since, "example": message["id"]}
    rows = sorted(groups.values(), key=lambda group: (-group["count"], group["first_sent_at"]))
    if target.out.as_json:
        target.out.json_lines(rows)
        return
    if not rows:
        target.out.note("no messages")
        return
    target.out.table(
        [*(_HEADINGS.get(key, key.upper()) for key in by), "COUNT", "FIRST SENT", "LAST SENT", "EXAMPLE"],
        [
            [
                *(row[key] for key in by), row["count"], shown_time(row["first_sent_at"], target.out),
                shown_time(row["last_sent_at"], target.out), row["example"],
            ]
            for row in rows
        ],
    )  # fmt: skip


def _facts(message: Json) -> dict[str, str]:
    age = age_s(message["enqueued_at"])
    return {
        "source": queue_name(message["source"]) if "source" in message else "-",
        "reason": message["failure"]["reason"] if "failure" in message else "-",
        "age": next((name for limit, name in _AGES if age < limit), _OLDER),
    }


@command.command("redrive")
@queue_argument
@with_filter
@click.option("--to", metavar="QUEUE", help="Move them here, instead of to the queues that they came from.")
@with_task_flags
@with_target
def redrive(target: Target, queue: str, to: str | None, task: TaskFlags, **flags: Any) -> None:
    """Send the messages of a dead-letter queue back to where they came from, all or those that a filter chooses.

    It counts first and asks. The server then does it as a task, which continues if this command is interrupted.
    Without a filter it is a move task of SQS, which works with Amazon SQS, too.

    \b
    Examples:
      penstock dlq redrive orders-dlq
      penstock dlq redrive orders-dlq --where '$.error = "timeout"' --dry-run
      penstock dlq redrive orders-dlq --source orders --rate 50 --yes
      penstock dlq redrive orders-dlq --min-receives 3 --to orders-manual
    """
    filter = chosen(flags)
    if filter:
        target.need_penstock("dlq redrive with a filter")
        admin = AdminQueue(target, queue)
        other = admin.target_name(to) if to else None
        change_matching(
            target, admin, "move" if other else "redrive", filter, other, task,
            question=f"Move them to {other or _SOURCES}?", done=f"moved {f'to {other}' if other else 'back'}",
        )  # fmt: skip
        return
    facts = queue_facts(target, queue)
    name, count = queue_name(queue), messages_in(facts)
    if not facts.get("sources"):
        raise Failure(
            f"{name} is not the dead-letter queue of any queue: move messages with penstock grep --move-to"
        )
    if task.dry_run or not count:
        if target.out.as_json:
            target.out.json({"matched": count})
        else:
            target.out.line(counted_messages(count))
        return
    where = queue_name(to) if to else _SOURCES
    target.out.confirm(f"Move {counted_messages(count)} of {name} to {where}?", task.yes)
    move_all(target, queue, to, task.rate, wait=not task.no_wait)
