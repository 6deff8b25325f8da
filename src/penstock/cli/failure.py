"""How a command fails: one line on standard error and an exit code, no traceback."""

from __future__ import annotations

from typing import IO, Any

import click


class Failure(click.ClickException):
    """The operator has to change something: trying again does not help."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"penstock: {printable(self.message)}", err=True, file=file)


class Breakdown(Failure):
    """The command ran and could not continue: trying again may help."""

    exit_code = 1


def printable(text: str) -> str:
    """Replaces control characters, which could control the terminal: texts may come from files and other servers."""
    return "".join(c if c.isprintable() else "?" for c in text)
