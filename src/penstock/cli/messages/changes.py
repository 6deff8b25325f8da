"""The commands of ``penstock message`` that change messages where they are, by the admin API.

A change carries the version of the message that was seen: if the message has changed since, nothing is done.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from penstock.cli.arguments import DURATION, MESSAGE_ID, id_argument, queue_argument, yes_option
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.messages.admin_queue import AdminQueue, listed_attribute
from penstock.cli.messages.sending import read_attribute
from penstock.cli.messages.view import show_message
from penstock.cli.output import counted_messages
from penstock.cli.target import Target, with_target
from penstock.client.api import ApiError, Json, quoted
from penstock.client.objects import read_json

_ids = click.argument("ids", nargs=-1, required=True, type=MESSAGE_ID, metavar="ID...")
_version = click.option(
    "--version", type=click.IntRange(0), help="Refuse if the message has another version by now."
)


@click.command("set")
@queue_argument
@id_argument
@click.option("--body", metavar="TEXT", help="The new body.")
@click.option(
    "--file", type=click.Path(path_type=Path, dir_okay=False), help="Read the new body from a file."
)
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME[:TYPE]=VALUE",
    help="Set an attribute; TYPE is String, Number or Binary (base64). Can be repeated.",
)  # fmt: skip
@click.option("--remove-attribute", "removed", multiple=True, metavar="NAME", help="Can be repeated.")
@click.option("--delay", type=DURATION, help="Deliver it after this time: 5m; 0s makes it visible.")
@click.option("--group", metavar="ID", help="Put it into another message group.")
@_version
@with_target
def set_(
    target: Target, queue: str, id: str, body: str | None, file: Path | None, attributes: tuple[str, ...],
    removed: tuple[str, ...], delay: float | None, group: str | None, version: int | None,
) -> None:  # fmt: skip
    """Change a message that is not in flight: body, attributes, delay or group. Its id and its place stay.

    Without flags, the body is opened in your editor ($VISUAL, $EDITOR). If the message is changed, received or
    deleted meanwhile, nothing is done, and your text is kept in a file. (Also: edit.)

    \b
    Examples:
      penstock message set orders 2f1c7e6a-…
      penstock message set orders 2f1c7e6a-… --body '{"id": 8}'
      penstock message set orders 2f1c7e6a-… --attribute priority:Number=1 --remove-attribute retry
      penstock message set orders 2f1c7e6a-… --delay 15m
    """
    target.need_penstock("message set")
    if body is not None and file is not None:
        raise Failure("give either --body or --file")
    admin = AdminQueue(target, queue)
    message = admin.message(id)
    changes: Json = {"body": body if file is None else _read(file), "delay_s": delay, "group": group}
    if attributes or removed:
        changes["attributes"] = _changed_attributes(message, attributes, removed)
    is_typed = all(value is None for value in changes.values())
    if is_typed:
        changes["body"] = _typed(message)
        if changes["body"] is None:
            target.out.note("the body was not changed")
            return
    given = {name: value for name, value in changes.items() if value is not None}
    given["version"] = message["version"] if version is None else version
    try:
        changed = admin.call("PATCH", f"/messages/{quoted(id)}", body=given)
    except ApiError as error:
        kept = _kept(given["body"], id) if is_typed else ""
        raise Breakdown(f"{_what_happened(admin, id, message, error)}{kept}") from None
    _show(target, changed, f"edited {id}, version {changed['version']}")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failure(f'"{file}" is not UTF-8 text') from None


def _changed_attributes(message: Json, given: tuple[str, ...], removed: tuple[str, ...]) -> Json:
    """All attributes that the message is to have: the API replaces them together."""
    attributes = dict(message.get("attributes") or {})
    for name in removed:
        if name not in attributes:
            raise Failure(f'the message has no attribute "{name}"')
        del attributes[name]
    for name, value in map(read_attribute, given):
        attributes[name] = listed_attribute(value)
    return attributes


def _typed(message: Json) -> str | None:
    """The body after the user has edited it; None if it is as it was. An editor ends the last line, the body need
    not."""
    if not sys.stdin.isatty():
        raise Failure("nothing to change: give --body, --file, --attribute, --delay or --group")
    body: str = message.get("body", "")
    try:
        read_json(body)
        extension = ".json"
    except ValueError:
        extension = ".txt"
    typed: str | None = click.edit(body, extension=extension)
    if typed is not None and typed.endswith("\n") and not body.endswith("\n"):
        typed = typed[:-1]
    return None if typed == body else typed


def _kept(body: str, id: str) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"penstock-{id}-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(body)
    return f'. Your text is in "{file.name}"'


def _what_happened(admin: AdminQueue, id: str, before: Json, error: ApiError) -> str:
    """The server's refusal, and for another version what the message is now."""
    if error.code != "VersionMismatch":
        return str(error)
    try:
        now = admin.message(id)
    except ApiError as gone:
        return f"{error}; now: {gone}"
    differing = [
        name for name in ("body", "attributes", "group", "position") if now.get(name) != before.get(name)
    ]
    what = (
        f"changed since it was read: {', '.join(differing)}" if differing else "not changed since it was read"
    )
    return f"{error}; it has version {now['version']}, is {now['state'].replace('_', ' ')}, and was {what}"


@click.command("reorder")
@queue_argument
@id_argument
@click.option("--front", is_flag=True, help="Deliver it next.")
@click.option("--back", is_flag=True, help="Deliver it last.")
@click.option("--before", metavar="ID", help="Deliver it before this message.")
@_version
@with_target
def reorder(
    target: Target, queue: str, id: str, front: bool, back: bool, before: str | None, version: int | None
) -> None:
    """Give a message another place in its queue.

    \b
    Examples:
      penstock message reorder orders 2f1c7e6a-… --front
      penstock message reorder orders 2f1c7e6a-… --before 8d0b51c2-…
    """
    target.need_penstock("message reorder")
    if front + back + (before is not None) != 1:
        raise Failure("give one of --front, --back, --before ID")
    to = "front" if front else "back" if back else "before"
    changed = AdminQueue(target, queue).change(id, "reorder", to=to, before=before, version=version)
    place = {"front": "at the front", "back": "at the back", "before": f"before {before}"}[to]
    _show(target, changed, f"{id} is {place}")


@click.command("move")
@queue_argument
@_ids
@click.option("--to", required=True, metavar="QUEUE", help="The queue to move to.")
@_version
@with_target
def move(target: Target, queue: str, ids: tuple[str, ...], to: str, version: int | None) -> None:
    """Move messages to another queue. They keep their ids; the count of receives starts at zero.

    \b
    Examples:
      penstock message move orders 2f1c7e6a-… --to orders-manual
    """
    target.need_penstock("message move")
    name = AdminQueue(target, queue).target_name(to)
    _each(target, queue, ids, lambda admin, id: admin.change(id, "move", to=name, version=version))


@click.command("fail")
@queue_argument
@_ids
@_version
@with_target
def fail(target: Target, queue: str, ids: tuple[str, ...], version: int | None) -> None:
    """Send messages to the dead-letter queue of their queue, without waiting for more receives.

    \b
    Examples:
      penstock message fail orders 2f1c7e6a-…
    """
    target.need_penstock("message fail")
    _each(target, queue, ids, lambda admin, id: admin.change(id, "dead-letter", version=version))


@click.command("redrive")
@queue_argument
@_ids
@_version
@with_target
def redrive(target: Target, queue: str, ids: tuple[str, ...], version: int | None) -> None:
    """Send dead letters back to the queue that they came from.

    For many by a filter, see penstock dlq redrive.

    \b
    Examples:
      penstock message redrive orders-dlq 2f1c7e6a-… 8d0b51c2-…
    """
    target.need_penstock("message redrive")
    _each(target, queue, ids, lambda admin, id: admin.change(id, "redrive", version=version))


@click.command("reset")
@queue_argument
@_ids
@_version
@with_target
def reset(target: Target, queue: str, ids: tuple[str, ...], version: int | None) -> None:
    """Set the receive count and the times of messages as if they were just sent.

    \b
    Examples:
      penstock message reset orders 2f1c7e6a-…
    """
    target.need_penstock("message reset")
    _each(target, queue, ids, lambda admin, id: admin.change(id, "reset", version=version))


@click.command("release")
@queue_argument
@_ids
@_version
@with_target
def release(target: Target, queue: str, ids: tuple[str, ...], version: int | None) -> None:
    """Make delayed messages visible now.

    \b
    Examples:
      penstock message release orders 2f1c7e6a-…
    """
    target.need_penstock("message release")
    _each(target, queue, ids, lambda admin, id: admin.change(id, "release", version=version))


@click.command("delete")
@queue_argument
@click.argument("ids", nargs=-1, type=MESSAGE_ID, metavar="[ID...]")
@click.option(
    "--receipt-handle", metavar="HANDLE", help="Of a message that you received; works with Amazon SQS."
)
@_version
@yes_option
@with_target
def delete(
    target: Target,
    queue: str,
    ids: tuple[str, ...],
    receipt_handle: str | None,
    version: int | None,
    yes: bool,
) -> None:
    """Delete messages that are not in flight, or one that you received, by its receipt handle.

    \b
    Examples:
      penstock message delete orders 2f1c7e6a-…
      penstock message delete orders 2f1c7e6a-… 8d0b51c2-… --yes
      penstock message delete orders --receipt-handle AQEB…
    """
    if bool(ids) == (receipt_handle is not None):
        raise Failure("give either ids or --receipt-handle")
    if receipt_handle is not None:
        target.sqs("DeleteMessage", QueueUrl=target.queue_url(queue), ReceiptHandle=receipt_handle)
        target.out.note("deleted")
        return
    target.need_penstock("message delete by id")
    target.out.confirm(f"Delete {counted_messages(len(ids))} of {AdminQueue(target, queue).name}?", yes)
    _each(
        target,
        queue,
        ids,
        lambda admin, id: admin.call("DELETE", f"/messages/{quoted(id)}", {"version": version}),
    )


COMMANDS = (set_, move, reorder, fail, redrive, reset, release, delete)


def _each(
    target: Target, queue: str, ids: tuple[str, ...], change: Callable[[AdminQueue, str], Json]
) -> None:
    """Change one after the other; what is refused does not keep the others from it."""
    admin = AdminQueue(target, queue)
    errors = []
    for id in ids:
        try:
            changed = change(admin, id)
        except ApiError as error:
            errors.append(f"{id}: {error}")
            continue
        if "state" in changed:
            _show(
                target, changed, f"{id}: {changed['state'].replace('_', ' ')}, version {changed['version']}"
            )
        else:
            to = changed.get("queue")
            _show(target, changed or {"id": id}, f"{id}: now in {to}" if to else f"{id}: deleted")
    if errors:
        raise Breakdown("; ".join(errors))


def _show(target: Target, changed: Json, line: str) -> None:
    if target.out.as_json:
        target.out.json_line(changed)
    elif target.out.is_terminal and "body" in changed:
        show_message(target.out, changed)
    else:
        target.out.line(line)
