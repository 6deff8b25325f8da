"""``penstock shell``: commands line by line, those of DynamoMQ and all of the command line."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.cli.arguments import QUEUE
from penstock.cli.failure import Failure
from penstock.cli.groups import did_you_mean, words_of_groups
from penstock.cli.output import safe
from penstock.cli.shell.operations import QueueOperations, not_found
from penstock.cli.shell.view import Found
from penstock.cli.target import Target, with_target
from penstock.client.api import ApiError, Unavailable
from penstock.client.credentials import ProfileError

if TYPE_CHECKING:
    from prompt_toolkit.history import History

_PROMPT = ">> Enter command: "
_WITH_ARGUMENTS = ("use", "id", "h", "?", "help")

HELP = {
    "use": "use QUEUE: work on this queue",
    "qstat": "counts and first ids of the queue",
    "dlq": "count and first ids of its dead-letter queue; dlq ls|show|redrive: see dlq --help",
    "enqueue-test": "send the test messages A-101, A-202, A-303 and A-404; also: et",
    "et": "the same as enqueue-test",
    "purge": "remove all messages of the queue; asks first",
    "ls": "the first ten messages, of the queue and of its dead-letter queue",
    "receive": "receive a message, which becomes the current one",
    "id": "id ID: look at this message, which becomes the current one; id alone: none is",
    "system": "system information of the current message; also: sys",
    "sys": "the same as system",
    "data": "body of the current message",
    "info": "everything about the current message",
    "reset": "make the current message as it was when it was sent; a dead letter returns to its queue",
    "redrive": "return the current message from the dead-letter queue; see redrive --help for tasks",
    "delete": "delete the current message",
    "fail": 'make the current message visible at once ("message fail" makes it a dead letter)',
    "invalid": "send the current message to the dead-letter queue",
    "help": "this list; also: h, ?",
    "quit": "end; also: q",
}


@click.command("shell")
@click.argument("queue", required=False, type=QUEUE, metavar="[QUEUE]")
@with_target
def command(target: Target, queue: str | None) -> None:
    """Enter commands line by line, with history and completion (Tab).

    All commands work as on the command line, without "penstock" before them and on the same server; "message" and
    "queue" may be left out, too, where that is not ambiguous: "peek orders". Commands of
    DynamoMQ work on the queue that "use" names and on a current message, which "id" or "receive" chooses. "help"
    lists them. Commands can also come from a pipe.

    \b
    Examples:
      penstock shell
      penstock shell orders
      penstock shell --context production orders
      echo qstat | penstock shell orders
    """
    shell = Shell(target)
    shell.begin(queue)
    for line in _lines(shell, target):
        if not shell.execute(line):
            break
    click.echo("... Interactive is ending")


class Shell:
    """The queue and the message that commands are about."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._operations: QueueOperations | None = None
        self._current: Found | None = None
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "h": self._help, "?": self._help, "help": self._help,
            "use": self._use, "qstat": self._qstat, "dlq": self._dlq, "purge": self._purge, "ls": self._ls,
            "enqueue-test": self._enqueue_test, "et": self._enqueue_test, "receive": self._receive,
            "id": self._id, "system": self._system, "sys": self._system, "data": self._data, "info": self._info,
            "reset": self._reset, "redrive": self._redrive, "delete": self._delete, "fail": self._fail,
            "invalid": self._invalid,
        }  # fmt: skip

    @property
    def queue(self) -> str | None:
        return self._operations.queue if self._operations else None

    @property
    def prompt(self) -> str:
        chosen = [self.queue] if self.queue else []
        chosen += [f"ID <{self._current.id}>"] if self._current else []
        return safe(" ".join([*chosen, _PROMPT]))

    def begin(self, queue: str | None) -> None:
        rule = "=" * 60
        click.echo(f"{rule}\n>> Penstock {__version__} [INTERACTIVE MODE]\n{rule}")
        click.echo("for help, enter one of the following: ? or h or help")
        click.echo("commands can be typed in uppercase and lowercase, Tab completes them\n")
        _ = self._target.is_penstock  # fails here if the server cannot be reached
        click.echo("... AWS session is properly established!")
        click.echo(f"AWSRegion: {self._target.endpoint.region}")
        click.echo(f"EndpointURL: {self._target.endpoint.url}")
        if queue is not None:
            self._use([queue])

    def execute(self, line: str) -> bool:
        """Carry out one line; False ends the shell. An error is shown, and the next line can follow."""
        try:
            words = shlex.split(line)
            name = words[0].lower() if words else ""
            if name in ("q", "quit", "exit"):
                return False
            if name:
                self._run(name, words[1:])
        except click.ClickException as error:
            _print_error(error.format_message())
        except (ApiError, Unavailable, ProfileError, ValueError, OSError) as error:
            _print_error(str(error))
        except (click.Abort, KeyboardInterrupt):
            _print_error("interrupted")
        except SystemExit:
            pass  # of a command, which has said why
        return True

    def _run(self, name: str, arguments: list[str]) -> None:
        own = self._commands.get(name)
        # With a queue after it, a command is that of the command line: "purge other" is not about the chosen queue.
        is_own = not arguments or name in _WITH_ARGUMENTS or (name == "purge" and arguments == ["--yes"])
        if own is not None and is_own:
            own(arguments)
            return
        from penstock.cli import SHELL_COMMANDS, main

        if name == "shell":
            raise Failure("this is the shell")
        if name in SHELL_COMMANDS:
            raise Failure(
                f'"{name}" takes no arguments: it acts on the queue chosen with "use" and the message chosen with '
                f'"id". To name them, use {SHELL_COMMANDS[name].replace("penstock ", "")}'
            )
        words = [*_group_of(main, name), name, *arguments]
        main.main(words, prog_name="penstock", standalone_mode=False, obj=self._target)

    # -- without a message ---------------------------------------------------------------------------------------

    def _help(self, arguments: list[str]) -> None:
        from penstock.cli import main

        width = max(map(len, HELP))
        click.echo("... this is Interactive help:")
        for name, text in HELP.items():
            click.echo(f"  > {name:<{width}}  {text}")
        others = [name for name in main.list_commands(click.Context(main)) if name not in HELP]
        click.echo(click.wrap_text(f"Commands of the command line: {', '.join(others)}", 100))

    def _use(self, arguments: list[str]) -> None:
        if len(arguments) != 1:
            raise Failure("which queue? use QUEUE")
        self._operations = QueueOperations(self._target, arguments[0])
        self._current = None
        click.echo(f"QueueName: {safe(self._operations.queue)}")

    def _qstat(self, arguments: list[str]) -> None:
        _show("Queue status:", self._chosen().stats())

    def _dlq(self, arguments: list[str]) -> None:
        _show("DLQ status:", self._chosen().dead_letters())

    def _enqueue_test(self, arguments: list[str]) -> None:
        click.echo("Send a message with IDs:")
        for name, id in self._chosen().enqueue_test().items():
            self._target.out.line(f"* ID: {name} ({id})")

    def _purge(self, arguments: list[str]) -> None:
        count, ids = self._chosen().purge(yes="--yes" in arguments)
        if not count:
            click.echo("Message table is empty ... nothing to remove!")
            return
        self._current = None
        click.echo("List messages of removed IDs:")
        for id in ids:
            self._target.out.line(f"* ID: {id}")
        if count > len(ids):
            click.echo(f"... and {count - len(ids)} more")

    def _ls(self, arguments: list[str]) -> None:
        found = self._chosen().first()
        click.echo("List messages of first 10 IDs:" if found else "Queue is empty!")
        for each in found:
            dead_letter = ", queue_type: DLQ" if each.is_dead_letter else ""
            self._target.out.line(f"* ID: {each.id}, status: {each.status}{dead_letter}")

    def _receive(self, arguments: list[str]) -> None:
        operations = self._chosen()
        self._current = operations.receive()
        title = f"ReceiveMessage was successful ... record peeked is: [{self._current.id}]"
        _show(title, self._current.system_info())
        _show("Queue stats:", operations.stats())

    def _id(self, arguments: list[str]) -> None:
        if not arguments:
            self._current = None
            click.echo("Going back to standard Interactive mode!")
            return
        if len(arguments) > 1:
            raise Failure("which message? id ID")
        self._current = found = self._chosen().find(arguments[0])
        _show(f"Message's [{found.id}] record dump:", found.dump())

    # -- with the current message --------------------------------------------------------------------------------

    def _system(self, arguments: list[str]) -> None:
        _show("ID's system info:", self._refreshed("system").system_info())

    def _data(self, arguments: list[str]) -> None:
        _show("Data info:", self._refreshed("data").data)

    def _info(self, arguments: list[str]) -> None:
        _show("Record's dump:", self._refreshed("info").dump())

    def _reset(self, arguments: list[str]) -> None:
        self._current = self._chosen().reset(self._picked("reset"))
        _show("Reset system info:", self._current.system_info())

    def _redrive(self, arguments: list[str]) -> None:
        self._current = self._chosen().redrive(self._picked("redrive"))
        _show("Ready system info:", {"RedroveMessage": self._current.dump()})

    def _delete(self, arguments: list[str]) -> None:
        picked = self._picked("delete")
        self._chosen().delete(picked)
        self._current = None
        done = f"Processing for ID [{picked.id}] is deleted successfully! Remove from the queue!"
        _show(done, self._chosen().stats())

    def _fail(self, arguments: list[str]) -> None:
        picked = self._picked("fail")
        self._current = self._chosen().fail(picked)
        done = f"Processing for ID [{picked.id}] has failed! Put the record back to the queue!"
        _show(done, self._chosen().stats())

    def _invalid(self, arguments: list[str]) -> None:
        picked = self._picked("invalid")
        self._current = self._chosen().invalid(picked)
        done = f"Processing for ID [{picked.id}] has failed .. invalid data! Send record to DLQ!"
        _show(done, self._chosen().stats())

    def _chosen(self) -> QueueOperations:
        if self._operations is None:
            raise Failure("no queue is chosen. Call first `use QUEUE`")
        return self._operations

    def _picked(self, name: str) -> Found:
        if self._current is None:
            raise Failure(f"`{name}` command can be only used in the Interactive mode. Call first `id`")
        return self._current

    def _refreshed(self, name: str) -> Found:
        """Reads the chosen message again: a consumer may have received or deleted it."""
        picked = self._picked(name)
        found = self._chosen().refreshed(picked)
        if found is None:
            self._current = None
            raise not_found(picked.id)
        self._current = found
        return found


def _group_of(main: click.Group, name: str) -> list[str]:
    """The group whose name may be left out before this word: "peek orders" is "message peek orders"."""
    context = click.Context(main)
    if main.get_command(context, name) is not None:
        return []
    words = words_of_groups(main)
    found = [each for each in words if name in words[each]]
    if not found:
        known = [*HELP, *main.list_commands(context), *(word for each in words.values() for word in each)]
        raise Failure(f'unrecognized command "{name}"{did_you_mean(name, known)}')
    if len(found) > 1:
        raise Failure(f'which one, "{found[0]} {name}" or "{found[1]} {name}"?')
    return found


def _lines(shell: Shell, target: Target) -> Iterator[str]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield from sys.stdin
        return
    from prompt_toolkit import PromptSession

    from penstock.cli import main
    from penstock.cli.shell.completion import ShellCompleter

    completer = ShellCompleter(target, main, HELP, lambda: shell.queue)
    line: PromptSession[str] = PromptSession(
        history=_history(), completer=completer, complete_while_typing=False
    )
    while True:
        try:
            click.echo()
            yield line.prompt(shell.prompt)
        except KeyboardInterrupt:
            continue  # the line is given up
        except EOFError:
            return


def _history() -> History:
    """Returns the lines that were entered. They are in a file that only its owner may read, since they can contain
    bodies of messages, or in memory if there can be no such file."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        file = Path(base).expanduser() / "penstock" / "history"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except (OSError, RuntimeError):  # a container without a home directory, or a read-only one
        return InMemoryHistory()
    return FileHistory(str(file))


def _show(title: str, value: Any) -> None:
    click.echo(safe(title))
    click.echo(safe(json.dumps(value, indent=2, ensure_ascii=False), lines=True))


def _print_error(text: str) -> None:
    click.echo(f"ERROR: {safe(text)}")
