"""``penstock message``: send, receive, look at and change messages."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from penstock.cli.arguments import DURATION, id_argument, queue_argument
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.messages import changes, send
from penstock.cli.messages.admin_queue import AdminQueue, as_listed, chosen, with_filter
from penstock.cli.messages.view import show_message, show_messages, shown_attributes
from penstock.cli.output import safe
from penstock.cli.target import Target, with_target
from penstock.cli.times import shown_time
from penstock.client.api import ApiError, Json, quoted
from penstock.client.limits import ENTRIES_MAX, WAIT_S_MAX

_MISSING = {"create": 'use "penstock message send"'}


@click.group("message", cls=CommandGroup, missing=_MISSING, aliases={"edit": "set"})
def command() -> None:
    """Send, receive, look at and change messages.

    QUEUE is a name, a URL or an ARN. ls, peek, show and trace change nothing, and do not count as a receive: they,
    and all changes of a message, need Penstock. send and receive work with Amazon SQS, too.

    \b
    Examples:
      penstock message send orders '{"id": 7}'
      penstock message ls orders --state in_flight
      penstock message show orders 2f1c7e6a-…
      penstock message set orders 2f1c7e6a-…
    """


for each in (send.send, *changes.COMMANDS):
    command.add_command(each)


@command.command("receive")
@queue_argument
@click.option(
    "--max", "count", type=click.IntRange(1), default=1, show_default=True, help="Messages at most."
)
@click.option("--wait", type=DURATION, default=0.0, help="Wait at most this long for the first message.")
@click.option("--visibility", type=DURATION, help="Hide them for this long.  [the queue's timeout]")
@click.option("--delete", is_flag=True, help="Delete them after they were printed.")
@with_target
def receive(
    target: Target, queue: str, count: int, wait: float, visibility: float | None, delete: bool
) -> None:
    """Receive messages as a consumer does: they are hidden for a time, and counted.

    Exit code 1: there was none. To look without receiving, see penstock message peek.

    \b
    Examples:
      penstock message receive orders
      penstock message receive orders --max 100 --delete --json > orders.jsonl
      penstock message receive orders --wait 20s --visibility 5m
    """
    url = target.queue_url(queue)
    received = 0
    for messages in _received(target, url, count, wait, visibility):
        received += len(messages)
        for message in messages:
            _show_received(target, message)
        if delete:
            sys.stdout.flush()  # printed, whatever happens next
            _delete_received(target, url, messages)
    if not received:
        target.out.note("no message")
        raise SystemExit(1)


def _received(
    target: Target, url: str, count: int, wait: float, visibility: float | None
) -> Iterator[list[Json]]:
    end = time.monotonic() + wait
    while count > 0:
        answer = target.sqs(
            "ReceiveMessage",
            QueueUrl=url,
            MaxNumberOfMessages=min(count, ENTRIES_MAX),
            WaitTimeSeconds=max(0, min(WAIT_S_MAX, math.ceil(end - time.monotonic()))),
            VisibilityTimeout=None if visibility is None else round(visibility),
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages") or []
        if messages:
            yield messages
            count -= len(messages)
            end = 0.0  # the wait is for the first one
        elif time.monotonic() >= end:
            return


def _delete_received(target: Target, url: str, messages: list[Json]) -> None:
    entries = [{"Id": str(i), "ReceiptHandle": each["ReceiptHandle"]} for i, each in enumerate(messages)]
    failed = target.sqs("DeleteMessageBatch", QueueUrl=url, Entries=entries).get("Failed")
    if failed:
        raise Breakdown(
            f"{len(failed)} messages were received and not deleted: {failed[0]['Code']}: {failed[0].get('Message')}"
        )


def _show_received(target: Target, message: Json) -> None:
    if target.out.as_json:
        target.out.json_line(message)
        return
    listed = as_listed(message)
    target.out.facts(
        [
            ("id", listed["id"]),
            ("sent", shown_time(listed["sent_at"], target.out)),
            ("receives", listed["receives"]),
            ("group", listed.get("group")),
            *shown_attributes(listed),
            ("receipt handle", message["ReceiptHandle"]),
        ]
    )
    target.out.line()
    target.out.line(message["Body"])
    target.out.line()


@command.command("peek")
@queue_argument
@click.option(
    "--max", "count", type=click.IntRange(1), default=10, show_default=True, help="Messages at most."
)
@with_target
def peek(target: Target, queue: str, count: int) -> None:
    """Show the messages that are received next, with their bodies. Nothing is received, hidden or counted.

    \b
    Examples:
      penstock message peek orders
      penstock message peek orders --max 1 --json
    """
    if not target.is_penstock:
        raise Failure(
            "message peek needs Penstock: in Amazon SQS, looking at a message is receiving it, which counts and can"
            " send it to the dead-letter queue. To receive, use penstock message receive"
        )
    admin = AdminQueue(target, queue)
    message = None
    for message in admin.messages({"state": "visible"}, count):
        if target.out.as_json:
            target.out.json_line(admin.whole(message))
        else:
            show_message(target.out, admin.whole(message))
            target.out.line()
    if message is None:
        target.out.note(
            "no visible messages: penstock message ls also lists those that are delayed or in flight"
        )


@command.command("ls")
@queue_argument
@with_filter
@click.option(
    "--order", type=click.Choice(["position", "age", "due"]), default="position", show_default=True,
    help="In the order of the queue, oldest first, or those first that become visible first.",
)  # fmt: skip
@click.option(
    "--max", "count", type=click.IntRange(1), default=50, show_default=True, help="Messages at most."
)
@click.option("--all", "everything", is_flag=True, help="All messages.")
@with_target
def list_(target: Target, queue: str, order: str, count: int, everything: bool, **flags: Any) -> None:
    """List messages in any state: visible, delayed, in flight. Nothing is received, hidden or counted.

    All conditions must hold. --where takes a path, or a comparison: $.a.b, $.items[*].sku = "x", $.total > 100.

    \b
    Examples:
      penstock message ls orders
      penstock message ls orders --state in_flight --order due
      penstock message ls orders --where '$.customer.id = 7' --older-than 15m --all --json
      penstock message ls orders-dlq --source orders --min-receives 3
    """
    target.need_penstock("message ls")
    found = AdminQueue(target, queue).messages(
        {**chosen(flags), "order": order}, None if everything else count + 1
    )
    if target.out.as_json:
        target.out.json_lines(each for n, each in enumerate(found) if everything or n < count)
        return
    messages = list(found)
    if not messages:
        target.out.note("no messages")
        return
    shown = messages if everything else messages[:count]
    show_messages(target.out, shown)
    if len(messages) > len(shown):
        target.out.note(f"the first {count}: --all shows all, --max N as many")


@command.command("show")
@queue_argument
@id_argument
@click.option("--raw", is_flag=True, help="Print the body only, byte by byte.")
@with_target
def get(target: Target, queue: str, id: str, raw: bool) -> None:
    """Show one message in any state, with its whole body. It is not received.

    \b
    Examples:
      penstock message show orders 2f1c7e6a-…
      penstock message show orders 2f1c7e6a-… --raw | jq .
    """
    target.need_penstock("message show")
    message = AdminQueue(target, queue).message(id)
    if target.out.as_json:
        target.out.json(message)
    elif raw:
        body = message.get("body", "")
        click.echo(
            safe(body, lines=True) if target.out.is_terminal else body.encode(), nl=target.out.is_terminal
        )
    else:
        show_message(target.out, message)


@command.command("trace")
@queue_argument
@id_argument
@with_target
def trace(target: Target, queue: str, id: str) -> None:
    """Show what happened to a message, and who has it now. Works for a message that is gone, too.

    \b
    Examples:
      penstock message trace orders 2f1c7e6a-…
      penstock message trace orders 2f1c7e6a-… --json
    """
    target.need_penstock("message trace")
    admin = AdminQueue(target, queue)
    history = admin.call("GET", f"/messages/{quoted(id)}/history")
    try:
        message = admin.message(id)
    except ApiError as error:
        if error.code != "MessageDoesNotExist" or not history["events"]:
            raise
        message = None
    if target.out.as_json:
        target.out.json({"message": message, **history})
        return
    if message is None:
        target.out.line(f"{id} is not in {admin.name} any more")
    else:
        show_message(target.out, {name: value for name, value in message.items() if name != "body"})
    target.out.line()
    if not history["complete"]:
        target.out.note("earlier events are not kept")
    target.out.table(
        ["AT", "EVENT", "BY", "ADDRESS", "USER AGENT", "DETAIL"],
        [
            [shown_time(event["at"], target.out), event["event"].replace("_", " "), *map(event.get, _WHO)]
            for event in history["events"]
        ],
    )


_WHO = ("by", "address", "user_agent", "detail")
