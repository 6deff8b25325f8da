"""The ``penstock`` command.

Commands are imported when they are called: neither help nor a health check loads the server.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup, words_of_groups

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["main"]

# Each command is the object ``command`` of the module with its name, in the package of its section.
SECTIONS = {
    "Server": {
        "serve": "Start the broker.",
        "health": "Ask a running broker whether it is ready.",
        "check": "Check settings, declared queues and topics without starting the broker.",
        "doctor": "Find what is wrong with queues and server, and say what to change.",
        "backup": "Copy the data of a broker while it serves.",
        "restore": "Make a data directory from a backup.",
        "cluster": "Show and steer the nodes of a cluster.",
        "migrate": "Copy all queues and messages into another store.",
        "test": "Advance the clock of a test server, and delete everything in it.",
        "import-config": "Convert the configuration of ElasticMQ, GoAWS or LocalStack.",
    },
    "Queues": {
        "queue": "List, show, create, change, purge and delete queues.",
        "dlq": "Show dead letters by source, reason and age, and send them back.",
        "redrive": "Move all messages of a dead-letter queue back, or to another queue.",
        "top": "A live table of queues, rates and ages.",
        "wait": "Wait until a server is ready, or a queue exists, is empty or has messages.",
    },
    "Messages": {
        "message": "Send, receive, look at, edit, move and delete messages.",
        "grep": "Search messages, then copy, move, delete or dump what matches.",
        "task": "Show and cancel changes of many messages that run on the server.",
        "tail": "Print the last messages of a queue; with -f, new ones as they are sent.",
        "load": "Send messages from a file of JSON lines.",
        "dump": "Write the messages of a queue to a file of JSON lines.",
        "worker": "Handle messages with the functions of a Python application.",
    },
    "Topics": {
        "topic": "List, create and change topics and subscriptions, publish, see what waits.",
    },
    "Security": {
        "user": "Manage users and their access keys.",
        "role": "Manage roles that users and other accounts can assume.",
        "policy": "Manage the permissions of users and roles.",
        "env": "Print the environment variables a client needs to act as a user.",
        "audit": "Search the audit log: who called what, from where, and whether it was allowed.",
        "cert": "Create a certificate for development with HTTPS.",
        "key": "Manage the root key and the keys that encrypt messages.",
    },
    "This command": {
        "shell": "Work on queues and messages interactively.",
        "context": "Name the servers that you work with, and choose one.",
        "completion": "Print the script that completes commands and queue names in a shell.",
    },
}

_PACKAGES = {
    "Server": "penstock.cli.server",
    "Queues": "penstock.cli.queues",
    "Messages": "penstock.cli.messages",
    "Topics": "penstock.cli.topics",
    "Security": "penstock.cli.security",
    "This command": "penstock.cli",
}

# Commands of DynamoMQ that were on the command line, too, and what does such a thing there.
SHELL_COMMANDS = {
    "qstat": '"penstock queue show"',
    "ls": '"penstock message ls" or "penstock queue ls"',
    "enqueue-test": '"penstock message send"',
    "et": '"penstock message send"',
    "receive": '"penstock message receive"',
    "purge": '"penstock queue purge"',
    **dict.fromkeys(("get", "info", "system", "sys", "data"), '"penstock message show"'),
    "reset": '"penstock message reset"',
    "delete": '"penstock message delete" or "penstock queue delete"',
    "fail": '"penstock message release" to make a delayed message visible (a received one becomes visible when its '
    'visibility timeout ends), or "penstock message fail" to make it a dead letter',
    "invalid": '"penstock message fail"',
    **dict.fromkeys(("h", "?"), '"penstock --help"'),
}

# Those that mean something in the shell only.
_SHELL_ONLY = ("use", "id", "quit", "q", "exit")

INTERRUPTED = 130  # exit code, as of a process that SIGINT ended


_SUMMARIES = {name: summary for section in SECTIONS.values() for name, summary in section.items()}


def _module(name: str) -> str:
    section = next(title for title, names in SECTIONS.items() if name in names)
    return f"{_PACKAGES[section]}.{name.replace('-', '_')}"


class _Commands(CommandGroup):
    """Lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_SUMMARIES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _SUMMARIES:
            return None
        command: click.Command = import_module(_module(name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "help":  # as of git, docker and kubectl
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            return super().resolve_command(ctx, [*args[1:], "--help"])
        if (instead := SHELL_COMMANDS.get(args[0])) is not None:
            raise Failure(f'"{args[0]}" is a command of "penstock shell": use it there, or {instead}')
        if args[0] in _SHELL_ONLY:
            raise Failure(
                f'"{args[0]}" is a command of "penstock shell" only: start it with "penstock shell"'
            )
        if args[0] not in _SUMMARIES and not args[0].startswith("-"):
            groups = [group for group, words in words_of_groups(self).items() if args[0] in words]
            if groups:
                meant = " or ".join(f'"penstock {group} {args[0]}"' for group in groups)
                ctx.fail(f'No such command "{args[0]}": did you mean {meant}?')
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly
        except OSError as error:
            if error.filename is None:
                raise
            raise Failure(f'cannot use "{error.filename}": {error.strerror}') from None
        except (KeyboardInterrupt, click.Abort):
            click.echo(err=True)  # what follows does not begin behind "^C"
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _SUMMARIES))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [name for name in _SUMMARIES if name.startswith(incomplete)]
        found = [CompletionItem(name, help=_SUMMARIES[name]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, "--version", message="penstock %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """A durable message broker that any Amazon SQS client can use unchanged.

    \b
    Examples:
      penstock serve                      start a broker; queues are stored in ./penstock-data
      penstock serve --memory --port 0    start a temporary broker on a free port
      penstock health                     exit code 0 if the broker is ready
      penstock check penstock.toml        check a config file before a start
      penstock serve --processes 4        start a broker of four processes
      penstock cluster status             show the nodes that share the database PENSTOCK_STORE
      penstock queue ls                   show queues, their messages and rates
      penstock                            in a terminal: work on queues and messages interactively
    """
    # A command says itself what failed. Python would print the log of its parts, and of the driver, beside that.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if ctx.invoked_subcommand is None:
        shell = main.get_command(ctx, "shell") if sys.stdin.isatty() and sys.stdout.isatty() else None
        if shell is None:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        shell.main([], prog_name="penstock shell", parent=ctx)
