"""DynamoMQ's commands outside the shell: each prints JSON, and takes the queue and the id as arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from penstock.cli.arguments import id_argument, queue_argument, yes_option
from penstock.cli.output import safe
from penstock.cli.shell.operations import QueueOperations
from penstock.cli.shell.view import Found
from penstock.cli.target import Target, with_target

COMMANDS: dict[str, click.Command] = {}


def _print(value: Any) -> None:
    click.echo(safe(json.dumps(value, indent=2, ensure_ascii=False), lines=True))


# -- of a queue ---------------------------------------------------------------------------------------------------


def _on_queue(name: str, *also: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command on a queue; ``also``: its other names."""

    def register(function: Callable[..., None]) -> click.Command:
        made = click.command(name)(queue_argument(with_target(function)))
        COMMANDS.update({each: made for each in (name, *also)})
        return made

    return register


@_on_queue("qstat")
def qstat(target: Target, queue: str) -> None:
    """Count the messages of a queue and print the first ids.

    \b
    Examples:
      penstock qstat orders
      penstock qstat orders | jq .total_messages_in_queue_ready
    """
    _print(QueueOperations(target, queue).stats())


@_on_queue("enqueue-test", "et")
def enqueue_test(target: Target, queue: str) -> None:
    """Send the test messages A-101, A-202, A-303 and A-404, in place of earlier ones.

    The names are in the body and in the attribute "id"; the ids are made by the server.

    \b
    Examples:
      penstock enqueue-test orders
      penstock et orders
    """
    _print({"successes": QueueOperations(target, queue).enqueue_test()})


@_on_queue("ls")
def ls(target: Target, queue: str) -> None:
    """List the first ten messages of a queue and of its dead-letter queue. "penstock message ls" lists all.

    \b
    Example:
      penstock ls orders
    """
    found = QueueOperations(target, queue).first()
    statuses = [{"id": each.id, "status": each.status, "queue_type": each.queue_type} for each in found]
    _print({"statuses": statuses or None})


@_on_queue("receive")
def receive(target: Target, queue: str) -> None:
    """Receive one message. Its receipt handle is for --receipt-handle of delete, fail and invalid.

    \b
    Example:
      penstock receive orders
    """
    operations = QueueOperations(target, queue)
    found = operations.receive()
    _print({**found.dump(), "receipt_handle": operations.receipt(found)})


@click.command("purge")
@queue_argument
@yes_option
@with_target
def purge(target: Target, queue: str, yes: bool) -> None:
    """Remove all messages of a queue. Shows how many there are and asks.

    \b
    Examples:
      penstock purge orders
      penstock purge orders --yes
    """
    _, ids = QueueOperations(target, queue).purge(yes=yes)
    _print({"successes": ids or None, "failures": None})


COMMANDS["purge"] = purge


# -- of a message -------------------------------------------------------------------------------------------------

_RECEIPT = click.option(
    "--receipt-handle", metavar="HANDLE", help="Of a message in flight, as receive printed it."
)


def _on_message(
    name: str, *also: str, receipt: bool = False
) -> Callable[[Callable[[QueueOperations, Found], Any]], click.Command]:
    """A command that finds a message and prints what the function returns."""

    def register(function: Callable[[QueueOperations, Found], Any]) -> click.Command:
        def run(target: Target, queue: str, id: str, receipt_handle: str | None = None) -> None:
            operations = QueueOperations(target, queue)
            found = operations.find(id)
            if receipt_handle is not None:
                operations.hold(found.id, receipt_handle)
            printed = function(operations, found)
            if printed is not None:
                _print(printed)

        run.__doc__ = function.__doc__
        made = id_argument(with_target(run))
        made = queue_argument(_RECEIPT(made) if receipt else made)
        built = click.command(name)(made)
        COMMANDS.update({each: built for each in (name, *also)})
        return built

    return register


@_on_message("get", "info")
def get(operations: QueueOperations, found: Found) -> Any:
    """Print a message, without receiving it. ID is an id, or the name of a test message.

    \b
    Examples:
      penstock get orders 5f1c1b6c-0f5e-4a53-9d0c-1f0a3d8f9f11
      penstock info orders A-101
    """
    return found.dump()


@_on_message("system", "sys")
def system(operations: QueueOperations, found: Found) -> Any:
    """Print status, counts and times of a message.

    \b
    Example:
      penstock system orders A-101
    """
    return found.system_info()


@_on_message("data")
def data(operations: QueueOperations, found: Found) -> Any:
    """Print the body of a message; JSON is indented.

    \b
    Example:
      penstock data orders A-101
    """
    return found.data


@_on_message("reset")
def reset(operations: QueueOperations, found: Found) -> Any:
    """Make a message as it was when it was sent. A dead letter returns to its queue.

    \b
    Example:
      penstock reset orders A-101
    """
    return operations.reset(found).dump()


@_on_message("delete", receipt=True)
def delete(operations: QueueOperations, found: Found) -> Any:
    """Delete a message. One in flight needs its receipt handle.

    \b
    Example:
      penstock delete orders A-101
    """
    operations.delete(found)


@_on_message("fail", receipt=True)
def fail(operations: QueueOperations, found: Found) -> Any:
    """Make a message visible at once, delayed or in flight. One in flight needs its receipt handle.

    "penstock message fail" sends a message to the dead-letter queue instead, like "penstock invalid".

    \b
    Example:
      penstock fail orders A-101
    """
    failed = operations.fail(found)
    return failed and failed.dump()


@_on_message("invalid", receipt=True)
def invalid(operations: QueueOperations, found: Found) -> Any:
    """Send a message to the dead-letter queue. One in flight needs its receipt handle.

    \b
    Example:
      penstock invalid orders A-101
    """
    operations.invalid(found)
