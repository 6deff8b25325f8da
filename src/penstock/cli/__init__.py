"""The ``penstock`` command.

Commands are imported when they are called: neither help nor a health check loads the server.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

import click

from penstock import __version__
from penstock.cli.failure import Failure

__all__ = ["main"]

_COMMANDS = {
    "serve": "Start the broker.",
    "health": "Ask a running broker whether it is ready.",
    "check": "Check settings and declared queues without starting the broker.",
    "user": "Manage users and their access keys.",
    "role": "Manage roles that users and other accounts can assume.",
    "policy": "Manage the permissions of users and roles.",
    "env": "Print the environment variables a client needs to act as a user.",
    "audit": "Search the audit log: who called what, from where, and whether it was allowed.",
    "cert": "Create a certificate for development with HTTPS.",
    "key": "Manage the root key and the keys that encrypt messages.",
    "migrate": "Copy all queues and messages into another store.",
    "cluster": "Show and steer the nodes of a cluster.",
    "import-config": "Convert the configuration of ElasticMQ or GoAWS.",
}


class _Commands(click.Group):
    """Lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"penstock.cli.{name.replace('-', '_')}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly
        except OSError as error:
            if error.filename is None:
                raise
            raise Failure(f'cannot use "{error.filename}": {error.strerror}') from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, "--version", message="penstock %(version)s")
def main() -> None:
    """A durable message broker that any Amazon SQS client can use unchanged.

    \b
    Examples:
      penstock serve                      start a broker; queues are stored in ./penstock-data
      penstock serve --memory --port 0    start a temporary broker on a free port
      penstock health                     exit code 0 if the broker is ready
      penstock check penstock.toml        check a config file before a start
      penstock serve --workers 4          start a broker of four processes
      penstock cluster status             show the nodes that share the database PENSTOCK_STORE
    """
    # A command says itself what failed. Python would print the log of its parts, and of the driver, beside that.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
