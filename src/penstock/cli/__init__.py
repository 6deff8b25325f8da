"""The ``penstock`` command.

Commands are imported when they are called: asking for help, or for a server's health, loads no server.
"""

from __future__ import annotations

from importlib import import_module

import click

from penstock import __version__

__all__ = ["main"]

_COMMANDS = {
    "serve": "Start the broker.",
    "health": "Ask a running broker whether it is ready.",
    "check": "Check settings and declared queues without starting anything.",
    "user": "Users and their access keys.",
    "role": "Roles that users and other accounts can assume.",
    "policy": "What users and roles may do.",
    "env": "Print what a client needs to call the broker as a user.",
    "audit": "Show who called what, from where, and whether it was allowed.",
    "cert": "Make a certificate for development, to serve HTTPS with.",
    "key": "The root key, and the keys that messages are encrypted under.",
    "import-config": "Turn the configuration of ElasticMQ or GoAWS into ours.",
}


class _Commands(click.Group):
    """Knows the names and first lines of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"penstock.cli.{name.replace('-', '_')}").command
        return command

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
      penstock serve                      queues live in ./penstock-data
      penstock serve --memory --port 0    throw-away broker on a free port
      penstock health                     exit code 0 if it is ready
      penstock check penstock.toml        would this configuration start?
    """
